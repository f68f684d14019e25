package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"

	"sluice/internal/ledger/usage"
)

// SetVersion makes the database claim a version of its tables.
func SetVersion(s *Store, v int64) error {
	_, err := s.write.db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)`, v, true)
	return err
}

// OpenAt opens a new database whose tables are those of an old version.
func OpenAt(ctx context.Context, database, dir string, version int64) (*Store, error) {
	s := &Store{}
	if err := s.connect(database, dir); err != nil {
		return nil, err
	}
	m, err := s.migrator()
	if err == nil {
		err = s.long(ctx, func(ctx context.Context) error { return s.apply(ctx, m, version) })
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// IsAway reports whether opening may succeed later.
var IsAway = isAway

// HoldMigrations keeps other nodes from migrating until release is called.
func HoldMigrations(ctx context.Context, database string) (release func(), err error) {
	s := &Store{}
	if err := s.connect(database, ""); err != nil {
		return nil, err
	}
	unlock, err := s.lockMigrations(ctx)
	return func() { unlock(); s.Close() }, err
}

// Execute changes the database without the Store's knowledge.
func Execute(s *Store, statement string) error {
	_, err := s.write.db.Exec(statement)
	return err
}

// PagePlans returns the query plans of the statements that the pages use.
func PagePlans(ctx context.Context, s *Store) (map[string]string, error) {
	queries := map[string][]any{recentQuery: {"acct_busy", int64(9e15), "", 20}}
	if s.engine == SQLite { // PostgreSQL reads a table that is almost empty as a whole
		queries[revenueQuery] = []any{int64(1)}
	}
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
	return plansOf(ctx, s, queries)
}

// SearchPlans returns the query plans of the statements that find accounts, requests and refused calls.
func SearchPlans(ctx context.Context, s *Store) (map[string]string, error) {
	return plansOf(ctx, s, map[string][]any{
		s.emailQuery():      {"user-004", "user-004\U0010ffff", "", 51},
		idQuery:             {"acct_000042"},
		keyQuery:            {"key_000042"},
		lastFourQuery:       {"0042", "", 51},
		requestQuery:        askFor(fmt.Sprintf("%032x", 4711), 20),
		settledQuery:        askFor(fmt.Sprintf("%032x", 4711), 20),
		refusedQuery:        {fmt.Sprintf("%032x", 4711), 20},
		refusalsQuery:       {"acct_000042", int64(9e15), "", 20},
		refusedMinutesQuery: {"acct_000042", int64(0), int64(60_000)},
		callsQuery:          {"acct_000042", int64(0), 2000},
		keyNamesQuery:       {"acct_000042", 200},
	})
}

// plansOf returns the plans of queries, given with their arguments.
func plansOf(ctx context.Context, s *Store, queries map[string][]any) (map[string]string, error) {
	explain := "EXPLAIN QUERY PLAN "
	if s.engine == Postgres {
		explain = "EXPLAIN "
		if err := unhurried(ctx, s, "ANALYZE"); err != nil {
			return nil, err
		}
	}
	plans := map[string]string{}
	for query, args := range queries {
		err := each(ctx, s.read, func(rows *sql.Rows) error {
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			cells := make([]any, len(columns))
			for i := range cells {
				cells[i] = new(string)
			}
			if err := rows.Scan(cells...); err != nil {
				return err
			}
			plans[query] += *cells[len(cells)-1].(*string) + "\n"
			return nil
		}, explain+query, args...)
		if err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// unhurried runs a statement on many rows, without the deadline of those that serve calls.
func unhurried(ctx context.Context, s *Store, statement string) error {
	err := s.long(ctx, func(ctx context.Context) error {
		_, err := s.write.ExecContext(ctx, statement)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// FillAccounts adds n accounts, each with a key and two refused calls, with a few large statements.
func FillAccounts(ctx context.Context, s *Store, n int) error {
	for from := 0; from < n; from += 1000 {
		numbers := fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)`, from, min(from+1000, n)-1)
		text := func(prefix string, digits int) string { // a text that ends with the number
			return fmt.Sprintf(`'%s' || SUBSTR(CAST(%d + i AS TEXT), 2)`, prefix, int64(math.Pow10(digits)))
		}
		hash := `CAST(i AS BLOB)`
		if s.engine == Postgres {
			hash = `CAST(CAST(i AS TEXT) AS BYTEA)`
		}
		for _, statement := range []string{
			`INSERT INTO accounts (id, email, plan, plan_granted, staff, created_at, version) ` + numbers + ` SELECT ` + text("acct_", 6) + `, ` + text("user-", 6) + ` || '@example.com', 'basic', 0, 0, 1, 1 FROM n`,
			`INSERT INTO api_keys (id, account_id, master, name, hash, last_four, created_at) ` + numbers + ` SELECT ` + text("key_", 6) + `, ` + text("acct_", 6) + `, 1, '', ` + hash + `, ` + strings.ReplaceAll(text("", 4), "+ i", "+ i % 5003") + `, 1 FROM n`,
			`INSERT INTO refused_calls (` + refusalColumns + `) ` + numbers + ` SELECT ` + text("acct_", 6) + `, 1000 + k, ` + text("r", 6) + ` || '-' || CAST(k AS TEXT), '', 'key', 429, 'rate_limit_error', '', '', '', '', '' FROM n, (SELECT 1 AS k UNION ALL SELECT 2) AS two`,
			`INSERT INTO refused_minutes (account_id, start, status, calls) ` + numbers + ` SELECT ` + text("acct_", 6) + `, 60000 * k, 429, 5 FROM n, (SELECT 1 AS k UNION ALL SELECT 2) AS two`,
		} {
			if err := unhurried(ctx, s, statement); err != nil {
				return err
			}
		}
	}
	return nil
}

// FillSettlements adds n copies of a settlement, the last of them now, with the ids of RequestID: of one account each
// tenth, of all others in turn the rest. Each hundredth has the id of a proxy. Only the settlements themselves are
// stored, without their sums.
func FillSettlements(ctx context.Context, s *Store, like string, n, accounts int, now time.Time) error {
	const step = 10_000
	id := `printf('%%08x%%024x', asked / 1000, i)`
	if s.engine == Postgres {
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
		if err := unhurried(ctx, s, statement); err != nil {
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

// Classify returns what the Store's methods make of a driver's error.
func Classify(err error) error { return unavailable(err) }

// Query runs a statement as the Store's methods do.
func Query(ctx context.Context, s *Store, query string, args ...any) error {
	return unavailable(each(ctx, s.write, func(rows *sql.Rows) error {
		var n int64
		return rows.Scan(&n)
	}, query, args...))
}

// Silence makes a Store believe that its database was silent at failing, and that somebody last tried it at tried.
func Silence(s *Store, failing, tried time.Time) {
	s.state.failing.Store(failing.UnixNano())
	s.state.tried.Store(tried.UnixNano())
}

// Count returns how many rows there are in a table, which a condition may follow.
func Count(ctx context.Context, s *Store, table string) (n int, err error) {
	err = s.write.QueryRowContext(ctx, `SELECT COUNT(*) FROM `+table).Scan(&n)
	return n, err
}

// ClearSecrets counts the values that are stored in the clear.
func ClearSecrets(ctx context.Context, s *Store) (n int, err error) {
	err = s.write.QueryRowContext(ctx, `SELECT COUNT(*) FROM logins WHERE totp_secret <> '' AND totp_secret NOT LIKE 'sealed:%'`).Scan(&n)
	if err != nil {
		return 0, err
	}
	tx, err := s.write.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	values, err := clearValues(ctx, tx, `SELECT name, value FROM secrets WHERE name <> $1`, dataKey)
	for _, v := range values {
		if len(v.value) < len(sealedMark) || v.value[:len(sealedMark)] != sealedMark {
			n++
		}
	}
	return n, err
}

// Names returns the tables that a Transfer copies, and those that it does not.
func Names() (in, out []string) { return copied[:], notCopied[:] }

// Fill puts rows into every table that a Transfer copies, with values of every kind in every column. Rows of
// different numbers never share a key. The version changes what is in a row beside its key.
func Fill(s *Store, from, until, version int) error {
	ctx := context.Background()
	return s.longTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, name := range copied {
			if err := fill(ctx, tx, name, from, until, version); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}

func fill(ctx context.Context, tx *sql.Tx, name string, from, until, version int) error {
	type column struct {
		name, kind string
		required   bool
		key        int
	}
	var columns []column
	err := each(ctx, tx, func(rows *sql.Rows) error {
		var c column
		if err := rows.Scan(&c.name, &c.kind, &c.required, &c.key); err != nil {
			return err
		}
		columns = append(columns, c)
		return nil
	}, `SELECT name, type, "notnull", pk FROM pragma_table_info($1) ORDER BY cid`, name)
	if err != nil {
		return err
	}
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	insert := `INSERT OR REPLACE INTO ` + name + ` (` + strings.Join(names, ", ") + `) VALUES ` + placeholders(1, len(names))
	for n := from; n < until; n++ {
		var args []any
		for i, c := range columns {
			v := version
			if c.key > 0 {
				v = 0
			}
			var value any = fmt.Sprintf("%s-%06d-%d-\u00e4\u20ac", c.name, n, v)
			switch {
			case c.name == "account_id" || name == "accounts" && c.name == "id":
				value = fmt.Sprintf("acct_%06d", n)
			case c.name == "plan":
				value = [...]string{"free", "basic"}[v%2]
			case name == "api_keys" && c.name == "master":
				value = (n + v) % 2
			case !c.required && (n+i+v)%3 == 0 && c.key == 0:
				value = nil
			case c.kind == "BYTEA":
				value = bytes.Repeat([]byte{0, byte(n), 0xff, byte(v)}, (n+v)%5)
				if c.key > 0 || c.name == "token" || c.name == "hash" || strings.HasSuffix(c.name, "_hash") {
					value = append([]byte{byte(n >> 16), byte(n >> 8), byte(n), 0}, value.([]byte)...)
				}
			case c.kind == "INTEGER" || c.kind == "BIGINT":
				value = int64(n)*7 - 100 + int64(v)
			}
			args = append(args, value)
		}
		if _, err := tx.ExecContext(ctx, insert, args...); err != nil {
			return err
		}
	}
	return nil
}

// Hasten makes the Store give up earlier than usual. It must not be in use.
func Hasten(s *Store, call time.Duration) {
	s.patience = patience{call: call, settle: call, silence: call}
}

// Versions returns the numbers of all migrations.
func Versions() []int64 { return known() }
