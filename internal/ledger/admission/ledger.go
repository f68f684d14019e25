package admission

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/usage"
)

// Ledger stores what accounts are using: the requests and tokens of the last minute, and the calls that
// are running. A key with limits of its own is counted like an account, under its own id. Implementations are
// safe for concurrent use.
type Ledger interface {
	// Take takes the cost and a slot, or returns the first limit in the way. It takes all or nothing. The
	// obstacle is nil on success.
	Take(accountID string, limits account.Limits, c Cost) (Place, Headroom, *Obstacle)
	// Peek returns the account's headroom without taking anything.
	Peek(accountID string, limits account.Limits) Headroom
	// Free ends a place and frees its slot. Used is what the call consumed: a smaller value than was taken
	// returns the difference, a larger one takes more.
	Free(accountID string, p Place, used Cost)
	// GiveBack returns requests of a place that has ended. It does nothing for requests whose minute is
	// over.
	GiveBack(accountID string, p Place, requestMilli int64)
}

// Cost is what a call reserves when it starts, and what it consumed when it ends.
type Cost struct {
	RequestMilli int64 // thousandths of a request
	Tokens       int64
}

// Place is what Take took. Hand it to Free once. Its fields belong to the ledger that made it; nobody else
// needs to read them.
type Place struct {
	Cost       Cost
	RequestsAt int64  // time of the window's entry; 0: requests are unlimited and were not counted
	TokensAt   int64  // the same for tokens
	Slot       uint64 // names the call in a ledger that tells slots apart; 0 in Memory, which counts them
}

// Headroom is how an account stands with its limits. The meter of an unlimited resource holds only its
// limit.
type Headroom struct {
	Requests, Tokens Meter
	// Epoch changes when something that nodes know about the account was revoked: a key, the plan, the
	// account itself. A node whose facts are from another epoch must read them again. 0: the ledger does not
	// know, as Memory never does. Epochs are compared for equality only; their order means nothing.
	Epoch int64
	// Deactivated says that abuse control has switched off the account's keys, maybe on another node and so
	// recently that the database does not know it yet.
	Deactivated bool
}

// Meter is one limit and how much of it is left.
type Meter struct {
	Limit     account.Limit
	Used      int64         // thousandths of requests, or tokens; may exceed the limit
	Remaining int64         // whole requests, rounded down, or tokens
	Reset     time.Duration // until everything that counts now has expired
}

// Resource is a thing that an account can run out of.
type Resource uint8

const (
	Requests Resource = iota + 1
	Tokens
	Slots
	Units // of a key's month; no ledger counts them, see Quota
)

// Obstacle is the limit that keeps a call from starting.
type Obstacle struct {
	Resource Resource
	Limit    account.Limit
	Used     int64         // thousandths of requests, tokens, or running calls
	Wait     time.Duration // until the call would pass; 0 for slots, which no clock frees
	Never    bool          // the cost exceeds the whole limit, so that waiting does not help
	// Divided says that this node admits Share of the limit, because nodes do not count together at the moment. Then
	// what belongs to others is part of Used. NoShare says that it has no part of any limit yet: the call is refused
	// because of the state of this node, whatever the account has used.
	Divided, NoShare bool
	Share            account.Limit
	// Parts is the number of nodes over which the limit is divided, if the cost exceeds each of the parts
	// and would fit under the limit; see Divided. Else it is 0.
	Parts int
}

// shards is the number of locks of a Memory ledger. 64 keep the chance small that two requests on
// different accounts wait for each other.
const shards = 64

// Memory is the ledger of a single process. Accounts are spread over shards, so that no lock is
// shared by all requests. An account that has used nothing for a minute is forgotten.
type Memory struct {
	now    func() time.Duration // a monotonic clock
	seed   maphash.Seed
	shards [shards]shard
}

// shard holds the accounts whose ids hash to it.
type shard struct {
	mu       sync.Mutex // guards the fields below and every use in accounts
	accounts map[string]*use
	swept    int // the number of accounts left by the last sweep
}

// use is what one account is using. The mutex of its shard guards it.
type use struct {
	requests window // in thousandths of a request
	tokens   window
	running  int64       // calls that hold a slot
	room     [2][2]entry // backing array of both windows' first entries: few accounts need more at a time
}

func newUse() *use {
	u := &use{}
	u.requests.entries, u.tokens.entries = u.room[0][:0], u.room[1][:0]
	return u
}

// NewMemory returns an empty ledger. Tests may pass a clock. A nil clock means the time since this call,
// which does not change when somebody sets the wall clock.
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
func (m *Memory) Take(accountID string, limits account.Limits, c Cost) (Place, Headroom, *Obstacle) {
	s := m.shard(accountID)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.millis() // read under the lock: window entries must be in the order of their time
	u := s.use(accountID, now)
	if o := u.obstacle(now, limits, c); o != nil {
		return Place{}, u.headroom(now, limits), o
	}
	p := Place{Cost: c}
	if limits.RequestsPerMinute != account.Unlimited {
		p.RequestsAt = u.requests.take(now, c.RequestMilli)
	}
	if limits.TokensPerMinute != account.Unlimited {
		p.TokensAt = u.tokens.take(now, c.Tokens)
	}
	u.running++
	return p, u.headroom(now, limits), nil
}

// Peek implements Ledger.
func (m *Memory) Peek(accountID string, limits account.Limits) Headroom {
	s := m.shard(accountID)
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.accounts[accountID]
	if u == nil {
		u = &use{} // not stored: looking must not make the ledger grow
	}
	return u.headroom(m.millis(), limits)
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
	if unused := p.Cost.RequestMilli - used.RequestMilli; unused > 0 && p.RequestsAt != 0 {
		u.requests.give(now, p.RequestsAt, unused)
	}
	if p.TokensAt == 0 {
		return
	}
	// Tokens that were reserved and not used are returned. Tokens used beyond the reservation count from
	// now on. They may exceed the limit, and then delay the next call.
	if extra := used.Tokens - p.Cost.Tokens; extra < 0 {
		u.tokens.give(now, p.TokensAt, -extra)
	} else {
		u.tokens.take(now, extra)
	}
}

// GiveBack implements Ledger.
func (m *Memory) GiveBack(accountID string, p Place, requestMilli int64) {
	s := m.shard(accountID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.accounts[accountID]; u != nil && p.RequestsAt != 0 && requestMilli > 0 {
		u.requests.give(m.millis(), p.RequestsAt, requestMilli)
	}
}

// Restore counts what an account took some time ago, before this process started, so that a restart does
// not reset the limits. Calls must be in the order of their time, before the first Take.
func (m *Memory) Restore(accountID string, ago time.Duration, c Cost) {
	s := m.shard(accountID)
	s.mu.Lock()
	defer s.mu.Unlock()
	then := m.millis() - int64(ago/time.Millisecond)
	u := s.use(accountID, then)
	u.requests.take(then, c.RequestMilli)
	u.tokens.take(then, c.Tokens)
}

// Since calls yield for what the account took after a time and has not expired, first requests, then tokens. Times are
// those of entries, in milliseconds of the ledger's clock; see Place. A ledger that several nodes share is
// told in this way what one of them admitted on its own.
func (m *Memory) Since(accountID string, after int64, yield func(at int64, c Cost)) {
	s := m.shard(accountID)
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.accounts[accountID]
	if u == nil {
		return
	}
	now := m.millis()
	u.requests.since(now, after, func(e entry) { yield(e.at, Cost{RequestMilli: e.cost}) })
	u.tokens.since(now, after, func(e entry) { yield(e.at, Cost{Tokens: e.cost}) })
}

// Running returns the number of calls that hold a slot, over all accounts. What is counted for a key is counted
// for its account, too.
func (m *Memory) Running() int64 {
	var n int64
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for id, u := range s.accounts {
			if !strings.HasPrefix(id, account.KeyPrefix) {
				n += u.running
			}
		}
		s.mu.Unlock()
	}
	return n
}

func (m *Memory) millis() int64 { return int64(m.now() / time.Millisecond) }

func (m *Memory) shard(accountID string) *shard {
	return &m.shards[maphash.String(m.seed, accountID)%shards]
}

// use returns the account's entry and creates it if necessary. When the number of accounts has doubled
// since the last sweep, it deletes those that use nothing. Doubling keeps the cost per new account
// constant. The caller holds the lock.
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

// obstacle returns the first limit that the cost does not fit under, in the order of
// docs/api.md#order-of-checks: requests, tokens, concurrency. It returns nil if the call may start. Demand.cost has already cut the
// tokens to the limit.
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

// obstacle returns the obstacle of a window. Wait is in milliseconds; negative: the cost never fits.
func obstacle(r Resource, l account.Limit, used, wait int64) *Obstacle {
	if wait < 0 {
		return &Obstacle{Resource: r, Limit: l, Used: used, Never: true}
	}
	return &Obstacle{Resource: r, Limit: l, Used: used, Wait: time.Duration(wait) * time.Millisecond}
}

// headroom returns the meters of the account at a time in milliseconds.
func (u *use) headroom(now int64, l account.Limits) Headroom {
	requests, tokens := u.requests.reset(now), u.tokens.reset(now) // which also drop from the sums what has expired
	return Headroom{Requests: MeterOf(l.RequestsPerMinute, u.requests.sum, requests, 1000), Tokens: MeterOf(l.TokensPerMinute, u.tokens.sum, tokens, 1)}
}

// MeterOf returns the meter of a limit, of which used counts now and expires within so many milliseconds. Unit is what one
// whole request or token is in used.
func MeterOf(limit account.Limit, used, reset, unit int64) Meter {
	if limit == account.Unlimited {
		return Meter{Limit: limit}
	}
	return Meter{Limit: limit, Used: used, Reset: time.Duration(reset) * time.Millisecond, Remaining: max(0, int64(limit)*unit-used) / unit}
}

// RestoreCalls counts settlements in the ledger, for their accounts and for the keys that are counted. They must be in the
// order of their time.
func (m *Memory) RestoreCalls(recent []usage.Settlement, now time.Time, counted func(accountID, keyID string) bool) {
	for _, s := range recent {
		cost := Cost{RequestMilli: s.RequestMilli, Tokens: int64(s.Tokens.Total())}
		m.Restore(s.AccountID, now.Sub(s.At), cost)
		if counted(s.AccountID, s.KeyID) {
			m.Restore(s.KeyID, now.Sub(s.At), cost)
		}
	}
}
