package calls

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

const (
	// kindColumns are the key of the table of activity, in the order of addActivity.
	kindColumns = `account_id, span, start, key_id, asked, model, status, ending`
	// tallyColumns are in the order of tallyValues and tallyTargets.
	tallyColumns = `calls, prompt, cached, completion, reasoning, unit_milli, cost_micro, cost_nano, margin_nano, written, unpriced, cacheable, saved_nano, saved_margin_nano, took_0, took_1, took_2, took_3, took_4, took_5, first_0, first_1, first_2, first_3, first_4, first_5`
	// tallyFields is the number of columns in tallyColumns.
	tallyFields = 26

	hourSpan, daySpan = 3600, 86400 // seconds
)

// cellKey is what calls are counted together by.
type cellKey struct {
	accountID string
	span      int64
	start     int64
	usage.Kind
}

// addActivity adds settlements to the activity of their accounts. All nodes lock the rows in the same order.
func addActivity(ctx context.Context, to sqlstore.Bulk, batch []usage.Settlement) error {
	hours, days := map[cellKey]*usage.Tally{}, map[cellKey]*usage.Tally{}
	for i := range batch {
		if r := &batch[i]; r.AccountID != "" {
			entry(hours, cellKey{r.AccountID, hourSpan, sqlstore.Millis(usage.HourOf(r.At)), usage.KindOf(r)}).Add(r)
		}
	}
	for key, tally := range hours {
		key.span, key.start = daySpan, sqlstore.Millis(usage.DayOf(sqlstore.Time(key.start)))
		entry(days, key).Merge(tally)
	}
	maps.Copy(hours, days) // the span is part of the key
	list := slices.SortedFunc(maps.Keys(hours), compareCells)
	upsert := adding("activity", kindColumns, tallyColumns)
	_, err := to.Insert(ctx, upsert, len(list), func(values []any, i int) []any {
		k, t := &list[i], hours[list[i]]
		b := boxes(values).texts(k.accountID).numbers(k.span, k.start).texts(k.KeyID, k.Asked, k.Model).numbers(int64(k.Status)).texts(string(k.End))
		micro, rest := usage.SplitCost(t.Cost)
		b = b.numbers(t.Calls, t.Prompt, t.Cached, t.Completion, t.Reasoning, t.UnitMilli, micro, rest, int64(t.Margin), t.Written, t.Unpriced, t.Cacheable, int64(t.Saved), int64(t.SavedMargin))
		took, first := t.Took.Packed(), t.First.Packed()
		return b.numbers(took[:]...).numbers(first[:]...)
	})
	return err
}

// cellsQuery returns the query of Cells and its arguments. Sums are made in the database: a page that shows days has no
// use for hours.
func cellsQuery(q *usage.CellQuery) (string, []any) {
	span := int64(hourSpan)
	if q.Step >= daySpan*time.Second {
		span = daySpan
	}
	// Rows of whole spans are as they are stored. Longer steps are added up. All numbers come as one text: each column that
	// SQLite hands over costs more than the text of its number.
	const between = " || ',' || "
	columns, group := strings.ReplaceAll(tallyColumns, ", ", between), ""
	if q.Step > time.Duration(span)*time.Second {
		columns, group = summed(tallyColumns, between), ` GROUP BY start / $4 * $4, key_id, asked, model, status, ending`
	}
	query := `SELECT start / $4 * $4, key_id, asked, model, status, ending, ` + columns + ` FROM activity WHERE account_id = $1 AND span = $2 AND start >= $3`
	args := []any{q.AccountID, span, q.From, q.Step}
	if !q.To.IsZero() {
		query, args = query+` AND start < $5`, append(args, q.To)
	}
	query, args = narrowed(query, args, &q.Narrow, "asked")
	return query + group, args
}

// narrowed adds the conditions of a Narrow to a query. asked is the column of the model that was asked for.
func narrowed(query string, args []any, n *usage.Narrow, asked string) (string, []any) {
	add := func(condition, value string) {
		if value != "" {
			args = append(args, value)
			query += ` AND ` + strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(args)))
		}
	}
	add(`key_id = ?`, n.KeyID)
	add(`(`+asked+` = ? OR model = ?)`, n.Model)
	add(`model = ?`, n.Served)
	if len(n.Ends) > 0 {
		var in string
		in, args = sqlstore.Among(n.Ends, args...)
		query += ` AND ending IN ` + in
	}
	return query, args
}

// Cells returns an account's calls by steps of time and by kind, in no order.
func (s *Store) Cells(ctx context.Context, q usage.CellQuery) (out []usage.Cell, err error) {
	query, args := cellsQuery(&q)
	var text string
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, c *usage.Cell) error {
		if err := row.Scan(&c.Start, &c.KeyID, &c.Asked, &c.Model, &c.Status, &c.End, &text); err != nil {
			return err
		}
		return readTally(&c.Tally, text)
	}, query, args...)
}

// CellsSince returns the start of the oldest cell of an account by the hour, or by the day if the step is as long; zero if it has none.
func (s *Store) CellsSince(ctx context.Context, accountID string, step time.Duration) (time.Time, error) {
	list, err := sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, at *time.Time) error { return row.Scan(at) },
		`SELECT start FROM activity WHERE account_id = $1 AND span = $2 ORDER BY start LIMIT 1`, accountID, int64(step/time.Second))
	if err != nil || len(list) == 0 {
		return time.Time{}, err
	}
	return list[0], nil
}

// readTally reads the numbers of tallyColumns, with commas between them.
func readTally(t *usage.Tally, text string) (err error) {
	var n [tallyFields]int64
	for i := range n {
		number := ""
		number, text, _ = strings.Cut(text, ",")
		if n[i], err = strconv.ParseInt(number, 10, 64); err != nil {
			return fmt.Errorf("read activity: %w", err)
		}
	}
	t.Calls, t.Prompt, t.Cached, t.Completion, t.Reasoning, t.UnitMilli = n[0], n[1], n[2], n[3], n[4], n[5]
	t.Cost, t.Margin, t.Written, t.Unpriced = usage.JoinCost(n[6], n[7]), price.Nano(n[8]), n[9], n[10]
	t.Caching = usage.Caching{Cacheable: n[11], Saved: price.Nano(n[12]), SavedMargin: price.Nano(n[13])}
	t.Took.Unpack([usage.SpreadColumns]int64(n[14:]))
	t.First.Unpack([usage.SpreadColumns]int64(n[14+usage.SpreadColumns:]))
	return nil
}

// callsPageQuery returns the query of Calls and its arguments. The inner query looks at as many calls as an index finds
// in their order; the outer one picks. Where nothing is left out, one query is enough.
func callsPageQuery(q *usage.CallQuery) (string, []any) {
	if q.Narrow.Empty() {
		return `SELECT ` + settlementColumns + corrected + `, way FROM settlements WHERE account_id = $1 AND at <= $2 AND (at < $2 OR id < $3) AND at >= $4 ORDER BY at DESC, id DESC LIMIT $5`,
			[]any{q.AccountID, q.Before.At, q.Before.ID, q.From, min(q.Limit, q.Look)}
	}
	query, args := narrowed(`SELECT `+settlementColumns+`, corrected, way FROM (SELECT `+settlementColumns+corrected+`, way FROM settlements
		WHERE account_id = $1 AND at <= $2 AND (at < $2 OR id < $3) AND at >= $4 ORDER BY at DESC, id DESC LIMIT $5) AS newest WHERE id <> ''`,
		[]any{q.AccountID, q.Before.At, q.Before.ID, q.From, q.Look, q.Limit}, &q.Narrow, "model_asked")
	return query + ` ORDER BY at DESC, id DESC LIMIT $6`, args
}

// lookedQuery finds the last call that callsPageQuery has looked at.
const lookedQuery = `SELECT at, id FROM settlements WHERE account_id = $1 AND at <= $2 AND (at < $2 OR id < $3) AND at >= $4 ORDER BY at DESC, id DESC LIMIT 1 OFFSET $5`

// scanListed reads a call of a list. Of its way it keeps the session and why the router chose the model: pages show no more of it.
func scanListed(row sqlstore.Row, r *usage.Settlement) error {
	var way []byte
	err := scanSettlementMore(row, r, &way)
	if t, _ := usage.ParseTrace(way); t != nil && t.Session+t.Reason != "" {
		r.Trace = &usage.Trace{Session: t.Session, Reason: t.Reason}
	}
	return err
}

// Calls returns an account's calls before a point, newest first.
func (s *Store) Calls(ctx context.Context, q usage.CallQuery) (page usage.CallPage, err error) {
	query, args := callsPageQuery(&q)
	if page.Calls, err = sqlstore.All(s.db.Read(ctx), scanListed, query, args...); err != nil {
		return usage.CallPage{}, err
	}
	n := len(page.Calls)
	if n == q.Limit || n == q.Look {
		page.Next = &usage.Point{At: page.Calls[n-1].At, ID: page.Calls[n-1].ID}
		return page, nil
	}
	if q.Narrow.Empty() {
		return page, nil
	}
	page.Next, err = sqlstore.One(s.db.Read(ctx), func(row sqlstore.Row, p *usage.Point) error { return row.Scan(&p.At, &p.ID) },
		lookedQuery, q.AccountID, q.Before.At, q.Before.ID, q.From, q.Look-1)
	return page, err
}

// keyNamesQuery reads the keys that were made last.
const keyNamesQuery = `SELECT id, name, master, CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END FROM api_keys WHERE account_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2`

// KeyNames returns the names of an account's keys, of deleted ones, too; the newest limit of them.
func (s *Store) KeyNames(ctx context.Context, accountID string, limit int) ([]usage.KeyName, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, k *usage.KeyName) error {
		return row.Scan(&k.ID, &k.Name, &k.Master, &k.Deleted)
	}, keyNamesQuery, accountID, limit)
}

// dropHours and dropDays delete up to most rows of activity that are too old.
func (s *Store) dropHours(ctx context.Context, now time.Time, most int) (int, error) {
	return s.dropActivity(ctx, hourSpan, now.Add(-usage.KeepHours), most)
}

func (s *Store) dropDays(ctx context.Context, now time.Time, most int) (int, error) {
	return s.dropActivity(ctx, daySpan, now.Add(-usage.KeepDays), most)
}

func (s *Store) dropActivity(ctx context.Context, span int64, before time.Time, most int) (int, error) {
	return s.db.Prune(ctx, `DELETE FROM activity WHERE (`+kindColumns+`) IN
		(SELECT `+kindColumns+` FROM activity WHERE span = $1 AND start < $2 ORDER BY start LIMIT $3)`, span, before, most)
}
