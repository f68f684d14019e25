package inference

import (
	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/relay"
	"sluice/internal/tokens"
)

// check holds the request against a model: the rules of docs/api.md#chat-completion-request that chat.Parse cannot know.
func (s *size) check(m *catalog.Model) error {
	req := s.req
	switch {
	case len(req.Tools) > 0 && !m.ToolCalling:
		return fault.New(fault.Invalid, "The model %q cannot call tools. Leave tools out, or use a model whose permission.tool_calling is true.", m.ID).At("tools")
	case req.N > 1 && m.Sandbox:
		return fault.New(fault.Invalid, "The model %q gives one reply to a request; n must be 1.", m.ID).At("n")
	case req.Images() > 0 && !m.Images:
		return fault.New(fault.Invalid, "The model %q does not take images.", m.ID).At("messages")
	case req.Foreign().Path != "" && m.Sandbox:
		return fault.New(fault.Invalid, "The model %q does not know %s.", m.ID, req.Foreign().What).At(req.Foreign().Path)
	}
	if err := provider.CheckImages(req, m); err != nil {
		return err
	}
	if s.within(window(m)) == exceeds {
		return fault.New(fault.Invalid, "The prompt has %s and the model %q reads at most %d. Shorten it, or use a model with a larger context.", s.String(), m.ID, m.ContextLength).At("messages")
	}
	return nil
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
