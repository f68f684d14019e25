// Package abuse computes each account's abuse score and acts when it rises.
//
// The score is the percentage of the plan's monthly unit budget that was used. It is counted
// separately for each plan that an account has held and each tier of models that it called
// (docs/api.md#abuse-control). Settled counts in memory. What follows from a score (warnings, an
// inquiry, a review, keys switched off) is stored by Run, so that no call waits for the database.
// Only the refusal of keys does not wait for Run: it starts at the moment the score reaches 100.
//
// Several nodes count together. With a Counter, every addition changes one total, and the call with which
// that reaches 100 is found wherever it ran. Without one, or while it is away, each node counts what is
// settled on it, and reads what all nodes have stored every few seconds. What two nodes note is stored once.
package abuse

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/usage"
)

// The scores at which something happens, and the rise within 24 hours that puts an account under
// review. They are the thresholds of docs/api.md#abuse-control.
const (
	warnAt       = 50
	warnAgainAt  = 75
	inquireAt    = 90
	deactivateAt = 100
	steepClimb   = 25
)

// Kind says what happened. Its values are stored; do not change them.
type Kind string

const (
	Warning     Kind = "warning"
	Inquiry     Kind = "inquiry"
	Review      Kind = "review" // the score rose fast; only support sees it
	Deactivated Kind = "deactivated"
	Restored    Kind = "restored"
)

// Event is one entry of an account's abuse history. Plan and Tier name the count that it is about.
type Event struct {
	Seq       int64        `json:"-"` // set by the store
	At        time.Time    `json:"at"`
	AccountID string       `json:"-"`
	Kind      Kind         `json:"kind"`
	Plan      account.Plan `json:"plan"`
	Tier      account.Plan `json:"tier"`
	Score     int          `json:"score"` // at the time of the event; 0 for Restored
	Why       string       `json:"why"`   // for support, and as the reason of a deactivation
	Actor     string       `json:"by"`    // who caused it: abuse control, or whoever restored the account
}

// Repeats returns which earlier events of the same account, plan, tier and kind an event repeats: those
// since a time whose score is in a range. Two nodes that both see a threshold passed note the same event. A
// Restored event in between makes it another one, because the count has started again.
func (e *Event) Repeats() (since time.Time, lowest, highest int) {
	switch {
	case e.Kind == Review:
		return e.At.Add(-24 * time.Hour), 0, deactivateAt
	case e.Kind == Warning && e.Score < warnAgainAt:
		return usage.MonthOf(e.At), 0, warnAgainAt - 1
	case e.Kind == Warning:
		return usage.MonthOf(e.At), warnAgainAt, deactivateAt
	}
	return usage.MonthOf(e.At), 0, deactivateAt
}

// Mark returns the threshold that the event is about, or 0 if it is about none.
func (e *Event) Mark() int {
	switch {
	case e.Kind == Warning && e.Score < warnAgainAt:
		return warnAt
	case e.Kind == Warning:
		return warnAgainAt
	case e.Kind == Inquiry:
		return inquireAt
	case e.Kind == Deactivated:
		return deactivateAt
	}
	return 0
}

// Count is the units of one account, plan and tier in one month, in thousandths. What was forgiven
// stays in Units and is subtracted.
type Count struct {
	AccountID string
	Plan      account.Plan
	Tier      account.Plan
	Units     int64
	Forgiven  int64
}

// Store stores events and what was forgiven. It never stores units by itself: they are added up in
// the transaction that stores the settlements.
type Store interface {
	// AbuseCounts returns the counts of the month that starts at month, of all accounts or of those that are named.
	AbuseCounts(ctx context.Context, month time.Time, accounts ...string) ([]Count, error)
	// UnitsSince calls yield with the units that were settled since a time, by hour, of all accounts or of those that are named.
	UnitsSince(ctx context.Context, since time.Time, yield func(c Count, hour time.Time), accounts ...string) error
	// RecordAbuseEvents appends events.
	RecordAbuseEvents(ctx context.Context, events []Event) error
	// ForgiveUnits adds Forgiven of each count to what was forgiven in a month, and appends the
	// events, in one transaction.
	ForgiveUnits(ctx context.Context, month time.Time, counts []Count, e []Event) error
	// AbuseEvents returns at most limit events of an account, newest first.
	AbuseEvents(ctx context.Context, accountID string, limit int) ([]Event, error)

	// The rest is for several nodes on one store.

	// HasSettlements returns the ids of those settlements in list that are stored.
	HasSettlements(ctx context.Context, list []usage.Settlement) (map[string]bool, error)
	// RecordAbuseEventsOnce appends those events that no node has recorded yet (see Event.Repeats), and
	// returns them.
	RecordAbuseEventsOnce(ctx context.Context, events []Event) ([]Event, error)
}

// Accounts changes accounts; *account.Accounts is one.
type Accounts interface {
	Find(ctx context.Context, ref string) (*account.Account, error)
	Deactivate(ctx context.Context, actor, ref, reason string) (*account.Account, error)
	Restore(ctx context.Context, actor, ref string) (*account.Account, error)
}

// actor is the name in the audit log and in events when the score switches keys off.
const actor = "abuse control"

// Options are what New needs.
type Options struct {
	// Plans returns the plans in force, with their budgets. A reload can change them.
	Plans func() account.Plans
	// Accounts stores that keys are off, and that they are on again.
	Accounts Accounts
	// Lock makes this process refuse an account's keys at once, before Accounts has stored that.
	// Settled calls it with the Control's lock held, so it must be quick and must not call the
	// Control. It may be nil if Settled is never called. Unlock ends a Lock; nil: nothing was
	// locked.
	Lock   func(accountID string, m account.Mark)
	Unlock func(accountID string)
	// Flush moves the settlements that the store has not seen yet into it, so that Load counts
	// them; nil: there are none.
	Flush func(ctx context.Context) error
	// Tell tells an account's owner about an event that has been stored; nil: nobody is told.
	Tell func(ctx context.Context, e *Event)
	// Counter counts over all nodes; nil: this node counts by itself.
	Counter Counter
	// Totals are what nodes have counted together, for a process that is no node. Default: those of the Counter.
	Totals Totals
	// Shared says that other nodes settle calls on the same store. It is implied by a Counter.
	Shared bool
	// Log gets what Run could not store. It may be nil if Run is never called.
	Log *slog.Logger
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Control counts the units of every account and acts on the score. Its methods may be called from
// several goroutines.
type Control struct {
	store Store
	opts  Options

	// mu guards the fields down to shared. Settled takes it in every call, so nothing is stored
	// under it.
	mu     sync.Mutex
	loaded bool      // Load has read the counts
	month  time.Time // that units are counted for; see usage.MonthOf
	was    time.Time // the month before the last turn; count.was is of it
	unread bool      // the store may know more about the month than the counts do
	back   bool      // the clock was set back to an earlier month, and the Counter does not know it
	counts map[slot]*count
	todo   []Event  // not stored yet, oldest first
	off    []Event  // deactivations that Accounts has not stored yet, oldest first
	shared followed // what other nodes have to do with it

	// switching is held while an account's keys are switched off or on again in Accounts. Without it, Run
	// could carry out a deactivation after Restore has forgiven it. It is taken before mu.
	switching sync.Mutex

	storing, reading, answering, looking health.Trouble

	wake   chan struct{} // of size 1; tells Run that there is something to store
	looked atomic.Int64  // when the units of other nodes were last read, in Unix nanoseconds
}

// slot is the key that units are counted by.
type slot struct {
	account    string
	plan, tier account.Plan
}

// count holds the units of a slot, about 400 bytes. It is never removed: there is at most one for
// each plan and tier of an account.
type count struct {
	units    int64      // of the current month, in thousandths, without what was forgiven
	was      earlier    // of the month before the last turn
	hours    [24]hourly // the last 24 hours; an hour is at its number modulo 24
	reviewed time.Time  // when the last Review was noted

	// The rest is for several nodes.
	forgiven int64     // what the store said last
	readAt   time.Time // when that was
	dayOfAll int64     // the units of the last day on all nodes, as the Counter said last
	active   bool      // it is in followed.active
	usedAt   time.Time // when this node last counted something
}

// earlier is what a count was before the month turned.
type earlier struct{ units, forgiven int64 }

// hourly is the units of one hour. An entry whose hour is more than a day ago is out of date and is
// replaced by the next call.
type hourly struct {
	hour  int64 // hours since 1970
	units int64
}

// New returns a Control that has counted nothing yet. Resume or Load reads the counts.
func New(store Store, opts Options) *Control {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Counter != nil {
		opts.Totals = opts.Counter
	}
	c := &Control{store: store, opts: opts, counts: map[slot]*count{}, wake: make(chan struct{}, 1)}
	c.month = usage.MonthOf(opts.Now())
	c.looked.Store(time.Now().UnixNano())
	c.shared.init()
	if opts.Counter != nil {
		opts.Counter.Listen(listener{c})
	}
	return c
}

// Resume loads the counts and switches off the keys of every account that has reached 100. Usually
// they are off already. They are not if the last process died before Run had stored it.
func (c *Control) Resume(ctx context.Context) error {
	full, err := c.Load(ctx)
	if err != nil {
		return err
	}
	for _, id := range full {
		if _, err := c.opts.Accounts.Deactivate(ctx, actor, id, "the month's units were used up before the last stop"); err != nil {
			return err
		}
	}
	return nil
}

// Load reads the counts of this month and returns the accounts that have reached 100. Call it once,
// before the first Settled: it adds the units of the last day to those that are there. It holds the
// lock while it reads.
func (c *Control) Load(ctx context.Context) ([]string, error) {
	if c.opts.Flush != nil {
		if err := c.opts.Flush(ctx); err != nil {
			return nil, err
		}
	}
	now := c.opts.Now()
	counts, err := c.store.AbuseCounts(ctx, usage.MonthOf(now))
	if err != nil {
		return nil, fmt.Errorf("load abuse counts: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	plans := c.opts.Plans()
	var full []string
	for _, n := range counts {
		k := c.count(slot{n.AccountID, n.Plan, n.Tier})
		k.units, k.forgiven = n.Units-n.Forgiven, n.Forgiven
		if score(k.units, plans[n.Plan].MonthlyUnits) == deactivateAt {
			full = append(full, n.AccountID)
		}
	}
	err = c.store.UnitsSince(ctx, now.Add(-24*time.Hour), func(n Count, hour time.Time) {
		c.count(slot{n.AccountID, n.Plan, n.Tier}).add(hour, n.Units)
	})
	c.loaded = err == nil
	return full, err
}

// Settled counts a settlement and notes what follows from it for Run. It is part of every call, so it
// does not touch the database. With a Counter it waits for that if the budget is nearly used up: when
// Settled returns, the keys are refused on all nodes if this call has reached 100. The plan is that of the settlement: units count against the plan that
// the account had when it made the call.
func (c *Control) Settled(s *usage.Settlement) {
	if s.UnitMilli <= 0 {
		return
	}
	plan, err := account.ParsePlan(s.Plan)
	if err != nil {
		return
	}
	tier, err := account.ParsePlan(s.Tier)
	if err != nil {
		return
	}
	at := slot{s.AccountID, plan, tier}
	budget := c.opts.Plans()[plan].MonthlyUnits
	month, back := c.record(at, s.UnitMilli, budget)
	if c.opts.Counter != nil {
		if back {
			c.opts.Counter.Back(month)
		}
		c.opts.Counter.Add(Total{s.AccountID, plan, tier, month}, s, budget)
	}
}

// record counts a settlement in memory and returns the month that it belongs to, and whether the Counter must be
// told that the clock was set back to it. With a Counter it leaves the total to that.
func (c *Control) record(at slot, units int64, budget account.Limit) (month time.Time, back bool) {
	now := c.lock()
	defer c.mu.Unlock()
	k := c.count(at)
	k.add(now, units)
	c.touch(at, k, now)
	if c.opts.Counter == nil {
		c.plus(at, k, units, budget, now)
	}
	back, c.back = c.back, false
	return c.month, back
}

// plus adds units to a count and notes what follows. The caller holds mu.
func (c *Control) plus(at slot, k *count, units int64, budget account.Limit, now time.Time) {
	before := score(k.units, budget)
	k.units = plus(k.units, units)
	climb := score(k.lastDay(now), budget)
	c.crossed(at, k, step{before, score(k.units, budget), climb, climb >= steepClimb && now.Sub(k.reviewed) >= 24*time.Hour}, now)
}

// step is how a score rose.
type step struct {
	before, after int
	climb         int  // the points of the last 24 hours
	steep         bool // that is reason for a review
}

// crossed notes what follows from a score that rose. Scores are relative to the budget in force. So a reload
// that lowers the budget triggers nothing by itself; the next start deactivates accounts that are over it,
// see Resume. The caller holds mu.
func (c *Control) crossed(at slot, k *count, s step, now time.Time) {
	note := func(kind Kind, format string, args ...any) {
		c.todo = append(c.todo, Event{
			At: now, AccountID: at.account, Kind: kind, Plan: at.plan, Tier: at.tier, Score: s.after,
			Why: fmt.Sprintf(format, args...), Actor: actor,
		})
		pace.Wake(c.wake)
	}
	reached := func(mark int) bool { return s.before < mark && s.after >= mark }
	if reached(warnAt) || reached(warnAgainAt) {
		note(Warning, "%d%% of the month's units of the %s plan are used by %s models", s.after, at.plan, at.tier)
	}
	if reached(inquireAt) {
		note(Inquiry, "%d%% of the month's units of the %s plan are used by %s models", s.after, at.plan, at.tier)
	}
	if s.steep {
		k.reviewed = now
		note(Review, "the score rose by %d points within 24 hours", s.climb)
	}
	if reached(deactivateAt) {
		note(Deactivated, "the month's units of the %s plan are used up by %s models", at.plan, at.tier)
		last := c.todo[len(c.todo)-1]
		c.off = append(c.off, last)
		c.opts.Lock(at.account, account.Mark{At: now, Reason: last.Why})
	}
}

// lock locks mu, turns the month if another one has begun, and returns the time. The clock is read under the lock,
// so that only a clock that is set back brings an earlier month.
func (c *Control) lock() time.Time {
	c.mu.Lock()
	now := c.opts.Now()
	if m := usage.MonthOf(now); !m.Equal(c.month) {
		c.turn(m)
	}
	return now
}

// turn goes to another month. Usually that is the next one, and nothing is counted yet. A clock that was set forward
// by mistake and is set back returns to the counts that it left. Of any other month the store knows the counts, see
// reread. The hours stay: a fast rise is one even if the month ends meanwhile. The caller holds mu.
func (c *Control) turn(to time.Time) {
	returns := to.Equal(c.was)
	c.back = c.back || to.Before(c.month)
	c.was, c.month = c.month, to
	for _, k := range c.counts {
		left := earlier{k.units, k.forgiven}
		k.units, k.forgiven = 0, 0
		if returns {
			k.units, k.forgiven = k.was.units, k.was.forgiven
		}
		k.was = left
	}
	c.unread = c.unread || !returns
	pace.Wake(c.wake)
}

// count returns the count of a slot and makes one if there is none. The caller holds mu.
func (c *Control) count(at slot) *count {
	k := c.counts[at]
	if k == nil {
		k = &count{}
		c.counts[at] = k
	}
	return k
}

// add counts units in the hour of a time. It does not change the units of the month.
func (k *count) add(at time.Time, units int64) {
	h := at.Unix() / 3600
	slot := &k.hours[h%int64(len(k.hours))]
	if slot.hour != h {
		*slot = hourly{hour: h}
	}
	slot.units = plus(slot.units, units)
}

// lastDay returns the units of the last 24 hours, the current one included, so the time that it
// covers is between 23 and 24 hours.
func (k *count) lastDay(now time.Time) (units int64) {
	h := now.Unix() / 3600
	for _, x := range k.hours {
		if x.hour > h-int64(len(k.hours)) && x.hour <= h {
			units = plus(units, x.units)
		}
	}
	return units
}

// score returns the percentage of the budget that was used, rounded down, at most 100. It is 0 if
// the budget is unlimited, and 100 after the first unit if the budget is 0.
func score(unitMilli int64, budget account.Limit) int {
	switch {
	case budget == account.Unlimited || unitMilli <= 0:
		return 0
	case budget == 0:
		return 100
	}
	return int(min(100, unitMilli/10/int64(budget))) // milli / (budget * 1000) * 100
}

// ScoreOf returns the score of units, in thousandths, under a budget.
func ScoreOf(unitMilli int64, budget account.Limit) int { return score(unitMilli, budget) }

// plus adds two amounts that are not negative. It returns the largest int64 if the sum exceeds it:
// an overflow would make the score 0.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
