// Package budgets stores what is counted for budgets: what was spent of each, and who was granted how much of the rest; and of which
// programs that run away people were told.
//
// Store implements the interfaces of packages budget and runaway. What calls have cost is added by package calls, in the transaction that stores
// their settlements. Every transaction locks rows of budget_counts before those of budget_spent, and these before those of
// budget_grants, each in the order of their keys, so that no two can wait for each other.
package budgets

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/store/sqlstore"
)

const (
	// asksAtOnce is how many counts one statement reads, and grantsAtOnce how many grants one writes. Both have few enough
	// parameters for SQLite, which looks each one up by its name.
	asksAtOnce, grantsAtOnce = 50, 50
	// dropsAtOnce is how many grants one transaction takes back.
	dropsAtOnce = 1000
)

// Store is the part of a database with the counts of budgets.
type Store struct{ db *sqlstore.Store }

// New returns the part of a database.
func New(db *sqlstore.Store) *Store { return &Store{db} }

// Grant gives a holder some of a count; see budget.Store.
//
// It is no single statement that PostgreSQL could still run after the caller has given up: a later question of the same holder
// waits for the lock of the count, so what the holder hears last is what is stored.
//
// A holder that has nothing and gets nothing leaves no rows: anybody can be refused any number of times, in the name of a new session
// each time.
func (s *Store) Grant(ctx context.Context, a budget.Ask) (budget.Figures, error) {
	if a.Granted == 0 && a.Reserved == 0 {
		all, err := standings(s.db.Read(ctx), []budget.Ask{a})
		if err != nil {
			return budget.Figures{}, err
		}
		if f := figures(&a, &all[0], 0); f.Free < a.Need && all[0].granted == 0 {
			return f, nil
		}
	}
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (f budget.Figures, err error) {
		if _, err := s.lock(tx, a.AccountID, a.Count); err != nil {
			return f, err
		}
		all, err := standings(tx, []budget.Ask{a})
		if err != nil {
			return f, err
		}
		// What the row says of the holder's own grant may be an answer that it never got.
		f = figures(&a, &all[0], a.Granted)
		if f.Free >= a.Need {
			give := min(f.Free, max(a.Need, a.Share))
			f.Granted += give
			f.Free -= give
		}
		a.Granted = f.Granted
		return f, s.write(tx, []budget.Grant{a.Grant})
	})
}

// lock makes the row of a count if there is none, locks it until the transaction ends, and returns what was added to the amount.
func (s *Store) lock(tx *sqlstore.Conn, accountID, count string) (raised int64, err error) {
	return sqlstore.Value[int64](tx, `INSERT INTO budget_counts (count, account_id, touched_at) VALUES ($1, $2, `+s.db.Clock()+`)
		ON CONFLICT (count) DO UPDATE SET touched_at = excluded.touched_at RETURNING raised`, count, accountID)
}

// standing is what the tables say of a count and of one of its holders.
type standing struct{ raised, spent, granted, committed, others, reserved price.Nano }

// standings returns how counts stand, in the order of the asks. It is one statement, because a settlement moves money from a grant to
// what is spent: two statements could see it in both places or in none.
func standings(c *sqlstore.Conn, asks []budget.Ask) ([]standing, error) {
	rows, args := make([]string, len(asks)), make([]any, 0, 5*len(asks))
	for i, a := range asks {
		at := len(args)
		rows[i] = fmt.Sprintf(`(%d, CAST($%d AS TEXT), CAST($%d AS BIGINT), CAST($%d AS TEXT), CAST($%d AS BIGINT))`, i, at+1, at+2, at+3, at+4)
		args = append(args, a.Count, a.Period, a.Holder, a.Since)
	}
	all, seen := make([]standing, len(asks)), 0
	err := c.Each(func(row sqlstore.Row) error {
		var i int
		var st standing
		if err := row.Scan(&i, &st.raised, &st.spent, &st.granted, &st.committed, &st.others, &st.reserved); err != nil {
			return err
		}
		all[i] = st
		seen++
		return nil
	}, `WITH a (i, count, period, holder, since) AS (VALUES `+strings.Join(rows, ", ")+`)
		SELECT a.i,
			COALESCE((SELECT c.raised FROM budget_counts c WHERE c.count = a.count), 0),
			CAST(COALESCE((SELECT SUM(s.spent) FROM budget_spent s WHERE s.count = a.count AND s.period >= a.since AND (a.period < 0 OR s.period = a.period)), 0) AS BIGINT),
			CAST(COALESCE(SUM(CASE WHEN g.holder = a.holder THEN g.granted END), 0) AS BIGINT),
			CAST(COALESCE(SUM(CASE WHEN g.holder = a.holder THEN g.spent END), 0) AS BIGINT),
			CAST(COALESCE(SUM(CASE WHEN g.holder <> a.holder AND g.granted > g.spent THEN g.granted - g.spent END), 0) AS BIGINT),
			CAST(COALESCE(SUM(CASE WHEN g.holder <> a.holder THEN g.reserved END), 0) AS BIGINT)
		FROM a LEFT JOIN budget_grants g ON g.count = a.count AND g.period = a.period
		GROUP BY a.i, a.count, a.period, a.holder, a.since`, args...)
	if err == nil && seen != len(asks) {
		err = fmt.Errorf("%d counts were read, not %d", seen, len(asks))
	}
	return all, err
}

// figures returns how a count stands if the holder has what it was granted.
func figures(a *budget.Ask, st *standing, granted price.Nano) budget.Figures {
	f := budget.Figures{
		Amount: a.Amount + st.raised, Spent: st.spent, Reserved: st.reserved, Others: st.others, Granted: granted, Committed: st.committed,
	}
	f.Free = f.Amount - f.Spent - f.Others - max(0, granted-st.committed)
	return f
}

// write sets what holders have and hold. What they have spent stays as it is: settlements alone change that. No two grants
// may be of the same holder and key.
func (s *Store) write(tx *sqlstore.Conn, grants []budget.Grant) error {
	slices.SortFunc(grants, compareGrants)
	for part := range slices.Chunk(grants, grantsAtOnce) {
		rows, args := make([]string, len(part)), make([]any, 0, 5*len(part))
		for i, g := range part {
			rows[i] = `(` + sqlstore.Numbered(len(args)+1, 5) + `, 0, ` + s.db.Clock() + `)`
			args = append(args, g.Count, g.Period, g.Holder, int64(g.Granted), int64(g.Reserved))
		}
		if err := tx.Exec(`INSERT INTO budget_grants (count, period, holder, granted, reserved, spent, touched_at) VALUES `+strings.Join(rows, ", ")+`
			ON CONFLICT (count, period, holder) DO UPDATE SET granted = excluded.granted, reserved = excluded.reserved, touched_at = excluded.touched_at`, args...); err != nil {
			return err
		}
	}
	return nil
}

// compareGrants orders grants by their key, in which all transactions lock them.
func compareGrants(a, b budget.Grant) int {
	return cmp.Or(strings.Compare(a.Count, b.Count), cmp.Compare(a.Period, b.Period), strings.Compare(a.Holder, b.Holder))
}

// Keep notes what holders have and hold; see budget.Store. If a grant is told twice, the last one counts.
func (s *Store) Keep(ctx context.Context, grants []budget.Grant) error {
	last := map[budget.Grant]int{} // by key and holder
	var each []budget.Grant
	for _, g := range grants {
		name := budget.Grant{Key: g.Key, Holder: g.Holder}
		if i, told := last[name]; told {
			each[i] = g
			continue
		}
		last[name] = len(each)
		each = append(each, g)
	}
	if len(each) == 0 {
		return nil
	}
	slices.SortFunc(each, compareGrants)
	var back budget.TakenBack
	err := s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// A grant that was taken back has no row, or one that a settlement has made since, with nothing granted. It gets none.
		if err := tx.ExecEach(len(each), func(i int) []any {
			g := &each[i]
			return []any{g.Count, g.Period, g.Holder, int64(g.Granted), int64(g.Reserved)}
		}, `UPDATE budget_grants SET granted = CAST($4 AS BIGINT), reserved = $5, touched_at = `+s.db.Clock()+`
			WHERE count = $1 AND period = $2 AND holder = $3 AND (granted > 0 OR CAST($4 AS BIGINT) = 0)`); err != nil {
			return err
		}
		back.Grants = nil // the transaction may be tried again
		for part := range slices.Chunk(each, asksAtOnce) {
			there, err := granted(tx, part)
			if err != nil {
				return err
			}
			for i := range part {
				if part[i].Granted > 0 && !there[i] {
					back.Grants = append(back.Grants, part[i])
				}
			}
		}
		return nil
	})
	if err == nil && len(back.Grants) > 0 {
		err = &back
	}
	return err
}

// granted reports which grants have a row with something granted, by their places in the list.
func granted(tx *sqlstore.Conn, grants []budget.Grant) (map[int]bool, error) {
	rows, args := make([]string, len(grants)), make([]any, 0, 3*len(grants))
	for i, g := range grants {
		rows[i] = fmt.Sprintf(`(%d, CAST($%d AS TEXT), CAST($%d AS BIGINT), CAST($%d AS TEXT))`, i, len(args)+1, len(args)+2, len(args)+3)
		args = append(args, g.Count, g.Period, g.Holder)
	}
	there := make(map[int]bool, len(grants))
	err := tx.Each(func(row sqlstore.Row) error {
		var i int
		err := row.Scan(&i)
		there[i] = true
		return err
	}, `WITH a (i, count, period, holder) AS (VALUES `+strings.Join(rows, ", ")+`)
		SELECT a.i FROM a JOIN budget_grants g ON g.count = a.count AND g.period = a.period AND g.holder = a.holder WHERE g.granted > 0`, args...)
	return there, err
}

// Forget takes back what holders have; see budget.Store. It compares beginnings, since names may have the signs that
// LIKE gives a meaning.
func (s *Store) Forget(ctx context.Context, prefix, except string) error {
	where, args := `substr(holder, 1, $1) = $2`, []any{utf8.RuneCountInString(prefix), prefix}
	if except != "" {
		where, args = where+` AND substr(holder, 1, $3) <> $4`, append(args, utf8.RuneCountInString(except), except)
	}
	return s.takeBack(ctx, where, args...)
}

// Drop takes back all that a holder has; see budget.Store.
func (s *Store) Drop(ctx context.Context, holder string) error {
	return s.takeBack(ctx, `holder = $1`, holder)
}

// takeBack deletes grants, some at a time.
func (s *Store) takeBack(ctx context.Context, where string, args ...any) error {
	for {
		n, err := sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (int, error) {
			found, err := sqlstore.All(tx, func(row sqlstore.Row, g *budget.Grant) error { return row.Scan(&g.Count, &g.Period, &g.Holder) },
				`SELECT count, period, holder FROM budget_grants WHERE `+where+fmt.Sprintf(` LIMIT %d`, dropsAtOnce), args...)
			if err != nil {
				return 0, err
			}
			slices.SortFunc(found, compareGrants) // PostgreSQL may order text by language
			return len(found), tx.ExecEach(len(found), func(i int) []any { return []any{found[i].Count, found[i].Period, found[i].Holder} },
				`DELETE FROM budget_grants WHERE count = $1 AND period = $2 AND holder = $3`)
		})
		if err != nil || n < dropsAtOnce {
			return err
		}
	}
}

// Figures returns how counts stand; see budget.Store.
func (s *Store) Figures(ctx context.Context, asks []budget.Ask) ([]budget.Figures, error) {
	all := make([]budget.Figures, 0, len(asks))
	for part := range slices.Chunk(asks, asksAtOnce) {
		found, err := standings(s.db.Read(ctx), part)
		if err != nil {
			return nil, err
		}
		for i := range part {
			all = append(all, figures(&part[i], &found[i], found[i].granted))
		}
	}
	return all, nil
}

// Raise adds to the amount of a count, and returns all that was added to it: at least nothing, and at most what a budget can have.
func (s *Store) Raise(ctx context.Context, accountID, count string, by price.Nano) (price.Nano, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (price.Nano, error) {
		had, err := s.lock(tx, accountID, count)
		if err != nil {
			return 0, err
		}
		// Both are bounded, so that their sum is.
		raised := max(0, min(had+max(-account.MaxBudget, min(int64(by), account.MaxBudget)), account.MaxBudget))
		return price.Nano(raised), tx.Exec(`UPDATE budget_counts SET raised = $2 WHERE count = $1`, count, raised)
	})
}

// Hand moves parts of grants to other holders; see budget.Store.
func (s *Store) Hand(ctx context.Context, from, to []budget.Grant) error {
	all := slices.SortedFunc(slices.Values(slices.Concat(from, to)), compareGrants)
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		for _, g := range all {
			hand := s.take
			if slices.Contains(from, g) {
				hand = func(tx *sqlstore.Conn, g budget.Grant) error { return s.write(tx, []budget.Grant{g}) }
			}
			if err := hand(tx, g); err != nil {
				return err
			}
		}
		return nil
	})
}

// take adds a grant that was handed over. A row that is there was made by an earlier try. What it was for may have ended since.
func (s *Store) take(tx *sqlstore.Conn, g budget.Grant) error {
	return tx.Exec(`INSERT INTO budget_grants (count, period, holder, granted, reserved, spent, touched_at) VALUES (`+sqlstore.Numbered(1, 5)+`, 0, `+s.db.Clock()+`)
		ON CONFLICT (count, period, holder) DO NOTHING`, g.Count, g.Period, g.Holder, int64(g.Granted), int64(g.Reserved))
}
