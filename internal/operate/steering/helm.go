package steering

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"sluice/internal/account"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/upstream/catalog"
)

const (
	// lookEvery is how often a node asks whether others were given orders.
	lookEvery = time.Second
	// readPatience is how long a read may take; orders that are known stay in force meanwhile.
	readPatience = 5 * time.Second
	// keepEnded is how long an order that has ended by itself stays in the list.
	keepEnded = 24 * time.Hour
	// soonest is the Retry-After of a maintenance without an end, and the longest one: docs/api.md#status-codes.
	soonest = time.Minute
)

// Store keeps orders and the audit log.
type Store interface {
	// Orders returns all orders, oldest first, and the number of the last change among them.
	Orders(ctx context.Context) (orders []Order, version int64, err error)
	// OrdersVersion returns the number of the last change.
	OrdersVersion(ctx context.Context) (int64, error)
	// ChangeOrders replaces the orders by those that change returns, and appends the audit entry, in one
	// transaction that no other change is part of. It changes nothing if change returns an error.
	ChangeOrders(ctx context.Context, change func(have []Order) ([]Order, account.Entry, error)) error
	// AuditLog returns the latest entries about an account before a number, 0 for all; an empty account stands for the
	// service itself.
	AuditLog(ctx context.Context, accountID string, before int64, limit int) ([]account.Entry, error)
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Shared says that other processes may be given orders on the same database: Run then asks for them.
	Shared bool
	// Tell makes other nodes read the orders at once; nil: there is nobody to tell.
	Tell func(ctx context.Context) error
	// Moved is called when the tiers of models may have changed. It must not call the Helm's own changes.
	Moved func()
	Log   *slog.Logger // default slog.Default()
}

// Helm holds the orders in force on this node. It is safe for concurrent use.
type Helm struct {
	store Store
	opts  Options
	now   func() time.Time // replaced in tests

	// Both are nil if there is no such order, which is almost always: the hot path loads the pointer and is done.
	drains   atomic.Pointer[[]Target]
	closings atomic.Pointer[[]Order]

	orders atomic.Pointer[[]Order] // never nil
	wake   chan struct{}           // makes Run read at once; holds at most one token

	mu      sync.Mutex // held while orders are read and taken over
	version int64      // of orders; -1 before the first read
	moves   string     // the moves that Moved was last called for

	reading health.Trouble
}

// New returns a Helm without orders; Read reads them. Opts may be nil.
func New(store Store, opts *Options) *Helm {
	h := &Helm{store: store, now: time.Now, wake: make(chan struct{}, 1), version: -1}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.Log == nil {
		h.opts.Log = slog.Default()
	}
	h.orders.Store(&[]Order{})
	return h
}

// Drained reports whether a target gets no new calls. It costs an atomic load while nothing is drained.
func (h *Helm) Drained(provider, upstream, key, replica string) bool {
	drains := h.drains.Load()
	if drains == nil {
		return false
	}
	for i := range *drains {
		if (*drains)[i].Covers(provider, upstream, key, replica) {
			return true
		}
	}
	return false
}

// Closed returns a fault if calls of the model are refused because of maintenance, and else nil. It costs an atomic
// load while there is none.
func (h *Helm) Closed(model string, now time.Time) error {
	closings := h.closings.Load()
	if closings == nil {
		return nil
	}
	for i := range *closings {
		if o := &(*closings)[i]; o.Holds(now) && o.closes(model) {
			return o.refusal(model, now)
		}
	}
	return nil
}

// refusal returns what callers of a model under maintenance are told.
func (o *Order) refusal(model string, now time.Time) error {
	message, after := fmt.Sprintf("The model %q is under maintenance.", model), soonest
	if !o.Until.IsZero() {
		message = fmt.Sprintf("The model %q is under maintenance until %s.", model, o.Until.UTC().Format("2006-01-02 15:04 UTC"))
		after = min(soonest, o.Until.Sub(now))
	}
	if o.Text != "" {
		message += " " + o.Text
	}
	return fault.New(fault.Unavailable, "%s", message).After(after)
}

// Orders returns the orders that are in force or will be, oldest first, of the given kinds; none: of all. The caller may
// change the result.
func (h *Helm) Orders(kinds ...Kind) []Order {
	now := h.now()
	list := []Order{}
	for _, o := range *h.orders.Load() {
		if !o.Over(now) && (len(kinds) == 0 || slices.Contains(kinds, o.Kind)) {
			list = append(list, o)
		}
	}
	return list
}

// Shown returns the announcements and the times of maintenance that hold now, oldest first, for the pages.
func (h *Helm) Shown() []Order {
	var list []Order
	now := h.now()
	for _, o := range *h.orders.Load() {
		if (o.Kind == Announcement || o.Kind == Maintenance) && o.Holds(now) {
			list = append(list, o)
		}
	}
	return list
}

// Tiers returns the models whose tier was or will be changed, by their ids.
func (h *Helm) Tiers() map[string]catalog.Tier {
	tiers := map[string]catalog.Tier{}
	for _, o := range *h.orders.Load() {
		if o.Kind != Move {
			continue
		}
		if plan, err := account.ParsePlan(o.Plan); err == nil {
			tiers[o.Model] = catalog.Tier{Plan: plan, From: o.From}
		}
	}
	return tiers
}

// History returns the latest entries of the audit log about orders before a number, newest first. 0 stands for all.
func (h *Helm) History(ctx context.Context, before int64, limit int) ([]account.Entry, error) {
	return h.store.AuditLog(ctx, "", before, limit)
}

// Give gives an order, which is in force on this node when Give returns, and soon on the others. It replaces an order
// about the same target or model.
func (h *Helm) Give(ctx context.Context, o Order) (Order, error) {
	o.At = h.now().UTC().Truncate(time.Millisecond)
	o.From, o.Until = o.From.UTC(), o.Until.UTC()
	o.Target.Key = strings.TrimPrefix(o.Target.Key, "…")
	if err := o.check(o.At); err != nil {
		return Order{}, err
	}
	o.ID = newID()
	err := h.change(ctx, func(have []Order) ([]Order, account.Entry, error) {
		have = slices.DeleteFunc(have, func(other Order) bool {
			return other.same(&o) || other.Over(o.At.Add(-keepEnded))
		})
		n := 0
		for i := range have {
			if have[i].Kind == o.Kind && !have[i].Over(o.At) {
				n++
			}
		}
		if n >= o.Kind.most() {
			return nil, account.Entry{}, fault.New(fault.Conflict, "there are %d orders of this kind already, which is the limit; end one first", n)
		}
		return append(have, o), o.entry(0, o.At, o.Actor, o.Reason), nil
	})
	return o, err
}

// End ends an order by its id, and returns it.
func (h *Helm) End(ctx context.Context, kind Kind, id, actor, reason string) (Order, error) {
	return h.end(ctx, actor, reason, func(o *Order) bool { return o.Kind == kind && o.ID == id },
		fault.New(fault.NotFound, "there is no %s %q that has not ended", kind, excerpt.Of(id, MaxName)))
}

// Enable ends the drain of a target.
func (h *Helm) Enable(ctx context.Context, t Target, actor, reason string) (Order, error) {
	t.Key = strings.TrimPrefix(t.Key, "…")
	return h.end(ctx, actor, reason, func(o *Order) bool { return o.Kind == Drain && o.Target == t },
		fault.New(fault.NotFound, "%s is not drained", excerpt.Of(t.String(), MaxName)))
}

// MoveBack gives a model its configured tier again.
func (h *Helm) MoveBack(ctx context.Context, model, actor, reason string) (Order, error) {
	return h.end(ctx, actor, reason, func(o *Order) bool { return o.Kind == Move && o.Model == model },
		fault.New(fault.NotFound, "the model %q has its configured tier", excerpt.Of(model, MaxName)))
}

// end ends the order that is meant, or returns missing if there is none.
func (h *Helm) end(ctx context.Context, actor, reason string, meant func(*Order) bool, missing error) (ended Order, err error) {
	if n := utf8.RuneCountInString(reason); n > MaxText {
		return ended, fault.New(fault.Invalid, "the reason has %d characters, and the limit is %d", n, MaxText).At("reason")
	}
	now := h.now().UTC().Truncate(time.Millisecond)
	err = h.change(ctx, func(have []Order) ([]Order, account.Entry, error) {
		i := slices.IndexFunc(have, func(o Order) bool { return meant(&o) && !o.Over(now) })
		if i < 0 {
			return nil, account.Entry{}, missing
		}
		ended = have[i]
		return slices.Delete(have, i, i+1), ended.entry(1, now, actor, reason), nil
	})
	return ended, err
}

// entry returns the entry in the audit log for the order or, if which is 1, for its end.
func (o *Order) entry(which int, at time.Time, actor, reason string) account.Entry {
	return account.Entry{At: at, Actor: actor, Action: actions[o.Kind][which], Detail: o.detail(), Reason: reason}
}

// change changes the orders in the store, here, and on the other nodes.
func (h *Helm) change(ctx context.Context, change func(have []Order) ([]Order, account.Entry, error)) error {
	if err := h.store.ChangeOrders(ctx, change); err != nil {
		return err
	}
	if err := h.Read(ctx); err != nil {
		return fault.New(fault.Unavailable, "the order is stored, but this server could not read it again yet; it follows within seconds").Because(err)
	}
	if h.opts.Tell != nil {
		if err := h.opts.Tell(ctx); err != nil {
			h.opts.Log.Warn("other nodes could not be told of an order; they notice within a second", "error", err.Error())
		}
	}
	return nil
}

// Read reads the orders from the store and puts them in force.
func (h *Helm) Read(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	orders, version, err := h.store.Orders(ctx)
	if err != nil {
		return err
	}
	// Two reads may overlap with a change; this one begins after the last one has ended, so what it has read is newer.
	h.version = version
	h.orders.Store(&orders)
	h.publish(h.now())
	return nil
}

// publish makes the values that the hot path reads, and calls Moved if tiers have changed. The caller holds mu.
func (h *Helm) publish(now time.Time) {
	var drains []Target
	var closings []Order
	moves := ""
	for _, o := range *h.orders.Load() {
		switch {
		case o.Kind == Drain && o.Holds(now):
			drains = append(drains, o.Target)
		case o.Kind == Maintenance && !o.Over(now): // also those to come: Closed compares the time
			closings = append(closings, o)
		case o.Kind == Move:
			moves += fmt.Sprintf("%q %s %d %t\n", o.Model, o.Plan, o.From.UnixMilli(), o.Holds(now))
		}
	}
	h.drains.Store(orNil(drains))
	h.closings.Store(orNil(closings))
	if changed := moves != h.moves; changed {
		h.moves = moves
		if h.opts.Moved != nil {
			h.opts.Moved()
		}
	}
}

// orNil returns nil for an empty list, so that the hot path has only a pointer to compare.
func orNil[T any](list []T) *[]T {
	if len(list) == 0 {
		return nil
	}
	return &list
}

// Nudge makes Run read the orders at once.
func (h *Helm) Nudge() { pace.Wake(h.wake) }

// Run follows the orders that other nodes are given, and puts orders in force when their time has come, until ctx ends.
// While the database is away, the orders that are known stay in force.
func (h *Helm) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
			h.follow(ctx, true)
		case <-timer.C:
			h.follow(ctx, h.opts.Shared)
		}
		timer.Reset(h.pause())
	}
}

// pause returns how long Run waits: until it asks again, or until the next order begins or ends.
func (h *Helm) pause() time.Duration {
	d := time.Hour
	if h.opts.Shared {
		d = lookEvery
	}
	now := h.now()
	for _, o := range *h.orders.Load() {
		for _, at := range []time.Time{o.From, o.Until} {
			if until := at.Sub(now); until > 0 {
				d = min(d, until)
			}
		}
	}
	return max(d, time.Millisecond)
}

// follow reads the orders if they have changed. Without ask, it only looks at the time.
func (h *Helm) follow(ctx context.Context, ask bool) {
	if ask {
		err := h.readNew(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.reading.Failed(h.opts.Log, "the orders of staff could not be read; those that are known stay in force", err)
		} else {
			h.reading.Works(h.opts.Log, "the orders of staff are read again")
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.publish(h.now())
}

// readNew reads the orders if there has been a change.
func (h *Helm) readNew(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	version, err := h.store.OrdersVersion(asking)
	if err != nil {
		return err
	}
	h.mu.Lock()
	known := h.version
	h.mu.Unlock()
	if version == known {
		return nil
	}
	return h.Read(ctx)
}

// newID returns an id for an order.
func newID() string {
	var b [8]byte
	rand.Read(b[:]) // crypto/rand never fails
	return "ord_" + hex.EncodeToString(b[:])
}
