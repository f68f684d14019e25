// Package resume keeps the events of streamed replies for callers whose connection breaks.
//
// Open makes a Stream, which is the http.ResponseWriter of one call. It gives every event a number, keeps the
// event, and sends it to the caller. When the caller hangs up, the call does not end: its events are still kept,
// for Patience at most. Attach returns a Reader that continues after an event, live if the call still runs. The
// newest connection of a stream gets its events; it takes over from an older one. Whoever opens a Stream calls
// Close exactly once.
//
// What is kept is bounded; the oldest events go first. Nothing of it is written to a disk. A stream that another
// node holds is read from it over HTTP, sealed; see peers. What a reply looks like, and who may read it beyond
// having the same account, is not known here.
package resume

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
	"sluice/internal/kit/telemetry"
)

const (
	// patience is how long a call continues without a reader, and how long a whole stream is kept after its end.
	patience = 2 * time.Minute
	// maxStream is how many bytes of events are kept for one stream, maxAccount for all streams of an account, and
	// maxAll for those of all accounts.
	maxStream  = 4 << 20
	maxAccount = 32 << 20
	maxAll     = 256 << 20
	// piece is how many bytes of events a Reader returns at a time; a single event may be longer.
	piece = 64 << 10
)

// ErrLeft is the cause with which the context of a call is canceled when nobody has come back for it.
var ErrLeft = errors.New("the caller did not come back")

// ErrEnded is the cause with which it is canceled when its caller has asked for that.
var ErrEnded = errors.New("the caller has ended the call")

// ErrTakenOver means that a newer connection reads the stream.
var ErrTakenOver = errors.New("a newer connection reads this stream")

// ErrLost means that the rest of the stream cannot be had any more.
var ErrLost = errors.New("the rest of this stream is lost")

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Patience is how long a call continues without a reader. Default 2 minutes.
	Patience time.Duration
	// MaxStream, MaxAccount and MaxAll bound the bytes that are kept. The defaults are 4, 32 and 256 MiB.
	MaxStream, MaxAccount, MaxAll int
	// Nodes knows the other nodes; nil: there are none.
	Nodes Nodes
	// Key seals what nodes send each other. It is that of the installation.
	Key seal.Key
	// Dial opens connections to other nodes; for tests. Default: that of package net.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Streams are the streams of this node that can be resumed. It is safe for concurrent use.
type Streams struct {
	patience                      time.Duration
	maxStream, maxAccount, maxAll int
	peers                         *peers // nil: there are no other nodes

	mu       sync.Mutex // guards the fields below and those of every Stream
	byID     map[string]*Stream
	held     map[string]int // bytes by account
	total    int            // bytes of all accounts
	ended    []*Stream      // streams that have ended and are still kept, oldest first
	resumed  int
	detached int
}

// New returns streams. Opts may be nil.
func New(opts *Options) *Streams {
	if opts == nil {
		opts = &Options{}
	}
	s := &Streams{
		patience: cmp.Or(opts.Patience, patience), maxStream: cmp.Or(opts.MaxStream, maxStream), maxAccount: cmp.Or(opts.MaxAccount, maxAccount), maxAll: cmp.Or(opts.MaxAll, maxAll),
		byID: map[string]*Stream{}, held: map[string]int{},
	}
	if opts.Nodes != nil {
		s.peers = newPeers(s, opts)
	}
	return s
}

// AddMetrics adds the metrics of the streams.
func (s *Streams) AddMetrics(m *telemetry.Metrics) {
	m.Counter("sluice_streams_resumed_total", "Streams that a later connection has continued.", s.Resumed)
	telemetry.Gauge(m, "sluice_streams_waiting", "Streams that go on although their caller has left, because it may come back.", s.Waiting)
	telemetry.Gauge(m, "sluice_streams_kept_bytes", "Bytes of events that are kept for callers who come back.", s.Held)
}

// Held returns how many bytes of events are kept, Waiting how many calls continue without a reader, and Resumed how often
// a stream was continued.
func (s *Streams) Held() int64    { return s.read(&s.total) }
func (s *Streams) Waiting() int64 { return s.read(&s.detached) }
func (s *Streams) Resumed() int64 { return s.read(&s.resumed) }

// read returns a number that mu guards.
func (s *Streams) read(n *int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(*n)
}

// Stream is one reply that can be resumed, as its ResponseWriter. It never returns an error of the connection:
// what the caller does not get now, it can get later. Like any ResponseWriter it is used by one goroutine at a
// time, except for SetWriteDeadline.
type Stream struct {
	id, account string
	streams     *Streams
	w           http.ResponseWriter
	ctx         context.Context //nolint:containedctx // of the call, which outlives that of the request
	cancel      context.CancelCauseFunc
	keep        bool // the call continues even if the caller leaves before the reply has begun
	location    []string
	mark        []byte // what is in front of the number of an event: "id: " and the node
	numbered    []byte // the events of the last Write with their numbers; only Write uses it

	// guarded by streams.mu
	buf     []byte // the events that are kept
	ends    []int  // where each of them ends in buf
	dropped int    // how many came before them
	begun   bool   // an event or a comment was written
	over    bool   // the call has ended
	whole   bool   // the last event was written
	gone    bool   // it is not in byID any more
	direct  bool   // w is the newest connection
	reader  *Reader
	changed chan struct{} // closed when there is something new for the reader; nil: it does not wait
	moved   chan struct{} // closed when the reader has read something; nil: the writer does not wait
	timer   *time.Timer   // runs while nobody reads
}

// Call is a call whose reply can be resumed.
type Call struct {
	ID       string // of the reply; nobody can guess it
	Account  string
	Location string // where the reply is resumed, for a header
	// Keep says that the reply is wanted even if the caller leaves before it has begun. Otherwise the call ends then:
	// nobody knows the id.
	Keep bool
}

// Location is the header of a reply that can be resumed: where.
const Location = "X-Sluice-Resume"

// Open makes the stream of a call, and its context. The context is not canceled when that of the request is: only
// when nobody has come back in time.
func (s *Streams) Open(ctx context.Context, w http.ResponseWriter, c Call) (*Stream, context.Context) {
	st := &Stream{id: c.ID, account: c.Account, streams: s, w: w, keep: c.Keep, location: []string{c.Location}, direct: true}
	st.mark = append(st.mark, "id: "...)
	if s.peers != nil {
		st.mark = append(append(st.mark, s.peers.tag...), '-')
	}
	st.ctx, st.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.mu.Lock()
	s.byID[c.ID] = st
	s.mu.Unlock()
	return st, st.ctx
}

// Stop cancels the call with a cause, such as that the server stops.
func (st *Stream) Stop(cause error) { st.cancel(cause) }

// End cancels the call of a stream of an account, which is then settled for what was produced. It does nothing if the
// call has ended and its stream is still kept. The stream may be on another node, which values, those of the header
// Last-Event-ID, may name. The fault of an unknown one is that of Attach.
func (s *Streams) End(ctx context.Context, id, account string, values []string) error {
	tag, _, err := lastEvent(values)
	if err != nil || s.end(id, account) {
		return err
	}
	if s.peers == nil {
		return Unknown(excerpt.Of(id, maxID))
	}
	return s.peers.end(ctx, tag, question{account: account, stream: id, cut: true})
}

// end cancels the call of a stream of this node, and reports whether there is one of the account.
func (s *Streams) end(id, account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byID[id]
	if st == nil || st.account != account {
		return false
	}
	st.cancel(ErrEnded)
	return true
}

// Ended reports whether End has canceled the call.
func (st *Stream) Ended() bool { return errors.Is(context.Cause(st.ctx), ErrEnded) }

// HungUp says that the connection of the request has ended.
func (st *Stream) HungUp() {
	st.streams.mu.Lock()
	defer st.streams.mu.Unlock()
	if !st.begun && !st.keep {
		st.cancel(nil)
	}
	st.lose()
}

// lose notes that w gets nothing more. The caller holds the lock.
func (st *Stream) lose() {
	if st.direct {
		st.direct = false
		st.alone()
	}
}

// alone starts the time that the call may continue without a reader. The caller holds the lock.
func (st *Stream) alone() {
	if st.over || st.reader != nil || st.timer != nil {
		return
	}
	st.streams.detached++
	st.timer = time.AfterFunc(st.streams.patience, func() { st.cancel(ErrLeft) })
}

// attended ends that time. The caller holds the lock.
func (st *Stream) attended() {
	if st.timer != nil && !st.over {
		st.timer.Stop()
		st.timer = nil
		st.streams.detached--
	}
}

// Header implements http.ResponseWriter.
func (st *Stream) Header() http.Header { return st.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (st *Stream) WriteHeader(status int) { st.w.WriteHeader(status) }

// eventEnd ends every event of a stream.
var eventEnd = []byte("\n\n")

// Write keeps and sends events, which must be whole, or sends a comment, which is not kept: a later connection
// has silences of its own.
func (st *Stream) Write(p []byte) (int, error) {
	if len(p) > 0 && p[0] == ':' {
		st.send(p)
		return len(p), nil
	}
	st.number(p)
	st.send(st.numbered)
	return len(p), nil
}

// number keeps the events with their numbers, and leaves them in numbered.
func (st *Stream) number(p []byte) {
	st.numbered = st.numbered[:0]
	for len(p) > 0 {
		event := p
		if i := bytes.Index(p, eventEnd); i >= 0 {
			event = p[:i+len(eventEnd)]
		}
		p = p[len(event):]
		from := len(st.numbered)
		st.numbered = append(st.numbered, st.mark...)
		st.numbered = strconv.AppendInt(st.numbered, int64(st.dropped+len(st.ends)+1), 10) // only Write changes them
		st.numbered = append(st.numbered, '\n')
		st.numbered = append(st.numbered, event...)
		st.add(st.numbered[from:])
	}
}

// send sends bytes to the connection of the request, if it is still the one that gets them.
func (st *Stream) send(p []byte) {
	mu := &st.streams.mu
	mu.Lock()
	direct, first := st.direct, !st.begun
	st.begun = true
	mu.Unlock()
	if !direct {
		return
	}
	if first {
		st.w.Header()[Location] = st.location
	}
	if _, err := st.w.Write(p); err != nil {
		mu.Lock()
		st.lose()
		mu.Unlock()
	}
}

// Flush implements http.Flusher.
func (st *Stream) Flush() {
	st.streams.mu.Lock()
	direct := st.direct
	st.streams.mu.Unlock()
	if f, ok := st.w.(http.Flusher); ok && direct {
		f.Flush()
	}
}

// SetWriteDeadline is what http.ResponseController calls. A connection that was given up keeps the deadline that
// ended its last write.
func (st *Stream) SetWriteDeadline(t time.Time) error {
	st.streams.mu.Lock()
	defer st.streams.mu.Unlock()
	if !st.direct {
		return nil
	}
	return http.NewResponseController(st.w).SetWriteDeadline(t)
}

// add keeps an event. If that takes more than there may be, the oldest events go: those of streams that have
// ended, and then those of this one. It waits for a reader who has not read them yet.
func (st *Stream) add(event []byte) {
	s := st.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(st.buf)+len(event) > s.room(st, len(event)) && len(st.ends) > 0 {
		half := st.dropped + (len(st.ends)+1)/2
		if r := st.reader; r != nil && r.next < half {
			if !st.wait() {
				return // the call is over
			}
			continue
		}
		st.drop(half - st.dropped)
	}
	if len(event) > s.room(st, len(event)) {
		st.dropped++ // nothing is kept at this point
	} else {
		st.buf = append(st.buf, event...)
		st.ends = append(st.ends, len(st.buf))
		s.count(st, len(event))
	}
	st.wake()
}

// wait waits until the reader has read something, or is gone. It reports false if the call was canceled. The
// caller holds the lock, which is released meanwhile.
func (st *Stream) wait() bool {
	if st.moved == nil {
		st.moved = make(chan struct{})
	}
	moved, mu := st.moved, &st.streams.mu
	mu.Unlock()
	defer mu.Lock()
	select {
	case <-moved:
		return true
	case <-st.ctx.Done():
		return false
	}
}

// room returns how many bytes a stream may keep, after streams that have ended have made room for more.
func (s *Streams) room(st *Stream, more int) int {
	for i := 0; i < len(s.ended) && s.held[st.account]+more > s.maxAccount; {
		if s.ended[i].account == st.account {
			s.remove(s.ended[i])
		} else {
			i++
		}
	}
	for len(s.ended) > 0 && s.total+more > s.maxAll {
		s.remove(s.ended[0])
	}
	own := len(st.buf)
	return min(s.maxStream, s.maxAccount-s.held[st.account]+own, s.maxAll-s.total+own)
}

// count adds to what is held for a stream that is in byID.
func (s *Streams) count(st *Stream, n int) {
	if st.gone {
		return
	}
	s.total += n
	if s.held[st.account] += n; s.held[st.account] == 0 {
		delete(s.held, st.account)
	}
}

// drop forgets the first n events.
func (st *Stream) drop(n int) {
	cut := st.ends[n-1]
	st.buf = st.buf[:copy(st.buf, st.buf[cut:])]
	st.ends = st.ends[:copy(st.ends, st.ends[n:])]
	for i := range st.ends {
		st.ends[i] -= cut
	}
	st.dropped += n
	st.streams.count(st, -cut)
}

// wake tells the reader that something has changed.
func (st *Stream) wake() {
	if st.changed != nil {
		close(st.changed)
		st.changed = nil
	}
}

// expire ends a write to the connection of the request that is stuck. The caller holds the lock.
func (st *Stream) expire() { _ = http.NewResponseController(st.w).SetWriteDeadline(time.Now()) }

// yield tells the writer that the reader has moved.
func (st *Stream) yield() {
	if st.moved != nil {
		close(st.moved)
		st.moved = nil
	}
}

// Close ends the stream. Whole says that it has its last event, of whatever kind; it is then kept for a while,
// because nobody knows whether the caller has read it. Close reports whether the connection of the request got
// all of it.
func (st *Stream) Close(whole bool) (sent bool) {
	s := st.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	st.attended()
	sent = st.direct
	st.over, st.whole, st.direct = true, whole && st.begun, false
	st.wake()
	if !st.whole || st.gone {
		s.remove(st)
	} else {
		s.ended = append(s.ended, st)
		st.timer = time.AfterFunc(s.patience, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.remove(st)
		})
	}
	st.cancel(nil)
	return sent
}

// remove forgets a stream. Its reader may read it to its end.
func (s *Streams) remove(st *Stream) {
	if st.gone {
		return
	}
	s.count(st, -len(st.buf))
	st.gone = true
	delete(s.byID, st.id)
	s.ended = slices.DeleteFunc(s.ended, func(e *Stream) bool { return e == st })
	if st.timer != nil {
		st.timer.Stop()
	}
}

// Unknown returns the fault of an id that no stream of the account has.
func Unknown(id string) error {
	return fault.New(fault.NotFound, "There is no stream %q that can be resumed. It must have been asked for with stream_options.resumable, and is kept only for a short time after its end or after its caller left.", id)
}
