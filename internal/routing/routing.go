// Package routing decides which model answers a request.
//
// A model of its own answers for itself. For the router, whoever can serve the request under the
// caller's plan is a candidate; configured models come before the sandbox, which the router leaves
// alone once there is a real provider.
package routing

import (
	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/fault"
)

// Choose returns the model that answers: asked itself, or the router's choice.
func Choose(c *catalog.Catalog, asked *catalog.Model, plan account.Plan, req *chat.Request) (*catalog.Model, error) {
	if !asked.Router {
		return asked, nil
	}
	real := false
	for _, m := range c.Models() {
		real = real || !m.Router && !m.Sandbox
	}
	for _, m := range c.Models() {
		if m.Router || real && m.Sandbox || !plan.Includes(m.Plan) || !serves(m, req) {
			continue
		}
		return m, nil
	}
	return nil, fault.New(fault.Invalid, "No model that the router may choose can serve this request. It may be too long, or need tools that none of them has.").At("model")
}

// serves reports whether the model can take the request: tools, images, several replies and sizes.
func serves(m *catalog.Model, req *chat.Request) bool {
	if len(req.Tools) > 0 && !m.ToolCalling || req.Images() > 0 && !m.Images || req.N > 1 && m.Sandbox {
		return false
	}
	// A quarter of the bytes is about the tokens; the exact check follows for the model chosen.
	return req.MaxTokens <= m.MaxOutput && req.PromptBytes()/4 <= m.ContextLength
}
