// Package openai speaks OpenAI's chat completions, which most upstreams understand.
//
// The caller's body goes up as it came, with only the model and what a stream reports patched in
// place; replies come back as raw chunks, for the relay to hand on. Usage is always asked for, since
// every call is accounted for.
package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/pulse"
	"sluice/internal/sse"
)

const (
	maxReply      = 64 << 20 // bytes of a reply that is not streamed
	maxEvent      = 8 << 20  // bytes of one event
	maxErrorBody  = 64 << 10
	dialPatience  = 10 * time.Second
	errorPatience = 5 * time.Second // for the rest of a refusal
	firstPatience = 5 * time.Minute // a long prompt may be read for minutes before anything comes
	silence       = 2 * time.Minute // between events
)

// Options are the choices of New; the zero value is the default.
type Options struct {
	// APIKey is sent as a bearer token; empty: none is sent.
	APIKey string
	// Pulse watches replies for silence; nil: they may be silent for ever.
	Pulse *pulse.Pulse
	// Silence is how long a reply may pause once it has begun. Default two minutes.
	Silence time.Duration
	// Transport replaces the connection pool, for tests.
	Transport http.RoundTripper
}

// Adapter calls one upstream.
type Adapter struct {
	url       *url.URL
	key       []byte
	header    http.Header // shared by all requests, never written to
	transport http.RoundTripper
	pulse     *pulse.Pulse
	silence   time.Duration
	drains    sync.WaitGroup // streams whose last bytes are still awaited
}

// New returns an adapter for the upstream whose API begins at baseURL, such as https://host/v1.
func New(baseURL string, opts *Options) (*Adapter, error) {
	if opts == nil {
		opts = &Options{}
	}
	u, err := url.Parse(strings.TrimSuffix(baseURL, "/") + "/chat/completions")
	if err != nil {
		return nil, errors.New("the base URL cannot be read")
	}
	a := &Adapter{url: u, key: []byte(opts.APIKey), transport: opts.Transport, pulse: opts.Pulse, silence: opts.Silence}
	a.header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "User-Agent": {"sluice"}}
	if opts.APIKey != "" {
		a.header["Authorization"] = []string{"Bearer " + opts.APIKey}
	}
	if a.silence == 0 {
		a.silence = silence
	}
	if a.transport == nil {
		a.transport = newTransport()
	}
	return a, nil
}

// newTransport is a connection pool of its own for each upstream: calls are many and long.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialPatience, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   dialPatience,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          4096,
		MaxIdleConnsPerHost:   4096,
		IdleConnTimeout:       90 * time.Second,
		ResponseHeaderTimeout: firstPatience,
		DisableCompression:    true, // a compressed stream would be held back
	}
}

// Retire drops idle connections; calls under way go on and others may still come.
func (a *Adapter) Retire() {
	if t, ok := a.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// Close waits for what is under way after the last call, and retires. No call may come any more.
func (a *Adapter) Close() {
	a.drains.Wait()
	a.Retire()
}

// Open sends the call.
func (a *Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	body := call.Request.AppendUpstream(nil, patch(call))
	req := (&http.Request{
		Method: http.MethodPost, URL: a.url, Host: a.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, ContentLength: int64(len(body)),
		Body:    io.NopCloser(bytes.NewReader(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}).WithContext(ctx)
	resp, err := a.transport.RoundTrip(req)
	if err != nil {
		cancel(nil)
		return nil, provider.Unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel(nil)
		return nil, a.refusal(resp, cancel)
	}
	if isStream(resp) {
		return a.stream(ctx, cancel, resp), nil
	}
	return &whole{reply: a.reply(ctx, cancel, resp), length: resp.ContentLength}, nil
}

// refusal is the fault of a reply with an error status. What there is of its body will do.
func (a *Adapter) refusal(resp *http.Response, cancel context.CancelCauseFunc) error {
	defer resp.Body.Close()
	late := time.AfterFunc(errorPatience, func() { cancel(nil) })
	defer late.Stop()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if len(a.key) > 0 {
		raw = bytes.ReplaceAll(raw, a.key, []byte("…")) // some repeat it to whom they refuse
	}
	return provider.Refused(resp.StatusCode, resp.Header, raw)
}

// patch is what must differ from the caller's body.
func patch(call *provider.Call) chat.Patch {
	p := chat.Patch{Model: call.Upstream, IncludeUsage: true, SystemRole: true}
	if !call.Thinks && call.Request.ReasoningEffort != "" {
		p.Drop = []string{"reasoning_effort"}
	}
	return p
}

func isStream(resp *http.Response) bool {
	ct := resp.Header.Get("Content-Type")
	return len(ct) >= 17 && strings.EqualFold(ct[:17], "text/event-stream")
}

// reply is what replies in one piece and in chunks have in common.
type reply struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	ctx    context.Context //nolint:containedctx // one call's, for the reason it was canceled with
	beat   *pulse.Beat
	event  provider.Event
}

// reply watches a reply that has begun.
func (a *Adapter) reply(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response) reply {
	r := reply{body: resp.Body, cancel: cancel, ctx: ctx}
	if a.pulse != nil {
		r.beat = a.pulse.Watch(a.silence, func() { cancel(provider.Stalled(a.silence)) })
	}
	return r
}

// Read reads from the body, and notes that it is alive.
func (r *reply) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if r.beat != nil {
		r.beat.Touch()
	}
	return n, err
}

// fault is why the body could not be read to its end.
func (r *reply) fault(err error) error {
	cause := context.Cause(r.ctx)
	if f, ok := errors.AsType[*fault.Fault](cause); ok {
		return f // stalled
	}
	if cause != nil {
		err = cause
	}
	return provider.Cut(err)
}

func (r *reply) stop() {
	if r.beat != nil {
		r.beat.Stop()
	}
}

// whole is a reply that came in one piece.
type whole struct {
	reply
	length int64
	done   bool
}

func (s *whole) Next() (*provider.Event, error) {
	if s.done {
		return nil, io.EOF
	}
	s.done = true
	raw, err := s.read()
	if err != nil {
		return nil, err
	}
	s.event = provider.Event{Kind: provider.Whole, Raw: raw}
	return &s.event, nil
}

func (s *whole) Ready() bool { return s.done }

func (s *whole) Close() error {
	s.stop()
	s.cancel(nil)
	return s.body.Close()
}

// read reads the body within the bound, in one step where its length is known.
func (s *whole) read() ([]byte, error) {
	if s.length > maxReply {
		return nil, provider.Garbled(errors.New("the reply is too long"))
	}
	if s.length >= 0 {
		raw := make([]byte, s.length)
		if _, err := io.ReadFull(s, raw); err != nil {
			return nil, s.fault(err)
		}
		return raw, nil
	}
	raw, err := io.ReadAll(io.LimitReader(s, maxReply+1))
	if err != nil {
		return nil, s.fault(err)
	}
	if len(raw) > maxReply {
		return nil, provider.Garbled(errors.New("the reply is too long"))
	}
	return raw, nil
}

// stream is a reply in chunks.
type stream struct {
	reply
	from   *Adapter
	reader *sse.Reader
	pooled *[]byte
	done   bool // the upstream said so
}

func (a *Adapter) stream(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response) *stream {
	pooled := buffers.Get().(*[]byte)
	s := &stream{reply: a.reply(ctx, cancel, resp), from: a, pooled: pooled}
	s.reader = sse.NewReader(s, *pooled, maxEvent)
	return s
}

func (s *stream) Next() (*provider.Event, error) {
	ev, err := s.reader.Next()
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		return nil, io.EOF // complete or not: the relay knows
	case errors.Is(err, sse.ErrTooLong):
		return nil, provider.Garbled(err)
	default:
		return nil, s.fault(err)
	}
	if len(ev.Data) < 2*len(doneMark) && string(bytes.TrimSpace(ev.Data)) == doneMark {
		s.done = true
		return nil, io.EOF
	}
	s.event = provider.Event{Kind: provider.Chunk, Raw: ev.Data}
	return &s.event, nil
}

const doneMark = "[DONE]"

func (s *stream) Ready() bool { return s.reader.Ready() }

// Close frees the upstream. After a whole stream the connection goes back to the pool.
func (s *stream) Close() error {
	s.stop()
	if buf := s.reader.Buffer(); cap(buf) <= maxPooled {
		*s.pooled = buf
		buffers.Put(s.pooled)
	}
	if s.done && !s.reader.AtEOF() {
		s.from.drain(s.body, s.cancel)
		return nil
	}
	s.cancel(nil)
	return s.body.Close()
}

// drain waits a moment for the end of a stream whose last event has come, so that its connection can
// be used again. The end mostly arrives with that event; where it does not, the caller must not wait.
func (a *Adapter) drain(body io.ReadCloser, cancel context.CancelCauseFunc) {
	a.drains.Go(func() {
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
