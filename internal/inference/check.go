package inference

import (
	"strings"

	"sluice/internal/admission"
	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/relay"
	"sluice/internal/tokens"
)

// check holds the request against the model it names: the rules of spec: Errors, 400, that chat.Parse
// cannot know.
func check(req *chat.Request, m *catalog.Model) error {
	switch {
	case len(req.Tools) > 0 && !m.ToolCalling:
		return fault.New(fault.Invalid, "The model %q cannot call tools. Leave tools out, or use a model whose permission.tool_calling is true.", m.ID).At("tools")
	case req.N > 1 && m.Sandbox:
		return fault.New(fault.Invalid, "The model %q gives one reply to a request; n must be 1.", m.ID).At("n")
	case req.Images() > 0 && !m.Images:
		return fault.New(fault.Invalid, "The model %q does not take images.", m.ID).At("messages")
	case req.MaxTokens > m.MaxOutput:
		name := "max_tokens"
		if req.Member(name) == nil {
			name = "max_completion_tokens"
		}
		return fault.New(fault.Invalid, "%s is %d and the model %q writes at most %d.", name, req.MaxTokens, m.ID, m.MaxOutput).At(name)
	}
	if err := provider.CheckImages(req, m); err != nil {
		return err
	}
	return checkWindow(req, m)
}

// checkWindow refuses a prompt that cannot fit. Bytes bound tokens from above, so the tokenizer is
// asked only where they do not decide. Where it is not the model's own there is room for its error,
// and beyond that the upstream decides.
func checkWindow(req *chat.Request, m *catalog.Model) error {
	most := m.ContextLength
	if !m.Sandbox {
		most = m.ContextLength / 5 * 6
	}
	if req.TokenBound() <= most {
		return nil
	}
	if n := promptTokens(req); n > most {
		return fault.New(fault.Invalid, "The prompt has about %d tokens and the model %q reads at most %d. Shorten it, or use a model with a larger context.", n, m.ID, m.ContextLength).At("messages")
	}
	return nil
}

// What a prompt holds beside its texts, roughly: the figures of OpenAI's chat format.
const (
	perMessage = 4
	perImage   = 1024
)

// promptTokens counts what the request makes the model read.
func promptTokens(req *chat.Request) int {
	n := 3 + perImage*req.Images()
	for i := range req.Messages {
		m := &req.Messages[i]
		n += perMessage + tokens.Count(m.Content.Text())
		for _, c := range m.ToolCalls {
			n += tokens.Count(c.Name) + tokens.Count(c.Arguments)
		}
	}
	for i := range req.Tools {
		n += tokens.Count(string(req.Tools[i].Raw()))
	}
	return n
}

// estimate is about how many tokens the prompt has: four bytes make one, more or less.
func estimate(req *chat.Request) int {
	return req.PromptBytes()/4 + perMessage*len(req.Messages) + perImage*req.Images()
}

// isLong reports whether the prompt counts twice. Bytes decide wherever they can.
func isLong(req *chat.Request) bool {
	return req.TokenBound() > admission.LongPrompt && promptTokens(req) > admission.LongPrompt
}

// count is the usage of a call whose upstream gave no figures.
func count(req *chat.Request, o *relay.Outcome) chat.Usage {
	text, reasoning, more := o.Produced()
	return chat.Usage{
		Prompt:     promptTokens(req),
		Completion: tokens.Count(text) + more/4,
		Reasoning:  tokens.Count(reasoning),
	}
}

// clip bounds what we repeat of a caller's text.
func clip(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}
