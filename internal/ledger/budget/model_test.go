package budget_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// model is a store in memory that does what budget.Store says, and nothing clever.
type model struct {
	budget.Store // what videos need of one, which have no part in the histories

	now func() time.Time

	mu      sync.Mutex
	raised  map[string]price.Nano
	spent   map[budget.Key]price.Nano // by the period that the money was spent in
	grants  map[budget.Key]map[string]*row
	settled map[string]bool
	// Ways in which a store can be wrong.
	forgetsOthers bool
	reusesNames   bool
}

// row is a grant.
type row struct {
	granted, spent, reserved price.Nano
	touched                  time.Time
}

func (r *row) left() price.Nano { return max(0, r.granted-r.spent) }

func newModel(now func() time.Time) *model {
	return &model{
		now: now, raised: map[string]price.Nano{}, spent: map[budget.Key]price.Nano{},
		grants: map[budget.Key]map[string]*row{}, settled: map[string]bool{},
	}
}

// name returns the name of a holder in the store.
func (m *model) name(holder string) string {
	if m.reusesNames {
		return holder[:strings.LastIndexByte(holder, '/')+1]
	}
	return holder
}

func (m *model) Grant(_ context.Context, a budget.Ask) (budget.Figures, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.Holder = m.name(a.Holder)
	of := m.grants[a.Key]
	if of == nil {
		of = map[string]*row{}
		m.grants[a.Key] = of
	}
	r := of[a.Holder]
	if r == nil {
		r = &row{}
		of[a.Holder] = r
	}
	r.granted, r.reserved, r.touched = a.Granted, a.Reserved, m.now()
	f := m.figures(&a)
	if f.Free >= a.Need {
		give := max(a.Need, min(a.Share, f.Free))
		r.granted += give
		f.Free -= give
		f.Granted = r.granted
	}
	return f, nil
}

func (m *model) figures(a *budget.Ask) budget.Figures {
	f := budget.Figures{Amount: a.Amount + m.raised[a.Count]}
	for k, n := range m.spent {
		if k.Count == a.Count && k.Period >= a.Since {
			f.Spent += n
		}
	}
	own := price.Nano(0)
	for holder, r := range m.grants[a.Key] {
		switch {
		case m.now().Sub(r.touched) > budget.Abandoned:
			delete(m.grants[a.Key], holder)
		case holder == a.Holder:
			f.Granted, f.Committed, own = r.granted, r.spent, r.left()
		case !m.forgetsOthers:
			f.Others, f.Reserved = f.Others+r.left(), f.Reserved+min(r.reserved, r.left())
		}
	}
	f.Free = max(0, f.Amount-f.Spent-f.Others-own)
	return f
}

func (m *model) Keep(_ context.Context, grants []budget.Grant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var back budget.TakenBack
	for _, g := range grants {
		if r := m.grants[g.Key][m.name(g.Holder)]; r != nil {
			r.granted, r.reserved, r.touched = g.Granted, g.Reserved, m.now()
		} else if g.Granted > 0 {
			back.Grants = append(back.Grants, g)
		}
	}
	if len(back.Grants) > 0 {
		return &back
	}
	return nil
}

func (m *model) Forget(_ context.Context, prefix, except string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.grants {
		for holder := range of {
			if strings.HasPrefix(holder, prefix) && !strings.HasPrefix(holder, except) {
				delete(of, holder)
			}
		}
	}
	return nil
}

func (m *model) Figures(_ context.Context, asks []budget.Ask) (all []budget.Figures, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range asks {
		all = append(all, m.figures(&asks[i]))
	}
	return all, nil
}

// settlement is what a journal has of a call.
type settlement struct {
	id      string
	charges []usage.Charge
	spent   price.Nano
	started time.Time
	ended   time.Time
}

// commit stores a settlement once.
func (m *model) commit(s *settlement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.settled[s.id] {
		return
	}
	m.settled[s.id] = true
	for _, c := range s.charges {
		m.spent[budget.Key{Count: c.Count, Period: budget.SpentIn(c.Period, s.ended)}] += s.spent
		if c.Holder == "" {
			continue
		}
		if r := m.grants[budget.Key{Count: c.Count, Period: c.Period}][m.name(c.Holder)]; r != nil {
			r.spent += s.spent
		}
	}
}

// outstanding returns what holders have that nobody has spent.
func (m *model) outstanding() (sum price.Nano) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.grants {
		for _, r := range of {
			if m.now().Sub(r.touched) <= budget.Abandoned {
				sum += r.left()
			}
		}
	}
	return sum
}

// raise adds to the amount of a count.
func (m *model) raise(count string, by price.Nano) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.raised[count] += by
}

func (m *model) raisedOf(count string) price.Nano {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.raised[count]
}

// flaky is a store whose answers are slow or get lost, and which may do what it was told when nobody waits for it any more.
type flaky struct {
	*model

	mu    sync.Mutex
	rng   *rand.Rand
	rate  float64 // of calls that something happens to
	ghost bool    // something was done late
}

// latest is how late something can be done.
const latest = 6 * time.Second

var errLost = errors.New("the answer was lost")

// fate decides what happens to a call: nothing, an error before it, an error after it, slowness, or that it is done too late.
func (f *flaky) fate() (what int, slow, late time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rng.Float64() >= f.rate {
		return 0, 0, 0
	}
	what = 1 + f.rng.IntN(4)
	f.ghost = f.ghost || what == 4
	return what, time.Duration(f.rng.IntN(2500)) * time.Millisecond, time.Duration(f.rng.IntN(int(latest.Milliseconds()))) * time.Millisecond
}

// do runs an operation as fate wants it.
func do[T any](ctx context.Context, f *flaky, op func() (T, error)) (none T, err error) {
	what, slow, late := f.fate()
	switch what {
	case 1:
		return none, errLost
	case 2:
		_, _ = op()
		return none, errLost
	case 3:
		select {
		case <-time.After(slow):
			return op()
		case <-ctx.Done():
			return none, ctx.Err()
		}
	case 4:
		go func() {
			time.Sleep(late) // the bubble's clock
			_, _ = op()
		}()
		return none, errLost
	}
	return op()
}

func (f *flaky) Grant(ctx context.Context, a budget.Ask) (budget.Figures, error) {
	return do(ctx, f, func() (budget.Figures, error) { return f.model.Grant(ctx, a) })
}

func (f *flaky) Keep(ctx context.Context, grants []budget.Grant) error {
	_, err := do(ctx, f, func() (bool, error) { return true, f.model.Keep(ctx, grants) })
	return err
}

// calm ends the faults, or lets them begin.
func (f *flaky) calm(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}
