package abuse_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
)

// hub is what several fake counters count in.
type hub struct {
	mu     sync.Mutex
	totals map[abuse.Total]int64
	full   int64 // marks an account
	marked bool
	away   bool
}

// spoke is the counter of one node. Additions wait until deliver, unless the budget is near.
type spoke struct {
	hub     *hub
	hear    abuse.Listener
	seen    int64 // the total when the last call was admitted
	pending []addition
	waited  int
	lose    bool // the next reply is lost
	unsure  bool
}

type addition struct {
	t     abuse.Total
	units int64
}

func (s *spoke) Listen(l abuse.Listener) { s.hear = l }
func (s *spoke) Exact() bool             { return !s.hub.away }

func (s *spoke) Add(t abuse.Total, u *usage.Settlement, budget account.Limit) {
	if s.hub.away {
		s.hear.Missed(t, u.UnitMilli)
		return
	}
	s.pending = append(s.pending, addition{t, u.UnitMilli})
	sum := int64(0)
	for _, p := range s.pending {
		sum += p.units
	}
	if abuse.Near(s.seen, sum, budget, 0) {
		s.waited++
		s.deliver()
	}
}

// add adds to a total.
func (h *hub) add(p addition) (before, after int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = h.totals[p.t]
	after = before + p.units
	h.totals[p.t] = after
	h.marked = h.marked || before < h.full && after >= h.full
	return before, after
}

// deliver lets what is on its way arrive.
func (s *spoke) deliver() {
	for _, p := range s.pending {
		before, after := s.hub.add(p)
		if s.lose {
			s.unsure, s.lose = true, false
			s.hear.Missed(p.t, p.units)
			continue
		}
		s.hear.Counted(p.t, abuse.Change{Before: before, After: after, Total: after, Unsure: s.unsure})
		s.unsure = false
	}
	s.pending = nil
}

func (s *spoke) Read(_ context.Context, id string, month time.Time) (out []abuse.Reading, known bool, err error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.hub.away {
		return nil, false, errAway
	}
	for t, n := range s.hub.totals {
		if t.AccountID == id && t.Month.Equal(month) {
			out = append(out, abuse.Reading{Plan: t.Plan, Tier: t.Tier, Units: n})
		}
	}
	return out, true, nil
}

func (s *spoke) Back(time.Time) {}

func (s *spoke) Unproven([]string) []usage.Settlement { return nil }

func (s *spoke) Raise(_ context.Context, k abuse.Known) error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.hub.away {
		return errAway
	}
	for _, n := range k.Counts {
		t := abuse.Total{AccountID: n.AccountID, Plan: n.Plan, Tier: n.Tier, Month: k.Month}
		if n.Forgiven > 0 {
			s.hub.totals[t] = 0
		}
	}
	s.hub.marked = s.hub.marked && !k.Unmark
	return nil
}

// site is one of several nodes.
type site struct {
	*abuse.Control
	counter *spoke
	locked  atomic.Bool
}

// sites returns nodes with a budget that share a store and, if there is one, a hub.
func sites(n int, store *memory, h *hub, budget account.Limit) []*site {
	plans := account.BuiltinPlans()
	plans[account.Basic].MonthlyUnits = budget
	var all []*site
	for range n {
		s := &site{}
		opts := abuse.Options{
			Plans: func() account.Plans { return plans }, Accounts: store.accounts(), Shared: true,
			Lock: func(string, account.Mark) { s.locked.Store(true) }, Unlock: func(string) { s.locked.Store(false) },
			Log: slog.New(slog.DiscardHandler),
		}
		if h != nil {
			s.counter = &spoke{hub: h}
			opts.Counter = s.counter
		}
		s.Control = abuse.New(store, opts)
		all = append(all, s)
	}
	return all
}

// settle ends a call.
func (s *site) settle(unitMilli int64) {
	s.Settled(&usage.Settlement{ID: "s", AccountID: "a", Plan: "basic", Tier: "free", UnitMilli: unitMilli})
}

// Whatever nodes the calls run on, and however late the others learn of it: each threshold is noted by one
// node, and the call that reaches 100 has marked the account when it returns.
func TestNodesCountTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		budget := account.Limit(rapid.SampledFrom([]int64{1, 20, 100, 1000, 50_000}).Draw(rt, "budget"))
		full := int64(budget) * 1000
		store, h := &memory{}, &hub{totals: map[abuse.Total]int64{}, full: full}
		nodes := sites(rapid.IntRange(1, 5).Draw(rt, "nodes"), store, h, budget)
		node := rapid.IntRange(0, len(nodes)-1)
		amount := rapid.OneOf(rapid.Int64Range(1, max(1, full/300)), rapid.Int64Range(1, full/3+1), rapid.Just(int64(1000)))
		used := int64(0)
		for calls := 0; !h.marked; calls++ {
			if used >= full || calls > 5000 {
				rt.Fatalf("after %d calls and %d of %d thousandths the account is not marked", calls, used, full)
			}
			n := nodes[node.Draw(rt, "node")]
			// What earlier calls have left arrives before this call is admitted, or at least before it ends.
			for _, other := range nodes {
				if rapid.Bool().Draw(rt, "early") {
					other.counter.deliver()
				}
			}
			n.counter.seen = h.totals[totalOf()]
			for _, other := range nodes {
				if other != n {
					other.counter.deliver()
				}
			}
			units := amount.Draw(rt, "units")
			used += units
			n.settle(units)
		}
		if used < full {
			rt.Fatalf("the account is marked after %d of %d thousandths", used, full)
		}
		for _, n := range nodes {
			n.counter.deliver()
		}
		checkEvents(rt, store, nodes, false)
	})
}

// Replies get lost and calls overlap: nothing is missed, and what two nodes note the store has once.
func TestNodesLoseReplies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const budget = 100
		store, h := &memory{}, &hub{totals: map[abuse.Total]int64{}, full: budget * 1000}
		nodes := sites(3, store, h, budget)
		node := rapid.IntRange(0, 2)
		for h.totals[totalOf()] < budget*1000 {
			n := nodes[node.Draw(rt, "node")]
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0:
				n.counter.seen = h.totals[totalOf()]
			case 1:
				n.counter.deliver()
			case 2:
				n.counter.lose = true
			default:
				n.settle(rapid.Int64Range(1, 9000).Draw(rt, "units"))
			}
		}
		for _, n := range nodes { // a later call brings what the lost reply has not
			n.counter.lose = false
			n.settle(1)
			n.counter.deliver()
		}
		checkEvents(rt, store, nodes, true)
	})
}

func totalOf() abuse.Total {
	return abuse.Total{AccountID: "a", Plan: account.Basic, Tier: account.Free, Month: monthNow()}
}

func monthNow() time.Time {
	now := time.Now().UTC()
	return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// checkEvents lets the nodes store what they have noted, and checks that each threshold was noted.
func checkEvents(rt *rapid.T, store *memory, nodes []*site, once bool) {
	store.mu.Lock()
	store.once = once
	store.mu.Unlock()
	locked := 0
	for _, n := range nodes {
		ended, end := context.WithCancel(context.Background())
		end()
		n.Run(ended)
		if n.locked.Load() {
			locked++
		}
	}
	count := map[string]int{}
	highest := 0
	for _, e := range store.events {
		_, low, high := e.Repeats()
		count[fmt.Sprint(e.Kind, " ", low, "-", high)]++
		highest = max(highest, e.Score)
	}
	for _, kind := range []abuse.Kind{abuse.Inquiry, abuse.Deactivated} {
		if n := count[fmt.Sprint(kind, " 0-100")]; n != 1 {
			rt.Fatalf("%s was noted %d times, want once: %+v", kind, n, store.events)
		}
	}
	// One call may pass both thresholds, and then there is one warning.
	if low, high := count["warning 0-74"], count["warning 75-100"]; low > 1 || high != 1 {
		rt.Fatalf("%d first and %d second warnings, want at most one and one: %+v", low, high, store.events)
	}
	if locked == 0 || len(store.stored) == 0 {
		rt.Fatalf("%d nodes have locked the account, stored as %q, want at least one and stored", locked, store.stored)
	}
}

// Without a counter, each node reads what all have stored: seconds later the account is locked, also if it was stored
// after the nodes looked for the first time.
func TestNodesReadTheStore(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		counterAway, late := i%2 == 1, i/2 == 1
		synctest.Test(t, func(t *testing.T) {
			store := &memory{once: true}
			var h *hub
			if counterAway {
				h = &hub{totals: map[abuse.Total]int64{}, full: 100_000, away: true}
			}
			nodes := sites(3, store, h, 100)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			for _, n := range nodes {
				running.Go(func() { n.Run(ctx) })
			}
			for i, n := range nodes { // 40 units on each of three nodes
				n.settle(40_000)
				if !late {
					store.commit(40_000)
				}
				if n.locked.Load() {
					t.Fatalf("node %d has locked the account after 40 of 100 units", i)
				}
			}
			if late {
				time.Sleep(20 * time.Second)
				store.commit(120_000)
			}
			time.Sleep(4 * time.Second)
			synctest.Wait()
			for i, n := range nodes {
				if !n.locked.Load() {
					t.Errorf("node %d has not locked the account 4 s after 120 of 100 units were stored", i)
				}
			}
			kinds := store.kinds()
			slices.Sort(kinds)
			if want := []abuse.Kind{abuse.Deactivated, abuse.Inquiry, abuse.Review, abuse.Warning}; !slices.Equal(kinds, want) {
				t.Errorf("events %v, want %v", kinds, want)
			}
			cancel()
			running.Wait()
		})
	}
}

// An account that is restored on one node is restored on all: in the counter, and in a node that has not
// stored its deactivation yet.
func TestRestoreOnAnotherNode(t *testing.T) {
	t.Parallel()
	store, h := &memory{once: true}, &hub{totals: map[abuse.Total]int64{}, full: 100_000}
	nodes := sites(2, store, h, 100)
	nodes[0].settle(100_000)
	if !h.marked || !nodes[0].locked.Load() {
		t.Fatal("the account is not marked and locked after 100 of 100 units")
	}
	store.commit(100_000)
	if _, err := nodes[1].Restore(t.Context(), "support", "a"); err != nil {
		t.Fatal(err)
	}
	if h.marked || h.totals[totalOf()] != 0 {
		t.Errorf("marked %t with %d units after restoring, want neither", h.marked, h.totals[totalOf()])
	}
	ended, end := context.WithCancel(t.Context())
	end()
	nodes[0].Run(ended)
	if nodes[0].locked.Load() || len(store.stored) != 0 {
		t.Errorf("locked %t and stored as deactivated %q on the node that had not stored it yet, want neither", nodes[0].locked.Load(), store.stored)
	}
	for i, n := range nodes {
		if _, score := n.Scores("a", account.Basic); score != 0 {
			t.Errorf("score on node %d = %d after restoring, want 0", i, score)
		}
	}
}

// A mark whose node has died is made durable by the node that meets it; one that is out of date goes away.
func TestMarks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		units       int64 // in the store
		age         time.Duration
		deactivated bool // in the store
		wantMarked  bool
		wantStored  int
	}{
		{"its node died", 100_000, time.Second, false, true, 1},
		{"stored", 100_000, time.Second, true, true, 0},
		{"its node has not stored it yet", 99_000, time.Second, false, true, 0},
		{"restored while the counter was away", 0, 2 * time.Minute, false, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, h := &memory{once: true, deactivated: tt.deactivated}, &hub{totals: map[abuse.Total]int64{}, full: 100_000, marked: true}
			if tt.units > 0 {
				store.commit(tt.units)
			}
			n := sites(1, store, h, 100)[0]
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { n.Run(ctx) })
			n.counter.hear.Marked("a", time.Now().Add(-tt.age))
			synctest.Wait()
			if h.marked != tt.wantMarked || len(store.stored) != tt.wantStored {
				t.Errorf("%s: marked %t and stored %q, want %t and %d", tt.name, h.marked, store.stored, tt.wantMarked, tt.wantStored)
			}
			cancel()
			running.Wait()
		})
	}
}

func TestNear(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		total, pending int64
		budget         account.Limit
		age            time.Duration
		want           bool
	}{
		{0, 1000, 20, 0, true}, // a small budget: each call may be the one
		{0, 1000, 1000, 0, false},
		{898_000, 1000, 1000, 0, false},
		{899_000, 1000, 1000, 0, true},
		{0, 16_000, 1000, 0, true}, // 64 of these are more than the budget
		{0, 1000, 1000, 8 * time.Second, false},
		{0, 1000, 1000, 9 * time.Second, true}, // nobody knows what has been added since
		{1 << 60, 1 << 60, account.Unlimited, time.Hour, false},
		{0, 1, 0, 0, true},
		{1 << 62, 1 << 62, account.MostLimit, 0, true},
	} {
		if got := abuse.Near(tt.total, tt.pending, tt.budget, tt.age); got != tt.want {
			t.Errorf("Near(%d, %d, %d, %v) = %t, want %t", tt.total, tt.pending, tt.budget, tt.age, got, tt.want)
		}
	}
}

// commit adds units to what all nodes have stored.
func (m *memory) commit(units int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.counts) == 0 {
		m.counts = []abuse.Count{{AccountID: "a", Plan: account.Basic, Tier: account.Free}}
	}
	m.counts[0].Units += units
}

func (m *memory) HasSettlements(context.Context, []usage.Settlement) (map[string]bool, error) {
	return nil, nil
}

// RecordAbuseEventsOnce drops repeated events if m.once is set.
// RecordAbuseEventsOnce looks and adds in one step, as a store does.
func (m *memory) RecordAbuseEventsOnce(_ context.Context, events []abuse.Event) (added []abuse.Event, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errAway
	}
	for _, e := range events {
		since, low, high := e.Repeats()
		repeats := slices.ContainsFunc(m.events, func(o abuse.Event) bool {
			return o.Kind == e.Kind && !o.At.Before(since) && o.Score >= low && o.Score <= high
		})
		if !m.once || !repeats {
			m.events = append(m.events, e)
			added = append(added, e)
		}
	}
	return added, nil
}

// accounts returns the accounts of the store.
func (m *memory) accounts() abuse.Accounts { return owners{m} }

type owners struct{ m *memory }

func (o owners) Find(context.Context, string) (*account.Account, error) {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	a := &account.Account{ID: "a"}
	if o.m.deactivated {
		a.Deactivated = &account.Mark{}
	}
	return a, nil
}

func (o owners) Deactivate(_ context.Context, _, id, _ string) (*account.Account, error) {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	if o.m.away {
		return nil, errors.New("away")
	}
	o.m.stored = append(o.m.stored, id)
	return &account.Account{ID: id}, nil
}

func (o owners) Restore(context.Context, string, string) (*account.Account, error) {
	return &account.Account{ID: "a"}, nil
}
