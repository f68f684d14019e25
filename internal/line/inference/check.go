package inference

import (
	"sluice/internal/kit/fault"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

// check returns the fault for a request that the model cannot take, or nil. Package routing has the rule;
// only the length of the prompt is known here. A prompt near the model's window passes until it has been
// counted: see Line.permit.
func (s *size) check(m *catalog.Model) error {
	if err := routing.Refusal(s.req, m); err != nil {
		return err
	}
	if s.within(routing.Window(m)) == exceeds {
		return fault.New(fault.Invalid, "The prompt has %s and the model %q reads at most %d. Shorten it, or use a model with a larger context.", s.String(), m.ID, m.ContextLength).At("messages")
	}
	return nil
}

// count returns the usage of a call whose upstream gave no figures. Bytes beyond what relay keeps count as a
// quarter of a token each.
func count(req *chat.Request, o *relay.Outcome) chat.Usage {
	text, reasoning, more := o.Produced()
	return chat.Usage{
		Prompt:     promptTokens(req),
		Completion: tokens.Count(text) + more/4,
		Reasoning:  tokens.Count(reasoning),
	}
}
