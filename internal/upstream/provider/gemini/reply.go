package gemini

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// response is a reply, or one chunk of it: both have the same form. A chunk has the pieces that are new, not the
// reply so far.
type response struct {
	Candidates     []candidate `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"` // set if a filter stopped the prompt; there are no candidates then
	} `json:"promptFeedback"`
	UsageMetadata *usageMetadata  `json:"usageMetadata"`
	ModelVersion  string          `json:"modelVersion"` // the model that answers
	Error         json.RawMessage `json:"error"`
}

// candidate is one of n replies, or a piece of it.
type candidate struct {
	Index        int     `json:"index"`
	Content      content `json:"content"`
	FinishReason string  `json:"finishReason"`
	Grounding    struct {
		Queries []string `json:"webSearchQueries"`
	} `json:"groundingMetadata"`
}

// usageMetadata has the figures up to the chunk that it comes with, so the last one counts.
type usageMetadata struct {
	PromptTokenCount        int `json:"promptTokenCount"` // includes the cached ones
	CachedContentTokenCount int `json:"cachedContentTokenCount"`
	ToolUsePromptTokenCount int `json:"toolUsePromptTokenCount"` // not part of the prompt's
	CandidatesTokenCount    int `json:"candidatesTokenCount"`    // without thoughts
	ThoughtsTokenCount      int `json:"thoughtsTokenCount"`
	// The same counts by what they are of.
	PromptTokensDetails     modalities `json:"promptTokensDetails"` // includes the cached ones
	CacheTokensDetails      modalities `json:"cacheTokensDetails"`
	CandidatesTokensDetails modalities `json:"candidatesTokensDetails"`
	// ServiceTier is the tier in the Gemini API, and TrafficType that in Vertex AI.
	ServiceTier string `json:"serviceTier"`
	TrafficType string `json:"trafficType"`
}

// modalities are counts of tokens by what they are of.
type modalities []struct {
	Modality   string `json:"modality"` // such as TEXT or AUDIO
	TokenCount int    `json:"tokenCount"`
}

// of returns the tokens of a modality.
func (m modalities) of(name string) (n int) {
	for i := range m {
		if m[i].Modality == name {
			n += provider.ClampTokens(m[i].TokenCount)
		}
	}
	return n
}

// stream is a reply, in chunks or in one piece. One goroutine reads it.
//
// Every chunk is a whole response object. Texts and calls become events at once; finish reasons
// and figures wait for the end of the body.
type stream struct {
	provider.Decoded
	ctx     context.Context //nolint:containedctx // one call's, to keep signatures for the next turn
	call    *provider.Call
	choices []choice      // by index, as many as the caller asked for
	usage   *chat.Usage   // the latest figures; nil until some have come
	bill    provider.Bill // without its uses
}

// choice is the state of one of the n replies. Its finish reason is held back until the body has ended.
type choice struct {
	calls  int         // how many have come
	finish chat.Finish // empty until a finish reason has come
	text   string      // the signature of the text since the last call; empty if there is none

	searches int // queries of the web that the vendor has made for it
}

// newStream returns a stream without its reply, which Open fills in. It has a choice for each reply that was asked
// for.
func newStream(ctx context.Context, call *provider.Call) *stream {
	return &stream{ctx: ctx, call: call, choices: make([]choice, max(call.Request.N, 1))}
}

// Next implements provider.Stream.
func (s *stream) Next() (*provider.Event, error) { return s.Pull(s.read) }

// read reads the next piece of the reply into events. Finish reasons are held back until the end of the body: some
// models write one into every chunk.
func (s *stream) read() error {
	if s.Single {
		return s.Whole(func(raw []byte) error {
			if err := s.decode(raw); err != nil {
				return err
			}
			return s.finish(io.EOF)
		})
	}
	// There is no event that marks the end, so the end of the body is the only sign.
	ev, err := s.Reply.Event()
	if err != nil {
		return s.finish(err)
	}
	return s.decode(ev.Data)
}

// finish ends the reply at the end of the body, or at an error of it. If every choice has its finish reason, the
// reply is complete, even if the body ended with an error; otherwise it broke off.
func (s *stream) finish(err error) error {
	for i := range s.choices {
		if s.choices[i].finish == "" {
			// A body that ends normally, but without a finish reason, was cut by a proxy or by the vendor.
			if errors.Is(err, io.EOF) {
				return provider.Cut(io.ErrUnexpectedEOF)
			}
			return err
		}
	}
	s.End()
	// All finish reasons come before the figures, which are those of all choices together.
	for i := range s.choices {
		c := &s.choices[i]
		if c.finish == chat.FinishStop && c.calls > 0 { // Gemini has no finish reason of its own for calls
			c.finish = chat.FinishToolCalls
		}
		s.Push(provider.Event{Kind: provider.Finish, Choice: i, Finish: c.finish})
	}
	if s.usage != nil {
		s.Push(provider.Event{Kind: provider.Usage, Usage: *s.usage})
	}
	return nil
}

// Figures implements provider.Metered: what a reply that broke off has cost so far, if the upstream has said so.
func (s *stream) Figures() (chat.Usage, bool) {
	if s.usage == nil {
		return chat.Usage{}, false
	}
	return *s.usage, true
}

// Bill implements provider.Billed. Gemini charges for each query of a search, not for the call.
func (s *stream) Bill() provider.Bill {
	b := s.bill
	for i := range s.choices {
		b.Calls += s.choices[i].searches
	}
	if b.Calls > 0 {
		b.Uses = []price.Use{{Name: "web_search", Milli: int64(b.Calls) * 1000}}
	}
	return b
}

// decode reads a chunk, or an array of several, into events. Google answers with an array if a proxy has lost the
// alt=sse of the URL.
func (s *stream) decode(raw []byte) error {
	if bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("[")) {
		var several []json.RawMessage
		if err := json.Unmarshal(raw, &several); err != nil {
			return provider.Garbled(err)
		}
		for _, one := range several {
			if err := s.decode(one); err != nil {
				return err
			}
		}
		return nil
	}
	var w response
	if err := json.Unmarshal(raw, &w); err != nil {
		return provider.Garbled(err)
	}
	// An error may come in the middle of a stream, under status 200.
	if len(w.Error) > 0 && string(w.Error) != "null" {
		return failed(s.Reply.Conceal(raw))
	}
	if w.UsageMetadata != nil {
		s.usage = w.UsageMetadata.figures()
		s.bill.Tier = w.UsageMetadata.tier()
	}
	if w.ModelVersion != "" {
		s.bill.Model = provider.Served(s.call.Upstream, w.ModelVersion)
	}
	// A prompt that a filter stopped has no candidates and so no finish reason. It is a complete reply nevertheless.
	if w.PromptFeedback.BlockReason != "" && len(w.Candidates) == 0 {
		for i := range s.choices {
			s.choices[i].finish = chat.FinishContentFilter
		}
	}
	for i := range w.Candidates {
		if err := s.candidate(&w.Candidates[i]); err != nil {
			return err
		}
	}
	return nil
}

// candidate reads a piece of one of the replies. It returns a fault for a finish reason that says that the reply
// broke off.
// Parts are read before the reason, since the last chunk has both.
func (s *stream) candidate(w *candidate) error {
	if w.Index < 0 || w.Index >= len(s.choices) {
		return nil // more than the caller asked for
	}
	// Reasons that are not listed below, such as MALFORMED_FUNCTION_CALL, say that there is no usable reply.
	c := &s.choices[w.Index]
	if n := len(w.Grounding.Queries); n > 0 { // all of them, in the last chunk
		c.searches = n
	}
	for i := range w.Content.Parts {
		s.part(w.Index, c, &w.Content.Parts[i])
	}
	switch w.FinishReason {
	case "", "FINISH_REASON_UNSPECIFIED":
	case "STOP":
		c.finish = chat.FinishStop
	case "MAX_TOKENS":
		c.finish = chat.FinishLength
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		c.finish = chat.FinishContentFilter
	default:
		return brokeOff(w.FinishReason)
	}
	return nil
}

// part reads a part of the reply with the index. The signature of a text is kept with the call that follows it.
// The signature of a text that no call follows is not kept.
func (s *stream) part(index int, c *choice, w *part) {
	switch {
	case w.FunctionCall != nil:
		s.functionCall(index, c, w)
	// Thoughts are summaries; the caller gets them as reasoning_content.
	case w.Thought:
		s.PushText(provider.Reasoning, index, w.Text)
	default:
		if w.ThoughtSignature != "" {
			c.text = w.ThoughtSignature
		}
		s.PushText(provider.Text, index, w.Text)
	}
}

// maxCalls is how many calls one choice may have before the ids that we make would repeat those of the next.
const maxCalls = 1024

// functionCall reads a call, which always comes in one piece, and keeps its signatures. A call without an id gets
// one of ours, which is unique among the calls of the reply.
func (s *stream) functionCall(index int, c *choice, w *part) {
	if one := s.call.Request.ParallelToolCalls; c.calls > 0 && one != nil && !*one {
		return // Gemini cannot be told to make one call at a time; it makes the others again in the next turn
	}
	piece := provider.ToolPiece{Index: c.calls, ID: w.FunctionCall.ID, Name: w.FunctionCall.Name, Arguments: provider.ArgumentsText(w.FunctionCall.Args)}
	if piece.ID == "" {
		piece.ID = provider.CallID(s.call.ID, index*maxCalls+c.calls)
	}
	// The signature of the text before the call is kept with the call: a text has no id to keep it under.
	if w.ThoughtSignature != "" || c.text != "" {
		keep(s.ctx, s.call.Memory, piece.ID, signatures{Call: w.ThoughtSignature, Text: c.text})
		c.text = ""
	}
	c.calls++
	s.Push(provider.Event{Kind: provider.ToolCall, Choice: index, Tool: piece})
}

// figures translates the usage. It returns nil if there are no figures, so that the service counts the tokens
// itself (docs/api.md#chat-completion-response).
func (w *usageMetadata) figures() *chat.Usage {
	if w.PromptTokenCount <= 0 && w.CandidatesTokenCount <= 0 && w.ThoughtsTokenCount <= 0 {
		return nil
	}
	u := provider.Disjoint(w.PromptTokenCount, w.CachedContentTokenCount, w.CandidatesTokenCount, 0)
	in, cached, out := w.PromptTokensDetails, w.CacheTokensDetails, w.CandidatesTokensDetails
	u = provider.Split(u, chat.Usage{
		AudioIn: in.of("AUDIO") - cached.of("AUDIO"), ImageIn: in.of("IMAGE") - cached.of("IMAGE"),
		AudioOut: out.of("AUDIO"), ImageOut: out.of("IMAGE"),
	})
	u.Prompt += provider.ClampTokens(w.ToolUsePromptTokenCount)
	u.Reasoning = provider.ClampTokens(w.ThoughtsTokenCount)
	return &u
}

// tier returns the service tier in the words of the Gemini API.
func (w *usageMetadata) tier() string {
	name := strings.ToLower(cmp.Or(w.ServiceTier, w.TrafficType))
	if strings.HasSuffix(name, "unspecified") {
		return ""
	}
	return strings.TrimPrefix(name, "on_demand_") // as in ON_DEMAND_FLEX
}
