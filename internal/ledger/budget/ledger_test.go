package budget_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
)

// cluster returns servers on one store that recall from each other.
func cluster(store budget.Store, n int) []*budget.Ledger {
	all := make([]*budget.Ledger, n)
	for i := range all {
		opts := budget.Options{Node: fmt.Sprint(i), Nodes: func() int { return n }}
		if n > 1 {
			opts.Recall = func(ctx context.Context, accountID, count string) {
				for j, l := range all {
					if j != i {
						_ = l.GiveBack(ctx, accountID, count)
					}
				}
			}
		}
		all[i] = budget.New(store, &opts)
	}
	return all
}

// onlyBudgets returns an account with hard budgets for all its calls.
func onlyBudgets(amounts ...int64) *account.Account {
	a := &account.Account{ID: "acc_1"}
	for i, amount := range amounts {
		a.Budgets = append(a.Budgets, account.Budget{
			ID: fmt.Sprintf("bud_%d", i), Amount: amount, Window: account.Total, Scope: account.BudgetScope{Account: true}, Hard: true,
		})
	}
	return a
}

func TestExactlyTenOfAHundred(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " servers"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const need = 7
				a, all := onlyBudgets(10*need), cluster(newModel(time.Now), nodes)
				var passed atomic.Int64
				var wg sync.WaitGroup
				for i := range 100 {
					wg.Go(func() {
						for range 2 {
							hold, _, err := all[i%nodes].Reserve(t.Context(), a, budget.Of(a, "", nil, ""), need)
							if err != nil {
								t.Error(err)
							}
							if hold != nil {
								passed.Add(1)
								return
							}
							if nodes == 1 {
								return
							}
							time.Sleep(time.Second)
						}
					})
				}
				wg.Wait()
				if passed.Load() != 10 {
					t.Errorf("%d of 100 calls passed, want the 10 that there is money for", passed.Load())
				}
			})
		})
	}
}

// One server has everything in its hands when two others need some.
func TestRecall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, store := onlyBudgets(100), newModel(time.Now)
		all := cluster(store, 3)
		dues := budget.Of(a, "", nil, "")
		for i, need := range []price.Nano{90, 60, 40} {
			hold, obstacle, err := all[i].Reserve(t.Context(), a, dues, need)
			if err != nil || obstacle != nil {
				t.Fatalf("Reserve(%d) = %+v, %v, want it to pass", need, obstacle, err)
			}
			if i == 0 {
				hold.Cancel() // the server keeps the money for its next call
			}
		}
		if _, o, err := all[0].Reserve(t.Context(), a, dues, 1); o == nil || err != nil || o.Reserved != 100 || o.Left != 0 || o.Needed != 1 {
			t.Errorf("Reserve(1) = %+v, %v, want it refused, with 100 reserved", o, err)
		}
	})
}

func TestRefusedTakesNothing(t *testing.T) {
	t.Parallel()
	a := onlyBudgets(100, 50)
	l := cluster(newModel(time.Now), 1)[0]
	dues := budget.Of(a, "", nil, "")
	if _, o, err := l.Reserve(t.Context(), a, dues, 60); o == nil || err != nil || o.ID != "bud_1" {
		t.Fatalf("Reserve(60) = %+v, %v, want the second budget in the way", o, err)
	}
	hold, o, err := l.Reserve(t.Context(), a, dues[:1], 100)
	if hold == nil {
		t.Errorf("Reserve(100) from the first budget = %+v, %v, want all of it", o, err)
	}
}

// A refusal says how long to wait where that helps.
func TestWait(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 18, 23, 59, 30, 0, time.UTC)
	for _, tt := range []struct {
		name        string
		window      account.Window
		spent, held price.Nano
		need        price.Nano
		want        time.Duration
	}{
		{"more than the budget ever has", account.Daily, 0, 0, 101, 0},
		{"running calls have the rest", account.Total, 10, 80, 20, 5 * time.Second},
		{"spent until tomorrow", account.Daily, 90, 0, 20, 30 * time.Second},
		{"spent, and held by running calls", account.Daily, 90, 10, 20, 30 * time.Second},
		{"spent for ever", account.Total, 90, 0, 20, 0},
		{"spent in a window that rolls", account.Rolling24, 90, 0, 20, 0},
	} {
		a := onlyBudgets(100)
		a.Budgets[0].Window = tt.window
		l := budget.New(newModel(func() time.Time { return now }), &budget.Options{Now: func() time.Time { return now }})
		dues := budget.Of(a, "", nil, "")
		for _, take := range []price.Nano{tt.spent, tt.held} {
			hold, o, err := l.Reserve(t.Context(), a, dues, take)
			if o != nil || err != nil {
				t.Fatalf("%s: Reserve(%d) = %+v, %v, want it", tt.name, take, o, err)
			}
			if take == tt.spent {
				hold.Settle(take)
			}
		}
		_, o, err := l.Reserve(t.Context(), a, dues, tt.need)
		if o == nil || err != nil {
			t.Fatalf("%s: Reserve(%d) = %v, want an obstacle", tt.name, tt.need, err)
		}
		if f := fault.From(o.Fault("wait")); o.Wait != tt.want || f.RetryAfter != tt.want {
			t.Errorf("%s: wait %s, %s in the refusal, want %s", tt.name, o.Wait, f.RetryAfter, tt.want)
		}
	}
}

// What a call gives back of a budget that was lowered while it ran is not for the next one.
func TestLowered(t *testing.T) {
	t.Parallel()
	a := onlyBudgets(100)
	l := cluster(newModel(time.Now), 1)[0]
	hold, _, _ := l.Reserve(t.Context(), a, budget.Of(a, "", nil, ""), 80)
	lower := onlyBudgets(30)
	dues := budget.Of(lower, "", nil, "")
	if _, o, _ := l.Reserve(t.Context(), lower, dues, 1); o == nil {
		t.Fatal("a call passed with 80 of 30 reserved")
	}
	hold.Settle(30) // 50 less than it had reserved
	if h, _, _ := l.Reserve(t.Context(), lower, dues, 1); h != nil {
		t.Error("a call passed with 30 of 30 spent")
	}
}

// A statement that nobody waits for any more cannot take back what was granted after it.
func TestLateKeep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lateKeep{model: newModel(time.Now)}
		a, l := onlyBudgets(100), cluster(store, 2)
		dues := budget.Of(a, "", nil, "")
		hold, _, _ := l[0].Reserve(t.Context(), a, dues, 10)
		hold.Settle(10)
		_ = l[0].GiveBack(t.Context(), a.ID, dues[0].Count()) // its answer is lost
		if h, o, err := l[0].Reserve(t.Context(), a, dues, 60); h == nil {
			t.Fatalf("Reserve(60) = %+v, %v, want it to pass", o, err)
		}
		store.now() // now it happens
		if h, _, _ := l[1].Reserve(t.Context(), a, dues, 40); h != nil {
			t.Error("a call passed that needs 40 of the 30 that are left")
		}
	})
}

// lateKeep loses the first Keep, and does it when it is told to.
type lateKeep struct {
	*model
	late func()
}

func (s *lateKeep) now() { s.late() }

func (s *lateKeep) Keep(ctx context.Context, grants []budget.Grant) error {
	if s.late == nil {
		s.late = func() { _ = s.model.Keep(ctx, grants) }
		return errLost
	}
	return s.model.Keep(ctx, grants)
}

// A server whose grant the database has forgotten, since its replica was behind when it took over, stops to use it once it hears of that.
func TestForgottenGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newModel(time.Now)
		a, l := onlyBudgets(100), cluster(store, 1)[0]
		dues := budget.Of(a, "", nil, "")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Run(ctx)
		}()
		hold, _, _ := l.Reserve(t.Context(), a, dues, 10)
		clear(store.grants)
		if other, o, err := budget.New(store, &budget.Options{Node: "other"}).Reserve(t.Context(), a, dues, 90); other == nil {
			t.Fatalf("Reserve of the other server = %+v, %v, want it to pass", o, err)
		}
		time.Sleep(6 * time.Minute) // the bubble's clock
		if h, _, _ := l.Reserve(t.Context(), a, dues, 20); h != nil {
			t.Error("20 were reserved of a grant that the database does not know of")
		}
		hold.Settle(5)
		stop()
		<-done
	})
}

// Calls that are refused, each in the name of a new session, leave nothing to remember or to tell the database.
func TestRefusedSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &told{model: newModel(time.Now)}
		a, l := onlyBudgets(100), cluster(store, 1)[0]
		a.Budgets[0].Scope = account.BudgetScope{Session: account.EachSession}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Run(ctx)
		}()
		for i := range 1000 {
			if _, o, err := l.Reserve(t.Context(), a, budget.Of(a, "", nil, fmt.Sprint("s", i)), 101); o == nil {
				t.Fatalf("Reserve = %v, want it refused", err)
			}
		}
		time.Sleep(20 * time.Minute) // the bubble's clock
		stop()
		<-done
		if n := store.grants.Load(); n > 0 {
			t.Errorf("the database was told of %d grants of refused calls", n)
		}
	})
}

// told counts what a store is told of.
type told struct {
	*model
	grants atomic.Int64
}

func (s *told) Keep(ctx context.Context, grants []budget.Grant) error {
	s.grants.Add(int64(len(grants)))
	return s.model.Keep(ctx, grants)
}

// While a database hangs, no call waits for the questions of others one after another.
func TestHangingDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, l := onlyBudgets(100), budget.New(hanging{newModel(time.Now)}, nil)
		dues := budget.Of(a, "", nil, "")
		var wg sync.WaitGroup
		start := time.Now()
		for range 100 {
			wg.Go(func() {
				if _, _, err := l.Reserve(t.Context(), a, dues, 1); !fault.Is(err, fault.Unavailable) {
					t.Errorf("Reserve = %v, want that it cannot be read", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the last of 100 calls waited for %v", took)
		}
	})
}

// hanging is a store that answers nothing.
type hanging struct{ *model }

func (hanging) Grant(ctx context.Context, _ budget.Ask) (f budget.Figures, _ error) {
	<-ctx.Done()
	return f, ctx.Err()
}

func (hanging) Keep(ctx context.Context, _ []budget.Grant) error {
	<-ctx.Done()
	return ctx.Err()
}

// A process without a name is not the one before it.
func TestLives(t *testing.T) {
	t.Parallel()
	a, store := onlyBudgets(100), newModel(time.Now)
	dues := budget.Of(a, "", nil, "")
	for i := range 2 {
		l := budget.New(store, nil)
		if err := l.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		hold, o, err := l.Reserve(t.Context(), a, dues, 50)
		if hold == nil {
			t.Fatalf("Reserve of process %d = %+v, %v, want it to pass", i, o, err)
		}
		store.commit(&settlement{id: fmt.Sprint(i), charges: hold.Charges(time.Now()), spent: 50})
	}
	if h, _, _ := budget.New(store, nil).Reserve(t.Context(), a, dues, 1); h != nil {
		t.Error("a call passed with 100 of 100 spent")
	}
}
