package budgets_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/internal/ledger/budget/budgettest"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/store/sqlstore/budgets"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/video"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	budgettest.Run(t, func(t *testing.T) budgettest.Subject { return subject(alltest.In(t, "sqlite", t.TempDir())) })
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	empty := pgtest.URL(t) // skips the whole suite, by name, where there is no server
	alltest.In(t, empty, "").Close()
	budgettest.Run(t, func(t *testing.T) budgettest.Subject { return subject(alltest.In(t, pgtest.Copy(t, empty), "")) })
}

// subject returns a database as the suite sees it.
func subject(s *alltest.Store) budgettest.Subject {
	db := s.Kernel()
	return budgettest.Subject{
		Store: budgets.New(db), Record: s.RecordSettlements,
		Rows: func(ctx context.Context) (int64, error) {
			return sqlstore.Value[int64](db.Read(ctx), `SELECT (SELECT COUNT(*) FROM budget_counts) + (SELECT COUNT(*) FROM budget_grants)`)
		},
		Age: func(ctx context.Context, by time.Duration) error {
			return db.Tx(ctx, func(tx *sqlstore.Conn) error {
				for _, table := range []string{"budget_counts", "budget_grants"} {
					tx.Do(`UPDATE `+table+` SET touched_at = touched_at - $1`, by)
				}
				return nil
			})
		},
		Expire: func(ctx context.Context) (err error) {
			s.DropExpired(ctx, func(what string, why error) { err = errors.Join(err, fmt.Errorf("%s: %w", what, why)) })
			return err
		},
		Video: func(ctx context.Context, id string) error {
			_, err := s.CreateVideo(ctx, &video.Job{ID: id, Status: video.Queued}, func(video.Load) error { return nil })
			return err
		},
	}
}
