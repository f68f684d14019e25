package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/usage"
)

const settlementColumns = `id, at, account_id, key_id, plan, tier, model_asked, model, provider, prompt, cached, completion, reasoning,
	counted, request_milli, unit_milli, cost_micro, status, ending, latency_ms, first_token_ms`

const sumColumns = `requests, failed, prompt, cached, completion, reasoning, request_milli, unit_milli, cost_micro, unpriced, latency_ms, first_token_ms, first_tokens`

// RecordSettlements stores the settlements it does not have yet and adds them to the sums.
func (s *Store) RecordSettlements(ctx context.Context, batch []usage.Settlement) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		hours, days := map[usage.Slot]usage.Sums{}, map[usage.Slot]usage.Sums{}
		for part := range slices.Chunk(batch, 100) {
			fresh, err := insertSettlements(ctx, tx, part)
			if err != nil {
				return err
			}
			for i := range part {
				r := &part[i]
				if !fresh[r.ID] {
					continue
				}
				delete(fresh, r.ID) // once, if the batch itself repeats it
				addTo(hours, r, usage.HourOf(r.At))
				addTo(days, r, usage.DayOf(r.At))
			}
		}
		if err := addSums(ctx, tx, "usage_hours", hours); err != nil {
			return err
		}
		return addSums(ctx, tx, "usage_days", days)
	})
}

func addTo(sums map[usage.Slot]usage.Sums, r *usage.Settlement, start time.Time) {
	slot := usage.Slot{AccountID: r.AccountID, KeyID: r.KeyID, Model: r.ModelUsed, Start: start}
	s := sums[slot]
	s.Add(r)
	sums[slot] = s
}

// insertSettlements returns the ids that were new.
func insertSettlements(ctx context.Context, tx *sql.Tx, part []usage.Settlement) (map[string]bool, error) {
	var args []any
	for i := range part {
		r := &part[i]
		args = append(args, r.ID, millis(r.At), r.AccountID, r.KeyID, r.Plan, r.Tier, r.ModelAsked, r.ModelUsed, r.Provider,
			r.Tokens.Prompt, r.Tokens.Cached, r.Tokens.Completion, r.Tokens.Reasoning, yesNo(r.Counted), r.RequestMilli, r.UnitMilli,
			nullInt(r.CostMicro), r.Status, string(r.End), r.Latency.Milliseconds(), r.FirstToken.Milliseconds())
	}
	rows, err := tx.QueryContext(ctx, `INSERT INTO settlements (`+settlementColumns+`) VALUES `+
		placeholders(len(part), 21)+` ON CONFLICT (id) DO NOTHING RETURNING id`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	fresh := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		fresh[id] = true
	}
	return fresh, rows.Err()
}

// addSums adds to the sums of each slot, in one order for all processes, so that they cannot deadlock.
func addSums(ctx context.Context, tx *sql.Tx, table string, sums map[usage.Slot]usage.Sums) error {
	slots := make([]usage.Slot, 0, len(sums))
	for slot := range sums {
		slots = append(slots, slot)
	}
	slices.SortFunc(slots, func(a, b usage.Slot) int {
		return strings.Compare(fmt.Sprint(a.AccountID, a.Start.Unix(), a.KeyID, a.Model), fmt.Sprint(b.AccountID, b.Start.Unix(), b.KeyID, b.Model))
	})
	names := strings.Split(sumColumns, ", ")
	for i, n := range names {
		names[i] = n + " = " + table + "." + n + " + excluded." + n
	}
	stmt, err := tx.PrepareContext(ctx, `INSERT INTO `+table+` (account_id, start, key_id, model, `+sumColumns+`) VALUES `+placeholders(1, 17)+`
		ON CONFLICT (account_id, start, key_id, model) DO UPDATE SET `+strings.Join(names, ", "))
	if err != nil {
		return err
	}
	defer stmt.Close()
	for _, slot := range slots {
		v := sums[slot]
		_, err := stmt.ExecContext(ctx, slot.AccountID, millis(slot.Start), slot.KeyID, slot.Model,
			v.Requests, v.Failed, v.Prompt, v.Cached, v.Completion, v.Reasoning, v.RequestMilli, v.UnitMilli, v.CostMicro, v.Unpriced, v.LatencyMS, v.FirstMS, v.First)
		if err != nil {
			return err
		}
	}
	return nil
}

// UsageByDay returns an account's sums by day, key and model, from a day on.
func (s *Store) UsageByDay(ctx context.Context, accountID string, from time.Time) ([]usage.Row, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT account_id, start, key_id, model, `+sumColumns+` FROM usage_days
		WHERE account_id = $1 AND start >= $2 ORDER BY start, key_id, model`, accountID, millis(from))
	if err != nil {
		return nil, unavailable(err)
	}
	defer rows.Close()
	var out []usage.Row
	for rows.Next() {
		var r usage.Row
		var start int64
		if err := rows.Scan(append([]any{&r.AccountID, &start, &r.KeyID, &r.Model}, sumTargets(&r.Sums)...)...); err != nil {
			return nil, unavailable(err)
		}
		r.Start = fromMillis(start)
		out = append(out, r)
	}
	return out, unavailable(rows.Err())
}

func sumTargets(v *usage.Sums) []any {
	return []any{
		&v.Requests, &v.Failed, &v.Prompt, &v.Cached, &v.Completion, &v.Reasoning, &v.RequestMilli, &v.UnitMilli,
		&v.CostMicro, &v.Unpriced, &v.LatencyMS, &v.FirstMS, &v.First,
	}
}

const dayMillis = 24 * 60 * 60 * 1000

// recount is the sums of one table by account and day.
func (s *Store) recount(ctx context.Context, query string, from time.Time) (map[usage.Slot]usage.Sums, error) {
	rows, err := s.read.QueryContext(ctx, query, millis(from))
	if err != nil {
		return nil, unavailable(err)
	}
	defer rows.Close()
	out := map[usage.Slot]usage.Sums{}
	for rows.Next() {
		var slot usage.Slot
		var day int64
		var v usage.Sums
		if err := rows.Scan(append([]any{&slot.AccountID, &day}, sumTargets(&v)...)...); err != nil {
			return nil, unavailable(err)
		}
		slot.Start = time.UnixMilli(day * dayMillis).UTC()
		out[slot] = v
	}
	return out, unavailable(rows.Err())
}

// AuditUsage recounts the settlements by account and day and holds them against the sums, from a day
// on. It returns every difference, and how many account days were compared.
func (s *Store) AuditUsage(ctx context.Context, from time.Time) ([]usage.Difference, int, error) {
	day := fmt.Sprintf("%d", dayMillis)
	rows, err := s.recount(ctx, `SELECT account_id, at / `+day+` AS day, COUNT(*), SUM(CASE WHEN ending = 'complete' THEN 0 ELSE 1 END),
		SUM(prompt + cached), SUM(cached), SUM(completion + reasoning), SUM(reasoning), SUM(request_milli), SUM(unit_milli),
		SUM(COALESCE(cost_micro, 0)), SUM(CASE WHEN cost_micro IS NULL THEN 1 ELSE 0 END), SUM(latency_ms), SUM(first_token_ms),
		SUM(CASE WHEN first_token_ms > 0 THEN 1 ELSE 0 END) FROM settlements WHERE at >= $1 GROUP BY account_id, at / `+day, from)
	if err != nil {
		return nil, 0, err
	}
	var differences []usage.Difference
	for _, table := range []string{"usage_days", "usage_hours"} {
		var sums []string
		for c := range strings.SplitSeq(sumColumns, ", ") {
			sums = append(sums, "SUM("+c+")")
		}
		have, err := s.recount(ctx, `SELECT account_id, start / `+day+` AS day, `+strings.Join(sums, ", ")+` FROM `+table+`
			WHERE start >= $1 GROUP BY account_id, start / `+day, from)
		if err != nil {
			return nil, 0, err
		}
		differences = append(differences, compare(table, rows, have)...)
	}
	return differences, len(rows), nil
}

func compare(what string, rows, sums map[usage.Slot]usage.Sums) (out []usage.Difference) {
	all := map[usage.Slot]bool{}
	for slot := range rows {
		all[slot] = true
	}
	for slot := range sums {
		all[slot] = true
	}
	for slot := range all {
		if rows[slot] != sums[slot] {
			out = append(out, usage.Difference{AccountID: slot.AccountID, Day: slot.Start, What: what, Rows: rows[slot], Sums: sums[slot]})
		}
	}
	slices.SortFunc(out, func(a, b usage.Difference) int {
		return strings.Compare(a.AccountID+a.Day.String(), b.AccountID+b.Day.String())
	})
	return out
}

// HasSettlements returns which of the ids are stored.
func (s *Store) HasSettlements(ctx context.Context, ids []string) (map[string]bool, error) {
	have := map[string]bool{}
	for part := range slices.Chunk(ids, 500) {
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		list := placeholders(1, len(part))
		rows, err := s.read.QueryContext(ctx, `SELECT id FROM settlements WHERE id IN `+list, args...)
		if err != nil {
			return nil, unavailable(err)
		}
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				rows.Close()
				return nil, unavailable(err)
			}
			have[id] = true
		}
		if err := rows.Close(); err != nil {
			return nil, unavailable(err)
		}
	}
	return have, nil
}

// DropSettlements deletes up to most rows made before a time; their sums stay. It returns how many.
func (s *Store) DropSettlements(ctx context.Context, before time.Time, most int) (int64, error) {
	var n int64
	err := s.tx(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM settlements WHERE id IN (SELECT id FROM settlements WHERE at < $1 ORDER BY at LIMIT $2)`, millis(before), most)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	return n, err
}

// placeholders is "($1, $2), ($3, $4)" for two rows of two.
func placeholders(rows, columns int) string {
	var b strings.Builder
	n := 0
	for r := range rows {
		if r > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('(')
		for c := range columns {
			if c > 0 {
				b.WriteString(", ")
			}
			n++
			fmt.Fprintf(&b, "$%d", n)
		}
		b.WriteByte(')')
	}
	return b.String()
}

func nullInt(v *int64) sql.NullInt64 {
	if v == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: *v, Valid: true}
}
