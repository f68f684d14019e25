// Package openai speaks OpenAI's chat completions, which most upstreams understand.
//
// The caller's body goes up as it came, with only the model and what a stream reports patched in
// place; replies come back as raw chunks, for the relay to hand on. Usage is always asked for, since
// every call is accounted for.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/provider"
	"sluice/internal/pulse"
)

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Preset is the vendor; the zero Preset is any that keeps to the dialect.
	Preset Preset
	// APIKey is sent as a bearer token, or as the preset has it; empty: none is sent.
	APIKey string
	// APIVersion is Azure's, such as 2024-10-21; empty: its newer API without versions.
	APIVersion string
	// Pulse watches replies for silence; nil: they may be silent for ever.
	Pulse *pulse.Pulse
	// Silence is how long a reply may pause once it has begun. Default two minutes.
	Silence time.Duration
	// Transport replaces the connection pool: one that is shared, or a test's.
	Transport http.RoundTripper
}

// Adapter calls one upstream.
type Adapter struct {
	*provider.Client
	preset Preset
	url    *url.URL    // of completions; where deployments have their own, of these
	models *url.URL    // of the list
	header http.Header // shared by all requests, never written to
}

// New returns an adapter for the upstream whose API begins at baseURL, such as https://host/v1;
// empty: that of the preset.
func New(baseURL string, opts *Options) (*Adapter, error) {
	if opts == nil {
		opts = &Options{}
	}
	base, err := url.Parse(strings.TrimSuffix(cmp.Or(baseURL, opts.Preset.BaseURL), "/"))
	if err != nil {
		return nil, errors.New("the base URL cannot be read")
	}
	a := &Adapter{preset: opts.Preset, Client: provider.NewClient(&provider.ClientOptions{
		Secrets: []string{opts.APIKey}, Pulse: opts.Pulse, Silence: opts.Silence, Transport: opts.Transport,
	})}
	a.address(base, opts.APIVersion)
	a.header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "User-Agent": {"sluice"}}
	switch {
	case opts.APIKey == "":
	case opts.Preset.keyHeader != "":
		a.header[opts.Preset.keyHeader] = []string{opts.APIKey}
	default:
		a.header["Authorization"] = []string{"Bearer " + opts.APIKey}
	}
	return a, nil
}

// address makes the URLs below the base. Azure's stand below /openai: with a version each deployment
// has its own, without one they are as everywhere.
func (a *Adapter) address(base *url.URL, version string) {
	if a.preset.deployments {
		base = base.JoinPath("openai")
		if version == "" {
			base = base.JoinPath("v1")
			a.preset.deployments, a.preset.limit = false, maxCompletionTokens
		} else {
			base.RawQuery = url.Values{"api-version": {version}}.Encode()
		}
	}
	a.models = below(base, "/models")
	if a.preset.deployments {
		a.url = below(base, "/deployments/")
		return
	}
	a.url = below(base, "/chat/completions")
}

func below(base *url.URL, path string) *url.URL {
	u := *base
	u.Path += path
	return &u
}

// completions is the URL of a call.
func (a *Adapter) completions(call *provider.Call) *url.URL {
	if a.preset.deployments {
		return below(a.url, call.Upstream+"/chat/completions")
	}
	return a.url
}

// Open sends the call.
func (a *Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	call.Dropped = nil
	patch, err := a.patch(ctx, call)
	if err != nil {
		return nil, err
	}
	s := &stream{}
	if err := a.Post(ctx, &s.reply, a.completions(call), a.header, call.Request.AppendUpstream(nil, patch)); err != nil {
		return nil, err
	}
	s.whole = !s.reply.IsStream()
	if a.preset.returns != "" && call.Memory != nil {
		s.thoughts = &thoughts{ctx: ctx, call: call, member: a.preset.returns}
	}
	return s, nil
}

// stream is a reply, in chunks or in one piece.
type stream struct {
	reply provider.Reply
	event provider.Event
	whole bool // it comes in one piece
	done  bool // the upstream said so, or the piece has come

	thoughts *thoughts // those that must be kept; nil: none
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
		raw = s.concealed(raw)
		s.thoughts.note(raw)
		s.thoughts.keep()
		s.event = provider.Event{Kind: provider.Whole, Raw: raw}
		return &s.event, nil
	}
	ev, err := s.reply.Event()
	if err != nil {
		s.thoughts.keep()
		return nil, err // where it is io.EOF: complete or not, the relay knows
	}
	if len(ev.Data) < 2*len(doneMark) && string(bytes.TrimSpace(ev.Data)) == doneMark {
		s.done = true
		s.thoughts.keep()
		return nil, io.EOF
	}
	s.thoughts.note(ev.Data)
	s.event = provider.Event{Kind: provider.Chunk, Raw: s.concealed(ev.Data)}
	return &s.event, nil
}

// concealed is a reply, or a piece of it, without our secrets where it speaks of an error. Looking for
// one costs some 20 ns a chunk.
func (s *stream) concealed(raw []byte) []byte {
	if bytes.Contains(raw, []byte(`"error"`)) {
		return s.reply.Conceal(raw)
	}
	return raw
}

const doneMark = "[DONE]"

func (s *stream) Ready() bool {
	if s.whole {
		return s.done
	}
	return s.reply.Ready()
}

func (s *stream) Close() error { return s.reply.Close(s.done) }
