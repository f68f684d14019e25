package accounts

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"sluice/internal/account/staff"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore"
)

// tokenColumns are in the order of AddStaffToken and scanToken.
const tokenColumns = `id, hash, account_id, name, last_four, scopes, created_at, expires_at, last_used_at`

// AddStaffToken stores a token, unless the account has most tokens that have not expired. Those that have are
// deleted.
func (s *Store) AddStaffToken(ctx context.Context, t *staff.Token, now time.Time, most int) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// The lock of the account's row lets tokens of one account be made one after the other.
		if _, err := Lock(tx, t.AccountID); err != nil {
			return err
		}
		tx.Do(`DELETE FROM staff_tokens WHERE account_id = $1 AND expires_at <= $2`, t.AccountID, now)
		n, err := sqlstore.Value[int](tx, `SELECT COUNT(*) FROM staff_tokens WHERE account_id = $1`, t.AccountID)
		if err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.Conflict, "the account already has %d staff tokens, the most it may have; delete one first", most)
		}
		return tx.Exec(sqlstore.Insert("staff_tokens", tokenColumns),
			t.ID, t.Hash[:], t.AccountID, t.Name, t.LastFour, strings.Join(t.Scopes, " "), t.CreatedAt, t.ExpiresAt, t.LastUsedAt)
	})
}

// FindStaffToken returns the token with a hash. It returns a fault if there is none or it has expired.
func (s *Store) FindStaffToken(ctx context.Context, hash [sha256.Size]byte, now time.Time) (*staff.Token, error) {
	return sqlstore.Need(s.db.Read(ctx), fault.New(fault.Unauthenticated, "This staff token is unknown or has expired."), scanToken,
		`SELECT `+tokenColumns+` FROM staff_tokens WHERE hash = $1 AND expires_at > $2`, hash[:], now)
}

// StaffTokens returns up to limit tokens with an id greater than after, in order of id: those of an account, or of
// all if it is empty.
func (s *Store) StaffTokens(ctx context.Context, accountID, after string, limit int) ([]staff.Token, error) {
	where, args := ``, []any{after, limit}
	if accountID != "" {
		where, args = `account_id = $3 AND `, append(args, accountID)
	}
	return sqlstore.All(s.db.Read(ctx), scanToken, `SELECT `+tokenColumns+` FROM staff_tokens WHERE `+where+`id > $1 ORDER BY id LIMIT $2`, args...)
}

// UseStaffToken records when a token was used.
func (s *Store) UseStaffToken(ctx context.Context, id string, at time.Time) error {
	return s.db.Exec(ctx, `UPDATE staff_tokens SET last_used_at = $2 WHERE id = $1 AND last_used_at < $2`, id, at)
}

// DeleteStaffToken deletes a token and returns it. If accountID is not empty, the token must be of that account.
func (s *Store) DeleteStaffToken(ctx context.Context, accountID, id string) (*staff.Token, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (*staff.Token, error) {
		return sqlstore.Need(tx, fault.New(fault.NotFound, "there is no such staff token"), scanToken,
			`DELETE FROM staff_tokens WHERE id = $1 AND ($2 = '' OR account_id = $2) RETURNING `+tokenColumns, id, accountID)
	})
}

// scanToken reads a row of tokenColumns.
func scanToken(row sqlstore.Row, t *staff.Token) error {
	var scopes string
	err := row.Scan(&t.ID, sqlstore.Into(t.Hash[:]), &t.AccountID, &t.Name, &t.LastFour, &scopes, &t.CreatedAt, &t.ExpiresAt, &t.LastUsedAt)
	t.Scopes = strings.Fields(scopes)
	return err
}
