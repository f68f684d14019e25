package budget_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// world is a made-up installation: servers, their journals, and what is true of all calls.
type world struct {
	rng    *rand.Rand
	store  *flaky
	rate   float64 // of faults
	offset atomic.Int64
	wg     sync.WaitGroup // calls, and messages between servers
	nodes  []*node
	acct   *account.Account
	price  price.Nano // of a token now; a reload may change it
	// Ways in which a server can be wrong: a call gives everything back, although it has cost something; or it costs what a token
	// costs when it ends.
	settlesWrong, pricesLate bool
	events                   map[string]int // how often what happened

	mu    sync.Mutex
	lives int
	calls []*call
	ended []*settlement // all that have ever been recorded
	wrong []string
}

// node is a server. A call of it that nobody has ended dies with it.
type node struct {
	name    string
	life    int
	ledger  *budget.Ledger
	stop    context.CancelFunc
	done    chan struct{}
	journal []*settlement // not yet in the database; guarded by the world
}

// call is a running call. It costs the price of a token when it began for each of its tokens.
type call struct {
	node    *node
	life    int
	hold    *budget.Hold
	charges []usage.Charge
	tokens  int64 // that its reply has at most
	price   price.Nano
	start   time.Time
}

// now is the time of all servers. It jumps, so that hours need no loops.
func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

func newWorld(seed uint64, nodes int) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{rng: rng, price: price.Nano(1 + rng.Int64N(4)), events: map[string]int{}}
	start := time.Date(2026, 11, 18, 23, 59, 50, 0, time.UTC) // a day ends early in the history
	w.offset.Store(int64(time.Until(start)))
	w.store = &flaky{model: newModel(w.now), rng: rand.New(rand.NewPCG(seed, 2))}
	w.rate = []float64{0, 0.05, 0.3}[rng.IntN(3)]
	w.store.calm(w.rate)
	w.acct = &account.Account{ID: "acc_1"}
	for i := range 1 + rng.IntN(3) {
		b := account.Budget{
			ID: fmt.Sprintf("bud_%d", i), Amount: 20 + rng.Int64N(200), Hard: rng.IntN(8) > 0,
			Window: []account.Window{account.Total, account.Daily, account.Rolling24}[rng.IntN(3)],
			Scope:  []account.BudgetScope{{Account: true}, {Key: "key_1"}, {Session: account.EachSession}}[rng.IntN(3)],
		}
		w.acct.Budgets = append(w.acct.Budgets, b)
	}
	for i := range nodes {
		n := &node{name: fmt.Sprintf("10.0.0.%d:80=x", i)} // names with what separates fields elsewhere
		w.nodes = append(w.nodes, n)
	}
	for _, n := range w.nodes {
		w.start(n)
	}
	return w
}

// start starts a server. What its earlier process has recorded is in the database by then.
func (w *world) start(n *node) {
	w.lives++
	n.life = w.lives
	ctx, cancel := context.WithCancel(context.Background())
	opts := budget.Options{Node: n.name, Life: strconv.Itoa(n.life), Nodes: func() int { return len(w.nodes) }, Now: w.now}
	if len(w.nodes) > 1 {
		opts.Recall = func(_ context.Context, accountID, count string) { w.recall(n, accountID, count) }
	}
	l := budget.New(w.store, &opts)
	n.ledger, n.stop, n.done = l, cancel, make(chan struct{})
	w.check(l.Begin(ctx) == nil, "Begin failed")
	go func() {
		defer close(n.done)
		l.Run(ctx)
	}()
}

// recall tells the other servers, a moment later.
func (w *world) recall(from *node, accountID, count string) {
	for _, n := range w.nodes {
		if n != from {
			l := n.ledger
			w.wg.Go(func() {
				time.Sleep(5 * time.Millisecond) // the bubble's clock
				_ = l.GiveBack(context.Background(), accountID, count)
			})
		}
	}
}

func (w *world) check(ok bool, format string, args ...any) {
	if !ok {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

// call makes a call, and notes what it has reserved.
func (w *world) call(rng *rand.Rand) {
	n, session := w.nodes[rng.IntN(len(w.nodes))], fmt.Sprintf("s%d", rng.IntN(2))
	w.mu.Lock()
	acct, c := w.acct, &call{node: n, life: n.life, tokens: 1 + rng.Int64N(16), price: w.price}
	w.mu.Unlock()
	dues := budget.Of(acct, "key_1", nil, session)
	ctx := context.Background()
	if rng.IntN(5) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
	}
	time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond) // the bubble's clock
	start := w.now()
	hold, obstacle, err := n.ledger.Reserve(ctx, acct, dues, c.price*price.Nano(c.tokens))
	w.mu.Lock()
	defer w.mu.Unlock()
	if hold == nil {
		w.events[map[bool]string{true: "calls refused", false: "calls left or failed"}[obstacle != nil]]++
		w.check(obstacle != nil || err != nil, "a call was refused for no reason")
		return
	}
	// The charges go through the text that journals and databases have of them.
	var s usage.Settlement
	s.Terms.Budgets = hold.Charges(start)
	text := s.Details()
	s.Terms.Budgets = nil
	s.SetDetails(text)
	c.hold, c.charges, c.start = hold, s.Terms.Budgets, start
	w.events["calls that passed"]++
	w.calls = append(w.calls, c)
	for i, d := range dues {
		if d.Hard {
			w.within(d, c.charges[i].Period)
		}
	}
}

// within checks a hard budget after a call has reserved from it. The caller holds the lock.
func (w *world) within(d budget.Due, period int64) {
	open, spent := w.stand(d.Count(), period)
	amount := price.Nano(d.Amount) + w.store.raisedOf(d.Count())
	w.check(open+spent <= amount, "%s in %d: %d reserved and %d spent are more than %d", d.Count(), period, open, spent, amount)
}

// stand returns what running calls hold of a count, and what calls have cost. The caller holds the lock.
func (w *world) stand(count string, period int64) (open, spent price.Nano) {
	for _, c := range w.calls {
		for _, ch := range c.charges {
			if ch.Count == count && ch.Period == period {
				open += ch.Reserved
			}
		}
	}
	for _, s := range w.ended {
		for _, ch := range s.charges {
			if ch.Count == count && ch.Period == period && (period >= 0 || s.ended.After(w.now().Add(-24*time.Hour))) {
				spent += s.spent
			}
		}
	}
	return open, spent
}

// take removes a random running call. It returns nil if there is none.
func (w *world) take(rng *rand.Rand) *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) == 0 {
		return nil
	}
	i := rng.IntN(len(w.calls))
	c := w.calls[i]
	if c.life != c.node.life {
		panic("a dead call")
	}
	w.calls = append(w.calls[:i:i], w.calls[i+1:]...)
	if rng.IntN(6) == 0 {
		// It fails before it costs anything.
		w.events["failed calls"]++
		c.hold.Cancel()
		return c
	}
	tokens := c.tokens
	if rng.IntN(3) > 0 { // its caller hangs up, or the reply is shorter
		tokens = rng.Int64N(c.tokens + 1)
	}
	if c.price != w.price {
		w.events["calls over a change of prices"]++
	}
	if w.pricesLate {
		c.price = w.price
	}
	spent := c.price * price.Nano(tokens)
	s := &settlement{id: strconv.Itoa(len(w.ended)), charges: c.charges, spent: spent, started: c.start, ended: w.now()}
	w.ended, c.node.journal = append(w.ended, s), append(c.node.journal, s)
	if w.settlesWrong {
		c.hold.Cancel()
	}
	c.hold.Settle(spent)
	c.hold.Settle(spent) // only the first one counts
	return c
}

// commit moves settlements of a journal into the database, some of them twice.
func (w *world) commit(n *node, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	moved := n.journal[:min(most, len(n.journal))]
	n.journal = n.journal[len(moved):]
	for i, s := range moved {
		w.store.commit(s)
		w.store.commit(moved[i/2])
	}
}

// crash kills a server and starts it again.
func (w *world) crash(n *node) {
	w.events["crashes"]++
	n.stop()
	<-n.done
	var rest []*call
	for _, c := range w.calls {
		if c.node != n {
			rest = append(rest, c)
		}
	}
	w.calls = rest
	w.commit(n, len(n.journal))
	w.start(n)
}

// jump lets time pass while all servers keep what they hold and store what they have settled: neither may wait for an hour.
func (w *world) jump(d time.Duration) {
	w.store.calm(0)
	for _, n := range w.nodes {
		w.commit(n, len(n.journal))
	}
	const most = 40 * time.Minute // less than grants are trusted for
	for ; d > 0; d -= most {
		time.Sleep(2 * time.Second) // the bubble's clock
		w.offset.Add(int64(min(d, most)))
	}
	time.Sleep(2 * time.Second) // the bubble's clock
	w.store.calm(w.rate)
}

// phase lets calls begin and end at the same time, and then changes something.
func (w *world) phase() {
	for range 1 + w.rng.IntN(6) {
		rng := rand.New(rand.NewPCG(w.rng.Uint64(), 3))
		w.wg.Go(func() { w.call(rng) })
	}
	for range w.rng.IntN(5) {
		rng := rand.New(rand.NewPCG(w.rng.Uint64(), 4))
		w.wg.Go(func() {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond) // the bubble's clock
			w.take(rng)
			w.commit(w.nodes[rng.IntN(len(w.nodes))], rng.IntN(4))
		})
	}
	if w.rng.IntN(3) == 0 {
		rng := rand.New(rand.NewPCG(w.rng.Uint64(), 5))
		w.wg.Go(func() {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond) // the bubble's clock
			if rng.IntN(3) == 0 {
				w.change(rng)
			} else {
				w.reload(rng)
			}
		})
	}
	w.wg.Wait()
	switch w.rng.IntN(12) {
	case 0:
		w.crash(w.nodes[w.rng.IntN(len(w.nodes))])
	case 1, 2:
		w.change(w.rng)
	case 3:
		w.jump([]time.Duration{time.Minute, 12 * time.Minute, 25 * time.Hour}[w.rng.IntN(3)])
	case 4:
		b := w.acct.Budgets[w.rng.IntN(len(w.acct.Budgets))]
		count := budget.Due{Budget: &b}.Count()
		if b.Scope.Session != "" {
			count += "/s0"
		}
		w.store.raise(count, price.Nano(w.rng.Int64N(20)))
		for _, n := range w.nodes {
			n.ledger.Changed(w.acct.ID, count)
		}
	case 5:
		time.Sleep(3 * time.Second) // the bubble's clock
	}
}

// reload lets servers read everything anew while calls run: the account is another object that says the same, and a token may have
// another price.
func (w *world) reload(rng *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events["reloads"]++
	next := *w.acct
	next.Budgets = append([]account.Budget(nil), w.acct.Budgets...)
	w.acct = &next
	if rng.IntN(3) > 0 {
		w.events["changes of prices"]++
		w.price = price.Nano(1 + rng.Int64N(4))
	}
}

// change changes the amount of a budget. A published account never changes.
func (w *world) change(rng *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events["changes of amounts"]++
	next := *w.acct
	next.Budgets = append([]account.Budget(nil), w.acct.Budgets...)
	next.Budgets[rng.IntN(len(next.Budgets))].Amount = rng.Int64N(250)
	w.acct = &next
}

// end lets all calls end, and checks that nothing is left of them but their cost.
func (w *world) end() {
	w.store.calm(0)
	for w.take(w.rng) != nil {
	}
	for _, n := range w.nodes {
		n.stop()
		<-n.done
		w.check(n.ledger.Close(context.Background()) == nil, "Close failed")
		w.commit(n, len(n.journal))
	}
	time.Sleep(latest) // the bubble's clock
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.store.ghost {
		w.offset.Add(int64(budget.Abandoned + time.Second)) // what came late belongs to nobody now
	}
	left := w.store.outstanding()
	w.check(left == 0, "%d are reserved for ever", left)
	for _, d := range budget.Of(w.acct, "key_1", nil, "s0") {
		period, since := budget.PeriodOf(d.Budget, w.now())
		ask := budget.Ask{Grant: budget.Grant{Key: budget.Key{Count: d.Count(), Period: period}}, Since: since, Amount: price.Nano(d.Amount)}
		f, _ := w.store.Figures(context.Background(), []budget.Ask{ask})
		_, spent := w.stand(d.Count(), period)
		want := max(0, price.Nano(d.Amount)+w.store.raisedOf(d.Count())-spent)
		// A part of a window that rolls counts until all of it has left the window.
		w.check(f[0].Free == want || d.Window.Rolls() && f[0].Free < want, "%s has %d left, want %d", d.Count(), f[0].Free, want)
	}
}

// audit checks that the audit finds what is wrong with the history, if anything is.
func (w *world) audit() {
	slices.SortStableFunc(w.ended, func(a, b *settlement) int { return a.started.Compare(b.started) })
	var sweep budget.Sweep
	for _, s := range w.ended {
		sweep.Add(&usage.Settlement{ID: s.id, At: s.started, Latency: s.ended.Sub(s.started), Cost: &s.spent, Terms: usage.Terms{Budgets: s.charges}})
	}
	found := sweep.End()
	w.check(len(found) == 0, "the audit finds %+v", found)
}

// history runs a history in virtual time. It returns what was wrong and what happened.
func history(t *testing.T, seed uint64, nodes int, change func(*world)) (wrong []string, events map[string]int) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, nodes)
		if change != nil {
			change(w)
		}
		for range 10 + w.rng.IntN(20) {
			w.phase()
		}
		w.end()
		w.audit()
		wrong, events = w.wrong, w.events
	})
	return wrong, events
}

// seedOf returns a random seed, or the one that the environment sets.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64() >> 1
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return seed
}

func TestHistories(t *testing.T) {
	t.Parallel()
	seed, n, began := seedOf(t), uint64(1000), time.Now()
	if os.Getenv("SLUICE_SOAK") != "" {
		n = 10_000
	}
	happened := map[string]int{}
	for i := range n {
		wrong, events := history(t, seed+i, 1+2*int(i%2), nil)
		if len(wrong) > 0 {
			t.Fatalf("SLUICE_SEED=%d, %d servers: %q", seed+i, 1+2*int(i%2), wrong)
		}
		for what, n := range events {
			happened[what] += n
		}
	}
	t.Logf("soak: budgets: %d histories over one server and three: %v; %v", n, happened, time.Since(began).Round(100*time.Millisecond))
	for _, what := range []string{
		"calls that passed", "calls refused", "calls left or failed", "failed calls", "crashes", "reloads", "changes of prices", "calls over a change of prices", "changes of amounts",
	} {
		if happened[what] < int(n)/5 {
			t.Errorf("%d histories have %d %s: these show nothing", n, happened[what], what)
		}
	}
}

// The histories find what is wrong with a store or a server.
func TestHistoriesFind(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world){
		"a store that forgets what others were granted": func(w *world) { w.store.forgetsOthers = true },
		"names of holders that are used twice":          func(w *world) { w.store.reusesNames = true },
		"calls that give back what they have spent":     func(w *world) { w.settlesWrong = true },
		"calls that cost what tokens cost at their end": func(w *world) { w.pricesLate = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := seedOf(t)
			for i := range uint64(2_000) {
				if wrong, _ := history(t, seed+i, 3, change); len(wrong) > 0 {
					return
				}
			}
			t.Errorf("SLUICE_SEED=%d: 2000 histories with %s are right", seed, name)
		})
	}
}
