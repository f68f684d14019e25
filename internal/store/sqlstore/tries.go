package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account/signin"
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
			return 0, unavailable(err)
		}
		// Some keys but not all were counted: one was used up by others after the statement had looked at
		// it. That is rare, so what was counted is given back instead of holding locks for every attempt.
		if err := s.uncount(ctx, counted); err != nil {
			return 0, unavailable(err)
		}
		if wait, err := s.usedUp(ctx, ids, attempts); err != nil || wait > 0 {
			return wait, unavailable(err)
		}
		// The span that refused the attempt has ended since, so the next round counts it.
	}
}

// countAttempts returns the ids that it counted. The rows are locked in the order of their ids, so that two
// attempts with the same keys cannot deadlock.
func (s *Store) countAttempts(ctx context.Context, ids []string, attempts []signin.Attempt) (counted []string, err error) {
	var rows strings.Builder
	var args []any
	for i, a := range attempts {
		if i > 0 {
			rows.WriteString(", ")
		}
		n := len(args)
		rows.WriteString("(CAST($" + strconv.Itoa(n+1) + " AS TEXT), CAST($" + strconv.Itoa(n+2) + " AS BIGINT), CAST($" + strconv.Itoa(n+3) + " AS BIGINT))")
		args = append(args, ids[i], a.Most, a.Span.Milliseconds())
	}
	err = each(ctx, s.write, func(rows *sql.Rows) error {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		counted = append(counted, id)
		return nil
	}, `WITH wanted (id, most, span) AS (VALUES `+rows.String()+`)
		INSERT INTO signin_tries AS t (id, used, most, ends_at)
		SELECT id, 1, most, `+s.clock()+` + span FROM wanted
		WHERE NOT EXISTS (SELECT 1 FROM signin_tries AS have JOIN wanted AS w ON w.id = have.id WHERE have.ends_at > `+s.clock()+` AND have.used >= w.most)
		ORDER BY id
		ON CONFLICT (id) DO UPDATE SET most = excluded.most,
			used = CASE WHEN t.ends_at <= `+s.clock()+` THEN 1 ELSE t.used + 1 END,
			ends_at = CASE WHEN t.ends_at <= `+s.clock()+` THEN excluded.ends_at ELSE t.ends_at END
		WHERE t.ends_at <= `+s.clock()+` OR t.used < excluded.most
		RETURNING id`, args...)
	return counted, err
}

// uncount takes one attempt back from each id. Statements of one row each cannot deadlock.
func (s *Store) uncount(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if _, err := s.write.ExecContext(ctx, `UPDATE signin_tries SET used = used - 1 WHERE id = $1 AND used > 0`, id); err != nil {
			return err
		}
	}
	return nil
}

// usedUp returns how long to wait for the first of the attempts whose key is used up; 0 if none is.
func (s *Store) usedUp(ctx context.Context, ids []string, attempts []signin.Attempt) (time.Duration, error) {
	type state struct{ used, left int64 }
	have := map[string]state{}
	args := make([]any, len(ids))
	for i := range ids {
		args[i] = ids[i]
	}
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var id string
		var st state
		if err := rows.Scan(&id, &st.used, &st.left); err != nil {
			return err
		}
		have[id] = st
		return nil
	}, `SELECT id, used, ends_at - `+s.clock()+` FROM signin_tries WHERE id IN (`+numbered(1, len(ids))+`)`, args...)
	if err != nil {
		return 0, err
	}
	for i, a := range attempts {
		if st := have[ids[i]]; st.left > 0 && st.used >= int64(a.Most) {
			return time.Duration(st.left) * time.Millisecond, nil
		}
	}
	return 0, nil
}

// ForgetAttempts resets the counts of keys.
func (s *Store) ForgetAttempts(ctx context.Context, keys []signin.Key) error {
	for _, k := range keys {
		if _, err := s.write.ExecContext(ctx, `DELETE FROM signin_tries WHERE id = $1`, s.tryID(k)); err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// DropAttempts deletes the counts whose span has ended, and the least used of the others if there are more
// than most: a flood of new keys has few attempts each, so it deletes its own.
func (s *Store) DropAttempts(ctx context.Context, most int) error {
	for {
		n, err := s.deleteSome(ctx, "signin_tries", `ends_at <= `+s.clock(), expireSmallAtOnce)
		if err != nil {
			return err
		}
		if n < expireSmallAtOnce {
			break
		}
	}
	have, err := s.count(ctx, "signin_tries")
	if err != nil || have <= int64(most) {
		return err
	}
	_, err = s.deleteSome(ctx, "signin_tries", `TRUE ORDER BY used, ends_at`, int(have)-most)
	return err
}

// tryID returns the id that a key is stored under. A key is a hash of addresses and places, of which there
// are so few that all of them can be tried; under the data key they cannot.
func (s *Store) tryID(k signin.Key) string {
	id := s.key.Box("sign-in attempts", "", string(k[:])).ID()
	return hex.EncodeToString(id[:len(k)])
}
