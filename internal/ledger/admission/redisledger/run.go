package redisledger

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"sluice/internal/ledger/admission"
)

// Run renews the slots of this node, sends what calls leave behind, and brings the node back to Redis after an
// outage. It returns when ctx is done, after it has sent the rest.
//
// One goroutine sends the queue, so that a slow renewal never delays the ends of calls; this one
// beats. The last Flush has a deadline of its own, because ctx is done by then.
func (l *Ledger) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() {
		var rested <-chan time.Time // nil: nothing rests
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.queue.due.C:
				l.queue.armed.Store(false) // what is put from here on is for the next time
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
	return nil
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

// step does what is due: a look at the data in Redis, and then either the work of a node that counts in Redis or the
// return to Redis.
// An error at any point leaves the node as it was, and the next step tries again.
func (l *Ledger) step(ctx context.Context) {
	if err := l.beat(ctx); err != nil {
		l.state.failed(err)
		return
	}
	if !l.state.exact() {
		// Redis lost its data less than a minute ago. What it admitted before still counts against
		// the minute and nobody knows how much it was, so the node stays on its share until that
		// minute is over.
		if l.table.fresh.Load() {
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
	l.units.sweep(l.clock.now())
	l.queue.nudge()
	if err := l.upkeep(ctx); err != nil {
		l.state.failed(err)
	}
}

// upkeep renews the slots of running calls, and tells Redis what single calls left here when it did not
// answer them.
// A slot is renewed once its call has been running for a third of a lease, and then at every beat;
// most calls end earlier and are never renewed.
func (l *Ledger) upkeep(ctx context.Context) error {
	third := l.opts.Lease.Milliseconds() / 3
	var orders []order
	for id, slots := range l.calls.slots(l.clock.millis() - third) {
		for some := range slices.Chunk(slots, piece) {
			orders = append(orders, order{script: renewScript, keys: l.keys(id), args: l.slotArgs([]string{l.clock.arg(), itoa(l.opts.Lease.Milliseconds())}, some)})
		}
	}
	if _, err := l.sendAll(ctx, orders); err != nil {
		return err
	}
	return l.tell(ctx, false)
}

// tell writes to Redis what this node has admitted on its own and has not told yet, with the slots of the
// calls that are still running. After an outage these are the slots of all running calls: the leases of
// those that Redis had admitted may have ended.
//
// A call that ends while this runs may be told as it was before, and then stays counted until its minute is
// over. What has arrived is not told again if the rest fails. Of one batch nobody may know whether it has
// arrived, and that one is told again: rather twice than not at all.
func (l *Ledger) tell(ctx context.Context, returning bool) error {
	now := l.clock.millis()
	owed := l.debts.list(now)
	if !returning && len(owed) == 0 {
		return nil
	}
	slots := l.calls.slots(now)
	// Accounts that owe nothing may still have running calls, whose slots Redis must know before
	// it admits more.
	if returning {
		for id := range slots {
			if _, ok := owed[id]; !ok {
				owed[id] = now // nothing but its slots
			}
		}
	}
	var posts []post
	var orders []order
	for id, upTo := range owed {
		for _, p := range l.posts(id, slots[id], upTo, now) {
			posts, orders = append(posts, p), append(orders, p.order)
		}
	}
	// The posts of one account are in the order of time, so the last that has arrived says up to
	// when Redis knows everything.
	sent, err := l.sendAll(ctx, orders)
	for _, p := range posts[:sent] {
		l.debts.told(p.account, p.upTo)
	}
	if err != nil {
		return err
	}
	for id := range owed {
		l.debts.told(id, now)
	}
	return nil
}

// post is an order that tells some of an account's entries and slots. With it Redis knows the entries up to a
// time.
type post struct {
	order   order
	account string
	upTo    int64
}

// record is what an account took in one millisecond.
type record struct {
	at   int64
	cost admission.Cost
}

// records returns what this node has counted for an account after one time and up to another, in the order of
// time, with one record for each.
func (l *Ledger) records(accountID string, after, upTo int64) (all []record) {
	l.local.Since(accountID, after, func(at int64, c admission.Cost) {
		if at <= upTo { // later ones are not complete yet: their millisecond is not over
			all = append(all, record{at, c})
		}
	})
	slices.SortStableFunc(all, func(a, b record) int { return cmp.Compare(a.at, b.at) })
	// Entries of one millisecond become one record, in place: the script keeps one entry for each
	// time.
	n := 0
	for _, r := range all {
		if n > 0 && all[n-1].at == r.at {
			all[n-1].cost.RequestMilli += r.cost.RequestMilli
			all[n-1].cost.Tokens += r.cost.Tokens
			continue
		}
		all[n] = r
		n++
	}
	return all[:n]
}

// posts returns the orders that tell entries after one time and up to another, and slots. There are none if
// there is nothing to tell. Redis does nothing else while it runs a script, so none is long.
func (l *Ledger) posts(accountID string, slots []uint64, after, upTo int64) (all []post) {
	records := l.records(accountID, after, upTo)
	keys := l.keys(accountID)
	for len(records)+len(slots) > 0 {
		some, n := records[:min(len(records), piece)], min(len(slots), piece)
		// If records remain for a later post, this one only covers the time up to its own last
		// record.
		told := upTo
		if records = records[len(some):]; len(records) > 0 {
			told = some[len(some)-1].at
		}
		text := make([]byte, 0, recordSize*len(some))
		for _, r := range some {
			text = appendNumber(appendNumber(appendNumber(text, l.clock.shared(r.at)), r.cost.RequestMilli), r.cost.Tokens)
		}
		numbers := appendNumber(appendNumber(nil, l.clock.number()), l.opts.Lease.Milliseconds())
		args := l.slotArgs([]string{string(numbers), string(text)}, slots[:n])
		slots = slots[n:]
		all = append(all, post{order{script: postScript, keys: keys, args: args}, accountID, told})
	}
	return all
}

// slotArgs appends the names of slots to the arguments of a script.
func (l *Ledger) slotArgs(args []string, slots []uint64) []string {
	for _, slot := range slots {
		args = append(args, string(l.appendSlot(nil, slot)))
	}
	return args
}

// beat checks that the data in Redis is what this node knows. It connects if there is no connection.
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
// It is a channel and not a mutex so that waiting ends with the deadline of the caller.
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
// It is called after a batch has run on the connection, and its error makes the caller discard the
// replies. Three attempts are enough for a connection that breaks while it is being checked; one
// that keeps breaking is reported as unstable.
func (l *Ledger) verify(ctx context.Context) error {
	ctx, cancel := timed(ctx)
	defer cancel()
	if err := l.lockBeat(ctx); err != nil {
		return err
	}
	defer l.unlockBeat()
	for range 3 {
		if !l.link.suspect() {
			if !l.state.exact() && l.table.fresh.Load() {
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
	// A server that has just started knows no scripts. Loading them now saves the next calls a
	// round trip.
	if l.link.suspect() {
		c.load(ctx)
	}
	// Read before the script runs: a connection made meanwhile must stay suspect.
	dials := l.link.dials.Load()
	list := ""
	if number, current := l.members.List(); current {
		list = itoa(number)
	}
	sent := l.clock.elapsed()
	s, err := readSighting(runOne(ctx, c, order{script: beatScript, keys: l.tableKey(), args: []string{l.clock.arg(), l.table.born, list}}))
	if err != nil {
		return err
	}
	// This node follows the database itself and has just told Redis the number of its lists, so it
	// does not need the number that others left there.
	if list != "" {
		s.list = -1
	}
	l.clock.adjust(s.now, sent)
	if l.table.update(s) {
		l.state.open(errDataLost)
	}
	l.link.verified.Store(dials)
	return l.table.keep(ctx)
}
