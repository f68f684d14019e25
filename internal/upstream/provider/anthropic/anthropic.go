// Package anthropic speaks Anthropic's Messages API, which some other vendors offer too.
//
// A request is translated into the types of request.go and messages.go; a reply, streamed or whole, is read into
// events. The rules of both directions are those of Claude, whichever API it is called through, and are in
// package claude. Here are the wire types, the HTTP side, and what only this API does.
//
// How the words of our API translate:
//
//	system message         system, a list of text blocks
//	tool result            tool_result block in a turn of the user
//	tool_calls             tool_use blocks, with the arguments as an object
//	reasoning_content      thinking blocks; redacted ones are kept and not shown
//	image_url              image block, base64 or an address
//	response_format        output_config.format for strict schemas, else emulated
//	reasoning_effort       thinking, and output_config.effort for newer models
//	user                   metadata.user_id
//	finish_reason          stop_reason of the message_delta event
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

	"sluice/internal/kit/fault"
	"sluice/internal/kit/pulse"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
)

// BaseURL is the address of the vendor's own API.
const BaseURL = "https://api.anthropic.com"

// dialect marks the thinking that is kept for a next turn: Bedrock's has another form.
const dialect = "anthropic"

// Options are the choices of New; the zero value is the default.
type Options struct {
	// APIKey is sent in the header x-api-key. If it is empty, none is sent.
	APIKey string
	// Signer signs requests, for vendors that want more than a key. May be nil.
	Signer *provider.Signer
	// Signs names the account that Signer signs for, where there is no APIKey.
	Signs string
	// Version is the version of the API, sent with each request. Default 2023-06-01.
	Version string
	// FirstParty says that the API at another address than BaseURL is Anthropic's, too: behind a proxy, for example.
	FirstParty bool
	// Pulse ends replies that are silent for too long. If it is nil, a reply may be silent forever.
	Pulse *pulse.Pulse
	// Silence is how long a reply may pause once it has begun. Default two minutes.
	Silence time.Duration
	// Transport replaces the adapter's own connection pool, for tests.
	Transport http.RoundTripper
}

// Adapter calls one upstream. It implements provider.Adapter.
type Adapter struct {
	*provider.Client
	messages *url.URL
	models   *url.URL
	header   http.Header // shared by all requests; never written to after New
	key      string      // stands for the API key; see claude.KeyName
	first    bool        // it is Anthropic's own API, which holds threads; others only speak its dialect
}

// New returns an adapter for the upstream at baseURL. All paths begin with /v1, which baseURL may have or not. If
// baseURL is empty, it is BaseURL. opts may be nil.
func New(baseURL string, opts *Options) (*Adapter, error) {
	if opts == nil {
		opts = &Options{}
	}
	// Operators copy the address with or without /v1 from their vendor's page; both must work.
	base := strings.TrimSuffix(strings.TrimSuffix(cmp.Or(baseURL, BaseURL), "/"), "/v1")
	messages, err := url.Parse(base + "/v1/messages")
	models, err2 := url.Parse(base + "/v1/models")
	if err != nil || err2 != nil {
		return nil, errors.New("the base URL cannot be read")
	}
	a := &Adapter{
		messages: messages, models: models, key: claude.KeyName(cmp.Or(opts.APIKey, opts.Signs)), first: opts.FirstParty || isFirstParty(messages.Hostname()),
		header: http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"User-Agent": {"sluice"}, "Anthropic-Version": {cmp.Or(opts.Version, "2023-06-01")},
		},
	}
	a.Client = provider.NewClient(&provider.ClientOptions{
		Secrets: []string{opts.APIKey}, Signer: opts.Signer, Pulse: opts.Pulse, Silence: opts.Silence, Refused: refused, Transport: opts.Transport,
	})
	if opts.APIKey != "" { // a proxy may add the key itself
		a.header["X-Api-Key"] = []string{opts.APIKey}
	}
	return a, nil
}

// isFirstParty reports whether a host is Anthropic's, or a platform on which Anthropic runs its API itself: Amazon's and
// Microsoft's. Bedrock is not: Amazon runs that.
func isFirstParty(host string) bool {
	return host == "api.anthropic.com" || strings.HasSuffix(host, ".services.ai.azure.com") ||
		strings.HasPrefix(host, "aws-external-anthropic.") && strings.HasSuffix(host, ".api.aws")
}

// Reach implements provider.Reacher.
func (a *Adapter) Reach(ctx context.Context) error { return a.Connect(ctx, a.messages) }

// Open implements provider.Adapter.
func (a *Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	if s, err := a.openOriginal(ctx, call); s != nil || err != nil {
		return s, err
	}
	s, err := a.translate(ctx, call, false)
	if claude.RefusesThinking(err) {
		// The vendor would refuse the same again, whoever asks. The conversation goes on without it.
		if s, err = a.translate(ctx, call, true); err == nil {
			call.Omit("thinking")
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// translate sends the call in the words of this API. If bare is set, it is sent without the thinking of earlier turns.
func (a *Adapter) translate(ctx context.Context, call *provider.Call, bare bool) (*stream, error) {
	w := writer{call: call, req: call.Request, key: a.key, bare: bare}
	body, err := w.write(ctx)
	if err != nil {
		return nil, err
	}
	header := call.Header(a.header)
	if w.bound {
		header = header.Clone()
		header["Anthropic-Beta"] = []string{claude.BindingFeature}
	}
	s := &stream{called: a.served(call)}
	s.Start(ctx, call, dialect, w.names, w.emulatesJSON())
	s.Follow(w.conversation.Place())
	if err := a.PostFor(ctx, &s.Decoded, a.messages, header, body); err != nil {
		if w.conversation.Thoughts() > 0 {
			err = claude.WithThinking(err)
		}
		return nil, err
	}
	return s, nil
}

// BindsToKey implements provider.KeyBound.
func (a *Adapter) BindsToKey(upstream string) bool { return claude.BindsToKey(upstream) }

// Keeps implements provider.Marker.
func (a *Adapter) Keeps(upstream string) (least int, hour bool) { return claude.Keeps(upstream) }

// Models returns the upstream's models, of all pages of its list.
func (a *Adapter) Models(ctx context.Context) ([]provider.Listed, error) {
	var listed []provider.Listed
	u := *a.models
	for query := (url.Values{"limit": {"1000"}}); ; {
		u.RawQuery = query.Encode()
		var page modelPage
		if err := a.FetchJSON(ctx, &u, a.header, &page); err != nil {
			return nil, err
		}
		for _, m := range page.Data {
			listed = append(listed, provider.Listed{
				ID: m.ID, Name: m.Name, ContextLength: m.MaxInput, MaxOutput: m.MaxTokens,
			})
		}
		if !page.More || page.Last == "" || page.Last == query.Get("after_id") { // the last: an upstream that repeats a page
			return listed, nil
		}
		query.Set("after_id", page.Last)
	}
}

// modelPage is one page of the list of models.
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

// refused returns the fault of a reply with an error status. The vendor answers 400 when our credit is used up,
// which is not the caller's fault and must not be told to the caller as such.
func refused(status int, header http.Header, body []byte) *fault.Fault {
	if status == http.StatusBadRequest && bytes.Contains(body, []byte("credit balance")) {
		status = http.StatusPaymentRequired
	}
	return provider.Refused(status, header, body)
}
