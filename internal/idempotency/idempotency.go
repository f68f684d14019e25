// Package idempotency keeps replies, so that a request repeated with the same Idempotency-Key gets the
// reply of the first one instead of a second call.
//
// Begin gives a request its turn, or the reply that is there already. Whoever has the turn runs the call,
// records what it answers, and calls End; repeats that arrive meanwhile wait for it. A reply is kept only
// where it is whole, encrypted under a key made of the caller's own, of which no copy is kept, and of the
// service's. What a reply on the wire looks like, and when it is whole, the door knows.
package idempotency

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/fault"
	"sluice/internal/seal"
)

// Header is the request header that holds the key.
const Header = "Idempotency-Key"

const (
	maxKey     = 255       // characters
	maxReply   = 1 << 20   // bytes of one reply as it is kept
	maxAccount = 64 << 20  // bytes of an account's replies together
	maxHeld    = 256 << 20 // bytes being recorded at once, over all accounts

	defaultWait = time.Minute
	defaultLife = 24 * time.Hour

	// How long a call waits for a database that does not answer, before and after.
	findPatience = time.Second
	keepPatience = 2 * time.Second
	// reportEvery bounds how often the same trouble is logged.
	reportEvery = time.Minute
)

// Store is where replies are kept.
type Store interface {
	// FindReply returns what is sealed under an id and has not expired; nil: nothing.
	FindReply(ctx context.Context, id []byte, now time.Time) ([]byte, error)
	// KeepReply adds a record, unless there is one under its id that has not expired. The account's
	// oldest records give way where all of them together would exceed most bytes.
	KeepReply(ctx context.Context, r *Record, now time.Time, most int64) error
}

// Record is a reply as it is stored.
type Record struct {
	ID        []byte // a hash of the account, the path and the key
	AccountID string
	Sealed    []byte
	ExpiresAt time.Time
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Wait is how long a repeat waits for the first call to end; default a minute.
	Wait time.Duration
	// Life is how long a reply is kept; default 24 hours.
	Life time.Duration
	// Key is the service's own; zero: replies are sealed under the callers' keys alone.
	Key seal.Key
}

// Replies is the replies that can be repeated, and the calls under way that may become such.
type Replies struct {
	store Store
	log   *slog.Logger
	wait  time.Duration
	life  time.Duration
	key   seal.Key

	held     atomic.Int64 // bytes being recorded
	reported atomic.Int64 // when trouble was last logged, Unix nanoseconds

	mu      sync.Mutex // only requests with a key take it
	running map[[idSize]byte]*Turn
}

// New returns the replies of a store.
func New(store Store, log *slog.Logger, opts *Options) *Replies {
	r := &Replies{store: store, log: log, wait: defaultWait, life: defaultLife, running: map[[idSize]byte]*Turn{}}
	if opts != nil && opts.Wait > 0 {
		r.wait = opts.Wait
	}
	if opts != nil && opts.Life > 0 {
		r.life = opts.Life
	}
	if opts != nil {
		r.key = opts.Key
	}
	return r
}

// Request is one that bears a key.
type Request struct {
	AccountID string
	Path      string
	Key       []string // the values of the header
	Body      []byte
}

// Begin returns the turn, or the reply of an earlier request. While another has the turn it waits. A
// database that does not answer does not refuse anybody: the call then runs as if there were no reply.
func (r *Replies) Begin(ctx context.Context, req Request) (*Turn, *Reply, error) {
	key, err := ReadKey(req.Key)
	if err != nil {
		return nil, nil, err
	}
	s := secret{accountID: req.AccountID, path: req.Path, key: key, own: r.key}
	t := &Turn{replies: r, secret: s, id: s.id(), body: sha256.Sum256(req.Body), done: make(chan struct{})}
	reply, err := r.await(ctx, t)
	if reply != nil || err != nil {
		return nil, reply, err
	}
	if reply, err = r.find(ctx, t); err != nil || reply != nil {
		t.finish(reply)
		return nil, reply, err
	}
	return t, nil, nil
}

// await returns without a reply when the turn is t's.
func (r *Replies) await(ctx context.Context, t *Turn) (*Reply, error) {
	var patience <-chan time.Time
	for {
		r.mu.Lock()
		first := r.running[t.id]
		if first == nil {
			r.running[t.id] = t
		}
		r.mu.Unlock()
		if first == nil {
			return nil, nil
		}
		if first.body != t.body {
			return nil, OtherBody()
		}
		if patience == nil {
			timer := time.NewTimer(r.wait)
			defer timer.Stop()
			patience = timer.C
		}
		select {
		case <-first.done:
			if first.reply != nil {
				return first.reply, nil
			}
		case <-patience:
			return nil, fault.New(fault.Conflict, "Another request with this Idempotency-Key is still running after %d seconds. Wait for it to end, then send the same request again.", int(r.wait.Seconds())).At(Header)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// find looks for a reply in the store. The only errors are faults of the request, and a caller who left.
func (r *Replies) find(ctx context.Context, t *Turn) (*Reply, error) {
	bounded, cancel := context.WithTimeout(ctx, findPatience)
	defer cancel()
	sealed, err := r.store.FindReply(bounded, t.id[:], time.Now())
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		r.report("kept replies cannot be looked up; calls with an Idempotency-Key run without", err)
		return nil, nil
	}
	if sealed == nil {
		return nil, nil
	}
	body, reply, err := t.secret.open(sealed)
	if err != nil {
		r.report("a kept reply cannot be read; its call runs again", err)
		return nil, nil
	}
	if body != t.body {
		return nil, OtherBody()
	}
	return reply, nil
}

// report logs trouble, but not for every call.
func (r *Replies) report(message string, err error) {
	now, last := time.Now().UnixNano(), r.reported.Load()
	if now-last >= int64(reportEvery) && r.reported.CompareAndSwap(last, now) {
		r.log.Warn(message, "error", err.Error())
	}
}

// ReadKey returns the key of the header's values.
func ReadKey(values []string) (string, error) {
	if len(values) != 1 {
		return "", fault.New(fault.Invalid, "The header Idempotency-Key is there %d times; send it once.", len(values)).At(Header)
	}
	key := values[0]
	if len(key) < 1 || len(key) > maxKey {
		return "", fault.New(fault.Invalid, "Idempotency-Key must have 1 to %d characters; this one has %d.", maxKey, len(key)).At(Header)
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", fault.New(fault.Invalid, "Idempotency-Key must be printable ASCII; character %d is not. A UUID is a good choice.", i+1).At(Header)
		}
	}
	return key, nil
}

// OtherBody is the fault of a key that comes again with another body.
func OtherBody() error {
	return fault.New(fault.Invalid, "This Idempotency-Key was used before with another body. Send the same body, or a new key.").At(Header)
}
