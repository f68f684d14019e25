package redisledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
)

// errFault is what a node hears of a message that was lost.
var errFault = errors.New("no reply")

// faulty is a transport that loses messages, and brings some of them later.
type faulty struct {
	simDirect
	what string  // happens to all messages
	held []order // what has not arrived yet
}

// What happens to a message.
const (
	lostOnTheWay = "lost on the way"
	lostReply    = "its reply is lost"
	heldUp       = "it arrives after the node has given it up"
)

func (f *faulty) run(ctx context.Context, orders []order, answers []answer) {
	if f.what == "" || f.what == lostReply {
		f.simDirect.run(ctx, orders, answers)
	}
	if f.what == "" {
		return
	}
	for i := range answers {
		answers[i] = answer{err: errFault}
	}
	// What begins a count is not held up: of a sum that is out of date nothing can be given back.
	if f.what == heldUp && numberAt(orders[0].args[2], 0) != makeHash {
		f.held = append(f.held, orders...)
	}
}

// arrive brings one of the messages that were held up.
func (f *faulty) arrive(i int) {
	f.redis.run(f.held[i])
	f.held = append(f.held[:i], f.held[i+1:]...)
}

// quotaNode is a node that counts the units of one key.
type quotaNode struct {
	wire  *faulty
	l     *Ledger
	count *keyMonth
}

// quotaMonth is the month that the tests count.
var quotaMonth = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

func newQuotaNodes(t *testing.T, redis *simRedis, n int) (nodes []*quotaNode) {
	memory := &memo{}
	for i := range n {
		wire := &faulty{simDirect: simDirect{redis}}
		l := openSim(t, at(i, n), memory, nil, wire)
		nodes = append(nodes, &quotaNode{wire, l, l.keyMonth("key_1", quotaMonth)})
	}
	return nodes
}

// used returns what Redis has counted in a month.
func (n *quotaNode) used(t *testing.T, month time.Time) int64 {
	t.Helper()
	r, err := n.l.keyMonth("key_1", month).send(keyTold{all: -1, stored: -1}, "reader", newLife())
	if err != nil {
		t.Fatal(err)
	}
	return r.used
}

// try does something, of whose messages all have the same fate.
func (n *quotaNode) try(what string, f func()) {
	n.wire.what = what
	f()
	n.wire.what = ""
	n.l.state.close() // a node that has given up some messages would go by its shares
}

// held is a reservation of a call or a job.
type held struct {
	node        int
	units, made int64
	job         bool
}

// Whatever becomes of messages, every unit counts once: reserved, given back, used beyond what was reserved, and returned
// by a job that failed. In calm times exactly what fits is reserved. If Redis loses its data, this holds once all calls have ended and the database was read.
func TestQuotaCountsOnce(t *testing.T) {
	t.Parallel()
	rounds := 60
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds = 3000
	}
	seed := simSeed(t)
	for round := range rounds {
		if wrong := quotaRound(t, seed, round, breakScript(t, "")); wrong != "" {
			t.Fatalf("SLUICE_SEED=%d, round %d: %s", seed, round, wrong)
		}
	}
}

// Every mistake in the script is found.
func TestQuotaFindsBugs(t *testing.T) {
	t.Parallel()
	seed := simSeed(t)
	for _, bug := range [][2]string{
		{"math.max(0, all - counted)", "all"},
		{"math.max(0, back - returned)", "back"},
		{"if gone < given then", "if false then"},
		{"if late > 0 or stored >= 0 then", "if false then"},
		{"total, counted, ok = total + want, counted + want, 1", "total, ok = total + want, 1"},
		{"g ~= 0 and known > 0 and g ~= known", "false"},
	} {
		text := func(s *script) string { return strings.Replace(s.text, bug[0], bug[1], 1) }
		if text(quotaScript) == quotaScript.text {
			t.Errorf("the script does not have %q", bug[0])
		}
		found := false
		for round := 0; round < 300 && !found; round++ {
			found = quotaRound(t, seed, round, text) != ""
		}
		if !found {
			t.Errorf("SLUICE_SEED=%d: the test passes with %q in place of %q", seed, bug[1], bug[0])
		}
	}
}

// quotaRound lets three nodes make calls and jobs, and returns what is wrong in the end. One round in three is calm, and in
// another one Redis loses its data.
func quotaRound(t *testing.T, seed uint64, round int, text func(*script) string) (wrong string) {
	random := rand.New(rand.NewPCG(seed, uint64(round)))
	redis := newSimRedis(time.Now, text)
	defer redis.lua.Close()
	calm, loses := round%3 == 0, round%3 == 2
	nodes := newQuotaNodes(t, redis, 3)
	var stored, open int64 // what the database knows: calls that have ended, and jobs; and what is reserved by calls
	sum := func() (int64, error) { return stored, nil }
	fate := func() string {
		if calm {
			return ""
		}
		return []string{"", "", "", lostOnTheWay, lostReply, heldUp}[random.IntN(6)]
	}
	used := func() int64 { return nodes[0].used(t, quotaMonth) }
	for _, n := range nodes { // of a count that a node has never seen, its own reservations are no part
		if _, err := n.count.Raise(sum); err != nil {
			t.Fatal(err)
		}
	}
	const most = 40_000
	var all []held
	end := func(i int, fate string) {
		h := all[i]
		all = append(all[:i], all[i+1:]...)
		n := nodes[random.IntN(len(nodes))]
		if h.job { // any node may end it
			stored -= h.units
			n.try(fate, func() { n.count.Add(0, -h.units, -h.units) })
			return
		}
		n = nodes[h.node]
		cost := []int64{0, h.units / 2, h.units, h.units, h.units + 700}[random.IntN(5)]
		open, stored = open-h.units, stored+cost
		n.try(fate, func() { n.count.Add(h.made, cost-h.units, cost) })
	}
	for range 120 {
		i := random.IntN(len(nodes))
		n := nodes[i]
		switch k := random.IntN(20); {
		case k < 9:
			h := held{node: i, units: 1 + random.Int64N(3000), job: random.IntN(6) == 0}
			was := open + stored
			n.try(fate(), func() {
				_, made, ok, err := n.count.Reserve(most, h.units, sum)
				h.made = made
				if err != nil {
					ok = random.IntN(2) == 0 // the node goes by its share
					if ok {
						h.made = n.count.Hold(h.units)
					}
				}
				if calm && ok != (was+h.units <= most) {
					wrong = fmt.Sprintf("Reserve of %d, with %d of %d used, = %t, %v", h.units, was, most, ok, err)
				}
				if !ok {
					return
				}
				all = append(all, h)
				if h.job {
					stored += h.units
				} else {
					open += h.units
				}
			})
		case k < 15 && len(all) > 0:
			end(random.IntN(len(all)), fate())
		case k < 17:
			n.try(fate(), func() { _, _ = n.count.Raise(sum) })
		case k < 19 && len(n.wire.held) > 0:
			n.wire.arrive(random.IntN(len(n.wire.held)))
		case k == 19 && loses:
			redis.lose()
		}
	}
	if loses {
		for len(all) > 0 {
			end(0, "")
		}
	}
	for range 2 { // the first may find what the second gives back
		for _, n := range nodes {
			if _, err := n.count.Raise(sum); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := used(); got != stored+open {
		return fmt.Sprintf("%d thousandths are counted, want %d of the database and %d of running calls", got, stored, open)
	}
	for i, n := range nodes {
		if !n.count.Idle() {
			wrong = fmt.Sprintf("node %d has something to tell", i)
		}
		for len(n.wire.held) > 0 {
			n.wire.arrive(0)
		}
	}
	if loses { // what is raised for a node that has forgotten it is taken for what a late message adds
		if _, err := nodes[0].count.Raise(sum); err != nil {
			t.Fatal(err)
		}
	}
	if got := used(); got != stored+open {
		return fmt.Sprintf("%d thousandths are counted after messages of before have arrived, want %d", got, stored+open)
	}
	return wrong
}

// A reservation that arrives late, after its call has ended and the database was read, counts once.
func TestQuotaRaisedBeforeItArrives(t *testing.T) {
	t.Parallel()
	nodes, stored := newQuotaNodes(t, newSimRedis(time.Now, breakScript(t, "")), 2), int64(0)
	sum := func() (int64, error) { return stored, nil }
	raise := func(n *quotaNode) {
		t.Helper()
		if _, err := n.count.Raise(sum); err != nil {
			t.Fatal(err)
		}
	}
	raise(nodes[0])
	raise(nodes[1])
	n := nodes[0]
	n.try(heldUp, func() { _, _, _, _ = n.count.Reserve(10_000, 3000, sum) })
	made := n.count.Hold(3000)
	stored = 3000
	n.count.Add(made, 0, 3000)
	raise(nodes[1])
	n.wire.arrive(0)
	raise(n)
	if got := n.used(t, quotaMonth); got != 3000 {
		t.Errorf("%d thousandths are counted, want 3000", got)
	}
}

// gate returns a function that makes calls on the node with a key that has 10 units a month. It returns nil if one is
// refused.
func (n *quotaNode) gate(stored *int64, opts admission.QuotaOptions) func(units int64) *admission.Lease {
	limit := account.Limit(10)
	a := &account.Account{ID: "acct_1", Plan: account.Scale, Keys: []account.Key{{ID: "key_1", Name: "k", Limits: &account.KeyLimits{UnitsPerMonth: &limit}}}}
	opts.Shared = n.l
	g := admission.New(n.l, noBooks{}, nil)
	g.CountUnits(admission.NewQuota(func(context.Context, string, string, time.Time) (int64, error) { return *stored, nil }, &opts))
	return func(units int64) *admission.Lease {
		lease, _, _ := g.Admit(&admission.Demand{
			Caller: auth.Caller{Account: a, KeyID: "key_1", Limits: a.Keys[0].Limits}, Limits: anyLimits,
			Model: admission.Model{ID: "m", RequestMilli: 1000, UnitMilli: units * 1000}, PromptTokens: 1, MaxTokens: 1,
		})
		return lease
	}
}

type noBooks struct{}

func (noBooks) Ready() error            { return nil }
func (noBooks) Record(usage.Settlement) {}

// end settles a call that cost some units.
func end(l *admission.Lease, units int64) { l.Settle(usage.Settlement{UnitMilli: units * 1000}) }

// Calls reserve of one count, on whatever node. While it is away, each node assumes that the other uses as much.
func TestQuotaOverNodes(t *testing.T) {
	t.Parallel()
	redis := newSimRedis(time.Now, breakScript(t, ""))
	nodes, stored := newQuotaNodes(t, redis, 2), int64(2000)
	opts := admission.QuotaOptions{Nodes: func() int { return 2 }, Now: func() time.Time { return quotaMonth }}
	one, two := nodes[0].gate(&stored, opts), nodes[1].gate(&stored, opts)
	left := func(want int, when string) {
		t.Helper()
		var all []*admission.Lease
		for l := two(1); l != nil; l = two(1) {
			all = append(all, l)
		}
		for _, l := range all {
			l.Release()
		}
		if len(all) != want {
			t.Errorf("%s: %d units are left, want %d", when, len(all), want)
		}
	}
	first := one(3)
	left(5, "with a call on the other node")
	end(first, 1)
	left(7, "after it has ended")

	running := one(1)
	n := 0
	for i, call := range []func(int64) *admission.Lease{one, two} {
		nodes[i].wire.what = lostOnTheWay
		for call(1) != nil {
			n++
		}
	}
	if n > 10 || n < 4 {
		t.Errorf("%d units were admitted while the count was away, want 4 to 10", n)
	}
	for i, call := range []func(int64) *admission.Lease{one, two} {
		nodes[i].try("", func() {}) // Redis is back
		call(0)
	}
	left(max(0, 10-3-1-n), fmt.Sprintf("after both have told of %d calls", n))

	// It loses its data: the database and what ends make a new one.
	redis.lose()
	stored = 5000
	if two(0) == nil {
		t.Error("no call passes after the count was lost")
	}
	end(running, 2)
	left(3, "after the count was lost and a call of the old one has ended")
	// The usual end of a call, which cost what it reserved, needs no word to the count.
	last := two(1)
	nodes[1].try(lostOnTheWay, func() { end(last, 1) })
	left(2, "after a call that cost what it reserved")
}

// A call counts for the month in which it begins, and a clock that is set back finds the count that it left.
func TestQuotaOfTheNextMonth(t *testing.T) {
	t.Parallel()
	n, stored := newQuotaNodes(t, newSimRedis(time.Now, breakScript(t, "")), 1)[0], int64(0)
	now, june := quotaMonth.AddDate(0, 1, 0).Add(-time.Second), quotaMonth.AddDate(0, 1, 0)
	call := n.gate(&stored, admission.QuotaOptions{Now: func() time.Time { return now }})
	check := func(when string, inMay, inJune int64) {
		t.Helper()
		if may, june := n.used(t, quotaMonth), n.used(t, june); may != inMay || june != inJune {
			t.Errorf("%s: %d thousandths in May and %d in June, want %d and %d", when, may, june, inMay, inJune)
		}
	}
	running := call(3)
	now = now.Add(time.Second)
	end(call(1), 1)
	end(running, 5)
	check("after the end of a call that began in May", 5000, 1000)
	for range 3 { // calls of the last and the first second
		now = now.Add(-time.Second)
		end(call(1), 0)
		now = now.Add(time.Second)
		end(call(1), 2)
	}
	check("after some calls in both", 5000, 7000)
}

// What an earlier version has counted this month counts.
func TestQuotaOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	redis := newSimRedis(time.Now, breakScript(t, ""))
	n := newQuotaNodes(t, redis, 1)[0]
	redis.set([]string{"sluice:{key_1}:units:2026-05", string(appendNumber(appendNumber(nil, 7000), 1))})
	reserve := func(units int64) bool {
		_, _, ok, err := n.count.Reserve(10_000, units, func() (int64, error) { return 5000, nil })
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if reserve(3001) || !reserve(3000) || reserve(1) {
		t.Error("want 3 of 10 units left after 7 that an earlier version has counted")
	}
}

// A count that the node no longer keeps takes what its calls cost in the end, once, and the next one begins where it ended.
func TestQuotaRetired(t *testing.T) {
	t.Parallel()
	redis := newSimRedis(time.Now, breakScript(t, ""))
	n := newQuotaNodes(t, redis, 1)[0]
	stored := int64(0)
	sum := func() (int64, error) { return stored, nil }
	reserve := func(c *keyMonth, units, want int64) (made int64) {
		t.Helper()
		used, made, _, err := c.Reserve(100_000, units, sum)
		if err != nil || used != want {
			t.Errorf("Reserve = %d, %v, want %d used", used, err, want)
		}
		return made
	}
	old := n.count
	made := reserve(old, 5000, 5000)
	old.Retire()
	next := n.l.keyMonth("key_1", quotaMonth)
	reserve(next, 1000, 6000)
	for _, cost := range []int64{4000, 7000} {
		if _, ok := old.Add(made, cost-5000, cost); !ok {
			t.Errorf("Add of %d does not know what is used", cost-5000)
		}
	}
	reserve(next, 1000, 8000) // 1000 less, 2000 more
	n.l.Correct("key_1", quotaMonth, -3000)
	reserve(next, 0, 5000)

	redis.lose()
	stored = 1000
	reserve(next, 1000, 2000)
	if _, ok := old.Add(made, -1000, 4000); !ok {
		t.Error("Add to another count does not know what is used")
	}
	reserve(next, 0, 6000) // all that the call cost
	redis.lose()
	if n.l.Correct("key_2", quotaMonth, -3000); len(redis.keys) != 0 {
		t.Errorf("a correction has begun a count: %v", redis.keys)
	}
}
