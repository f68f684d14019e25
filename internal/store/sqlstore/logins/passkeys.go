package logins

import (
	"context"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore"
)

// passkeyColumns are in the order of AddPasskey and scanPasskey.
const passkeyColumns = `credential, account_id, name, public_key, algorithm, counter, created_at, used_at`

// AddPasskey stores a passkey. It returns fault.Conflict if the account has most already, or anybody has this one.
func (s *Store) AddPasskey(ctx context.Context, p *signin.Passkey, most int) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// One at a time for each account, or two at the same moment would both find room.
		tx.Alone(sqlstore.PasskeyLocks, p.AccountID)
		have, err := sqlstore.Value[int](tx, `SELECT count(*) FROM passkeys WHERE account_id = $1`, p.AccountID)
		if err != nil {
			return err
		}
		if have >= most {
			return fault.New(fault.Conflict, "An account can have %d passkeys. Remove one first.", most)
		}
		n, err := tx.Changed(sqlstore.Insert("passkeys", passkeyColumns)+` ON CONFLICT (credential) DO NOTHING`,
			p.ID, p.AccountID, p.Name, p.Key, p.Algorithm, int64(p.Counter), p.CreatedAt, p.UsedAt)
		if err == nil && n != 1 {
			err = fault.New(fault.Conflict, "This passkey is in use already.")
		}
		return err
	})
}

// Passkeys returns the passkeys of an account, the oldest first.
func (s *Store) Passkeys(ctx context.Context, accountID string) ([]signin.Passkey, error) {
	return sqlstore.All(s.db.Read(ctx), scanPasskey, `SELECT `+passkeyColumns+` FROM passkeys WHERE account_id = $1 ORDER BY created_at, credential`, accountID)
}

// FindPasskey returns the passkey with a credential id, or fault.NotFound.
func (s *Store) FindPasskey(ctx context.Context, credential []byte) (*signin.Passkey, error) {
	return sqlstore.Need(s.db.Read(ctx), fault.New(fault.NotFound, "There is no such passkey."), scanPasskey, `SELECT `+passkeyColumns+` FROM passkeys WHERE credential = $1`, credential)
}

// UsePasskey records a use and reports whether the counter went on. One that always says 0 does not count.
func (s *Store) UsePasskey(ctx context.Context, credential []byte, counter uint32, at time.Time) (ok bool, err error) {
	// The update only matches if the counter is newer, so of two copies at once only one succeeds.
	n, err := s.db.Changed(ctx, `UPDATE passkeys SET counter = $2, used_at = $3 WHERE credential = $1 AND (counter < $2 OR counter = 0 AND $2 = 0)`, credential, int64(counter), at)
	return n == 1, err
}

// DeletePasskeys deletes one passkey of an account, or all of them if credential is nil, and returns how many it deleted.
func (s *Store) DeletePasskeys(ctx context.Context, accountID string, credential []byte) (int64, error) {
	query, args := `DELETE FROM passkeys WHERE account_id = $1`, []any{accountID}
	if credential != nil {
		query, args = query+` AND credential = $2`, append(args, credential)
	}
	return s.db.Changed(ctx, query, args...)
}

// scanPasskey reads a row of passkeyColumns.
func scanPasskey(row sqlstore.Row, p *signin.Passkey) error {
	return row.Scan(&p.ID, &p.AccountID, &p.Name, &p.Key, &p.Algorithm, &p.Counter, &p.CreatedAt, &p.UsedAt)
}
