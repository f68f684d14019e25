package redisledger

import (
	"context"
	"sync"
	"time"

	"sluice/internal/admission"
)

// Run keeps the node's place among the others, renews its slots, sends what calls leave behind, and brings
// the node back to Redis after an outage. It returns when ctx is done, after it has sent the rest and taken
// the node off the list.
func (l *Ledger) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() {
		var rested <-chan time.Time // nil: nothing rests
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.queue.wake:
				pause(ctx, gather)
				l.Flush(ctx)
			case <-l.units.resting:
				if rested == nil {
					rested = time.After(addEvery)
				}
			case <-rested:
				rested = nil
				l.units.rested()
			}
		}
	})
	for ctx.Err() == nil {
		l.rest(ctx)
		if ctx.Err() == nil {
			l.step(ctx)
		}
	}
	wg.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*l.opts.Deadline)
	defer cancel()
	l.units.rested()
	l.Flush(last)
	l.leave(last)
	return nil
}

// pause waits for some time, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// rest waits until the next step is due.
func (l *Ledger) rest(ctx context.Context) {
	pause := l.opts.Beat
	if !l.state.exact() {
		pause = l.opts.Probe
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-l.state.changed: // from now on it probes
	}
}

// step does what is due: a sign of life, and then either the work of a node that counts in Redis or the
// return to Redis.
func (l *Ledger) step(ctx context.Context) {
	if err := l.beat(ctx); err != nil {
		l.state.failed(err)
		return
	}
	if !l.state.exact() {
		if l.nodes.waiting() {
			return
		}
		// First Redis learns what happened here. Until then this node still goes by its shares, so that
		// nothing is admitted twice.
		if err := l.tell(ctx, true); err != nil {
			l.state.failed(err)
			return
		}
		l.state.close()
	}
	l.units.resend()
	l.queue.nudge()
	if err := l.upkeep(ctx); err != nil {
		l.state.failed(err)
	}
}

// upkeep renews the slots of running calls, and tells Redis what single calls left here when it did not
// answer them.
func (l *Ledger) upkeep(ctx context.Context) error {
	third := l.opts.Lease.Milliseconds() / 3
	var orders []order
	for id, slots := range l.calls.slots(l.clock.millis() - third) {
		orders = append(orders, order{script: renewScript, keys: l.keys(id), args: l.slotArgs([]string{l.clock.arg(), itoa(l.opts.Lease.Milliseconds())}, slots)})
	}
	if err := l.sendAll(ctx, orders); err != nil {
		return err
	}
	return l.tell(ctx, false)
}

// tell writes to Redis what this node has admitted on its own and has not told yet, with the slots of the
// calls that are still running. After an outage these are the slots of all running calls: the leases of
// those that Redis had admitted may have ended.
//
// A call that ends while this runs may be told as it was before, and then stays counted until its minute is
// over.
func (l *Ledger) tell(ctx context.Context, returning bool) error {
	now := l.clock.millis()
	owed := l.debts.list(now)
	if !returning && len(owed) == 0 {
		return nil
	}
	slots := l.calls.slots(now)
	if returning {
		for id := range slots {
			if _, ok := owed[id]; !ok {
				owed[id] = now // nothing but its slots
			}
		}
	}
	var orders []order
	for id, upTo := range owed {
		if o, ok := l.postOrder(id, slots[id], upTo, now); ok {
			orders = append(orders, o)
		}
	}
	if err := l.sendAll(ctx, orders); err != nil {
		return err // entries that did arrive are told again: rather twice than not at all
	}
	for id := range owed {
		l.debts.told(id, now)
	}
	return nil
}

// postOrder returns the order that tells entries after one time and up to another, and slots. It reports
// false if there are none.
func (l *Ledger) postOrder(accountID string, slots []uint64, after, upTo int64) (order, bool) {
	var records []byte
	l.local.Since(accountID, after, func(at int64, c admission.Cost) {
		if at <= upTo { // later ones are not complete yet: their millisecond is not over
			records = appendNumber(appendNumber(appendNumber(records, at), c.RequestMilli), c.Tokens)
		}
	})
	numbers := appendNumber(appendNumber(nil, l.clock.number()), l.opts.Lease.Milliseconds())
	args := l.slotArgs([]string{string(numbers), string(records)}, slots)
	return order{script: postScript, keys: l.keys(accountID), args: args}, len(records)+len(slots) > 0
}

func (l *Ledger) slotArgs(args []string, slots []uint64) []string {
	for _, slot := range slots {
		args = append(args, string(l.appendSlot(nil, slot)))
	}
	return args
}

// beat tells Redis that this node lives, and learns who else does. It connects if there is no connection.
func (l *Ledger) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Deadline)
	defer cancel()
	if err := l.lockBeat(ctx); err != nil {
		return err
	}
	defer l.unlockBeat()
	return l.beatLocked(ctx)
}

// lockBeat waits until nobody else beats.
func (l *Ledger) lockBeat(ctx context.Context) error {
	select {
	case l.beating <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Ledger) unlockBeat() { <-l.beating }

// verify checks that the Redis behind a new connection is the one that we know.
func (l *Ledger) verify(ctx context.Context) error {
	if err := l.lockBeat(ctx); err != nil {
		return err
	}
	defer l.unlockBeat()
	for range 3 {
		if !l.link.suspect() {
			if !l.state.exact() && l.nodes.waiting() {
				return errDataLost
			}
			return nil
		}
		if err := l.beatLocked(ctx); err != nil {
			return err
		}
	}
	return errUnstable
}

// beatLocked is beat; the caller has called lockBeat.
func (l *Ledger) beatLocked(ctx context.Context) error {
	c, err := l.link.connect()
	if err != nil {
		return err
	}
	if l.link.suspect() {
		c.load(ctx)
	}
	for range 2 {
		dials := l.link.dials.Load()
		version, born, members := l.nodes.known()
		if born == "" {
			born = l.opts.Table
		}
		args := append([]string{
			l.clock.arg(), l.opts.Node, version, itoa(l.opts.Forget.Milliseconds()), itoa(3 * l.opts.Beat.Milliseconds()), born,
		}, members...)
		sent := l.clock.elapsed()
		s, err := readSighting(runOne(ctx, c, order{script: beatScript, keys: l.nodeKeys(), args: args}))
		if err != nil {
			return err
		}
		l.clock.adjust(s.now, sent)
		lost, again := l.nodes.update(l.opts.Node, s)
		if lost {
			l.state.open(errDataLost)
		}
		l.link.verified.Store(dials)
		// Should it fail, the next beat tries again. Until then the memory names an older table, which a node that
		// starts takes for a loss: that is the safe side.
		if s.born != l.remembered && l.opts.Remember(ctx, s.born) == nil {
			l.remembered = s.born
		}
		if !again {
			break
		}
	}
	return nil
}

// leave takes this node off the list, so that the others get its share at once. If Redis does not answer,
// they get it when the node has been silent for a while.
func (l *Ledger) leave(ctx context.Context) {
	if c := l.link.transport(); c != nil && l.state.exact() {
		runOne(ctx, c, order{script: leaveScript, keys: l.nodeKeys(), args: []string{l.opts.Node}})
	}
}
