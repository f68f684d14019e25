package abuse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/usage"
)

const (
	// followEvery is how often a node reads what all nodes have stored, while there is no Counter.
	followEvery = 3 * time.Second
	// lookFor is how long a node keeps reading about an account that it no longer counts: another node may store late
	// what it counted at the same time, and if each had looked too early, none would see that the budget is used up.
	lookFor = 30 * time.Second
	// raiseEvery is how often a Counter is told what the store knows. It has it already, unless the Counter
	// lost something.
	raiseEvery = time.Minute
	// markEvery is the least time between two checks whether an account's mark is still right.
	markEvery = 5 * time.Second
	// markPatience is how long a mark holds that the store knows nothing about: its node has not stored the
	// deactivation yet.
	markPatience = time.Minute
	// staleUnits is how old other nodes' units may be before operators are told.
	staleUnits = 30 * time.Second
	// storePatience is how long the store may take for one of these tasks.
	storePatience = 5 * time.Second
	// atOnce is the number of accounts that are read in one query.
	atOnce = 200
)

// followed is what this node still has to do about counts that it shares with others.
type followed struct {
	active  []slot               // counted since the last look, or not long ago; see lookFor
	unknown map[string]bool      // accounts that the Counter asks for; true: after a flush
	marked  map[string]time.Time // accounts whose mark is to be checked, and since when they have it
	checked map[string]time.Time // when marks were checked last
	unmark  map[string]bool      // restored accounts that the Counter does not know of yet
	raised  time.Time            // when the Counter was last told about active accounts
	ask     chan struct{}        // of size 1; tells follow that unknown or marked has something
}

func (f *followed) init() {
	f.unknown, f.unmark = map[string]bool{}, map[string]bool{}
	f.marked, f.checked = map[string]time.Time{}, map[string]time.Time{}
	f.ask = make(chan struct{}, 1)
}

// isShared reports whether other nodes count on the same store.
func (c *Control) isShared() bool { return c.opts.Shared || c.opts.Counter != nil }

// touch notes that a count is in use. The caller holds mu.
func (c *Control) touch(at slot, k *count, now time.Time) {
	k.usedAt = now
	if c.isShared() && !k.active {
		k.active = true
		c.shared.active = append(c.shared.active, at)
	}
}

// listener is the Control as its Counter sees it.
type listener struct{ c *Control }

// Counted implements Listener. The thresholds between Before and After were passed by this node and by no
// other. If an earlier change may not have been told, the node takes responsibility for everything since it
// last knew the total: another may have noted the same, and the store keeps one of them.
func (l listener) Counted(t Total, ch Change) {
	c := l.c
	now := c.lock()
	defer c.mu.Unlock()
	if !t.Month.Equal(c.month) {
		return // the month is over; what was added is in the store
	}
	at := slot{t.AccountID, t.Plan, t.Tier}
	k := c.count(at)
	budget := c.opts.Plans()[t.Plan].MonthlyUnits
	from := ch.Before
	if ch.Unsure {
		from = min(from, k.units)
	}
	k.units, k.dayOfAll = ch.Total, ch.LastDay
	s := step{score(from, budget), score(ch.After, budget), score(ch.LastDay, budget), ch.Review}
	if ch.Unsure && s.climb >= steepClimb && now.Sub(k.reviewed) >= 24*time.Hour {
		s.steep = true
	}
	c.crossed(at, k, s, now)
}

// Missed implements Listener: the node counts by itself.
func (l listener) Missed(t Total, units int64) {
	c := l.c
	now := c.lock()
	defer c.mu.Unlock()
	if !t.Month.Equal(c.month) {
		return
	}
	at := slot{t.AccountID, t.Plan, t.Tier}
	c.plus(at, c.count(at), units, c.opts.Plans()[t.Plan].MonthlyUnits, now)
}

// Unknown implements Listener.
func (l listener) Unknown(accountID string, flush bool) {
	f := &l.c.shared
	l.c.mu.Lock()
	f.unknown[accountID] = f.unknown[accountID] || flush
	l.c.mu.Unlock()
	f.wake()
}

// Marked implements Listener.
func (l listener) Marked(accountID string, since time.Time) {
	f, now := &l.c.shared, l.c.opts.Now()
	l.c.mu.Lock()
	due := now.Sub(f.checked[accountID]) >= markEvery
	if due {
		f.checked[accountID], f.marked[accountID] = now, since
	}
	l.c.mu.Unlock()
	if due {
		f.wake()
	}
}

func (f *followed) wake() { pace.Wake(f.ask) }

// Look says how old the units of other nodes are that this one knows. Calls are counted without them, so it never
// fails.
func (c *Control) Look(context.Context) (f health.Finding) {
	if !c.opts.Shared {
		return f
	}
	if f.Age = time.Since(time.Unix(0, c.looked.Load())); f.Age > staleUnits {
		f.Message = fmt.Sprintf("the units of other nodes were last read %s ago", f.Age.Round(time.Second))
	}
	return f
}

// follow does what the Counter asks for, and reads what other nodes have counted, until ctx ends.
func (c *Control) follow(ctx context.Context) {
	for asked := range pace.Woken(ctx, followEvery, c.shared.ask) {
		var err error
		about := &c.answering
		if asked {
			err = c.answer(ctx)
		} else {
			about = &c.looking
			if err = c.look(ctx); err == nil {
				c.looked.Store(time.Now().UnixNano())
			}
		}
		switch {
		case err == nil:
			about.Works(c.opts.Log, "units of other nodes are read and written again")
		case ctx.Err() == nil:
			about.Failed(c.opts.Log, "units of other nodes could not be read or written yet", err)
		}
	}
}

// answer does what the Counter has asked for.
func (c *Control) answer(ctx context.Context) error {
	c.mu.Lock()
	unknown, marked, month := c.shared.unknown, c.shared.marked, c.month
	c.shared.unknown, c.shared.marked = map[string]bool{}, map[string]time.Time{}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	ids := slices.Sorted(maps.Keys(unknown))
	if slices.Contains(slices.Collect(maps.Values(unknown)), true) && c.opts.Flush != nil {
		if err := c.opts.Flush(ctx); err != nil {
			return err // the Counter asks again
		}
	}
	for part := range slices.Chunk(ids, atOnce) {
		if err := c.introduce(ctx, month, part); err != nil {
			return err
		}
	}
	for id, since := range marked {
		if err := c.checkMark(ctx, month, id, since); err != nil {
			return err
		}
	}
	return nil
}

// introduce tells the Counter about accounts that it does not know.
//
// The order matters. The counts are read first, then the settlements that this node has added meanwhile and
// that the counts may include, and then which of these are stored. One that is stored between the first and
// the last step is taken as included without being so: it is missing until the next Raise. The other way
// round it would count twice, and nothing would ever correct that.
func (c *Control) introduce(ctx context.Context, month time.Time, ids []string) error {
	now := c.opts.Now()
	k := Known{Month: month, Budget: c.budget, Accounts: ids, Introduce: true}
	var err error
	if k.Counts, err = c.store.AbuseCounts(ctx, month, ids...); err != nil {
		return err
	}
	err = c.store.UnitsSince(ctx, now.Add(-24*time.Hour), func(n Count, hour time.Time) {
		k.Hours = append(k.Hours, Hour{n, hour.Unix() / 3600})
	}, ids...)
	if err != nil {
		return err
	}
	if list := c.opts.Counter.Unproven(ids); len(list) > 0 {
		has, err := c.store.HasSettlements(ctx, list)
		if err != nil {
			return err
		}
		k.Stored = make(map[string]bool, len(list))
		for i := range list {
			k.Stored[list[i].ID] = has[list[i].ID]
		}
	}
	return c.opts.Counter.Raise(ctx, k)
}

// checkMark deals with an account that the Counter has marked. Usually it is deactivated in the store, too.
// If it is not, the node that reached 100 may have died before it could store that; then the counts decide.
// Or the account was restored while the Counter was away; then the mark is out of date.
func (c *Control) checkMark(ctx context.Context, month time.Time, id string, since time.Time) error {
	a, err := c.opts.Accounts.Find(ctx, id)
	if err != nil || a.Deactivated != nil {
		return err
	}
	counts, err := c.store.AbuseCounts(ctx, month, id)
	if err != nil {
		return err
	}
	now, plans := c.opts.Now(), c.opts.Plans()
	for _, n := range counts {
		if score(n.Units-n.Forgiven, plans[n.Plan].MonthlyUnits) == deactivateAt {
			c.mu.Lock()
			at := slot{id, n.Plan, n.Tier}
			c.crossed(at, c.count(at), step{before: deactivateAt - 1, after: deactivateAt}, now)
			c.mu.Unlock()
			return nil
		}
	}
	if now.Sub(since) < markPatience {
		return nil
	}
	return c.opts.Counter.Raise(ctx, Known{Month: month, Budget: c.budget, Accounts: []string{id}, Counts: counts, Unmark: true})
}

// look reads what all nodes have stored about the accounts in use. Without a Counter that works it updates
// the counts here; otherwise it corrects the Counter now and then.
func (c *Control) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	exact := c.opts.Counter != nil && c.opts.Counter.Exact()
	if exact {
		if err := c.retryUnmark(ctx); err != nil {
			return err
		}
	}
	ids, month := c.inUse(exact)
	for part := range slices.Chunk(ids, atOnce) {
		counts, err := c.store.AbuseCounts(ctx, month, part...)
		if err != nil {
			return err
		}
		if exact {
			err = c.opts.Counter.Raise(ctx, Known{Month: month, Budget: c.budget, Accounts: part, Counts: counts})
		} else {
			c.merge(month, counts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inUse returns the accounts that were counted since the last look, or within lookFor, and the month. For a Counter, it
// returns none until raiseEvery is over.
func (c *Control) inUse(exact bool) ([]string, time.Time) {
	now := c.lock()
	defer c.mu.Unlock()
	f := &c.shared
	maps.DeleteFunc(f.checked, func(_ string, at time.Time) bool { return now.Sub(at) >= markEvery })
	if exact && now.Sub(f.raised) < raiseEvery {
		return nil, c.month
	}
	f.raised = now
	ids := make([]string, 0, len(f.active))
	f.active = slices.DeleteFunc(f.active, func(at slot) bool {
		ids = append(ids, at.account)
		k := c.counts[at]
		k.active = now.Sub(k.usedAt) < lookFor
		return !k.active
	})
	slices.Sort(ids)
	return slices.Compact(ids), c.month
}

// merge raises counts to what all nodes have stored. What is missing in the store is the last second or so of
// every node.
func (c *Control) merge(month time.Time, counts []Count) {
	now, plans := c.opts.Now(), c.opts.Plans()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !month.Equal(c.month) {
		return
	}
	for _, n := range counts {
		at := slot{n.AccountID, n.Plan, n.Tier}
		k := c.count(at)
		if n.Forgiven > k.forgiven { // on another node
			k.units = max(0, k.units-(n.Forgiven-k.forgiven))
			k.forgiven = n.Forgiven
		}
		if more := n.Units - n.Forgiven - k.units; more > 0 {
			if now.Sub(k.readAt) < raiseEvery { // else nobody knows in which hours that was
				k.add(now, more)
			}
			c.plus(at, k, more, plans[n.Plan].MonthlyUnits, now)
		}
		k.readAt = now
	}
}

// refresh reads the account's totals from the Counter. If that does not answer, memory is the best there is.
func (c *Control) refresh(ctx context.Context, accountID string) {
	if c.opts.Totals == nil {
		return
	}
	c.lock()
	month := c.month
	c.mu.Unlock()
	readings, known, err := c.opts.Totals.Read(ctx, accountID, month)
	if err != nil || !known {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !month.Equal(c.month) {
		return
	}
	for _, r := range readings {
		k := c.count(slot{accountID, r.Plan, r.Tier})
		k.units, k.dayOfAll = r.Units, r.LastDay
	}
}

// restored tells the Counter that an account's keys are on again, and what was forgiven. If that does not
// work, it is retried by Run.
func (c *Control) restored(ctx context.Context, accountID string) {
	if c.opts.Totals == nil {
		return
	}
	c.mu.Lock()
	c.shared.unmark[accountID] = true
	c.mu.Unlock()
	if err := c.retryUnmark(ctx); err != nil && c.opts.Log != nil {
		c.opts.Log.Warn("other nodes will learn later that an account was restored", "account", accountID, "error", err.Error())
	}
}

// retryUnmark tells the Counter about restored accounts that it does not know of yet.
func (c *Control) retryUnmark(ctx context.Context) error {
	c.mu.Lock()
	ids, month := slices.Sorted(maps.Keys(c.shared.unmark)), c.month
	c.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	counts, err := c.store.AbuseCounts(ctx, month, ids...)
	if err == nil {
		err = c.opts.Totals.Raise(ctx, Known{Month: month, Budget: c.budget, Accounts: ids, Counts: counts, Unmark: true})
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.shared.unmark, id)
	}
	return nil
}

// stands reports whether a deactivation is still to be stored. It is not if the account was restored on
// another node meanwhile: then the Counter knows the total, and it is below the budget.
func (c *Control) stands(ctx context.Context, e Event) bool {
	if c.opts.Totals == nil {
		return true
	}
	readings, known, err := c.opts.Totals.Read(ctx, e.AccountID, usage.MonthOf(e.At))
	if err != nil || !known {
		return true
	}
	for _, r := range readings {
		if r.Plan == e.Plan && r.Tier == e.Tier {
			return score(r.Units, c.budget(e.Plan)) == deactivateAt
		}
	}
	return true
}

func (c *Control) budget(p account.Plan) account.Limit { return c.opts.Plans()[p].MonthlyUnits }
