package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"sluice/internal/ledger/usage"
)

// byColumns maps each way to group usage to its column. The column becomes part of the SQL, so it
// must come from here and never from a caller.
var byColumns = map[usage.By]string{usage.ByDay: "start", usage.ByModel: "model", usage.ByKey: "key_id"}

// UsageBy adds up an account's usage by day, model or key, and orders the rows by that. In the slot
// of a row, only the account and what it is grouped by are set.
func (s *Store) UsageBy(ctx context.Context, q usage.Query) ([]usage.Row, error) {
	query, args, err := usageBy(q)
	if err != nil {
		return nil, err
	}
	var out []usage.Row
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		// The database added up everything else, so the rest of the slot stays empty.
		r := usage.Row{Slot: usage.Slot{AccountID: q.AccountID}}
		var start int64
		// The first column goes where the query says that the rows are grouped by.
		by := map[usage.By]any{usage.ByDay: &start, usage.ByModel: &r.Model, usage.ByKey: &r.KeyID}[q.By]
		if err := rows.Scan(append([]any{by}, sumTargets(&r.Sums)...)...); err != nil {
			return err
		}
		r.Start = fromMillis(start)
		out = append(out, r)
		return nil
	}, query, args...)
	return out, unavailable(err)
}

// usageBy returns the query and its arguments. Hours and days are kept in tables of the same form.
func usageBy(q usage.Query) (string, []any, error) {
	column, ok := byColumns[q.By]
	if !ok {
		return "", nil, fmt.Errorf("usage cannot be grouped by %q", q.By)
	}
	// Days are enough unless the caller asks for hours: the table is smaller.
	table := "usage_days"
	if q.Hours {
		table = "usage_hours"
	}
	sums := make([]string, 0, 13)
	for c := range strings.SplitSeq(sumColumns, ", ") {
		sums = append(sums, "SUM("+c+")")
	}
	query := `SELECT ` + column + `, ` + strings.Join(sums, ", ") + ` FROM ` + table + ` WHERE account_id = $1 AND start >= $2`
	args := []any{q.AccountID, millis(q.From)}
	// An empty filter selects everything.
	for _, narrow := range [][2]string{{"key_id", q.KeyID}, {"model", q.Model}} {
		if narrow[1] != "" {
			args = append(args, narrow[1])
			query += fmt.Sprintf(` AND %s = $%d`, narrow[0], len(args))
		}
	}
	return query + ` GROUP BY ` + column + ` ORDER BY ` + column, args, nil
}

// recentQuery pages by the pair of time and id, because several calls may share a millisecond. The
// condition on at alone lets the index on account and time find the first row.
const recentQuery = `SELECT ` + settlementColumns + ` FROM settlements 
	WHERE account_id = $1 AND at <= $2 AND (at < $2 OR id < $3) ORDER BY at DESC, id DESC LIMIT $4`

// RecentSettlements returns an account's latest calls before a point, newest first.
func (s *Store) RecentSettlements(ctx context.Context, accountID string, before usage.Point, limit int) ([]usage.Settlement, error) {
	var out []usage.Settlement
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		r, err := scanSettlement(rows)
		out = append(out, r)
		return err
	}, recentQuery, accountID, millis(before.At), before.ID, limit)
	return out, unavailable(err)
}

// scanSettlement reads a row of settlementColumns, with the columns behind them into more.
func scanSettlement(rows *sql.Rows, more ...any) (r usage.Settlement, err error) {
	var at, latency, first int64
	var counted int
	var cost *int64
	var end string
	err = rows.Scan(append([]any{
		&r.ID, &at, &r.AccountID, &r.KeyID, &r.Plan, &r.Tier, &r.ModelAsked, &r.ModelUsed, &r.Provider,
		&r.Tokens.Prompt, &r.Tokens.Cached, &r.Tokens.Completion, &r.Tokens.Reasoning, &counted, &r.RequestMilli, &r.UnitMilli,
		&cost, &r.Status, &end, &latency, &first, &r.MCPCalls, &r.MCPFailed, &r.Door,
	}, more...)...)
	r.At, r.Counted, r.CostMicro, r.End = fromMillis(at), counted == 1, cost, usage.End(end)
	// Durations are stored in whole milliseconds.
	r.Latency, r.FirstToken = time.Duration(latency)*time.Millisecond, time.Duration(first)*time.Millisecond
	return r, err
}
