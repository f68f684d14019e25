package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"strings"
	"time"

	"sluice/internal/account/staff"
	"sluice/internal/kit/fault"
)

// tokenColumns are in the order of AddStaffToken and scanToken.
const tokenColumns = `id, hash, account_id, name, last_four, scopes, created_at, expires_at, last_used_at`

// AddStaffToken stores a token, unless the account has most tokens that have not expired. Those that have are
// deleted.
func (s *Store) AddStaffToken(ctx context.Context, t *staff.Token, now time.Time, most int) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// The lock of the account's row lets tokens of one account be made one after the other.
		if _, err := tx.ExecContext(ctx, `UPDATE accounts SET version = version WHERE id = $1`, t.AccountID); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM staff_tokens WHERE account_id = $1 AND expires_at <= $2`, t.AccountID, millis(now)); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM staff_tokens WHERE account_id = $1`, t.AccountID).Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.Conflict, "the account already has %d staff tokens, the most it may have; delete one first", most)
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO staff_tokens (`+tokenColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			t.ID, t.Hash[:], t.AccountID, t.Name, t.LastFour, strings.Join(t.Scopes, " "), millis(t.CreatedAt), millis(t.ExpiresAt), millis(t.LastUsedAt))
		return err
	})
}

// FindStaffToken returns the token with a hash. It returns a fault if there is none or it has expired.
func (s *Store) FindStaffToken(ctx context.Context, hash [sha256.Size]byte, now time.Time) (*staff.Token, error) {
	t, err := scanToken(s.read.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM staff_tokens WHERE hash = $1 AND expires_at > $2`, hash[:], millis(now)))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.New(fault.Unauthenticated, "This staff token is unknown or has expired.")
	}
	return t, unavailable(err)
}

// StaffTokens returns up to limit tokens with an id greater than after, in order of id: those of an account, or of
// all if it is empty.
func (s *Store) StaffTokens(ctx context.Context, accountID, after string, limit int) ([]staff.Token, error) {
	var list []staff.Token
	query, args := `SELECT `+tokenColumns+` FROM staff_tokens WHERE id > $1 ORDER BY id LIMIT $2`, []any{after, limit}
	if accountID != "" {
		query, args = `SELECT `+tokenColumns+` FROM staff_tokens WHERE account_id = $3 AND id > $1 ORDER BY id LIMIT $2`, append(args, accountID)
	}
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		t, err := scanToken(rows)
		if err != nil {
			return err
		}
		list = append(list, *t)
		return nil
	}, query, args...)
	return list, unavailable(err)
}

// UseStaffToken records when a token was used.
func (s *Store) UseStaffToken(ctx context.Context, id string, at time.Time) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE staff_tokens SET last_used_at = $2 WHERE id = $1 AND last_used_at < $2`, id, millis(at))
		return err
	})
}

// DeleteStaffToken deletes a token and returns it. If accountID is not empty, the token must be of that account.
func (s *Store) DeleteStaffToken(ctx context.Context, accountID, id string) (t *staff.Token, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		t, err = scanToken(tx.QueryRowContext(ctx, `DELETE FROM staff_tokens WHERE id = $1 AND ($2 = '' OR account_id = $2) RETURNING `+tokenColumns, id, accountID))
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.NotFound, "there is no such staff token")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// scanToken reads a row of tokenColumns.
func scanToken(row rowScanner) (*staff.Token, error) {
	var t staff.Token
	var hash []byte
	var scopes string
	var created, expires, used int64
	if err := row.Scan(&t.ID, &hash, &t.AccountID, &t.Name, &t.LastFour, &scopes, &created, &expires, &used); err != nil {
		return nil, err
	}
	copy(t.Hash[:], hash)
	t.Scopes = strings.Fields(scopes)
	t.CreatedAt, t.ExpiresAt, t.LastUsedAt = fromMillis(created), fromMillis(expires), fromMillis(used)
	return &t, nil
}
