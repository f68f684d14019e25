package relay

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/jsonscan"
	"sluice/internal/provider"
	"sluice/internal/pulse"
)

// writeAt is how much is collected at most before it is written, even if more waits.
const writeAt = 16 << 10

const (
	commentPatience = time.Second
	writeBeats      = 4 // of keepAlive: how long a caller may take for one write
)

var (
	eventStream = []string{"text/event-stream"}
	noCache     = []string{"no-cache"}
	noBuffering = []string{"no"}
)

// Stream hands the reply on as server-sent events. Nothing is sent before the upstream's first event
// or the first comment, so a reply that fails before is a plain fault; later it ends with an error
// event and ErrTold.
func Stream(ctx context.Context, w http.ResponseWriter, in provider.Stream, h Head, opts Options) error {
	pooled := buffers.Get().(*[]byte)
	s := &streamer{reply: newReply(h, opts.N), opts: opts, w: w, out: *pooled}
	s.flusher, _ = w.(http.Flusher)
	if opts.Pulse != nil {
		s.beat = opts.Pulse.Watch(keepAlive, s.comment)
	}
	defer func() {
		if s.beat != nil {
			s.beat.Stop()
		}
		putBuffer(pooled, s.out)
	}()
	for {
		ev, err := in.Next()
		if err == nil {
			if s.prefix == nil {
				s.introduce()
			}
			err = s.take(ev)
		}
		if err != nil {
			return s.end(ctx, err)
		}
		if len(s.out) > 0 && (len(s.out) >= writeAt || !in.Ready()) {
			if err := s.flush(); err != nil {
				return s.gone(err)
			}
		}
	}
}

// streamer writes one stream.
type streamer struct {
	reply
	opts   Options
	prefix []byte // "data: " and the head, the same for every chunk
	out    []byte // put together, not yet written
	like   pattern

	mu      sync.Mutex // held while writing: the pulse writes, too
	w       http.ResponseWriter
	flusher http.Flusher
	begun   bool
	over    bool // nothing but the last bytes may go out
	beat    *pulse.Beat

	writes atomic.Int64 // how many were begun
	stuck  struct {     // for the pulse alone
		in    int64 // the write that was under way
		beats int   // how often it was found so
	}
}

// introduce makes the head of every chunk, once there is somebody who answers.
func (s *streamer) introduce() {
	if s.opts.Answers != nil {
		s.mu.Lock() // the pulse may be sending the headers
		s.head.Model = s.opts.Answers(s.w.Header())
		s.mu.Unlock()
	}
	s.prefix = appendHead(append(make([]byte, 0, 160), "data: "...), s.head, "chat.completion.chunk")
}

// take adds what an event says to the output.
func (s *streamer) take(ev *provider.Event) error {
	switch ev.Kind {
	case provider.Chunk:
		if s.splice(ev.Raw) {
			return nil
		}
	case provider.Whole: // an upstream that does not stream although it was asked to
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

// splice hands a chunk of the usual shape on as it is. It reports false where that is not possible.
func (s *streamer) splice(raw []byte) bool {
	if s.again(raw) {
		return true
	}
	sh, ok := scanReply(raw, "delta")
	if !ok || sh.lines {
		return false
	}
	if u, ok := scanUsage(raw[sh.usage.from:sh.usage.to]); ok {
		s.usage(u)
	}
	if !sh.one {
		return true
	}
	c := s.choice(sh.index)
	switch {
	case c == nil || c.finished:
		return true // nobody asked for it, or it is over
	case !sh.hasFinish, sh.role && c.begun:
		return false // to be completed, or cut
	case sh.finish != "":
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
	s.out = append(s.out, s.prefix...)
	s.out = append(s.out, raw[sh.choices.from:sh.choices.to]...)
	s.out = append(s.out, "}\n\n"...)
	s.learn(raw, &sh)
	return true
}

// event writes an event anew.
func (s *streamer) event(ev *provider.Event) {
	if ev.Kind == provider.Usage {
		s.usage(ev.Usage)
		return
	}
	c := s.choice(ev.Choice)
	if c == nil || c.finished {
		return
	}
	s.begin(ev.Choice, c)
	switch ev.Kind {
	case provider.Text:
		s.delta(ev.Choice, `"content":`, ev.Text, &s.outcome.text)
	case provider.Reasoning:
		s.delta(ev.Choice, `"reasoning_content":`, ev.Text, &s.outcome.reasoning)
	case provider.ToolCall:
		if p, ok := s.piece(ev.Choice, c, ev.Tool); ok {
			s.content()
			s.call(ev.Choice, p)
		}
	case provider.Finish:
		for i := range c.calls {
			if !c.calls[i].some && !c.calls[i].custom { // a call without arguments says so: clients parse them
				s.call(ev.Choice, provider.ToolPiece{Index: i, Arguments: "{}"})
			}
		}
		s.finish(c, ev.Finish)
		s.out = append(s.out, s.prefix...)
		s.out = appendFinish(s.out, ev.Choice, c.finish)
		s.out = append(s.out, "}\n\n"...)
	}
}

// begin gives a choice its first delta, with the role, where the upstream did not.
func (s *streamer) begin(index int, c *choice) {
	if c.begun {
		return
	}
	c.begun = true
	s.out = append(s.out, s.prefix...)
	s.out = appendDelta(s.out, index, func(b []byte) []byte { return append(b, `"role":"assistant","content":""`...) })
	s.out = append(s.out, "}\n\n"...)
}

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

func (s *streamer) call(index int, p provider.ToolPiece) {
	s.out = append(s.out, s.prefix...)
	s.out = appendDelta(s.out, index, func(b []byte) []byte { return appendPiece(b, p) })
	s.out = append(s.out, "}\n\n"...)
	if p.Arguments != "" {
		quoted := jsonscan.AppendQuoted(nil, p.Arguments)
		s.outcome.text.add(quoted[1 : len(quoted)-1])
	}
}

// flush writes what has been put together, and makes sure that it leaves.
func (s *streamer) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.start()
	}
	s.writes.Add(1)
	_, err := s.w.Write(s.out)
	s.out = s.out[:0]
	if err == nil && s.flusher != nil {
		s.flusher.Flush()
	}
	if s.beat != nil {
		s.beat.Touch()
	}
	return err
}

// start sets the headers, which go out with the first bytes.
func (s *streamer) start() {
	s.begun = true
	h := s.w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Accel-Buffering"] = eventStream, noCache, noBuffering
}

// comment breaks a long silence. While the stream is being written to it is not silent.
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
		s.start()
	}
	// The pulse serves all streams, so it must not wait for a caller who does not read.
	control := http.NewResponseController(s.w)
	_ = control.SetWriteDeadline(time.Now().Add(commentPatience))
	if _, err := s.w.Write([]byte(": keep-alive\n\n")); err == nil && s.flusher != nil {
		s.flusher.Flush()
	}
	_ = control.SetWriteDeadline(time.Time{})
}

// hurry gives a caller up who has not taken what is being written for several beats.
func (s *streamer) hurry() {
	if n := s.writes.Load(); n != s.stuck.in {
		s.stuck.in, s.stuck.beats = n, 0
	}
	if s.stuck.beats++; s.stuck.beats > writeBeats {
		_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now())
	}
}

// end closes the stream: as complete if it is, else with what went wrong.
func (s *streamer) end(ctx context.Context, err error) error {
	s.close()
	if s.complete() {
		return s.done()
	}
	if ctx.Err() != nil {
		return s.gone(context.Cause(ctx))
	}
	f := fault.From(failure(err))
	if len(s.out) == 0 && !s.outcome.Begun {
		return f
	}
	s.outcome.Err, s.outcome.Begun = f, true
	s.opts.Settle(s.outcome)
	s.out = append(s.out, "data: "...)
	s.out = f.Object().AppendEvent(s.out)
	s.out = append(s.out, "\n\n"...)
	if err := s.flush(); err != nil {
		return errors.Join(ErrGone, err)
	}
	return errors.Join(ErrTold, f)
}

// close keeps the pulse from writing behind our back.
func (s *streamer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.outcome.Begun = s.begun
}

// done writes the tail of a complete stream.
func (s *streamer) done() error {
	s.outcome.Complete, s.outcome.Begun = true, true
	s.opts.Settle(s.outcome) // counts the usage where the upstream gave none
	if s.opts.IncludeUsage {
		s.out = append(s.out, s.prefix...)
		s.out = append(s.out, `[],"usage":`...)
		s.out = appendUsage(s.out, s.outcome.Usage)
		s.out = append(s.out, "}\n\n"...)
	}
	s.out = append(s.out, "data: [DONE]\n\n"...)
	if err := s.flush(); err != nil {
		return errors.Join(ErrGone, err) // settled: the reply was complete
	}
	return nil
}

// gone settles a stream whose caller hung up: what was produced counts.
func (s *streamer) gone(err error) error {
	s.close()
	s.outcome.Err = ErrGone
	s.opts.Settle(s.outcome)
	return errors.Join(ErrGone, err)
}
