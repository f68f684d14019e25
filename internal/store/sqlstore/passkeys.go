package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
)

// passkeyLocks is the class of the advisory locks of AddPasskey; see linkLocks.
const passkeyLocks = 2

// passkeyColumns are in the order of AddPasskey and scanPasskey.
const passkeyColumns = `credential, account_id, name, public_key, algorithm, counter, created_at, used_at`

// AddPasskey stores a passkey. It returns fault.Conflict if the account has most already, or anybody has this one.
func (s *Store) AddPasskey(ctx context.Context, p *signin.Passkey, most int) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// One at a time for each account, or two at the same moment would both find room. SQLite has one writer anyway.
		if s.engine == Postgres {
			if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1, hashtext($2))`, passkeyLocks, p.AccountID); err != nil {
				return err
			}
		}
		var have int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM passkeys WHERE account_id = $1`, p.AccountID).Scan(&have); err != nil {
			return err
		}
		if have >= most {
			return fault.New(fault.Conflict, "An account can have %d passkeys. Remove one first.", most)
		}
		res, err := tx.ExecContext(ctx, `INSERT INTO passkeys (`+passkeyColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (credential) DO NOTHING`,
			p.ID, p.AccountID, p.Name, p.Key, p.Algorithm, int64(p.Counter), millis(p.CreatedAt), millis(p.UsedAt))
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err == nil && n != 1 {
			err = fault.New(fault.Conflict, "This passkey is in use already.")
		}
		return err
	})
}

// Passkeys returns the passkeys of an account, the oldest first.
func (s *Store) Passkeys(ctx context.Context, accountID string) (list []signin.Passkey, err error) {
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		p, err := scanPasskey(rows)
		if err != nil {
			return err
		}
		list = append(list, *p)
		return nil
	}, `SELECT `+passkeyColumns+` FROM passkeys WHERE account_id = $1 ORDER BY created_at, credential`, accountID)
	return list, unavailable(err)
}

// FindPasskey returns the passkey with a credential id, or fault.NotFound.
func (s *Store) FindPasskey(ctx context.Context, credential []byte) (*signin.Passkey, error) {
	p, err := scanPasskey(s.read.QueryRowContext(ctx, `SELECT `+passkeyColumns+` FROM passkeys WHERE credential = $1`, credential))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "There is no such passkey.")
	}
	return p, unavailable(err)
}

// UsePasskey records a use and reports whether the counter went on. One that always says 0 does not count.
func (s *Store) UsePasskey(ctx context.Context, credential []byte, counter uint32, at time.Time) (ok bool, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// The update only matches if the counter is newer, so of two copies at once only one succeeds.
		res, err := tx.ExecContext(ctx, `UPDATE passkeys SET counter = $2, used_at = $3 WHERE credential = $1 AND (counter < $2 OR counter = 0 AND $2 = 0)`, credential, int64(counter), millis(at))
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		ok = n == 1
		return err
	})
	return ok, err
}

// DeletePasskeys deletes one passkey of an account, or all of them if credential is nil, and returns how many it deleted.
func (s *Store) DeletePasskeys(ctx context.Context, accountID string, credential []byte) (n int64, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		query, args := `DELETE FROM passkeys WHERE account_id = $1`, []any{accountID}
		if credential != nil {
			query, args = query+` AND credential = $2`, append(args, credential)
		}
		res, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	return n, err
}

// scanPasskey reads a row of passkeyColumns.
func scanPasskey(row rowScanner) (*signin.Passkey, error) {
	var p signin.Passkey
	var counter, created, used int64
	if err := row.Scan(&p.ID, &p.AccountID, &p.Name, &p.Key, &p.Algorithm, &counter, &created, &used); err != nil {
		return nil, err
	}
	p.Counter, p.CreatedAt, p.UsedAt = uint32(counter), fromMillis(created), fromMillis(used)
	return &p, nil
}
