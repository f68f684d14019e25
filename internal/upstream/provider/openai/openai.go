// Package openai speaks OpenAI's chat completions, the dialect of most upstreams.
//
// The caller's body goes up as it came. Only what must differ is patched in place: the model's name, the request
// for usage, since every call is accounted for, and what a vendor wants differently (see Preset). Replies come back
// as raw chunks, which the relay passes on without decoding most of them.
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

	"sluice/internal/kit/pulse"
	"sluice/internal/upstream/provider"
)

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Preset is the vendor. The zero Preset is for any upstream that follows the dialect.
	Preset Preset
	// APIKey is sent as a bearer token, or in the preset's own header. If it is empty, none is sent.
	APIKey string
	// Signer signs requests, for vendors that want more than a key. May be nil.
	Signer *provider.Signer
	// APIVersion is Azure's, such as 2024-10-21. If it is empty, its newer API without versions is used.
	APIVersion string
	// API is the API that completions are asked for by: APIChat, APIResponses or APIAuto. Default: APIAuto for OpenAI and
	// Azure, APIChat for all others.
	API string
	// Ways is what was learned of models, for APIAuto. If it is nil, the adapter has one of its own.
	Ways *Ways
	// Pulse ends replies that are silent for too long. If it is nil, a reply may be silent forever.
	Pulse *pulse.Pulse
	// Silence is how long a reply may pause once it has begun. Default two minutes.
	Silence time.Duration
	// Transport replaces the adapter's own connection pool: a shared pool, or a test's.
	Transport http.RoundTripper
}

// Adapter calls one upstream. It implements provider.Adapter.
type Adapter struct {
	*provider.Client
	preset  Preset
	url     *url.URL // of completions; the folder of deployments if each has its own
	vectors *url.URL // of embeddings; nil if each deployment has its own
	models  *url.URL // of the list of models
	// api is one of the constants, and never empty.
	api       string
	ways      *Ways
	responses *url.URL    // of the Responses API
	header    http.Header // shared by all requests; never written to after New
}

// New returns an adapter for the upstream whose API begins at baseURL, such as https://host/v1. If baseURL is
// empty, it is the preset's. opts may be nil.
func New(baseURL string, opts *Options) (*Adapter, error) {
	if opts == nil {
		opts = &Options{}
	}
	base, err := url.Parse(strings.TrimSuffix(cmp.Or(baseURL, opts.Preset.BaseURL), "/"))
	if err != nil {
		return nil, errors.New("the base URL cannot be read")
	}
	a := &Adapter{preset: opts.Preset, api: cmp.Or(opts.API, opts.Preset.defaultAPI(opts.APIVersion)), ways: cmp.Or(opts.Ways, &Ways{}), Client: provider.NewClient(&provider.ClientOptions{
		Secrets: []string{opts.APIKey}, Signer: opts.Signer, Pulse: opts.Pulse, Silence: opts.Silence, Transport: opts.Transport,
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

// address sets the URLs below the base. Azure's are below /openai, which the base may have already, as Azure's pages show
// it. With a version, each deployment has a URL of its own; without one, the paths and the name of the bound are those of OpenAI.
func (a *Adapter) address(base *url.URL, version string) {
	if a.preset.deployments {
		// JoinPath would return a path without a slash in front for a base that has no path.
		base.Path = strings.TrimSuffix(strings.TrimSuffix(base.Path, "/openai/v1"), "/openai") + "/openai"
		if version == "" {
			base = below(base, "/v1")
			a.preset.deployments, a.preset.limit = false, maxCompletionTokens
		} else {
			base.RawQuery = url.Values{"api-version": {version}}.Encode()
			a.preset.hints = hints{} // older versions refuse the member
		}
	}
	a.models, a.responses = below(base, "/models"), below(base, "/responses")
	if a.preset.deployments {
		a.url = below(base, "/deployments/")
		return
	}
	a.url, a.vectors = below(base, "/chat/completions"), below(base, "/embeddings")
}

// below returns base with more path, and with base's query. base is not changed.
func below(base *url.URL, path string) *url.URL {
	u := *base
	u.Path += path
	return &u
}

// completions returns the URL of a call.
func (a *Adapter) completions(call *provider.Call) *url.URL {
	if a.preset.deployments {
		return below(a.url, call.Upstream+"/chat/completions")
	}
	return a.url
}

// Reach implements provider.Reacher.
func (a *Adapter) Reach(ctx context.Context) error { return a.Connect(ctx, a.models) }

// Metrics implements provider.Measured. The metrics are beside the API, whose address ends in its version. They are asked
// for with the key, because some servers guard them, too.
func (a *Adapter) Metrics(ctx context.Context, read func(io.Reader) error) error {
	u := *a.models
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/models"), "/v1") + "/metrics"
	var reply provider.Reply
	if err := a.Fetch(ctx, &reply, &u, a.header); err != nil {
		return err
	}
	err := read(&reply)
	_ = reply.Close(err == nil)
	return err
}

// openChat sends a call by chat completions.
// What the operator does not allow is left out by the same patch.
func (a *Adapter) openChat(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	if err := call.Translated(); err != nil {
		return nil, err
	}
	withheld, err := call.Withhold()
	if err != nil {
		return nil, err
	}
	patch, err := a.patch(ctx, call)
	if err != nil {
		return nil, err
	}
	patch.Drop = append(patch.Drop, withheld...)
	call.Chat = true
	s := &stream{}
	if err := a.PostPieces(ctx, &s.reply, a.completions(call), a.headers(call, false), call.Request.Upstream(patch)); err != nil {
		return nil, err
	}
	s.whole = !s.reply.IsStream()
	if a.preset.searches {
		s.searched = &searched{}
	}
	if a.preset.returns != "" && call.Memory != nil {
		s.thoughts = &thoughts{ctx: ctx, call: call, member: a.preset.returns}
	}
	return s, nil
}

// stream is a reply, in chunks or in one piece.
//
// It is the one stream whose events are raw: relay scans them, and decodes only what it must.
type stream struct {
	reply provider.Reply
	event provider.Event // the one that Next returns, so that none is allocated
	whole bool           // the reply comes in one piece
	done  bool           // [DONE] has come, or the one piece has

	thoughts *thoughts // collects what must come back with tool results; nil if nothing must
	searched *searched // collects what the vendor has searched; nil if it does not charge for that
}

// Next implements provider.Stream. It does not look for a finish reason: at the end of the body the relay knows
// whether the reply is complete.
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
		s.searched.note(raw)
		s.event = provider.Event{Kind: provider.Whole, Raw: raw}
		return &s.event, nil
	}
	ev, err := s.reply.Event()
	if err != nil {
		s.thoughts.keep()
		return nil, err
	}
	if len(ev.Data) < 2*len(doneMark) && string(bytes.TrimSpace(ev.Data)) == doneMark {
		s.done = true
		s.thoughts.keep()
		return nil, io.EOF
	}
	s.thoughts.note(ev.Data)
	s.searched.note(ev.Data)
	s.event = provider.Event{Kind: provider.Chunk, Raw: s.concealed(ev.Data)}
	return &s.event, nil
}

// concealed returns a reply, or a piece of one, without our secrets. Only errors repeat them, so pieces without
// an error are returned as they are; looking for one costs about 20 ns for each chunk.
func (s *stream) concealed(raw []byte) []byte {
	if bytes.Contains(raw, []byte(`"error"`)) {
		return s.reply.Conceal(raw)
	}
	return raw
}

// doneMark is the data of the event after the last chunk.
const doneMark = "[DONE]"

// Ready implements provider.Stream.
func (s *stream) Ready() bool {
	if s.whole {
		return s.done
	}
	return s.reply.Ready()
}

// Close implements provider.Stream.
func (s *stream) Close() error { return s.reply.Close(s.done) }
