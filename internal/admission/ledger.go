package admission

import (
	"hash/maphash"
	"sync"
	"time"

	"sluice/internal/account"
)

// Ledger keeps what accounts are using: their minute of requests and tokens, and their running calls.
type Ledger interface {
	// Take takes a place for the cost, or says what is in the way. It takes all or nothing.
	Take(accountID string, limits account.Limits, c Cost) (Place, Standing, *Obstacle)
	// Peek is the account's standing without taking anything.
	Peek(accountID string, limits account.Limits) Standing
	// Free ends a place. Used is what the call came to; what was taken beyond it comes back.
	Free(accountID string, p Place, used Cost)
	// GiveBack returns requests of a place that has ended, as far as they still count.
	GiveBack(accountID string, p Place, requestMilli int64)
}

// Cost is what a call takes when it starts, and what it came to when it ends.
type Cost struct {
	RequestMilli int64 // thousandths of a request
	Tokens       int64
}

// Place is what was taken, to be freed.
type Place struct {
	cost       Cost
	requestsAt int64
	tokensAt   int64
}

// Standing is how an account stands with its limits; what is unlimited has no figures.
type Standing struct {
	Requests, Tokens Meter
}

// Meter is one limit and what is left of it.
type Meter struct {
	Limit     account.Limit
	Used      int64 // thousandths of requests, or tokens; may exceed the limit
	Remaining int64 // whole requests, rounded down, or tokens
	Reset     time.Duration
}

// Resource is what can run out.
type Resource uint8

const (
	Requests Resource = iota + 1
	Tokens
	Slots
)

// Obstacle is why a place cannot be had now.
type Obstacle struct {
	Resource Resource
	Limit    account.Limit
	Used     int64         // thousandths of requests, tokens, or running calls
	Wait     time.Duration // until it would pass, where time alone mends it
	Never    bool          // the cost exceeds the whole limit
}

const shards = 64

// Memory is the ledger of a single process. Accounts are spread over shards, so that no lock is
// shared by all requests; an account that has used nothing for a minute is forgotten.
type Memory struct {
	now    func() time.Duration // a clock that only goes forward
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu       sync.Mutex
	accounts map[string]*use
	swept    int // accounts left by the last sweep
}

// use is what one account uses; its shard's mutex guards it.
type use struct {
	requests window
	tokens   window
	running  int64
	room     [2][2]entry // for the first entries of each window: most accounts have no more at a time
}

func newUse() *use {
	u := &use{}
	u.requests.entries, u.tokens.entries = u.room[0][:0], u.room[1][:0]
	return u
}

// NewMemory returns an empty ledger. The clock is for tests; nil: the time since now, which no step of
// the wall clock changes.
func NewMemory(now func() time.Duration) *Memory {
	if now == nil {
		start := time.Now()
		now = func() time.Duration { return time.Since(start) }
	}
	m := &Memory{now: now, seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].accounts = map[string]*use{}
	}
	return m
}

// Take implements Ledger.
func (m *Memory) Take(accountID string, limits account.Limits, c Cost) (Place, Standing, *Obstacle) {
	s := m.shard(accountID)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.millis() // inside the lock: an older reading would see a fuller window
	u := s.use(accountID, now)
	if o := u.obstacle(now, limits, c); o != nil {
		return Place{}, u.standing(now, limits), o
	}
	p := Place{cost: c}
	if limits.RequestsPerMinute != account.Unlimited {
		p.requestsAt = u.requests.take(now, c.RequestMilli)
	}
	if limits.TokensPerMinute != account.Unlimited {
		p.tokensAt = u.tokens.take(now, c.Tokens)
	}
	u.running++
	return p, u.standing(now, limits), nil
}

// Peek implements Ledger.
func (m *Memory) Peek(accountID string, limits account.Limits) Standing {
	s := m.shard(accountID)
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.accounts[accountID]
	if u == nil {
		u = &use{}
	}
	return u.standing(m.millis(), limits)
}

// Free implements Ledger.
func (m *Memory) Free(accountID string, p Place, used Cost) {
	s := m.shard(accountID)
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.accounts[accountID]
	if u == nil {
		return // cannot happen: a running call keeps its account
	}
	now := m.millis()
	u.running--
	if unused := p.cost.RequestMilli - used.RequestMilli; unused > 0 && p.requestsAt != 0 {
		u.requests.give(now, p.requestsAt, unused)
	}
	if p.tokensAt == 0 {
		return
	}
	// What was reserved and not used comes back; what was used beyond it counts from now, as a debt
	// that delays the next call where it exceeds the limit.
	if extra := used.Tokens - p.cost.Tokens; extra < 0 {
		u.tokens.give(now, p.tokensAt, -extra)
	} else {
		u.tokens.take(now, extra)
	}
}

// GiveBack implements Ledger.
func (m *Memory) GiveBack(accountID string, p Place, requestMilli int64) {
	s := m.shard(accountID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.accounts[accountID]; u != nil && p.requestsAt != 0 && requestMilli > 0 {
		u.requests.give(m.millis(), p.requestsAt, requestMilli)
	}
}

// Restore puts back what an account took a while ago, before this process began. Calls must come in
// the order of their time, before any Take.
func (m *Memory) Restore(accountID string, ago time.Duration, c Cost) {
	s := m.shard(accountID)
	s.mu.Lock()
	defer s.mu.Unlock()
	then := m.millis() - int64(ago/time.Millisecond)
	u := s.use(accountID, then)
	u.requests.take(then, c.RequestMilli)
	u.tokens.take(then, c.Tokens)
}

// Running is how many calls run now.
func (m *Memory) Running() int64 {
	var n int64
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for _, u := range s.accounts {
			n += u.running
		}
		s.mu.Unlock()
	}
	return n
}

func (m *Memory) millis() int64 { return int64(m.now() / time.Millisecond) }

func (m *Memory) shard(accountID string) *shard {
	return &m.shards[maphash.String(m.seed, accountID)%shards]
}

// use finds an account, or makes room for it. When the shard has doubled since it was last swept, what
// is no longer needed is forgotten: the cost of that is shared by as many newcomers.
func (s *shard) use(accountID string, now int64) *use {
	if u := s.accounts[accountID]; u != nil {
		return u
	}
	if len(s.accounts) >= 2*s.swept+64 {
		for id, u := range s.accounts {
			if u.running == 0 && u.requests.empty(now) && u.tokens.empty(now) {
				delete(s.accounts, id)
			}
		}
		s.swept = len(s.accounts)
	}
	u := newUse()
	s.accounts[accountID] = u
	return u
}

// obstacle is the first limit that the cost does not fit under, in the order of docs/api.md#order-of-checks: requests,
// tokens, concurrency. A cost beyond the whole token cap has been cut to it before.
func (u *use) obstacle(now int64, l account.Limits, c Cost) *Obstacle {
	if l.RequestsPerMinute != account.Unlimited {
		if wait := u.requests.wait(now, c.RequestMilli, int64(l.RequestsPerMinute)*1000); wait != 0 {
			return obstacle(Requests, l.RequestsPerMinute, u.requests.sum, wait)
		}
	}
	if l.TokensPerMinute != account.Unlimited {
		if wait := u.tokens.wait(now, c.Tokens, int64(l.TokensPerMinute)); wait != 0 {
			return obstacle(Tokens, l.TokensPerMinute, u.tokens.sum, wait)
		}
	}
	if l.Concurrent != account.Unlimited && u.running >= int64(l.Concurrent) {
		return &Obstacle{Resource: Slots, Limit: l.Concurrent, Used: u.running, Never: l.Concurrent == 0}
	}
	return nil
}

func obstacle(r Resource, l account.Limit, used, wait int64) *Obstacle {
	if wait < 0 {
		return &Obstacle{Resource: r, Limit: l, Used: used, Never: true}
	}
	return &Obstacle{Resource: r, Limit: l, Used: used, Wait: time.Duration(wait) * time.Millisecond}
}

func (u *use) standing(now int64, l account.Limits) Standing {
	meter := func(w *window, limit account.Limit, unit int64) Meter {
		if limit == account.Unlimited {
			return Meter{Limit: limit}
		}
		reset := w.reset(now)
		return Meter{
			Limit: limit, Used: w.sum, Reset: time.Duration(reset) * time.Millisecond,
			Remaining: max(0, int64(limit)*unit-w.sum) / unit,
		}
	}
	return Standing{Requests: meter(&u.requests, l.RequestsPerMinute, 1000), Tokens: meter(&u.tokens, l.TokensPerMinute, 1)}
}
