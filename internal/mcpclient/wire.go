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

// wire is the HTTP of one session: it bounds what comes in, ends with the session, and remembers what
// went wrong, which the library tells only in words.
type wire struct {
	next   http.RoundTripper
	life   context.Context // of the session
	server *Server
	most   int // bytes of one message

	mu     sync.Mutex
	status int   // of the last reply that was an error
	err    error // of the last exchange that broke
	owed   int   // calls that ended early, and of which the server must be told

	told chan struct{} // a token for each that it was told of
}

func newWire(life context.Context, s *Server) *wire {
	return &wire{life: life, server: s, most: s.client.opts.MaxResult, told: make(chan struct{}, 1024)}
}

// trouble is what went wrong last, and forgets it.
func (w *wire) trouble() (status int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	status, err = w.status, w.err
	w.status, w.err = 0, nil
	return status, err
}

func (w *wire) note(status int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case status >= 300:
		w.status = status
	case status != 0:
		w.status = 0 // a redirect that led somewhere is no trouble
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		w.err = err
	}
}

// owe notes that a call ended early. The library tells the server so behind our back.
func (w *wire) owe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owed++
}

// settle waits until the server was told of all calls that ended early, or ctx is over: a server that
// is not told works on, and the news cannot be sent once the session is closed.
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

// isCancellation reports whether a request tells the server of a call that ended early.
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

// RoundTrip sends a request that ends with the session at the latest.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if isCancellation(req) {
		defer func() {
			select {
			case w.told <- struct{}{}:
			default: // nobody waits for so many
			}
		}()
	}
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

// body is a reply that ends where it goes beyond a bound.
type body struct {
	io.ReadCloser
	wire    *wire
	end     func()
	left    int // bytes that may still come
	message int // bytes that one message may have
	events  bool
	ends    int // of events
	run     int // bytes of the event under way, or of the message
	values  int // of it
	counter counter
	ended   bool // the last line was

	// Close may come while another goroutine reads.
	held   atomic.Int64 // of Client.held
	closed atomic.Bool
}

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

// take counts a piece that came, and says which bound it goes beyond.
func (b *body) take(p []byte) error {
	b.left -= len(p)
	all := 0
	if b.events {
		if at := eventEnd(p, b.ended); at >= 0 {
			all = b.counter.count(p[:at])
			if b.run+at > b.message || b.values+all > maxValues {
				b.run, b.values = b.run+at, b.values+all // too much before its end
				return b.beyond()
			}
			b.run, b.values = -at, -all
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
	if b.closed.Load() {
		s.leave(b.held.Swap(0))
	}
	if now > maxHeld {
		return errBusy
	}
	return nil
}

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

// eventEnd is where the last event that ends in p does; -1: none does. Ended says that a line ended
// right before p.
func eventEnd(p []byte, ended bool) int {
	end := max(bytes.LastIndex(p, []byte("\n\n")), bytes.LastIndex(p, []byte("\n\r\n")))
	if end < 0 && ended && (bytes.HasPrefix(p, []byte("\n")) || bytes.HasPrefix(p, []byte("\r\n"))) {
		end = 0
	}
	return end
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	b.closed.Store(true)
	b.wire.server.leave(b.held.Swap(0))
	return err
}
