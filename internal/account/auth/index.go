package auth

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/account"
)

const (
	// shards is the number of parts of the index, each with a lock of its own, so that requests with different keys rarely
	// wait for each other.
	shards = 64
	// recent is how many accounts the index holds as requests need them. Those of other accounts take a microsecond more.
	recent = 1 << 14
	// usedEvery is the precision of a key's last use. Noting it in every request would take a lock that other requests wait
	// for.
	usedEvery = 10 * time.Second
)

// Index finds the account that a key belongs to, in memory. Put tells it every change, so requests
// need no database. Its methods may be called from several goroutines.
//
// It may hold a million accounts, and the garbage collector follows every pointer again and again. So what is held of an
// account has none: its state is a few bytes in an arena (see arena.go), and it is found by its number, which the maps hold.
// Requests get an *account.Account, which is made of these bytes when it is needed and kept for the next request in hot.
//
// A request takes one read lock, that of the shard of its key, and if its account is not in hot, that of the index.
type Index struct {
	shards [shards]shard // by the first byte of the hash

	seed maphash.Seed // of the hashes of ids

	// mu is held for writing by Put, Lock and Unlock, and for reading by everybody who reads what is below or fills hot. It is
	// taken before a shard's lock.
	mu      sync.RWMutex
	byID    map[uint64]uint32 // the newest account whose id has a hash; see record.next
	count   uint32            // of accounts, which are never removed. Their numbers are 1 to count
	records []*[recordsAtOnce]record
	arenas  [shards]arena               // by the account's number
	others  map[uint32]*account.Account // the accounts that cannot be encoded
	locks   map[uint32]*account.Mark    // set by Lock

	// hot has the accounts that requests have asked for, by the last bits of their numbers. An element is replaced under
	// mu only, so that it is always the current state of its account.
	hot []atomic.Pointer[holder]
}

// shard is one part of the keys.
type shard struct {
	mu   sync.RWMutex
	keys map[account.Hash]entry
}

// entry is one key. It has no pointers.
type entry struct {
	number   uint32 // of its account
	place    uint32 // where it was among the account's keys
	lastUsed int64  // Unix seconds; 0: never
	saved    int64  // the last use that is stored or that UsedKeys has returned
}

// record is what is held of an account, beside its state. It has no pointers, and never moves.
type record struct {
	epoch   atomic.Int64 // of the account, in a ledger that nodes share; 0: not known. See Follower
	version int64
	at      place  // of the state; its size is 0 if it is among others
	next    uint32 // the number of another account whose id has the same hash; 0: there is none
}

// recordsAtOnce is how many records are allocated together.
const recordsAtOnce = 256

// holder is the state of an account. It does not change.
type holder struct {
	account *account.Account
	number  uint32
	epoch   *atomic.Int64 // of the record
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	ix := &Index{
		seed: maphash.MakeSeed(), byID: map[uint64]uint32{}, others: map[uint32]*account.Account{}, locks: map[uint32]*account.Mark{},
		hot: make([]atomic.Pointer[holder], recent),
	}
	for i := range ix.shards {
		ix.shards[i].keys = map[account.Hash]entry{}
	}
	return ix
}

// Put makes a the current state of its account, unless a newer version is known: states may arrive
// late or twice. When Put returns, keys that a no longer has are refused. The index keeps a, so
// nobody may change it afterwards.
func (ix *Index) Put(a *account.Account) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	var was *account.Account
	n := ix.numberOf(a.ID)
	if n == 0 {
		n = ix.enter(a.ID)
	} else {
		if ix.record(n).version >= a.Version {
			return
		}
		was = ix.state(n).account
	}
	if a.Deactivated != nil {
		delete(ix.locks, n) // the deactivation is stored now
	} else if m := ix.locks[n]; m != nil {
		// Another change was stored before the deactivation. It must not switch the keys on again.
		locked := *a
		locked.Deactivated = m
		a = &locked
	}
	ix.store(n, a)
	// The state decides whether a key is good, so nobody can use one that is gone while it is removed here.
	if was != nil {
		for i := range was.Keys {
			if a.Key(was.Keys[i].ID) == nil {
				ix.remove(was.Keys[i].Hash)
			}
		}
	}
	for i := range a.Keys {
		ix.add(n, uint32(i), &a.Keys[i])
	}
}

// enter returns the number of a new account. The caller holds mu.
func (ix *Index) enter(id string) uint32 {
	if int(ix.count)%recordsAtOnce == 0 {
		ix.records = append(ix.records, new([recordsAtOnce]record))
	}
	ix.count++
	hash := maphash.String(ix.seed, id)
	r := ix.record(ix.count)
	r.next, ix.byID[hash] = ix.byID[hash], ix.count
	return ix.count
}

// store replaces the state of an account. The caller holds mu.
func (ix *Index) store(n uint32, a *account.Account) {
	r, arena := ix.record(n), &ix.arenas[n%shards]
	arena.free(r.at)
	r.version, r.at = a.Version, place{}
	if encoded, ok := encode(arena.room[:0], a); ok {
		r.at, arena.room = arena.add(encoded), encoded
		delete(ix.others, n)
	} else {
		ix.others[n] = a
	}
	if slot := &ix.hot[n%recent]; slot.Load() != nil && slot.Load().number == n {
		slot.Store(&holder{a, n, &r.epoch})
	}
	if arena.wasteful() {
		ix.compact(n % shards)
	}
}

// compact writes the states of an arena anew, without those that were replaced. The caller holds mu.
func (ix *Index) compact(i uint32) {
	var tight arena
	for n := i; n <= ix.count; n += shards {
		if n == 0 {
			continue
		}
		if r := ix.record(n); r.at.size > 0 {
			r.at = tight.add(ix.arenas[i].get(r.at))
		}
	}
	ix.arenas[i] = tight
}

// record returns the record of an account. The caller holds mu.
func (ix *Index) record(n uint32) *record {
	return &ix.records[(n-1)/recordsAtOnce][(n-1)%recordsAtOnce]
}

// numberOf returns the number of an account, or 0 if there is no such account. The caller holds mu.
func (ix *Index) numberOf(id string) uint32 {
	n := ix.byID[maphash.String(ix.seed, id)]
	for n != 0 && !ix.named(n, id) {
		n = ix.record(n).next
	}
	return n
}

// named reports whether an account has an id. The caller holds mu.
func (ix *Index) named(n uint32, id string) bool {
	if r := ix.record(n); r.at.size > 0 {
		return isOf(ix.arenas[n%shards].get(r.at), id)
	}
	return ix.others[n].ID == id
}

// state returns the current state of an account. The caller holds mu.
func (ix *Index) state(n uint32) *holder {
	r := ix.record(n)
	if r.at.size == 0 {
		return &holder{ix.others[n], n, &r.epoch}
	}
	return &holder{decode(ix.arenas[n%shards].get(r.at)), n, &r.epoch}
}

// current returns the current state of an account by its number.
func (ix *Index) current(n uint32) *holder {
	slot := &ix.hot[n%recent]
	if h := slot.Load(); h != nil && h.number == n {
		return h
	}
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	h := ix.state(n)
	slot.Store(h) // nobody can replace the state meanwhile
	return h
}

// Lock deactivates an account's keys in memory, before that is stored. It holds until Put brings a
// state that is deactivated, or until Unlock. It does nothing if the account is unknown or
// deactivated already.
func (ix *Index) Lock(accountID string, m account.Mark) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	n := ix.numberOf(accountID)
	if n == 0 {
		return
	}
	locked := *ix.state(n).account
	if locked.Deactivated == nil {
		ix.locks[n], locked.Deactivated = &m, &m
		ix.store(n, &locked)
	}
}

// Unlock takes back a Lock, unless the deactivation has been stored meanwhile. It does nothing if
// there is none.
func (ix *Index) Unlock(accountID string) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	n := ix.numberOf(accountID)
	if n == 0 || ix.locks[n] == nil {
		return
	}
	unlocked := *ix.state(n).account
	delete(ix.locks, n)
	unlocked.Deactivated = nil
	ix.store(n, &unlocked)
}

// Account returns the current state of an account, or nil if there is no such account. The result
// must not be changed.
func (ix *Index) Account(id string) *account.Account {
	if h := ix.holder(id); h != nil {
		return h.account
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

// holder returns the state of an account, or nil if there is no such account.
func (ix *Index) holder(id string) *holder {
	ix.mu.RLock()
	n := ix.numberOf(id)
	ix.mu.RUnlock()
	if n == 0 {
		return nil
	}
	return ix.current(n)
}

// Each calls yield with the current state of every account, in no order. The states must not be changed.
func (ix *Index) Each(yield func(*account.Account)) {
	for n := range uint32(ix.Accounts()) {
		ix.mu.RLock() // not while yield runs: changes must not wait for it
		h := ix.state(n + 1)
		ix.mu.RUnlock()
		yield(h.account)
	}
}

// Accounts returns the number of accounts.
func (ix *Index) Accounts() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return int(ix.count)
}

// UsedKeys returns the ids of the keys that were used since the last call, and when.
func (ix *Index) UsedKeys() map[string]time.Time {
	used := map[string]time.Time{}
	for i := range ix.shards {
		for h, e := range ix.shards[i].unsaved() {
			if k := keyOf(ix.current(e.number).account, h, e.place); k != nil {
				used[k.ID] = time.Unix(e.lastUsed, 0).UTC()
			}
		}
	}
	return used
}

// unsaved returns the keys that were used since the last call.
func (sh *shard) unsaved() map[account.Hash]entry {
	used := map[account.Hash]entry{}
	sh.mu.RLock()
	for h, e := range sh.keys {
		if e.lastUsed > e.saved {
			used[h] = e
		}
	}
	sh.mu.RUnlock()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for h, e := range used {
		if now, ok := sh.keys[h]; ok {
			now.saved = e.lastUsed
			sh.keys[h] = now
		}
	}
	return used
}

// LastUsed returns when a key was last used, to about ten seconds, as far as this process knows: on
// this node, or earlier according to the store. It is zero if the key was never used.
func (ix *Index) LastUsed(k *account.Key) time.Time {
	sh := &ix.shards[k.Hash[0]%shards]
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if e := sh.keys[k.Hash]; e.lastUsed > 0 {
		return time.Unix(e.lastUsed, 0).UTC()
	}
	return time.Time{}
}

// find returns the key with a hash and the state of its account, and notes that it was used. It returns nil if there is no
// such key. For an account in hot it does not allocate.
func (ix *Index) find(hash account.Hash, now time.Time) (*holder, *account.Key) {
	sh := &ix.shards[hash[0]%shards]
	sh.mu.RLock()
	e, ok := sh.keys[hash]
	sh.mu.RUnlock()
	if !ok {
		return nil, nil
	}
	h := ix.current(e.number)
	k := keyOf(h.account, hash, e.place)
	if k == nil {
		return nil, nil // it is just being removed
	}
	if at := now.Unix(); at-e.lastUsed >= int64(usedEvery/time.Second) {
		sh.used(hash, at)
	}
	return h, k
}

// keyOf returns the key of an account with a hash, or nil if there is none. It is usually at its place.
func keyOf(a *account.Account, hash account.Hash, place uint32) *account.Key {
	if int(place) < len(a.Keys) && a.Keys[place].Hash == hash {
		return &a.Keys[place]
	}
	for i := range a.Keys {
		if a.Keys[i].Hash == hash {
			return &a.Keys[i]
		}
	}
	return nil
}

// used notes when a key was used.
func (sh *shard) used(hash account.Hash, at int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, ok := sh.keys[hash]; ok && e.lastUsed < at {
		e.lastUsed = at
		sh.keys[hash] = e
	}
}

// add puts a key into its shard. Of one that is there, the last use stays: the index knows it better than the store.
func (ix *Index) add(n, place uint32, k *account.Key) {
	sh := &ix.shards[k.Hash[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.keys[k.Hash]
	if !ok && !k.LastUsedAt.IsZero() {
		e.saved = k.LastUsedAt.Unix()
		e.lastUsed = e.saved
	}
	e.number, e.place = n, place
	sh.keys[k.Hash] = e
}

func (ix *Index) remove(h account.Hash) {
	sh := &ix.shards[h[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.keys, h)
}
