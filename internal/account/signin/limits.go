package signin

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"sluice/internal/kit/fault"
)

// limits slows down guessing and flooding: it counts attempts in a span of time by each key that
// names them, such as an address, a place, or both together.
type limits struct {
	tries  Tries
	hashes chan struct{} // a semaphore: one element for each password that is being hashed in this process
}

// Tries counts attempts. One process counts in memory (see memoryTries), so a restart resets its counts;
// several on one database count there, together. If the database does not answer nobody can sign in anyway,
// so an attempt that cannot be counted is refused.
type Tries interface {
	// CountAttempts counts one attempt against every key. If any of them is used up, it counts nothing and
	// returns how long to wait for the first that is. Counting nothing matters: a place whose own limit is
	// used up must not use up the limit of an address as well. The keys must differ.
	CountAttempts(ctx context.Context, attempts []Attempt) (wait time.Duration, err error)
	// ForgetAttempts resets the counts of keys.
	ForgetAttempts(ctx context.Context, keys []Key) error
	// DropAttempts deletes counts whose span has ended, and the least used of the others beyond most.
	DropAttempts(ctx context.Context, most int) error
}

// Key names what is counted. It is a hash, so that it has the same size whatever a stranger typed.
type Key [16]byte

// keyOf returns the key for a kind of attempt and the parts that name it. Keys of different kinds never
// meet, because the kind is part of the hash.
func keyOf(kind string, parts ...string) Key {
	h := sha256.New()
	for _, part := range append(parts, kind) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // so that "a","b" is not "ab",""
		h.Write([]byte(part))
	}
	return Key(h.Sum(nil)[:len(Key{})])
}

// Limit is how many attempts are allowed in a span. The span starts with the first attempt.
type Limit struct {
	Most int
	Span time.Duration
}

// times returns the limit with n times as many attempts.
func (l Limit) times(n int) Limit { return Limit{l.Most * n, l.Span} }

// Attempt is one use of a key.
type Attempt struct {
	Key Key
	Limit
}

// The limits. A browser that has signed in to an account before is counted apart, so that strangers
// who use up a limit never lock the owner out; see Service.known.
var (
	guessesHere   = Limit{10, 15 * time.Minute}        // at one address from one place, or in a known browser
	guessesAnyhow = Limit{100, time.Hour}              // at one address from all unknown browsers
	tryAtHost     = Limit{60, 15 * time.Minute}        // from one place
	codesHere     = Limit{10, 15 * time.Minute}        // at one account's codes
	codesADay     = Limit{50, 24 * time.Hour}          // at one account's codes, from all unknown browsers
	proofsHere    = Limit{10, 15 * time.Minute}        // in one session
	proofsAnyhow  = Limit{50, time.Hour}               // in all sessions of one account
	mailsHere     = Limit{5, time.Hour}                // to one address from one place, or from a known browser
	mailsByHost   = Limit{20, time.Hour}               // from one place
	mailsByOwner  = Limit{20, time.Hour}               // from one account
	formsByOwner  = Limit{mostForms, 10 * time.Minute} // that change something, from one account
	paysByOwner   = Limit{mostPays, time.Hour}         // that lead to a payment, from one account
	listByHost    = Limit{mostLists, time.Hour}        // subscriptions to the status page, from one place
	listTo        = Limit{3, 24 * time.Hour}           // mails that ask one address to confirm one
	listByAll     = Limit{500, time.Hour}              // mails that ask any address
)

const (
	mostForms = 120
	mostPays  = 30
	mostLists = 20

	// hashesAtOnce bounds the memory for hashing passwords, which takes argonMemory each.
	hashesAtOnce = 2
	hashPatience = 3 * time.Second // how long a request waits for its turn
	hashRetry    = 5 * time.Second // the Retry-After of a request whose turn did not come

	maxTries      = 50_000          // keys at once, about 100 bytes each
	triesPatience = 3 * time.Second // how long an attempt waits to be counted

	networkBits = 48 // prefix of an IPv6 address that one customer of a provider may have
	networkWide = 10 // such a network may make this many times the attempts of one place
)

// newLimits returns limits on what tries counts.
func newLimits(tries Tries) *limits {
	return &limits{tries: tries, hashes: make(chan struct{}, hashesAtOnce)}
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

// fromHost returns the attempts that count for where a visit comes from: its place and, for IPv6,
// the wider network.
func fromHost(kind string, v Visit, l Limit) []Attempt {
	list := []Attempt{{keyOf(kind+" place", place(v.Remote)), l}}
	if addr, err := netip.ParseAddr(v.Remote); err == nil && !addr.Unmap().Is4() {
		if network, err := addr.Prefix(networkBits); err == nil {
			list = append(list, Attempt{keyOf(kind+" network", network.String()), l.times(networkWide)})
		}
	}
	return list
}

// CountForm counts a form that changes something of an account, or returns a fault that says how long to wait. Those who
// send forms by a program would otherwise fill the audit log, the ledger and the outbox. pays says that it leads to a payment.
func (d *Service) CountForm(ctx context.Context, accountID string, pays bool) error {
	attempts := []Attempt{{keyOf("forms of", accountID), formsByOwner}}
	if pays {
		attempts = append(attempts, Attempt{keyOf("payments of", accountID), paysByOwner})
	}
	return d.limits.try(ctx, attempts...)
}

// CountSubscription counts a form with which a stranger subscribes an address to the status page, or returns a fault that
// says how long to wait. It reports whether the address may get a mail: the stranger is not told how many it has got.
func (d *Service) CountSubscription(ctx context.Context, v Visit, address string) (mail bool, err error) {
	if err := d.limits.try(ctx, fromHost("subscribe", v, listByHost)...); err != nil {
		return false, err
	}
	err = d.limits.try(ctx, Attempt{keyOf("subscribe address", address), listTo}, Attempt{keyOf("subscribe all"), listByAll})
	if fault.Is(err, fault.RateLimited) {
		return false, nil
	}
	return err == nil, err
}

// try counts one attempt against every key, or returns a fault that says how long to wait; see Tries.
func (l *limits) try(ctx context.Context, attempts ...Attempt) error {
	ctx, cancel := context.WithTimeout(ctx, triesPatience)
	defer cancel()
	wait, err := l.tries.CountAttempts(ctx, attempts)
	if err != nil || wait <= 0 {
		return err
	}
	return fault.New(fault.RateLimited, "Too many attempts. Try again in %d minutes.", int(wait/time.Minute)+1).After(wait)
}

// forget resets the counts of keys, because their owner has proved who they are. A count that cannot be reset
// is no reason to turn the owner away: its span ends soon. An owner who has left is not counted either.
func (l *limits) forget(ctx context.Context, keys ...Key) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), triesPatience)
	defer cancel()
	_ = l.tries.ForgetAttempts(ctx, keys)
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
