package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"sluice/internal/account/billing"
)

// BillingDetails returns what a customer wants on invoices. Without any it returns the zero value.
func (s *Store) BillingDetails(ctx context.Context, accountID string) (d billing.Details, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT name, address, tax_id, email FROM billing_details WHERE account_id = $1`, accountID).
		Scan(&d.Name, &d.Address, &d.TaxID, &d.Email)
	if errors.Is(err, sql.ErrNoRows) {
		return billing.Details{}, nil
	}
	return d, unavailable(err)
}

// SetBillingDetails replaces what a customer wants on invoices.
func (s *Store) SetBillingDetails(ctx context.Context, accountID string, d billing.Details) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO billing_details (account_id, name, address, tax_id, email) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (account_id) DO UPDATE SET name = excluded.name, address = excluded.address, tax_id = excluded.tax_id, email = excluded.email`,
			accountID, d.Name, d.Address, d.TaxID, d.Email)
		return err
	})
}
