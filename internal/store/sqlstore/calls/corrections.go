package calls

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

// correctionColumns are in the order of Correct.
const correctionColumns = `at, id, number, account_id, key_id, model, cost_nano, margin_nano, priced, old_version, new_version, reason, actor, made_at, saved_nano, saved_margin_nano`

// corrected is, behind settlementColumns where settlements are read, what their corrections add up to, as scanCorrected reads
// it. It is NULL for most. The queries name the table settlements.
const corrected = `, (SELECT COUNT(*) || ' ' || SUM(c.cost_nano) || ' ' || SUM(c.margin_nano) || ' ' || MAX(c.priced) || ' ' || COALESCE(SUM(c.saved_nano), 0) || ' ' || SUM(c.saved_margin_nano) FROM price_corrections c WHERE c.at = settlements.at AND c.id = settlements.id)
	|| ' ' || (SELECT c.new_version FROM price_corrections c WHERE c.at = settlements.at AND c.id = settlements.id ORDER BY c.number DESC LIMIT 1) AS corrected`

// scanCorrected adds what the column corrected says to a settlement.
func scanCorrected(r *usage.Settlement, text *string) error {
	if text == nil {
		return nil
	}
	var c usage.Corrected
	var priced int
	var version string
	// The version is the last, since it may be empty.
	if n, err := fmt.Sscanf(*text, "%d %d %d %d %d %d", &c.Times, &c.Cost, &c.Margin, &priced, &c.Saved, &c.SavedMargin); n < 6 {
		return fmt.Errorf("read the corrections of %s: %w", r.ID, err)
	}
	if fields := strings.SplitN(*text, " ", 7); len(fields) == 7 {
		version = fields[6]
	}
	c.Priced = priced == 1
	r.Correct(c, version)
	return nil
}

var intoCorrections = sqlstore.Insertion{Into: `price_corrections (` + correctionColumns + `)`, Columns: 16, Conflict: `ON CONFLICT (at, id, number) DO NOTHING`}

// Correct stores corrections, and adds them to the sums of the hours and days of their calls, and to the activity as far as it is
// kept. It stores all of them, or none and usage.ErrCorrected if one has been corrected by somebody else since it was read.
func (s *Store) Correct(ctx context.Context, fixes []usage.Fix) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		ctx, to := tx.Bulk()
		stored, err := to.Insert(ctx, &intoCorrections, len(fixes), func(values []any, i int) []any {
			f, priced := &fixes[i], int64(0)
			if f.Priced {
				priced = 1
			}
			return append(values, sqlstore.Millis(f.Call.At), f.Call.ID, int64(f.Number), f.Call.AccountID, f.Call.KeyID, f.Call.ModelUsed,
				int64(f.Cost), int64(f.Margin), priced, f.Old, f.New, f.Reason, f.By, sqlstore.Millis(f.MadeAt), int64(f.Saved), int64(f.SavedMargin))
		})
		switch {
		case err != nil:
			return err
		case stored != int64(len(fixes)):
			return usage.ErrCorrected
		}
		hours, days := map[usage.Slot]*usage.Sums{}, map[usage.Slot]*usage.Sums{}
		for i := range fixes {
			f := &fixes[i]
			slot := usage.Slot{AccountID: f.Call.AccountID, KeyID: f.Call.KeyID, Model: f.Call.ModelUsed, Start: usage.HourOf(f.Call.At)}
			entry(hours, slot).Correct(&f.Correction)
			slot.Start = usage.DayOf(f.Call.At)
			entry(days, slot).Correct(&f.Correction)
		}
		if err := addSums(ctx, to, "usage_hours", hours); err != nil {
			return err
		}
		if err := addSums(ctx, to, "usage_days", days); err != nil {
			return err
		}
		if err := correctProviders(ctx, to, fixes); err != nil {
			return err
		}
		if err := correctSessions(tx, fixes); err != nil {
			return err
		}
		if err := correctTags(tx, fixes); err != nil {
			return err
		}
		return correctActivity(tx, fixes)
	})
}

// correctActivity adds corrections to the activity. It adds no rows: those that are missing have expired.
func correctActivity(tx *sqlstore.Conn, fixes []usage.Fix) error {
	cells := map[cellKey]*usage.Tally{}
	for i := range fixes {
		f := &fixes[i]
		for span, start := range map[int64]time.Time{hourSpan: usage.HourOf(f.Call.At), daySpan: usage.DayOf(f.Call.At)} {
			t := entry(cells, cellKey{f.Call.AccountID, span, sqlstore.Millis(start), usage.KindOf(f.Call)})
			t.Cost, t.Margin = t.Cost+f.Cost, t.Margin+f.Margin
			t.Saved, t.SavedMargin = t.Saved+f.Saved, t.SavedMargin+f.SavedMargin
			if f.Priced && f.Call.Unpriced() {
				t.Unpriced--
			}
		}
	}
	list := slices.SortedFunc(maps.Keys(cells), compareCells)
	return tx.ExecEach(len(list), func(i int) []any {
		k, t := &list[i], cells[list[i]]
		micro, rest := usage.SplitCost(t.Cost)
		return []any{k.accountID, k.span, k.start, k.KeyID, k.Asked, k.Model, k.Status, string(k.End), micro, rest, int64(t.Margin), t.Unpriced, int64(t.Saved), int64(t.SavedMargin)}
	}, `UPDATE activity SET cost_micro = cost_micro + $9, cost_nano = cost_nano + $10, margin_nano = margin_nano + $11, unpriced = unpriced + $12,
			saved_nano = saved_nano + $13, saved_margin_nano = saved_margin_nano + $14
		WHERE account_id = $1 AND span = $2 AND start = $3 AND key_id = $4 AND asked = $5 AND model = $6 AND status = $7 AND ending = $8`)
}

// compareCells orders cells as their primary key does.
func compareCells(a, b cellKey) int {
	return cmp.Or(strings.Compare(a.accountID, b.accountID), cmp.Compare(a.span, b.span), cmp.Compare(a.start, b.start), strings.Compare(a.KeyID, b.KeyID),
		strings.Compare(a.Asked, b.Asked), strings.Compare(a.Model, b.Model), cmp.Compare(a.Status, b.Status), strings.Compare(string(a.End), string(b.End)))
}

// Corrections returns the corrections of those settlements in the list that have some, by the ids of the settlements, the oldest
// first.
func (s *Store) Corrections(ctx context.Context, list []usage.Settlement) (map[string][]usage.Correction, error) {
	out := map[string][]usage.Correction{}
	list = slices.DeleteFunc(slices.Clone(list), func(r usage.Settlement) bool { return r.Corrected == nil })
	for part := range slices.Chunk(list, 100) {
		args, pairs := pairsOf(part)
		err := s.db.Read(ctx).Each(func(row sqlstore.Row) error {
			var id string
			var c usage.Correction
			err := row.Scan(&id, &c.Number, &c.Cost, &c.Margin, &c.Priced, &c.Old, &c.New, &c.Reason, &c.By, &c.MadeAt, &c.Saved, &c.SavedMargin)
			out[id] = append(out[id], c)
			return err
		}, `SELECT id, number, cost_nano, margin_nano, priced, old_version, new_version, reason, actor, made_at, COALESCE(saved_nano, 0), saved_margin_nano FROM price_corrections
			WHERE `+pairs+` ORDER BY at, id, number`, args...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pairsOf returns the condition that a row has the time and the id of one of the settlements, and its arguments.
func pairsOf(part []usage.Settlement) ([]any, string) {
	args, pairs := make([]any, 0, 2*len(part)), make([]string, len(part))
	for i := range part {
		args = append(args, part[i].At, part[i].ID)
		pairs[i] = fmt.Sprintf("at = $%d AND id = $%d", 2*i+1, 2*i+2)
	}
	return args, strings.Join(pairs, " OR ")
}

// SettledAfter returns at most limit settlements after a point and before a time, of one account or of all, the oldest first.
func (s *Store) SettledAfter(ctx context.Context, accountID string, after usage.Point, to time.Time, limit int) ([]usage.Settlement, error) {
	query, args := `SELECT `+settlementColumns+corrected+`, way FROM settlements WHERE at >= $1 AND (at > $1 OR id > $2) AND at < $3`, []any{after.At, after.ID, to, limit}
	if accountID != "" {
		query, args = query+` AND account_id = $5`, append(args, accountID)
	}
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, r *usage.Settlement) error {
		var way []byte
		err := scanSettlementMore(row, r, &way)
		r.Trace, _ = usage.ParseTrace(way) // one of a newer version is left out
		return err
	}, query+` ORDER BY at, id LIMIT $4`, args...)
}

// CostRows adds up some of an account's calls by day and by the model that answered, with their corrections.
//
// Whole hours and days are read from the sums, which are kept for ever; everything else is added up from the settlements.
func (s *Store) CostRows(ctx context.Context, p usage.Selection) (rows []usage.Row, err error) {
	if table := sumsOf(&p); table != "" {
		query, args := narrowed(`SELECT start / `+days+` * `+days+`, model, `+summed(sumsRead, ", ")+` FROM `+table+` WHERE account_id = $1 AND start >= $2 AND start < $3`,
			[]any{p.AccountID, p.From, p.To}, &p.Narrow, "model")
		return costRows(s.db.Read(ctx), p.AccountID, query, args)
	}
	err = s.db.SnapshotTx(ctx, func(tx *sqlstore.Conn) error {
		args := []any{p.AccountID, p.From, p.To}
		query, all := narrowed(`SELECT at / `+days+` * `+days+`, model, `+recounts+` FROM settlements WHERE account_id = $1 AND at >= $2 AND at < $3`, args, &p.Narrow, "model_asked")
		if rows, err = costRows(tx, p.AccountID, query, all); err != nil {
			return err
		}
		query, all = narrowed(`SELECT at / `+days+` * `+days+`, model, 0, 0, 0, 0, 0, 0, 0, 0, SUM(cost), SUM(margin), 0, -SUM(priced), 0, 0, 0, 0, SUM(saved), SUM(saved_margin)
			FROM (SELECT c.at AS at, c.cost_nano AS cost, c.margin_nano AS margin, c.priced AS priced, COALESCE(c.saved_nano, 0) AS saved, c.saved_margin_nano AS saved_margin, s.key_id AS key_id, s.model AS model, s.model_asked AS model_asked, s.ending AS ending
				FROM price_corrections c JOIN settlements s ON s.at = c.at AND s.id = c.id WHERE c.account_id = $1 AND c.at >= $2 AND c.at < $3) AS fixed WHERE at >= $2`,
			args, &p.Narrow, "model_asked")
		fixed, err := costRows(tx, p.AccountID, query, all)
		for i := range fixed {
			at := slices.IndexFunc(rows, func(r usage.Row) bool { return r.Slot == fixed[i].Slot })
			rows[at].Merge(fixed[i].Sums) // their settlements are there
		}
		return err
	})
	return rows, err
}

// days is dayMillis in a query.
var days = strconv.Itoa(dayMillis)

// sumsOf returns the table that has the sums of a selection; empty if none has.
func sumsOf(p *usage.Selection) string {
	switch {
	case p.Model != "" || len(p.Ends) > 0 || !usage.HourOf(p.From).Equal(p.From) || !usage.HourOf(p.To).Equal(p.To):
		return ""
	case usage.DayOf(p.From).Equal(p.From) && usage.DayOf(p.To).Equal(p.To):
		return "usage_days"
	default:
		return "usage_hours"
	}
}

// costRows runs a query of CostRows.
func costRows(c *sqlstore.Conn, accountID, query string, args []any) ([]usage.Row, error) {
	return sqlstore.All(c, func(row sqlstore.Row, r *usage.Row) error {
		r.AccountID = accountID
		return row.Scan(append([]any{&r.Start, &r.Model}, sumTargets(&r.Sums)...)...)
	}, query+` GROUP BY 1, model ORDER BY 1, model`, args...)
}

// recountCorrections adds the corrections of all accounts to the recounted sums of their days.
func recountCorrections(tx *sqlstore.Conn, rows map[usage.Slot]recounted, from int64) error {
	return addFixes(tx, rows, `SELECT account_id, at / `+days+`, SUM(cost_nano), SUM(margin_nano), SUM(priced), COALESCE(SUM(saved_nano), 0), SUM(saved_margin_nano) FROM price_corrections WHERE at >= $1 GROUP BY account_id, at / `+days, from)
}

// addFixes adds the corrections that a query adds up by day to recounted sums.
func addFixes(tx *sqlstore.Conn, rows map[usage.Slot]recounted, query string, from int64) error {
	return tx.Each(func(row sqlstore.Row) error {
		var slot usage.Slot
		var more usage.Sums
		var day, priced int64
		if err := row.Scan(&slot.AccountID, &day, &more.Cost, &more.Margin, &priced, &more.Saved, &more.SavedMargin); err != nil {
			return err
		}
		slot.Start = time.UnixMilli(day * dayMillis).UTC()
		more.Unpriced = -priced
		sums := rows[slot]
		sums.Merge(more)
		rows[slot] = sums
		return nil
	}, query, from)
}
