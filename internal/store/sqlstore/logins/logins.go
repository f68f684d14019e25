// Package logins stores how people sign in: logins, passkeys, recovery codes, sessions, one-time links, and attempts.
//
// Store implements the interfaces of package signin.
package logins

import (
	"context"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore"
)

// Store is the part of a database that package signin uses.
type Store struct{ db *sqlstore.Store }

// New returns the part of a database.
func New(db *sqlstore.Store) *Store { return &Store{db} }

// FindLogin returns an account's login. If there is none, only its AccountID is set.
func (s *Store) FindLogin(ctx context.Context, accountID string) (signin.Login, error) {
	// There is always a row: an account may have passkeys and no login.
	l, err := sqlstore.One(s.db.Read(ctx), func(row sqlstore.Row, l *signin.Login) error {
		return row.Scan(&l.Password, &l.TOTPSecret, &l.TOTPOn, &l.Passkeys)
	}, `SELECT COALESCE(l.password, ''), COALESCE(l.totp_secret, ''), COALESCE(l.totp_on, 0), (SELECT COUNT(*) FROM passkeys WHERE account_id = $1)
		FROM (SELECT 1) AS one LEFT JOIN logins l ON l.account_id = $1`, accountID)
	if err != nil {
		return signin.Login{AccountID: accountID}, err
	}
	l.AccountID = accountID
	// An empty secret stays empty; there is nothing to open.
	l.TOTPSecret, err = s.db.UnsealText("second factor", accountID, l.TOTPSecret)
	return *l, err
}

// SetPassword sets the password hash and ends all other access like EndAccess, with the proof that keepSession holds, in one
// transaction.
func (s *Store) SetPassword(ctx context.Context, accountID, password, keepSession string) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Do(`INSERT INTO logins (account_id, password, totp_secret, totp_on, totp_step) VALUES ($1, $2, '', 0, 0)
			ON CONFLICT (account_id) DO UPDATE SET password = excluded.password`, accountID, password)
		tx.Do(`UPDATE sessions SET owner_at = 0 WHERE account_id = $1`, accountID)
		return endAccess(tx, accountID, keepSession)
	})
}

// EndAccess deletes all sessions of an account except keepSession, and all of its links.
func (s *Store) EndAccess(ctx context.Context, accountID, keepSession string) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error { return endAccess(tx, accountID, keepSession) })
}

// endAccess is EndAccess inside a transaction. An empty keepSession keeps none.
func endAccess(tx *sqlstore.Conn, accountID, keepSession string) error {
	// Links go, too: a link that was mailed before could still sign somebody in.
	tx.Do(`DELETE FROM sessions WHERE account_id = $1 AND id <> $2`, accountID, keepSession)
	return tx.Exec(`DELETE FROM one_time_links WHERE account_id = $1`, accountID)
}

// SetTOTP sets the secret of the second factor and whether it is on. The secret is stored sealed.
func (s *Store) SetTOTP(ctx context.Context, accountID, secret string, on bool) error {
	return s.db.Exec(ctx, `INSERT INTO logins (account_id, password, totp_secret, totp_on, totp_step) VALUES ($1, '', $2, $3, 0)
		ON CONFLICT (account_id) DO UPDATE SET totp_secret = excluded.totp_secret, totp_on = excluded.totp_on`, accountID, s.db.SealText("second factor", accountID, secret), on)
}

// UseTOTP records that the code of a time step was used. It reports false if that code or a later
// one was used before, so that nobody can replay a code.
func (s *Store) UseTOTP(ctx context.Context, accountID string, step int64) (fresh bool, err error) {
	// The update only matches if the step is newer, so of concurrent calls only one succeeds.
	n, err := s.db.Changed(ctx, `UPDATE logins SET totp_step = $2 WHERE account_id = $1 AND totp_step < $2`, accountID, step)
	return n == 1, err
}

// EraseLogin deletes the login, the sessions, the links, the webhooks and the staff tokens of an account.
func (s *Store) EraseLogin(ctx context.Context, accountID string) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// Table names are constants, so building the statement from them is safe.
		for _, table := range []string{"sessions", "one_time_links", "recovery_codes", "passkeys", "logins", "staff_tokens", "alert_endpoints", "alert_events", "alert_deliveries"} {
			tx.Do(`DELETE FROM `+table+` WHERE account_id = $1`, accountID)
		}
		return nil
	})
}

// DropSignins deletes expired sessions and links.
func (s *Store) DropSignins(ctx context.Context, now time.Time) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		for _, table := range []string{"sessions", "one_time_links"} {
			tx.Do(`DELETE FROM `+table+` WHERE expires_at <= $1`, now)
		}
		return nil
	})
}

// sessionColumns are in the order of OpenSession and scanSession.
const sessionColumns = `id, token, account_id, created_at, seen_at, expires_at, remote, agent, via, proved_at, owner_at`

// OpenSession stores a new session. If the account then has more than most sessions, those that
// have not been used for the longest time are deleted.
func (s *Store) OpenSession(ctx context.Context, n *signin.Session, most int) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Do(sqlstore.Insert("sessions", sessionColumns),
			n.ID, n.Token[:], n.AccountID, n.CreatedAt, n.SeenAt, n.ExpiresAt, n.Remote, n.Agent, string(n.Via), n.ProvedAt, n.OwnerAt)
		// SQLite requires a LIMIT with an OFFSET; 1000 is far more than an account can have.
		return tx.Exec(`DELETE FROM sessions WHERE id <> $2 AND id IN
			(SELECT id FROM sessions WHERE account_id = $1 ORDER BY seen_at DESC LIMIT 1000 OFFSET $3)`, n.AccountID, n.ID, most)
	})
}

// FindSession returns the session with the given token. It returns a fault if there is none or it
// has expired.
func (s *Store) FindSession(ctx context.Context, token signin.Hash, now time.Time) (*signin.Session, error) {
	return sqlstore.Need(s.db.Read(ctx), fault.New(fault.Unauthenticated, "You are not signed in."), scanSession,
		`SELECT `+sessionColumns+` FROM sessions WHERE token = $1 AND expires_at > $2`, token[:], now)
}

// SeeSession records a visit and extends the session.
func (s *Store) SeeSession(ctx context.Context, id string, now, expires time.Time) error {
	return s.db.Exec(ctx, `UPDATE sessions SET seen_at = $2, expires_at = $3 WHERE id = $1`, id, now, expires)
}

// ProveSession records when a code of the second factor was typed in a session.
func (s *Store) ProveSession(ctx context.Context, id string, at time.Time) error {
	return s.db.Exec(ctx, `UPDATE sessions SET proved_at = $2 WHERE id = $1`, id, at)
}

// HoldProof records when the owner proved in a session that the account is theirs.
func (s *Store) HoldProof(ctx context.Context, id string, at time.Time) error {
	return s.db.Exec(ctx, `UPDATE sessions SET owner_at = $2 WHERE id = $1`, id, at)
}

// Sessions returns an account's sessions that have not expired, the most recently used first.
func (s *Store) Sessions(ctx context.Context, accountID string, now time.Time) ([]signin.Session, error) {
	return sqlstore.All(s.db.Read(ctx), scanSession, `SELECT `+sessionColumns+` FROM sessions WHERE account_id = $1 AND expires_at > $2 ORDER BY seen_at DESC`, accountID, now)
}

// CloseSession deletes one session. The account id makes sure that nobody closes another account's
// session.
func (s *Store) CloseSession(ctx context.Context, accountID, id string) error {
	return s.db.Exec(ctx, `DELETE FROM sessions WHERE account_id = $1 AND id = $2`, accountID, id)
}

// scanSession reads a row of sessionColumns. Only the hash of a session's token is stored.
func scanSession(row sqlstore.Row, n *signin.Session) error {
	return row.Scan(&n.ID, sqlstore.Into(n.Token[:]), &n.AccountID, &n.CreatedAt, &n.SeenAt, &n.ExpiresAt, &n.Remote, &n.Agent, &n.Via, &n.ProvedAt, &n.OwnerAt)
}
