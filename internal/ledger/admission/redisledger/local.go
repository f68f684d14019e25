package redisledger

import (
	"sync"

	"sluice/internal/account"
	"sluice/internal/ledger/admission"
)

// takeLocal admits a call on this node's share of the limits.
// What the caller sees is widened from the share to the whole limit: headers name the limit of the
// plan, whichever way calls are counted.
func (l *Ledger) takeLocal(accountID string, limits account.Limits, c admission.Cost) (admission.Place, admission.Headroom, *admission.Obstacle) {
	views := l.views()
	shares := admission.Shares(views, accountID, limits)
	p, headroom, o := l.local.Take(accountID, shares, c)
	headroom = headroom.Widen(limits, shares)
	if o != nil {
		return admission.Place{}, headroom, o.Widen(limits, shares, views, c)
	}
	l.debts.mark(accountID, l.clock.millis())
	l.state.local.Add(1)
	p.Slot = l.slots.Add(1) | localSlot
	l.calls.add(p.Slot, running{account: accountID, since: l.clock.millis(), place: p})
	return p, headroom, nil
}

// freeLocal ends a call that this node admitted on its own. It leaves in the operation what Redis must be
// told: the slot, and what comes back if Redis knows the entry, with the entry's time there. What was used beyond
// the reservation counts here and is written to Redis with the rest.
func (l *Ledger) freeLocal(accountID string, p admission.Place, used admission.Cost, o *op) {
	l.local.Free(accountID, p, used)
	if o.tokens < 0 {
		l.debts.mark(accountID, l.clock.millis())
		o.tokens = 0
	}
	if !l.debts.posted(accountID, max(p.RequestsAt, p.TokensAt)) {
		o.requests, o.tokens = 0, 0
	}
	o.requestsAt, o.tokensAt = l.clock.shared(o.requestsAt), l.clock.shared(o.tokensAt)
}

// owe counts tokens here that Redis could not be told about.
func (l *Ledger) owe(accountID string, tokens int64) {
	l.local.Restore(accountID, 0, admission.Cost{Tokens: tokens})
	l.debts.mark(accountID, l.clock.millis())
}

// calls are the running calls of this node, by slot. Shards keep their locks apart.
type calls struct{ shards [16]callShard }

type callShard struct {
	mu sync.Mutex
	// byID is keyed by slot; slots of calls that this node admitted on its own have the bit
	// localSlot.
	byID map[uint64]running
}

// running is a call that holds a slot.
type running struct {
	account string
	since   int64           // milliseconds
	place   admission.Place // in the local ledger, if this node admitted it on its own
	last    bool            // it took the last of the account's slots
}

func (c *calls) init() {
	for i := range c.shards {
		c.shards[i].byID = map[uint64]running{}
	}
}

// add notes a call that has got its slot.
func (c *calls) add(slot uint64, r running) {
	s := &c.shards[slot%uint64(len(c.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[slot] = r
}

// remove forgets a call and returns what was known of it. It reports false if the slot is not
// known.
func (c *calls) remove(slot uint64) (running, bool) {
	s := &c.shards[slot%uint64(len(c.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byID[slot]
	delete(s.byID, slot)
	return r, ok
}

// slots returns the slots of calls that have been running since a time, by account.
func (c *calls) slots(since int64) map[string][]uint64 {
	found := map[string][]uint64{}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for slot, r := range s.byID {
			if r.since <= since {
				found[r.account] = append(found[r.account], slot)
			}
		}
		s.mu.Unlock()
	}
	return found
}

// debts knows for which accounts this node has counted something that Redis must be told, and up to which
// time it has been told.
type debts struct {
	mu        sync.Mutex
	byAccount map[string]debt
}

// debt is what is known of one account, in milliseconds.
type debt struct {
	told   int64 // Redis knows everything up to this time; 0: nothing yet
	marked int64 // when something was counted here last
}

// mark notes that something was counted here.
func (d *debts) mark(accountID string, now int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byAccount[accountID] = debt{d.byAccount[accountID].told, now}
}

// posted reports whether Redis has the entry of that time.
func (d *debts) posted(accountID string, at int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return at <= d.byAccount[accountID].told
}

// list returns up to which time all accounts have been told, and forgets those of which everything has
// expired.
func (d *debts) list(now int64) map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]int64, len(d.byAccount))
	for id, debt := range d.byAccount {
		if max(debt.told, debt.marked+1)+span <= now {
			delete(d.byAccount, id)
			continue
		}
		all[id] = debt.told
	}
	return all
}

// told notes that Redis knows everything up to a time.
func (d *debts) told(accountID string, upTo int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if debt, ok := d.byAccount[accountID]; ok {
		debt.told = max(upTo, debt.told)
		d.byAccount[accountID] = debt
	}
}
