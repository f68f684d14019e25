// Package redisledger is the ledger that several nodes share: an admission.Ledger on Redis 7, Valkey or
// Redis Cluster. It is for installations in which any number of nodes stand behind a load balancer and an
// account's limits hold over all of them.
//
// A script in Redis does what the ledger in memory does, with the same entries and the same arithmetic, and
// one round trip admits a call. Slots are leases: a node renews those of its running calls, so the slots of
// a node that died come free by themselves. What ends calls (Free, GiveBack) is queued and sent in batches;
// it never delays a reply.
//
// While Redis does not answer, a node admits calls on its own share of each limit. The shares of all nodes
// add up to the limit, so all nodes together never admit more than twice the allowance in a minute: what
// Redis had admitted before, and the shares. Members knows who the nodes are; this package does not. When Redis
// answers again, the node writes what it admitted and what is still running to Redis, and continues there. State
// says which of the two it is.
//
// Which facts an epoch stands for, and reading them again, is not done here; see admission.Headroom.
//
// Start reading with Ledger.Take and Ledger.Free, which are the beginning and the end of a call;
// then state, which decides between Redis and the node's own shares; then Ledger.step, which moves
// a node from one to the other. The files: ledger.go has the calls, queue.go the ends of calls on
// their way to Redis, local.go what happens without Redis, run.go the work in the background,
// trips.go how calls that come together travel together, table.go how lost data is recognized, units.go and
// errand.go the monthly units of accounts, and quota.go those of keys.
//
// One rule decides every case of doubt: a limit may be too strict for a minute, but never too lax.
// So what would be given back is dropped when a reply is lost, and what was consumed is sent
// again.
package redisledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"sluice/internal/account"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/admission"
)

const (
	// span is the length of every window in milliseconds (docs/api.md#windows).
	span = 60_000
	// localSlot marks the slot of a call that this node admitted on its own.
	localSlot = 1 << 63
	// tolerated is the number of failures in a row after which a node stops asking Redis for each call. One
	// lost reply is not an outage.
	tolerated = 3
	// keepEpoch is how long Redis remembers an epoch. Nodes follow changes by other means as well; they need
	// this one for the seconds after a change.
	keepEpoch = 7 * 24 * time.Hour
)

// Options are optional. The zero value of a field means its default.
type Options struct {
	// Prefix is the beginning of every key. Default: "sluice:".
	Prefix string
	// Deadline is how long a call waits for Redis before it continues without, and half as long again if it had to wait for
	// the trip before its own. Default: 250 ms.
	Deadline time.Duration
	// Lease is how long a slot outlives a node that has died. Default: 15 s.
	Lease time.Duration
	// Beat is the time between two looks at the data in Redis, and Probe between two attempts to return to it.
	// Defaults: 2 s and 1 s.
	Beat, Probe time.Duration
	// Log gets a line when the state changes. Default: no log.
	Log *slog.Logger
	// Now is the clock of the whole ledger, scripts included, for tests. Default: the clock of Redis.
	Now func() time.Duration
}

// defaults returns a copy of the options with every default filled in. o may be nil.
func (o *Options) defaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Prefix == "" {
		d.Prefix = "sluice:"
	}
	// The durations differ in nothing but their default.
	for _, v := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&d.Deadline, 250 * time.Millisecond},
		{&d.Lease, 15 * time.Second},
		{&d.Beat, 2 * time.Second},
		{&d.Probe, time.Second},
	} {
		if *v.value == 0 {
			*v.value = v.standard
		}
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return d
}

// Ledger is one node's view of the ledger. It is safe for concurrent use. Run must be running while calls
// are admitted.
type Ledger struct {
	// opts never changes after newLedger; every default is filled in.
	opts    Options
	members Members // nil for a process that is no node
	node    string  // names this node
	life    string  // the beginning of slot ids: this node, in this life
	link    link
	// local sees every call of this node: those that it admitted on its own with their cost, and those that
	// Redis admitted with none. So it knows what is running here, whoever admitted it.
	local *admission.Memory
	clock clock
	// calls has each running call of this node by its slot, and debts what must still be told to
	// Redis. Both have locks of their own, which are never held during a round trip.
	calls calls
	queue queue
	debts debts
	table table
	state state
	units Units
	slots atomic.Uint64 // the last number given to a slot

	beating chan struct{} // has a value during a beat
}

// Open returns a ledger on the Redis that the URL names: redis://user:password@host:port/db, or rediss for
// TLS. Of a cluster it names one node, and others in addr parameters. A Redis that does not answer within
// the deadline is no error: the ledger begins without and keeps trying while Run runs. A memory that does not
// answer is one: without it, a Redis that has lost its data could not be told from a new one. opts may be nil.
func Open(ctx context.Context, url string, members Members, memory Memory, opts *Options) (*Ledger, error) {
	option, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return openWith(ctx, members, memory, opts, func(deadline time.Duration, dialed func()) func() (transport, error) {
		return dialer(option, deadline, dialed)
	})
}

// openWith returns a ledger on what dial connects to.
func openWith(ctx context.Context, members Members, memory Memory, opts *Options, dial func(deadline time.Duration, dialed func()) func() (transport, error)) (*Ledger, error) {
	l := newLedger(members, opts)
	l.link.dial = dial(l.opts.Deadline, func() { l.link.dials.Add(1) })
	born, err := memory.LedgerTable(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which data is in Redis: %w", err)
	}
	l.table.memory, l.table.born, l.table.kept = memory, born, born
	l.step(ctx)
	return l, nil
}

// newLedger returns a ledger that cannot connect yet.
func newLedger(members Members, opts *Options) *Ledger {
	l := &Ledger{opts: opts.defaults(), members: members, beating: make(chan struct{}, 1)}
	if members != nil {
		l.node = members.ID()
	}
	l.table.list.Store(-1)
	l.life = l.node + "/" + newLife() + "/"
	l.clock.init(l.opts.Now)
	l.local = admission.NewMemory(l.clock.now)
	l.calls.init()
	l.queue.init()
	l.debts.byAccount = map[string]debt{}
	l.state.init(l.opts.Log)
	l.units.init(l)
	return l
}

// parseURL reads the address of Redis from the configuration.
func parseURL(url string) (rueidis.ClientOption, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		// The cause may quote the URL, and with it the password.
		return option, errors.New("the address of Redis must be a URL such as redis://host:6379/0 or rediss://user:password@host:6379/0")
	}
	return option, nil
}

// Close closes the connections. Run must have returned.
func (l *Ledger) Close() { l.link.close() }

// Take implements admission.Ledger.
//
// If Redis does not answer, the call is admitted or refused on this node's share of the limits; a
// caller never sees an outage of Redis as an error.
func (l *Ledger) Take(accountID string, limits account.Limits, c admission.Cost) (admission.Place, admission.Headroom, *admission.Obstacle) {
	slot := l.slots.Add(1)
	r, err := l.ask(accountID, l.takeOrder(accountID, limits, c, slot))
	if err != nil {
		if !errors.Is(err, errApproximate) {
			// Redis may have taken the slot and only the reply is missing. It need not wait for the lease to end.
			l.put(accountID, op{slot: slot})
		}
		return l.takeLocal(accountID, limits, c)
	}
	headroom := r.headroom(limits)
	if r.code != 0 {
		return admission.Place{}, headroom, r.obstacle(limits)
	}
	// With no limit and no cost, this counts the running call and nothing else.
	l.local.Take(accountID, account.Limits{RequestsPerMinute: account.Unlimited, Concurrent: account.Unlimited, TokensPerMinute: account.Unlimited}, admission.Cost{})
	l.calls.add(slot, running{account: accountID, since: l.clock.millis(), last: limits.Concurrent != account.Unlimited && r.used >= int64(limits.Concurrent)})
	p := admission.Place{Cost: c, Slot: slot}
	// An unlimited resource has no entry in the window, so nothing can be given back to it later.
	// Time 0 says so to Free and GiveBack.
	if limits.RequestsPerMinute != account.Unlimited {
		p.RequestsAt = r.at
	}
	if limits.TokensPerMinute != account.Unlimited {
		p.TokensAt = r.at
	}
	return p, headroom, nil
}

// Peek implements admission.Ledger.
func (l *Ledger) Peek(accountID string, limits account.Limits) admission.Headroom {
	r, err := l.ask(accountID, l.accountOrder(peekScript, accountID, 0, l.clock.number()))
	if err != nil {
		return admission.NewDivided(l.local, l.views).Peek(accountID, limits) // on this node's share
	}
	return r.headroom(limits)
}

// Free implements admission.Ledger. It waits for Redis only if the call had the last slot: a caller that has
// its reply may then make its next call on any node.
//
// A call of Free for a slot that is not known does nothing, so freeing twice is harmless.
func (l *Ledger) Free(accountID string, p admission.Place, used admission.Cost) {
	c, ok := l.calls.remove(p.Slot)
	if !ok {
		return // not a call of this process, or freed before
	}
	o := op{slot: p.Slot}
	// A call can cost less than it reserved, of requests and of tokens. It can cost more of tokens
	// alone: how long an answer gets is not known when the call is admitted.
	if unused := p.Cost.RequestMilli - used.RequestMilli; unused > 0 && p.RequestsAt != 0 {
		o.requestsAt, o.requests = p.RequestsAt, unused
	}
	if unused := p.Cost.Tokens - used.Tokens; unused != 0 && p.TokensAt != 0 {
		o.tokensAt, o.tokens = p.TokensAt, unused
	}
	if p.Slot&localSlot != 0 {
		l.freeLocal(accountID, c.place, used, &o)
	} else {
		l.local.Free(accountID, admission.Place{}, admission.Cost{})
		// Tokens beyond the reservation must not wait in the queue for an outage to end: this node
		// counts them on its share at once.
		if o.tokens < 0 && !l.state.exact() {
			l.owe(accountID, -o.tokens)
			o.tokens = 0
		}
	}
	l.put(accountID, o)
	if c.last && l.state.exact() && l.members.Live() > 1 {
		l.flushAccount(accountID)
	}
}

// GiveBack implements admission.Ledger. It does not wait for Redis.
func (l *Ledger) GiveBack(accountID string, p admission.Place, requestMilli int64) {
	if p.RequestsAt == 0 || requestMilli <= 0 {
		return
	}
	if p.Slot&localSlot != 0 {
		l.local.GiveBack(accountID, p, requestMilli)
		if !l.debts.posted(accountID, p.RequestsAt) {
			return // Redis does not know the entry yet, and is told without what was given back
		}
		p.RequestsAt = l.clock.shared(p.RequestsAt)
	}
	l.put(accountID, op{requestsAt: p.RequestsAt, requests: requestMilli})
}

// Units returns the units that the nodes count together.
func (l *Ledger) Units() *Units { return &l.units }

// Running returns the number of calls of this node that hold a slot.
func (l *Ledger) Running() int64 { return l.local.Running() }

// Revoke changes the epoch of an account, so that every node learns with its next Take or Peek that facts
// about the account have changed. Call it when the change can be read and before it is confirmed. It
// returns the new epoch. An error means that nodes must learn of the change in another way.
func (l *Ledger) Revoke(ctx context.Context, accountID string) (int64, error) {
	c := l.link.transport()
	if c == nil {
		return 0, errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, l.opts.Deadline)
	defer cancel()
	a := runOne(ctx, c, order{script: revokeScript, keys: l.epochKey(accountID), args: []string{itoa(keepEpoch.Milliseconds())}})
	if a.err != nil {
		return 0, a.err
	}
	return strconv.ParseInt(a.text, 10, 64)
}

// Revoke is Ledger.Revoke for a process that is no node, such as a command. It connects to the Redis that
// the URL names, and disconnects.
func Revoke(ctx context.Context, url, accountID string) error {
	return visit(url, func(l *Ledger) error {
		_, err := l.Revoke(ctx, accountID)
		return err
	})
}

// Revoker returns Revoke for a command that changes accounts. Log gets what fails: the change is made by then.
func Revoker(url string, log *slog.Logger) func(accountID string) {
	return func(accountID string) {
		if err := Revoke(context.Background(), url, accountID); err != nil {
			log.Warn("Redis could not be told that the account has changed; running servers see the change within two seconds", "error", err.Error())
		}
	}
}

// takeOrder returns the order that asks Redis for a place. Requests are counted in thousandths,
// and so is their limit here. account.Unlimited is negative and is passed on as it is.
func (l *Ledger) takeOrder(accountID string, limits account.Limits, c admission.Cost, slot uint64) order {
	requests := int64(limits.RequestsPerMinute)
	if requests > 0 {
		requests *= 1000
	}
	return l.accountOrder(
		takeScript, accountID, slot, l.clock.number(), requests, int64(limits.TokensPerMinute), int64(limits.Concurrent),
		c.RequestMilli, c.Tokens, l.opts.Lease.Milliseconds(),
	)
}

// runOne runs one script.
func runOne(ctx context.Context, c transport, o order) answer {
	var answers [1]answer
	c.run(ctx, []order{o}, answers[:])
	return answers[0]
}

// ask runs one script about an account and returns its reply. A node always sees its own ends: if calls of
// the account have ended here and Redis was being told while the script ran, a refusal, or a mere look, may
// be out of date and is repeated. The same goes for slots that calls on other nodes hold: they may have
// ended, and the end waits there for others to go with.
func (l *Ledger) ask(accountID string, o order) (reply, error) {
	r, others, err := l.askOnce(accountID, o)
	switch {
	case err != nil:
		return r, err
	case others != nil && (r.code != 0 || o.script == peekScript):
		l.await(others)
	case r.wants(admission.Slots) && l.members.Live() > 1:
		// Twice the time for which another node gathers the ends of its calls: what has ended
		// there by now has then been sent.
		_ = pace.Sleep(context.Background(), 2*gather)
		if r, _, err = l.askOnce(accountID, o); err != nil || !r.wants(admission.Slots) {
			return r, err
		}
		_ = pace.Sleep(context.Background(), 4*gather) // a busy machine takes longer
	default:
		return r, nil
	}
	r, _, err = l.askOnce(accountID, o)
	return r, err
}

// wants reports whether a resource is in the way that waiting may free.
func (r reply) wants(what admission.Resource) bool {
	return r.code == int64(what) && r.wait == 0
}

// askOnce runs the script. What waits in the queue for the account goes before it in the same round trip.
// Others is what was already on its way for the account, or nil.
func (l *Ledger) askOnce(accountID string, o order) (r reply, others *flight, err error) {
	if !l.state.exact() {
		return reply{}, nil, errApproximate
	}
	ctx := bounded{time.Now().Add(l.opts.Deadline)}
	// Whatever the account's last calls left behind comes first: the script then sees their slots
	// free.
	ops, others, done := l.queue.grab(accountID)
	defer done()
	orders := append(l.orders(make([]order, 0, len(ops)+1), accountID, ops), o)
	answers, err := l.send(ctx, orders)
	if err == nil {
		r, err = readReply(answers[len(answers)-1])
	}
	if err == nil && !l.state.exact() {
		// Somebody else has found out meanwhile that Redis is not to be trusted, and this may be why.
		err = errDistrusted
	}
	if err != nil {
		l.lost(accountID, ops)
		l.state.failed(err)
		return reply{}, nil, err
	}
	l.state.answered()
	l.units.saw(accountID, r)
	return r, others, nil
}

// send runs scripts. Behind a new connection there may be a Redis that has lost its data, and its replies
// are worth nothing until that has been checked.
func (l *Ledger) send(ctx context.Context, orders []order) ([]answer, error) {
	c := l.link.transport()
	if c == nil {
		return nil, errNotConnected
	}
	answers := make([]answer, len(orders))
	c.run(ctx, orders, answers)
	if l.link.suspect() {
		if err := l.verify(ctx); err != nil {
			return nil, err
		}
	}
	for i := range orders {
		if e := orders[i].errand; e != nil && l.units.hear != nil {
			e.heard(answers[i])
		}
	}
	return answers, nil
}

// await waits for operations that are on their way to Redis, at most for the deadline.
func (l *Ledger) await(f *flight) {
	timer := time.NewTimer(l.opts.Deadline)
	defer timer.Stop()
	select {
	case <-f.done:
	case <-timer.C:
	}
}

// headroom returns the meters that a reply says.
// Requests are in thousandths in Redis, which is why they have a unit of 1000. The sign of the
// epoch is a flag: negative means that the account was deactivated.
func (r reply) headroom(limits account.Limits) admission.Headroom {
	return admission.Headroom{
		Requests: admission.MeterOf(limits.RequestsPerMinute, r.requests, r.requestsReset, 1000),
		Tokens:   admission.MeterOf(limits.TokensPerMinute, r.tokens, r.tokensReset, 1),
		Epoch:    max(r.epoch, -r.epoch), Deactivated: r.epoch < 0,
	}
}

// obstacle returns the limit that a reply names.
// A negative wait means that waiting does not help: the call costs more than the whole limit.
func (r reply) obstacle(limits account.Limits) *admission.Obstacle {
	o := &admission.Obstacle{Resource: admission.Resource(r.code), Used: r.used, Never: r.wait < 0}
	if !o.Never {
		o.Wait = time.Duration(r.wait) * time.Millisecond
	}
	switch o.Resource {
	case admission.Requests:
		o.Limit = limits.RequestsPerMinute
	case admission.Tokens:
		o.Limit = limits.TokensPerMinute
	default:
		o.Limit = limits.Concurrent
	}
	return o
}
