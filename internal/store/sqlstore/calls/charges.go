package calls

import (
	"context"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

// chargedQuery reads a page of the calls that count against budgets, as they were settled: corrections change no budget.
const chargedQuery = `SELECT ` + settlementColumns + `, NULL AS corrected FROM settlements
	WHERE at >= $1 AND (at > $1 OR id > $2) AND details LIKE '%budget=%' ORDER BY at, id LIMIT $3`

// EachCharged calls each with all calls that count against budgets, oldest first, until it returns an error. Like EachCall it reads
// pages, and holds no transaction. each must not keep what it gets.
func (s *Store) EachCharged(ctx context.Context, each func(*usage.Settlement) error) error {
	at, id := time.UnixMilli(0), ""
	for {
		var page []usage.Settlement
		// Few calls may have one, so that a page may take a walk over the whole table.
		err := s.db.Long(ctx, func(ctx context.Context) (err error) {
			page, err = sqlstore.All(s.db.Read(ctx), scanSettlement, chargedQuery, at, id, replayPage)
			return err
		})
		if err != nil {
			return err
		}
		for i := range page {
			if err := each(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < replayPage {
			return nil
		}
		at, id = page[len(page)-1].At, page[len(page)-1].ID
	}
}
