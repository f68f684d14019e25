package logins

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/store/sqlstore"
)

// CountAttempts counts one attempt against every key, or against none if one of them is used up. Then it
// returns how long to wait. It is one statement, and one that reads only if the attempt is refused.
func (s *Store) CountAttempts(ctx context.Context, attempts []signin.Attempt) (wait time.Duration, err error) {
	ids := make([]string, len(attempts))
	for i := range attempts {
		ids[i] = s.tryID(attempts[i].Key)
	}
	for {
		counted, err := s.countAttempts(ctx, ids, attempts)
		if err != nil || len(counted) == len(attempts) {
			return 0, err
		}
		// Some keys but not all were counted: one was used up by others after the statement had looked at
		// it. That is rare, so what was counted is given back instead of holding locks for every attempt.
		// Statements of one row each cannot deadlock.
		for _, id := range counted {
			if err := s.db.Write(ctx).Exec(`UPDATE signin_tries SET used = used - 1 WHERE id = $1 AND used > 0`, id); err != nil {
				return 0, err
			}
		}
		if wait, err := s.usedUp(ctx, ids, attempts); err != nil || wait > 0 {
			return wait, err
		}
		// The span that refused the attempt has ended since, so the next round counts it.
	}
}

// countAttempts returns the ids that it counted. The rows are locked in the order of their ids, so that two
// attempts with the same keys cannot deadlock.
func (s *Store) countAttempts(ctx context.Context, ids []string, attempts []signin.Attempt) (counted []string, err error) {
	rows, now := make([]string, len(attempts)), s.db.Clock()
	var args []any
	for i, a := range attempts {
		n := len(args)
		rows[i] = fmt.Sprintf("(CAST($%d AS TEXT), CAST($%d AS BIGINT), CAST($%d AS BIGINT))", n+1, n+2, n+3)
		args = append(args, ids[i], a.Most, a.Span)
	}
	return sqlstore.All(s.db.Write(ctx), sqlstore.Column[string], `WITH wanted (id, most, span) AS (VALUES `+strings.Join(rows, ", ")+`)
		INSERT INTO signin_tries AS t (id, used, most, ends_at)
		SELECT id, 1, most, `+now+` + span FROM wanted
		WHERE NOT EXISTS (SELECT 1 FROM signin_tries AS have JOIN wanted AS w ON w.id = have.id WHERE have.ends_at > `+now+` AND have.used >= w.most)
		ORDER BY id
		ON CONFLICT (id) DO UPDATE SET most = excluded.most,
			used = CASE WHEN t.ends_at <= `+now+` THEN 1 ELSE t.used + 1 END,
			ends_at = CASE WHEN t.ends_at <= `+now+` THEN excluded.ends_at ELSE t.ends_at END
		WHERE t.ends_at <= `+now+` OR t.used < excluded.most
		RETURNING id`, args...)
}

// usedUp returns how long to wait for the first of the attempts whose key is used up; 0 if none is.
func (s *Store) usedUp(ctx context.Context, ids []string, attempts []signin.Attempt) (time.Duration, error) {
	type state struct {
		used int64
		left time.Duration
	}
	in, args := sqlstore.Among(ids)
	have, err := sqlstore.Map(s.db.Read(ctx), func(row sqlstore.Row, id *string, st *state) error { return row.Scan(id, &st.used, &st.left) },
		`SELECT id, used, ends_at - `+s.db.Clock()+` FROM signin_tries WHERE id IN `+in, args...)
	if err != nil {
		return 0, err
	}
	for i, a := range attempts {
		if st := have[ids[i]]; st.left > 0 && st.used >= int64(a.Most) {
			return st.left, nil
		}
	}
	return 0, nil
}

// ForgetAttempts resets the counts of keys.
func (s *Store) ForgetAttempts(ctx context.Context, keys []signin.Key) error {
	for _, k := range keys {
		if err := s.db.Write(ctx).Exec(`DELETE FROM signin_tries WHERE id = $1`, s.tryID(k)); err != nil {
			return err
		}
	}
	return nil
}

// dropAtOnce is how many counts DropAttempts deletes in one transaction.
const dropAtOnce = 1000

// DropAttempts deletes the counts whose span has ended, and the least used of the others if there are more
// than most: a flood of new keys has few attempts each, so it deletes its own.
func (s *Store) DropAttempts(ctx context.Context, most int) error {
	for n := dropAtOnce; n == dropAtOnce; {
		var err error
		if n, err = s.db.DeleteSome(ctx, "signin_tries", `ends_at <= `+s.db.Clock(), dropAtOnce); err != nil {
			return err
		}
	}
	have, err := s.db.Count(ctx, "signin_tries")
	if err != nil || have <= int64(most) {
		return err
	}
	_, err = s.db.DeleteSome(ctx, "signin_tries", `TRUE ORDER BY used, ends_at`, int(have)-most)
	return err
}

// tryID returns the id that a key is stored under. A key is a hash of addresses and places, of which there
// are so few that all of them can be tried; under the data key they cannot.
func (s *Store) tryID(k signin.Key) string {
	id := s.db.Key().Box("sign-in attempts", "", string(k[:])).ID()
	return hex.EncodeToString(id[:len(k)])
}
