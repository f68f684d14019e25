// Package budgettest is the conformance suite of the stores of budgets.
//
// A store has two sides: servers ask it for grants, and settlements move what was spent out of them. The suite tests both together,
// because what a budget promises follows from both: what is spent and what is granted is never more than the amount.
package budgettest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// Store is a store of budgets, and what owners of sessions do to one.
type Store interface {
	budget.Store
	Raise(ctx context.Context, accountID, count string, by price.Nano) (price.Nano, error)
}

// Subject is a database to test.
type Subject struct {
	Store Store
	// Rows returns how many rows the tables of counts and grants have.
	Rows func(ctx context.Context) (int64, error)
	// Record stores settlements, each once.
	Record func(ctx context.Context, batch []usage.Settlement) error
	// Age makes everything that the store knows the time of so much older, and Expire deletes what has expired.
	Age    func(ctx context.Context, by time.Duration) error
	Expire func(ctx context.Context) error
	// Video makes a video that has not ended.
	Video func(ctx context.Context, id string) error
}

// Run runs the suite. open returns an empty database.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"One": one, "Large": large, "Two": two, "ToldTwice": toldTwice, "LostAnswer": lostAnswer, "Refused": refused, "GivenBack": givenBack, "Kept": kept,
		"Lowered": lowered, "Raised": raised, "Rolling": rolling, "Periods": periods,
		"SettledOnce": settledOnce, "Unpriced": unpriced, "OnlyWarns": onlyWarns, "RowGone": rowGone,
		"Handed": handed, "Dropped": dropped, "Forgotten": forgotten, "Many": many,
		"GrantsExpire": grantsExpire, "SpentExpires": spentExpires, "SessionsExpire": sessionsExpire,
		"Parallel": parallel, "NoDeadlock": noDeadlock,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// accountID owns all counts, and day is the period of most.
const (
	accountID = "acct_1"
	day       = int64(1_770_000_000_000)
)

// all is a share beyond every amount.
const all = price.Nano(1 << 50)

// askOf returns the question of a holder that has nothing, for a budget of 100.
func askOf(holder string, need, share price.Nano) budget.Ask {
	return budget.Ask{
		Grant: budget.Grant{Key: budget.Key{Count: "bud_1", Period: day}, Holder: holder}, AccountID: accountID,
		Since: day, Amount: 100, Need: need, Share: share,
	}
}

// having returns the ask of a holder that was granted something, some of which its calls hold.
func having(a budget.Ask, granted, reserved price.Nano) budget.Ask {
	a.Granted, a.Reserved = granted, reserved
	return a
}

// call returns a settlement of a call that has cost something of what the holder of a grant had reserved.
func call(id string, cost price.Nano, charges ...usage.Charge) usage.Settlement {
	return usage.Settlement{
		ID: id, At: time.UnixMilli(day).UTC(), AccountID: accountID, KeyID: "key_1", Plan: "basic", Tier: "free", ModelAsked: "m", ModelUsed: "m", Provider: "lab",
		Status: 200, End: usage.EndComplete, Latency: time.Second, Cost: &cost, Terms: usage.Terms{Version: "v", Budgets: charges},
	}
}

// charge returns what a call takes from the grant of a holder.
func charge(holder string, reserved price.Nano) usage.Charge {
	return usage.Charge{Count: "bud_1", Period: day, Holder: holder, Reserved: reserved, Amount: 100}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// grants checks what a question is answered with.
func (s Subject) grants(t testing.TB, what string, a budget.Ask, want budget.Figures) {
	t.Helper()
	got, err := s.Store.Grant(t.Context(), a)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%s: Grant: %v, -want +got\n%s", what, err, diff)
	}
}

// stands checks how a count stands for the holder of an ask.
func (s Subject) stands(t testing.TB, what string, a budget.Ask, want budget.Figures) {
	t.Helper()
	got, err := s.Store.Figures(t.Context(), []budget.Ask{a})
	if diff := cmp.Diff([]budget.Figures{want}, got); err != nil || diff != "" {
		t.Errorf("%s: Figures: %v, -want +got\n%s", what, err, diff)
	}
}

// large checks that amounts may be as large as a budget can be.
func large(t *testing.T, s Subject) {
	const tenth = price.Nano(account.MaxBudget / 10)
	a := askOf("node/a/1", 6*tenth, 0)
	a.Amount = 10 * tenth
	s.grants(t, "most of it", a, budget.Figures{Amount: 10 * tenth, Granted: 6 * tenth, Free: 4 * tenth})
	must(t, s.Store.Keep(t.Context(), []budget.Grant{{Key: a.Key, Holder: a.Holder, Granted: 5 * tenth, Reserved: 4 * tenth}}))
	must(t, s.Store.Hand(t.Context(), []budget.Grant{{Key: a.Key, Holder: a.Holder, Granted: tenth}}, []budget.Grant{{Key: a.Key, Holder: "job/v", Granted: 4 * tenth, Reserved: 4 * tenth}}))
	s.stands(t, "a part is handed over", a, budget.Figures{Amount: 10 * tenth, Reserved: 4 * tenth, Others: 4 * tenth, Granted: tenth, Free: 5 * tenth})
	must(t, s.Record(t.Context(), []usage.Settlement{call("1", 3*tenth, charge("job/v", 4*tenth))}))
	s.stands(t, "and settled", a, budget.Figures{Amount: 10 * tenth, Spent: 3 * tenth, Granted: tenth, Free: 6 * tenth})
}

// one checks that a holder that is alone gets what it asks for, and no more than there is.
func one(t *testing.T, s Subject) {
	a := askOf("node/a/1", 10, 0)
	s.stands(t, "before anything", a, budget.Figures{Amount: 100, Free: 100})
	s.grants(t, "no share", a, budget.Figures{Amount: 100, Granted: 10, Free: 90})
	a = having(a, 10, 10)
	a.Share = 30
	s.grants(t, "a share", a, budget.Figures{Amount: 100, Granted: 40, Free: 60})
	a = having(a, 40, 10)
	a.Need = 61
	s.grants(t, "more than is free", a, budget.Figures{Amount: 100, Granted: 40, Free: 60})
	a.Need, a.Share = 60, all
	s.grants(t, "all that is free", a, budget.Figures{Amount: 100, Granted: 100, Free: 0})
	s.stands(t, "after all", a, budget.Figures{Amount: 100, Granted: 100})
}

// two checks that what one holder has the other cannot get, and that each learns what the other holds.
func two(t *testing.T, s Subject) {
	a, b := askOf("node/a/1", 10, 60), askOf("node/b/1", 10, 60)
	a.Reserved = 7
	s.grants(t, "the first", a, budget.Figures{Amount: 100, Granted: 60, Free: 40})
	s.grants(t, "the second", b, budget.Figures{Amount: 100, Others: 60, Reserved: 7, Granted: 40})
	s.grants(t, "the second again", having(b, 40, 3), budget.Figures{Amount: 100, Others: 60, Reserved: 7, Granted: 40})
	s.stands(t, "the first", a, budget.Figures{Amount: 100, Others: 40, Reserved: 3, Granted: 60})
	s.stands(t, "a third", askOf("", 0, 0), budget.Figures{Amount: 100, Others: 100, Reserved: 10})
	other := a
	other.Count = "bud_2"
	s.grants(t, "another count", other, budget.Figures{Amount: 100, Granted: 60, Free: 40})
}

// toldTwice checks that a question that is repeated changes nothing more.
func toldTwice(t *testing.T, s Subject) {
	a := having(askOf("node/a/1", 10, 20), 0, 5)
	want := budget.Figures{Amount: 100, Granted: 20, Free: 80}
	s.grants(t, "once", a, want)
	s.grants(t, "twice", a, want)
	kept := []budget.Grant{having(a, 15, 1).Grant}
	have(t, s, kept...)
	must(t, s.Store.Keep(t.Context(), append(kept, having(a, 14, 1).Grant, having(a, 12, 1).Grant)))
	s.stands(t, "kept twice", a, budget.Figures{Amount: 100, Granted: 12, Free: 88})
}

// lostAnswer checks that a grant of which the holder never heard is free again as soon as it says what it has.
func lostAnswer(t *testing.T, s Subject) {
	a := askOf("node/a/1", 10, all)
	s.grants(t, "lost", a, budget.Figures{Amount: 100, Granted: 100})
	a.Share = 0
	s.grants(t, "asked again", a, budget.Figures{Amount: 100, Granted: 10, Free: 90})
	s.grants(t, "another one", askOf("node/b/1", 90, 0), budget.Figures{Amount: 100, Others: 10, Granted: 90})
}

// refused checks that a holder that has nothing and gets nothing leaves nothing, so that refused calls cost no room.
func refused(t *testing.T, s Subject) {
	for i := range 3 {
		a := askOf(fmt.Sprint("node/a/", i), 101, all)
		a.Count = fmt.Sprint("bud_1/session-", i)
		s.grants(t, "more than there is", a, budget.Figures{Amount: 100, Free: 100})
	}
	if n, err := s.Rows(t.Context()); err != nil || n != 0 {
		t.Errorf("refused calls leave %d rows, %v, want none", n, err)
	}
}

// givenBack checks that others get what a holder gives back, with a question or without.
func givenBack(t *testing.T, s Subject) {
	a, b := askOf("node/a/1", 10, all), askOf("node/b/1", 50, 0)
	s.grants(t, "all", a, budget.Figures{Amount: 100, Granted: 100})
	s.grants(t, "nothing is left", b, budget.Figures{Amount: 100, Others: 100})
	must(t, s.Store.Keep(t.Context(), []budget.Grant{having(a, 60, 60).Grant}))
	s.grants(t, "too little", b, budget.Figures{Amount: 100, Others: 60, Reserved: 60, Free: 40})
	a = having(a, 20, 20)
	a.Need, a.Share = 1000, 0
	s.grants(t, "given back with a question", a, budget.Figures{Amount: 100, Granted: 20, Free: 80})
	s.grants(t, "enough", b, budget.Figures{Amount: 100, Others: 20, Reserved: 20, Granted: 50, Free: 30})
}

// kept checks that Keep leaves what was spent as it is, and takes no grants at all.
func kept(t *testing.T, s Subject) {
	a := askOf("node/a/1", 50, 0)
	s.grants(t, "first", a, budget.Figures{Amount: 100, Granted: 50, Free: 50})
	must(t, s.Record(t.Context(), []usage.Settlement{call("1", 30, charge(a.Holder, 40))}))
	must(t, s.Store.Keep(t.Context(), nil))
	must(t, s.Store.Keep(t.Context(), []budget.Grant{having(a, 45, 9).Grant}))
	s.stands(t, "kept", a, budget.Figures{Amount: 100, Spent: 30, Granted: 45, Committed: 30, Free: 55})
	s.stands(t, "others", askOf("node/b/1", 0, 0), budget.Figures{Amount: 100, Spent: 30, Others: 15, Reserved: 9, Free: 55})
}

// lowered checks that of an amount below what is granted nothing more is granted.
func lowered(t *testing.T, s Subject) {
	a, b := askOf("node/a/1", 80, 0), askOf("node/b/1", 1, 0)
	s.grants(t, "before", a, budget.Figures{Amount: 100, Granted: 80, Free: 20})
	b.Amount = 50
	s.grants(t, "another holder", b, budget.Figures{Amount: 50, Others: 80, Free: -30})
	a = having(a, 40, 40)
	a.Amount, a.Need, a.Share = 50, 1, all
	s.grants(t, "the rest of it", a, budget.Figures{Amount: 50, Granted: 50})
	s.grants(t, "another holder again", b, budget.Figures{Amount: 50, Others: 50, Reserved: 40})
}

// raised checks that what is added to an amount can be granted, within a bound.
func raised(t *testing.T, s Subject) {
	a := askOf("node/a/1", 120, 0)
	raise := func(by, want price.Nano) {
		t.Helper()
		if got, err := s.Store.Raise(t.Context(), accountID, a.Count, by); err != nil || got != want {
			t.Errorf("Raise(%d) = %d, %v, want %d", by, got, err, want)
		}
	}
	raise(10, 10)
	s.grants(t, "too little", a, budget.Figures{Amount: 110, Free: 110})
	raise(15, 25)
	s.grants(t, "enough", a, budget.Figures{Amount: 125, Granted: 120, Free: 5})
	s.stands(t, "after it", a, budget.Figures{Amount: 125, Granted: 120, Free: 5})
	raise(account.MaxBudget-1, account.MaxBudget)
	raise(1<<62, account.MaxBudget)
	raise(-1<<62, 0)
}

// rolling checks that the parts of a window that rolls count as long as they are in it.
func rolling(t *testing.T, s Subject) {
	b := &account.Budget{ID: "bud_1", Amount: 100, Window: account.Rolling24}
	start := time.UnixMilli(day).UTC()
	at := func(after time.Duration) budget.Ask {
		a := askOf("node/a/1", 0, 0)
		a.Period, a.Since = budget.PeriodOf(b, start.Add(after))
		return a
	}
	var batch []usage.Settlement
	for hour, cost := range []price.Nano{1, 20, 40} {
		c := at(0)
		st := call(fmt.Sprint(hour), cost, usage.Charge{Count: c.Count, Period: c.Period, Holder: c.Holder, Reserved: 40, Amount: 100})
		st.At = start.Add(time.Duration(hour) * time.Hour)
		batch = append(batch, st)
	}
	// A call belongs where it ends.
	batch[2].At, batch[2].Latency = start, 2*time.Hour
	must(t, s.Record(t.Context(), batch))
	for after, want := range map[time.Duration]price.Nano{2 * time.Hour: 61, 23 * time.Hour: 61, 24 * time.Hour: 60, 25 * time.Hour: 40, 26 * time.Hour: 0} {
		// A part is in the window as a whole, so it is a few minutes longer in it.
		a := at(after + 15*time.Minute)
		s.stands(t, fmt.Sprint("after ", after), a, budget.Figures{Amount: 100, Spent: want, Committed: 61, Free: 100 - want})
	}
	late := having(at(27*time.Hour), 61, 0)
	late.Need = 100
	s.grants(t, "when all has left", late, budget.Figures{Amount: 100, Granted: 161, Committed: 61, Free: 0})
}

// periods checks that what one period has does not count in another.
func periods(t *testing.T, s Subject) {
	a := askOf("node/a/1", 60, 0)
	s.grants(t, "a day", a, budget.Figures{Amount: 100, Granted: 60, Free: 40})
	must(t, s.Record(t.Context(), []usage.Settlement{call("1", 60, charge(a.Holder, 60))}))
	next := a
	next.Period, next.Since = day+86_400_000, day+86_400_000
	s.grants(t, "the next day", next, budget.Figures{Amount: 100, Granted: 60, Free: 40})
	late := call("2", 5, charge(a.Holder, 40))
	late.At = time.UnixMilli(next.Period).UTC()
	must(t, s.Record(t.Context(), []usage.Settlement{late}))
	s.stands(t, "a call over midnight counts where it was reserved", having(a, 0, 0), budget.Figures{Amount: 100, Spent: 65, Granted: 60, Committed: 65, Free: 35})
	s.stands(t, "the next day after it", next, budget.Figures{Amount: 100, Granted: 60, Free: 40})
}

// have makes holders have what the grants say, whatever is left.
func have(t *testing.T, s Subject, grants ...budget.Grant) {
	t.Helper()
	for _, g := range grants {
		_, err := s.Store.Grant(t.Context(), budget.Ask{Grant: g, AccountID: "acct_1", Amount: 1 << 40, Need: 1 << 50})
		must(t, err)
	}
}
