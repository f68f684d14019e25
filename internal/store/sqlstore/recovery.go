package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"sluice/internal/account/signin"
)

// SetRecoveryCodes replaces the recovery codes of an account.
func (s *Store) SetRecoveryCodes(ctx context.Context, accountID string, codes []signin.Hash) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM recovery_codes WHERE account_id = $1`, accountID); err != nil {
			return err
		}
		for _, code := range codes {
			if _, err := tx.ExecContext(ctx, `INSERT INTO recovery_codes (account_id, hash) VALUES ($1, $2)`, accountID, code[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

// UseRecoveryCode uses a recovery code up and returns how many are left. It reports false if there is none that is
// still good.
func (s *Store) UseRecoveryCode(ctx context.Context, accountID string, code signin.Hash) (left int, ok bool, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// Only one of several updates at once matches.
		res, err := tx.ExecContext(ctx, `UPDATE recovery_codes SET used_at = $3 WHERE account_id = $1 AND hash = $2 AND used_at IS NULL`, accountID, code[:], time.Now().UnixMilli())
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if ok = n == 1; err != nil || !ok {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM recovery_codes WHERE account_id = $1 AND used_at IS NULL`, accountID).Scan(&left)
	})
	return left, ok, err
}

// RecoveryCodesLeft returns how many recovery codes of an account are still good.
func (s *Store) RecoveryCodesLeft(ctx context.Context, accountID string) (left int, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT count(*) FROM recovery_codes WHERE account_id = $1 AND used_at IS NULL`, accountID).Scan(&left)
	return left, unavailable(err)
}
