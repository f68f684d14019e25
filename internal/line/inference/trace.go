package inference

import (
	"slices"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
)

// describe adds what a call asks for to the span of its request. It adds the prompt only if the operator
// wants that.
func describe(span *telemetry.Span, call *Call, named *catalog.Model) {
	if span == nil {
		return
	}
	span.Text(telemetry.AttrModel, named.ID)
	req := call.Request
	if req == nil { // embeddings
		span.Flag(telemetry.AttrStream, false)
		return
	}
	span.Flag(telemetry.AttrStream, req.Stream)
	if req.MaxTokens > 0 {
		span.Int(telemetry.AttrMaxTokens, req.MaxTokens)
	}
	if req.N > 1 {
		span.Int(telemetry.AttrChoices, req.N)
	}
	if span.Content() {
		span.Text(telemetry.AttrInput, inputMessages(req))
	}
}

// failed marks a step as failed, and returns the error. The kind of a fault is one of a closed set, and its
// message may repeat the caller's text.
func failed(span *telemetry.Span, err error) error {
	if span != nil {
		span.Fail(fault.From(err).Kind.String())
	}
	return err
}

// tell adds what became of a settled call to the span of its request and to that of the attempt that
// answered, and ends the latter.
func (s *settling) tell(o *relay.Outcome, r usage.Settlement) { // a copy: a pointer would move every settlement to the heap
	spans := []*telemetry.Span{s.call.Span}
	if last := s.last; last.span != nil && last.begun {
		defer last.span.End()
		// With tools, the usage is that of all turns, so it is not the attempt's.
		if s.loop == nil {
			spans = append(spans, last.span)
		}
	}
	for _, span := range spans {
		span.Text(telemetry.AttrOutcome, string(r.End))
		span.Int(telemetry.AttrInputTokens, r.Tokens.Prompt)
		span.Int(telemetry.AttrOutputTokens, r.Tokens.CompletionTotal())
		if r.Tokens.Cached > 0 {
			span.Int(telemetry.AttrCachedTokens, r.Tokens.Cached)
		}
		if n := r.Tokens.CacheWritten(); n > 0 {
			span.Int(telemetry.AttrWrittenTokens, n)
		}
		if r.Tokens.Reasoning > 0 {
			span.Int(telemetry.AttrThoughtTokens, r.Tokens.Reasoning)
		}
		if r.Cost != nil {
			span.Float(telemetry.AttrCost, float64(*r.Cost)/1e9)
		}
		if o.Finish != "" {
			span.List(telemetry.AttrFinish, string(o.Finish))
		}
	}
	s.call.Span.Text(telemetry.AttrAnswered, r.ModelUsed)
	if s.call.Span.Content() {
		text, _, _ := o.Produced()
		s.call.Span.Text(telemetry.AttrOutput, messages(message{Role: "assistant", Parts: parts(text, telemetry.MaxContent), Finish: string(o.Finish)}))
	}
}

// message and part have the form in which the GenAI conventions write messages.
type message struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

type part struct {
	Type    string `json:"type"`
	Content string `json:"content"`
}

func parts(text string, most int) []part {
	return []part{{Type: "text", Content: excerpt.Of(text, most)}}
}

// inputMessages returns the texts of a prompt, the latest messages first in getting their share of
// MaxContent: they are what the reply is about.
func inputMessages(req *chat.Request) string {
	left := telemetry.MaxContent
	all := make([]message, 0, len(req.Messages))
	for i := len(req.Messages) - 1; i >= 0 && left > 0; i-- {
		m := &req.Messages[i]
		text := m.Content.Text()
		all = append(all, message{Role: roles[m.Role], Parts: parts(text, left)})
		left -= len(text)
	}
	slices.Reverse(all)
	return messages(all...)
}

var roles = map[chat.Role]string{chat.RoleSystem: "system", chat.RoleUser: "user", chat.RoleAssistant: "assistant", chat.RoleTool: "tool"}

// messages encodes messages.
func messages(all ...message) string {
	b, _ := jsonscan.Marshal(all) // strings alone cannot fail
	return string(b)
}
