package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/kit/pulse"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// writeAt is the number of bytes after which output is written, even if more events are waiting.
const writeAt = 16 << 10

const (
	// commentPatience bounds the write of a keep-alive comment, during which the pulse serves no other
	// stream.
	commentPatience = time.Second
	// writeBeats is the number of keepAlive periods that a caller may take to read one write: a minute.
	writeBeats = 4
)

// The values of headers, shared by all streams: a literal would be an allocation for each reply.
var (
	eventStream = []string{"text/event-stream"}
	noCache     = []string{"no-cache"}
	noBuffering = []string{"no"} // for proxies
)

// streamer sends a reply as server-sent events. Nothing is sent before the upstream's first event or the
// first comment, so a reply that fails before that is an ordinary error response. A later failure is an
// error event at the end of the stream.
//
// Whatever the upstream sends, the caller gets a stream that keeps these rules (docs/api.md#streams):
//
//   - every chunk has the same id, time and model, and finish_reason, if only as null;
//   - the first delta of a choice has the role, and no other has it;
//   - a choice has one chunk with a finish_reason, and nothing after it;
//   - the first piece of a tool call has an id and a name, and the indexes have no gap;
//   - the usage comes once, in a chunk of its own before the end, if the caller wants it;
//   - [DONE] ends a complete stream, an error event one that failed; never both.
//
// Two goroutines write: the one that relays, and the pulse, which writes comments. See mu.
type streamer struct {
	reply
	prefix []byte  // "data: " and the head, the same for every chunk
	out    []byte  // collected, not yet written
	pooled *[]byte // where out comes from, and returns to; nil while nothing is collected: a silent stream holds no buffer
	like   pattern

	mu      sync.Mutex // guards the fields below, the headers, and writing to w
	w       http.ResponseWriter
	flusher http.Flusher // w's; nil: it has none
	begun   bool         // headers have been set: something has gone out, or is about to
	over    bool         // no more comments: only the last bytes may go out

	includeUsage bool // the stream ends with a usage chunk

	sign func(*[sha256.Size]byte) string // see Options; nil: the stream has no receipt
	sent hash.Hash                       // of all events that were sent, guarded by mu; nil if sign is

	beat *pulse.Beat // nil: nobody notices silence

	writes atomic.Int64 // the number of writes that were started
	stuck  struct {     // used by the pulse alone
		in    int64 // the write that was running at the last beat
		beats int   // the number of beats for which it has been running
	}
}

// newStreamer returns the sender of a stream. From here on the pulse may write comments.
func newStreamer(w http.ResponseWriter, h Head, opts *Options) *streamer {
	s := &streamer{reply: newReply(h, opts), includeUsage: opts.IncludeUsage, w: w}
	s.flusher, _ = w.(http.Flusher)
	if s.sign = opts.Sign; s.sign != nil {
		s.sent = sha256.New()
	}
	if opts.Pulse != nil {
		s.beat = opts.Pulse.Watch(keepAlive, s.comment)
	}
	return s
}

// Introduce implements Sender. It holds the lock because the pulse may be sending the headers.
func (s *streamer) Introduce(answers func(http.Header) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head.Model = answers(s.w.Header())
}

// Relay implements Sender. Output is written as soon as the upstream has no further event ready.
// Events that are ready together leave in one write: each write is a system call here and a packet
// on the network.
func (s *streamer) Relay(ctx context.Context, in provider.Stream) *Outcome {
	s.begins(make([]byte, 0, 192))
	for {
		ev, err := in.Next()
		if err == nil {
			if err = s.take(ev); err != nil {
				err = told(in, err)
			}
		}
		if long := s.tooLong(); long != nil {
			err = long
		}
		if err != nil {
			return s.end(ctx, err)
		}
		if len(s.out) < writeAt && in.Ready() {
			continue
		}
		if len(s.out) > 0 {
			if err := s.flush(); err != nil {
				return s.gone(ctx, err)
			}
		}
		s.give()
	}
}

// hold makes sure that there is a buffer to collect output in.
func (s *streamer) hold() {
	if s.pooled == nil {
		s.pooled = buffers.Get().(*[]byte)
		s.out = *s.pooled
	}
}

// give returns the buffer, whose output was written or is not needed.
func (s *streamer) give() {
	if s.pooled != nil {
		putBuffer(s.pooled, s.out)
		s.pooled, s.out = nil, nil
	}
}

// Fail implements Sender.
func (s *streamer) Fail(ctx context.Context, err error) *Outcome { return s.end(ctx, err) }

// Close implements Sender. Beat.Stop waits for a comment that is being written.
func (s *streamer) Close() {
	if s.beat != nil {
		s.beat.Stop()
	}
	s.give()
}

// take adds an event to the output.
// A chunk tries the fast ways first: again if it is like the one before, else splice for chat completions and retell for
// other dialects.
func (s *streamer) take(ev *provider.Event) error {
	s.hold()
	switch ev.Kind {
	case provider.Chunk:
		if s.again(ev.Raw) || s.spoken == nil && s.splice(ev.Raw) || s.spoken != nil && s.retell(ev.Raw) {
			return nil
		}
	case provider.Whole: // the upstream does not stream although the request wants it to
	default:
		s.event(ev)
		return nil
	}
	events, err := s.decoder.Decode(ev.Raw)
	if err != nil {
		return err
	}
	for i := range events {
		s.event(&events[i])
	}
	return nil
}

// splice sends the choices of a chunk as they are, after our own head. It reports false if the chunk needs
// the decoder; then nothing has been added to the output.
func (s *streamer) splice(raw []byte) bool {
	sh, ok := scanReply(raw, "delta")
	if !ok || sh.lines {
		return false
	}
	s.tier(sh.tier)
	// The usage is taken here and left out below: it goes out once, in a chunk of its own, and only if the
	// caller wants it.
	if u, ok := scanUsage(raw[sh.usage.from:sh.usage.to]); ok {
		s.usage(u)
	}
	if !sh.one {
		return true // no choice: a chunk with only the usage
	}
	c := s.choice(sh.index)
	switch {
	case c == nil || c.finished:
		return true // beyond n, or after the choice's end: drop it
	case !sh.hasFinish, sh.role && c.begun:
		return false // finish_reason must be added, or the second role left out
	case sh.finish != "":
		// The last chunk of a choice may go out as it is only if it has nothing else, and if its reason
		// needs no correction: see reply.finish.
		if !sh.bare || sh.finish == chat.FinishToolCalls || len(c.calls) > 0 {
			return false
		}
		s.begin(sh.index, c)
		s.finish(c, sh.finish)
	default:
		if sh.role {
			c.begun = true
		} else {
			s.begin(sh.index, c)
		}
		if sh.produced() {
			s.content()
			s.outcome.text.add(raw[sh.content.from:sh.content.to])
			s.outcome.text.add(raw[sh.refusal.from:sh.refusal.to])
			s.outcome.reasoning.add(raw[sh.reasoning.from:sh.reasoning.to])
		}
	}
	// Our head with the choices of the upstream. Everything else in its chunk is dropped: ids, fingerprints
	// and the upstream's name of the model.
	s.out = append(s.out, s.prefix...)
	s.out = append(s.out, raw[sh.choices.from:sh.choices.to]...)
	s.out = append(s.out, "}\n\n"...)
	s.learn(raw, &sh)
	return true
}

// tier records the upstream's service tier, which every chunk has from here on.
func (s *streamer) tier(tier string) {
	if s.reply.tier(tier) {
		s.begins(s.prefix)
		s.like.head = s.like.head[:0] // what was learned has the old one
	}
}

// begins sets what every chunk begins with, in the memory of b.
func (s *streamer) begins(b []byte) {
	s.prefix = appendHead(append(b[:0], "data: "...), s.head, "chat.completion.chunk")
}

// event encodes an event as one or more chunks.
// Events of a choice that is over, or was not asked for, are dropped. provider.Other is for
// dialects only.
func (s *streamer) event(ev *provider.Event) {
	switch ev.Kind {
	case provider.Usage:
		s.usage(ev.Usage)
		return
	case provider.Tier:
		s.tier(ev.Text)
		return
	}
	c := s.choice(ev.Choice)
	if c == nil || c.finished {
		return
	}
	if s.spoken != nil {
		s.out = s.speak(s.out, ev, c)
		return
	}
	if ev.Kind == provider.Other {
		return
	}
	s.beginWith(ev, c)
	switch ev.Kind {
	case provider.Text:
		s.delta(ev.Choice, `"content":`, ev.Text, &s.outcome.text)
	case provider.Declined:
		s.delta(ev.Choice, `"refusal":`, ev.Text, &s.outcome.text)
	case provider.Reasoning:
		s.delta(ev.Choice, `"reasoning_content":`, ev.Text, &s.outcome.reasoning)
	case provider.ToolCall:
		if p, ok := s.piece(ev.Choice, c, ev.Tool); ok {
			s.content()
			s.call(ev.Choice, p)
		}
	case provider.Finish:
		for i := range c.calls {
			if !c.calls[i].some && !c.calls[i].custom { // clients parse the arguments: none must be {}, not ""
				s.call(ev.Choice, provider.ToolPiece{Index: i, Arguments: "{}"})
			}
		}
		s.finish(c, ev.Finish)
		s.out = append(s.out, s.prefix...)
		s.out = appendFinish(s.out, ev.Choice, c.finish)
		s.out = append(s.out, "}\n\n"...)
	}
}

// begin writes the first delta of a choice, with the role, if the upstream did not send one.
func (s *streamer) begin(index int, c *choice) {
	s.beginAs(index, c, `"role":"assistant","content":""`)
}

// beginWith is begin before an event. As in a whole reply, a message that begins with a call has null as its
// content.
func (s *streamer) beginWith(ev *provider.Event, c *choice) {
	if ev.Kind == provider.ToolCall {
		s.beginAs(ev.Choice, c, `"role":"assistant","content":null`)
		return
	}
	s.begin(ev.Choice, c)
}

// beginAs writes the first delta of a choice, unless the choice has begun.
func (s *streamer) beginAs(index int, c *choice, delta string) {
	if c.begun {
		return
	}
	c.begun = true
	s.out = append(s.out, s.prefix...)
	s.out = appendDelta(s.out, index, func(b []byte) []byte { return append(b, delta...) })
	s.out = append(s.out, "}\n\n"...)
}

// delta writes a chunk with one text under a key, and adds the text to what was produced.
func (s *streamer) delta(index int, key, text string, to *produced) {
	if text == "" {
		return
	}
	s.content()
	s.out = append(s.out, s.prefix...)
	s.out = appendDelta(s.out, index, func(b []byte) []byte {
		b = append(b, key...)
		from := len(b)
		b = jsonscan.AppendQuoted(b, text)
		to.add(b[from+1 : len(b)-1])
		return b
	})
	s.out = append(s.out, "}\n\n"...)
}

// call writes a chunk with a piece of a tool call. Arguments count as produced text.
func (s *streamer) call(index int, p provider.ToolPiece) {
	s.out = append(s.out, s.prefix...)
	s.out = appendDelta(s.out, index, func(b []byte) []byte { return appendPiece(b, p) })
	s.out = append(s.out, "}\n\n"...)
	if p.Arguments != "" {
		quoted := jsonscan.AppendQuoted(nil, p.Arguments)
		s.outcome.text.add(quoted[1 : len(quoted)-1])
	}
}

// flush writes the output and flushes it to the network.
// Output is dropped after an error: the caller is gone.
func (s *streamer) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.start()
	}
	s.writes.Add(1) // lets hurry tell one write from the next
	n, err := s.w.Write(s.out)
	s.note(s.out[:n])
	s.out = s.out[:0]
	if err == nil && s.flusher != nil {
		s.flusher.Flush()
	}
	if s.beat != nil {
		s.beat.Touch()
	}
	return err
}

// note adds bytes that were sent to what the receipt is about. The caller holds the lock.
func (s *streamer) note(p []byte) {
	if s.sent != nil {
		s.sent.Write(p) // never fails
	}
}

// attest makes the receipt, and adds it to the output. SDKs ignore comments, and so the stream is what it would be without.
func (s *streamer) attest() {
	if s.sign == nil {
		return
	}
	s.mu.Lock()
	s.note(s.out)
	var reply *[sha256.Size]byte // nil: nothing was sent, and nothing will be
	if s.begun || len(s.out) > 0 {
		reply = new([sha256.Size]byte)
		s.sent.Sum(reply[:0])
	}
	s.sent = nil
	s.mu.Unlock()
	if signed := s.sign(reply); signed != "" {
		s.out = append(append(append(s.out, ": sluice-receipt "...), signed...), "\n\n"...)
	}
}

// start sets the headers, which go out with the first bytes. The caller holds the lock.
func (s *streamer) start() {
	s.begun = true
	h := s.w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Accel-Buffering"] = eventStream, noCache, noBuffering
}

// comment writes a keep-alive comment. The pulse calls it after keepAlive of silence. If a write is running,
// the stream is not silent: the caller is slow to read.
// TryLock keeps the pulse from waiting: it serves all streams.
func (s *streamer) comment() {
	if !s.mu.TryLock() {
		s.hurry()
		return
	}
	defer s.mu.Unlock()
	if s.over {
		return
	}
	if !s.begun {
		s.start() // from here on a failure is an error event, not an error response
	}
	// What the upstream sends next waits for this write, so it must not wait long for a caller who does not read.
	control := http.NewResponseController(s.w)
	_ = control.SetWriteDeadline(time.Now().Add(commentPatience))
	alive := []byte(": keep-alive\n")
	if s.spoken != nil {
		alive = s.spoken.dialect.KeepAlive(alive[:0])
	}
	if alive[0] != ':' { // comments are not repeated or resumed, so the receipt is not about them
		s.note(alive)
	}
	if _, err := s.w.Write(alive); err == nil && s.flusher != nil {
		s.flusher.Flush()
	}
	_ = control.SetWriteDeadline(time.Time{})
}

// hurry closes connections whose caller has stopped reading: after writeBeats it sets a deadline that has
// passed, and the write that is running fails. Otherwise such a caller would hold its upstream for ever.
func (s *streamer) hurry() {
	if n := s.writes.Load(); n != s.stuck.in {
		s.stuck.in, s.stuck.beats = n, 0
	}
	if s.stuck.beats++; s.stuck.beats > writeBeats {
		_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now())
	}
}

// end decides what became of the reply when its upstream ended with err, which may be io.EOF. A reply
// whose choices all have their finish reason is complete, however the upstream ended.
//
// It sends nothing. The call is settled next, and Finish sends the last bytes after that.
func (s *streamer) end(ctx context.Context, err error) *Outcome {
	s.silence()
	if s.complete() {
		s.outcome.Complete, s.outcome.Begun = true, true
		return &s.outcome
	}
	if ctx.Err() != nil {
		err = Ended(ctx)
		if errors.Is(err, ErrGone) {
			s.outcome.Err = err
			return &s.outcome
		}
	}
	f := s.failure(err)
	if len(s.out) == 0 && !s.outcome.Begun {
		// Nothing was sent and nothing is waiting to be sent, so the caller can get a real status code.
		s.outcome = Outcome{Err: f}
		return &s.outcome
	}
	s.outcome.Err, s.outcome.Begun = f, true
	return &s.outcome
}

// gone ends a stream whose caller cannot be written to: it hung up, or we closed its connection because the
// server is stopping. What was produced so far counts.
func (s *streamer) gone(ctx context.Context, err error) *Outcome {
	s.silence()
	s.outcome.Err = errors.Join(ErrGone, err)
	if errors.Is(context.Cause(ctx), ErrStopping) {
		s.outcome.Err = Ended(ctx)
	}
	return &s.outcome
}

// silence keeps the pulse from writing any more: while the call is being settled, and at the end, a
// comment must not come between the last bytes.
func (s *streamer) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.outcome.Begun = s.begun
}

// Finish implements Sender.
func (s *streamer) Finish() error {
	send, err := s.conclude()
	s.attest()
	if !send {
		return err
	}
	if s.outcome.Complete {
		completing(s.w)
	}
	if lost := s.flush(); lost != nil {
		return errors.Join(ErrGone, lost)
	}
	return err
}

// conclude adds the last bytes to the output, and reports whether they are to be sent. A complete stream ends with its usage, if
// the caller wants that, and [DONE]. One that failed after it had begun ends with an error event; one that never began has its
// fault returned, for an ordinary error response.
func (s *streamer) conclude() (send bool, err error) {
	s.hold()
	err = s.outcome.Err
	switch {
	case s.outcome.Complete && s.spoken != nil:
		var lost error
		if d, ok := s.spoken.dialect.(Storer); ok && d.Stores() && len(s.out) > 0 {
			lost = s.flush()
		}
		s.out = s.spoken.dialect.End(s.out, &s.outcome) // also for a caller who has left, and may know the id
		if lost != nil {
			s.out = s.out[:0]
			return false, errors.Join(ErrGone, lost)
		}
	case s.outcome.Complete:
		if s.includeUsage {
			s.out = append(s.out, s.prefix...)
			s.out = append(s.out, `[],"usage":`...)
			s.out = s.outcome.AppendCost(appendUsage(s.out, s.outcome.Usage))
			s.out = append(s.out, "}\n\n"...)
		}
		s.out = append(s.out, "data: [DONE]\n\n"...)
	case !s.outcome.Begun, errors.Is(err, ErrGone):
		s.out = s.out[:0]
		return false, err
	case s.spoken != nil:
		s.out = s.spoken.dialect.Fault(s.out, fault.From(err))
		err = errors.Join(ErrTold, err)
	default:
		s.out = append(s.out, "data: "...)
		s.out = fault.From(err).Object().AppendEvent(s.out)
		s.out = append(s.out, "\n\n"...)
		err = errors.Join(ErrTold, err)
	}
	return true, err
}
