package abuse

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/internal/account"
)

// TierScore is the state of one tier of an account, under its current plan.
type TierScore struct {
	Tier   account.Plan
	Score  int
	Units  int64 // thousandths
	Budget account.Limit
	// Reaches is when the score would be 100 if the account continues as in the last 24 hours. It is
	// the current time if the score is 100, and zero if the month ends first.
	Reaches time.Time
}

// tiers lists the tiers that models can have, in the order in which scores are shown.
var tiers = []account.Plan{account.Free, account.Basic, account.Premium}

// Scores returns the account's score in every tier, and its score, which is the highest of
// them. Counts under other plans are left out: use under one plan never counts against the budget
// of another. With a Counter it asks that.
func (c *Control) Scores(accountID string, plan account.Plan) ([]TierScore, int) {
	c.refresh(context.Background(), accountID) // a Counter has a deadline of its own
	now := c.lock()
	defer c.mu.Unlock()
	budget := c.opts.Plans()[plan].MonthlyUnits
	highest := 0
	out := make([]TierScore, 0, len(tiers))
	for _, tier := range tiers {
		s := TierScore{Tier: tier, Budget: budget}
		if k := c.counts[slot{accountID, plan, tier}]; k != nil {
			s.Units, s.Score = k.units, score(k.units, budget)
			s.Reaches = c.forecast(k, budget, now)
		}
		highest = max(highest, s.Score)
		out = append(out, s)
	}
	return out, highest
}

// forecast returns when the budget would be used up; see TierScore.Reaches. The caller holds mu.
func (c *Control) forecast(k *count, budget account.Limit, now time.Time) time.Time {
	if score(k.units, budget) == deactivateAt {
		return now
	}
	speed := max(k.lastDay(now), k.dayOfAll) // units a day
	if speed <= 0 || budget == account.Unlimited {
		return time.Time{}
	}
	// In floats, because at a low speed it can take longer than the 292 years of a time.Duration.
	left := float64(budget)*1000 - float64(k.units)
	seconds := left / float64(speed) * (24 * time.Hour).Seconds()
	end := c.month.AddDate(0, 1, 0)
	if seconds >= end.Sub(now).Seconds() {
		return time.Time{}
	}
	if at := now.Add(time.Duration(seconds * float64(time.Second))); at.Before(end) {
		return at
	}
	return time.Time{}
}

// Forgive starts the tiers that have reached 100 again from zero. Support does this when it restores
// an account. It drops deactivations of the account that are not stored yet. If the store fails, the
// counts in memory are forgiven all the same, until the next start.
func (c *Control) Forgive(ctx context.Context, accountID, actor string) error {
	c.refresh(ctx, accountID)
	now := c.lock()
	month, plans := c.month, c.opts.Plans()
	var counts []Count
	var events []Event
	for at, k := range c.counts {
		if at.account != accountID || score(k.units, plans[at.plan].MonthlyUnits) < deactivateAt {
			continue
		}
		counts = append(counts, Count{AccountID: accountID, Plan: at.plan, Tier: at.tier, Forgiven: k.units})
		events = append(events, Event{
			At: now, AccountID: accountID, Kind: Restored, Plan: at.plan, Tier: at.tier, Actor: actor,
			Why: "restored by support; the count starts again from zero",
		})
		k.forgiven += k.units
		k.units, k.hours, k.dayOfAll = 0, [24]hourly{}, 0
	}
	c.off = slices.DeleteFunc(c.off, func(e Event) bool { return e.AccountID == accountID })
	c.mu.Unlock()
	defer c.restored(ctx, accountID) // whatever the store says: keys that are on must not be marked
	if len(counts) == 0 {
		return nil
	}
	if err := c.store.ForgiveUnits(ctx, month, counts, events); err != nil {
		return fmt.Errorf("forgive the units of %s: %w", accountID, err)
	}
	c.tell(ctx, events[:1]) // one message, however many tiers
	return nil
}

// Events returns at most limit events of an account, newest first.
func (c *Control) Events(ctx context.Context, accountID string, limit int) ([]Event, error) {
	return c.store.AbuseEvents(ctx, accountID, limit)
}

// Run stores events and deactivations until ctx ends. What cannot be stored is retried every second.
// At the end it tries once more. Deactivations that are lost then come back at the next start,
// because Resume works from the counts; warnings do not.
func (c *Control) Run(ctx context.Context) {
	const patience = time.Second
	var following sync.WaitGroup
	defer following.Wait()
	if c.isShared() {
		following.Go(func() { c.follow(ctx) })
	}
	for {
		retry := c.writeDown(context.WithoutCancel(ctx)) != nil
		retry = c.reread(ctx) != nil || retry
		var again <-chan time.Time
		if retry {
			again = time.After(patience)
		}
		select {
		case <-ctx.Done():
			_ = c.writeDown(context.WithoutCancel(ctx))
			return
		case <-again:
		case <-c.wake:
		}
	}
}

// reread reads the counts of a month that memory knows nothing about. There are none when a new month begins. There
// are if the clock was wrong when the process started, or has come back from a month before last.
func (c *Control) reread(ctx context.Context) error {
	c.mu.Lock()
	unread, month := c.unread, c.month
	c.mu.Unlock()
	if !unread {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	if c.opts.Flush != nil {
		if err := c.opts.Flush(ctx); err != nil {
			return err
		}
	}
	counts, err := c.store.AbuseCounts(ctx, month)
	if err != nil {
		c.reading.Failed(c.opts.Log, "the units of the month could not be read yet", err)
		return err
	}
	c.reading.Works(c.opts.Log, "the units of the month are read")
	for _, id := range c.adopt(month, counts) {
		if _, err := c.opts.Accounts.Deactivate(ctx, actor, id, "the month's units were used up"); err != nil {
			return err
		}
	}
	return nil
}

// adopt raises counts to what the store knows, and returns the accounts that have reached 100 with that. What was
// settled since the turn is in both, so they are not added up.
func (c *Control) adopt(month time.Time, counts []Count) (full []string) {
	plans := c.opts.Plans()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !month.Equal(c.month) {
		return nil // it has turned again, and Run is awake
	}
	c.unread = false
	for _, n := range counts {
		k, budget := c.count(slot{n.AccountID, n.Plan, n.Tier}), plans[n.Plan].MonthlyUnits
		before := score(k.units, budget)
		k.units, k.forgiven = max(k.units, n.Units-n.Forgiven), max(k.forgiven, n.Forgiven)
		if before < deactivateAt && score(k.units, budget) == deactivateAt {
			full = append(full, n.AccountID)
		}
	}
	return full
}

// writeDown stores the deactivations first, because they protect, and then the events. Owners are
// told after that, so nobody is told what did not happen. It works on copies, without the lock; only
// Run calls it, so nothing but new events at the end changes todo meanwhile.
func (c *Control) writeDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c.mu.Lock()
	todo, off := slices.Clone(c.todo), slices.Clone(c.off)
	c.mu.Unlock()
	for _, e := range off {
		if err := c.switchOff(ctx, e); err != nil {
			c.storing.Failed(c.opts.Log, "a deactivation could not be stored yet; the keys are refused meanwhile", err, "account", e.AccountID)
			return err
		}
	}
	if len(todo) == 0 {
		c.storing.Works(c.opts.Log, "deactivations and abuse events are stored")
		return nil
	}
	stored, err := c.recordEvents(ctx, todo)
	if err != nil {
		c.storing.Failed(c.opts.Log, "abuse events could not be stored yet", err)
		return err
	}
	c.storing.Works(c.opts.Log, "deactivations and abuse events are stored")
	c.tell(ctx, stored)
	c.mu.Lock()
	c.todo = slices.Clone(c.todo[len(todo):])
	c.mu.Unlock()
	return nil
}

// recordEvents stores events and returns those that are new. Where other nodes count, too, they may have
// noted the same.
func (c *Control) recordEvents(ctx context.Context, events []Event) ([]Event, error) {
	if c.isShared() {
		return c.store.RecordAbuseEventsOnce(ctx, events)
	}
	return events, c.store.RecordAbuseEvents(ctx, events)
}

// switchOff stores a deactivation, unless Restore has taken it back meanwhile.
func (c *Control) switchOff(ctx context.Context, e Event) error {
	c.switching.Lock()
	defer c.switching.Unlock()
	c.mu.Lock()
	stands := slices.Contains(c.off, e)
	c.mu.Unlock()
	if !stands {
		return nil
	}
	if !c.stands(ctx, e) {
		if c.opts.Unlock != nil {
			c.opts.Unlock(e.AccountID)
		}
	} else if _, err := c.opts.Accounts.Deactivate(ctx, actor, e.AccountID, e.Why); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = slices.DeleteFunc(c.off, func(x Event) bool { return x == e })
	return nil
}

func (c *Control) tell(ctx context.Context, events []Event) {
	if c.opts.Tell == nil {
		return
	}
	for i := range events {
		c.opts.Tell(ctx, &events[i])
	}
}
