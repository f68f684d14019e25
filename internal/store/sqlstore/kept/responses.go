package kept

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/internal/api/responses"
	"sluice/internal/store/sqlstore"
)

// responseShelf is the table of responses. Those that expire at $4 or later stay.
var responseTable = table{
	rows: "responses", sums: "response_sizes", entries: true, others: "expires_at < $4",
	over: "entries > $2 OR bytes > $3", doomed: "s.entries - o.n >= $2 OR s.bytes - o.older > $3",
}

// KeepResponses stores sealed responses in one transaction, and replaces those with the same ids. If all responses of an
// account would then exceed the bound, its oldest ones are deleted.
func (s *Store) KeepResponses(ctx context.Context, all []*responses.Record, most responses.Bound) error {
	return s.MoveResponses(ctx, all, most, nil)
}

// MoveResponses is KeepResponses, and notes up to which number the responses of journals are stored.
func (s *Store) MoveResponses(ctx context.Context, all []*responses.Record, most responses.Bound, marks []responses.Mark) error {
	// Accounts are locked in the same order on all nodes, so that they cannot deadlock.
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *responses.Record) int { return strings.Compare(a.AccountID, b.AccountID) })
	if s.db.Engine() == sqlstore.SQLite { // on PostgreSQL, where callers wait, Together takes one round trip
		if err := s.bulkResponses(ctx, all, most, marks); !errors.Is(err, errUnusual) {
			return err
		}
	}
	err := s.insertResponses(ctx, all, most, marks, false)
	if sqlstore.IsUnique(err) {
		// The id of a response is that of its request, so this happens only if one is stored twice.
		err = s.insertResponses(ctx, last(all), most, marks, true)
	}
	return err
}

// errUnusual means that a response with the same id is stored already, or that responses would exceed the bound of an account.
var errUnusual = errors.New("a response is stored already, or there is no room for it")

// The insertions of the usual case: the ids are new, and there is room.
var (
	intoResponses = sqlstore.Insertion{Into: `responses (id, account_id, previous, size, expires_at, sealed)`, Columns: 6, Conflict: `ON CONFLICT (id) DO NOTHING`}
	intoMarks     = sqlstore.Insertion{Into: `response_marks (journal, number)`, Columns: 2, Conflict: `ON CONFLICT (journal) DO UPDATE SET number = excluded.number`}
)

// bulkResponses is MoveResponses for the usual case, with few statements. Otherwise it returns errUnusual and has stored
// nothing.
func (s *Store) bulkResponses(ctx context.Context, all []*responses.Record, most responses.Bound, marks []responses.Mark) error {
	var sums []uses
	for some := all; len(some) > 0; {
		have, n := usesOf(some)
		if have.entries > most.Entries || have.bytes > most.Bytes {
			return errUnusual
		}
		sums, some = append(sums, have), some[n:]
	}
	// One that would exceed the bound keeps what it has.
	intoSums := sqlstore.Insertion{
		Into: `response_sizes (account_id, entries, bytes)`, Columns: 3,
		Conflict: fmt.Sprintf(`ON CONFLICT (account_id) DO UPDATE SET entries = response_sizes.entries + excluded.entries, bytes = response_sizes.bytes + excluded.bytes
			WHERE response_sizes.entries + excluded.entries <= %d AND response_sizes.bytes + excluded.bytes <= %d`, most.Entries, most.Bytes),
	}
	// Ids are hashes. In their order, each page of their index is visited once.
	all = slices.SortedFunc(slices.Values(all), func(a, b *responses.Record) int { return bytes.Compare(a.ID, b.ID) })
	return s.db.InsertMany(ctx, func(ctx context.Context, to sqlstore.Bulk) error {
		n, err := to.Insert(ctx, &intoSums, len(sums), func(values []any, i int) []any {
			return append(values, sums[i].accountID, sums[i].entries, sums[i].bytes)
		})
		if err == nil && n != int64(len(sums)) {
			err = errUnusual
		}
		if err != nil {
			return err
		}
		n, err = to.Insert(ctx, &intoResponses, len(all), func(values []any, i int) []any {
			r := all[i]
			return append(values, r.ID, r.AccountID, r.Previous, int64(len(r.Sealed)), sqlstore.Millis(r.ExpiresAt), r.Sealed)
		})
		if err == nil && n != int64(len(all)) {
			err = errUnusual
		}
		if err != nil {
			return err
		}
		_, err = to.Insert(ctx, &intoMarks, len(marks), func(values []any, i int) []any {
			return append(values, marks[i].Journal, int64(marks[i].Number))
		})
		return err
	})
}

// ResponseMarks returns up to which number the responses of each journal are stored.
func (s *Store) ResponseMarks(ctx context.Context) ([]responses.Mark, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, m *responses.Mark) error {
		var number int64
		err := row.Scan(&m.Journal, &number)
		m.Number = uint64(number)
		return err
	}, `SELECT journal, number FROM response_marks`)
}

// DropResponseMarks deletes the marks of all journals but some.
func (s *Store) DropResponseMarks(ctx context.Context, but []string) error {
	if len(but) == 0 {
		return s.db.Write(ctx).Exec(`DELETE FROM response_marks`)
	}
	in, args := sqlstore.Among(but)
	return s.db.Write(ctx).Exec(`DELETE FROM response_marks WHERE journal NOT IN `+in, args...)
}

// last returns the records without those whose id comes again.
func last(all []*responses.Record) (some []*responses.Record) {
	for i, r := range all {
		if !slices.ContainsFunc(all[i+1:], func(later *responses.Record) bool { return bytes.Equal(later.ID, r.ID) }) {
			some = append(some, r)
		}
	}
	return some
}

// insertResponses inserts responses, which are ordered by their accounts, and makes room for them. If replace is set, those
// with the same ids go first; otherwise they are the violation of a unique index.
func (s *Store) insertResponses(ctx context.Context, all []*responses.Record, most responses.Bound, marks []responses.Mark, replace bool) error {
	var steps []sqlstore.Step
	for _, m := range marks {
		steps = append(steps, sqlstore.Step{Query: `INSERT INTO ` + intoMarks.Into + ` VALUES ($1, $2) ` + intoMarks.Conflict, Args: []any{m.Journal, int64(m.Number)}})
	}
	var more []func() []sqlstore.Step // what is left to trim for each account
	for some := all; len(some) > 0; {
		have, n := usesOf(some)
		first := slices.MinFunc(some[:n], func(a, b *responses.Record) int { return a.ExpiresAt.Compare(b.ExpiresAt) }).ExpiresAt
		steps = append(steps, responseTable.add(have))
		if replace {
			for _, r := range some[:n] {
				steps = append(steps,
					sqlstore.Step{Query: `UPDATE response_sizes SET entries = entries - 1, bytes = bytes - (SELECT size FROM responses WHERE id = $2)
						WHERE account_id = $1 AND EXISTS (SELECT 1 FROM responses WHERE id = $2 AND account_id = $1)`, Args: []any{have.accountID, r.ID}},
					sqlstore.Step{Query: `DELETE FROM responses WHERE id = $2 AND account_id = $1`, Args: []any{have.accountID, r.ID}})
			}
		}
		deleted := new(int64)
		steps = append(steps, responseTable.trim(deleted, have.accountID, most.Entries, most.Bytes, int64(math.MaxInt64))...)
		more = append(more, func() []sqlstore.Step {
			if *deleted < trimAtOnce {
				return nil
			}
			lock := responseTable.add(uses{accountID: have.accountID})
			return append([]sqlstore.Step{lock}, responseTable.trim(deleted, have.accountID, most.Entries, most.Bytes, first)...)
		})
		some = some[n:]
	}
	for _, r := range all {
		steps = append(steps, sqlstore.Step{
			Query: `INSERT INTO responses (id, account_id, previous, size, expires_at, sealed) VALUES ($1, $2, $3, $4, $5, $6)`,
			Args:  []any{r.ID, r.AccountID, r.Previous, int64(len(r.Sealed)), r.ExpiresAt, r.Sealed},
		})
	}
	for len(steps) > 0 {
		if err := s.db.Together(ctx, steps); err != nil {
			return err
		}
		steps = nil
		for _, left := range more {
			steps = append(steps, left()...)
		}
	}
	return nil
}

// usesOf returns what the responses of the first account take, and how many they are.
func usesOf(some []*responses.Record) (u uses, n int) {
	u.accountID = some[0].AccountID
	for ; n < len(some) && some[n].AccountID == u.accountID; n++ {
		u.entries++
		u.bytes += int64(len(some[n].Sealed))
	}
	return u, n
}

// FindResponses returns the sealed responses with the ids, in their order. One that is not there, or has expired, is nil.
func (s *Store) FindResponses(ctx context.Context, ids [][]byte, now time.Time) ([][]byte, error) {
	return responseColumn[[]byte](ctx, s, "sealed", ids, now)
}

// SizeResponses returns the sizes of the sealed responses with the ids, in their order. One that is not there, or has
// expired, is 0.
func (s *Store) SizeResponses(ctx context.Context, ids [][]byte, now time.Time) ([]int64, error) {
	return responseColumn[int64](ctx, s, "size", ids, now)
}

// responseColumn returns a column of the responses with the ids, in their order, and the zero value for those that are not
// there or have expired.
func responseColumn[T any](ctx context.Context, s *Store, column string, ids [][]byte, now time.Time) ([]T, error) {
	found := make(map[string]T, len(ids))
	for some := range slices.Chunk(ids, 200) {
		in, args := sqlstore.Among(some, now)
		part, err := sqlstore.Map(s.db.Read(ctx), func(row sqlstore.Row, id *string, v *T) error { return row.Scan(id, v) },
			`SELECT id, `+column+` FROM responses WHERE expires_at > $1 AND id IN `+in, args...)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, part)
	}
	out := make([]T, len(ids))
	for i, id := range ids {
		out[i] = found[string(id)]
	}
	return out, nil
}

// FollowResponses returns a response and those before it, the newest first, at most most of them. It ends before one that
// is not there or has expired.
func (s *Store) FollowResponses(ctx context.Context, id []byte, now time.Time, most int) ([]responses.Link, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, l *responses.Link) error {
		var depth int
		return row.Scan(&l.ID, &l.Previous, &l.Size, &depth)
	}, `WITH RECURSIVE chain (id, previous, size, depth) AS (
			SELECT id, previous, size, 1 FROM responses WHERE id = $1 AND expires_at > $2
			UNION ALL
			SELECT r.id, r.previous, r.size, c.depth + 1 FROM responses r JOIN chain c ON r.id = c.previous WHERE r.expires_at > $2 AND c.depth < $3
		) SELECT id, previous, size, depth FROM chain ORDER BY depth`, id, now, most)
}

// DropResponse deletes a response of an account, and reports whether it was there.
func (s *Store) DropResponse(ctx context.Context, accountID string, id []byte) (bool, error) {
	return responseTable.dropOne(ctx, s.db, accountID, id)
}

// ForgetResponses deletes all responses of an account.
func (s *Store) ForgetResponses(ctx context.Context, accountID string) error {
	return responseTable.forget(ctx, s.db, accountID)
}

// DropResponses deletes up to most expired responses and returns how many it deleted.
func (s *Store) DropResponses(ctx context.Context, now time.Time, most int) (int, error) {
	return s.dropExpired(ctx, &responseTable, now, most)
}
