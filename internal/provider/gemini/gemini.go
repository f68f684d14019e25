// Package gemini speaks the Gemini API: generateContent, and streamGenerateContent for streams.
//
// A request is translated once, into the types of request.go; a reply is read chunk by chunk into
// events. Gemini signs its thoughts, and wants the signatures back on the next turn: they are kept
// under the ids of the tool calls, and put back onto the parts they came with.
package gemini

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/provider"
	"sluice/internal/pulse"
)

// BaseURL is where the public API begins.
const BaseURL = "https://generativelanguage.googleapis.com/v1beta"

// Options are the choices of New; the zero value is the default.
type Options struct {
	// APIKey is sent in a header, never in a URL; empty: none is sent.
	APIKey string
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
	base   *url.URL
	header http.Header // shared by all requests, never written to
}

// New returns an adapter for the upstream whose API begins at baseURL; empty: BaseURL.
func New(baseURL string, opts *Options) (*Adapter, error) {
	if opts == nil {
		opts = &Options{}
	}
	u, err := url.Parse(strings.TrimSuffix(cmp.Or(baseURL, BaseURL), "/"))
	if err != nil {
		return nil, errors.New("the base URL cannot be read")
	}
	a := &Adapter{base: u, Client: provider.NewClient(&provider.ClientOptions{
		Secrets: []string{opts.APIKey}, Pulse: opts.Pulse, Silence: opts.Silence, Refused: refused, Transport: opts.Transport,
	})}
	a.header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "User-Agent": {"sluice"}}
	if opts.APIKey != "" {
		a.header["X-Goog-Api-Key"] = []string{opts.APIKey}
	}
	return a, nil
}

// Open sends the call.
func (a *Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	call.Dropped = nil
	req, err := translate(ctx, call)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // prompts are full of < and &, which need no escape
	if err := enc.Encode(req); err != nil {
		return nil, err
	}
	s := newStream(ctx, call)
	if err := a.Post(ctx, &s.reply, a.method(call), a.header, body.Bytes()); err != nil {
		return nil, err
	}
	s.whole = !s.reply.IsStream()
	return s, nil
}

// method is the URL of the call: models/NAME:METHOD below the base. An upstream name with a slash
// names its collection itself, as in tunedModels/mine.
func (a *Adapter) method(call *provider.Call) *url.URL {
	name := call.Upstream
	if !strings.Contains(name, "/") {
		name = "models/" + name
	}
	u := *a.base
	u.Path += "/" + name + ":generateContent"
	if call.Request.Stream {
		u.Path = a.base.Path + "/" + name + ":streamGenerateContent"
		u.RawQuery = "alt=sse"
	}
	return &u
}
