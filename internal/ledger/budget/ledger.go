package budget

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/price"
)

const (
	// patience is how long a call waits for one answer of the database.
	patience = 2 * time.Second
	// settled is for how long a refusal holds without asking the database again. Refused calls are cheap, so this bounds what a
	// caller costs who goes on calling.
	settled = time.Second
	// shortly is when a call that only running calls keep from starting may be tried again.
	shortly = 5 * time.Second
	// keepEvery is how often other servers and pages learn what this one holds.
	keepEvery = time.Second
	// renewEvery is how often a grant that does not change is confirmed, and trusted is for how long it can be used without.
	// After Abandoned, others may take it back.
	renewEvery = 5 * time.Minute
	trusted    = 50 * time.Minute
	// idle is how long a count that is not used stays in memory.
	idle = 10 * time.Minute
	// recalls are the pauses between the looks at what other servers give back before a call is refused.
	recallFirst, recallMost = 20 * time.Millisecond, 700 * time.Millisecond
)

// Abandoned is after what time the grant of a server that is gone belongs to nobody.
const Abandoned = time.Hour

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Node names this server among the others, and Life this process: no two have the same. Default: it is alone; a random text.
	Node, Life string
	// Nodes returns how many servers there are. Default: this one alone.
	Nodes func() int
	// Recall asks the other servers to give back what they do not need of a count; nil: there are none.
	Recall func(ctx context.Context, accountID, count string)
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Log gets what went wrong. Default: no log.
	Log *slog.Logger
}

// lifeText is how long the name of a process is: 60 random bits, to tell it from those that ran on the same server.
const lifeText = 12

// far is how much of what a server holds a call may need, as a divisor, for there to be plenty.
const far = 64

// shards is the number of maps of purses, each with a lock.
const shards = 64

// Ledger is this server's part of all budgets. It is safe for concurrent use.
type Ledger struct {
	store  Store
	opts   Options
	prefix string        // how the names of this process's holders begin
	holder atomic.Uint64 // numbers them
	shards [shards]struct {
		mu     sync.Mutex
		purses map[string]*purse // by account
	}
}

// purse is what this server holds of one account's budgets. One lock for all of them lets a call reserve from all or none.
type purse struct {
	mu     sync.Mutex
	counts map[Key]*count
	old    []*count // those that others have replaced, until the database knows that their calls hold nothing
	gone   bool     // it is no longer in the map
	// periods are those of the budgets that calls came for, by the budgets' ids: finding one takes longer than all the rest.
	periods map[string]period
}

// period is the window of a budget that a call has last met.
type period struct {
	window      account.Window
	zone        string
	from, until time.Time
}

// period is PeriodOf without the first period that counts. The caller holds the lock.
func (p *purse) period(b *account.Budget, now time.Time) int64 {
	if b.Window.Rolls() || b.Window == account.Total {
		at, _ := PeriodOf(b, now)
		return at
	}
	last := p.periods[b.ID]
	if last.window != b.Window || last.zone != b.Timezone || now.Before(last.from) || !now.Before(last.until) {
		last = period{window: b.Window, zone: b.Timezone}
		last.from, last.until = b.Period(now)
		if p.periods == nil {
			p.periods = map[string]period{}
		}
		p.periods[b.ID] = last
	}
	return last.from.UnixMilli()
}

// count is what this server holds of one count. The lock of the purse guards it.
type count struct {
	key    Key
	holder string
	// granted is what the database has granted, used what calls have cost, and open what running calls hold.
	granted, used, open price.Nano
	over                price.Nano // what is spent and granted beyond an amount that was lowered
	amount              price.Nano // of the budget, when it was last asked for
	known               Figures    // as of the last answer
	until               time.Time  // until then, a need of more than is free is refused without asking
	stale               bool       // known is, because somebody has added to the count
	asking              chan struct{}
	failed              chan struct{} // the last question without an answer, and why; the calls that waited for it fail with it
	failure             error
	confirmed           time.Time // when the database last knew of the grant
	wanted              time.Time // when a call last wanted some
	changed             bool      // since the database was told
	// unsure: an answer was lost, so what the database was told may happen at any time, even after what it is told later. The
	// grant can be used, but never grow again; see replace.
	unsure bool
}

// available returns what calls can reserve. What calls give back of an amount that was lowered since is not for others.
func (c *count) available() price.Nano { return c.granted - c.used - c.open - c.over }

// New returns a ledger that holds nothing yet. Opts may be nil.
func New(store Store, opts *Options) *Ledger {
	l := &Ledger{store: store}
	if opts != nil {
		l.opts = *opts
	}
	if l.opts.Nodes == nil {
		l.opts.Nodes = func() int { return 1 }
	}
	if l.opts.Now == nil {
		l.opts.Now = time.Now
	}
	if l.opts.Log == nil {
		l.opts.Log = slog.New(slog.DiscardHandler)
	}
	if l.opts.Life == "" {
		l.opts.Life = rand.Text()[:lifeText] // the grants of an earlier process are not this one's
	}
	l.prefix = nodePrefix(l.opts.Node) + url.QueryEscape(l.opts.Life) + "/"
	for i := range l.shards {
		l.shards[i].purses = map[string]*purse{}
	}
	return l
}

// nodePrefix returns how the names of a server's holders begin. Settlements store them between colons; see usage.Charge.
func nodePrefix(node string) string { return "node/" + url.QueryEscape(node) + "/" }

// Reserve takes what a call may cost from each hard budget, or returns the budget in the way. It asks the database only if what this
// server was granted does not suffice. An error means that nobody can say.
func (l *Ledger) Reserve(ctx context.Context, a *account.Account, dues []Due, need price.Nano) (*Hold, *Obstacle, error) {
	h := hold(dues, need)
	for {
		now := l.opts.Now()
		h.purse = l.purse(a.ID)
		short, ok := h.take(l, now, 1)
		if ok {
			return h, nil, nil
		}
		if o, err := l.ask(ctx, a, h.purse, short, need, now); o != nil || err != nil {
			return nil, o, err
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
}

// ReservePlenty is Reserve if this server holds far more of all hard budgets than the call needs. Otherwise it returns nil and has
// done nothing.
func (l *Ledger) ReservePlenty(a *account.Account, dues []Due, need price.Nano) *Hold {
	h := hold(dues, need)
	h.purse = l.purse(a.ID)
	if _, ok := h.take(l, l.opts.Now(), far); !ok {
		return nil
	}
	return h
}

// hold returns a hold that has taken nothing yet.
func hold(dues []Due, need price.Nano) *Hold {
	h := &Hold{need: need, places: make([]place, len(dues))}
	for i, d := range dues {
		h.places[i].due, h.places[i].key.Count = d, d.Count()
	}
	return h
}

// take reserves from all budgets, if each has times as much as is needed. It returns the place without enough, and takes nothing
// then.
func (h *Hold) take(l *Ledger, now time.Time, times price.Nano) (short *place, ok bool) {
	p := h.purse
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return nil, false
	}
	for i := range h.places {
		at := &h.places[i]
		at.key.Period = p.period(at.due.Budget, now)
		if !at.due.Hard {
			continue
		}
		c := p.count(l, at.key)
		at.count, c.wanted = c, now
		amount := price.Nano(at.due.Amount)
		// Of an amount that was lowered, the grant may be more than there is.
		if c.available()/times < h.need || c.amount != amount || c.stale || since(c.confirmed, now) > trusted {
			return at, false
		}
		at.amount = c.known.Amount
	}
	for i := range h.places {
		if c := h.places[i].count; c != nil {
			c.open += h.need
			c.changed = true
		}
	}
	h.at = l.opts.Now()
	return nil, true
}

// ask asks the database for more of a count, unless it has just said that there is none. One call asks at a time, and the others
// wait for the answer. It returns nothing if it is worth trying again.
func (l *Ledger) ask(ctx context.Context, a *account.Account, p *purse, at *place, need price.Nano, now time.Time) (*Obstacle, error) {
	if at == nil {
		return nil, nil // the purse has just been put away
	}
	c, amount := at.count, price.Nano(at.due.Amount)
	p.mu.Lock()
	if p.counts[c.key] != c {
		p.mu.Unlock()
		return nil, nil // another one has taken its place
	}
	if c.asking != nil {
		wait := c.asking
		p.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if c.failed == wait { // asking again, each in turn, would take hours if a database hangs
			return nil, unreadable(at.due, c.failure)
		}
		return nil, nil
	}
	if c.amount == amount && now.Before(c.until) && need-c.available() > c.known.Free {
		defer p.mu.Unlock()
		return c.obstacle(at.due, need, now), nil
	}
	var f Figures
	var err error
	replace := c.unsure || c.lapsed(now)
	c.asking, c.stale = make(chan struct{}), false
	p.mu.Unlock()
	if replace {
		err = l.replace(ctx, p, c)
	} else {
		f, err = l.grant(ctx, a, p, c, at.due, need)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := c.asking
	close(asked)
	c.asking = nil
	if replace && err == nil {
		return nil, nil
	}
	if err != nil {
		c.unsure, c.changed = true, true
		c.failed, c.failure = asked, err
		return nil, unreadable(at.due, err)
	}
	c.amount, c.known, c.confirmed, c.until = amount, f, l.opts.Now(), time.Time{}
	c.over = max(0, f.Spent+f.Others+max(0, f.Granted-f.Committed)-f.Amount)
	if c.available() < need {
		c.until = c.confirmed.Add(settled)
		return c.obstacle(at.due, need, now), nil
	}
	return nil, nil
}

// unreadable is the fault of a question that the database did not answer.
func unreadable(due Due, err error) error {
	return fault.New(fault.Unavailable, "What is left of the budget %q cannot be read at the moment. Try again shortly.", due.Name).After(5 * time.Second).Because(err)
}

// lapsed reports whether others may have taken the grant back.
func (c *count) lapsed(now time.Time) bool {
	return !c.confirmed.IsZero() && since(c.confirmed, now) > trusted
}

// since returns how long ago something was. While a machine sleeps, the clock that durations are measured by may stand still, so what
// the clock on the wall says counts if that is more.
func since(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// replace gives back what a count does not need, and lets another holder take its place: what the database was told earlier of the
// grant of this one, and what it still may do about that, concerns the other one not at all.
func (l *Ledger) replace(ctx context.Context, p *purse, c *count) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	p.mu.Lock()
	c.granted = c.used + c.open
	grant := Grant{c.key, c.holder, c.granted, c.open}
	p.mu.Unlock()
	if _, err := l.tell(ctx, []Grant{grant}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.counts, c.key)
	p.old = append(p.old, c)
	return nil
}

// grant asks for what a call needs, and if there is not enough, again when other servers had time to give back what they do not
// need.
func (l *Ledger) grant(ctx context.Context, a *account.Account, p *purse, c *count, due Due, need price.Nano) (f Figures, err error) {
	// Calls wait for the answer to another one, so it does not end with its caller.
	ctx = context.WithoutCancel(ctx)
	nodes := price.Nano(max(1, l.opts.Nodes()))
	for pause := recallFirst; ; pause *= 2 {
		p.mu.Lock()
		// What calls do not hold is given back with the question: the amount may be another one by now.
		c.granted = c.used + c.open
		ask := Ask{Grant: Grant{c.key, c.holder, c.granted, c.open}, AccountID: a.ID, Amount: price.Nano(due.Amount), Need: need, Share: share(price.Nano(due.Amount), nodes)}
		p.mu.Unlock()
		_, ask.Since = PeriodOf(due.Budget, l.opts.Now())
		if f, err = l.answer(ctx, ask); err != nil {
			return f, err
		}
		p.mu.Lock()
		c.granted += f.Granted - ask.Granted
		p.mu.Unlock()
		if f.Granted > ask.Granted || nodes == 1 || l.opts.Recall == nil || f.Free+f.Others-f.Reserved < need || pause > recallMost {
			return f, nil
		}
		if pause == recallFirst {
			l.opts.Recall(ctx, a.ID, c.key.Count)
		}
		if err := pace.Sleep(ctx, pause); err != nil {
			return f, err
		}
	}
}

// share returns how much of an amount a server asks for at once. One that is alone takes all; several leave some for each other.
func share(amount, nodes price.Nano) price.Nano {
	if nodes == 1 {
		return price.Nano(account.MaxBudget) * 2
	}
	return amount / (4 * nodes)
}

// answer asks the store, within a time.
func (l *Ledger) answer(ctx context.Context, a Ask) (Figures, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return l.store.Grant(ctx, a)
}

// obstacle returns why the call cannot start. The caller holds the lock of the purse.
func (c *count) obstacle(due Due, need price.Nano, now time.Time) *Obstacle {
	o := &Obstacle{Status: statusOf(due, c.known, c, now), Needed: need}
	// What other servers have and did not give back is theirs, whether or not they have said by now what their calls hold of it.
	if o.Left >= need {
		o.Left = max(0, c.known.Free+c.available())
		o.Reserved = max(0, o.Amount-o.Spent-o.Left)
	}
	switch {
	case need > o.Amount: // never
	case need <= o.Amount-o.Spent: // when calls that run have ended
		o.Wait = shortly
	case !o.ResetsAt.IsZero():
		o.Wait = max(time.Second, o.ResetsAt.Sub(now))
	}
	return o
}

// statusOf returns how a count stands, by what the database knows and, unless c is nil, by what this server knows beyond that.
func statusOf(due Due, f Figures, c *count, now time.Time) Status {
	s := Status{Due: due, Amount: f.Amount, Spent: f.Spent, Reserved: f.Reserved}
	if c != nil {
		s.Spent += max(0, c.used-f.Committed)
		s.Reserved += c.open
	}
	s.Left = max(0, s.Amount-s.Spent-s.Reserved)
	_, s.ResetsAt = due.Period(now)
	return s
}

// purse returns the purse of an account.
func (l *Ledger) purse(accountID string) *purse {
	s := &l.shards[shardOf(accountID)]
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.purses[accountID]
	if p == nil {
		p = &purse{counts: map[Key]*count{}}
		s.purses[accountID] = p
	}
	return p
}

// shardOf spreads accounts by their ids, which are random.
func shardOf(accountID string) (n uint8) {
	for i := range len(accountID) {
		n = n*31 + accountID[i]
	}
	return n % shards
}

// count returns what is held of a count. The caller holds the lock.
func (p *purse) count(l *Ledger, k Key) *count {
	c := p.counts[k]
	if c == nil {
		// A count that was put away and is wanted again is another holder: what it has is told as a whole.
		c = &count{key: k, holder: l.prefix + strconv.FormatUint(l.holder.Add(1), 36)}
		p.counts[k] = c
	}
	return c
}
