package idempotency

import (
	"context"
	"time"
)

// Turn is the right to run the call of a key. Only its owner uses it, one goroutine at a time; requests that
// wait for it read only done, reply and body.
type Turn struct {
	replies *Replies
	secret  secret
	id      [idSize]byte
	body    [bodySize]byte // a hash of the request's body

	recording recording
	counted   int64 // the part of Replies.held that this recording takes
	refused   bool  // the reply is too large, or there is no room to record it
	finished  bool
	claim     *Claim // the claim over all nodes; nil: there is none. Set by the owner under Replies.mu
	unclaimed bool   // the claim has ended together with keeping the reply

	done  chan struct{} // closed when the call has ended
	reply *Reply        // the reply, if it can be repeated, else nil; valid after done is closed
}

// Record adds a piece of the reply that is about to be sent. A reply that gets too large is dropped: the
// caller still gets it, but a repeat runs the call again.
func (t *Turn) Record(piece []byte, stream bool) {
	if t.finished || t.refused {
		return
	}
	// The recording grows before the bound is checked, except for a single body that is surely too large: a
	// stream may be smaller than its pieces.
	size := t.recording.size() + len(piece)
	if stream || size <= maxReply {
		t.recording.add(piece, stream)
		size = t.recording.size() // a stream takes less than its length
	}
	all := t.replies.held.Add(int64(size) - t.counted)
	t.counted = int64(size)
	if size > maxReply || all > maxHeld {
		t.refused = true
		t.release()
	}
}

// Keep stores what was recorded as the reply of the key, with headers that every repeat gets, and gives it to the requests that wait. The reply
// must be complete. When Keep returns, a repeat finds the reply, even after a crash. If the database does
// not answer, only the requests that wait in this process get it, and the log says so. A reply that is too large is not kept.
func (t *Turn) Keep(ctx context.Context, header ...Field) {
	if t.finished || t.refused {
		return
	}
	reply := t.recording.reply(header)
	r := t.replies
	now := time.Now()
	record := &Record{ID: t.id[:], AccountID: t.secret.accountID, Sealed: t.secret.seal(t.body, reply), ExpiresAt: now.Add(r.life), Claim: t.claim}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.keepPatience) // the caller may have left
	defer cancel()
	err := r.store.KeepReply(ctx, record, now, maxAccount)
	if err != nil {
		r.trouble.Failed(r.log, "a reply could not be kept for repeats of its Idempotency-Key", err)
	}
	t.unclaimed = err == nil
	t.finish(reply)
}

// End ends the turn. If nothing was kept, one of the waiting requests gets it next. It does nothing after
// Keep, so it can be deferred.
func (t *Turn) End() { t.finish(nil) }

// finish ends the turn with the reply, which may be nil. The turn leaves the map before done is closed, so
// that a waiting request finds the key free.
func (t *Turn) finish(reply *Reply) {
	if t.finished {
		return
	}
	t.finished = true
	t.release()
	t.reply = reply
	t.replies.mu.Lock()
	delete(t.replies.running, t.id)
	t.replies.mu.Unlock()
	close(t.done)
	// A renewal that is under way does no harm: it never brings back a claim that was dropped.
	if t.claim != nil && !t.unclaimed {
		t.replies.leave(t.claim)
	}
}

// release frees the recording and its share of the bound.
func (t *Turn) release() {
	t.recording = recording{}
	t.replies.held.Add(-t.counted)
	t.counted = 0
}
