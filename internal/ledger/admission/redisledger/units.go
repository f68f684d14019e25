package redisledger

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
)

const (
	// mostUnits is the largest amount that a script gets; doubles hold its sums exactly.
	mostUnits = 1 << 51
	// mostUnproven is the number of settlements that are remembered for a total until Redis knows it.
	mostUnproven = 1000
	// askAgain is the time after which an account is introduced to Redis again if that has failed.
	askAgain = 2 * time.Second
	// keepUnits is how long the totals of a month are kept after it is over.
	keepUnits = 7 * 24 * time.Hour
	// keepTally is how long a node remembers an account that makes no calls here. It is far longer than anything is
	// on its way to Redis.
	keepTally = 10 * time.Minute
	// unitShards is the number of locks over all accounts. A sweep visits one shard per step, so
	// all are visited once in 32 beats.
	unitShards = 32

	// addEvery is the least time between two additions to the same account by a busy node that is far from the
	// budget, and farther is how many times farther than where it would wait: of what is left, 64 nodes then
	// hold back less than a hundredth.
	addEvery = 5 * time.Millisecond
	farther  = 100
)

// Units is the abuse.Counter of the nodes that share a Redis: the totals of each account and month are in one
// hash, see scripts/units.lua.
//
// An addition is queued and goes with the ends of calls. When it may be the one that reaches the budget, Add
// sends it at once and waits for the reply, at most for the deadline of the ledger. To know when, each reply to
// Take says how much has been added to the account's totals in all: what has been added since this node last
// read a total is the most that it can have missed. A node that adds to an account many times in a few
// milliseconds, and is far from the budget, does it once.
//
// A node tells how much it has added in its life, not the difference. So it can repeat what was lost, and after
// an outage Redis gets what the node has counted meanwhile, once. Also once if another node has told Redis
// meanwhile what the store knows, which includes it.
//
// In one life, what a node reports of a total never falls: Redis would take less for something that it has counted. So
// a tally that is forgotten takes its life with it. The tallies that are made later have a life that no forgotten one
// had, and Redis adds what they tell to what it has. A tally is forgotten when Redis has counted everything in it, and
// nobody waits for it. What Redis then loses with its data is in the store, as after a restart of the node.
type Units struct {
	l     *Ledger
	hear  abuse.Listener // nil: nobody counts units
	swept atomic.Uint32  // counts sweeps; each is of the next shard
	// resting has a value when there are additions that wait for their pause to end.
	resting chan struct{}
	seed    maphash.Seed
	shards  [unitShards]unitShard
}

// unitShard holds the tallies of some accounts. Its mutex guards them all, and is never held while
// Redis is asked. The listener is called with it held in some places, so a listener must not call
// back into Units.
type unitShard struct {
	mu       sync.Mutex
	life     string // of new tallies; tells this process from an earlier one of the same node
	accounts map[string]*tally
	owing    map[string]bool // accounts with additions that were lost, or made while Redis was away
	pausing  []string        // accounts with additions that wait for their pause to end
}

// tally is what this node knows about the units of an account in a month.
//
// In the usual course made is not 0: the hash of the month is known, and additions are sent to it.
// After the hash was lost, or before the first reply, additions are unproven until the store was
// read; see proven.
type tally struct {
	month  time.Time
	made   int64         // identifies the hash in Redis; 0: not known
	lost   bool          // this node has added to a hash that is no longer there
	seen   int64         // u of the hash as last heard; 0: never
	seenAt time.Duration // when that was
	asked  time.Duration // when it was last asked to be introduced to Redis
	told   chan struct{} // closed and replaced when something becomes of additions; nil: nobody waits
	queued bool          // an operation is in the queue
	paused bool          // it is in pausing
	sentAt time.Duration // when additions were last sent
	raised time.Duration // when Redis was last told what the store knows
	keys   []string      // in Redis, of the month
	life   string        // under which Redis counts what this node adds
	totals []total
}

// total is one of the account's totals.
//
// The counters only grow, in the order settled ≥ all ≥ sent ≥ arrived, except that unproven
// additions are in settled alone. All amounts are in thousandths of a unit.
type total struct {
	plan, tier account.Plan
	name       string // in Redis
	budget     account.Limit
	settled    int64 // what Add was told in this life
	told       int64 // of that, what the listener has been told about
	all        int64 // of that, what Redis is to count as added by this node
	sent       int64 // of that, what is on its way or has arrived
	arrived    int64 // of that, what Redis has counted
	units, at  int64 // the total as last read, and u at that time; at 0: never
	unsure     bool  // something may have been added without a reply
	// unproven are additions from before this node knew that there is a hash, which are not in all. The store may
	// have counted them before the hash was made from it.
	unproven []usage.Settlement
}

// init prepares the units of a ledger. Nothing is counted before Listen.
func (u *Units) init(l *Ledger) {
	u.l = l
	u.resting, u.seed = make(chan struct{}, 1), maphash.MakeSeed()
	for i := range u.shards {
		u.shards[i] = unitShard{life: newLife(), accounts: map[string]*tally{}, owing: map[string]bool{}}
	}
}

// newLife returns the name of a life. All names have the same length.
func newLife() string { return strings.ToLower(rand.Text())[:8] }

// Listen implements abuse.Counter.
func (u *Units) Listen(l abuse.Listener) { u.hear = l }

// Exact implements abuse.Counter.
func (u *Units) Exact() bool { return u.l.state.exact() }

// shard returns the shard that holds an account. The seed differs in each process, so callers
// cannot choose account ids that meet in one shard.
func (u *Units) shard(accountID string) *unitShard {
	return &u.shards[maphash.String(u.seed, accountID)%unitShards]
}

// of returns what is known about an account. The caller holds the lock.
func (s *unitShard) of(accountID string) *tally {
	t := s.accounts[accountID]
	if t == nil {
		t = &tally{life: s.life}
		s.accounts[accountID] = t
	}
	return t
}

// sweep forgets the tallies that nobody has used for a while, in the next of the shards.
// If any was forgotten, the shard begins a new life: see Units.
func (u *Units) sweep(now time.Duration) {
	sh := &u.shards[u.swept.Add(1)%unitShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	before := len(sh.accounts)
	for id, y := range sh.accounts {
		if now-max(y.seenAt, y.asked, y.sentAt, y.raised) >= keepTally && !sh.owing[id] && y.idle() {
			delete(sh.accounts, id)
		}
	}
	if len(sh.accounts) < before {
		sh.life = newLife()
	}
}

// idle reports whether Redis has counted all of it, and nobody waits for it.
func (t *tally) idle() bool {
	if t.lost || t.queued || t.paused || t.told != nil || t.unproven() {
		return false
	}
	for i := range t.totals {
		if x := &t.totals[i]; x.unsure || x.arrived < max(x.all, x.sent) || x.told < x.settled {
			return false
		}
	}
	return true
}

// turn begins a new month. What was on its way to the old one and gets lost is in the store. The caller holds
// the lock.
func (t *tally) turn(month time.Time) {
	if month.After(t.month) {
		*t = tally{month: month, seen: t.seen, seenAt: t.seenAt, told: t.told, queued: t.queued, paused: t.paused, life: t.life}
	}
}

// Back implements abuse.Counter. What this node knows of later months is forgotten: the clock was wrong. A new life
// begins, because Redis remembers how much this one has added to each month, and this node no longer does.
func (u *Units) Back(month time.Time) {
	life := newLife()
	for i := range u.shards {
		sh := &u.shards[i]
		sh.mu.Lock()
		for _, y := range sh.accounts {
			if y.month.After(month) {
				y.tell() // they wait for a month that has not come
				*y = tally{month: month, queued: y.queued, paused: y.paused, life: life}
			}
		}
		sh.mu.Unlock()
	}
}

// total returns the total of a plan and a tier, and adds it if it is new. An account has one or
// two of them, so a list is faster than a map. The pointer is valid until the next call. The
// caller holds the lock.
func (t *tally) total(plan, tier account.Plan) *total {
	for i := range t.totals {
		if x := &t.totals[i]; x.plan == plan && x.tier == tier {
			return x
		}
	}
	t.totals = append(t.totals, total{plan: plan, tier: tier, name: totalName(plan, tier), budget: account.Unlimited})
	return &t.totals[len(t.totals)-1]
}

// totalName is the field of a total in the hash of the month.
func totalName(plan, tier account.Plan) string { return plan.String() + "." + tier.String() }

// proven reports whether no addition that Redis has not counted can be part of what the hash was made from: the
// hash was there before them. The number u is the time at which the hash was made and more, so it also tells the
// month.
func (t *tally) proven() bool {
	return t.made != 0 || !t.lost && t.seen >= t.month.UnixMicro() && !t.unproven()
}

// unproven reports whether there are additions that the store may or may not have counted. The
// caller holds the lock.
func (t *tally) unproven() bool {
	for i := range t.totals {
		if len(t.totals[i].unproven) > 0 {
			return true
		}
	}
	return false
}

// near reports whether the last addition to a total may reach the budget.
func (t *tally) near(x *total, now time.Duration) bool {
	if x.budget == account.Unlimited {
		return false
	}
	if x.at == 0 || t.seen < x.at {
		return true // nobody knows
	}
	return abuse.Near(x.units+t.seen-x.at, x.settled-x.told, x.budget, now-t.seenAt)
}

// far reports whether the last addition to a total can wait for a moment.
func (t *tally) far(x *total, now time.Duration) bool {
	if now-t.sentAt >= addEvery {
		return false
	}
	return x.budget == account.Unlimited || x.at != 0 && t.seen >= x.at &&
		!abuse.Near(x.units+t.seen-x.at, min(mostUnits, (x.settled-x.told)*farther), x.budget, now-t.seenAt)
}

// saw notes what a reply says about the account's units.
func (u *Units) saw(accountID string, r reply) {
	if u.hear == nil {
		return
	}
	if r.units > 0 {
		s := u.shard(accountID)
		s.mu.Lock()
		s.of(accountID).hears(r.units, u.l.clock.now())
		s.mu.Unlock()
	}
	if r.epoch < 0 {
		u.hear.Marked(accountID, time.UnixMicro(-r.epoch))
	}
}

// hears notes a value of u. Replies may overtake each other. The caller holds the lock.
func (t *tally) hears(seen int64, now time.Duration) {
	if seen >= t.seen {
		t.seen, t.seenAt = seen, now
	}
}

// Add implements abuse.Counter.
//
// Everything is decided under the lock of the shard; asking, queueing and waiting happen after it
// was released.
func (u *Units) Add(t abuse.Total, s *usage.Settlement, budget account.Limit) {
	sh, now := u.shard(t.AccountID), u.l.clock.now()
	sh.mu.Lock()
	y := sh.of(t.AccountID)
	if y.turn(t.Month); t.Month.Before(y.month) {
		sh.mu.Unlock()
		return // the store has it
	}
	x := y.total(t.Plan, t.Tier)
	x.budget = budget
	proven := y.proven()
	if !x.settle(s, proven) {
		u.hear.Missed(t, s.UnitMilli)
		sh.mu.Unlock()
		return
	}
	// The number up to which the listener must have been told before this addition is settled for
	// the caller.
	mine := x.settled
	ask := !proven && (y.asked == 0 || now-y.asked >= askAgain)
	if ask {
		y.asked = now
	}
	// An account that could not be introduced is tried again soon. Until then no call waits for it.
	if !u.Exact() || !proven && now-y.asked >= u.l.opts.Deadline {
		u.missed(sh, t.AccountID, y)
		sh.mu.Unlock()
		return
	}
	wait := y.near(x, now)
	queue := proven && !y.queued
	if queue && !wait && y.far(x, now) {
		queue = false
		u.rest(sh, t.AccountID, y)
	}
	y.queued = y.queued || queue
	sh.mu.Unlock()
	if ask {
		u.hear.Unknown(t.AccountID, false)
	}
	if queue {
		u.l.put(t.AccountID, op{units: true})
	}
	if wait {
		u.wait(t, mine)
	}
}

// settle notes an addition. It reports false if there are so many that are not proven that this one is left to
// the store.
func (x *total) settle(s *usage.Settlement, proven bool) bool {
	units := min(mostUnits-x.settled, s.UnitMilli)
	switch {
	case proven:
		x.all += units
	case len(x.unproven) >= mostUnproven:
		return false
	default:
		x.unproven = append(x.unproven, usage.Settlement{ID: s.ID, At: s.At, UnitMilli: units, AccountID: s.AccountID})
	}
	x.settled += units
	return true
}

// rest lets additions to an account wait for others. The caller holds the lock.
func (u *Units) rest(sh *unitShard, accountID string, y *tally) {
	if y.paused {
		return
	}
	y.paused = true
	sh.pausing = append(sh.pausing, accountID)
	pace.Wake(u.resting)
}

// rested queues the additions that have waited.
// An account whose additions were sent meanwhile for another reason has nothing unsent and is
// skipped.
func (u *Units) rested() {
	for i := range u.shards {
		sh := &u.shards[i]
		sh.mu.Lock()
		var queue []string
		for _, id := range sh.pausing {
			y := sh.of(id)
			y.paused = false
			if !y.queued && y.unsent() {
				y.queued = true
				queue = append(queue, id)
			}
		}
		sh.pausing = sh.pausing[:0]
		sh.mu.Unlock()
		for _, id := range queue {
			u.l.put(id, op{units: true})
		}
	}
	u.l.queue.nudge()
}

// unsent reports whether there are additions that are not on their way to Redis. The caller holds
// the lock.
func (t *tally) unsent() bool {
	for i := range t.totals {
		if t.totals[i].sent < t.totals[i].all {
			return true
		}
	}
	return false
}

// wait sends what is queued for the account and waits until the listener has been told about an addition. If
// that takes longer than the deadline, the listener is told that it was missed.
// It loops because a reply may be about earlier additions only.
func (u *Units) wait(t abuse.Total, mine int64) {
	late := time.NewTimer(u.l.opts.Deadline)
	defer late.Stop()
	for {
		u.l.flushAccount(t.AccountID)
		told, done := u.told(t, mine)
		if done {
			return
		}
		select {
		case <-told:
		case <-late.C:
			u.lost(t.AccountID)
			return
		}
	}
}

// told reports whether the listener has been told about an addition, and returns a channel that is closed when
// it is told something.
func (u *Units) told(t abuse.Total, mine int64) (<-chan struct{}, bool) {
	sh := u.shard(t.AccountID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	y := sh.of(t.AccountID)
	if !y.month.Equal(t.Month) || y.total(t.Plan, t.Tier).told >= mine {
		return nil, true
	}
	if y.told == nil {
		y.told = make(chan struct{})
	}
	return y.told, false
}

// tell wakes those who wait. The caller holds the lock.
func (t *tally) tell() {
	if t.told != nil {
		close(t.told)
		t.told = nil
	}
}

// lost tells the listener that additions of an account were missed. They are sent again later.
func (u *Units) lost(accountID string) {
	if u.hear == nil {
		return
	}
	sh := u.shard(accountID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	u.missed(sh, accountID, sh.of(accountID))
}

// missed is lost; the caller holds the lock.
// Every total becomes unsure, because a batch that was lost may have reached Redis with any of
// them.
func (u *Units) missed(sh *unitShard, accountID string, y *tally) {
	for i := range y.totals {
		x := &y.totals[i]
		x.unsure = true
		if n := x.settled - x.told; n > 0 {
			x.told = x.settled
			u.hear.Missed(abuse.Total{AccountID: accountID, Plan: x.plan, Tier: x.tier, Month: y.month}, n)
		}
	}
	sh.owing[accountID] = true
	y.queued = false
	y.tell()
}

// resend queues what was missed.
// Accounts whose additions are not proven are introduced again first: the listener reads the store
// and calls Raise.
func (u *Units) resend() {
	if u.hear == nil {
		return
	}
	for i := range u.shards {
		sh := &u.shards[i]
		sh.mu.Lock()
		owing := sh.owing
		sh.owing = map[string]bool{}
		var queue, ask []string
		for id := range owing {
			y := sh.of(id)
			if !y.proven() || y.unproven() {
				ask = append(ask, id)
				y.asked = u.l.clock.now()
			}
			if y.proven() && !y.queued {
				y.queued = true
				queue = append(queue, id)
			}
		}
		sh.mu.Unlock()
		for _, id := range queue {
			u.l.put(id, op{units: true})
		}
		for _, id := range ask {
			u.hear.Unknown(id, false)
		}
	}
}

// errand returns the errand that adds what this node has counted for an account.
// It carries the sum of this life, not what is new, and so may be sent any number of times.
func (u *Units) errand(accountID string) *errand {
	sh := u.shard(accountID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	y := sh.of(accountID)
	y.queued, y.sentAt = false, u.l.clock.now()
	if y.keys == nil {
		y.keys = u.keys(accountID, y.month)
	}
	e := u.begin(accountID, y.month, y.keys, y.made, false).of(y)
	for i := range y.totals {
		if x := &y.totals[i]; x.all > 0 && (x.arrived < x.all || x.unsure) {
			x.sent = x.all
			e.add(x, x.all, 0, x.unsure, -1, -1, "")
		}
	}
	return e
}

// Read implements abuse.Counter.
// It asks for every combination of plan and tier, because an account may have changed its plan
// within the month. The errand must not be heard: it is about totals that no tally holds.
func (u *Units) Read(ctx context.Context, accountID string, month time.Time) ([]abuse.Reading, bool, error) {
	e := u.begin(accountID, month, u.keys(accountID, month), anyHash, false)
	for plan := account.None; plan <= account.Scale; plan++ {
		for tier := account.Free; tier <= account.Premium; tier++ {
			e.add(&total{plan: plan, tier: tier, name: totalName(plan, tier), budget: account.Unlimited}, 0, 0, false, -1, -1, "")
		}
	}
	o := e.order()
	o.errand = nil
	ctx, cancel := context.WithTimeout(ctx, u.l.opts.Deadline)
	defer cancel()
	if !u.Exact() {
		return nil, false, errApproximate
	}
	results, err := u.l.send(ctx, []order{o})
	if err != nil {
		return nil, false, err
	}
	out, err := e.read(results[0])
	if err != nil || !out.ok {
		return nil, false, err
	}
	readings := make([]abuse.Reading, 0, len(e.about))
	for i, n := range e.about {
		readings = append(readings, abuse.Reading{Plan: n.plan, Tier: n.tier, Units: numberAt(out.totals, 4*i+1), LastDay: numberAt(out.totals, 4*i+2)})
	}
	return readings, true, nil
}

// Unproven implements abuse.Counter.
func (u *Units) Unproven(accounts []string) (all []usage.Settlement) {
	for _, id := range accounts {
		sh := u.shard(id)
		sh.mu.Lock()
		for i := range sh.of(id).totals {
			all = append(all, sh.of(id).totals[i].unproven...)
		}
		sh.mu.Unlock()
	}
	return all
}

// Raise implements abuse.Counter.
// Raising is idempotent: Redis takes the larger of what it has and what the store knows.
func (u *Units) Raise(ctx context.Context, k abuse.Known) error {
	if !u.Exact() {
		return errApproximate
	}
	orders := make([]order, 0, len(k.Accounts))
	for _, id := range k.Accounts {
		orders = append(orders, u.raiseOrder(id, &k))
	}
	if _, err := u.l.sendAll(ctx, orders); err != nil {
		u.l.state.failed(err)
		return err
	}
	return nil
}
