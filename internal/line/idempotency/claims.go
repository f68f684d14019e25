package idempotency

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"sluice/internal/kit/pace"
)

const (
	// defaultClaim is how long a claim holds after its last renewal: a key is free again at most this long
	// after its node has died. A node renews three times in it, so that one slow answer of the database
	// costs no claim.
	defaultClaim = 15 * time.Second
	renewals     = 3

	// A request that waits for a call on another node looks for its end after the first pause, and then at
	// longer and longer ones up to the last. Each is shortened at random by up to a half, so that many that
	// wait do not ask at the same moment.
	firstPause = 50 * time.Millisecond
	lastPause  = 500 * time.Millisecond

	// maxEnded bounds the claims that wait to be dropped while the database does not answer. Those beyond
	// end by themselves.
	maxEnded = 1000
)

// Claims are the turns of all nodes on one database: what the map of running turns is inside one process.
type Claims interface {
	// ClaimReply takes the claim on the id for the time life and reports whether it did. It does not if a
	// reply is kept, or another holder's claim is in force. Then it looks, as SeekReply does: the claim comes
	// before the look, as the turn does in Begin.
	ClaimReply(ctx context.Context, c *Claim, now time.Time, life time.Duration) (held bool, sealed, body []byte, err error)
	// SeekReply returns the encrypted reply with the id and the body of the claim that is in force; nil:
	// there is none.
	SeekReply(ctx context.Context, id []byte, now time.Time) (sealed, body []byte, err error)
	// RenewClaims extends the holder's claims on the ids by the time life from now on.
	RenewClaims(ctx context.Context, holder string, ids [][]byte, life time.Duration) error
	// DropClaim ends a claim, if it is still the holder's.
	DropClaim(ctx context.Context, c *Claim) error
}

// Claim is the right of one node to run the call of a key.
type Claim struct {
	ID     []byte // as in Record
	Body   []byte // a hash of the caller's key and the request's body: from it alone no body can be guessed
	Holder string // one life of a node
	Serial int64  // number of the claim among the holder's
}

// Run renews the claims of this node's running calls, and ends those of calls that kept no reply, until ctx
// ends. If this process is alone, it returns at once.
func (r *Replies) Run(ctx context.Context) {
	if r.claims == nil {
		return
	}
	for woken := range pace.Woken(ctx, r.claimLife/renewals, r.woken) {
		if !woken {
			r.renew(ctx)
		}
		r.dropEnded(ctx) // at a tick, what could not be dropped before
	}
	r.dropEnded(context.WithoutCancel(ctx)) // other nodes need not wait until the claims lapse
}

// renew extends the claims of the running turns. A failure is reported and not repeated: the next round
// comes before the claims lapse.
func (r *Replies) renew(ctx context.Context) {
	var ids [][]byte
	r.mu.Lock()
	for _, t := range r.running {
		if t.claim != nil {
			ids = append(ids, t.claim.ID)
		}
	}
	r.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.keepPatience)
	defer cancel()
	if err := r.claims.RenewClaims(ctx, r.holder, ids, r.claimLife); err != nil && ctx.Err() == nil {
		r.trouble.Failed(r.log, "running calls with an Idempotency-Key cannot be renewed; other nodes may run them again", err)
	}
}

// leave queues a claim to be dropped, so that the end of a call does not wait for the database.
func (r *Replies) leave(c *Claim) {
	r.mu.Lock()
	if len(r.ended) < maxEnded {
		r.ended = append(r.ended, c)
	}
	r.mu.Unlock()
	pace.Wake(r.woken)
}

// dropEnded drops what leave has queued. What fails is kept for the next round.
func (r *Replies) dropEnded(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.keepPatience)
	defer cancel()
	for {
		r.mu.Lock()
		if len(r.ended) == 0 {
			r.mu.Unlock()
			return
		}
		c := r.ended[0]
		r.mu.Unlock()
		if r.claims.DropClaim(ctx, c) != nil {
			return // it lapses if this lasts; the database's failure is reported elsewhere
		}
		r.mu.Lock()
		r.ended = r.ended[1:] // only this goroutine takes from the front
		r.mu.Unlock()
	}
}

// contend looks for the reply of an earlier call. If there are other nodes, it gets the claim on the key of t, which has
// the turn in this process, or waits for the node that has it. It returns the reply, or nil once the call may run here.
// If the database does not answer, the call runs: a broken store must not stop the service. But while a call on another
// node may still hold a claim that was seen before, the request keeps waiting.
func (r *Replies) contend(ctx context.Context, t *Turn, req *Request, patience time.Time) (*Reply, error) {
	var claim *Claim
	if r.claims != nil {
		claim = &Claim{ID: t.id[:], Body: t.secret.bodyID(t.body), Holder: r.holder, Serial: r.serial.Add(1)}
	}
	pause, claiming := firstPause, true
	var first, seen time.Time // when another node's claim was seen for the first and the last time
	defer func() { req.waited(first) }()
	for {
		held, sealed, body, err := r.look(ctx, t, claim, claiming)
		claiming = false
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && (seen.IsZero() || time.Since(seen) > r.claimLife):
			r.trouble.Failed(r.log, "kept replies cannot be looked up; calls with an Idempotency-Key run without", err)
			return nil, nil
		case err != nil: // wait
		case sealed != nil:
			return r.read(t, sealed)
		case held:
			return nil, nil
		case body == nil: // the other call has ended without a reply, or its node is dead
			claiming = true
		case !bytes.Equal(body, claim.Body):
			return nil, OtherBody()
		default:
			if seen = time.Now(); first.IsZero() {
				first = seen
			}
		}
		if time.Until(patience) <= 0 {
			return nil, r.stillRunning()
		}
		if !claiming {
			if err := pace.Sleep(ctx, min(pause/2+rand.N(pause/2), time.Until(patience))); err != nil {
				return nil, err
			}
			pause = min(2*pause, lastPause)
		}
	}
}

// look looks for the reply and for the claim of another node. If claiming is set, it first tries to get the
// claim. A process that is alone always has it.
func (r *Replies) look(ctx context.Context, t *Turn, claim *Claim, claiming bool) (held bool, sealed, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.findPatience)
	defer cancel()
	if r.claims == nil {
		sealed, err = r.store.FindReply(ctx, t.id[:], time.Now())
		return true, sealed, nil, err
	}
	if !claiming {
		sealed, body, err = r.claims.SeekReply(ctx, t.id[:], time.Now())
		return false, sealed, body, err
	}
	held, sealed, body, err = r.claims.ClaimReply(ctx, claim, time.Now(), r.claimLife)
	// After an error nobody knows whether the claim was stored. So the turn owns it, too: it is renewed
	// if it is there, and dropped at the end.
	if held || err != nil {
		r.mu.Lock()
		t.claim = claim
		r.mu.Unlock()
	}
	return held, sealed, body, err
}
