package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
)

var errTooLarge = errors.New("more bytes than a message may have")

// wire is the HTTP of one session: it bounds what comes in, ends with the session, and remembers what
// went wrong, which the library tells only in words.
type wire struct {
	next http.RoundTripper
	life context.Context // of the session
	most int             // bytes of one message

	mu     sync.Mutex
	status int   // of the last reply that was an error
	err    error // of the last exchange that broke
	owed   int   // calls that ended early, and of which the server must be told

	told chan struct{} // a token for each that it was told of
}

func newWire(life context.Context, most int) *wire {
	return &wire{life: life, most: most, told: make(chan struct{}, 1024)}
}

const (
	// envelope is what a message may have beside the result in it.
	envelope = 64 << 10
	// maxMessages is how many of the largest messages a stream of them may have in all.
	maxMessages = 16
)

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
	resp.Body = b
	return resp, nil
}

// body is a reply that ends where it becomes too large.
type body struct {
	io.ReadCloser
	wire    *wire
	end     func()
	left    int // bytes that may still come
	message int // bytes that one message may have
	events  bool
	run     int  // bytes of the event under way
	ended   bool // the last line was
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	if b.events {
		b.run += n
		if at := eventEnd(p[:n], b.ended); at >= 0 {
			b.run = n - at
		}
		b.ended = n > 0 && p[n-1] == '\n'
	}
	if b.left < 0 || b.run > b.message {
		b.wire.note(0, errTooLarge)
		return 0, errTooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.wire.note(0, err)
	}
	return n, err
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
	return err
}
