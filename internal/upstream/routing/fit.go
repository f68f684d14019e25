package routing

import (
	"math/bits"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// This file is the one place that knows whether a model can take a request. The router leaves a model out
// for what misfitsOf finds; a request that names such a model is refused by Refusal.

// misfits is a set of obstacles, one bit each: what a request has and a model cannot take.
type misfits uint16

// misfitsOf compares the properties of a request with those of a model. It does not look at the length of
// the prompt, which costs more to find out; see Window.
func misfitsOf(req *chat.Request, m *catalog.Model) (set misfits) {
	note := func(o obstacle, is bool) {
		if is {
			set |= 1 << o
		}
	}
	note(noChat, m.Embeds)
	note(noTools, req.OffersTools() && !m.ToolCalling)
	note(noImages, req.Images() > 0 && !m.Images)
	note(dataImages, m.NoImageURLs && provider.Remote(req) != "")
	note(foreign, m.Sandbox && req.Foreign().Path != "")
	note(noJSON, m.NoJSON && req.Format.Kind != chat.FormatText)
	note(oneReply, m.Sandbox && req.N > 1)
	return set
}

// has reports whether the obstacle is in the set.
func (s misfits) has(o obstacle) bool { return s&(1<<o) != 0 }

// first returns the obstacle of the set that the router reports, which is the first in the order of the
// constants; none for an empty set.
func (s misfits) first() obstacle {
	if s == 0 {
		return none
	}
	return obstacle(bits.TrailingZeros16(uint16(s)))
}

// Refusal returns the fault for a request that the model cannot take, or nil. It has those rules of a valid
// request that chat.Parse cannot check without a model (docs/api.md#chat-completion-request). A model without a JSON mode is
// not refused here. Only the router avoids it; a caller who names it gets what its upstream makes of
// response_format.
//
// The order of the cases is the order in which a request that breaks several rules learns about them. It is
// not the router's order.
func Refusal(req *chat.Request, m *catalog.Model) error {
	switch set := misfitsOf(req, m); {
	case set.has(noChat):
		return fault.New(fault.Invalid, "The model %q makes embeddings. Use it with POST /v1/embeddings, or name a chat model here.", m.ID).At("model")
	case set.has(noTools):
		return fault.New(fault.Invalid, "The model %q cannot call tools. Leave tools out, or use a model whose permission.tool_calling is true.", m.ID).At("tools")
	case set.has(oneReply):
		return fault.New(fault.Invalid, "The model %q gives one reply to a request; n must be 1.", m.ID).At("n")
	case set.has(noImages):
		return fault.New(fault.Invalid, "The model %q does not take images.", m.ID).At("messages")
	case set.has(foreign):
		f := fault.New(fault.Invalid, "The model %q does not know %s.", m.ID, req.Foreign().What).At(req.Foreign().Path)
		f.Details = req.Foreign().Details()
		return f
	}
	return provider.CheckAddresses(req, m) // dataImages, and addresses that no upstream may fetch
}

// Window returns the largest prompt, in tokens by our own count, that may be sent to the model. Our
// tokenizer is exact for the sandbox only. For other models the window is a fifth larger than their
// context, so that an error of our count refuses nobody; the upstream then decides.
func Window(m *catalog.Model) int {
	if m.Sandbox {
		return m.ContextLength
	}
	return m.ContextLength / 5 * 6
}
