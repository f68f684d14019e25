package redisledger

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/admission/ledgertest"
	"sluice/internal/ledger/cluster"
)

// simBugs are ways to break the scripts or, if there is nothing to replace, a node; each with the trouble that brings
// it to light, if it needs any. A simulation that does not notice them is worth nothing.
var simBugs = map[string]struct{ old, new, trouble string }{
	"window-forgets":           {"local SPAN, TTL, PAGE = 60000", "local SPAN, TTL, PAGE = 45000", ""},
	"slots-not-counted":        {"redis.call('ZCARD', slots)", "0", ""},
	"slots-never-freed":        {"redis.call('ZREM', slots, ARGV[2])", "", ""},
	"slots-not-renewed":        {"redis.call('ZADD', slots, 'XX', now + ms, ARGV[i])", "", ""},
	sharesNotDivided:           {"", "", redisStops},
	sharesAtOnce:               {"", "", exchange},
	staleLists:                 {"redis.call('HSET', tab, 'list', ARGV[3])", "", cutFromDatabase},
	"returning-node-forgets":   {"er, et, r, t = er + rc, et + tc, r + rc, t + tc", "", redisStops},
	"lost-data-goes-unnoticed": {"born = string.format('%.0f', clock[1] * 1000000 + clock[2])", "born = '1'", redisLoses},
}

// The bugs of nodes.
const (
	sharesNotDivided = "shares-not-divided" // a node has all of each limit
	sharesAtOnce     = "shares-at-once"     // a node goes by a new list before the minute of the former one is over
	staleLists       = "stale-lists"        // a node that is cut off from the database does not learn of new lists
)

// What goes wrong in a simulation.
const (
	redisStops = "Redis stops" // and comes back with its data
	redisLoses = "Redis loses its data"
	redisFlaps = "Redis comes and goes"
	redisSlow  = "replies are late"
	cutOff     = "nodes are cut off" // some of them
	cutReplies = "replies are lost"
	// Nobody reaches the database, or some do not and all others go by new lists; then Redis stops.
	databaseAway    = "the database is away"
	cutFromDatabase = "nodes are cut off from the database"
	exchange        = "new nodes take the places of others while Redis is away"
)

func simTroubles() []string {
	return []string{redisStops, redisLoses, redisFlaps, redisSlow, cutOff, cutReplies, databaseAway, cutFromDatabase, exchange}
}

// breakScript returns what the simulated Redis runs for a script.
func breakScript(t *testing.T, bug string) func(*script) string {
	if bug == "" {
		return func(s *script) string { return s.text }
	}
	b, ok := simBugs[bug]
	if !ok {
		t.Fatalf("there is no bug %q to simulate", bug)
	}
	found := false
	for _, s := range scripts() {
		found = found || strings.Contains(s.text, b.old)
	}
	if !found {
		t.Fatalf("no script contains what bug %q replaces: %s", bug, b.old)
	}
	return func(s *script) string {
		text := strings.ReplaceAll(s.text, b.old, b.new)
		if bug == "slots-never-freed" {
			text = strings.ReplaceAll(text, "redis.call('ZREMRANGEBYSCORE', slots, '-inf', now)", "0")
		}
		return text
	}
}

// The simulated Redis passes the suite that the real one passes.
func TestSimulatedSuite(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T, c *ledgertest.Clock) ledgertest.Subject {
		redis, memory := newSimRedis(time.Now, breakScript(t, "")), &memo{}
		var s ledgertest.Subject
		var ledgers []*Ledger
		for i := range 3 {
			l := openSim(t, at(i, 3), memory, &Options{Now: c.Now, Lease: 2 * time.Hour, Deadline: patient}, simDirect{redis})
			s.Nodes, ledgers = append(s.Nodes, l), append(ledgers, l)
		}
		s.Flush = func() {
			for _, l := range ledgers {
				l.Flush(t.Context())
			}
		}
		return s
	})
}

// openSim returns a ledger on a transport that is there from the beginning.
func openSim(t *testing.T, members Members, memory Memory, opts *Options, c transport) *Ledger {
	t.Helper()
	l, err := openWith(t.Context(), members, memory, opts, func(time.Duration, func()) func() (transport, error) {
		return func() (transport, error) { return c, nil }
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// simDirect is a transport without a network.
type simDirect struct{ redis *simRedis }

func (d simDirect) load(context.Context) {}
func (d simDirect) close()               {}
func (d simDirect) run(_ context.Context, orders []order, answers []answer) {
	for i, o := range orders {
		answers[i] = d.redis.run(o)
	}
}

// simSeed returns the seed of a run, which SLUICE_SEED may set.
func simSeed(t *testing.T) uint64 {
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SLUICE_SEED=%s is not a number", text)
		}
		return seed
	}
	return rand.Uint64()
}

// TestSimulation replays the admission protocol with many nodes, delays, partitions, crashes and slow replies
// in virtual time, and checks every promise that limits keep. make simulate runs it with a thousand nodes.
func TestSimulation(t *testing.T) {
	t.Parallel()
	o := simOptions{seed: simSeed(t), nodes: 30, rounds: 2, bug: os.Getenv("SLUICE_SIMULATE_BUG"), progress: io.Discard}
	long := os.Getenv("SLUICE_SIMULATE") != ""
	if long {
		o.progress = os.Stderr
		fmt.Fprintf(o.progress, "simulate: SLUICE_SEED=%d\n", o.seed)
	}
	if long || os.Getenv("SLUICE_SOAK") != "" {
		o.nodes, o.rounds = 1000, len(simTroubles())
	}
	if raced {
		o.nodes = min(o.nodes, 100) // the race detector makes it ten times slower
	}
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, o)
		t.Logf("soak: %s", s.summary())
		if s.failure != "" {
			t.Errorf("SLUICE_SEED=%d: %s", o.seed, s.failure)
		}
	})
}

// Every bug is found, by a handful of nodes in a few minutes of their time.
func TestSimulationFindsBugs(t *testing.T) {
	t.Parallel()
	seed := simSeed(t)
	for bug, b := range simBugs {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			// A bug shows itself in most runs, not in each.
			const runs = 5
			for i := range uint64(runs) {
				found := false
				synctest.Test(t, func(t *testing.T) {
					s := simulate(t, simOptions{seed: seed + i, nodes: 15, rounds: 3, first: b.trouble, bug: bug, progress: io.Discard})
					found = s.failure != ""
					t.Logf("SLUICE_SEED=%d: %s %s", seed+i, s.failure, s.summary())
				})
				if found {
					return
				}
			}
			t.Errorf("%d simulations with the bug %s pass", runs, bug)
		})
	}
}

type simOptions struct {
	seed     uint64
	nodes    int
	rounds   int    // of calm and trouble
	first    string // the trouble to begin with; empty: any
	bug      string
	progress io.Writer
}

// rate is the number of calls in a second, of all nodes.
func (o simOptions) rate() float64 { return 50 + float64(o.nodes)/5 }

// simulation is one run.
type simulation struct {
	simOptions
	t            *testing.T
	random       *rand.Rand // of the one goroutine that makes trouble
	net          *simNet
	database     *simDatabase
	begin        time.Time
	took         time.Duration // in virtual time
	accounts     []*simAccount
	nodes        []*simNode // the living
	names        int
	databaseAway bool
	still        bool           // no node comes or goes
	wg           sync.WaitGroup // callers and calls

	mu      sync.Mutex // guards the fields below; never held while waiting
	pending []simEvent
	failure string
	// calm is when every node counts in Redis, everything is told, and nothing stands in the way. Zero: not so.
	calm time.Time
	// least is the number of nodes in the smallest list since the last trouble began.
	least int

	calls, admitted, local, refused    int
	partitions, redisCrashes, losses   int
	nodeCrashes, nodeStops, nodeStarts int
	worstCalm, worst                   float64 // shares of a limit in any minute
	longest                            time.Duration
}

// simAccount is an account that all nodes serve. Its figures are the simulation's own, in the order of time.
type simAccount struct {
	id     string
	limits account.Limits
	// What was admitted in the last minute, and what of that has not come back.
	minute           []*simCall
	requests, tokens int64
	forgotten        admission.Cost // of these: what nodes admitted alone and had not told when they ended
	running          int
	ended            []time.Time // the slots that a lease may still hold
	byNode           map[*simNode][]*simCall
}

// simCall is one admitted call.
type simCall struct {
	account *simAccount
	node    *simNode
	at      time.Time
	local   bool
	cost    admission.Cost // without what has come back
	gone    bool           // no longer in the minute
	lost    bool           // its node ended before it could tell
}

// simEvent is something that happened.
type simEvent struct {
	at    time.Time
	what  byte // admitted, back, ended, left a lease, not admitted, killed or stopped
	call  *simCall
	cost  admission.Cost // what came back
	calm  bool
	quiet bool // it has been calm for longer than a lease
	share int  // the nodes that divide the limits at the time
}

// simNode is a node of the cluster.
type simNode struct {
	name    string
	cluster *cluster.Cluster
	link    *simLink
	ledger  *Ledger
	wire    *simWire
	random  *rand.Rand
	started time.Time
	gone    chan struct{} // closed when the node stops or dies
	cancel  context.CancelFunc
	ran     chan struct{} // closed when Run has returned
}

// simulate runs a simulation in a bubble of synctest.
func simulate(t *testing.T, o simOptions) *simulation {
	s := &simulation{simOptions: o, t: t, random: rand.New(rand.NewPCG(o.seed, 0)), begin: time.Now(), database: &simDatabase{}}
	// The clock of Redis is not that of the nodes: it is ahead of it, or behind.
	ahead := time.Duration(s.random.Int64N(int64(time.Hour))) - time.Hour/2
	s.net = &simNet{redis: newSimRedis(func() time.Time { return time.Now().Add(ahead) }, breakScript(t, o.bug)), wires: map[*simWire]bool{}}
	defer s.net.redis.lua.Close()
	for i := range 12 {
		// Some limits are smaller than the number of nodes, some are larger. All of them are asked for more.
		n := []account.Limit{5, 40, account.Limit(1.5 * o.rate()), account.Limit(3.5 * o.rate())}[i%4]
		l := account.Limits{RequestsPerMinute: n, TokensPerMinute: 2000 * n, Concurrent: n}
		switch i % 3 { // requests, tokens or slots run out first
		case 1:
			l.TokensPerMinute = 300 * n
		case 2:
			l.Concurrent = max(2, n/20)
		}
		s.accounts = append(s.accounts, &simAccount{id: fmt.Sprintf("acct_%d", i), limits: l, byNode: map[*simNode][]*simCall{}})
	}
	for range o.nodes {
		s.startNode()
	}
	s.settle(time.Minute)
	troubles := simTroubles()
	s.random.Shuffle(len(troubles), func(i, j int) { troubles[i], troubles[j] = troubles[j], troubles[i] })
	if o.first != "" {
		troubles[0] = o.first
	}
	for i := 0; i < o.rounds && s.well(); i++ {
		s.work(time.Duration(70+s.random.IntN(30)) * time.Second)
		s.makeTrouble(troubles[i%len(troubles)])
		fmt.Fprintf(s.progress, "simulate: round %d of %d, %s: %s of virtual time, %d calls, %d admitted, worst minute %.2f of a limit, %.2f while all nodes reach Redis\n",
			i+1, s.rounds, troubles[i%len(troubles)], time.Since(s.begin).Round(time.Second), s.calls, s.admitted, s.worst, s.worstCalm)
	}
	s.work(70 * time.Second)
	s.took = time.Since(s.begin)
	for len(s.nodes) > 0 {
		s.endNode(s.nodes[len(s.nodes)-1], true)
		s.nodeCrashes-- // that is not part of it
	}
	s.wg.Wait()
	time.Sleep(time.Minute) // on the bubble's clock: messages are still on their way
	s.check(time.Now())
	return s
}

// startNode adds a node, with the name of a former one or a new one.
func (s *simulation) startNode() {
	s.names++
	n := &simNode{name: fmt.Sprintf("node%d", s.names), gone: make(chan struct{}), ran: make(chan struct{}), started: time.Now()}
	n.random = rand.New(rand.NewPCG(s.seed, uint64(s.names)))
	n.link = &simLink{simDatabase: s.database}
	n.link.cut.Store(s.databaseAway)
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	var err error
	if n.cluster, err = cluster.Join(ctx, n.link, n.name, cluster.Exact, nil); err != nil {
		cancel()
		return // a server does not start without the database
	}
	// As in production: these options, and these members.
	n.ledger, err = openWith(ctx, s.members(n.cluster), n.link, nil, func(_ time.Duration, dialed func()) func() (transport, error) {
		n.wire = newSimWire(s.net, rand.New(rand.NewPCG(s.seed+1, uint64(s.names))), dialed)
		return func() (transport, error) { return n.wire, nil }
	})
	if err != nil {
		s.fail("%s does not start: %v", n.name, err)
		return
	}
	s.nodes = append(s.nodes, n)
	s.nodeStarts++
	go func() {
		defer close(n.ran)
		_ = n.ledger.Run(ctx)
	}()
	s.wg.Go(func() { s.call(n) })
}

// members returns the members that a node knows, which is itself unless there is a bug.
func (s *simulation) members(c *cluster.Cluster) Members {
	switch s.bug {
	case sharesNotDivided, sharesAtOnce:
		return wrongMembers{c, s.bug == sharesAtOnce}
	}
	return c
}

// wrongMembers divides limits by the newest list only, or not at all.
type wrongMembers struct {
	*cluster.Cluster
	divide bool
}

func (w wrongMembers) Views() []admission.View {
	if views := w.Cluster.Views(); w.divide && len(views) > 1 {
		return views[:1]
	} else if w.divide {
		return views
	}
	return nil
}

// endNode stops a node in order, or kills it.
func (s *simulation) endNode(n *simNode, kill bool) {
	s.nodes = slices.DeleteFunc(s.nodes, func(other *simNode) bool { return other == n })
	if kill {
		s.nodeCrashes++
		n.wire.close()
		n.link.cut.Store(true)
	} else {
		s.nodeStops++
	}
	for _, a := range s.accounts {
		s.note(simEvent{at: time.Now(), what: 'k', call: &simCall{account: a, node: n}})
	}
	close(n.gone)
	n.cancel()
	<-n.ran
	n.cluster.Leave(context.Background())
	n.wire.close()
}

// call makes the calls of a node until it ends. All nodes together ask for more than all limits.
func (s *simulation) call(n *simNode) {
	var calls sync.WaitGroup
	defer calls.Wait()
	mean := float64(s.simOptions.nodes) * float64(time.Second) / s.rate()
	for {
		select {
		case <-n.gone:
			return
		case <-time.After(time.Duration(n.random.ExpFloat64() * mean)):
		}
		a := s.accounts[n.random.IntN(len(s.accounts))]
		cost := admission.Cost{RequestMilli: 1000, Tokens: 1 + n.random.Int64N(1200)}
		if n.random.IntN(10) == 0 {
			cost.RequestMilli = 1 + n.random.Int64N(3000)
		}
		hold := time.Duration(n.random.ExpFloat64() * float64(5*time.Second))
		if n.random.IntN(10) == 0 {
			hold *= 8
		}
		back := n.random.Float64()
		calls.Go(func() { s.one(n, a, cost, hold, back) })
	}
}

// one makes one call.
func (s *simulation) one(n *simNode, a *simAccount, cost admission.Cost, hold time.Duration, back float64) {
	p, _, o := n.ledger.Take(a.id, a.limits, cost)
	select {
	case <-n.gone:
		// The node has died meanwhile. Its caller knows nothing of an admission, but a lease may hold a slot.
		s.note(simEvent{at: time.Now(), what: 'l', call: &simCall{account: a, node: n}})
		return
	default:
	}
	if o != nil {
		s.note(simEvent{at: time.Now(), what: 'n', call: &simCall{account: a, node: n}, share: int(o.Resource)})
		return
	}
	c := &simCall{account: a, node: n, at: time.Now(), local: p.Slot&localSlot != 0, cost: cost}
	if !c.local {
		c.at = n.wire.admittedAt(string(n.ledger.appendSlot(nil, p.Slot)))
	}
	s.note(simEvent{at: c.at, what: 'a', call: c, cost: cost})
	select {
	case <-time.After(hold):
	case <-n.gone: // the node is dead, or its callers are
	}
	used := admission.Cost{RequestMilli: cost.RequestMilli, Tokens: cost.Tokens}
	switch {
	case back < 0.03:
		used = admission.Cost{}
	case back < 0.5:
		used.Tokens = int64(float64(used.Tokens) * back)
	}
	// In this order: what has ended may be taken at once, but what has not must not.
	s.note(simEvent{at: time.Now(), what: 'e', call: c})
	s.note(simEvent{at: time.Now(), what: 'b', call: c, cost: admission.Cost{RequestMilli: cost.RequestMilli - used.RequestMilli, Tokens: cost.Tokens - used.Tokens}})
	n.ledger.Free(a.id, p, used)
}

// note records an event. Calls that Redis admitted are noted a little later than they were admitted.
func (s *simulation) note(e simEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.calm = !s.calm.IsZero() && !e.at.Before(s.calm)
	e.quiet = e.calm && e.at.Sub(s.calm) > 20*time.Second
	if e.what != 'n' {
		e.share = s.least
	}
	s.pending = append(s.pending, e)
}

// well reports whether everything is as promised so far.
func (s *simulation) well() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure == ""
}

// work lets time pass in which nodes come and go, and checks what happens.
func (s *simulation) work(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && s.well(); {
		time.Sleep(time.Second) // the bubble's clock
		if !s.still && s.random.IntN(25) == 0 && len(s.nodes) > s.simOptions.nodes/2 {
			s.endNode(s.nodes[s.random.IntN(len(s.nodes))], s.random.IntN(2) == 0)
		}
		if !s.still && len(s.nodes) < s.simOptions.nodes && s.random.IntN(8) == 0 {
			s.startNode()
		}
		s.mu.Lock()
		s.least = min(s.least, s.database.smallest())
		s.mu.Unlock()
		s.check(time.Now().Add(-2 * time.Second))
	}
}

// makeTrouble lets something go wrong for a while, and waits until all limits are exact again.
func (s *simulation) makeTrouble(what string) {
	s.mu.Lock()
	s.calm, s.least = time.Time{}, s.database.smallest()
	s.mu.Unlock()
	pause := func(least, most int) { s.work(time.Duration(least+s.random.IntN(most-least)) * time.Second) }
	bound := time.Minute
	switch what {
	case redisStops:
		s.away(func() { pause(5, 100) }, false)
	case redisLoses:
		s.away(func() { pause(1, 40) }, true)
		bound = time.Minute + 10*time.Second // until the last minute is over, and the next beats
	case redisFlaps:
		for range 3 {
			s.away(func() { pause(1, 20) }, false)
			pause(1, 4)
		}
	case redisSlow:
		s.net.setSlow(true)
		pause(5, 60)
		s.net.setSlow(false)
	case databaseAway:
		s.cutDatabase(s.nodes, true)
		pause(20, 100)
		s.away(func() { pause(5, 60) }, s.random.IntN(2) == 0)
		s.cutDatabase(s.nodes, false)
		bound = time.Minute + 10*time.Second
	case exchange:
		s.still = true
		pause(70, 80) // the next change need not wait
		s.away(func() {
			pause(15, 25) // nodes use their shares
			for range len(s.nodes) / 2 {
				s.endNode(s.nodes[0], s.random.IntN(2) == 0)
			}
			for len(s.nodes) < s.simOptions.nodes {
				s.startNode()
			}
			pause(30, 60)
		}, false)
		s.still = false
	case cutFromDatabase:
		s.partitions++
		cut := slices.Clone(s.nodes[:(len(s.nodes)+1)/2])
		s.cutDatabase(cut, true)
		s.still = true
		pause(150, 180) // the others divide without them
		s.still = false
		s.away(func() { pause(60, 100) }, false)
		s.cutDatabase(cut, false)
	default:
		s.partitions++
		cut := slices.Clone(s.nodes[:1+s.random.IntN(max(1, len(s.nodes)/2))])
		for _, n := range cut {
			n.wire.setCut(what == cutOff, what == cutReplies)
		}
		pause(3, 45)
		for _, n := range cut {
			n.wire.setCut(false, false)
		}
	}
	s.settle(bound)
}

// cutDatabase cuts nodes off from the database, or ends that. No node starts while all of them are.
func (s *simulation) cutDatabase(nodes []*simNode, cut bool) {
	s.databaseAway = cut && len(nodes) == len(s.nodes)
	for _, n := range nodes {
		n.link.cut.Store(cut)
	}
}

// away stops Redis, and starts it again with its data or without.
func (s *simulation) away(pause func(), lost bool) {
	s.redisCrashes++
	s.net.stop()
	if lost {
		s.losses++
		s.net.redis.lose()
	}
	pause()
	s.net.start()
}

// settle waits until every node counts in Redis and has told everything. It must not take longer than
// promised.
func (s *simulation) settle(bound time.Duration) {
	healed := time.Now()
	for ; s.well(); s.work(time.Second / 2) {
		waiting := 0
		for _, n := range s.nodes {
			if !n.ledger.State().Exact {
				waiting++
			}
		}
		if waiting == 0 {
			break
		}
		if took := time.Since(healed); took > bound {
			s.fail("%d of %d nodes do not count in Redis %v after it is back", waiting, len(s.nodes), took)
			return
		}
	}
	s.mu.Lock()
	s.longest = max(s.longest, time.Since(healed))
	s.mu.Unlock()
	s.work(5 * time.Second) // what single calls left is told with the next beats
	s.mu.Lock()
	s.calm = time.Now()
	s.mu.Unlock()
}

func (s *simulation) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(format, args...)
}

func (s *simulation) failLocked(format string, args ...any) {
	if s.failure == "" {
		s.failure = fmt.Sprintf(format, args...)
	}
}

// check looks at everything that happened up to a time, in its order.
func (s *simulation) check(upTo time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.pending, func(a, b simEvent) int { return a.at.Compare(b.at) })
	n := 0
	for n < len(s.pending) && !s.pending[n].at.After(upTo) {
		s.judge(s.pending[n])
		n++
	}
	s.pending = slices.Delete(s.pending, 0, n)
}

// judge looks at one event. The caller holds the lock.
func (s *simulation) judge(e simEvent) {
	c, a := e.call, e.call.account
	a.expire(e.at)
	switch e.what {
	case 'n':
		s.calls++
		s.refused++
		s.judgeRefusal(e)
	case 'a':
		s.calls++
		s.admitted++
		a.minute = append(a.minute, c)
		a.requests += c.cost.RequestMilli
		a.tokens += c.cost.Tokens
		a.running++
		s.judgeAdmission(e)
	case 'b':
		if c.lost {
			return // it ended with its node
		}
		if !c.gone {
			a.requests -= e.cost.RequestMilli
			a.tokens -= e.cost.Tokens
		}
		c.cost.RequestMilli -= e.cost.RequestMilli
		c.cost.Tokens -= e.cost.Tokens
	case 'k':
		for _, own := range a.byNode[c.node] {
			if !e.calm && !own.gone {
				own.lost = true
				a.forgotten.RequestMilli += own.cost.RequestMilli
				a.forgotten.Tokens += own.cost.Tokens
			}
		}
		delete(a.byNode, c.node)
	case 'e':
		a.running--
		a.ended = append(a.ended, e.at)
	case 'l':
		a.ended = append(a.ended, e.at)
	}
}

// expire drops what is older than a minute, and the ends of calls whose leases have ended.
func (a *simAccount) expire(now time.Time) {
	n := 0
	for n < len(a.minute) && now.Sub(a.minute[n].at) >= time.Minute {
		c := a.minute[n]
		c.gone = true
		a.requests -= c.cost.RequestMilli
		a.tokens -= c.cost.Tokens
		if c.lost {
			a.forgotten.RequestMilli -= c.cost.RequestMilli
			a.forgotten.Tokens -= c.cost.Tokens
		}
		n++
	}
	a.minute = slices.Delete(a.minute, 0, n)
	n = 0
	for n < len(a.ended) && now.Sub(a.ended[n]) > 17*time.Second { // a lease, and the time to send
		n++
	}
	a.ended = slices.Delete(a.ended, 0, n)
}

// judgeAdmission checks a call that was admitted.
func (s *simulation) judgeAdmission(e simEvent) {
	c, a := e.call, e.call.account
	most, forgotten := 2.0, admission.Cost{}
	if e.calm {
		most, forgotten = 1, a.forgotten // nobody can know of these
		if c.local {
			s.failLocked("%s: a call was admitted on a share while Redis answered every call", a.span(s, e))
		}
	}
	for _, m := range []struct {
		what        string
		used, limit float64
	}{
		{"requests", float64(a.requests-forgotten.RequestMilli) / 1000, float64(a.limits.RequestsPerMinute)},
		{"tokens", float64(a.tokens - forgotten.Tokens), float64(a.limits.TokensPerMinute)},
		{"calls at once", float64(a.running), float64(a.limits.Concurrent)},
	} {
		share := m.used / m.limit
		if m.what != "calls at once" {
			s.worst = max(s.worst, share)
			if e.calm {
				s.worstCalm = max(s.worstCalm, share)
			}
		}
		if share > most {
			s.failLocked("%s: %.3f %s on a limit of %.0f, more than %.0f times (all nodes reach Redis: %t)", a.span(s, e), m.used, m.what, m.limit, most, e.calm)
		}
	}
	if c.local {
		s.local++
		s.judgeShare(e)
	}
}

// judgeShare checks that a node on its own takes no more than its share, and that the shares of all, whenever they
// learned of a list, add up to no more than a limit.
func (s *simulation) judgeShare(e simEvent) {
	c, a := e.call, e.call.account
	var all admission.Cost
	for _, other := range a.minute {
		if other.local {
			all.RequestMilli += other.cost.RequestMilli
			all.Tokens += other.cost.Tokens
		}
	}
	if all.RequestMilli > int64(a.limits.RequestsPerMinute)*1000 || all.Tokens > int64(a.limits.TokensPerMinute) {
		s.failLocked("%s: %d thousandths and %d tokens were admitted on shares of %d requests and %d tokens a minute", a.span(s, e), all.RequestMilli, all.Tokens, a.limits.RequestsPerMinute, a.limits.TokensPerMinute)
	}
	mine := slices.DeleteFunc(append(a.byNode[c.node], c), func(other *simCall) bool { return other.gone })
	a.byNode[c.node] = mine
	if e.share == 0 {
		return
	}
	var requests int64
	for _, other := range mine {
		requests += other.cost.RequestMilli
	}
	n := account.Limit(e.share)
	if share := (a.limits.RequestsPerMinute + n - 1) / n; requests > int64(share)*1000 {
		s.failLocked("%s: %s has admitted %d thousandths on its own; %d nodes share %d requests a minute", a.span(s, e), c.node.name, requests, n, a.limits.RequestsPerMinute)
	}
}

// judgeRefusal checks that slots are taken by calls that run, or by leases that have not ended.
func (s *simulation) judgeRefusal(e simEvent) {
	a := e.call.account
	if held := a.running + len(a.ended); e.quiet && admission.Resource(e.share) == admission.Slots && held < int(a.limits.Concurrent) {
		s.failLocked("%s: no slot is free of %d, but only %d calls run or have ended within a lease", a.span(s, e), a.limits.Concurrent, held)
	}
}

// span describes the minute that ends with an event.
func (a *simAccount) span(s *simulation, e simEvent) string {
	local := 0
	for _, c := range a.minute {
		if c.local {
			local++
		}
	}
	at := e.at.Sub(s.begin)
	return fmt.Sprintf("account %s, from %v to %v (%d calls admitted, %d of them on shares)", a.id, (at - time.Minute).Round(time.Millisecond), at.Round(time.Millisecond), len(a.minute), local)
}

// summary says what was simulated.
func (s *simulation) summary() string {
	return fmt.Sprintf("simulated %d nodes for %v, seed %d: %d calls, %d admitted (%d on shares), %d refused; %d partitions, Redis went away %d times (%d of them lost its data), nodes: %d killed, %d stopped, %d started; worst 60 seconds %.2f of a limit, %.2f while all nodes reach Redis; exact again after %v at most",
		s.simOptions.nodes, s.took.Round(time.Second), s.seed, s.calls, s.admitted, s.local, s.refused, s.partitions, s.redisCrashes, s.losses, s.nodeCrashes, s.nodeStops, s.nodeStarts, s.worst, s.worstCalm, s.longest.Round(time.Millisecond))
}
