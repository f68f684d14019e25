package budget

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/price"
)

// mostKept is how many grants one statement tells the database of.
const mostKept = 500

// Run tells the database what this server holds, until ctx ends, and gives back what it does not need for long.
func (l *Ledger) Run(ctx context.Context) {
	failing := false
	for range pace.Every(ctx, keepEvery) {
		err := l.keep(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			l.opts.Log.Warn("what this server holds of budgets could not be stored; it goes on with what it has", "error", err.Error())
		}
		failing = err != nil
	}
}

// keep tells the database of counts that have changed or were not confirmed for a while, and puts away those that are not used.
func (l *Ledger) keep(ctx context.Context) error {
	now, alone := l.opts.Now(), l.opts.Nodes() <= 1
	var told []*count
	var by []*purse
	var grants []Grant
	for id, p := range l.all() {
		p.mu.Lock()
		for _, c := range p.all() {
			if c.empty() && since(c.wanted, now) > settled {
				p.drop(c) // calls were refused: the next one may be in the name of another session
				continue
			}
			unused := p.unused(c, now)
			// Nobody waits for the figures of a server that is alone.
			if c.asking != nil || !unused && (!c.changed || alone) && since(c.confirmed, now) < renewEvery {
				continue
			}
			if c.asking, c.changed = make(chan struct{}), false; unused || c.lapsed(now) || p.counts[c.key] != c {
				c.granted = c.used + c.open
			}
			// Others may have taken the grant back while the database did not answer; then this tells it nothing.
			c.unsure = c.unsure || c.lapsed(now)
			told, by, grants = append(told, c), append(by, p), append(grants, Grant{c.key, c.holder, c.granted, c.open})
		}
		empty := len(p.counts)+len(p.old) == 0
		p.mu.Unlock()
		if empty {
			l.putAway(id, p)
		}
	}
	var failed error
	var gone map[string]bool
	for part := range slices.Chunk(grants, mostKept) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		lost, err := l.tell(ctx, part)
		if err != nil {
			failed = err
		}
		if gone == nil {
			gone = lost
		} else {
			maps.Copy(gone, lost)
		}
		if cancel(); failed != nil {
			break // calls wait for these counts, and the next part would hang as long
		}
	}
	for i, c := range told {
		by[i].mu.Lock()
		close(c.asking)
		c.asking = nil
		if gone[c.holder] {
			if !c.unsure {
				l.opts.Log.Warn("the database no longer knows what this server was granted of a budget, so this server does not use it", "budget", c.key.Count)
			}
			c.lose()
		}
		switch {
		case failed != nil:
			c.changed, c.unsure = true, true
		case by[i].unused(c, now) && c.granted == c.used:
			by[i].drop(c)
		default:
			c.confirmed = now
		}
		by[i].mu.Unlock()
	}
	return failed
}

// tell tells the database of grants, and returns the holders of those that it does not know. It took them back, or has forgotten that
// it made them: after a failure of PostgreSQL with a replica that was behind, or if its clock has jumped.
func (l *Ledger) tell(ctx context.Context, grants []Grant) (gone map[string]bool, err error) {
	err = l.store.Keep(ctx, grants)
	var back *TakenBack
	if !errors.As(err, &back) {
		return nil, err
	}
	gone = make(map[string]bool, len(back.Grants))
	for _, g := range back.Grants {
		gone[g.Holder] = true
	}
	return gone, nil
}

// lose stops the use of a grant that others may have by now. The caller holds the lock.
func (c *count) lose() { c.granted, c.unsure = c.used+c.open, true }

// all returns all counts. The caller holds the lock.
func (p *purse) all() []*count { return slices.AppendSeq(slices.Clone(p.old), maps.Values(p.counts)) }

// unused reports whether nobody needs a count. The caller holds the lock.
func (p *purse) unused(c *count, now time.Time) bool {
	return c.open == 0 && (p.counts[c.key] != c || now.Sub(c.wanted) > idle)
}

// empty reports whether a count was granted nothing and holds nothing, and the database knows that. The caller holds the lock.
func (c *count) empty() bool {
	return c.asking == nil && !c.unsure && c.known.Granted == 0 && c.granted == 0 && c.used == 0 && c.open == 0
}

// drop removes a count. The caller holds the lock.
func (p *purse) drop(c *count) {
	if p.counts[c.key] == c {
		delete(p.counts, c.key)
		return
	}
	p.old = slices.DeleteFunc(p.old, func(o *count) bool { return o == c })
}

// quiet waits until nobody asks the database about the counts that match, and returns with the lock held, unless ctx ends.
func (p *purse) quiet(ctx context.Context, match func(*count) bool) error {
	for {
		p.mu.Lock()
		all := p.all()
		i := slices.IndexFunc(all, func(c *count) bool { return c.asking != nil && match(c) })
		if i < 0 {
			return nil
		}
		asking := all[i].asking
		p.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// all returns the purses of all accounts.
func (l *Ledger) all() map[string]*purse {
	all := map[string]*purse{}
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		maps.Copy(all, s.purses)
		s.mu.Unlock()
	}
	return all
}

// putAway removes a purse that has no counts.
func (l *Ledger) putAway(accountID string, p *purse) {
	s := &l.shards[shardOf(accountID)]
	s.mu.Lock()
	defer s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.counts)+len(p.old) == 0 {
		p.gone = true
		delete(s.purses, accountID)
	}
}

// GiveBack gives back what calls do not hold of a count, because another server needs it.
func (l *Ledger) GiveBack(ctx context.Context, accountID, name string) error {
	s := &l.shards[shardOf(accountID)]
	s.mu.Lock()
	p := s.purses[accountID]
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// A count that is being asked for has given back what it can; one that is only being confirmed has not.
	spare := func(c *count) bool { return c.key.Count == name && c.available() > 0 }
	if err := p.quiet(ctx, spare); err != nil {
		return err
	}
	var told []*count
	var grants []Grant
	for _, c := range p.counts {
		if spare(c) {
			c.asking, c.granted = make(chan struct{}), c.used+c.open
			told, grants = append(told, c), append(grants, Grant{c.key, c.holder, c.granted, c.open})
		}
	}
	p.mu.Unlock()
	if len(grants) == 0 {
		return nil
	}
	gone, err := l.tell(ctx, grants)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range told {
		close(c.asking)
		if c.asking = nil; gone[c.holder] {
			c.lose()
		}
		if err != nil {
			c.changed, c.unsure = true, true
		}
	}
	return err
}

// Close gives back everything that calls do not hold. Calls that end later are settled as ever.
func (l *Ledger) Close(ctx context.Context) error {
	var grants []Grant
	for _, p := range l.all() {
		if err := p.quiet(ctx, func(*count) bool { return true }); err != nil {
			return err
		}
		for _, c := range p.all() {
			c.granted, c.unsure = c.used+c.open, true // a call that still comes asks as somebody else
			grants = append(grants, Grant{c.key, c.holder, c.granted, c.open})
		}
		p.mu.Unlock()
	}
	for part := range slices.Chunk(grants, mostKept) {
		if _, err := l.tell(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// Begin takes back what earlier processes of this server were granted. Everything that they have settled must be in the database;
// what they had not settled when they died has cost nothing that anybody saw.
func (l *Ledger) Begin(ctx context.Context) error {
	return l.store.Forget(ctx, nodePrefix(l.opts.Node), l.prefix)
}

// Changed makes the next call ask the database how a count stands, because somebody has added to it.
func (l *Ledger) Changed(accountID, name string) {
	p := l.purse(accountID)
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, c := range p.counts {
		if k.Count == name {
			c.until, c.stale = time.Time{}, true
		}
	}
}

// Statuses returns how budgets stand now. What calls on other servers have cost in the last second may be missing.
func (l *Ledger) Statuses(ctx context.Context, a *account.Account, dues []Due) ([]Status, error) {
	now := l.opts.Now()
	asks := make([]Ask, len(dues))
	for i, d := range dues {
		period, since := PeriodOf(d.Budget, now)
		asks[i] = Ask{Grant: Grant{Key: Key{d.Count(), period}}, Since: since, Amount: price.Nano(d.Amount)}
	}
	p := l.purse(a.ID)
	p.mu.Lock()
	for i := range asks {
		if c := p.counts[asks[i].Key]; c != nil {
			asks[i].Holder = c.holder
		}
	}
	p.mu.Unlock()
	figures, err := l.store.Figures(ctx, asks)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Status, len(dues))
	for i, d := range dues {
		c := p.counts[asks[i].Key]
		if c != nil && c.holder != asks[i].Holder {
			c = nil
		}
		all[i] = statusOf(d, figures[i], c, now)
	}
	return all, nil
}
