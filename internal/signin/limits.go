package signin

import (
	"net/netip"
	"sync"
	"time"

	"sluice/internal/fault"
)

// limits slows down whoever guesses or floods: so many attempts by each of what names them (an address,
// where they come from, both together) in a span of time. It lives in memory, one for each process.
type limits struct {
	now    func() time.Time
	hashes chan struct{} // bounds passwords being hashed at once, 19 MiB each

	mu      sync.Mutex
	tries   map[string]*tries
	sweepAt int // how many keys are looked through for old ones
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

var (
	guessesHere    = limit{10, 15 * time.Minute} // of one address from one place
	guessesAnyhow  = limit{100, time.Hour}       // of one address from everywhere
	attemptsByHost = limit{60, 15 * time.Minute}
	mailsTo        = limit{5, time.Hour}
	mailsByHost    = limit{20, time.Hour}
)

const (
	hashesAtOnce = 4
	sweepFrom    = 10_000 // keys
)

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, hashes: make(chan struct{}, hashesAtOnce), tries: map[string]*tries{}, sweepAt: sweepFrom}
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
	key string
	limit
}

// try counts an attempt against every key, or says how long to wait. It counts nothing when it refuses.
func (l *limits) try(attempts ...attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if len(l.tries) > l.sweepAt {
		for key, t := range l.tries {
			if !t.ends.After(now) {
				delete(l.tries, key)
			}
		}
		l.sweepAt = max(sweepFrom, 2*len(l.tries))
	}
	for _, a := range attempts {
		if t := l.tries[a.key]; t != nil && t.ends.After(now) && t.count >= a.most {
			wait := t.ends.Sub(now)
			return fault.New(fault.RateLimited, "Too many attempts. Try again in %d minutes.", int(wait/time.Minute)+1).After(wait)
		}
	}
	for _, a := range attempts {
		t := l.tries[a.key]
		if t == nil || !t.ends.After(now) {
			t = &tries{ends: now.Add(a.span)}
			l.tries[a.key] = t
		}
		t.count++
	}
	return nil
}

// forget lets a key start anew: its owner has proved who they are.
func (l *limits) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tries, key)
}

// hashing runs work that hashes a password, few at a time.
func (l *limits) hashing(work func()) {
	l.hashes <- struct{}{}
	defer func() { <-l.hashes }()
	work()
}
