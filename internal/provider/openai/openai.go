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
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/chat"
	"sluice/internal/provider"
	"sluice/internal/pulse"
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
	*provider.Client
	url    *url.URL
	header http.Header // shared by all requests, never written to
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
	a := &Adapter{url: u, Client: provider.NewClient(&provider.ClientOptions{
		Secrets: []string{opts.APIKey}, Pulse: opts.Pulse, Silence: opts.Silence, Transport: opts.Transport,
	})}
	a.header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "User-Agent": {"sluice"}}
	if opts.APIKey != "" {
		a.header["Authorization"] = []string{"Bearer " + opts.APIKey}
	}
	return a, nil
}

// Open sends the call.
func (a *Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	s := &stream{}
	if err := a.Post(ctx, &s.reply, a.url, a.header, call.Request.AppendUpstream(nil, patch(call))); err != nil {
		return nil, err
	}
	s.whole = !s.reply.IsStream()
	return s, nil
}

// patch is what must differ from the caller's body.
func patch(call *provider.Call) chat.Patch {
	p := chat.Patch{Model: call.Upstream, IncludeUsage: true, SystemRole: true}
	if !call.Thinks && call.Request.ReasoningEffort != "" {
		p.Drop = []string{"reasoning_effort"}
	}
	return p
}

// stream is a reply, in chunks or in one piece.
type stream struct {
	reply provider.Reply
	event provider.Event
	whole bool // it comes in one piece
	done  bool // the upstream said so, or the piece has come
}

func (s *stream) Next() (*provider.Event, error) {
	switch {
	case s.done:
		return nil, io.EOF
	case s.whole:
		s.done = true
		raw, err := s.reply.Whole()
		if err != nil {
			return nil, err
		}
		s.event = provider.Event{Kind: provider.Whole, Raw: raw}
		return &s.event, nil
	}
	ev, err := s.reply.Event()
	if err != nil {
		return nil, err // where it is io.EOF: complete or not, the relay knows
	}
	if len(ev.Data) < 2*len(doneMark) && string(bytes.TrimSpace(ev.Data)) == doneMark {
		s.done = true
		return nil, io.EOF
	}
	s.event = provider.Event{Kind: provider.Chunk, Raw: ev.Data}
	return &s.event, nil
}

const doneMark = "[DONE]"

func (s *stream) Ready() bool {
	if s.whole {
		return s.done
	}
	return s.reply.Ready()
}

func (s *stream) Close() error { return s.reply.Close(s.done) }
