package calls

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

// PagePlans returns the query plans of the statements that the pages use.
func PagePlans(ctx context.Context, db *sqlstore.Store) (map[string]string, error) {
	queries := map[string][]any{recentQuery: {"acct_busy", int64(9e15), "", 20}, beforeQuery: {"acct_busy", time.Now(), "", time.Now().AddDate(0, 0, -1), 250}}
	// Of one of many accounts: PostgreSQL reads a table that is nearly all of one account as a whole.
	cells, args := cellsQuery(&usage.CellQuery{AccountID: "acct_7", From: time.Now().AddDate(0, 0, -7), Step: time.Hour, Narrow: usage.Narrow{Model: "m", Ends: []usage.End{usage.EndCut}}})
	queries[cells] = args
	calls, args := callsPageQuery(&usage.CallQuery{AccountID: "acct_busy", Before: usage.Point{At: time.Now()}, From: time.Now().AddDate(0, 0, -7), Narrow: usage.Narrow{KeyID: "key_1"}, Limit: 20, Look: 100})
	queries[calls] = args
	calls, args = callsPageQuery(&usage.CallQuery{AccountID: "acct_busy", Before: usage.Point{At: time.Now()}, From: time.Now().AddDate(0, 0, -7), Limit: 20, Look: 100})
	queries[calls] = args
	cells, args = cellsQuery(&usage.CellQuery{AccountID: "acct_7", From: time.Now().AddDate(0, 0, -7), Step: 6 * time.Hour})
	queries[cells] = args
	queries[lookedQuery] = []any{"acct_busy", int64(9e15), "", int64(0), 100}
	for by := range byColumns {
		query, args, err := usageBy(usage.Query{AccountID: "acct_busy", From: time.Now().AddDate(0, 0, -29), By: by})
		if err != nil {
			return nil, err
		}
		queries[query] = args
	}
	return plansOf(ctx, db, queries)
}

// SearchPlans returns the query plans of the statements that find accounts, requests and refused calls, and that read calls page by
// page.
func SearchPlans(ctx context.Context, db *sqlstore.Store) (map[string]string, error) {
	now := time.Now().UnixMilli()
	return plansOf(ctx, db, map[string][]any{
		replayQuery(""):       {now - 86_400_000, "", now, replayPage},
		replayQuery("a"):      {now - 86_400_000, "", now, replayPage, "acct_000042"},
		correctionsQuery(""):  {now - 1000, now},
		correctionsQuery("a"): {now - 86_400_000, now, "acct_000042"},

		New(db).emailQuery(): {"user-004", "user-004\U0010ffff", "", 51},
		idQuery:              {"acct_000042"},
		keyQuery:             {"key_000042"},
		lastFourQuery:        {"0042", "", 51},
		requestQuery:         askFor(fmt.Sprintf("%032x", 4711), 20),
		settledQuery:         askFor(fmt.Sprintf("%032x", 4711), 20),
		refusedQuery:         {fmt.Sprintf("%032x", 4711), 20},
		refusalsQuery:        {"acct_000042", int64(9e15), "", 20},
		newestRefusalsQuery:  {20},
		refusedMinutesQuery:  {"acct_000042", int64(0), int64(60_000)},
		callsQuery:           {"acct_000042", int64(0), 2000},
		keyNamesQuery:        {"acct_000042", 200},
	})
}

// plansOf returns the plans of queries, given with their arguments. All settlements are corrected before.
func plansOf(ctx context.Context, db *sqlstore.Store, queries map[string][]any) (map[string]string, error) {
	if err := unhurried(ctx, db, `INSERT INTO price_corrections (`+correctionColumns+`) SELECT at, id, 1, account_id, key_id, model, 1, 0, 0, '', '', '', '', 0, 0, 0 FROM settlements`); err != nil {
		return nil, err
	}
	explain := "EXPLAIN QUERY PLAN "
	if db.Engine() == sqlstore.Postgres {
		explain = "EXPLAIN "
		if err := unhurried(ctx, db, "ANALYZE"); err != nil {
			return nil, err
		}
	}
	plans := map[string]string{}
	for query, args := range queries {
		err := db.Read(ctx).Each(func(row sqlstore.Row) error {
			var line string
			var id, parent, unused int
			to := []any{&id, &parent, &unused, &line} // SQLite
			if db.Engine() == sqlstore.Postgres {
				to = to[3:]
			}
			err := row.Scan(to...)
			plans[query] += line + "\n"
			return err
		}, explain+query, args...)
		if err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// unhurried runs a statement on many rows, without the deadline of those that serve calls.
func unhurried(ctx context.Context, db *sqlstore.Store, statement string) error {
	err := db.Long(ctx, func(ctx context.Context) error { return db.Write(ctx).Exec(statement) })
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// FillAccounts adds n accounts, each with a key and two refused calls, with a few large statements.
func FillAccounts(ctx context.Context, db *sqlstore.Store, n int) error {
	for from := 0; from < n; from += 1000 {
		numbers := fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)`, from, min(from+1000, n)-1)
		text := func(prefix string, digits int) string { // a text that ends with the number
			return fmt.Sprintf(`'%s' || SUBSTR(CAST(%d + i AS TEXT), 2)`, prefix, int64(math.Pow10(digits)))
		}
		hash := `CAST(i AS BLOB)`
		if db.Engine() == sqlstore.Postgres {
			hash = `CAST(CAST(i AS TEXT) AS BYTEA)`
		}
		for _, statement := range []string{
			`INSERT INTO accounts (id, email, plan, plan_granted, staff, created_at, version) ` + numbers + ` SELECT ` + text("acct_", 6) + `, ` + text("user-", 6) + ` || '@example.com', 'basic', 0, 0, 1, 1 FROM n`,
			`INSERT INTO api_keys (id, account_id, master, name, hash, last_four, created_at) ` + numbers + ` SELECT ` + text("key_", 6) + `, ` + text("acct_", 6) + `, 1, '', ` + hash + `, ` + strings.ReplaceAll(text("", 4), "+ i", "+ i % 5003") + `, 1 FROM n`,
			`INSERT INTO refused_calls (` + refusalColumns + `) ` + numbers + ` SELECT ` + text("acct_", 6) + `, 1000 + k, ` + text("r", 6) + ` || '-' || CAST(k AS TEXT), '', 'key', 429, 'rate_limit_error', '', '', '', '', '' FROM n, (SELECT 1 AS k UNION ALL SELECT 2) AS two`,
			`INSERT INTO refused_minutes (account_id, start, status, calls) ` + numbers + ` SELECT ` + text("acct_", 6) + `, 60000 * k, 429, 5 FROM n, (SELECT 1 AS k UNION ALL SELECT 2) AS two`,
		} {
			if err := unhurried(ctx, db, statement); err != nil {
				return err
			}
		}
	}
	return nil
}

// FillSettlements adds n copies of a settlement, the last of them now, with the ids of RequestID: of one account each
// tenth, of all others in turn the rest. Each hundredth has the id of a proxy. Only the settlements themselves are
// stored, without their sums.
func FillSettlements(ctx context.Context, db *sqlstore.Store, like string, n, accounts int, now time.Time) error {
	const step = 10_000
	id := `printf('%%08x%%024x', asked / 1000, i)`
	if db.Engine() == sqlstore.Postgres {
		id = `LPAD(TO_HEX(asked / 1000), 8, '0') || LPAD(TO_HEX(i), 24, '0')`
	}
	columns := strings.TrimPrefix(settlementColumns, "id, at, account_id, ")
	for from := 0; from < n; from += step {
		statement := fmt.Sprintf(`INSERT INTO settlements (id, at, account_id, `+columns+`, request_id, way)
			WITH RECURSIVE n (i) AS (SELECT CAST(%d AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < %d),
			m (i, asked) AS (SELECT i, %d + (i - %d) * 2678400000 / %d FROM n)
			SELECT `+id+`, asked, CASE WHEN i %% 10 = 0 THEN 'acct_000042' ELSE 'acct_' || SUBSTR(CAST(1000000 + i %% %d AS TEXT), 2) END,
			`+columns+`, CASE WHEN i %% 100 = 0 THEN 'proxy-' || CAST(i AS TEXT) ELSE '' END, way FROM m, settlements WHERE request_id = '%s' AND request_id <> ''`,
			from, min(from+step, n)-1, now.UnixMilli(), n, n, accounts, like)
		if err := unhurried(ctx, db, statement); err != nil {
			return err
		}
	}
	return nil
}

// RequestID returns the id of settlement i of n that FillSettlements has added.
func RequestID(i, n int, now time.Time) string {
	at := now.UnixMilli() + int64(i-n)*2678400000/int64(n)
	return fmt.Sprintf("%08x%024x", at/1000, i)
}
