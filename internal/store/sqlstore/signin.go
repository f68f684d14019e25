package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
)

// FindLogin returns an account's login. If there is none, only its AccountID is set.
func (s *Store) FindLogin(ctx context.Context, accountID string) (signin.Login, error) {
	l := signin.Login{AccountID: accountID}
	var on int
	// There is always a row: an account may have passkeys and no login.
	err := s.read.QueryRowContext(ctx, `SELECT COALESCE(l.password, ''), COALESCE(l.totp_secret, ''), COALESCE(l.totp_on, 0), (SELECT COUNT(*) FROM passkeys WHERE account_id = $1)
		FROM (SELECT 1) AS one LEFT JOIN logins l ON l.account_id = $1`, accountID).Scan(&l.Password, &l.TOTPSecret, &on, &l.Passkeys)
	if err != nil {
		return l, unavailable(err)
	}
	// An empty secret stays empty; there is nothing to open.
	l.TOTPOn = on == 1
	l.TOTPSecret, err = s.openText("second factor", accountID, l.TOTPSecret)
	return l, err
}

// SetPassword sets the password hash and ends all other access like EndAccess, in one transaction.
func (s *Store) SetPassword(ctx context.Context, accountID, password, keepSession string) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO logins (account_id, password, totp_secret, totp_on, totp_step) VALUES ($1, $2, '', 0, 0)
			ON CONFLICT (account_id) DO UPDATE SET password = excluded.password`, accountID, password)
		if err != nil {
			return err
		}
		return endAccess(ctx, tx, accountID, keepSession)
	})
}

// EndAccess deletes all sessions of an account except keepSession, and all of its links.
func (s *Store) EndAccess(ctx context.Context, accountID, keepSession string) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error { return endAccess(ctx, tx, accountID, keepSession) })
}

// endAccess is EndAccess inside a transaction. An empty keepSession keeps none.
func endAccess(ctx context.Context, tx *sql.Tx, accountID, keepSession string) error {
	// Links go, too: a link that was mailed before could still sign somebody in.
	if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE account_id = $1 AND id <> $2`, accountID, keepSession); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM one_time_links WHERE account_id = $1`, accountID)
	return err
}

// SetTOTP sets the secret of the second factor and whether it is on. The secret is stored sealed.
func (s *Store) SetTOTP(ctx context.Context, accountID, secret string, on bool) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO logins (account_id, password, totp_secret, totp_on, totp_step) VALUES ($1, '', $2, $3, 0)
			ON CONFLICT (account_id) DO UPDATE SET totp_secret = excluded.totp_secret, totp_on = excluded.totp_on`, accountID, s.sealText("second factor", accountID, secret), yesNo(on))
		return err
	})
}

// UseTOTP records that the code of a time step was used. It reports false if that code or a later
// one was used before, so that nobody can replay a code.
func (s *Store) UseTOTP(ctx context.Context, accountID string, step int64) (fresh bool, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// The update only matches if the step is newer, so of concurrent calls only one succeeds.
		res, err := tx.ExecContext(ctx, `UPDATE logins SET totp_step = $2 WHERE account_id = $1 AND totp_step < $2`, accountID, step)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		fresh = n == 1
		return err
	})
	return fresh, err
}

// EraseLogin deletes the login, the sessions, the links, the webhooks and the staff tokens of an account.
func (s *Store) EraseLogin(ctx context.Context, accountID string) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// Table names are constants, so building the statement from them is safe.
		for _, table := range []string{"sessions", "one_time_links", "recovery_codes", "passkeys", "logins", "staff_tokens", "alert_endpoints", "alert_events", "alert_deliveries"} {
			if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE account_id = $1`, accountID); err != nil {
				return err
			}
		}
		return nil
	})
}

// sessionColumns are in the order of OpenSession and scanSession.
const sessionColumns = `id, token, account_id, created_at, seen_at, expires_at, remote, agent, via, proved_at`

// OpenSession stores a new session. If the account then has more than most sessions, those that
// have not been used for the longest time are deleted.
func (s *Store) OpenSession(ctx context.Context, n *signin.Session, most int) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO sessions (`+sessionColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			n.ID, n.Token[:], n.AccountID, millis(n.CreatedAt), millis(n.SeenAt), millis(n.ExpiresAt), n.Remote, n.Agent, string(n.Via), millis(n.ProvedAt))
		if err != nil {
			return err
		}
		// SQLite requires a LIMIT with an OFFSET; 1000 is far more than an account can have.
		_, err = tx.ExecContext(ctx, `DELETE FROM sessions WHERE id <> $2 AND id IN
			(SELECT id FROM sessions WHERE account_id = $1 ORDER BY seen_at DESC LIMIT 1000 OFFSET $3)`, n.AccountID, n.ID, most)
		return err
	})
}

// FindSession returns the session with the given token. It returns a fault if there is none or it
// has expired.
func (s *Store) FindSession(ctx context.Context, token signin.Hash, now time.Time) (*signin.Session, error) {
	n, err := scanSession(s.read.QueryRowContext(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE token = $1 AND expires_at > $2`, token[:], millis(now)))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.New(fault.Unauthenticated, "You are not signed in.")
	}
	return n, unavailable(err)
}

// SeeSession records a visit and extends the session.
func (s *Store) SeeSession(ctx context.Context, id string, now, expires time.Time) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET seen_at = $2, expires_at = $3 WHERE id = $1`, id, millis(now), millis(expires))
		return err
	})
}

// ProveSession records when a code of the second factor was typed in a session.
func (s *Store) ProveSession(ctx context.Context, id string, at time.Time) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET proved_at = $2 WHERE id = $1`, id, millis(at))
		return err
	})
}

// Sessions returns an account's sessions that have not expired, the most recently used first.
func (s *Store) Sessions(ctx context.Context, accountID string, now time.Time) ([]signin.Session, error) {
	var list []signin.Session
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		n, err := scanSession(rows)
		if err != nil {
			return err
		}
		list = append(list, *n)
		return nil
	}, `SELECT `+sessionColumns+` FROM sessions WHERE account_id = $1 AND expires_at > $2 ORDER BY seen_at DESC`, accountID, millis(now))
	return list, unavailable(err)
}

// CloseSession deletes one session. The account id makes sure that nobody closes another account's
// session.
func (s *Store) CloseSession(ctx context.Context, accountID, id string) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE account_id = $1 AND id = $2`, accountID, id)
		return err
	})
}

// scanSession reads a row of sessionColumns. Only the hash of a session's token is stored.
func scanSession(row interface{ Scan(...any) error }) (*signin.Session, error) {
	var n signin.Session
	var token []byte
	var created, seen, expires, proved int64
	if err := row.Scan(&n.ID, &token, &n.AccountID, &created, &seen, &expires, &n.Remote, &n.Agent, &n.Via, &proved); err != nil {
		return nil, err
	}
	copy(n.Token[:], token)
	n.CreatedAt, n.SeenAt, n.ExpiresAt, n.ProvedAt = fromMillis(created), fromMillis(seen), fromMillis(expires), fromMillis(proved)
	return &n, nil
}

// linkColumns are in the order of KeepLink and scanLink.
const linkColumns = `token, purpose, account_id, email, expires_at`

// linkLocks is the class of the advisory locks of KeepLink. Locks of two numbers never meet those of one,
// such as the one that migrations take.
const linkLocks = 1

// KeepLink stores a new link if there is room for it and it has not expired, and reports whether it
// did. If not, the link is stored as expired and deleted again, so that the response time does not
// reveal whether there was room.
//
// The steps are: count the recent links of the address, insert the link, delete expired links of
// the address, delete its oldest links beyond the limit for one address, and delete the oldest
// links of all addresses beyond the limit for the whole service.
func (s *Store) KeepLink(ctx context.Context, l *signin.Link, now time.Time, room signin.Room) (kept bool, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// One at a time for each address, or requests at the same moment would all find room. SQLite has
		// one writer anyway. Addresses with the same hash only wait for each other.
		if s.engine == Postgres {
			if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1, hashtext($2))`, linkLocks, string(l.Purpose)+" "+l.Email); err != nil {
				return err
			}
		}
		// A link that expires after Since counts as recent.
		var recent int
		err := tx.QueryRowContext(ctx, `SELECT count(*) FROM one_time_links WHERE purpose = $1 AND email = $2 AND expires_at > $3`,
			string(l.Purpose), l.Email, millis(room.Since)).Scan(&recent)
		if err != nil {
			return err
		}
		// Without room, the link gets an expiry in the past and is deleted by the next statement.
		expires := l.ExpiresAt
		if room.Recent > 0 && recent >= room.Recent {
			expires = now
		}
		kept = expires.After(now)
		_, err = tx.ExecContext(ctx, `INSERT INTO one_time_links (`+linkColumns+`) VALUES ($1, $2, $3, $4, $5)`,
			l.Token[:], string(l.Purpose), l.AccountID, l.Email, millis(expires))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM one_time_links WHERE purpose = $1 AND email = $2 AND expires_at <= $3`,
			string(l.Purpose), l.Email, millis(now)); err != nil {
			return err
		}
		// Beyond the limit of the address, its oldest links go. The new one stays in any case.
		if room.PerAddress > 0 {
			_, err := tx.ExecContext(ctx, `DELETE FROM one_time_links WHERE token <> $3 AND token IN
				(SELECT token FROM one_time_links WHERE purpose = $1 AND email = $2 ORDER BY expires_at DESC LIMIT 1000 OFFSET $4)`,
				string(l.Purpose), l.Email, l.Token[:], room.PerAddress)
			if err != nil {
				return err
			}
		}
		// The same for all addresses together.
		if room.InAll > 0 {
			_, err := tx.ExecContext(ctx, `DELETE FROM one_time_links WHERE token <> $2 AND token IN
				(SELECT token FROM one_time_links WHERE purpose = $1 ORDER BY expires_at DESC LIMIT 1000 OFFSET $3)`,
				string(l.Purpose), l.Token[:], room.InAll)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return kept && err == nil, err
}

// FindLink returns the link with the given token. It returns a fault if the link was used or has
// expired.
func (s *Store) FindLink(ctx context.Context, token signin.Hash, now time.Time) (*signin.Link, error) {
	return scanLink(s.read.QueryRowContext(ctx, `SELECT `+linkColumns+` FROM one_time_links WHERE token = $1 AND expires_at > $2`, token[:], millis(now)))
}

// TakeLink is FindLink for the caller that uses the link up. It deletes the link, so only one
// caller can succeed.
func (s *Store) TakeLink(ctx context.Context, token signin.Hash, now time.Time) (l *signin.Link, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		l, err = scanLink(tx.QueryRowContext(ctx, `DELETE FROM one_time_links WHERE token = $1 AND expires_at > $2 RETURNING `+linkColumns, token[:], millis(now)))
		return err
	})
	return l, err
}

// scanLink reads a row of linkColumns.
func scanLink(row rowScanner) (*signin.Link, error) {
	var l signin.Link
	var token []byte
	var purpose string
	var expires int64
	err := row.Scan(&token, &purpose, &l.AccountID, &l.Email, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "This link was used already or has expired. Ask for a new one.")
	}
	if err != nil {
		return nil, unavailable(err)
	}
	copy(l.Token[:], token)
	l.Purpose, l.ExpiresAt = signin.Purpose(purpose), fromMillis(expires)
	return &l, nil
}

// DropSignins deletes expired sessions and links.
func (s *Store) DropSignins(ctx context.Context, now time.Time) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, table := range []string{"sessions", "one_time_links"} {
			if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE expires_at <= $1`, millis(now)); err != nil {
				return err
			}
		}
		return nil
	})
}
