package logins

import (
	"context"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore"
)

// linkColumns are in the order of KeepLink and scanLink.
const linkColumns = `token, purpose, account_id, email, expires_at`

// KeepLink stores a new link if there is room for it and it has not expired, and reports whether it
// did. If not, the link is stored as expired and deleted again, so that the response time does not
// reveal whether there was room.
//
// The steps are: count the recent links of the address, insert the link, delete expired links of
// the address, delete its oldest links beyond the limit for one address, and delete the oldest
// links of all addresses beyond the limit for the whole service.
func (s *Store) KeepLink(ctx context.Context, l *signin.Link, now time.Time, room signin.Room) (kept bool, err error) {
	purpose := string(l.Purpose)
	err = s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// One at a time for each address, or requests at the same moment would all find room.
		tx.Alone(sqlstore.LinkLocks, purpose+" "+l.Email)
		// A link that expires after Since counts as recent.
		recent, err := sqlstore.Value[int](tx, `SELECT count(*) FROM one_time_links WHERE purpose = $1 AND email = $2 AND expires_at > $3`, purpose, l.Email, room.Since)
		if err != nil {
			return err
		}
		// Without room, the link gets an expiry in the past and is deleted by the next statement.
		expires := l.ExpiresAt
		if room.Recent > 0 && recent >= room.Recent {
			expires = now
		}
		kept = expires.After(now)
		tx.Do(sqlstore.Insert("one_time_links", linkColumns), l.Token[:], purpose, l.AccountID, l.Email, expires)
		tx.Do(`DELETE FROM one_time_links WHERE purpose = $1 AND email = $2 AND expires_at <= $3`, purpose, l.Email, now)
		// Beyond the limit of the address, its oldest links go. The new one stays in any case.
		if room.PerAddress > 0 {
			tx.Do(`DELETE FROM one_time_links WHERE token <> $3 AND token IN
				(SELECT token FROM one_time_links WHERE purpose = $1 AND email = $2 ORDER BY expires_at DESC LIMIT 1000 OFFSET $4)`, purpose, l.Email, l.Token[:], room.PerAddress)
		}
		if room.InAll <= 0 {
			return nil
		}
		// The same for all addresses together.
		return tx.Exec(`DELETE FROM one_time_links WHERE token <> $2 AND token IN
			(SELECT token FROM one_time_links WHERE purpose = $1 ORDER BY expires_at DESC LIMIT 1000 OFFSET $3)`, purpose, l.Token[:], room.InAll)
	})
	return kept && err == nil, err
}

// FindLink returns the link with the given token. It returns a fault if the link was used or has
// expired.
func (s *Store) FindLink(ctx context.Context, token signin.Hash, now time.Time) (*signin.Link, error) {
	return link(s.db.Read(ctx), `SELECT `+linkColumns+` FROM one_time_links WHERE token = $1 AND expires_at > $2`, token, now)
}

// TakeLink is FindLink for the caller that uses the link up. It deletes the link, so only one
// caller can succeed.
func (s *Store) TakeLink(ctx context.Context, token signin.Hash, now time.Time) (*signin.Link, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (*signin.Link, error) {
		return link(tx, `DELETE FROM one_time_links WHERE token = $1 AND expires_at > $2 RETURNING `+linkColumns, token, now)
	})
}

// link runs a statement that returns a row of linkColumns.
func link(c *sqlstore.Conn, query string, token signin.Hash, now time.Time) (*signin.Link, error) {
	used := fault.New(fault.NotFound, "This link was used already or has expired. Ask for a new one.")
	return sqlstore.Need(c, used, func(row sqlstore.Row, l *signin.Link) error {
		return row.Scan(sqlstore.Into(l.Token[:]), &l.Purpose, &l.AccountID, &l.Email, &l.ExpiresAt)
	}, query, token[:], now)
}
