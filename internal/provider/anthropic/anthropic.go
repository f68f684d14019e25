// Package anthropic speaks Anthropic's Messages API, which some other vendors understand, too.
//
// A request is written anew in that dialect: system messages leave the conversation, turns of one
// role are merged, and what models of a generation do not take is left out (see request.go). A reply
// comes back as typed events. Thinking that the vendor signed is kept with the tool calls of its turn
// and put back in its place when their results arrive.
package anthropic

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/pulse"
)

// BaseURL is where the vendor's own API begins.
const BaseURL = "https://api.anthropic.com"

// dialect names what is kept for a next turn.
const dialect = "anthropic"

// Options are the choices of New; the zero value is the default.
type Options struct {
	// APIKey is sent as x-api-key; empty: none is sent.
	APIKey string
	// Version is the version of the API. Default 2023-06-01.
	Version string
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
	messages *url.URL
	models   *url.URL
	header   http.Header // shared by all requests, never written to
}

// New returns an adapter for the upstream at baseURL, with or without the /v1 that all its paths begin
// with; empty: BaseURL.
func New(baseURL string, opts *Options) (*Adapter, error) {
	if opts == nil {
		opts = &Options{}
	}
	base := strings.TrimSuffix(strings.TrimSuffix(cmp.Or(baseURL, BaseURL), "/"), "/v1")
	messages, err := url.Parse(base + "/v1/messages")
	models, err2 := url.Parse(base + "/v1/models")
	if err != nil || err2 != nil {
		return nil, errors.New("the base URL cannot be read")
	}
	a := &Adapter{
		messages: messages, models: models,
		header: http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"User-Agent": {"sluice"}, "Anthropic-Version": {cmp.Or(opts.Version, "2023-06-01")},
		},
	}
	a.Client = provider.NewClient(&provider.ClientOptions{
		Secrets: []string{opts.APIKey}, Pulse: opts.Pulse, Silence: opts.Silence, Refused: refused, Transport: opts.Transport,
	})
	if opts.APIKey != "" {
		a.header["X-Api-Key"] = []string{opts.APIKey}
	}
	return a, nil
}

// Open sends the call.
func (a *Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	w := writer{call: call, req: call.Request}
	body, err := w.write(ctx)
	if err != nil {
		return nil, err
	}
	s := &stream{}
	s.Start(ctx, call, dialect, w.names, w.emulatesJSON())
	if err := a.Post(ctx, &s.reply, a.messages, a.header, body); err != nil {
		return nil, err
	}
	s.whole = !s.reply.IsStream()
	return s, nil
}

// Models lists the upstream's models.
func (a *Adapter) Models(ctx context.Context) ([]provider.Listed, error) {
	var listed []provider.Listed
	for after := ""; ; {
		page, err := a.page(ctx, after)
		if err != nil {
			return nil, err
		}
		for _, m := range page.Data {
			listed = append(listed, provider.Listed{
				ID: m.ID, Name: m.Name, ContextLength: m.MaxInput, MaxOutput: m.MaxTokens,
			})
		}
		if !page.More || page.Last == "" || page.Last == after {
			return listed, nil
		}
		after = page.Last
	}
}

type modelPage struct {
	Data []struct {
		ID        string `json:"id"`
		Name      string `json:"display_name"`
		MaxInput  int    `json:"max_input_tokens"`
		MaxTokens int    `json:"max_tokens"`
	} `json:"data"`
	More bool   `json:"has_more"`
	Last string `json:"last_id"`
}

// page asks for the models behind one of them.
func (a *Adapter) page(ctx context.Context, after string) (*modelPage, error) {
	query := url.Values{"limit": {"1000"}}
	if after != "" {
		query.Set("after_id", after)
	}
	u := *a.models
	u.RawQuery = query.Encode()
	var page modelPage
	if err := a.FetchJSON(ctx, &u, a.header, &page); err != nil {
		return nil, err
	}
	return &page, nil
}

// refused is an answer with an error status. One that speaks of an empty purse is a 400, and yet
// nothing that the caller could mend.
func refused(status int, header http.Header, body []byte) *fault.Fault {
	if status == http.StatusBadRequest && bytes.Contains(body, []byte("credit balance")) {
		status = http.StatusPaymentRequired
	}
	return provider.Refused(status, header, body)
}
