package calls

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

// settlementColumns are in the order of appendValues and scanSettlement.
const settlementColumns = `id, at, account_id, key_id, plan, tier, model_asked, model, provider, prompt, cached, completion, reasoning,
	counted, request_milli, unit_milli, cost_micro, status, ending, latency_ms, first_token_ms, mcp_calls, mcp_failed, door, cache_write_5m, cache_write_1h, cache_write,
	cost_nano, margin_nano, price_version, details, cacheable, saved_nano, saved_margin_nano`

// wayColumns follow settlementColumns where the way of a call is stored or read.
const wayColumns = `, request_id, way`

// sumColumns are in the order of addSums, and sumsRead in that of sumTargets.
const (
	sumColumns = `requests, failed, prompt, cached, completion, reasoning, request_milli, unit_milli, cost_micro, cost_nano, margin_nano, written, unpriced, latency_ms, first_token_ms, first_tokens, cacheable, saved_nano, saved_margin_nano`
	sumsRead   = `requests, failed, prompt, cached, completion, reasoning, request_milli, unit_milli, cost_micro * 1000 + cost_nano, margin_nano, written, unpriced, latency_ms, first_token_ms, first_tokens, cacheable, saved_nano, saved_margin_nano`
)

// settlementFields is the number of columns in settlementColumns and wayColumns.
const settlementFields = 36

// appendValues appends the columns of a settlement as int64 and string, the types that drivers
// accept without conversion. A cost or a way that is not known is NULL.
func appendValues(to []any, r *usage.Settlement) []any {
	counted := int64(0)
	if r.Counted {
		counted = 1
	}
	b := boxes(to)
	b = b.texts(r.ID).numbers(sqlstore.Millis(r.At)).texts(r.AccountID, r.KeyID, r.Plan, r.Tier, r.ModelAsked, r.ModelUsed, r.Provider)
	b = b.numbers(int64(r.Tokens.Prompt), int64(r.Tokens.Cached), int64(r.Tokens.Completion), int64(r.Tokens.Reasoning),
		counted, r.RequestMilli, r.UnitMilli)
	rest := int64(0)
	if r.Cost != nil {
		var micro int64
		micro, rest = usage.SplitCost(*r.Cost)
		b = b.numbers(micro)
	} else {
		b = append(b, nil)
	}
	b = b.numbers(int64(r.Status)).texts(string(r.End)).numbers(r.Latency.Milliseconds(), r.FirstToken.Milliseconds(), int64(r.MCPCalls), int64(r.MCPFailed))
	b = b.texts(r.Door).numbers(int64(r.Tokens.CacheWrite5m), int64(r.Tokens.CacheWrite1h), int64(r.Tokens.CacheWrite), rest, int64(r.Margin)).texts(r.Terms.Version, r.Details()).numbers(r.Cacheable, int64(r.Saved), int64(r.SavedMargin)).texts(givenID(r))
	if r.Trace != nil {
		return append(b, usage.AppendTrace(make([]byte, 0, 128), r.Trace))
	}
	return append(b, nil)
}

// boxes is a row of values. Behind its end, up to its capacity, may stand what was there before it was cut to [:0]: the row
// before. Rows have much in common, and a value that is the same stays where it is, so that it is not allocated again.
type boxes []any

func (b boxes) texts(texts ...string) boxes { return boxed(b, texts) }

func (b boxes) numbers(numbers ...int64) boxes { return boxed(b, numbers) }

// boxed appends values to a row.
func boxed[T comparable](b boxes, values []T) boxes {
	for _, v := range values {
		if n := len(b); n < cap(b) {
			if was, ok := b[:n+1][n].(T); ok && was == v {
				b = b[:n+1]
				continue
			}
		}
		b = append(b, v)
	}
	return b
}

// UsageByDay returns an account's sums by day, key and model, starting at the given day.
func (s *Store) UsageByDay(ctx context.Context, accountID string, from time.Time) ([]usage.Row, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, r *usage.Row) error {
		return row.Scan(append([]any{&r.AccountID, &r.Start, &r.KeyID, &r.Model}, sumTargets(&r.Sums)...)...)
	}, `SELECT account_id, start, key_id, model, `+sumsRead+` FROM usage_days
		WHERE account_id = $1 AND start >= $2 ORDER BY start, key_id, model`, accountID, from)
}

// KeyUnits returns the thousandths of units that a key has used since a day: what calls cost, and what unfinished video
// jobs will.
func (s *Store) KeyUnits(ctx context.Context, accountID, keyID string, from time.Time) (int64, error) {
	return sqlstore.Value[int64](s.db.Read(ctx), `SELECT
			(SELECT COALESCE(SUM(unit_milli), 0) FROM usage_days WHERE account_id = $1 AND start >= $2 AND key_id = $3) +
			(SELECT COALESCE(SUM(cost_milli), 0) FROM video_jobs WHERE account_id = $1 AND created_at >= $2 AND key_id = $3 AND status IN ('queued', 'running'))`,
		accountID, from, keyID)
}

// sumTargets returns pointers to the sums, in the order of sumsRead, for Scan.
func sumTargets(v *usage.Sums) []any {
	return []any{
		&v.Requests, &v.Failed, &v.Prompt, &v.Cached, &v.Completion, &v.Reasoning, &v.RequestMilli, &v.UnitMilli,
		&v.Cost, &v.Margin, &v.Written, &v.Unpriced, &v.LatencyMS, &v.FirstMS, &v.First,
		&v.Cacheable, &v.Saved, &v.SavedMargin,
	}
}

// dayMillis is the length of a day in milliseconds. Days are those of UTC, so all have the same
// length.
const dayMillis = 24 * 60 * 60 * 1000

// recounted holds the sums of one account and day, and the latency of all its calls, including
// those without a first token. Older versions stored the latter as the sum.
type recounted struct {
	usage.Sums
	allLatencyMS int64
	// maybeCacheable is what the tokens are at most that a cache could have held: of calls of older versions that is not known.
	maybeCacheable int64
}

// agree reports whether stored sums match the recounted ones. The latency may lie anywhere between
// the two definitions, because a day may have been counted partly by an older version.
func (r recounted) agree(sums usage.Sums) bool {
	if sums.LatencyMS >= r.LatencyMS && sums.LatencyMS <= r.allLatencyMS {
		sums.LatencyMS = r.LatencyMS
	}
	if sums.Written <= r.Written { // versions before 0.4 did not add up what was written to caches
		sums.Written = r.Written
	}
	if sums.Cacheable >= r.Cacheable && sums.Cacheable <= r.maybeCacheable {
		sums.Cacheable = r.Cacheable
	}
	return r.Sums == sums
}

// recount returns the sums of one table by account and day.
func recount(tx *sqlstore.Conn, query string, from int64) (map[usage.Slot]recounted, error) {
	return sqlstore.Map(tx, func(row sqlstore.Row, slot *usage.Slot, v *recounted) error {
		var day int64
		err := row.Scan(append([]any{&slot.AccountID, &day, &v.allLatencyMS, &v.maybeCacheable}, sumTargets(&v.Sums)...)...)
		slot.Start = time.UnixMilli(day * dayMillis).UTC()
		return err
	}, query, from)
}

// recounts adds up settlements in the order of sumTargets, by the rules of usage.Sums.Add, without their corrections.
const recounts = `COUNT(*), SUM(CASE WHEN ending = 'complete' THEN 0 ELSE 1 END),
	SUM(prompt + cached), SUM(cached), SUM(completion + reasoning), SUM(reasoning), SUM(request_milli), SUM(unit_milli),
	SUM(COALESCE(cost_micro * 1000 + cost_nano, 0)), SUM(CASE WHEN cost_micro IS NULL THEN 0 ELSE margin_nano END), SUM(cache_write_5m + cache_write_1h + cache_write), SUM(CASE WHEN cost_micro IS NULL THEN 1 ELSE 0 END),
	SUM(CASE WHEN first_token_ms > 0 THEN latency_ms ELSE 0 END), SUM(first_token_ms),
	SUM(CASE WHEN first_token_ms > 0 THEN 1 ELSE 0 END), SUM(COALESCE(cacheable, 0)), SUM(saved_nano), SUM(saved_margin_nano)`

// AuditUsage recounts the settlements and their corrections by account and day and compares them with the sums, for every
// day whose settlements are all still stored. It returns every difference, and the number of
// account days compared.
func (s *Store) AuditUsage(ctx context.Context) (differences []usage.Difference, compared int, err error) {
	// Read one snapshot, so that calls settled in the meantime do not look like differences.
	// This uses a reading connection, so settling continues.
	err = s.db.SnapshotTx(ctx, func(tx *sqlstore.Conn) error {
		differences, compared, err = auditUsage(tx)
		return err
	})
	return differences, compared, err
}

// auditUsage is AuditUsage inside a transaction.
func auditUsage(tx *sqlstore.Conn) ([]usage.Difference, int, error) {
	from, err := dropped(tx)
	if err != nil {
		return nil, 0, err
	}
	from = (from + dayMillis - 1) / dayMillis * dayMillis // round up: a day that is partly deleted cannot be compared
	rows, err := recount(tx, `SELECT account_id, at / `+days+` AS day, SUM(latency_ms), SUM(COALESCE(cacheable, prompt + cached)), `+recounts+` FROM settlements WHERE at >= $1 GROUP BY account_id, at / `+days, from)
	if err != nil {
		return nil, 0, err
	}
	if err := recountCorrections(tx, rows, from); err != nil {
		return nil, 0, err
	}
	// Both tables of sums must agree with the settlements.
	var differences []usage.Difference
	for _, table := range []string{"usage_days", "usage_hours"} {
		have, err := recount(tx, `SELECT account_id, start / `+days+` AS day, SUM(latency_ms), SUM(cacheable), `+summed(sumsRead, ", ")+` FROM `+table+`
			WHERE start >= $1 GROUP BY account_id, start / `+days, from)
		if err != nil {
			return nil, 0, err
		}
		differences = append(differences, compare(table, rows, have)...)
	}
	more, err := recountProviders(tx, from)
	return append(differences, more...), len(rows), err
}

// compare returns the slots whose sums differ or exist on one side only, ordered by account and
// day.
func compare(what string, rows, sums map[usage.Slot]recounted) (out []usage.Difference) {
	// A slot may be missing on either side.
	all := maps.Clone(rows)
	maps.Copy(all, sums)
	for slot := range all {
		if !rows[slot].agree(sums[slot].Sums) {
			out = append(out, usage.Difference{AccountID: slot.AccountID, Day: slot.Start, What: what, Rows: rows[slot].Sums, Sums: sums[slot].Sums})
		}
	}
	slices.SortFunc(out, func(a, b usage.Difference) int {
		return strings.Compare(a.AccountID+a.Day.String(), b.AccountID+b.Day.String())
	})
	return out
}

// HasSettlements returns the ids of those settlements in the list that are stored.
func (s *Store) HasSettlements(ctx context.Context, list []usage.Settlement) (map[string]bool, error) {
	have := map[string]bool{}
	// In parts of 100, since the number of parameters of a statement is limited. The primary key is
	// (at, id).
	for part := range slices.Chunk(list, 100) {
		args, pairs := pairsOf(part)
		ids, err := sqlstore.All(s.db.Read(ctx), sqlstore.Column[string], `SELECT id FROM settlements WHERE `+pairs, args...)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			have[id] = true
		}
	}
	return have, nil
}

// droppedCounter is the name of the counter that holds the time before which settlements may have
// been deleted.
const droppedCounter = "settlements_dropped"

// DropSettlements deletes up to most settlements made before a time, and returns how many it
// deleted, or how many of their corrections if those are more. Their sums stay, and their receipts are deleted, too. It also stores the time, so that AuditUsage skips days that may be
// partly deleted.
func (s *Store) DropSettlements(ctx context.Context, before time.Time, most int) (int64, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (int64, error) {
		tx.Do(`INSERT INTO counters (name, value) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE counters.value < excluded.value`, droppedCounter, before)
		tx.Do(`DELETE FROM receipts WHERE id IN (SELECT id FROM receipts WHERE at < $1 ORDER BY at, id LIMIT $2)`, before, most)
		fixes, err := tx.Changed(`DELETE FROM price_corrections WHERE (at, id, number) IN (SELECT at, id, number FROM price_corrections WHERE at < $1 ORDER BY at, id, number LIMIT $2)`, before, most)
		if err != nil {
			return 0, err
		}
		n, err := tx.Changed(`DELETE FROM settlements WHERE (at, id) IN (SELECT at, id FROM settlements WHERE at < $1 ORDER BY at, id LIMIT $2)`, before, most)
		return max(n, fixes), err
	})
}

// SettlementsDropped returns the time before which settlements may have been deleted. It is zero if
// none have.
func (s *Store) SettlementsDropped(ctx context.Context) (time.Time, error) {
	ms, err := dropped(s.db.Read(ctx))
	return sqlstore.Time(ms), err
}

// dropped returns the value of droppedCounter, or 0 if there is none.
func dropped(c *sqlstore.Conn) (int64, error) {
	return sqlstore.Optional[int64](c, `SELECT value FROM counters WHERE name = $1`, droppedCounter)
}

// summed returns the sums of columns with a separator between them.
func summed(columns, between string) string {
	return "SUM(" + strings.ReplaceAll(columns, ", ", ")"+between+"SUM(") + ")"
}
