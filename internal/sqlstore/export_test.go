package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"sluice/internal/usage"
)

// SetVersion makes the database claim a version of its tables.
func SetVersion(s *Store, v int64) error {
	_, err := s.write.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)`, v, true)
	return err
}

// OpenAt opens a new SQLite database whose tables are those of an old version.
func OpenAt(ctx context.Context, dir string, version int64) (*Store, error) {
	s := &Store{}
	if err := s.connect("sqlite", dir); err != nil {
		return nil, err
	}
	p, err := s.provider()
	if err == nil {
		_, err = p.UpTo(ctx, version)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Execute changes the database without the Store's knowledge.
func Execute(s *Store, statement string) error {
	_, err := s.write.Exec(statement)
	return err
}

// PagePlans returns the query plans of the statements that the pages use.
func PagePlans(ctx context.Context, s *Store) (map[string]string, error) {
	queries := map[string][]any{recentQuery: {"acct_busy", int64(9e15), "", 20}}
	for by := range byColumns {
		query, args, err := usageBy(usage.Query{AccountID: "acct_busy", From: time.Now().AddDate(0, 0, -29), By: by})
		if err != nil {
			return nil, err
		}
		queries[query] = args
	}
	explain := "EXPLAIN QUERY PLAN "
	if s.engine == Postgres {
		explain = "EXPLAIN "
		if _, err := s.write.ExecContext(ctx, "ANALYZE"); err != nil {
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

// Classify returns what the Store's methods make of a driver's error.
func Classify(err error) error { return unavailable(err) }

// Query runs a statement as the Store's methods do.
func Query(ctx context.Context, s *Store, query string, args ...any) error {
	return unavailable(each(ctx, s.write, func(rows *sql.Rows) error {
		var n int64
		return rows.Scan(&n)
	}, query, args...))
}

// ClearSecrets counts the values that are stored in the clear.
func ClearSecrets(ctx context.Context, s *Store) (n int, err error) {
	err = s.write.QueryRowContext(ctx, `SELECT COUNT(*) FROM logins WHERE totp_secret <> '' AND totp_secret NOT LIKE 'sealed:%'`).Scan(&n)
	if err != nil {
		return 0, err
	}
	tx, err := s.write.BeginTx(ctx, nil)
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
