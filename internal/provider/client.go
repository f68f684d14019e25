package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/fault"
	"sluice/internal/pulse"
	"sluice/internal/sse"
)

const (
	MaxReply      = 64 << 20 // bytes of a reply that is not streamed
	MaxEvent      = 8 << 20  // bytes of one event
	maxErrorBody  = 64 << 10
	errorPatience = 5 * time.Second // for the rest of a refusal
	// Silence is how long a reply may pause once it has begun, where nobody says otherwise.
	Silence = 2 * time.Minute
)

// ClientOptions are the choices of NewClient; the zero value is the default.
type ClientOptions struct {
	// Secrets are what the upstream knows of us and may repeat in a refusal: they are cut out of it.
	Secrets []string
	// Pulse watches replies for silence; nil: they may be silent for ever.
	Pulse *pulse.Pulse
	// Silence is how long a reply may pause once it has begun. Default two minutes.
	Silence time.Duration
	// Refused makes an answer with an error status into a fault; nil: the function of that name.
	Refused func(status int, header http.Header, body []byte) *fault.Fault
	// Transport replaces the connection pool: one that is shared, or a test's.
	Transport http.RoundTripper
}

// Client is the HTTP side of an adapter: one pool of connections to one upstream, deadlines, bounded
// reads, and refusals made into faults.
type Client struct {
	secrets   [][]byte
	transport http.RoundTripper
	pulse     *pulse.Pulse
	silence   time.Duration
	refused   func(status int, header http.Header, body []byte) *fault.Fault
	drains    sync.WaitGroup // replies whose last bytes are still awaited
}

// NewClient returns a client with a connection pool of its own.
func NewClient(opts *ClientOptions) *Client {
	if opts == nil {
		opts = &ClientOptions{}
	}
	c := &Client{transport: opts.Transport, pulse: opts.Pulse, silence: opts.Silence, refused: opts.Refused}
	for _, s := range opts.Secrets {
		if s != "" {
			c.secrets = append(c.secrets, []byte(s))
		}
	}
	if c.silence == 0 {
		c.silence = Silence
	}
	if c.refused == nil {
		c.refused = Refused
	}
	if c.transport == nil {
		c.transport = newConnections(dialPatience)
	}
	return c
}

// Retire drops idle connections; calls under way go on and others may still come.
func (c *Client) Retire() {
	if t, ok := c.transport.(*connections); ok {
		t.close()
	}
}

// Wait returns once no reply's last bytes are awaited any more.
func (c *Client) Wait() { c.drains.Wait() }

// Close waits, and retires. No call may come any more.
func (c *Client) Close() {
	c.Wait()
	c.Retire()
}

// Post sends the body and fills in the reply. The header is not written to. A status other than 200
// is a fault, and then there is no reply to close. Where the fault came after the whole body had been
// sent, WasSent says so.
func (c *Client) Post(ctx context.Context, to *Reply, u *url.URL, header http.Header, body []byte) error {
	var sent atomic.Bool
	err := c.do(ctx, to, &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(body)),
		Body:    &payload{rest: body, sent: &sent},
		GetBody: func() (io.ReadCloser, error) { return &payload{rest: body, sent: &sent}, nil },
	})
	if f, ok := errors.AsType[*fault.Fault](err); ok && sent.Load() {
		return Sent(f)
	}
	return err
}

// payload is the body of a request. It notes when all of it has been taken, which a transport may do on
// another goroutine.
type payload struct {
	rest []byte
	sent *atomic.Bool
}

func (p *payload) Read(to []byte) (int, error) {
	n := copy(to, p.rest)
	if p.rest = p.rest[n:]; len(p.rest) > 0 {
		return n, nil
	}
	p.sent.Store(true)
	return n, io.EOF
}

func (p *payload) Close() error { return nil }

// Fetch asks for the resource at u, like Post.
func (c *Client) Fetch(ctx context.Context, to *Reply, u *url.URL, header http.Header) error {
	return c.do(ctx, to, &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header})
}

// FetchJSON decodes the JSON at u into v. What cannot be decoded is a fault.
func (c *Client) FetchJSON(ctx context.Context, u *url.URL, header http.Header, v any) error {
	var reply Reply
	if err := c.Fetch(ctx, &reply, u, header); err != nil {
		return err
	}
	defer reply.Close(true)
	raw, err := reply.Whole()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return Garbled(err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, to *Reply, req *http.Request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var beat *pulse.Beat
	if c.pulse != nil {
		beat = c.pulse.Watch(firstPatience, func() { cancel(Stalled(c.silence)) })
	}
	resp, err := c.transport.RoundTrip(req.WithContext(ctx))
	if err == nil && resp.StatusCode == http.StatusOK {
		if beat != nil {
			beat.After(c.silence)
		}
		*to = Reply{Header: resp.Header, length: resp.ContentLength, body: resp.Body, client: c, ctx: ctx, cancel: cancel, beat: beat}
		return nil
	}
	if beat != nil {
		beat.Stop()
	}
	defer cancel(nil)
	if err != nil {
		return Unreachable(err)
	}
	return c.refusal(resp, cancel)
}

// refusal is the fault of a reply with an error status. What there is of its body will do.
func (c *Client) refusal(resp *http.Response, cancel context.CancelCauseFunc) error {
	defer resp.Body.Close()
	late := time.AfterFunc(errorPatience, func() { cancel(nil) })
	defer late.Stop()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	return c.refused(resp.StatusCode, resp.Header, c.conceal(raw))
}

// conceal cuts our secrets out of an error: some upstreams repeat them to whom they refuse.
func (c *Client) conceal(raw []byte) []byte {
	for _, secret := range c.secrets {
		raw = bytes.ReplaceAll(raw, secret, []byte("…"))
	}
	return raw
}

// Reply is an upstream's answer that has begun. It is read by one goroutine.
type Reply struct {
	Header http.Header

	length int64
	body   io.ReadCloser
	client *Client
	ctx    context.Context //nolint:containedctx // one call's, for the reason it was canceled with
	cancel context.CancelCauseFunc
	beat   *pulse.Beat
	reader *sse.Reader // once it is read as events
	pooled *[]byte
}

// IsStream reports whether the reply is a stream of server-sent events.
func (r *Reply) IsStream() bool {
	const want = "text/event-stream"
	ct := r.Header.Get("Content-Type")
	return len(ct) >= len(want) && strings.EqualFold(ct[:len(want)], want)
}

// Read reads from the body, and notes that it is alive.
func (r *Reply) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if r.beat != nil {
		r.beat.Touch()
	}
	return n, err
}

// Conceal cuts our secrets out of an error that came inside the reply.
func (r *Reply) Conceal(raw []byte) []byte { return r.client.conceal(raw) }

// Fault is why the body could not be read to its end: it was cut, or it stalled.
func (r *Reply) Fault(err error) error {
	cause := context.Cause(r.ctx)
	if f, ok := errors.AsType[*fault.Fault](cause); ok {
		return f // stalled
	}
	if cause != nil {
		err = cause
	}
	return Cut(err)
}

// Whole reads the body within a bound, in one step where its length is known. The bytes are valid
// until Close.
func (r *Reply) Whole() ([]byte, error) {
	if r.length > MaxReply {
		return nil, Garbled(errors.New("the reply is too long"))
	}
	r.pooled = buffers.Get().(*[]byte)
	if r.length >= 0 {
		if int64(cap(*r.pooled)) < r.length {
			*r.pooled = make([]byte, r.length)
		}
		raw := (*r.pooled)[:r.length]
		if _, err := io.ReadFull(r, raw); err != nil {
			return nil, r.Fault(err)
		}
		return raw, nil
	}
	raw := bytes.NewBuffer((*r.pooled)[:0])
	_, err := raw.ReadFrom(io.LimitReader(r, MaxReply+1))
	*r.pooled = raw.Bytes()
	switch {
	case err != nil:
		return nil, r.Fault(err)
	case raw.Len() > MaxReply:
		return nil, Garbled(errors.New("the reply is too long"))
	}
	return raw.Bytes(), nil
}

// Event reads the next server-sent event, valid until the call after it. The error is io.EOF where
// the body ends, whether that is a good place for it or not, and else a fault.
func (r *Reply) Event() (sse.Event, error) {
	if r.reader == nil {
		r.pooled = buffers.Get().(*[]byte)
		r.reader = sse.NewReader(r, *r.pooled, MaxEvent)
	}
	ev, err := r.reader.Next()
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return ev, err
	case errors.Is(err, sse.ErrTooLong):
		return ev, Garbled(err)
	}
	return ev, r.Fault(err)
}

// Ready reports whether Event would return without waiting for the upstream.
func (r *Reply) Ready() bool { return r.reader != nil && r.reader.Ready() }

// Close frees the upstream. Where all that was awaited has come, and the end of the body is only a
// matter of time, the connection goes back to the pool.
func (r *Reply) Close(complete bool) error {
	if r.beat != nil {
		r.beat.Stop()
	}
	atEnd := r.reader == nil || r.reader.AtEOF()
	if r.reader != nil {
		*r.pooled = r.reader.Buffer()
	}
	if r.pooled != nil && cap(*r.pooled) <= maxPooled {
		buffers.Put(r.pooled)
	}
	if complete && !atEnd {
		r.client.drain(r.body, r.cancel)
		return nil
	}
	r.cancel(nil)
	return r.body.Close()
}

// drain waits a moment for the end of a stream whose last event has come, so that its connection can
// be used again. The end mostly arrives with that event; where it does not, the caller must not wait.
func (c *Client) drain(body io.ReadCloser, cancel context.CancelCauseFunc) {
	c.drains.Go(func() {
		defer cancel(nil)
		defer body.Close()
		late := time.AfterFunc(time.Second, func() { cancel(nil) })
		defer late.Stop()
		_, _ = io.CopyN(io.Discard, body, 1<<10) // a longer rest is not worth reading
	})
}

const maxPooled = 64 << 10

// buffers are what streams are read into.
var buffers = sync.Pool{New: func() any { b := make([]byte, 2<<10); return &b }}
