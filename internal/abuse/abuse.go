// Package abuse keeps each account's abuse score and acts when it climbs.
//
// The score is the percentage of the plan's monthly unit budget consumed, counted apart for every plan
// an account has held and every tier of models it called (docs/api.md#abuse-control). Counting happens in
// memory, when a call is settled; what follows from it — warnings, an inquiry, a review, the keys
// switched off — is written down by Run, so that no call waits for the database. The keys are off from the
// very moment the score reaches 100.
package abuse

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/usage"
)

// The scores at which something happens, and the climb within a day that puts an account under review.
const (
	warnAt       = 50
	warnAgainAt  = 75
	inquireAt    = 90
	deactivateAt = 100
	steepClimb   = 25
)

// Kind is what happened.
type Kind string

const (
	Warning     Kind = "warning"
	Inquiry     Kind = "inquiry"
	Review      Kind = "review" // the score climbed fast
	Deactivated Kind = "deactivated"
	Restored    Kind = "restored"
)

// Event is one entry of an account's abuse history.
type Event struct {
	Seq       int64
	At        time.Time
	AccountID string
	Kind      Kind
	Plan      account.Plan
	Tier      account.Plan
	Score     int
	Why       string
	Actor     string
}

// Count is the units of one account, plan and tier in one month, thousandths.
type Count struct {
	AccountID string
	Plan      account.Plan
	Tier      account.Plan
	Units     int64
	Forgiven  int64
}

// Store keeps events and what was forgiven; the units themselves are added up with the settlements.
type Store interface {
	// AbuseCounts returns the counts of a month.
	AbuseCounts(ctx context.Context, month time.Time) ([]Count, error)
	// UnitsSince returns the units settled since a time, by hour.
	UnitsSince(ctx context.Context, since time.Time, yield func(c Count, hour time.Time)) error
	// RecordAbuseEvents appends events.
	RecordAbuseEvents(ctx context.Context, events []Event) error
	// ForgiveUnits starts the counts of an account, plan and tiers again from zero.
	ForgiveUnits(ctx context.Context, month time.Time, counts []Count, e []Event) error
	// AbuseEvents returns an account's newest events.
	AbuseEvents(ctx context.Context, accountID string, limit int) ([]Event, error)
}

// Accounts changes accounts; *account.Accounts is one.
type Accounts interface {
	Find(ctx context.Context, ref string) (*account.Account, error)
	Deactivate(ctx context.Context, actor, ref, reason string) (*account.Account, error)
	Restore(ctx context.Context, actor, ref string) (*account.Account, error)
}

// actor is who the audit log and events name when the score switches keys off.
const actor = "abuse control"

// Options are what New needs.
type Options struct {
	// Plans are those in force, with their budgets.
	Plans func() account.Plans
	// Accounts stores that keys are off, and that they are on again.
	Accounts Accounts
	// Lock refuses an account's keys from now on, in memory, until Accounts has stored it. Unlock ends that; nil:
	// nothing was locked.
	Lock   func(accountID string, m account.Mark)
	Unlock func(accountID string)
	// Flush adds up the settlements that the store has not seen yet; nil: there are none. Load calls it.
	Flush func(ctx context.Context) error
	// Tell tells an account's owner about an event that has been stored; nil: nobody is told.
	Tell func(ctx context.Context, e *Event)
	Log  *slog.Logger
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Control watches every account's score.
type Control struct {
	store Store
	opts  Options

	mu     sync.Mutex
	loaded bool // Load has read the counts
	month  time.Time
	counts map[slot]*count
	todo   []Event // to be written down
	off    []Event // keys to be switched off for good; a part of todo
	wake   chan struct{}
}

// slot is what units are counted by.
type slot struct {
	account    string
	plan, tier account.Plan
}

// count is the units of a slot in the present month.
type count struct {
	units    int64 // thousandths, without what was forgiven
	hours    [24]hourly
	reviewed time.Time
}

// hourly is the units of one hour; the slots of the last day are reused.
type hourly struct {
	hour  int64 // since 1970
	units int64
}

// New returns a Control without any counts. Resume or Load reads them.
func New(store Store, opts Options) *Control {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	c := &Control{store: store, opts: opts, counts: map[slot]*count{}, wake: make(chan struct{}, 1)}
	c.month = monthOf(opts.Now())
	return c
}

// Resume loads the counts and switches off the keys of accounts that had reached 100 when the last process died,
// before it could store that.
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

// Load reads the counts of this month. It returns the accounts that have reached 100.
func (c *Control) Load(ctx context.Context) ([]string, error) {
	if c.opts.Flush != nil {
		if err := c.opts.Flush(ctx); err != nil {
			return nil, err
		}
	}
	now := c.opts.Now()
	counts, err := c.store.AbuseCounts(ctx, monthOf(now))
	if err != nil {
		return nil, fmt.Errorf("load abuse counts: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	plans := c.opts.Plans()
	var full []string
	for _, n := range counts {
		k := c.count(slot{n.AccountID, n.Plan, n.Tier})
		k.units = n.Units - n.Forgiven
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

// Settled counts a settlement. It takes no more than memory; what follows is told to Run.
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
	now := c.opts.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn(now)
	at := slot{s.AccountID, plan, tier}
	k := c.count(at)
	budget := c.opts.Plans()[plan].MonthlyUnits
	before := score(k.units, budget)
	k.units = plus(k.units, s.UnitMilli)
	k.add(now, s.UnitMilli)
	c.crossed(at, k, before, score(k.units, budget), budget, now)
}

// crossed notes what follows from a score that climbed from before to after.
func (c *Control) crossed(at slot, k *count, before, after int, budget account.Limit, now time.Time) {
	note := func(kind Kind, format string, args ...any) {
		c.todo = append(c.todo, Event{
			At: now, AccountID: at.account, Kind: kind, Plan: at.plan, Tier: at.tier, Score: after,
			Why: fmt.Sprintf(format, args...), Actor: actor,
		})
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	reached := func(mark int) bool { return before < mark && after >= mark }
	if reached(warnAt) || reached(warnAgainAt) {
		note(Warning, "%d%% of the month's units of the %s plan are used by %s models", after, at.plan, at.tier)
	}
	if reached(inquireAt) {
		note(Inquiry, "%d%% of the month's units of the %s plan are used by %s models", after, at.plan, at.tier)
	}
	if climb := score(k.lastDay(now), budget); climb >= steepClimb && now.Sub(k.reviewed) >= 24*time.Hour {
		k.reviewed = now
		note(Review, "the score rose by %d points within 24 hours", climb)
	}
	if reached(deactivateAt) {
		note(Deactivated, "the month's units of the %s plan are used up by %s models", at.plan, at.tier)
		last := c.todo[len(c.todo)-1]
		c.off = append(c.off, last)
		c.opts.Lock(at.account, account.Mark{At: now, Reason: last.Why})
	}
}

// turn begins a new month. A clock that steps back does not bring the old one back.
func (c *Control) turn(now time.Time) {
	if m := monthOf(now); m.After(c.month) {
		c.month = m
		for _, k := range c.counts {
			k.units = 0
		}
	}
}

func (c *Control) count(at slot) *count {
	k := c.counts[at]
	if k == nil {
		k = &count{}
		c.counts[at] = k
	}
	return k
}

func (k *count) add(at time.Time, units int64) {
	h := at.Unix() / 3600
	slot := &k.hours[h%int64(len(k.hours))]
	if slot.hour != h {
		*slot = hourly{hour: h}
	}
	slot.units = plus(slot.units, units)
}

// lastDay is the units of the last 24 hours, the present one included.
func (k *count) lastDay(now time.Time) (units int64) {
	h := now.Unix() / 3600
	for _, x := range k.hours {
		if x.hour > h-int64(len(k.hours)) && x.hour <= h {
			units = plus(units, x.units)
		}
	}
	return units
}

// score is the percentage of a budget, 100 at most; of an unlimited one it is always 0.
func score(unitMilli int64, budget account.Limit) int {
	switch {
	case budget == account.Unlimited || unitMilli <= 0:
		return 0
	case budget == 0:
		return 100
	}
	return int(min(100, unitMilli/10/int64(budget))) // milli / (budget * 1000) * 100
}

// plus adds amounts that are not negative; a sum beyond the range of an int64 is the largest one.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// monthOf is the first moment of a time's month, UTC.
func monthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}
