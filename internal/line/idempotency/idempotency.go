// Package idempotency keeps replies, so that a request repeated with the same Idempotency-Key gets the
// reply of the first one instead of a second call.
//
// Begin returns the turn of a key, or the reply that is already there. Whoever has the turn runs the call,
// records its reply with Record, calls Keep if the reply is complete, and always calls End. Repeats that
// arrive meanwhile wait, on this node and, if nodes share a database, on the others (Claims). A reply is encrypted under the caller's Idempotency-Key, which is not stored, and
// the service's own key. This package does not know what a reply on the wire looks like or when it is
// complete; package httpapi does.
package idempotency

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/health"
	"sluice/internal/kit/seal"
)

// Header is the request header that holds the key.
const Header = "Idempotency-Key"

const (
	maxKey     = 255       // characters
	maxReply   = 1 << 20   // bytes of one reply as it is kept; a larger one is not kept
	maxAccount = 64 << 20  // bytes of all replies of an account
	maxHeld    = 256 << 20 // bytes that are being recorded at the same time, over all accounts

	defaultWait = time.Minute
	defaultLife = 24 * time.Hour

	defaultFind = time.Second
	defaultKeep = 2 * time.Second
)

// Store keeps encrypted replies.
type Store interface {
	// FindReply returns the encrypted reply with the id, if it has not expired; nil: there is none.
	FindReply(ctx context.Context, id []byte, now time.Time) ([]byte, error)
	// KeepReply adds a record, unless one with its id is there and has not expired. It deletes the
	// account's oldest records if all of them together would exceed most bytes. It ends the record's claim
	// in the same transaction.
	KeepReply(ctx context.Context, r *Record, now time.Time, most int64) error
}

// Record is an encrypted reply, as it is stored.
type Record struct {
	ID        []byte // a hash of the account, the path and the key; the key itself is not stored
	AccountID string
	Sealed    []byte
	ExpiresAt time.Time
	Claim     *Claim // ends in the same step; nil: there is none
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Wait is how long a repeat waits for the first call to end; default a minute.
	Wait time.Duration
	// Life is how long a reply is kept; default 24 hours.
	Life time.Duration
	// Key is the service's own; zero: replies are encrypted under the callers' keys alone.
	Key seal.Key
	// Claims are the calls that run on all nodes; nil: this process is the only one, and no database is
	// asked about running calls. With Claims, Run must run.
	Claims Claims
	// Node names this process in a claim, for people who look at the database; may be empty.
	Node string
	// ClaimLife is how long a claim holds without renewal; for tests. Default 15 seconds.
	ClaimLife time.Duration
	// Patience is how long a call waits for the database, before it runs and after; for tests. Default a second
	// before and two after.
	Patience time.Duration
}

// Replies knows the replies that can be repeated, and the calls that are running under a key. It is safe
// for concurrent use.
type Replies struct {
	store Store
	log   *slog.Logger
	wait  time.Duration
	life  time.Duration
	key   seal.Key
	// How long a call waits for a database that does not answer, before it runs and after.
	findPatience, keepPatience time.Duration

	held    atomic.Int64   // bytes that are being recorded
	trouble health.Trouble // with the database; while it lasts every request with a key would log

	claims    Claims // nil: this process is the only one
	claimLife time.Duration
	holder    string        // this life of the node; no other process has ever had the same
	serial    atomic.Int64  // number of the last claim
	woken     chan struct{} // has one element if there may be something in ended

	mu      sync.Mutex             // guards the fields below; requests without a key never take it
	running map[[idSize]byte]*Turn // the turns that have not ended, by the id of their key
	ended   []*Claim               // claims to drop, oldest first
}

// New returns the replies of a store. Opts may be nil.
func New(store Store, log *slog.Logger, opts *Options) *Replies {
	if opts == nil {
		opts = &Options{}
	}
	return &Replies{
		store: store, log: log, wait: cmp.Or(opts.Wait, defaultWait), life: cmp.Or(opts.Life, defaultLife), key: opts.Key,
		findPatience: cmp.Or(opts.Patience, defaultFind), keepPatience: cmp.Or(opts.Patience, defaultKeep), claims: opts.Claims, claimLife: cmp.Or(opts.ClaimLife, defaultClaim), holder: opts.Node + "/" + rand.Text(), woken: make(chan struct{}, 1),
		running: map[[idSize]byte]*Turn{},
	}
}

// Request is a request that has a key.
type Request struct {
	AccountID string
	Path      string
	Key       []string // the values of the header
	Body      []byte   // a repeat must have the same
	// Waited is called with the time that was spent waiting for another request with the key, which is not the time
	// that the database took; nil: it is not measured.
	Waited func(from, until time.Time)
}

// waited tells that the request has waited for another one since from. If that is zero, it has not.
func (r *Request) waited(from time.Time) {
	if r.Waited != nil && !from.IsZero() {
		r.Waited(from, time.Now())
	}
}

// Begin returns the turn, or the reply of an earlier request; exactly one of them is not nil unless there is
// an error. While another request has the turn, it waits. If the database does not answer, the call runs as
// if there were no reply: a broken store must not stop the service. Whoever gets a turn must call End.
func (r *Replies) Begin(ctx context.Context, req Request) (*Turn, *Reply, error) {
	key, err := ReadKey(req.Key)
	if err != nil {
		return nil, nil, err
	}
	s := secret{accountID: req.AccountID, path: req.Path, key: key, own: r.key}
	t := &Turn{replies: r, secret: s, id: s.id(), body: sha256.Sum256(req.Body), done: make(chan struct{})}
	patience := time.Now().Add(r.wait)
	reply, err := r.await(ctx, t, &req, patience)
	if reply != nil || err != nil {
		return nil, reply, err
	}
	// The turn comes before the look into the store: two requests that look at the same time would both
	// find nothing and both run.
	if reply, err = r.contend(ctx, t, &req, patience); err != nil || reply != nil {
		t.finish(reply)
		return nil, reply, err
	}
	return t, nil, nil
}

// await waits for the turn. It returns a nil reply and no error once the turn is t's, and the reply of the
// request before if that one kept it. The body is compared first: another body under the same key is a
// mistake of the caller, whatever becomes of the first request.
func (r *Replies) await(ctx context.Context, t *Turn, req *Request, patience time.Time) (*Reply, error) {
	var over <-chan time.Time // made only if there is somebody to wait for
	var since time.Time
	defer func() { req.waited(since) }()
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
		if over == nil {
			timer := time.NewTimer(time.Until(patience))
			defer timer.Stop()
			over, since = timer.C, time.Now()
		}
		select {
		case <-first.done:
			if first.reply != nil {
				return first.reply, nil
			}
			// The first request kept nothing, so one of those that wait takes the turn. The others keep
			// waiting, all within one patience.
		case <-over:
			return nil, r.stillRunning()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// stillRunning returns the fault for a request whose patience is over.
func (r *Replies) stillRunning() error {
	return fault.New(fault.Conflict, "Another request with this Idempotency-Key is still running after %d seconds. Wait for it to end, then send the same request again.", int(r.wait.Seconds())).At(Header)
}

// read decrypts a kept reply; nil: it cannot be read, so the call runs. It returns an error if it is the
// reply to another body.
func (r *Replies) read(t *Turn, sealed []byte) (*Reply, error) {
	body, reply, err := t.secret.open(sealed)
	if err != nil {
		r.trouble.Failed(r.log, "a kept reply cannot be read; its call runs again", err)
		return nil, nil
	}
	if body != t.body {
		return nil, OtherBody()
	}
	return reply, nil
}

// ReadKey returns the key in the values of the header, or the fault of a key that cannot be used.
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

// OtherBody returns the fault for a key that was used before with another body.
func OtherBody() error {
	return fault.New(fault.Invalid, "This Idempotency-Key was used before with another body. Send the same body, or a new key.").At(Header)
}
