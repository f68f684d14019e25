package logins

import (
	"context"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/store/sqlstore"
)

// codesLeft counts the recovery codes of an account that are still good.
const codesLeft = `SELECT count(*) FROM recovery_codes WHERE account_id = $1 AND used_at IS NULL`

// SetRecoveryCodes replaces the recovery codes of an account.
func (s *Store) SetRecoveryCodes(ctx context.Context, accountID string, codes []signin.Hash) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Do(`DELETE FROM recovery_codes WHERE account_id = $1`, accountID)
		return tx.ExecEach(len(codes), func(i int) []any { return []any{accountID, codes[i][:]} }, `INSERT INTO recovery_codes (account_id, hash) VALUES ($1, $2)`)
	})
}

// UseRecoveryCode uses a recovery code up and returns how many are left. It reports false if there is none that is
// still good.
func (s *Store) UseRecoveryCode(ctx context.Context, accountID string, code signin.Hash) (left int, ok bool, err error) {
	err = s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// Only one of several updates at once matches.
		n, err := tx.Changed(`UPDATE recovery_codes SET used_at = $3 WHERE account_id = $1 AND hash = $2 AND used_at IS NULL`, accountID, code[:], time.Now())
		if ok = n == 1; err != nil || !ok {
			return err
		}
		left, err = sqlstore.Value[int](tx, codesLeft, accountID)
		return err
	})
	return left, ok, err
}

// RecoveryCodesLeft returns how many recovery codes of an account are still good.
func (s *Store) RecoveryCodesLeft(ctx context.Context, accountID string) (int, error) {
	return sqlstore.Value[int](s.db.Read(ctx), codesLeft, accountID)
}
