package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/order"
	"sluice/internal/usage"
)

// settlementColumns are in the order of appendValues and scanSettlement.
const settlementColumns = `id, at, account_id, key_id, plan, tier, model_asked, model, provider, prompt, cached, completion, reasoning,
	counted, request_milli, unit_milli, cost_micro, status, ending, latency_ms, first_token_ms, mcp_calls, mcp_failed, door`

// wayColumns follow settlementColumns where the way of a call is stored or read.
const wayColumns = `, request_id, way`

// sumColumns are in the order of sumTargets and addSums.
const sumColumns = `requests, failed, prompt, cached, completion, reasoning, request_milli, unit_milli, cost_micro, unpriced, latency_ms, first_token_ms, first_tokens`

// RecordSettlements stores the settlements that are not stored yet and adds them to the sums.
// Recording the same settlement again is safe, so the journal can be replayed after a crash.
func (s *Store) RecordSettlements(ctx context.Context, batch []usage.Settlement) error {
	if err := s.prepareInserts(ctx); err != nil {
		return err
	}
	return unavailable(s.write.tx(ctx, s.patience.settle, nil, func(ctx context.Context, tx *sql.Tx) error { return s.addSettlements(ctx, tx, batch) }))
}

// prepareInserts prepares the statements that addSettlements needs. On SQLite there is only one
// writing connection, so a statement cannot be prepared while a transaction holds it.
func (s *Store) prepareInserts(ctx context.Context) error {
	for _, n := range []int{1, insertAtOnce} {
		if _, err := s.prepared(ctx, n); err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// addSettlements stores those that are new and adds them to the sums by hour and by day and to the
// abuse counts. Rows and sums change in one transaction, so they can never disagree.
func (s *Store) addSettlements(ctx context.Context, tx *sql.Tx, batch []usage.Settlement) error {
	// Add up in memory first, so that each slot is written once.
	hours, days := map[usage.Slot]usage.Sums{}, map[usage.Slot]usage.Sums{}
	units := map[monthly]int64{}
	// fresh maps only the ids of one part, so a large batch needs no large map.
	for part := range slices.Chunk(batch, 100) {
		fresh, err := s.insertSettlements(ctx, tx, part)
		if err != nil {
			return err
		}
		for i := range part {
			r := &part[i]
			if !fresh[r.ID] {
				continue
			}
			delete(fresh, r.ID) // add it only once if the batch contains it twice
			addTo(hours, r, usage.HourOf(r.At))
			addTo(days, r, usage.DayOf(r.At))
			if r.UnitMilli > 0 {
				units[monthOf(r)] += r.UnitMilli
			}
		}
	}
	if err := addSums(ctx, tx, "usage_hours", hours); err != nil {
		return err
	}
	if err := addSums(ctx, tx, "usage_days", days); err != nil {
		return err
	}
	return addUnits(ctx, tx, units)
}

// addTo adds a settlement to the sums of its slot.
func addTo(sums map[usage.Slot]usage.Sums, r *usage.Settlement, start time.Time) {
	slot := usage.Slot{AccountID: r.AccountID, KeyID: r.KeyID, Model: r.ModelUsed, Start: start}
	s := sums[slot]
	s.Add(r)
	sums[slot] = s
}

// settlementFields is the number of columns in settlementColumns and wayColumns.
const settlementFields = 26

// insertAtOnce is the number of rows that one statement inserts. The rest of a batch is inserted
// row by row, so that only two statements have to be prepared.
const insertAtOnce = 50

// insertSettlements inserts a batch and returns the ids that were new.
func (s *Store) insertSettlements(ctx context.Context, tx *sql.Tx, batch []usage.Settlement) (map[string]bool, error) {
	// The transaction itself ends with the context. If each statement on SQLite watched it, too, that would
	// cost a goroutine per statement. On PostgreSQL each must: a transaction does not end before its statement.
	if s.engine == SQLite {
		ctx = context.WithoutCancel(ctx)
	}
	fresh := make(map[string]bool, len(batch))
	args := make([]any, 0, insertAtOnce*settlementFields)
	for len(batch) > 0 {
		// Full groups by the large statement, and the rest by the small one.
		n := insertAtOnce
		if len(batch) < n {
			n = 1
		}
		if err := s.insertRows(ctx, tx, args, batch[:n], fresh); err != nil {
			return nil, err
		}
		batch = batch[n:]
	}
	return fresh, nil
}

// insertRows inserts all rows with one statement and adds the ids of new ones to fresh. Usually all
// rows are new, and then the number of affected rows says so, which is cheaper than returning the
// ids. If some are not new, it rolls back and inserts row by row to find out which ones are.
//
// It passes args[:0] on as scratch space; only its capacity is reused.
func (s *Store) insertRows(ctx context.Context, tx *sql.Tx, args []any, batch []usage.Settlement, fresh map[string]bool) error {
	stmt, err := s.prepared(ctx, len(batch))
	if err != nil {
		return err
	}
	for i := range batch {
		args = appendValues(args, &batch[i])
	}
	// The savepoint makes it possible to undo this statement alone if some rows were not new.
	if len(batch) > 1 {
		if _, err := tx.ExecContext(ctx, `SAVEPOINT many`); err != nil {
			return err
		}
	}
	res, err := tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	switch {
	case err != nil:
		return err
	case n == int64(len(batch)):
		for i := range batch {
			fresh[batch[i].ID] = true
		}
		return nil
	// The row was stored before.
	case len(batch) == 1:
		return nil
	}
	// Some rows were stored before, but it is not known which. Find out one by one.
	if _, err := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT many`); err != nil {
		return err
	}
	for i := range batch {
		if err := s.insertRows(ctx, tx, args[:0], batch[i:i+1], fresh); err != nil {
			return err
		}
	}
	return nil
}

// appendValues appends the columns of a settlement as int64 and string, the types that drivers
// accept without conversion. A cost or a way that is not known is NULL.
func appendValues(to []any, r *usage.Settlement) []any {
	var cost, way any
	if r.CostMicro != nil {
		cost = *r.CostMicro
	}
	given := ""
	if r.Way != nil {
		given, way = r.Way.RequestID, usage.AppendWay(make([]byte, 0, 128), r.Way)
	}
	return append(to,
		r.ID, millis(r.At), r.AccountID, r.KeyID, r.Plan, r.Tier, r.ModelAsked, r.ModelUsed, r.Provider,
		int64(r.Tokens.Prompt), int64(r.Tokens.Cached), int64(r.Tokens.Completion), int64(r.Tokens.Reasoning), int64(yesNo(r.Counted)), r.RequestMilli, r.UnitMilli,
		cost, int64(r.Status), string(r.End), r.Latency.Milliseconds(), r.FirstToken.Milliseconds(), int64(r.MCPCalls), int64(r.MCPFailed), r.Door, given, way)
}

// prepared returns the statement that inserts n settlements. It is prepared once and closed with
// the database.
func (s *Store) prepared(ctx context.Context, n int) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stmt := s.inserts[n]; stmt != nil {
		return stmt, nil
	}
	// Conflicts are ignored: an existing row means that the settlement was recorded before.
	// Preparing happens outside of any transaction; see prepareInserts.
	stmt, err := s.write.PrepareContext(ctx, `INSERT INTO settlements (`+settlementColumns+wayColumns+`) VALUES `+s.manyPlaceholders(n, settlementFields)+` ON CONFLICT (at, id) DO NOTHING`)
	if err != nil {
		return nil, err
	}
	if s.inserts == nil {
		s.inserts = map[int]*sql.Stmt{}
	}
	s.inserts[n] = stmt
	return stmt, nil
}

// addSums adds to the sums of each slot. All nodes lock the slots in the same order, so that they
// cannot deadlock.
func addSums(ctx context.Context, tx *sql.Tx, table string, sums map[usage.Slot]usage.Sums) error {
	slots := make([]usage.Slot, 0, len(sums))
	for slot := range sums {
		slots = append(slots, slot)
	}
	order.By(slots, func(a, b usage.Slot) int {
		return strings.Compare(fmt.Sprint(a.AccountID, a.Start.Unix(), a.KeyID, a.Model), fmt.Sprint(b.AccountID, b.Start.Unix(), b.KeyID, b.Model))
	})
	names := strings.Split(sumColumns, ", ")
	// Each column becomes "c = table.c + excluded.c": the upsert adds instead of replacing.
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

// UsageByDay returns an account's sums by day, key and model, starting at the given day.
func (s *Store) UsageByDay(ctx context.Context, accountID string, from time.Time) ([]usage.Row, error) {
	var out []usage.Row
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var r usage.Row
		var start int64
		if err := rows.Scan(append([]any{&r.AccountID, &start, &r.KeyID, &r.Model}, sumTargets(&r.Sums)...)...); err != nil {
			return err
		}
		r.Start = fromMillis(start)
		out = append(out, r)
		return nil
	}, `SELECT account_id, start, key_id, model, `+sumColumns+` FROM usage_days
		WHERE account_id = $1 AND start >= $2 ORDER BY start, key_id, model`, accountID, millis(from))
	return out, unavailable(err)
}

// sumTargets returns pointers to the sums, in the order of sumColumns, for Scan.
func sumTargets(v *usage.Sums) []any {
	return []any{
		&v.Requests, &v.Failed, &v.Prompt, &v.Cached, &v.Completion, &v.Reasoning, &v.RequestMilli, &v.UnitMilli,
		&v.CostMicro, &v.Unpriced, &v.LatencyMS, &v.FirstMS, &v.First,
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
}

// agree reports whether stored sums match the recounted ones. The latency may lie anywhere between
// the two definitions, because a day may have been counted partly by an older version.
func (r recounted) agree(sums usage.Sums) bool {
	if sums.LatencyMS >= r.LatencyMS && sums.LatencyMS <= r.allLatencyMS {
		sums.LatencyMS = r.LatencyMS
	}
	return r.Sums == sums
}

// recount returns the sums of one table by account and day.
func recount(ctx context.Context, tx *sql.Tx, query string, from int64) (map[usage.Slot]recounted, error) {
	out := map[usage.Slot]recounted{}
	err := each(ctx, tx, func(rows *sql.Rows) error {
		var slot usage.Slot
		var day int64
		var v recounted
		if err := rows.Scan(append([]any{&slot.AccountID, &day, &v.allLatencyMS}, sumTargets(&v.Sums)...)...); err != nil {
			return err
		}
		slot.Start = time.UnixMilli(day * dayMillis).UTC()
		out[slot] = v
		return nil
	}, query, from)
	return out, err
}

// AuditUsage recounts the settlements by account and day and compares them with the sums, for every
// day whose settlements are all still stored. It returns every difference, and the number of
// account days compared.
func (s *Store) AuditUsage(ctx context.Context) (differences []usage.Difference, compared int, err error) {
	// Read one snapshot, so that calls settled in the meantime do not look like differences.
	// This uses a reading connection, so settling goes on.
	err = s.long(ctx, func(ctx context.Context) error {
		return s.read.tx(ctx, s.patience.call, &sql.TxOptions{Isolation: s.snapshot(), ReadOnly: true}, func(ctx context.Context, tx *sql.Tx) (err error) {
			differences, compared, err = auditUsage(ctx, tx)
			return err
		})
	})
	return differences, compared, unavailable(err)
}

// snapshot returns the isolation level at which all reads of a transaction see the same data. On
// SQLite every read transaction does.
func (s *Store) snapshot() sql.IsolationLevel {
	if s.engine == Postgres {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault
}

// auditUsage is AuditUsage inside a transaction.
func auditUsage(ctx context.Context, tx *sql.Tx) ([]usage.Difference, int, error) {
	from, err := dropped(ctx, inTx{tx})
	if err != nil {
		return nil, 0, err
	}
	from = (from + dayMillis - 1) / dayMillis * dayMillis // round up: a day that is partly deleted cannot be compared
	day := strconv.Itoa(dayMillis)
	// The columns are in the order of sumTargets and follow the rules of usage.Sums.Add.
	rows, err := recount(ctx, tx, `SELECT account_id, at / `+day+` AS day, SUM(latency_ms), COUNT(*), SUM(CASE WHEN ending = 'complete' THEN 0 ELSE 1 END),
		SUM(prompt + cached), SUM(cached), SUM(completion + reasoning), SUM(reasoning), SUM(request_milli), SUM(unit_milli),
		SUM(COALESCE(cost_micro, 0)), SUM(CASE WHEN cost_micro IS NULL THEN 1 ELSE 0 END),
		SUM(CASE WHEN first_token_ms > 0 THEN latency_ms ELSE 0 END), SUM(first_token_ms),
		SUM(CASE WHEN first_token_ms > 0 THEN 1 ELSE 0 END) FROM settlements WHERE at >= $1 GROUP BY account_id, at / `+day, from)
	if err != nil {
		return nil, 0, err
	}
	// Both tables of sums must agree with the settlements.
	var differences []usage.Difference
	for _, table := range []string{"usage_days", "usage_hours"} {
		var sums []string
		for c := range strings.SplitSeq(sumColumns, ", ") {
			sums = append(sums, "SUM("+c+")")
		}
		have, err := recount(ctx, tx, `SELECT account_id, start / `+day+` AS day, SUM(latency_ms), `+strings.Join(sums, ", ")+` FROM `+table+`
			WHERE start >= $1 GROUP BY account_id, start / `+day, from)
		if err != nil {
			return nil, 0, err
		}
		differences = append(differences, compare(table, rows, have)...)
	}
	return differences, len(rows), nil
}

// compare returns the slots whose sums differ or exist on one side only, ordered by account and
// day.
func compare(what string, rows, sums map[usage.Slot]recounted) (out []usage.Difference) {
	// A slot may be missing on either side.
	all := map[usage.Slot]bool{}
	for slot := range rows {
		all[slot] = true
	}
	for slot := range sums {
		all[slot] = true
	}
	for slot := range all {
		if !rows[slot].agree(sums[slot].Sums) {
			out = append(out, usage.Difference{AccountID: slot.AccountID, Day: slot.Start, What: what, Rows: rows[slot].Sums, Sums: sums[slot].Sums})
		}
	}
	order.By(out, func(a, b usage.Difference) int {
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
		args := make([]any, 0, 2*len(part))
		for i := range part {
			args = append(args, millis(part[i].At), part[i].ID)
		}
		pairs := make([]string, len(part))
		for i := range part {
			pairs[i] = fmt.Sprintf("at = $%d AND id = $%d", 2*i+1, 2*i+2)
		}
		err := each(ctx, s.read, func(rows *sql.Rows) error {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			have[id] = true
			return nil
		}, `SELECT id FROM settlements WHERE `+strings.Join(pairs, " OR "), args...)
		if err != nil {
			return nil, unavailable(err)
		}
	}
	return have, nil
}

// droppedCounter is the name of the counter that holds the time before which settlements may have
// been deleted.
const droppedCounter = "settlements_dropped"

// DropSettlements deletes up to most settlements made before a time, and returns how many it
// deleted. Their sums stay. It also stores the time, so that AuditUsage skips days that may be
// partly deleted.
func (s *Store) DropSettlements(ctx context.Context, before time.Time, most int) (int64, error) {
	var n int64
	err := s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO counters (name, value) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE counters.value < excluded.value`, droppedCounter, millis(before))
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `DELETE FROM settlements WHERE (at, id) IN (SELECT at, id FROM settlements WHERE at < $1 ORDER BY at, id LIMIT $2)`, millis(before), most)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	return n, err
}

// SettlementsDropped returns the time before which settlements may have been deleted. It is zero if
// none have.
func (s *Store) SettlementsDropped(ctx context.Context) (time.Time, error) {
	ms, err := dropped(ctx, s.read)
	return fromMillis(ms), unavailable(err)
}

// dropped returns the value of droppedCounter, or 0 if there is none.
func dropped(ctx context.Context, from asker) (ms int64, err error) {
	err = from.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = $1`, droppedCounter).Scan(&ms)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return ms, err
}

// placeholders returns "($1, $2), ($3, $4)" for two rows of two columns.
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

// manyPlaceholders is placeholders for many rows. SQLite treats $1 as a name and looks it up in a
// list of all names: 100 rows of 21 columns cost 335 µs each, and 16 µs each with plain question
// marks.
func (s *Store) manyPlaceholders(rows, columns int) string {
	if s.Engine() != SQLite {
		return placeholders(rows, columns)
	}
	row := "(?" + strings.Repeat(", ?", columns-1) + ")"
	return row + strings.Repeat(", "+row, rows-1)
}
