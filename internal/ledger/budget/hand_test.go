package budget_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

func (m *model) Hand(_ context.Context, from, to []budget.Grant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range from {
		if r := m.grants[g.Key][m.name(g.Holder)]; r != nil {
			r.granted, r.reserved, r.touched = g.Granted, g.Reserved, m.now()
		}
	}
	for _, g := range to {
		if of := m.grants[g.Key]; of[g.Holder] == nil {
			of[g.Holder] = &row{granted: g.Granted, reserved: g.Reserved, touched: m.now()}
		}
	}
	return nil
}

func (m *model) Drop(_ context.Context, holder string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.grants {
		delete(of, holder)
	}
	return nil
}

// handing is a store that runs a function after each hand-over, and returns its error.
type handing struct {
	*model
	after func() error
	kept  int // calls of Keep
}

func (h *handing) Hand(ctx context.Context, from, to []budget.Grant) error {
	return errors.Join(h.model.Hand(ctx, from, to), h.after())
}

func (h *handing) Keep(ctx context.Context, grants []budget.Grant) error {
	h.kept++
	return h.model.Keep(ctx, grants)
}

// handOver is an account with two hard budgets of 100, a call that has reserved 40 of both, and a store that hands it over.
type handOver struct {
	account account.Account
	dues    []budget.Due
	store   *handing
	ledger  *budget.Ledger
	hold    *budget.Hold
	start   time.Time
}

func inHandOver(t *testing.T, after func() error, test func(t *testing.T, o *handOver)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &handOver{account: account.Account{ID: "acct_1"}, store: &handing{model: newModel(time.Now), after: after}, start: time.Now()}
		for _, id := range []string{"bud_1", "bud_2"} {
			o.account.Budgets = append(o.account.Budgets, account.Budget{ID: id, Name: id, Amount: 100, Window: account.Total, Scope: account.BudgetScope{Account: true}, Hard: true})
		}
		o.dues = budget.Of(&o.account, "", nil, "")
		o.ledger = budget.New(o.store, nil)
		o.hold = o.reserve(t, 40)
		test(t, o)
	})
}

// reserve reserves what must be there.
func (o *handOver) reserve(t *testing.T, need price.Nano) *budget.Hold {
	t.Helper()
	hold, obstacle, err := o.ledger.Reserve(t.Context(), &o.account, o.dues, need)
	if obstacle != nil || err != nil {
		t.Fatalf("Reserve(%d) = %+v, %v, want it reserved", need, obstacle, err)
	}
	return hold
}

// stands checks what is reserved and left of both budgets.
func (o *handOver) stands(t *testing.T, what string, l *budget.Ledger, reserved price.Nano) {
	t.Helper()
	all, err := l.Statuses(t.Context(), &o.account, o.dues)
	if err != nil || len(all) != 2 {
		t.Fatalf("%s: Statuses = %v, %v", what, all, err)
	}
	for _, s := range all {
		if s.Reserved != reserved || s.Left != 100-reserved {
			t.Errorf("%s: %s has %d reserved and %d left, want %d and %d", what, s.ID, s.Reserved, s.Left, reserved, 100-reserved)
		}
	}
}

// What a job was handed outlives the server: it is reserved for all until the job is dropped or settled.
func TestHand(t *testing.T) {
	inHandOver(t, func() error { return nil }, func(t *testing.T, o *handOver) {
		charges, err := o.ledger.Hand(t.Context(), o.hold, "v1", o.start)
		want := usage.Charge{Count: "bud_2", Holder: "job/v1", Reserved: 40, Amount: 100}
		if err != nil || len(charges) != 2 || charges[1] != want {
			t.Fatalf("Hand = %+v, %v, want two charges, the second %+v", charges, err, want)
		}
		o.hold.Cancel() // which changes nothing any more
		o.stands(t, "handed", o.ledger, 40)
		if _, err := o.ledger.Hand(t.Context(), o.hold, "v2", o.start); err == nil {
			t.Error("a hold is handed over twice")
		}
		o.reserve(t, 60).Cancel()
		if _, obstacle, err := o.ledger.Reserve(t.Context(), &o.account, o.dues, 61); obstacle == nil || obstacle.Reserved != 40 || obstacle.Left != 60 || err != nil {
			t.Errorf("Reserve(61) = %+v, %v, want an obstacle with 40 reserved", obstacle, err)
		}
		next := budget.New(o.store, nil)
		if err := next.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.stands(t, "after a restart", next, 40)
		if err := next.Drop(t.Context(), "v1"); err != nil {
			t.Fatal(err)
		}
		o.stands(t, "dropped", next, 0)
	})
}

// If the answer to a hand-over is lost, nothing stays reserved, and nothing is granted twice.
func TestHandLost(t *testing.T) {
	inHandOver(t, func() error { return errLost }, func(t *testing.T, o *handOver) {
		if charges, err := o.ledger.Hand(t.Context(), o.hold, "v1", o.start); !fault.Is(err, fault.Unavailable) || charges != nil {
			t.Fatalf("Hand = %v, %v, want it unavailable", charges, err)
		}
		o.stands(t, "lost", o.ledger, 0)
		o.reserve(t, 100)
		if _, obstacle, err := o.ledger.Reserve(t.Context(), &o.account, o.dues, 1); obstacle == nil || err != nil {
			t.Errorf("Reserve of more than there is = %+v, %v, want an obstacle", obstacle, err)
		}
	})
}

// While a count is handed over, nobody tells the store what this server has of it: that would include what the job has by now.
func TestHandAlone(t *testing.T) {
	var begun, end chan struct{}
	inHandOver(t, func() error { close(begun); <-end; return nil }, func(t *testing.T, o *handOver) {
		begun, end = make(chan struct{}), make(chan struct{}) // of this bubble
		before, given := o.store.kept, make(chan error, 1)
		handed := make(chan error, 1)
		go func() {
			_, err := o.ledger.Hand(t.Context(), o.hold, "v1", o.start)
			handed <- err
		}()
		<-begun
		go func() { given <- o.ledger.GiveBack(t.Context(), o.account.ID, "bud_1") }()
		synctest.Wait()
		if o.store.kept != before {
			t.Error("the store was told of a count while it was handed over")
		}
		close(end)
		if err := errors.Join(<-handed, <-given); err != nil {
			t.Fatal(err)
		}
		if o.store.kept == before {
			t.Error("what calls do not hold was not given back after the hand-over")
		}
		o.stands(t, "in the end", o.ledger, 40)
	})
}
