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
	"sluice/internal/provider"
	"sluice/internal/pulse"
	"sluice/internal/sse"
)

const (
	maxReply      = 64 << 20 // bytes of a reply that is not streamed
	maxEvent      = 8 << 20  // bytes of one event
	maxErrorBody  = 64 << 10
	dialPatience  = 10 * time.Second
	firstPatience = 5 * time.Minute // a long prompt may be read for minutes before anything comes
	silence       = 2 * time.Minute // between events
)

// Options are the choices of New; the zero value is the default.
type Options struct {
	// APIKey is sent as a bearer token; empty: none is sent.
	APIKey string
	// Pulse watches streams for silence; nil: they may be silent for ever.
	Pulse *pulse.Pulse
	// Silence is how long a stream may pause. Default two minutes.
	Silence time.Duration
	// Transport replaces the connection pool, for tests.
	Transport http.RoundTripper
}

// Adapter calls one upstream.
type Adapter struct {
	url       *url.URL
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
	a := &Adapter{url: u, transport: opts.Transport, pulse: opts.Pulse, silence: opts.Silence}
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
		defer resp.Body.Close()
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what there is of it will do
		return nil, provider.Refused(resp.StatusCode, resp.Header, raw)
	}
	if isStream(resp) {
		return a.stream(ctx, cancel, resp), nil
	}
	return &whole{body: resp.Body, cancel: cancel, length: resp.ContentLength}, nil
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

// whole is a reply that came in one piece.
type whole struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	length int64
	done   bool
	event  provider.Event
}

func (s *whole) Next() (*provider.Event, error) {
	if s.done {
		return nil, io.EOF
	}
	s.done = true
	raw, err := readWhole(s.body, s.length)
	if err != nil {
		return nil, err
	}
	s.event = provider.Event{Kind: provider.Whole, Raw: raw}
	return &s.event, nil
}

func (s *whole) Ready() bool { return s.done }

func (s *whole) Close() error {
	s.cancel(nil)
	return s.body.Close()
}

// readWhole reads a body within the bound, in one step where its length is known.
func readWhole(body io.Reader, length int64) ([]byte, error) {
	if length > maxReply {
		return nil, provider.Garbled(errors.New("the reply is too long"))
	}
	if length >= 0 {
		raw := make([]byte, length)
		if _, err := io.ReadFull(body, raw); err != nil {
			return nil, provider.Cut(err)
		}
		return raw, nil
	}
	raw, err := io.ReadAll(io.LimitReader(body, maxReply+1))
	if err != nil {
		return nil, provider.Cut(err)
	}
	if len(raw) > maxReply {
		return nil, provider.Garbled(errors.New("the reply is too long"))
	}
	return raw, nil
}

// stream is a reply in chunks.
type stream struct {
	from   *Adapter
	body   io.ReadCloser
	reader *sse.Reader
	pooled *[]byte
	cancel context.CancelCauseFunc
	ctx    context.Context //nolint:containedctx // one call's, for the reason it was canceled with
	beat   *pulse.Beat
	done   bool // the upstream said so
	event  provider.Event
}

func (a *Adapter) stream(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response) *stream {
	pooled := buffers.Get().(*[]byte)
	s := &stream{from: a, body: resp.Body, reader: sse.NewReader(resp.Body, *pooled, maxEvent), pooled: pooled, cancel: cancel, ctx: ctx}
	if a.pulse != nil {
		s.beat = a.pulse.Watch(a.silence, func() { cancel(provider.Stalled(a.silence)) })
	}
	return s
}

func (s *stream) Next() (*provider.Event, error) {
	ev, err := s.reader.Next()
	if s.beat != nil {
		s.beat.Touch()
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		return nil, io.EOF // complete or not: the relay knows
	case errors.Is(err, sse.ErrTooLong):
		return nil, provider.Garbled(err)
	default:
		if cause := context.Cause(s.ctx); cause != nil {
			return nil, cause
		}
		return nil, provider.Cut(err)
	}
	if len(ev.Data) == len(doneMark) && string(ev.Data) == doneMark {
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
	if s.beat != nil {
		s.beat.Stop()
	}
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
