package auth

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/account"
)

// shards is the number of parts of the index, each with a lock of its own, so that requests with
// different keys rarely wait for each other.
const shards = 64

// usedEvery is the precision of a key's last use. Writing it in every request would move its cache
// line between the cores that serve a busy key.
const usedEvery = 10 * time.Second

// Index finds the account that a key belongs to, in memory. Put tells it every change, so requests
// need no database. Its methods may be called from several goroutines.
//
// A request takes one read lock, that of the shard of its key, and never the lock of the index.
type Index struct {
	shards [shards]shard // by the first byte of the hash

	mu       sync.Mutex         // guards accounts, and makes Put, Lock and Unlock take turns; taken before a shard's lock
	accounts map[string]*holder // by account id; accounts are never removed
}

// shard is one part of the index.
type shard struct {
	mu   sync.RWMutex // guards keys, not the entries
	keys map[account.Hash]*entry
}

// holder holds the current state of an account. All of its keys point to the same holder, so one
// store changes the state for all of them at once.
type holder struct {
	account atomic.Pointer[account.Account] // not nil once the holder is in the index
	lock    *account.Mark                   // set by Lock, nil otherwise; guarded by Index.mu
	epoch   atomic.Int64                    // of account, in a ledger that nodes share; 0: not known. See Follower
}

// entry is one key.
type entry struct {
	owner    *holder
	keyID    string
	limits   atomic.Pointer[account.KeyLimits] // nil: the key has none
	tags     atomic.Pointer[[]string]          // nil: the key has none
	lastUsed atomic.Int64                      // Unix seconds; 0: never
	saved    int64                             // the last use that is stored or that UsedKeys has returned; only UsedKeys uses it
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	ix := &Index{accounts: map[string]*holder{}}
	for i := range ix.shards {
		ix.shards[i].keys = map[account.Hash]*entry{}
	}
	return ix
}

// Put makes a the current state of its account, unless a newer version is known: states may arrive
// late or twice. When Put returns, keys that a no longer has are refused. The index keeps a, so
// nobody may change it afterwards.
func (ix *Index) Put(a *account.Account) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	h := ix.accounts[a.ID]
	if h == nil {
		h = &holder{}
		ix.accounts[a.ID] = h
	}
	was := h.account.Load()
	if was != nil && was.Version >= a.Version {
		return
	}
	if was != nil {
		for i := range was.Keys {
			if a.Key(was.Keys[i].ID) == nil {
				ix.remove(was.Keys[i].Hash)
			}
		}
	}
	if a.Deactivated != nil {
		h.lock = nil // the deactivation is stored now
	} else if h.lock != nil {
		// Another change was stored before the deactivation. It must not switch the keys on again.
		locked := *a
		locked.Deactivated = h.lock
		a = &locked
	}
	h.account.Store(a)
	for i := range a.Keys {
		ix.add(h, &a.Keys[i])
	}
}

// Lock deactivates an account's keys in memory, before that is stored. It holds until Put brings a
// state that is deactivated, or until Unlock. It does nothing if the account is unknown or
// deactivated already.
func (ix *Index) Lock(accountID string, m account.Mark) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	h := ix.accounts[accountID]
	if h == nil {
		return
	}
	locked := *h.account.Load()
	if locked.Deactivated == nil {
		h.lock, locked.Deactivated = &m, &m
		h.account.Store(&locked)
	}
}

// Unlock takes back a Lock, unless the deactivation has been stored meanwhile. It does nothing if
// there is none.
func (ix *Index) Unlock(accountID string) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	h := ix.accounts[accountID]
	if h == nil || h.lock == nil {
		return
	}
	unlocked := *h.account.Load()
	h.lock, unlocked.Deactivated = nil, nil
	h.account.Store(&unlocked)
}

// Account returns the current state of an account, or nil if there is no such account. The result
// must not be changed.
func (ix *Index) Account(id string) *account.Account {
	if h := ix.holder(id); h != nil {
		return h.account.Load()
	}
	return nil
}

// Email returns where an account gets mail, or "" if there is no such account.
func (ix *Index) Email(id string) string {
	if a := ix.Account(id); a != nil {
		return a.Email
	}
	return ""
}

// Counts reports whether a key has limits of its own, beside those of its account.
func (ix *Index) Counts(accountID, keyID string) bool {
	a := ix.Account(accountID)
	if a == nil {
		return false
	}
	k := a.Key(keyID)
	return k != nil && k.Limits.Counted()
}

// holder returns the holder of an account, or nil if there is no such account.
func (ix *Index) holder(id string) *holder {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.accounts[id]
}

// Each calls yield with the current state of every account, in no order. The states must not be changed.
func (ix *Index) Each(yield func(*account.Account)) {
	ix.mu.Lock()
	all := slices.Collect(maps.Values(ix.accounts)) // requests must not wait for yield
	ix.mu.Unlock()
	for _, h := range all {
		yield(h.account.Load())
	}
}

// Accounts returns the number of accounts.
func (ix *Index) Accounts() int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return len(ix.accounts)
}

// UsedKeys returns the ids of the keys that were used since the last call, and when. Only one
// goroutine may call it at a time: it writes saved under a read lock, so that requests do not wait.
func (ix *Index) UsedKeys() map[string]time.Time {
	used := map[string]time.Time{}
	for i := range ix.shards {
		sh := &ix.shards[i]
		sh.mu.RLock()
		for _, e := range sh.keys {
			if at := e.lastUsed.Load(); at > e.saved {
				e.saved = at
				used[e.keyID] = time.Unix(at, 0).UTC()
			}
		}
		sh.mu.RUnlock()
	}
	return used
}

// LastUsed returns when a key was last used, to about ten seconds, as far as this process knows: on
// this node, or earlier according to the store. It is zero if the key was never used.
func (ix *Index) LastUsed(k *account.Key) time.Time {
	sh := &ix.shards[k.Hash[0]%shards]
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if e := sh.keys[k.Hash]; e != nil && e.lastUsed.Load() > 0 {
		return time.Unix(e.lastUsed.Load(), 0).UTC()
	}
	return time.Time{}
}

// find returns the key with a hash, and notes that it was used. It returns nil if there is no such key. It
// does not allocate.
func (ix *Index) find(h account.Hash, now time.Time) *entry {
	sh := &ix.shards[h[0]%shards]
	sh.mu.RLock()
	e := sh.keys[h]
	sh.mu.RUnlock()
	if e == nil {
		return nil
	}
	// Two requests may both store the time. That is harmless.
	if at := now.Unix(); at-e.lastUsed.Load() >= int64(usedEvery/time.Second) {
		e.lastUsed.Store(at)
	}
	return e
}

// set stores what may change of a key.
func (e *entry) set(k *account.Key) {
	e.limits.Store(k.Limits)
	if len(k.Tags) == 0 {
		e.tags.Store(nil)
		return
	}
	tags := k.Tags // a pointer into the key would hold its whole account
	e.tags.Store(&tags)
}

// add puts a key into its shard. An entry that is there stays and gets the key's limits and tags, because it knows the
// last use better than the store.
func (ix *Index) add(h *holder, k *account.Key) {
	sh := &ix.shards[k.Hash[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.keys[k.Hash]; e != nil {
		e.set(k)
		return
	}
	e := &entry{owner: h, keyID: k.ID}
	e.set(k)
	if !k.LastUsedAt.IsZero() {
		e.saved = k.LastUsedAt.Unix()
		e.lastUsed.Store(e.saved)
	}
	sh.keys[k.Hash] = e
}

func (ix *Index) remove(h account.Hash) {
	sh := &ix.shards[h[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.keys, h)
}
