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

// limits slows down whoever guesses or floods: so many attempts in a span of time by each of what names them (an
// address, where they come from, both together). It lives in memory, one for each process, and its size is
// bounded; see makeRoom.
type limits struct {
	now    func() time.Time
	hashes chan struct{} // one place for each password that is being hashed

	mu     sync.Mutex
	tries  map[key]tries
	swept  time.Time // when old tries were last dropped
	mostOf int       // bound of tries
}

// key names what is counted. It has one size, whatever a stranger typed.
type key [16]byte

// keyOf is the key of a kind of attempt by what names it.
func keyOf(kind string, parts ...string) key {
	h := sha256.New()
	for _, part := range append(parts, kind) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // so that "a","b" is not "ab",""
		h.Write([]byte(part))
	}
	return key(h.Sum(nil)[:len(key{})])
}

// tries is what one key has used of its span.
type tries struct {
	count int
	ends  time.Time
}

// limit is how many attempts a span allows.
type limit struct {
	most int
	span time.Duration
}

// times is a limit with more attempts.
func (l limit) times(n int) limit { return limit{l.most * n, l.span} }

// The limits. A browser that has signed in to an account before is counted by itself, so that what strangers
// try never keeps the owner out of it; see Desk.known.
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
	// hashesAtOnce bounds the memory of passwords being hashed: argonMemory each.
	hashesAtOnce = 2
	hashPatience = 3 * time.Second // how long a request waits for its turn
	hashRetry    = 5 * time.Second // what it is told to wait after that

	maxTries    = 50_000 // keys at once, about 100 bytes each
	sweepEvery  = time.Minute
	triesLooked = 8  // among how many makeRoom chooses
	networkBits = 48 // of an IPv6 address: what one customer may have of many networks
	networkWide = 10 // how many times the attempts of one place its wider network has
)

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, hashes: make(chan struct{}, hashesAtOnce), tries: map[key]tries{}, mostOf: maxTries}
}

// place is what attempts from an address are counted by. Of an IPv6 address it is the network: its holder
// has 2^64 addresses.
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

// fromHost are the attempts that count for where a visit comes from: its place, and around that of IPv6 the
// wider network.
func fromHost(kind string, v Visit, l limit) []attempt {
	list := []attempt{{keyOf(kind+" place", place(v.Remote)), l}}
	if addr, err := netip.ParseAddr(v.Remote); err == nil && !addr.Unmap().Is4() {
		if network, err := addr.Prefix(networkBits); err == nil {
			list = append(list, attempt{keyOf(kind+" network", network.String()), l.times(networkWide)})
		}
	}
	return list
}

// try counts an attempt against every key, or says how long to wait. It counts nothing when it refuses.
func (l *limits) try(attempts ...attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
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

// makeRoom forgets one key where there is no room for another: the least used of a few. To refuse everybody
// new would let a flood keep people out; to forget the oldest would let it reset a count that protects an
// account. A flood of new keys has few attempts each, so it forgets its own.
func (l *limits) makeRoom() {
	if len(l.tries) < l.mostOf {
		return
	}
	var least key
	looked, fewest := 0, tries{}
	for k, t := range l.tries { // begins anywhere
		if looked == 0 || t.count < fewest.count || t.count == fewest.count && t.ends.Before(fewest.ends) {
			least, fewest = k, t
		}
		if looked++; looked == triesLooked {
			break
		}
	}
	delete(l.tries, least)
}

// forget lets keys start anew: their owner has proved who they are.
func (l *limits) forget(keys ...key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		delete(l.tries, k)
	}
}

// hashing runs work that hashes a password, few at a time. Whoever waits too long is told to come back.
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

func busy() *fault.Fault {
	return fault.New(fault.Unavailable, "Too many people are signing in at this moment. Try again in a few seconds.").After(hashRetry)
}
