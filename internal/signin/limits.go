package signin

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"sluice/internal/fault"
)

// limits slows down guessing and flooding: it counts attempts in a span of time by each key that
// names them, such as an address, a place, or both together. It is in memory, so each process
// counts for itself and a restart resets the counts. Its size is bounded; see makeRoom.
type limits struct {
	now    func() time.Time
	hashes chan struct{} // a semaphore: one element for each password that is being hashed

	mu     sync.Mutex // guards the fields below
	tries  map[key]tries
	swept  time.Time // when old tries were last dropped
	mostOf int       // how many keys tries may have
}

// key names what is counted. It is a hash, so that it has the same size whatever a stranger typed.
type key [16]byte

// keyOf returns the key for a kind of attempt and the parts that name it. Keys of different kinds never
// meet, because the kind is part of the hash.
func keyOf(kind string, parts ...string) key {
	h := sha256.New()
	for _, part := range append(parts, kind) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // so that "a","b" is not "ab",""
		h.Write([]byte(part))
	}
	return key(h.Sum(nil)[:len(key{})])
}

// tries is how many attempts one key has used in its current span.
type tries struct {
	count int
	ends  time.Time // when the span ends and the count starts again
}

// limit is how many attempts are allowed in a span. The span starts with the first attempt.
type limit struct {
	most int
	span time.Duration
}

// times returns the limit with n times as many attempts.
func (l limit) times(n int) limit { return limit{l.most * n, l.span} }

// The limits. A browser that has signed in to an account before is counted apart, so that strangers
// who use up a limit never lock the owner out; see Desk.known.
var (
	guessesHere   = limit{10, 15 * time.Minute} // at one address from one place, or in a known browser
	guessesAnyhow = limit{100, time.Hour}       // at one address from all unknown browsers
	tryAtHost     = limit{60, 15 * time.Minute} // from one place
	codesHere     = limit{10, 15 * time.Minute} // at one account's codes
	codesADay     = limit{50, 24 * time.Hour}   // at one account's codes, from all unknown browsers
	proofsHere    = limit{10, 15 * time.Minute} // in one session
	proofsAnyhow  = limit{50, time.Hour}        // in all sessions of one account
	mailsHere     = limit{5, time.Hour}         // to one address from one place, or from a known browser
	mailsByHost   = limit{20, time.Hour}        // from one place
	mailsByOwner  = limit{20, time.Hour}        // from one account
)

const (
	// hashesAtOnce bounds the memory for hashing passwords, which takes argonMemory each.
	hashesAtOnce = 2
	hashPatience = 3 * time.Second // how long a request waits for its turn
	hashRetry    = 5 * time.Second // the Retry-After of a request whose turn did not come

	maxTries = 50_000 // keys at once, about 100 bytes each
	// sweepEvery is how often try drops spans that have ended.
	sweepEvery  = time.Minute
	triesLooked = 8  // how many keys makeRoom chooses from
	networkBits = 48 // prefix of an IPv6 address that one customer of a provider may have
	networkWide = 10 // such a network may make this many times the attempts of one place
)

// newLimits returns limits that read the time from now.
func newLimits(now func() time.Time) *limits {
	return &limits{now: now, hashes: make(chan struct{}, hashesAtOnce), tries: map[key]tries{}, mostOf: maxTries}
}

// place returns what attempts from an IP address are counted by: an IPv4 address itself, and the
// /64 network of an IPv6 address, because whoever has one has all 2^64 addresses in it.
func place(remote string) string {
	addr, err := netip.ParseAddr(remote)
	if err != nil || addr.Unmap().Is4() {
		return remote
	}
	if network, err := addr.Prefix(64); err == nil {
		return network.String()
	}
	return remote
}

// attempt is one use of a key.
type attempt struct {
	key key
	limit
}

// fromHost returns the attempts that count for where a visit comes from: its place and, for IPv6,
// the wider network.
func fromHost(kind string, v Visit, l limit) []attempt {
	list := []attempt{{keyOf(kind+" place", place(v.Remote)), l}}
	if addr, err := netip.ParseAddr(v.Remote); err == nil && !addr.Unmap().Is4() {
		if network, err := addr.Prefix(networkBits); err == nil {
			list = append(list, attempt{keyOf(kind+" network", network.String()), l.times(networkWide)})
		}
	}
	return list
}

// try counts one attempt against every key. If any of them is used up, it counts nothing and
// returns a fault that says how long to wait. Counting nothing matters: a place whose own limit is used
// up must not go on to use up the limit of an address.
func (l *limits) try(attempts ...attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// Sweeping here needs no goroutine, and without attempts there is nothing to sweep.
	if now.Sub(l.swept) >= sweepEvery {
		l.swept = now
		for k, t := range l.tries {
			if !t.ends.After(now) {
				delete(l.tries, k)
			}
		}
	}
	for _, a := range attempts {
		if t := l.tries[a.key]; t.ends.After(now) && t.count >= a.most {
			wait := t.ends.Sub(now)
			return fault.New(fault.RateLimited, "Too many attempts. Try again in %d minutes.", int(wait/time.Minute)+1).After(wait)
		}
	}
	for _, a := range attempts {
		t, known := l.tries[a.key]
		if !known {
			l.makeRoom()
		}
		if !t.ends.After(now) {
			t = tries{ends: now.Add(a.span)}
		}
		t.count++
		l.tries[a.key] = t
	}
	return nil
}

// makeRoom deletes one key if there is no room for another: the least used of a few. The caller
// holds mu. Refusing every new key would let a flood lock everybody out, and deleting the oldest
// would let a flood reset a count that protects an account. A flood of new keys has few attempts
// each, so it deletes its own.
func (l *limits) makeRoom() {
	if len(l.tries) < l.mostOf {
		return
	}
	var least key
	looked, fewest := 0, tries{}
	for k, t := range l.tries { // a map's order is random
		if looked == 0 || t.count < fewest.count || t.count == fewest.count && t.ends.Before(fewest.ends) {
			least, fewest = k, t
		}
		if looked++; looked == triesLooked {
			break
		}
	}
	delete(l.tries, least)
}

// forget resets the counts of keys, because their owner has proved who they are.
func (l *limits) forget(keys ...key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		delete(l.tries, k)
	}
}

// hashing runs work, which hashes a password. At most hashesAtOnce run at a time; a caller whose
// turn does not come within hashPatience gets a 503 with a time to retry after.
func (l *limits) hashing(ctx context.Context, work func()) error {
	patience := time.NewTimer(hashPatience)
	defer patience.Stop()
	select {
	case l.hashes <- struct{}{}:
	case <-ctx.Done():
		return busy().Because(ctx.Err())
	case <-patience.C:
		return busy()
	}
	defer func() { <-l.hashes }()
	work()
	return nil
}

// busy is the answer to a request whose password could not be hashed in time.
func busy() *fault.Fault {
	return fault.New(fault.Unavailable, "Too many people are signing in at this moment. Try again in a few seconds.").After(hashRetry)
}
