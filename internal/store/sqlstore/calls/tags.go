package calls

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/session"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

const (
	tagKeys    = `account_id, day, tag`
	tagColumns = `calls, prompt, completion, cost_nano, margin_nano, unpriced`
)

// tagKey names the calls of an account with a tag on a day.
type tagKey struct {
	account string
	day     int64
	tag     string
}

func (k tagKey) compare(o tagKey) int {
	return cmp.Or(strings.Compare(k.account, o.account), cmp.Compare(k.day, o.day), strings.Compare(k.tag, o.tag))
}

// tagDay is a day of an account: a tagKey without the tag.
func tagDay(r *usage.Settlement) tagKey {
	return tagKey{account: r.AccountID, day: sqlstore.Millis(usage.DayOf(r.At))}
}

// tagNames has the tags that are counted by name, by day. A tag that is in none counts as session.OtherTag.
type tagNames map[tagKey]map[string]bool

// tagNamesOf returns which tags of calls are counted by name: those that are, and new ones as long as there is room. It is nil if
// no call has a tag. Servers that store batches at the same time may together keep a few more than session.MaxTags.
func tagNamesOf(c *sqlstore.Conn, calls iter.Seq[*usage.Settlement]) (all tagNames, err error) {
	for r := range calls {
		if len(r.Terms.Tags) == 0 || r.AccountID == "" {
			continue
		}
		if all == nil {
			all = tagNames{}
		}
		day := tagDay(r)
		names := all[day]
		if names == nil {
			there, err := sqlstore.All(c, sqlstore.Column[string], `SELECT tag FROM tag_days WHERE account_id = $1 AND day = $2`, day.account, day.day)
			if err != nil {
				return nil, err
			}
			names = make(map[string]bool, len(there)+len(r.Terms.Tags))
			for _, tag := range there {
				names[tag] = true
			}
			all[day] = names
		}
		for _, tag := range r.Terms.Tags {
			if len(names) < session.MaxTags-1 { // and session.OtherTag
				names[tag] = true
			}
		}
	}
	return all, nil
}

// of yields the rows that a call counts for.
func (t tagNames) of(r *usage.Settlement) iter.Seq[tagKey] {
	return func(yield func(tagKey) bool) {
		key, other := tagDay(r), false
		names := t[key]
		if names == nil {
			return
		}
		for _, tag := range r.Terms.Tags {
			if key.tag = tag; !names[tag] {
				if other { // a call with several tags beyond the bound is one call
					continue
				}
				key.tag, other = session.OtherTag, true
			}
			if !yield(key) {
				return
			}
		}
	}
}

// settled yields the settlements of a batch.
func settled(batch []usage.Settlement) iter.Seq[*usage.Settlement] {
	return func(yield func(*usage.Settlement) bool) {
		for i := range batch {
			if !yield(&batch[i]) {
				return
			}
		}
	}
}

// addTags adds settlements to the sums of their tags. All nodes lock the rows in the same order.
func addTags(ctx context.Context, to sqlstore.Bulk, batch []usage.Settlement, names tagNames) error {
	if names == nil {
		return nil
	}
	all := map[tagKey]*session.Sums{}
	for r := range settled(batch) {
		for key := range names.of(r) {
			entry(all, key).Add(r)
		}
	}
	list := slices.SortedFunc(maps.Keys(all), tagKey.compare)
	_, err := to.Insert(ctx, adding("tag_days", tagKeys, tagColumns), len(list), func(values []any, i int) []any {
		k, s := list[i], all[list[i]]
		b := boxes(values).texts(k.account).numbers(k.day).texts(k.tag)
		return b.numbers(s.Calls, s.Prompt, s.Completion, int64(s.Cost), int64(s.Margin), s.Unpriced)
	})
	return err
}

// correctTags adds corrections to the sums of tags. It adds no rows.
func correctTags(tx *sqlstore.Conn, fixes []usage.Fix) error {
	names, err := tagNamesOf(tx, func(yield func(*usage.Settlement) bool) {
		for i := range fixes {
			if !yield(fixes[i].Call) {
				return
			}
		}
	})
	if err != nil || names == nil {
		return err
	}
	all := map[tagKey]*session.Sums{}
	for i := range fixes {
		for key := range names.of(fixes[i].Call) {
			entry(all, key).Correct(&fixes[i])
		}
	}
	list := slices.SortedFunc(maps.Keys(all), tagKey.compare)
	return tx.ExecEach(len(list), func(i int) []any {
		k, s := list[i], all[list[i]]
		return []any{k.account, k.day, k.tag, int64(s.Cost), int64(s.Margin), s.Unpriced}
	}, `UPDATE tag_days SET cost_nano = cost_nano + $4, margin_nano = margin_nano + $5, unpriced = unpriced + $6 WHERE account_id = $1 AND day = $2 AND tag = $3`)
}

// TagDays returns an account's sums by day and tag since a day, in this order.
func (s *Store) TagDays(ctx context.Context, accountID string, from time.Time) ([]session.TagDay, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, d *session.TagDay) error {
		return row.Scan(&d.Day, &d.Tag, &d.Calls, &d.Prompt, &d.Completion, &d.Cost, &d.Margin, &d.Unpriced)
	}, `SELECT day, tag, `+tagColumns+` FROM tag_days WHERE account_id = $1 AND day >= $2 ORDER BY day, tag`, accountID, from)
}
