package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"
)

// wire is the HTTP transport of one session. It bounds what comes in, ends with the session, and
// remembers what went wrong, which the library reports only as text.
type wire struct {
	next   http.RoundTripper
	life   context.Context // the session's context
	server *Server
	most   int // maximum size of one result in bytes

	// mu guards status, err and owed.
	mu     sync.Mutex
	status int   // status of the last reply that was an error
	err    error // error of the last exchange that broke
	owed   int   // calls that ended early and that the server must be told about

	told chan struct{} // one token for each cancellation that was sent
}

// newWire returns the transport of a session. The caller sets next before the first use. The
// capacity of told is the number of cancellations that settle can wait for.
func newWire(life context.Context, s *Server) *wire {
	return &wire{life: life, server: s, most: s.client.opts.MaxResult, told: make(chan struct{}, 1024)}
}

// trouble returns what went wrong last, and forgets it.
func (w *wire) trouble() (status int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	status, err = w.status, w.err
	w.status, w.err = 0, nil
	return status, err
}

// note records the status or the error of an exchange. A canceled request is not an error of the
// server.
func (w *wire) note(status int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case status >= 300:
		w.status = status
	case status != 0:
		w.status = 0 // a redirect that led to a good reply is no error
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		w.err = err
	}
}

// owe records that a call ended early. The library notifies the server of that in the background.
func (w *wire) owe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owed++
}

// settle waits until the server has been notified of all calls that ended early, or until ctx ends.
// Without the notification the server would keep working, and it cannot be sent once the session
// is closed.
func (w *wire) settle(ctx context.Context) {
	w.mu.Lock()
	owed := w.owed
	w.mu.Unlock()
	for range owed {
		select {
		case <-w.told:
		case <-ctx.Done():
			return
		}
	}
}

// isCancellation reports whether a request notifies the server of a call that ended early. It looks
// at a copy of the body. Such a message is short, so longer bodies are not read.
func isCancellation(req *http.Request) bool {
	if req.GetBody == nil || req.ContentLength > 4<<10 {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	return err == nil && bytes.Contains(raw, []byte(`"notifications/cancelled"`))
}

// RoundTrip implements http.RoundTripper. It sends a request that ends with the session at the
// latest.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if isCancellation(req) {
		// Count the notification whether it succeeds or not: settle must not wait for it in vain.
		defer func() {
			select {
			case w.told <- struct{}{}:
			default: // the channel is full; nobody waits for that many
			}
		}()
	}
	// Cancel the request when the session ends. The binding must stay until the body is closed.
	ctx, cancel := context.WithCancel(req.Context())
	unbind := context.AfterFunc(w.life, cancel)
	end := func() { unbind(); cancel() }
	resp, err := w.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		end()
		w.note(0, err)
		return nil, err
	}
	w.note(resp.StatusCode, nil)
	// An error reply is small, a stream may have several messages, and any other reply is one
	// message.
	b := &body{ReadCloser: resp.Body, wire: w, end: end, left: w.most + envelope, message: w.most + envelope}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		b.events, b.left = true, maxMessages*b.message
	}
	if resp.StatusCode >= http.StatusBadRequest {
		b.left = maxRefusal
	}
	resp.Body = b
	return resp, nil
}

// body is the body of a reply. Reading fails as soon as a limit is exceeded.
type body struct {
	io.ReadCloser
	wire    *wire
	end     func() // releases the request's context
	left    int    // bytes that may still arrive
	message int    // maximum bytes of one message
	events  bool   // it is an event stream
	ends    int    // number of events that have ended
	run     int    // bytes of the current event or message
	values  int    // JSON values in it
	counter counter
	ended   bool // the last byte read was a line break

	// Close may be called while another goroutine reads, so these are atomic.
	held   atomic.Int64 // the share of Client.held that this body accounts for
	closed atomic.Bool
}

// Read implements io.Reader. The data of a read that exceeds a limit is withheld.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if beyond := b.take(p[:n]); beyond != nil {
		b.wire.note(0, beyond)
		return 0, beyond
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.wire.note(0, err)
	}
	return n, err
}

// take counts a piece that was read, and returns an error if a limit is exceeded.
//
// For an event stream, run and values are those of the event in progress. When an event ends inside
// p, they are set to minus what came before that end, so that adding all of p leaves only what
// follows it.
func (b *body) take(p []byte) error {
	b.left -= len(p)
	all := 0
	if b.events {
		if at := eventEnd(p, b.ended); at >= 0 {
			all = b.counter.count(p[:at])
			if b.run+at > b.message || b.values+all > maxValues {
				b.run, b.values = b.run+at, b.values+all // the event that just ended was too large
				return b.beyond()
			}
			b.run, b.values = -at, -all
			// At least one event ended here; a blank line may also span two pieces.
			b.ends += max(1, bytes.Count(p, []byte("\n\n"))+bytes.Count(p, []byte("\n\r\n")))
		}
		b.ended = len(p) > 0 && p[len(p)-1] == '\n'
		all += b.counter.count(p[max(0, -b.run):])
	} else {
		all = b.counter.count(p)
	}
	b.run += len(p)
	b.values += all
	if err := b.beyond(); err != nil {
		return err
	}
	s := b.wire.server
	if lists := s.listing.Load(); lists != nil && !lists.spend(len(p), all) {
		return errLists
	}
	weight := int64(len(p)) + int64(all)*valueBytes
	b.held.Add(weight)
	now := s.client.held.Add(weight)
	// Close may have come between the read and this line. Then nobody else returns what was just
	// added.
	if b.closed.Load() {
		s.leave(b.held.Swap(0))
	}
	if now > maxHeld {
		return errBusy
	}
	return nil
}

// beyond returns which limit of this body is exceeded, or nil.
func (b *body) beyond() error {
	switch {
	case b.left < 0, b.run > b.message:
		return errTooLarge
	case b.values > maxValues:
		return errTooMany
	case b.ends > maxEvents:
		return errEvents
	}
	return nil
}

// eventEnd returns the index at which the last event that ends in p ends, or -1 if none does. An
// event ends at a blank line. The argument ended reports whether a line ended right before p.
func eventEnd(p []byte, ended bool) int {
	end := max(bytes.LastIndex(p, []byte("\n\n")), bytes.LastIndex(p, []byte("\n\r\n")))
	if end < 0 && ended && (bytes.HasPrefix(p, []byte("\n")) || bytes.HasPrefix(p, []byte("\r\n"))) {
		end = 0
	}
	return end
}

// Close implements io.Closer. It passes what the body held to the server; see Server.leave.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	b.closed.Store(true)
	b.wire.server.leave(b.held.Swap(0))
	return err
}
