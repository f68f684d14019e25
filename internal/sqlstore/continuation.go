package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// KeepState stores a sealed state, in place of what was there under the id.
func (s *Store) KeepState(ctx context.Context, id, sealed []byte, expires time.Time) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO continuations (id, expires_at, sealed) VALUES ($1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, sealed = excluded.sealed`, id, millis(expires), sealed)
		return err
	})
}

// FindState returns what is sealed under an id and has not expired; nil: nothing.
func (s *Store) FindState(ctx context.Context, id []byte, now time.Time) ([]byte, error) {
	var sealed []byte
	err := s.read.QueryRowContext(ctx, `SELECT sealed FROM continuations WHERE id = $1 AND expires_at > $2`, id, millis(now)).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return sealed, unavailable(err)
}

// DropStates deletes up to most states that have expired, and returns how many.
func (s *Store) DropStates(ctx context.Context, now time.Time, most int) (dropped int, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM continuations WHERE id IN (SELECT id FROM continuations WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)`, millis(now), most)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		dropped = int(n)
		return err
	})
	return dropped, err
}
