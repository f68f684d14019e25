// Package gemini speaks the Gemini API: generateContent, and streamGenerateContent for streams.
//
// A request is translated into the types of request.go and generation.go; a reply is read chunk by chunk into
// events. Gemini signs its thoughts and wants the signatures back on the next turn. They are kept under the ids of
// the tool calls, and put back onto the parts they came with.
//
// How the words of our API translate:
//
//	system message         systemInstruction; behind others a part of the user's turn
//	assistant              the role model
//	tool result            functionResponse part in a turn of the user
//	tool_calls             functionCall parts, each in one piece
//	reasoning_content      parts that are marked as thought
//	image_url              inlineData, or fileData for an address
//	tools                  functionDeclarations, with a reduced schema (see schema.go)
//	response_format        responseMimeType and responseJsonSchema
//	reasoning_effort       thinkingBudget or thinkingLevel, by the generation of the model
//	n                      candidateCount
//	finish_reason          finishReason, held back until the end of the body
package gemini

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/kit/pulse"
	"sluice/internal/upstream/provider"
)

// BaseURL is the address of the public API, version included.
const BaseURL = "https://generativelanguage.googleapis.com/v1beta"

// Options are the choices of New; the zero value is the default.
type Options struct {
	// APIKey is sent in a header. Google also takes it in the URL, where it would end up in logs. If it is
	// empty, none is sent.
	APIKey string
	// Pulse ends replies that are silent for too long. If it is nil, a reply may be silent forever.
	Pulse *pulse.Pulse
	// Silence is how long a reply may pause once it has begun. Default two minutes.
	Silence time.Duration
	// Transport replaces the adapter's own connection pool: a shared pool, or a test's.
	Transport http.RoundTripper
}

// Adapter calls one upstream. It implements provider.Adapter. Its methods may be called from several goroutines.
type Adapter struct {
	*provider.Client
	base   *url.URL    // without a slash at its end; never written to after New
	header http.Header // shared by all requests; never written to after New
}

// New returns an adapter for the upstream whose API begins at baseURL. If baseURL is empty, it is BaseURL. opts
// may be nil.
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

// Reach implements provider.Reacher.
func (a *Adapter) Reach(ctx context.Context) error { return a.Connect(ctx, a.base) }

// Open implements provider.Adapter. Whether the reply is streamed is a matter of the URL, not of the body.
func (a *Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	// A call may be opened more than once. Only what this attempt drops counts.
	call.Dropped = nil
	req, err := translate(ctx, call)
	if err != nil {
		return nil, err
	}
	body, err := jsonscan.Marshal(req)
	if err != nil {
		return nil, err
	}
	// The stream exists before the call, since Post fills in its reply.
	s := newStream(ctx, call)
	if err := a.PostFor(ctx, &s.Decoded, a.method(call), call.Header(a.header), body); err != nil {
		return nil, err
	}
	return s, nil
}

// method returns the URL of the call: models/NAME:METHOD below the base. An upstream name with a slash names its
// collection itself, as in tunedModels/mine.
func (a *Adapter) method(call *provider.Call) *url.URL {
	name := call.Upstream
	if !strings.Contains(name, "/") {
		name = "models/" + name
	}
	// A copy: base is shared by all calls.
	u := *a.base
	u.Path += "/" + name + ":generateContent"
	if call.Request.Stream {
		u.Path = a.base.Path + "/" + name + ":streamGenerateContent"
		u.RawQuery = "alt=sse"
	}
	return &u
}
