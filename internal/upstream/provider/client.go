package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/pulse"
	"sluice/internal/kit/sse"
)

const (
	// MaxReply bounds a reply that is not streamed, in bytes. Text alone never comes near it; log
	// probabilities of several choices may.
	MaxReply = 64 << 20
	// MaxEvent bounds one event of a stream, in bytes.
	MaxEvent = 8 << 20
	// MaxText bounds a reply that is put together from the events of a stream, in bytes. No model writes that much.
	MaxText = 16 << 20
	// maxLarge bounds the large replies of one upstream that are held at the same time, in bytes. Those that fit
	// into a pooled buffer do not count.
	maxLarge = 256 << 20
	// maxErrorBody bounds what is read of an error, in bytes. The message stands near its beginning.
	maxErrorBody = 64 << 10
	// errorPatience is how long the body of an error may take. The status is already known.
	errorPatience = 5 * time.Second
	// Silence is the default of ClientOptions.Silence.
	Silence = 2 * time.Minute
)

// ClientOptions are the choices of NewClient; the zero value is the default.
type ClientOptions struct {
	// Secrets are our credentials. Some upstreams repeat them in errors; they are removed from those.
	Secrets []string
	// Pulse ends replies that are silent for too long. If it is nil, a reply may be silent forever.
	Pulse *pulse.Pulse
	// Silence is how long a reply may pause once it has begun. Default two minutes.
	Silence time.Duration
	// Refused turns a reply with an error status into a fault. Default: the function Refused.
	Refused func(status int, header http.Header, body []byte) *fault.Fault
	// Signer signs each request, for upstreams that want more than a key. May be nil.
	Signer *Signer
	// Transport replaces the client's own connection pool: a shared pool, or a test's.
	Transport http.RoundTripper
}

// Signer signs requests. It may be used by several goroutines at once.
type Signer struct {
	// Sign returns the members of the header that sign a request with this body, whose type is JSON. It changes neither.
	Sign func(ctx context.Context, method string, u *url.URL, body [3][]byte) (http.Header, error)
	// Secrets are the credentials; see ClientOptions.Secrets.
	Secrets []string
}

// Client is the HTTP side of an adapter. It has a pool of connections to one upstream, deadlines and bounds for
// what it reads, and it turns errors into faults. It may be used by several goroutines at once.
//
// Start reading with Client.do and Reply. A Reply goes through three phases, each with a bound of
// its own: firstPatience until the headers, the client's silence between two reads, and a second
// for the rest after the last event.
type Client struct {
	secrets   [][]byte // none is empty
	signer    *Signer  // may be nil
	transport http.RoundTripper
	pulse     *pulse.Pulse // may be nil
	silence   time.Duration
	refused   func(status int, header http.Header, body []byte) *fault.Fault
	drains    sync.WaitGroup // counts the goroutines of drain
	large     atomic.Int64   // bytes of large replies that are held now
}

// NewClient returns a client. Unless opts has a Transport, it has a connection pool of its own. opts may be nil.
func NewClient(opts *ClientOptions) *Client {
	if opts == nil {
		opts = &ClientOptions{}
	}
	c := &Client{signer: opts.Signer, transport: opts.Transport, pulse: opts.Pulse, silence: opts.Silence, refused: opts.Refused}
	secrets := opts.Secrets
	if c.signer != nil {
		secrets = slices.Concat(secrets, c.signer.Secrets)
	}
	for _, s := range secrets {
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
		c.transport = newConnections(dialPatience, nil, "")
	}
	return c
}

// Retire closes idle connections. Calls under way continue, and new ones may still come. A Transport that was
// passed in belongs to somebody else and is left alone, unless it was made by Connections.
func (c *Client) Retire() {
	if t, ok := c.transport.(*connections); ok {
		t.close()
	}
}

// Wait waits for the goroutines that read the last bytes of replies; see Reply.Close.
func (c *Client) Wait() { c.drains.Wait() }

// Close waits for the client's goroutines and closes its idle connections. No call may follow.
func (c *Client) Close() {
	c.Wait()
	c.Retire()
}

// Post sends the body and fills in the reply, which the caller must close. It does not write to the header,
// which calls share. A status other than 200 is a fault; then there is no reply to close. WasSent tells
// whether the fault came after the whole body had been sent.
func (c *Client) Post(ctx context.Context, to *Reply, u *url.URL, header http.Header, body []byte) error {
	return c.PostPieces(ctx, to, u, header, [3][]byte{body})
}

// PostPieces is Post with a body in pieces, of which any may be empty.
// Three pieces are what a patched body has: a head of ours, the caller's bytes, and a tail of
// ours. They are never joined.
func (c *Client) PostPieces(ctx context.Context, to *Reply, u *url.URL, header http.Header, body [3][]byte) error {
	header, err := c.signed(ctx, http.MethodPost, u, header, body)
	if err != nil {
		return err
	}
	to.payload = payload{rest: body, sent: &to.sent}
	err = c.do(ctx, to, &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(body[0]) + len(body[1]) + len(body[2])),
		Body:    &to.payload,
		GetBody: func() (io.ReadCloser, error) { return &payload{rest: body, sent: &to.sent}, nil },
	})
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok && to.sent.Load() {
		return Sent(f)
	}
	return err
}

// signed returns the header of a request with its signature. Without a signer that is the header itself, which calls
// share.
func (c *Client) signed(ctx context.Context, method string, u *url.URL, header http.Header, body [3][]byte) (http.Header, error) {
	if c.signer == nil {
		return header, nil
	}
	signature, err := c.signer.Sign(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	header = header.Clone()
	maps.Copy(header, signature)
	return header, nil
}

// payload is the body of a request. It sets sent when the transport has read all of it, possibly on another
// goroutine.
type payload struct {
	rest [3][]byte
	sent *atomic.Bool
}

// Read implements io.Reader, for transports that do not borrow.
func (p *payload) Read(to []byte) (n int, err error) {
	for n < len(to) {
		n += copy(to[n:], p.Borrow(len(to)-n))
		if p.left() == 0 {
			return n, io.EOF
		}
	}
	return n, nil
}

// Borrow returns the next bytes, at most n, which the caller must not change. Unlike Read it copies nothing.
func (p *payload) Borrow(n int) (piece []byte) {
	for i := range p.rest {
		if part := p.rest[i]; len(part) > 0 {
			n = min(n, len(part))
			piece, p.rest[i] = part[:n], part[n:]
			break
		}
	}
	if p.left() == 0 {
		p.sent.Store(true)
	}
	return piece
}

// left returns how many bytes have not been read.
func (p *payload) left() int { return len(p.rest[0]) + len(p.rest[1]) + len(p.rest[2]) }

// Close implements io.Closer. The bytes belong to the request, which outlives the payload.
func (p *payload) Close() error { return nil }

// Fetch sends a GET request and fills in the reply, as Post does.
func (c *Client) Fetch(ctx context.Context, to *Reply, u *url.URL, header http.Header) error {
	header, err := c.signed(ctx, http.MethodGet, u, header, [3][]byte{})
	if err != nil {
		return err
	}
	return c.do(ctx, to, &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header})
}

// FetchJSON decodes the JSON at u into v. What cannot be decoded is a fault.
func (c *Client) FetchJSON(ctx context.Context, u *url.URL, header http.Header, v any) error {
	var reply Reply
	if err := c.Fetch(ctx, &reply, u, header); err != nil {
		return err
	}
	return reply.decode(v)
}

// decode reads the whole body into v and closes the reply.
func (r *Reply) decode(v any) error {
	raw, err := r.Whole()
	if err == nil {
		if wrong := json.Unmarshal(raw, v); wrong != nil {
			err = Garbled(wrong)
		}
	}
	_ = r.Close(err == nil) // all that is needed was read
	return err
}

// Reacher is implemented by adapters that can try to connect to their upstream. Not every adapter is one.
type Reacher interface {
	// Reach connects to the upstream and closes the connection again, without a request. The error is ErrNotTried where
	// that would tell nothing.
	Reach(ctx context.Context) error
}

// Measured is implemented by adapters whose upstream may be a server of one's own that says how busy it is.
type Measured interface {
	// Metrics asks for the server's metrics and calls read with them, which are text in Prometheus' format. A server that
	// has none refuses.
	Metrics(ctx context.Context, read func(io.Reader) error) error
}

// ErrNotTried means that no connection was tried: there is a proxy, or the operator does not want it.
var ErrNotTried = errors.New("no connection was tried")

// Connect opens a connection to the host of u, with TLS if the scheme says so, and closes it; see Reacher.
func (c *Client) Connect(ctx context.Context, u *url.URL) error {
	pool, ok := c.transport.(*connections)
	if !ok {
		return ErrNotTried
	}
	return pool.reach(ctx, u)
}

// do sends the request. Until the headers have come, only firstPatience bounds the wait: a long prompt may be
// read for minutes. From then on no pause may be longer than the client's silence.
//
// The call gets a context of its own, which the pulse cancels if the upstream falls silent.
// plainhttp needs less of a context than net/http does, so its calls get the cheaper callContext.
func (c *Client) do(ctx context.Context, to *Reply, req *http.Request) error {
	to.client = c
	if pool, ok := c.transport.(*connections); ok && pool.choose(req.URL) != nil {
		to.own.Context = ctx
		to.ctx = &to.own
	} else {
		to.ctx, to.cancel = context.WithCancelCause(ctx)
	}
	late := func() { to.end(Stalled(c.silence)) }
	if c.pulse != nil {
		to.beat = c.pulse.Watch(firstPatience, late)
	} else {
		defer time.AfterFunc(firstPatience, late).Stop()
	}
	resp, err := c.transport.RoundTrip(req.WithContext(to.ctx))
	if err == nil && resp.StatusCode == http.StatusOK {
		if to.beat != nil {
			to.beat.After(c.silence)
		}
		to.Header, to.length, to.body = resp.Header, resp.ContentLength, resp.Body
		return nil
	}
	if to.beat != nil {
		to.beat.Stop()
	}
	defer to.end(nil)
	if err != nil {
		// A transport may know only that the call was canceled.
		if cause := to.why(); cause != nil {
			err = cause
		}
		return Unreachable(err)
	}
	return c.refusal(req, resp, to)
}

// refusal returns the fault of a reply with an error status. If its body is cut or slow, what has come of it is
// used. What the request says decides whose fault some of them are, so it is looked at again.
func (c *Client) refusal(req *http.Request, resp *http.Response, to *Reply) error {
	defer resp.Body.Close()
	late := time.AfterFunc(errorPatience, func() { to.end(nil) })
	defer late.Stop()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	var sent [3][]byte
	if req.GetBody != nil {
		if again, err := req.GetBody(); err == nil {
			sent = again.(*payload).rest
		}
	}
	for _, name := range requestIDs {
		if id := resp.Header.Get(name); string(c.conceal([]byte(id))) != id {
			resp.Header.Del(name)
		}
	}
	return blamed(c.refused(resp.StatusCode, resp.Header, c.conceal(raw)), sent)
}

// conceal removes our secrets from an error. It returns raw itself if there are none in it.
func (c *Client) conceal(raw []byte) []byte {
	for _, secret := range c.secrets {
		raw = bytes.ReplaceAll(raw, secret, []byte("…"))
	}
	return raw
}

// Reply is an upstream's answer whose headers have come. It is read by one goroutine, either with Whole, or with
// Event, or with Read.
type Reply struct {
	Header http.Header

	length int64 // of the body in bytes; -1 if it is not known
	body   io.ReadCloser
	client *Client
	ctx    context.Context         //nolint:containedctx // one call's, for the reason it was canceled with
	cancel context.CancelCauseFunc // of ctx; nil if that is own
	own    callContext             // of a call that package plainhttp makes
	beat   *pulse.Beat             // nil without a pulse
	reader *sse.Reader             // nil until Event is called
	pooled *[]byte                 // from buffers, to be returned by Close; nil unless Whole was called
	large  int64                   // bytes of it that count in client.large

	payload payload     // what is sent
	sent    atomic.Bool // all of it was
}

// end cancels the call. Its first cause is that of all errors.
func (r *Reply) end(cause error) {
	if r.cancel != nil {
		r.cancel(cause)
		return
	}
	r.own.end(cause)
}

// why returns why the call was canceled, or nil if it was not.
func (r *Reply) why() error {
	if r.cancel != nil {
		return context.Cause(r.ctx)
	}
	return r.own.why()
}

// IsStream reports whether the reply is a stream of server-sent events.
func (r *Reply) IsStream() bool {
	const want = "text/event-stream"
	ct := r.Header.Get("Content-Type")
	return len(ct) >= len(want) && strings.EqualFold(ct[:len(want)], want)
}

// Read reads from the body, and tells the pulse that the upstream is alive.
func (r *Reply) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if r.beat != nil {
		r.beat.Touch()
	}
	return n, err
}

// Await implements sse.Waiter. A body of net/http cannot wait without memory, so a Read of it waits.
func (r *Reply) Await() {
	if body, ok := r.body.(sse.Waiter); ok {
		body.Await()
	}
}

// Conceal removes our secrets from an error that came inside the reply.
func (r *Reply) Conceal(raw []byte) []byte { return r.client.conceal(raw) }

// Fault returns the fault for an error of Read: the reply stalled if the pulse has canceled it, and else it was
// cut.
func (r *Reply) Fault(err error) error {
	cause := r.why()
	if f, ok := errors.AsType[*fault.Fault](cause); ok {
		return f // stalled
	}
	if cause != nil {
		err = cause
	}
	return Cut(err)
}

// Whole reads the whole body, of at most MaxReply bytes. If its length is known, the memory is right from the
// start and the body is read in one step. The bytes are valid until Close.
func (r *Reply) Whole() ([]byte, error) {
	if r.length > MaxReply {
		return nil, TooLong()
	}
	r.pooled = buffers.Get().(*[]byte)
	if r.length >= 0 {
		if err := r.room(int(r.length), 0); err != nil {
			return nil, err
		}
		raw := (*r.pooled)[:r.length]
		if _, err := io.ReadFull(r, raw); err != nil {
			return nil, r.Fault(err)
		}
		return raw, nil
	}
	for n := 0; ; {
		buf := (*r.pooled)[:cap(*r.pooled)]
		m, err := r.Read(buf[n:])
		switch n += m; {
		case errors.Is(err, io.EOF):
			return buf[:n], nil
		case err != nil:
			return nil, r.Fault(err)
		case n > MaxReply:
			return nil, TooLong()
		}
		if n == len(buf) {
			if err := r.room(min(2*n+1, MaxReply+1), n); err != nil {
				return nil, err
			}
		}
	}
}

// room makes the buffer size bytes large, if it is smaller, and keeps the first n bytes. It grows by doubling and
// never beyond the bound, so that a reply without an end takes little more memory than the longest one that is
// legal. It fails if the large replies of the upstream take too much already.
func (r *Reply) room(size, n int) error {
	if cap(*r.pooled) >= size {
		return nil
	}
	if size > maxPooled {
		more := int64(size) - r.large
		if r.client.large.Add(more) > maxLarge {
			r.client.large.Add(-more)
			return Own(fault.New(fault.Unavailable, "The model's provider sends too many long replies at the moment. Try again shortly.").After(time.Second).
				Because(errors.New("the replies being read are too long in all")))
		}
		r.large += more
	}
	grown := make([]byte, size)
	copy(grown, (*r.pooled)[:n])
	*r.pooled = grown
	return nil
}

// Event reads the next server-sent event, which is valid until the next call. At the end of the body the error
// is io.EOF, whether or not the reply is complete: only the dialect can tell. Other errors are faults.
func (r *Reply) Event() (sse.Event, error) {
	if r.reader == nil {
		r.reader = sse.NewReader(r, &buffers, MaxEvent)
	}
	ev, err := r.reader.Next()
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return ev, err
	case errors.Is(err, sse.ErrTooLong):
		return ev, TooLong()
	}
	return ev, r.Fault(err)
}

// Ready reports whether Event would return without waiting for the upstream.
func (r *Reply) Ready() bool { return r.reader != nil && r.reader.Ready() }

// Close frees the upstream. If complete is set, everything that was expected has been read; then the connection
// goes back to the pool as soon as the body has ended. Otherwise it is closed, which tells the upstream to stop.
//
// The buffer returns to the pool here, so nothing that was read may be used afterwards.
func (r *Reply) Close(complete bool) error {
	if r.beat != nil {
		r.beat.Stop()
	}
	if r.large > 0 {
		r.client.large.Add(-r.large)
		r.large = 0
	}
	atEnd := r.reader == nil || r.reader.AtEOF()
	if r.reader != nil {
		r.reader.Close()
	}
	if r.pooled != nil && cap(*r.pooled) <= maxPooled {
		buffers.Put(r.pooled)
	}
	if complete && !atEnd {
		r.client.drain(r)
		return nil
	}
	if r.cancel == nil {
		// Once the body is closed, nobody waits for the context any more.
		err := r.body.Close()
		r.end(nil)
		return err
	}
	r.cancel(nil)
	return r.body.Close()
}

// drain reads the end of a stream whose last event has come, so that its connection can be used again. The end
// usually arrives together with that event. If it does not, the caller must not wait for it, so a goroutine
// does, for a second at most.
func (c *Client) drain(r *Reply) {
	c.drains.Go(func() {
		defer r.end(nil)
		defer r.body.Close()
		late := time.AfterFunc(time.Second, func() { r.end(nil) })
		defer late.Stop()
		_, _ = io.CopyN(io.Discard, r.body, 1<<10) // a longer rest is not worth reading
	})
}

// maxPooled is the largest buffer that goes back into the pool, in bytes. One large reply must not keep its
// memory for as long as the process runs.
const maxPooled = 64 << 10

// buffers holds the buffers that bodies are read into. They start with 2 KiB, enough for most events.
var buffers = sync.Pool{New: func() any { b := make([]byte, 2<<10); return &b }}
