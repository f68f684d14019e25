package calls

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
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
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, r *usage.Row) error {
		// The database added up everything else, so the rest of the slot stays empty.
		r.AccountID = q.AccountID
		// The first column goes where the query says that the rows are grouped by.
		by := map[usage.By]any{usage.ByDay: &r.Start, usage.ByModel: &r.Model, usage.ByKey: &r.KeyID}[q.By]
		return row.Scan(append([]any{by}, sumTargets(&r.Sums)...)...)
	}, query, args...)
}

// UsageOf adds up usage from a day on by account, of all accounts or of those that are named. Those without any are left out.
func (s *Store) UsageOf(ctx context.Context, from time.Time, accounts ...string) (map[string]usage.Sums, error) {
	out := map[string]usage.Sums{}
	where, args := ofAccounts(accounts, from)
	err := s.db.Read(ctx).Each(func(row sqlstore.Row) error {
		var id string
		var sums usage.Sums
		if err := row.Scan(append([]any{&id}, sumTargets(&sums)...)...); err != nil {
			return err
		}
		out[id] = sums
		return nil
	}, `SELECT account_id, `+summed(sumsRead, ", ")+` FROM usage_days WHERE start >= $1`+where+` GROUP BY account_id`, args...)
	return out, err
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
	query := `SELECT ` + column + `, ` + summed(sumsRead, ", ") + ` FROM ` + table + ` WHERE account_id = $1 AND start >= $2`
	args := []any{q.AccountID, q.From}
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
const recentQuery = `SELECT ` + settlementColumns + corrected + `, way FROM settlements 
	WHERE account_id = $1 AND at <= $2 AND (at < $2 OR id < $3) ORDER BY at DESC, id DESC LIMIT $4`

// RecentSettlements returns an account's latest calls before a point, newest first. Of their ways they have the session alone.
func (s *Store) RecentSettlements(ctx context.Context, accountID string, before usage.Point, limit int) ([]usage.Settlement, error) {
	return sqlstore.All(s.db.Read(ctx), scanListed, recentQuery, accountID, before.At, before.ID, limit)
}

// scanSettlement reads a row of settlementColumns and corrected.
func scanSettlement(row sqlstore.Row, r *usage.Settlement) error { return scanSettlementMore(row, r) }

// scanSettlementMore is scanSettlement for a row that has more columns.
func scanSettlementMore(row sqlstore.Row, r *usage.Settlement, more ...any) error {
	var (
		micro   *int64
		rest    int64
		details string
		cached  *int64
		fixed   *string
	)
	err := row.Scan(append([]any{
		&r.ID, &r.At, &r.AccountID, &r.KeyID, &r.Plan, &r.Tier, &r.ModelAsked, &r.ModelUsed, &r.Provider,
		&r.Tokens.Prompt, &r.Tokens.Cached, &r.Tokens.Completion, &r.Tokens.Reasoning, &r.Counted, &r.RequestMilli, &r.UnitMilli,
		&micro, &r.Status, &r.End, &r.Latency, &r.FirstToken, &r.MCPCalls, &r.MCPFailed, &r.Door, &r.Tokens.CacheWrite5m, &r.Tokens.CacheWrite1h, &r.Tokens.CacheWrite,
		&rest, &r.Margin, &r.Terms.Version, &details, &cached, &r.Saved, &r.SavedMargin, &fixed,
	}, more...)...)
	r.Cost = nil
	if micro != nil {
		cost := usage.JoinCost(*micro, rest)
		r.Cost = &cost
	}
	if r.Cacheable = 0; cached != nil {
		r.Cacheable = *cached
	}
	r.SetDetails(details)
	if err == nil {
		err = scanCorrected(r, fixed)
	}
	return err
}

// RoutedCalls adds up an account's calls since a time that asked for the given model and were answered by others, by
// the model that answered, most calls first.
func (s *Store) RoutedCalls(ctx context.Context, accountID, asked string, from time.Time) ([]usage.Routed, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, r *usage.Routed) error {
		return row.Scan(&r.Model, &r.Calls, &r.Unpriced, &r.Priced, &r.Prompt, &r.Cached, &r.Completion, &r.Cost)
	}, `SELECT model, COUNT(*), COALESCE(SUM(CASE WHEN cost IS NULL AND prompt + completion > 0 THEN 1 ELSE 0 END), 0), COUNT(cost), COALESCE(SUM(CASE WHEN cost IS NULL THEN 0 ELSE prompt END), 0),
			COALESCE(SUM(CASE WHEN cost IS NULL THEN 0 ELSE cached END), 0), COALESCE(SUM(CASE WHEN cost IS NULL THEN 0 ELSE completion END), 0), COALESCE(SUM(cost), 0)
		FROM (SELECT model, prompt, cached, completion, CASE WHEN cost_micro IS NULL THEN fixed ELSE cost_micro * 1000 + cost_nano + margin_nano + COALESCE(fixed, 0) END AS cost
			FROM (SELECT model, prompt, cached, completion, cost_micro, cost_nano, margin_nano,
					(SELECT SUM(c.cost_nano + c.margin_nano) FROM price_corrections c WHERE c.at = settlements.at AND c.id = settlements.id) AS fixed
				FROM settlements WHERE account_id = $1 AND at >= $2 AND model_asked <> model AND model_asked = $3) AS each) AS costs
		GROUP BY model ORDER BY COUNT(*) DESC, model`, accountID, from, asked)
}
