package kept

import (
	"context"
	"time"

	"sluice/internal/account/sharing"
	"sluice/internal/store/sqlstore"
)

// shareTable is the table of shares. None goes to make room for another.
var shareTable = table{rows: "shares", sums: "share_sizes", entries: true}

// KeepShare stores a share, unless the shares of its account would exceed the bound then. It reports whether it has.
// Those that have expired are deleted first, so that they do not count until the next sweep.
func (s *Store) KeepShare(ctx context.Context, r *sharing.Record, most sharing.Bound, now time.Time) (bool, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (bool, error) {
		if _, err := shareTable.drop(tx, now, `WHERE account_id = $1 AND expires_at <= $2`, r.AccountID, now); err != nil {
			return false, err
		}
		have, err := shareTable.lock(tx, r.AccountID)
		if err != nil {
			return false, err
		}
		size := int64(len(r.Head) + len(r.Sealed))
		if have.entries+1 > most.Entries || have.bytes+size > most.Bytes {
			return false, shareTable.store(tx, have)
		}
		have.entries++
		have.bytes += size
		tx.Do(`INSERT INTO shares (id, account_id, size, created_at, expires_at, head, sealed) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			r.ID, r.AccountID, size, r.CreatedAt, r.ExpiresAt, r.Head, r.Sealed)
		return true, shareTable.store(tx, have)
	})
}

// ShareOwner returns the account of the share with an id, or "" if there is none or it has expired.
func (s *Store) ShareOwner(ctx context.Context, id []byte, now time.Time) (string, error) {
	owner, err := sqlstore.One(s.db.Read(ctx), func(row sqlstore.Row, owner *string) error { return row.Scan(owner) },
		`SELECT account_id FROM shares WHERE id = $1 AND expires_at > $2`, id, now)
	if err != nil || owner == nil {
		return "", err
	}
	return *owner, nil
}

// FindShare returns the share with an id, or nil if there is none or it has expired.
func (s *Store) FindShare(ctx context.Context, id []byte, now time.Time) (*sharing.Record, error) {
	return sqlstore.One(s.db.Read(ctx), func(row sqlstore.Row, r *sharing.Record) error {
		return row.Scan(&r.ID, &r.AccountID, &r.CreatedAt, &r.ExpiresAt, &r.Head, &r.Sealed)
	}, `SELECT id, account_id, created_at, expires_at, head, sealed FROM shares WHERE id = $1 AND expires_at > $2`, id, now)
}

// ListShares returns the shares of an account that have not expired, the newest first, without what was shared.
func (s *Store) ListShares(ctx context.Context, accountID string, now time.Time) ([]sharing.Record, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, r *sharing.Record) error {
		return row.Scan(&r.ID, &r.AccountID, &r.CreatedAt, &r.ExpiresAt, &r.Head)
	}, `SELECT id, account_id, created_at, expires_at, head FROM shares WHERE account_id = $1 AND expires_at > $2 ORDER BY created_at DESC, id`, accountID, now)
}

// DropShare deletes a share of an account, and reports whether it was there.
func (s *Store) DropShare(ctx context.Context, accountID string, id []byte) (bool, error) {
	return shareTable.dropOne(ctx, s.db, accountID, id)
}

// ForgetShares deletes all shares of an account.
func (s *Store) ForgetShares(ctx context.Context, accountID string) error {
	return shareTable.forget(ctx, s.db, accountID)
}

// DropShares deletes up to most expired shares and returns how many it deleted.
func (s *Store) DropShares(ctx context.Context, now time.Time, most int) (int, error) {
	return s.dropExpired(ctx, &shareTable, now, most)
}
