package idempotency

import (
	"context"
	"time"
)

// Turn is the right to run the call of a key. One goroutine at a time may use it.
type Turn struct {
	replies *Replies
	secret  secret
	id      [idSize]byte
	body    [bodySize]byte

	recording recording
	counted   int64 // of Replies.held
	refused   bool  // the reply is too large, or there is no room to record it
	finished  bool

	done  chan struct{} // closed when the call has ended
	reply *Reply        // what it answered, if it can be repeated; not to be read before
}

// Record notes a piece of the reply that is about to be sent, of a stream or of a single body.
func (t *Turn) Record(piece []byte, stream bool) {
	if t.finished || t.refused {
		return
	}
	size := t.recording.size() + len(piece)
	if stream || size <= maxReply {
		t.recording.add(piece, stream)
		size = t.recording.size() // less, of a stream
	}
	all := t.replies.held.Add(int64(size) - t.counted)
	t.counted = int64(size)
	if size > maxReply || all > maxHeld {
		t.refused = true
		t.release()
	}
}

// Recorded is how many bytes of a single body have been recorded.
func (t *Turn) Recorded() int { return len(t.recording.kept) }

// Keep makes what was recorded the reply of the key, and hands it to those who wait. When it returns, a
// repeat finds the reply, also after the death of the process, unless the database does not answer: then
// only those who wait get it, and the log says so. A reply that is too large is not kept.
func (t *Turn) Keep(ctx context.Context) {
	if t.finished || t.refused {
		return
	}
	reply := t.recording.reply()
	r := t.replies
	now := time.Now()
	record := &Record{ID: t.id[:], AccountID: t.secret.accountID, Sealed: t.secret.seal(t.body, reply), ExpiresAt: now.Add(r.life)}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepPatience) // the caller may have left
	defer cancel()
	if err := r.store.KeepReply(ctx, record, now, maxAccount); err != nil {
		r.report("a reply could not be kept for repeats of its Idempotency-Key", err)
	}
	t.finish(reply)
}

// End gives the turn up. Where nothing was kept, one of those who wait has it next.
func (t *Turn) End() { t.finish(nil) }

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
}

func (t *Turn) release() {
	t.recording = recording{}
	t.replies.held.Add(-t.counted)
	t.counted = 0
}
