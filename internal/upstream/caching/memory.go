package caching

import (
	"hash/maphash"
	"sync"
	"time"
)

// The size of a Memory. With its own arrays it takes about 4 MB, from the first call on.
const (
	mostConversations = 1 << 15 // conversations, and beginnings that several of them share
	mostAccounts      = 1 << 12 // pairs of an account and a model
	ways              = 4       // places that one key can have; the oldest of them makes room
)

// Memory knows the conversations of late: when they called, what of them is in a cache, and what marks have won and lost. It
// holds numbers and hashes alone. It is safe for concurrent use.
type Memory struct {
	seed maphash.Seed

	mu            sync.Mutex
	conversations []entry
	accounts      []account
}

// NewMemory returns a memory that knows nothing.
func NewMemory() *Memory { return &Memory{seed: maphash.MakeSeed()} }

// Hash begins a hash for the keys of a Name. Its seed is random, so nobody can make two of them equal on purpose.
func (m *Memory) Hash() (h maphash.Hash) {
	h.SetSeed(m.seed)
	return h
}

// Name says which call it is, by hashes.
type Name struct {
	Account      uint64 // of the account and the model
	Conversation uint64 // of the account, the model and how the conversation begins
	Head         uint64 // of the account, the model, the tools and the system messages at the front; 0: there are none
}

// entry is a conversation, or what several begin with.
type entry struct {
	key     uint64
	at      int64 // the last call, in Unix milliseconds
	kind    Kind  // of the last call
	gaps    Gaps
	pause   float32 // between calls, in seconds: an average that the last ones count most in
	calls   int32
	tokens  int32   // of the prompt of the last call that had figures; of a Shared entry, of the beginning
	scale   float32 // of that prompt: the vendor's tokens for one of ours; 0: there was none
	cached  int32   // tokens in the vendor's cache
	ttl     TTL
	doubted bool   // what should have been read was not
	used    int64  // when it was read or written, in Unix milliseconds
	place   uint64 // where: the target
	head    uint64 // the tools and system messages in front of it
	bank    Bank
}

// account is what is known of an account's calls of a model.
type account struct {
	key    uint64
	at     int64
	scale  float32 // that of its last call; see entry
	follow [kinds]Gaps
	bank   Bank
}

// id returns the key of an entry and the time of its last call.
func (e *entry) id() (key uint64, at int64) { return e.key, e.at }

// id returns the key of an account and the time of its last call.
func (a *account) id() (key uint64, at int64) { return a.key, a.at }

// find returns the place of a key in a table whose entries are grouped by ways, and whether it was there. of returns the key
// of an entry and its time.
func find[E any](table []E, key uint64, of func(*E) (uint64, int64)) (*E, bool) {
	from := int(key%uint64(len(table)/ways)) * ways
	oldest, least := from, int64(0)
	for i := from; i < from+ways; i++ {
		k, at := of(&table[i])
		if k == key && at != 0 {
			return &table[i], true
		}
		if i == from || at < least {
			oldest, least = i, at
		}
	}
	return &table[oldest], false
}

// conversation returns the entry of a key, and an empty one in the place of the oldest if there is none.
func (m *Memory) conversation(key uint64, now int64) *entry {
	e, ok := find(m.conversations, key, (*entry).id)
	if !ok {
		*e = entry{key: key, at: now}
	}
	return e
}

// account is conversation for accounts.
func (m *Memory) account(key uint64, now int64) *account {
	a, ok := find(m.accounts, key, (*account).id)
	if !ok {
		*a = account{key: key, at: now, scale: 1}
	}
	return a
}

// Turn is one call of a conversation. It is used by one goroutine.
type Turn struct {
	memory *Memory
	name   Name
	turns  int
	now    int64     // Unix milliseconds
	looked *snapshot // of a call that is not made: what was known; nil: it is made

	// What was known when the call came.
	talk, shared     Evidence
	pause            float32       // see entry; 0: nothing is known
	since            time.Duration // since the last call of the conversation; 0: there was none
	sinceShared      time.Duration // since the last call with the same beginning; 0: there was none
	last, lastShared int32         // tokens of their prompts
	scale            float32

	choice Choice // the last one
}

// snapshot has copies of what is known of a call.
type snapshot struct {
	talk, shared entry
	account      account
}

// Begin notes a call with so many replies in it, and returns what is known of its conversation.
func (m *Memory) Begin(name Name, kind Kind, turns int, now time.Time) Turn {
	t := Turn{memory: m, name: name, turns: turns, now: now.UnixMilli()}
	t.begin(kind)
	return t
}

// Look is Begin for a call that is not made. Nothing is noted.
func (m *Memory) Look(name Name, kind Kind, turns int, now time.Time) Turn {
	t := Turn{memory: m, name: name, turns: turns, now: now.UnixMilli(), looked: &snapshot{}}
	t.begin(kind)
	return t
}

func (t *Turn) begin(kind Kind) {
	m := t.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conversations == nil {
		m.conversations, m.accounts = make([]entry, mostConversations), make([]account, mostAccounts)
	}
	if t.looked != nil {
		t.looked.copy(m, &t.name)
	}
	c, h, a := t.entries()
	before := c.kind
	if t.since = c.called(t.now); t.since > 0 {
		a.followed(before, t.since)
	}
	t.talk = Evidence{Kind: kind, Turns: t.turns, Gaps: c.gaps, Lately: a.follow[kind]}
	t.pause, t.scale, t.last = c.pause, c.scale, c.tokens
	if t.scale == 0 {
		t.scale = a.scale
	}
	c.kind, a.at = kind, t.now
	a.follow[kind].Later++
	a.follow[kind].fade(64)
	if h != nil {
		t.sinceShared = h.called(t.now)
		t.shared = Evidence{Kind: Shared, Turns: int(h.calls) - 1, Gaps: h.gaps}
		t.lastShared = h.tokens
	}
}

// copy takes a snapshot. What is not known stays unknown: a look makes no room for itself.
func (s *snapshot) copy(m *Memory, name *Name) {
	s.talk, s.shared, s.account = entry{}, entry{}, account{scale: 1}
	if e, ok := find(m.conversations, name.Conversation, (*entry).id); ok {
		s.talk = *e
	}
	if e, ok := find(m.conversations, name.Head, (*entry).id); ok {
		s.shared = *e
	}
	if a, ok := find(m.accounts, name.Account, (*account).id); ok {
		s.account = *a
	}
}

// entries returns what is known of the call's conversation, of its beginning, which is nil if it has none, and of its
// account. It must be called with the lock, under which alone the entries may be used.
func (t *Turn) entries() (c, h *entry, a *account) {
	if s := t.looked; s != nil {
		c, h, a = &s.talk, &s.shared, &s.account
	} else {
		m := t.memory
		c, a = m.conversation(t.name.Conversation, t.now), m.account(t.name.Account, t.now)
		if t.name.Head != 0 {
			h = m.conversation(t.name.Head, t.now)
		}
	}
	if t.name.Head == 0 {
		h = nil
	}
	return c, h, a
}

// called notes a call, and returns the pause before it; 0: it is the first.
func (e *entry) called(now int64) (pause time.Duration) {
	if e.calls > 0 {
		pause = max(time.Millisecond, time.Duration(now-e.at)*time.Millisecond)
		e.gaps.add(pause)
		e.gaps.fade(32)
		seconds := float32(pause.Seconds())
		if e.pause == 0 {
			e.pause = seconds
		}
		e.pause += (seconds - e.pause) / 4
	}
	e.at = now
	e.calls = min(e.calls+1, 1<<20)
	return pause
}

// followed notes that a call of a kind was followed by another after a pause. It had been counted as one that nothing
// follows.
func (a *account) followed(kind Kind, pause time.Duration) {
	f := &a.follow[kind]
	if f.Later >= 1 {
		f.Later--
	}
	f.add(pause)
}

// there returns how many tokens of the entry's prompt are in the cache of a place, and their life.
func (e *entry) there(place, head uint64, now int64) (int, TTL) {
	if e.cached == 0 || e.doubted || e.place != place || e.head != head || !e.ttl.lasts(time.Duration(now-e.used)*time.Millisecond) {
		return 0, Not
	}
	return int(e.cached), e.ttl
}
