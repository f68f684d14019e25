package budgets_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/store/sqlstore/budgets"
	"sluice/internal/testkit/pgtest"
)

func TestMarksSQLite(t *testing.T) {
	t.Parallel()
	marks(t, func(t *testing.T) *alltest.Store { return alltest.In(t, "sqlite", t.TempDir()) })
}

func TestMarksPostgreSQL(t *testing.T) {
	t.Parallel()
	empty := pgtest.URL(t)
	alltest.In(t, empty, "").Close()
	marks(t, func(t *testing.T) *alltest.Store { return alltest.In(t, pgtest.Copy(t, empty), "") })
}

// marks checks a Watch over a database.
func marks(t *testing.T, open func(t *testing.T) *alltest.Store) {
	for name, test := range map[string]func(*testing.T, *watched){
		"EachOnce": eachOnce, "AtOnce": atOnce, "Again": again, "Rolling": rollingMarks, "Midnight": midnight, "Late": late,
		"Sessions": sessionMarks, "Together": together, "Gone": gone, "Expire": marksExpire, "DeletedExpire": deletedExpire,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWatched(t, open(t)))
		})
	}
}

// watched is an account whose budgets of 100 nano-dollars are looked at.
type watched struct {
	*testing.T
	db      *alltest.Store
	account *account.Account
	now     time.Time
	watch   *budget.Watch
	letters []string // with the percentage, the count and the period of each
}

func newWatched(t *testing.T, db *alltest.Store) *watched {
	w := &watched{T: t, db: db, account: &account.Account{ID: "acct_1"}, now: time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)}
	for id, window := range map[string]account.Window{"bud_day": account.Daily, "bud_roll": account.Rolling24, "bud_all": account.Total} {
		w.account.Budgets = append(w.account.Budgets, account.Budget{ID: id, Name: id, Amount: 100, Window: window, Scope: account.BudgetScope{Account: true}})
	}
	w.account.Budgets = append(w.account.Budgets, account.Budget{ID: "bud_each", Name: "each", Amount: 100, Window: account.Total, Scope: account.BudgetScope{Session: account.EachSession}})
	// Events that nobody gets are not stored.
	w.must(db.AddEndpoint(t.Context(), &alert.Endpoint{ID: "whk_1", AccountID: "acct_1", Kind: alert.Web, To: "https://example.com", Secret: alert.NewSecret(), CreatedAt: w.now}, 5, account.Entry{}))
	w.watch = w.another()
	return w
}

// another returns a Watch such as that of another server.
func (w *watched) another() *budget.Watch {
	return budget.NewWatch(budgets.New(w.db.Kernel()), func(id string) *account.Account {
		if id == w.account.ID {
			return w.account
		}
		return nil
	}, &budget.WatchOptions{Now: func() time.Time { return w.now }, Tell: func(_ context.Context, p *budget.Passed) {
		w.letters = append(w.letters, fmt.Sprint(p.Percent, " ", p.Count(), " ", p.Period))
	}})
}

func (w *watched) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// spend sets what is spent of a count in a period, now.
func (w *watched) spend(count string, period time.Time, spent price.Nano) {
	w.Helper()
	ms := int64(0)
	if !period.IsZero() {
		ms = period.UnixMilli()
	}
	w.must(w.db.Kernel().Tx(w.Context(), func(tx *sqlstore.Conn) error {
		tx.Do(`INSERT INTO budget_counts (count, account_id, touched_at) VALUES ($1, 'acct_1', $2) ON CONFLICT (count) DO UPDATE SET touched_at = excluded.touched_at`, count, w.now)
		tx.Do(`INSERT INTO budget_spent (count, period, spent) VALUES ($1, $2, $3) ON CONFLICT (count, period) DO UPDATE SET spent = excluded.spent`, count, ms, int64(spent))
		return nil
	}))
}

// looks looks, and checks of what people were told.
func (w *watched) looks(what string, want ...string) {
	w.Helper()
	w.letters = nil
	w.watch.Look(w.Context())
	if !slices.Equal(w.letters, want) {
		w.Errorf("%s: the letters are %q, want %q", what, w.letters, want)
	}
}

// events returns how many events there are.
func (w *watched) events() int {
	w.Helper()
	n, err := w.db.Kernel().Count(w.Context(), "alert_events")
	w.must(err)
	return int(n)
}

func eachOnce(t *testing.T, w *watched) {
	day := w.now.Truncate(24 * time.Hour)
	told := func(percent int, day time.Time) string { return fmt.Sprint(percent, " bud_day ", day.UnixMilli()) }
	w.spend("bud_day", day, 49)
	w.looks("49 of 100")
	w.spend("bud_day", day, 50)
	w.looks("50", told(50, day))
	w.looks("nothing new")
	w.watch = w.another()
	w.looks("another server")
	w.now = w.now.Add(time.Hour)
	w.spend("bud_day", day, 85)
	w.looks("85", told(80, day))
	w.spend("bud_day", day, 120)
	w.looks("120", told(100, day))
	w.looks("nothing new")
	w.now = w.now.Add(24 * time.Hour)
	next := day.Add(24 * time.Hour)
	w.spend("bud_day", next, 50)
	w.looks("the next day", told(50, next))
	if n := w.events(); n != 4 {
		t.Errorf("there are %d events, want 4", n)
	}
}

// A call that passes several marks causes an event for each, and one letter.
func atOnce(t *testing.T, w *watched) {
	w.spend("bud_all", time.Time{}, 100)
	w.looks("all", "100 bud_all 0")
	if n := w.events(); n != 3 {
		t.Errorf("there are %d events, want 3", n)
	}
}

// Whoever raises a budget is told again.
func again(_ *testing.T, w *watched) {
	w.spend("bud_all", time.Time{}, 100)
	w.looks("all", "100 bud_all 0")
	_, err := budgets.New(w.db.Kernel()).Raise(w.Context(), "acct_1", "bud_all", 100)
	w.must(err)
	w.spend("bud_all", time.Time{}, 110)
	w.looks("more of twice as much")
	w.spend("bud_all", time.Time{}, 160)
	w.looks("80 again", "80 bud_all 0")
}

func rollingMarks(_ *testing.T, w *watched) {
	const told = "50 bud_roll -300000"
	begin := w.now
	w.spend("bud_roll", begin, 60)
	w.looks("60", told)
	w.now = begin.Add(time.Hour)
	w.spend("bud_roll", w.now, 5)
	w.looks("65, and never less")
	// Nobody looked when the first calls left the window.
	w.now = begin.Add(24*time.Hour + 10*time.Minute)
	w.spend("bud_roll", w.now, 46)
	w.looks("51 again", told)
	w.looks("nothing new")
	w.now = w.now.Add(30 * time.Minute)
	w.spend("bud_roll", w.now, 2)
	w.looks("53, and never less")
	// Somebody looks while it is less, and 5 are left of the first day.
	w.now = begin.Add(25*time.Hour + 10*time.Minute)
	w.spend("bud_roll", w.now, 1)
	w.looks("49")
	w.spend("bud_roll", w.now, 2)
	w.looks("50 again", told)
}

// A call that was stored after the end of its day counts for that day.
func midnight(_ *testing.T, w *watched) {
	day := w.now.Truncate(24 * time.Hour)
	w.now = day.Add(24*time.Hour - time.Second)
	w.spend("bud_day", day, 10)
	w.looks("10")
	w.now = day.Add(24*time.Hour + 5*time.Second)
	w.spend("bud_day", day, 60)
	w.looks("the day before", fmt.Sprint("50 bud_day ", day.UnixMilli()))
}

// What has waited in the journal for long is seen.
func late(_ *testing.T, w *watched) {
	w.now = time.Now().UTC()
	w.spend("bud_all", time.Time{}, 1)
	w.looks("1 of 100")
	cost := price.Nano(60)
	w.must(w.db.RecordSettlements(w.Context(), []usage.Settlement{{
		ID: "late", At: w.now.Add(-time.Hour), AccountID: "acct_1", KeyID: "key_1", Plan: "basic", Tier: "free", ModelAsked: "m", ModelUsed: "m", Provider: "lab",
		Status: 200, End: usage.EndComplete, Latency: time.Second, Cost: &cost, Terms: usage.Terms{Version: "v", Budgets: []usage.Charge{{Count: "bud_each/late"}}},
	}}))
	w.looks("a late call", "50 bud_each/late 0")
}

// Any number of sessions is looked at, and causes few letters.
func sessionMarks(t *testing.T, w *watched) {
	const sessions = 450
	w.must(w.db.Kernel().Tx(t.Context(), func(tx *sqlstore.Conn) error {
		for i := range sessions {
			tx.Do(`INSERT INTO budget_counts (count, account_id, touched_at) VALUES ($1, 'acct_1', $2)`, fmt.Sprint("bud_each/", i), w.now)
			tx.Do(`INSERT INTO budget_spent (count, period, spent) VALUES ($1, 0, 50)`, fmt.Sprint("bud_each/", i))
		}
		return nil
	}))
	w.watch.Look(t.Context())
	if len(w.letters) != 10 || w.events() != sessions {
		t.Errorf("there are %d letters and %d events, want 10 and %d", len(w.letters), w.events(), sessions)
	}
	w.now = w.now.Add(time.Hour)
	w.spend("bud_each/x", time.Time{}, 50)
	w.looks("an hour later", "50 bud_each/x 0")
	// Of far more, webhooks are told of a thousand.
	w.now = w.now.Add(time.Hour)
	before := w.events()
	w.must(w.db.Kernel().Tx(t.Context(), func(tx *sqlstore.Conn) error {
		for i := range sessions {
			tx.Do(`INSERT INTO budget_counts (count, account_id, touched_at) VALUES ($1, 'acct_1', $2)`, fmt.Sprint("bud_each/more", i), w.now)
			tx.Do(`INSERT INTO budget_spent (count, period, spent) VALUES ($1, 0, 100)`, fmt.Sprint("bud_each/more", i))
		}
		return nil
	}))
	w.watch.Look(t.Context())
	if n := w.events() - before; n < 1000 || n > 1002 {
		t.Errorf("%d sessions that have passed 3 marks make %d events, want 1,000", sessions, n)
	}
}

// Two servers that look at the same time tell once.
func together(t *testing.T, w *watched) {
	s, key := budgets.New(w.db.Kernel()), budget.Key{Count: "bud_all"}
	p := budget.Passed{Due: budget.Due{Budget: w.account.Budget("bud_all")}, AccountID: "acct_1", Percent: 50, At: w.now}
	for i, want := range []int{1, 0} {
		p.At = p.At.Add(time.Second)
		if got, err := s.Pass(t.Context(), key, nil, []budget.Passed{p}); err != nil || len(got) != want {
			t.Errorf("server %d tells of %d marks, want %d: %v", i, len(got), want, err)
		}
	}
	// Nor does one forget what the other has just told.
	if _, err := s.Pass(t.Context(), key, []budget.Told{{Percent: 50, At: w.now}}, nil); err != nil {
		t.Fatal(err)
	}
	if told, err := s.Told(t.Context(), []budget.Key{key, {Count: "bud_day"}}); err != nil || len(told[key]) != 1 || len(told) != 1 {
		t.Errorf("Told = %v, %v, want the mark", told, err)
	}
}

// Counts of accounts and budgets that are gone are passed over.
func gone(_ *testing.T, w *watched) {
	w.spend("bud_gone", time.Time{}, 100)
	w.spend("bud_all", time.Time{}, 100)
	w.account.ID = "acct_2"
	w.looks("no account")
	w.account.ID = "acct_1"
	w.looks("no budget", "100 bud_all 0")
}

// What was told is kept as long as what was spent.
func marksExpire(t *testing.T, w *watched) {
	old := w.now.Add(-401 * 24 * time.Hour)
	w.must(w.db.Kernel().Tx(t.Context(), func(tx *sqlstore.Conn) error {
		tx.Do(`INSERT INTO budget_counts (count, account_id, touched_at) VALUES ('bud_each/s', 'acct_1', $1)`, old)
		tx.Do(`INSERT INTO budget_marks (count, period, percent, at) VALUES ('bud_day', 5, 50, $1), ('bud_day', 6, 50, $2), ('bud_all', 0, 50, $1), ('bud_each/s', 0, 50, $1)`, old, w.now)
		return nil
	}))
	w.db.DropExpired(t.Context(), func(what string, err error) { t.Errorf("%s: %v", what, err) })
	left, err := sqlstore.All(w.db.Kernel().Read(t.Context()), sqlstore.Column[string], `SELECT count FROM budget_marks ORDER BY count`)
	if err != nil || !slices.Equal(left, []string{"bud_all", "bud_day"}) {
		t.Errorf("marks of %v are left, want those of bud_all and the new one of bud_day: %v", left, err)
	}
}

// What was spent of a budget without an end stays as long as there is the budget, and a year longer.
func deletedExpire(t *testing.T, w *watched) {
	w.account.Budgets = w.account.Budgets[:1]
	w.account.Budgets[0].ID, w.account.Email, w.account.CreatedAt = "bud_lives", "a@example.com", w.now
	w.must(w.db.CreateAccount(t.Context(), w.account, account.Entry{At: w.now}))
	w.must(w.db.Kernel().Tx(t.Context(), func(tx *sqlstore.Conn) error {
		for count, days := range map[string]int{"bud_lives": 401, "bud_deleted": 401, "bud_lately": 399} {
			tx.Do(`INSERT INTO budget_counts (count, account_id, touched_at) VALUES ($1, 'acct_1', $2)`, count, time.Now().AddDate(0, 0, -days))
			tx.Do(`INSERT INTO budget_spent (count, period, spent) VALUES ($1, 0, 5)`, count)
		}
		return nil
	}))
	w.db.DropExpired(t.Context(), func(what string, err error) { t.Errorf("%s: %v", what, err) })
	left, err := sqlstore.All(w.db.Kernel().Read(t.Context()), sqlstore.Column[string], `SELECT s.count FROM budget_spent s JOIN budget_counts c ON c.count = s.count ORDER BY s.count`)
	if err != nil || !slices.Equal(left, []string{"bud_lately", "bud_lives"}) {
		t.Errorf("%v are left, want bud_lately and bud_lives: %v", left, err)
	}
}
