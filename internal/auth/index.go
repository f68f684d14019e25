package auth

import (
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/account"
)

// shards is how many locks the index has; readers of different keys seldom meet at one.
const shards = 64

// usedEvery is how precise a key's last use is kept: writing it on every request would make the
// cores of a busy key's requests wait for each other.
const usedEvery = 10 * time.Second

// Index finds the owner of a key in memory. It is told every change by Put and asked by every
// request, so it is always current and needs no database.
type Index struct {
	shards [shards]shard

	mu       sync.Mutex // serializes Put
	accounts map[string]*holder
}

type shard struct {
	mu   sync.RWMutex
	keys map[account.Hash]*entry
}

// holder is where all keys of an account find its present state: one store changes it for all.
type holder struct {
	account atomic.Pointer[account.Account]
	lock    *account.Mark // set by Lock; the index's mutex guards it
}

type entry struct {
	owner    *holder
	keyID    string
	lastUsed atomic.Int64 // Unix seconds
	saved    int64        // what UsedKeys last handed out; touched by it alone
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	ix := &Index{accounts: map[string]*holder{}}
	for i := range ix.shards {
		ix.shards[i].keys = map[account.Hash]*entry{}
	}
	return ix
}

// Put makes a the present state of its account, unless a newer one is known. When it returns, no
// request is let in by what a no longer has.
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
			if !holds(a, was.Keys[i].ID) {
				ix.remove(was.Keys[i].Hash)
			}
		}
	}
	if a.Deactivated != nil {
		h.lock = nil // stored by now
	} else if h.lock != nil {
		locked := *a
		locked.Deactivated = h.lock
		a = &locked
	}
	h.account.Store(a)
	for i := range a.Keys {
		ix.add(h, &a.Keys[i])
	}
}

// Lock refuses an account's keys from now on, before the change that says so is stored. It holds until a
// state that says so is put, or Unlock.
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

// Unlock ends a Lock that was never stored.
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

// Account is the present state of an account, or nil.
func (ix *Index) Account(id string) *account.Account {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if h := ix.accounts[id]; h != nil {
		return h.account.Load()
	}
	return nil
}

// Accounts counts the accounts known.
func (ix *Index) Accounts() int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return len(ix.accounts)
}

// UsedKeys returns the keys used since it was last called, and when. One caller at a time.
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

// LastUsed is when a key was last used here, or stored as used; zero: never.
func (ix *Index) LastUsed(k *account.Key) time.Time {
	sh := &ix.shards[k.Hash[0]%shards]
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if e := sh.keys[k.Hash]; e != nil && e.lastUsed.Load() > 0 {
		return time.Unix(e.lastUsed.Load(), 0).UTC()
	}
	return time.Time{}
}

// find returns the key's owner and id, and notes its use; nil where nobody has the key.
func (ix *Index) find(h account.Hash, now time.Time) (*account.Account, string) {
	sh := &ix.shards[h[0]%shards]
	sh.mu.RLock()
	e := sh.keys[h]
	sh.mu.RUnlock()
	if e == nil {
		return nil, ""
	}
	if at := now.Unix(); at-e.lastUsed.Load() >= int64(usedEvery/time.Second) {
		e.lastUsed.Store(at)
	}
	return e.owner.account.Load(), e.keyID
}

func (ix *Index) add(h *holder, k *account.Key) {
	sh := &ix.shards[k.Hash[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.keys[k.Hash] != nil {
		return
	}
	e := &entry{owner: h, keyID: k.ID}
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

func holds(a *account.Account, keyID string) bool {
	for i := range a.Keys {
		if a.Keys[i].ID == keyID {
			return true
		}
	}
	return false
}
