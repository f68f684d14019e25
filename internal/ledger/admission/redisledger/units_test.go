package redisledger

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/admission/ledgertest"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/redistest"
	"sluice/internal/testkit/wiretest"
)

// club is several nodes on one Redis and one database.
type club struct {
	t        *testing.T
	store    *alltest.Store
	accounts *account.Accounts
	plans    atomic.Pointer[account.Plans]
	members  []*member
	calls    atomic.Int64 // numbers settlements
	ahead    atomic.Int64 // how far the clock of abuse control is wrong, in nanoseconds
}

// member is one node: a ledger, books with a journal of its own, and abuse control.
type member struct {
	*club
	ledger  *Ledger
	books   *usage.Books
	control *abuse.Control
	mu      sync.Mutex
	locked  map[string]bool
}

// newClub returns nodes on ledgers, with a budget of so many units. Nothing runs yet.
func newClub(t *testing.T, database string, budget account.Limit, ledgers ...*Ledger) *club {
	t.Helper()
	store, err := alltest.Open(t.Context(), database, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c := &club{t: t, store: store, accounts: account.New(store, nil)}
	plans := account.BuiltinPlans()
	plans[account.Basic].MonthlyUnits = budget
	c.plans.Store(&plans)
	for _, l := range ledgers {
		m := &member{club: c, ledger: l, locked: map[string]bool{}}
		m.books = usage.NewBooks(t.TempDir(), store, &usage.BooksOptions{Recorded: func(s *usage.Settlement) { m.control.Settled(s) }})
		if err := m.books.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.books.Close() })
		m.control = abuse.New(store, abuse.Options{
			Plans: func() account.Plans { return *c.plans.Load() }, Accounts: c.accounts, Flush: m.books.Flush,
			Lock: func(id string, _ account.Mark) { m.lock(id, true) }, Unlock: func(id string) { m.lock(id, false) },
			Counter: l.Units(), Log: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) },
		})
		c.members = append(c.members, m)
	}
	return c
}

// run runs abuse control on all nodes until the test ends, or until stop is called.
func (c *club) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, m := range c.members {
		running.Go(func() { m.control.Run(ctx) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	c.t.Cleanup(stop)
	return stop
}

// open returns a new account.
func (c *club) open() string {
	c.t.Helper()
	a, _, err := c.accounts.Create(c.t.Context(), "t", fmt.Sprintf("a%d@example.com", c.calls.Add(1)), account.Basic, false)
	if err != nil {
		c.t.Fatal(err)
	}
	return a.ID
}

func (m *member) lock(id string, on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locked[id] = on
}

var anyLimits = limits(unlimited, unlimited, unlimited)

// begin admits a call as the API does: neither what the node knows nor what Redis says is against it.
func (m *member) begin(id string) (admission.Place, bool) {
	m.mu.Lock()
	locked := m.locked[id]
	m.mu.Unlock()
	if locked {
		return admission.Place{}, false
	}
	p, headroom, o := m.ledger.Take(id, anyLimits, one)
	if o != nil {
		m.t.Errorf("Take = %+v, want no obstacle", o)
		return p, false
	}
	if headroom.Deactivated {
		m.ledger.Free(id, p, admission.Cost{})
		return p, false
	}
	return p, true
}

// end settles a call.
func (m *member) end(id string, p admission.Place, unitMilli int64) {
	n := m.calls.Add(1)
	m.books.Record(usage.Settlement{ID: fmt.Sprintf("s%d", n), At: time.Now(), AccountID: id, KeyID: "k", Plan: "basic", Tier: "free", ModelAsked: "m", ModelUsed: "m", UnitMilli: unitMilli, RequestMilli: 1000})
	m.ledger.Free(id, p, one)
}

// call makes a call and reports whether it was admitted.
func (m *member) call(id string, unitMilli int64) bool {
	p, ok := m.begin(id)
	if ok {
		m.end(id, p, unitMilli)
	}
	return ok
}

// units returns the total of an account, or -1 if Redis does not know.
func (m *member) units(id string) int64 {
	readings, known, err := m.ledger.Units().Read(m.t.Context(), id, month())
	if err != nil || !known {
		return -1
	}
	for _, r := range readings {
		if r.Plan == account.Basic && r.Tier == account.Free {
			return r.Units
		}
	}
	return 0
}

func month() time.Time {
	now := time.Now().UTC()
	return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// kinds returns the kinds of an account's events, sorted.
func (c *club) kinds(id string) string {
	events, err := c.store.AbuseEvents(c.t.Context(), id, 100)
	if err != nil {
		c.t.Fatal(err)
	}
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, string(e.Kind))
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " ")
}

// Calls follow each other on whatever nodes. With the one that reaches the budget, every node refuses the
// account: 0 successes after it has returned.
func TestUnitsReachTheBudget(t *testing.T) {
	t.Parallel()
	rounds := 10
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds = 300
	}
	nodes := trio(t, redistest.URL(t), nil, Options{})
	c := newClub(t, pgtest.URL(t), 20, nodes...)
	c.run()
	start(t, nodes...)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds {
		id, used := c.open(), int64(0)
		for used < 20_000 {
			units := []int64{1000, 1000, 1000, 500, 4000, 7}[random.IntN(6)]
			if !c.members[random.IntN(3)].call(id, units) {
				t.Fatalf("seed %d, round %d: refused after %d of 20,000 thousandths", seed, round, used)
			}
			used += units
		}
		for i, m := range c.members {
			if m.call(id, 1000) {
				t.Errorf("seed %d, round %d: node %d admits a call after %d of 20,000 thousandths", seed, round, i, used)
			}
		}
		if got := c.members[round%3].units(id); got != used {
			t.Errorf("seed %d, round %d: %d thousandths are counted, want %d", seed, round, got, used)
		}
		eventually(t, "the deactivation in the database", func() bool {
			a, err := c.accounts.Find(t.Context(), id)
			return err == nil && a.Deactivated != nil && strings.Contains(c.kinds(id), "deactivated inquiry review warning")
		})
		if got := c.kinds(id); got != "deactivated inquiry review warning warning" && got != "deactivated inquiry review warning" {
			t.Errorf("seed %d, round %d: events %q, want each threshold once", seed, round, got)
		}
	}
}

// A large budget: no call waits for Redis until it is nearly used up, and then the same holds.
func TestUnitsOfALargeBudget(t *testing.T) {
	t.Parallel()
	nodes := trio(t, redistest.URL(t), nil, Options{})
	c := newClub(t, "sqlite", 300, nodes...)
	c.run()
	start(t, nodes...)
	id, used := c.open(), int64(0)
	for i := 0; used < 300_000; i++ {
		if !c.members[i%3].call(id, 1000) {
			t.Fatalf("refused after %d of 300,000 thousandths", used)
		}
		used += 1000
	}
	for i, m := range c.members {
		if m.call(id, 1000) {
			t.Errorf("node %d admits a call after all 300 units", i)
		}
	}
	eventually(t, "all events", func() bool { return c.kinds(id) == "deactivated inquiry review warning warning" })
}

// Many calls at once on a new account: nothing is counted twice and nothing is lost.
func TestUnitsAtOnce(t *testing.T) {
	t.Parallel()
	nodes := trio(t, redistest.URL(t), nil, Options{})
	c := newClub(t, "sqlite", 20, nodes...)
	c.run()
	start(t, nodes...)
	for round := range 5 {
		id := c.open()
		var passed atomic.Int64
		var calls sync.WaitGroup
		for i := range 60 {
			calls.Go(func() {
				if c.members[i%3].call(id, 500) {
					passed.Add(1)
				}
			})
		}
		calls.Wait()
		eventually(t, "all additions in Redis", func() bool { return c.members[0].units(id) == passed.Load()*500 })
		if n := passed.Load(); n < 40 {
			t.Errorf("round %d: %d calls of half a unit passed on a budget of 20, want at least 40", round, n)
		}
		for i, m := range c.members {
			if m.call(id, 500) {
				t.Errorf("round %d: node %d admits a call afterwards", round, i)
			}
		}
		eventually(t, "each event once", func() bool {
			got := c.kinds(id)
			return strings.HasPrefix(got, "deactivated inquiry review warning") && strings.Count(got, "deactivated") == 1
		})
	}
}

// Restoring on one node switches the account on everywhere, and the count starts again from zero.
func TestUnitsRestored(t *testing.T) {
	t.Parallel()
	nodes := trio(t, redistest.URL(t), nil, Options{})
	c := newClub(t, "sqlite", 20, nodes...)
	c.run()
	start(t, nodes...)
	id := c.open()
	for i := range 3 {
		for n := range 20 {
			if m := c.members[n%3]; !m.call(id, 1000) {
				t.Fatalf("round %d: refused after %d of 20 units", i, n)
			}
		}
		headroom := nodes[0].Peek(id, anyLimits)
		if !headroom.Deactivated || headroom.Epoch <= 1 {
			t.Fatalf("round %d: standing = %+v, want deactivated in a new epoch", i, headroom)
		}
		// A revocation, of a key for example, leaves the mark.
		if epoch, err := nodes[1].Revoke(t.Context(), id); err != nil || epoch <= headroom.Epoch {
			t.Errorf("Revoke = %d, %v, want more than %d", epoch, err, headroom.Epoch)
		} else if s := nodes[2].Peek(id, anyLimits); !s.Deactivated || s.Epoch != epoch {
			t.Errorf("standing after Revoke = %+v, want deactivated and epoch %d", s, epoch)
		}
		eventually(t, "the deactivation in the database", func() bool {
			a, err := c.accounts.Find(t.Context(), id)
			return err == nil && a.Deactivated != nil && strings.Count(c.kinds(id), "deactivated") == i+1
		})
		if _, err := c.members[(i+1)%3].control.Restore(t.Context(), "support", id); err != nil {
			t.Fatal(err)
		}
		for _, m := range c.members {
			m.lock(id, false) // as the index does when it reads the account
			if tiers, score := m.control.Scores(id, account.Basic); score != 0 || tiers[0].Units != 0 {
				t.Errorf("round %d: standings after restoring = %+v, want zero", i, tiers)
			}
		}
	}
	if got := strings.Count(c.kinds(id), "restored"); got != 3 {
		t.Errorf("%d restored events, want 3", got)
	}
}

// Replies of one node are held back: it goes on by itself, and what it added counts once in the end.
func TestUnitsLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Own(t)
	line := wiretest.New(t, server.Addr())
	prefix, memory := redistest.Prefix(), &memo{}
	slow := openAt(t, "redis://"+line.Addr(), at(0, 2), memory, Options{Prefix: prefix, Deadline: 500 * time.Millisecond, Beat: 20 * time.Millisecond, Probe: 10 * time.Millisecond})
	fast := openAt(t, server.URL(), at(1, 2), memory, Options{Prefix: prefix, Deadline: patient, Beat: 20 * time.Millisecond})
	c := newClub(t, "sqlite", 20, slow, fast)
	c.run()
	start(t, slow, fast)
	eventually(t, "exact", exact([]*Ledger{slow, fast}, true))
	id := c.open()
	for range 3 {
		c.members[1].call(id, 1000)
	}
	counted := int64(3000)
	// loseReply ends a call whose addition Redis counts and the node does not learn of. If replies are held back while the
	// node waits for another one, it does not even send the addition: then added is false.
	loseReply := func() (added bool) {
		p, ok := c.members[0].begin(id)
		if !ok {
			t.Fatalf("refused after %d of 20,000 thousandths", counted)
		}
		release := line.Stall()
		defer release()
		counted += 1000
		c.members[0].end(id, p, 1000)
		end := time.Now().Add(2 * time.Second)
		eventually(t, "the addition without its reply, or none", func() bool {
			added = c.members[1].units(id) == counted
			return added || time.Now().After(end)
		})
		return added
	}
	all := func() bool { return c.members[0].units(id) == counted && c.members[1].units(id) == counted }
	for try := 1; !loseReply(); try++ {
		if try == 5 {
			t.Fatal("in none of 5 tries Redis has counted an addition whose reply was held back")
		}
		eventually(t, "exact", exact([]*Ledger{slow, fast}, true))
		eventually(t, "the addition", all)
	}
	eventually(t, "exact", exact([]*Ledger{slow, fast}, true))
	for range 5 {
		counted += 1000
		c.members[0].call(id, 1000)
	}
	eventually(t, "every unit, once", all)
	if got := c.kinds(id); strings.Contains(got, "deactivated") {
		t.Errorf("events %q after %d of 20,000 thousandths", got, counted)
	}
}

// One node is cut off from Redis. What it counts meanwhile reaches Redis through the database, and does not
// count again when the node is back.
func TestUnitsOfANodeCutOff(t *testing.T) {
	t.Parallel()
	server := redistest.Own(t)
	line := wiretest.New(t, server.Addr())
	prefix, memory := redistest.Prefix(), &memo{}
	far := openAt(t, "redis://"+line.Addr(), at(0, 2), memory, Options{Prefix: prefix, Deadline: 100 * time.Millisecond, Beat: 20 * time.Millisecond, Probe: 10 * time.Millisecond})
	near := openAt(t, server.URL(), at(1, 2), memory, Options{Prefix: prefix, Deadline: patient, Beat: 20 * time.Millisecond})
	c := newClub(t, "sqlite", 1000, far, near)
	c.run()
	start(t, far, near)
	eventually(t, "both are nodes", func() bool {
		return far.State().Nodes == 2 && near.State().Nodes == 2 && exact([]*Ledger{far, near}, true)()
	})
	id := c.open()
	for i := range 4 {
		c.members[i%2].call(id, 1000)
	}
	eventually(t, "four units", func() bool { return c.members[1].units(id) == 4000 })
	release := line.Stall()
	defer release()
	line.Break()
	eventually(t, "shares", exact([]*Ledger{far}, false))
	for range 10 {
		c.members[0].end(id, admission.Place{}, 1000)
		c.members[1].call(id, 1000)
	}
	for _, m := range c.members {
		if err := m.books.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	counts, err := c.store.AbuseCounts(t.Context(), month(), id)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "what the near node has added", func() bool { return c.members[1].units(id) == 14_000 })
	if err := near.Units().Raise(t.Context(), abuse.Known{Month: month(), Accounts: []string{id}, Counts: counts}); err != nil {
		t.Fatal(err)
	}
	if got := c.members[1].units(id); got != 24_000 {
		t.Errorf("%d thousandths after the database was read, want 24,000", got)
	}
	c.members[0].end(id, admission.Place{}, 1000) // the database does not have this one yet
	release()
	eventually(t, "exact", exact([]*Ledger{far, near}, true))
	eventually(t, "25 units", func() bool { return c.members[1].units(id) == 25_000 })
	c.members[0].call(id, 1000)
	eventually(t, "26 units", func() bool { return c.members[1].units(id) == 26_000 && c.members[0].units(id) == 26_000 })
}

// What the nodes count while Redis is away is added when it is back, once. If it comes back without its data,
// the totals come from the database.
func TestUnitsOutage(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		server, clock := redistest.Own(t, keeping), ledgertest.NewClock()
		nodes := trio(t, server.URL(), clock, brisk())
		c := newClub(t, "sqlite", 1000, nodes...)
		c.run()
		start(t, nodes...)
		id := c.open()
		for i := range 30 {
			c.members[i%3].call(id, 1000)
		}
		eventually(t, "30 units", func() bool { return c.members[0].units(id) == 30_000 })
		end := server.Stop
		if lost {
			end = server.Kill
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			// The shares of the nodes do not matter here: the limits are unlimited.
			c.members[i%3].call(id, 1000)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "exact", func() bool {
			clock.Advance(time.Second) // lost data is waited for
			return exact(nodes, true)()
		})
		for _, m := range c.members {
			m.call(id, 1000)
		}
		// The database is told after Redis, as in life, where it is written to later: what it has of a call before
		// Redis has it looks like something that Redis lost.
		eventually(t, "all additions in Redis", func() bool { return arrived(nodes, id) })
		for _, m := range c.members {
			if err := m.books.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if lost { // what was on its way to the database at that moment comes with the next look
			counts, err := c.store.AbuseCounts(t.Context(), month(), id)
			if err != nil {
				t.Fatal(err)
			}
			if err := nodes[0].Units().Raise(t.Context(), abuse.Known{Month: month(), Accounts: []string{id}, Counts: counts}); err != nil {
				t.Fatal(err)
			}
		}
		var got int64
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%d thousandths at the end", got)
			}
		})
		eventually(t, fmt.Sprintf("63 units (lost %t)", lost), func() bool { got = int64(c.members[0].units(id)); return got == 63_000 })
		if a, err := c.accounts.Find(t.Context(), id); err != nil || a.Deactivated != nil {
			t.Errorf("the account after 63 of 1000 units = %+v, %v", a, err)
		}
	}
}

// arrived reports whether Redis has everything that the nodes have added to an account.
func arrived(nodes []*Ledger, id string) bool {
	for _, n := range nodes {
		sh := n.units.shard(id)
		sh.mu.Lock()
		y := sh.of(id)
		waiting := sh.owing[id] || y.unproven()
		for _, x := range y.totals {
			waiting = waiting || x.arrived < x.all
		}
		sh.mu.Unlock()
		if waiting {
			return false
		}
	}
	return true
}

// A steep climb is reported once in 24 hours, and what is a day old does not count for it.
func TestUnitsClimb(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	nodes := trio(t, redistest.URL(t), clock, Options{Lease: 1000 * time.Hour})
	c := newClub(t, "sqlite", 100, nodes...)
	stop := c.run()
	id := c.open()
	reviews := func(after string, want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d reviews %s", want, after), func() bool { return strings.Count(c.kinds(id), "review") == want })
	}
	settle := func(i int, units int64) {
		t.Helper()
		p, ok := c.members[i].begin(id)
		if !ok {
			t.Fatal("refused")
		}
		c.members[i].end(id, p, units*1000)
		for _, l := range nodes {
			l.Flush(t.Context())
		}
	}
	settle(0, 20)
	clock.Advance(23 * time.Hour)
	settle(1, 4)
	reviews("after 24 points in a day", 0)
	clock.Advance(2 * time.Hour)
	settle(2, 20)
	reviews("after 24 points in the last day, and 20 before", 0)
	settle(0, 1)
	reviews("after 25 points", 1)
	settle(1, 1)
	stop() // stores what is left
	reviews("after 26 points", 1)
}

// Additions in the usual case cost no round trip of their own.
func BenchmarkUnits(b *testing.B) {
	for _, tt := range []struct {
		name     string
		accounts int
		counted  bool
	}{{"limits-only", 1000, false}, {"with-units", 1000, true}, {"limits-only-one-account", 1, false}, {"with-units-one-account", 1, true}} {
		b.Run(tt.name, func(b *testing.B) {
			l := open(b, redistest.URL(b), Options{Deadline: patient})
			defer keepRunning(b, l)()
			plans := account.BuiltinPlans()
			plans[account.Basic].MonthlyUnits = account.MostLimit
			control := abuse.New(nothingStored{}, abuse.Options{
				Plans: func() account.Plans { return plans }, Log: slog.New(slog.DiscardHandler),
				Lock: func(string, account.Mark) {}, Counter: l.Units(),
			})
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { control.Run(ctx) })
			defer running.Wait()
			defer cancel()
			all := limits(unlimited, unlimited, unlimited)
			cost := admission.Cost{RequestMilli: 1000, Tokens: 1100}
			ids := make([]string, tt.accounts)
			for i := range ids {
				ids[i] = fmt.Sprintf("acct_%020d", i)
			}
			call := func(id string) {
				p, _, o := l.Take(id, all, cost)
				if o != nil {
					b.Fatal(o)
				}
				if tt.counted {
					control.Settled(&usage.Settlement{ID: "s", At: time.Now(), AccountID: id, Plan: "basic", Tier: "free", UnitMilli: 1000})
				}
				l.Free(id, p, cost)
			}
			for _, id := range ids {
				call(id) // the first call of a month reads the store
			}
			b.SetParallelism(32)
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu(b)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					call(ids[i*7919%len(ids)])
				}
			})
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// nothingStored is an empty store.
type nothingStored struct{ abuse.Store }

func (nothingStored) AbuseCounts(context.Context, time.Time, ...string) ([]abuse.Count, error) {
	return nil, nil
}

func (nothingStored) UnitsSince(context.Context, time.Time, func(abuse.Count, time.Time), ...string) error {
	return nil
}

func (nothingStored) HasSettlements(context.Context, []usage.Settlement) (map[string]bool, error) {
	return nil, nil
}

func (nothingStored) RecordAbuseEventsOnce(context.Context, []abuse.Event) ([]abuse.Event, error) {
	return nil, nil
}

// A command without a server reads the totals and restores an account; running nodes see it at once.
func TestUnitsVisitor(t *testing.T) {
	t.Parallel()
	server := redistest.Own(t)
	l := open(t, server.URL(), Options{Prefix: "sluice:", Deadline: patient})
	c := newClub(t, "sqlite", 20, l)
	c.run()
	start(t, l)
	id := c.open()
	for range 20 {
		c.members[0].call(id, 1000)
	}
	eventually(t, "the deactivation in the database", func() bool {
		a, err := c.accounts.Find(t.Context(), id)
		return err == nil && a.Deactivated != nil
	})
	offline := abuse.New(c.store, abuse.Options{
		Plans: func() account.Plans { return *c.plans.Load() }, Accounts: c.accounts, Flush: c.members[0].books.Flush, Totals: Visit(server.URL()),
	})
	if _, score := offline.Scores(id, account.Basic); score != 100 {
		t.Errorf("score = %d, want 100", score)
	}
	if _, err := offline.Restore(t.Context(), "support", id); err != nil {
		t.Fatal(err)
	}
	if s := l.Peek(id, anyLimits); s.Deactivated {
		t.Errorf("standing after restoring = %+v, want it not deactivated", s)
	}
	if got := c.members[0].units(id); got != 0 {
		t.Errorf("%d thousandths after restoring, want 0", got)
	}
	if err := Visit("redis://127.0.0.1:1").Raise(t.Context(), abuse.Known{}); err == nil {
		t.Error("Raise without Redis = nil, want an error")
	}
}

// A clock that steps into the next month and back does not stop the count: the call that reaches the budget is found.
func TestUnitsClockSetBack(t *testing.T) {
	t.Parallel()
	nodes := trio(t, redistest.URL(t), nil, Options{})[:1]
	c := newClub(t, "sqlite", 10, nodes...)
	c.run()
	start(t, nodes...)
	m := c.members[0]
	id := c.open()
	for range 5 {
		m.call(id, 1000)
	}
	c.ahead.Store(int64(40 * 24 * time.Hour))
	m.control.Settled(&usage.Settlement{ID: "ahead", At: time.Now().Add(40 * 24 * time.Hour), AccountID: id, Plan: "basic", Tier: "free", UnitMilli: 1000})
	c.ahead.Store(0)
	admitted := 0
	for range 20 {
		if m.call(id, 1000) {
			admitted++
		}
	}
	if admitted != 5 {
		t.Errorf("%d calls were admitted after the clock was right again, want the 5 that were left", admitted)
	}
}
