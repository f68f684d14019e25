package service

import (
	"context"
	"encoding/json"

	"sluice/internal/ledger/reconcile"
	"sluice/internal/store/sqlstore"
)

// keptReports is how many reports are kept.
const keptReports = 50

// AddReconciliation stores a report, and forgets the oldest ones.
func (s *Store) AddReconciliation(ctx context.Context, r *reconcile.Report) error {
	report, err := json.Marshal(r)
	if err != nil {
		return err
	}
	short := *r
	short.Findings, short.Proposals = []reconcile.Finding{}, []reconcile.Proposal{}
	summary, err := json.Marshal(&short)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Do(sqlstore.Insert("reconciliations", "id, at, summary, report"), r.ID, r.At, string(summary), string(report))
		return tx.Exec(`DELETE FROM reconciliations WHERE id NOT IN (SELECT id FROM reconciliations ORDER BY at DESC, id LIMIT $1)`, keptReports)
	})
}

// Reconciliations returns the reports without their findings, newest first.
func (s *Store) Reconciliations(ctx context.Context) ([]reconcile.Report, error) {
	return sqlstore.All(s.db.Read(ctx), scanReport, `SELECT summary FROM reconciliations ORDER BY at DESC, id`)
}

// Reconciliation returns a report, or nil if there is none with the id.
func (s *Store) Reconciliation(ctx context.Context, id string) (*reconcile.Report, error) {
	return sqlstore.One(s.db.Read(ctx), scanReport, `SELECT report FROM reconciliations WHERE id = $1`, id)
}

func scanReport(row sqlstore.Row, r *reconcile.Report) error {
	var text string
	if err := row.Scan(&text); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), r)
}
