package openai

import (
	"context"
	"errors"
	"net/http"
	"regexp"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// The two APIs of OpenAI, and the choice between them for each call (docs/providers/vendors.md#chat-completions-or-responses); see Options.API.
const (
	APIChat      = "chat"      // chat completions
	APIResponses = "responses" // Responses, which is newer
	APIAuto      = "auto"      // Responses where a model or a caller needs it
)

// firstWithResponses is the first version of Azure's API that has Responses. Versions are dates, some with a word behind.
const firstWithResponses = "2025-03-01"

// defaultAPI returns the API of an upstream for which none is configured. Only of OpenAI and Azure it is known that they
// have both.
func (p *Preset) defaultAPI(version string) string {
	if p.Kind == "openai" || p.Kind == "azure" && (version == "" || version >= firstWithResponses) {
		return APIAuto
	}
	return APIChat
}

// Open implements provider.Adapter. If the upstream says that the model is only served by the other API, the call is repeated
// there once, and the model remembered.
func (a *Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	newer := a.newer(call)
	s, err := a.openBy(ctx, call, newer)
	if err == nil || a.api != APIAuto {
		return s, err
	}
	way := wayOf(err, call, newer)
	if way == "" {
		return nil, err
	}
	if s, err = a.openBy(ctx, call, !newer); err == nil {
		a.ways.learn(a.models.Host, call.Upstream, way)
	}
	return s, err
}

// openBy sends a call by one of the two APIs.
func (a *Adapter) openBy(ctx context.Context, call *provider.Call, newer bool) (provider.Stream, error) {
	call.Dropped, call.Quoted = nil, false
	if newer {
		return a.openResponses(ctx, call)
	}
	return a.openChat(ctx, call)
}

// newer reports whether a call is sent by Responses.
func (a *Adapter) newer(call *provider.Call) bool {
	if a.api != APIAuto {
		return a.api == APIResponses
	}
	f := familyOf(call.Upstream)
	way := a.ways.of(a.models.Host, call.Upstream)
	switch {
	case way == WayChat, f.tools == neverNewer:
		return false
	case way == WayResponses, isNative(call):
		return true
	case len(call.Request.Tools) == 0, call.Request.N > 1: // Responses gives one reply
		return false
	}
	return way == WayTools || f.needsResponses(a.effort(call, &f))
}

// effort returns the effort that the upstream is going to be asked for; see provider.Call.Effort.
func (a *Adapter) effort(call *provider.Call, f *family) chat.Effort {
	if !call.Thinks {
		return ""
	}
	return call.Nearest(f.efforts)
}

// What upstreams say of a model that is served by the other API. The caller's own words, which some errors repeat, are in
// quotes, so that nobody can make an upstream say it.
var (
	// toolsByResponses is what OpenAI says of GPT-5.4 and its successors (github.com/pipecat-ai/pipecat/issues/4043).
	toolsByResponses = regexp.MustCompile(`(?i)^function tools with reasoning_effort are not supported\b`)
	// onlyByResponses is what OpenAI says of its pro and codex models, and Azure of all those (github.com/langchain-ai/langchain-azure/issues/228).
	onlyByResponses = regexp.MustCompile("(?i)^[^'\"`]*\\bonly (supported|available) (in|with|by|via) (the )?/?(v1/)?responses\\b|^[^'\"`]*\\buse (the )?/?v1/responses\\b|^the chatcompletion operation does not work with the specified model\\b")
	// onlyByChat is what both say of models that Responses does not serve, and Azure of its older versions.
	onlyByChat = regexp.MustCompile("(?i)^the responses operation does not work with the specified model\\b|^[^'\"`]*\\bresponses api is enabled only\\b|^the (requested )?model\\b.* is not supported (with|in|by) the responses api\\b")
)

// wayOf returns what an error tells about the API of a model; empty if it tells nothing, or if the other API could not take the
// call either.
func wayOf(err error, call *provider.Call, newer bool) Way {
	r, ok := errors.AsType[*provider.Refusal](err)
	if !ok || r.Status != http.StatusBadRequest && r.Status != http.StatusNotFound {
		return ""
	}
	message, tools := r.Message(), len(call.Request.Tools) > 0
	switch {
	case newer && onlyByChat.MatchString(message) && call.Translated() == nil:
		return WayChat
	case newer || call.Request.N > 1:
		return ""
	case tools && toolsByResponses.MatchString(message):
		return WayTools
	case onlyByResponses.MatchString(message):
		return WayResponses
	}
	return ""
}
