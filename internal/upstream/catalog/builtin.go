package catalog

import "sluice/internal/account"

// SandboxProvider is the name of the provider that serves the built-in models.
const SandboxProvider = "sandbox"

// Router is the model that picks another one for each request (docs/api.md#router). New
// replaces the capabilities given here by those of the models behind it. They apply only while
// there are none.
func Router(brand string) Model {
	return Model{
		ID: brand + "/auto", OwnedBy: brand,
		Description: "Picks a model for each request by what the request needs and what is available.",
		Plan:        account.Basic, RequestMilli: 1000, UnitMilli: 1000,
		ContextLength: 400_000, ToolCalling: true, Thinks: true, Images: true, Router: true, Origin: BuiltIn,
	}
}

// standBehind gives the router the combined capabilities of the models that it chooses from.
// Sandbox models count only if there is no other model that customers may call. The context length is not
// changed.
func (m *Model) standBehind(models []Model) {
	// real reports whether customers have a model that is not a sandbox model.
	real := false
	for i := range models {
		c := &models[i]
		real = real || !c.Router && !c.Sandbox && !c.StaffOnly && !c.Embeds
	}
	first := true
	for i := range models {
		c := &models[i]
		if c.Router || c.Vanished || c.Embeds || real && c.Sandbox {
			continue
		}
		// Clear the defaults only once there is a model to take their place.
		if first {
			m.MaxOutput, m.ToolCalling, m.Thinks, m.Images, first = 0, false, false, false, false
		}
		m.MaxOutput = max(m.MaxOutput, c.MaxOutput)
		m.ToolCalling = m.ToolCalling || c.ToolCalling
		m.Thinks = m.Thinks || c.Thinks
		m.Images = m.Images || c.Images
	}
}

// Sandbox returns the built-in models. They are deterministic programs, not language models, and
// make the whole API work offline.
func Sandbox() []Model {
	models := []Model{
		{
			ID: "sandbox/small", Plan: account.Free, ContextLength: 131_072, MaxOutput: 16_384, ToolCalling: true, Upstream: "small",
			Description: "Sandbox: short deterministic answers, tools and JSON, offline. Not a language model.",
		},
		{
			ID: "sandbox/tiny", Plan: account.Free, ContextLength: 131_072, MaxOutput: 4_096, Upstream: "tiny",
			Description: "Sandbox: the shortest deterministic answers, without tools. Not a language model.",
		},
		{
			ID: "sandbox/large", Plan: account.Basic, ContextLength: 400_000, MaxOutput: 65_536, ToolCalling: true, Upstream: "large",
			Description: "Sandbox: fuller deterministic answers with a long context. Not a language model.",
		},
		{
			ID: "sandbox/heavy", Plan: account.Basic, RequestMilli: 2000, ContextLength: 200_000, MaxOutput: 32_768, ToolCalling: true, Upstream: "large",
			Description: "Sandbox: like sandbox/large, but each call counts as two requests. Not a language model.",
		},
		{
			ID: "sandbox/reasoner", Plan: account.Premium, ContextLength: 200_000, MaxOutput: 65_536, ToolCalling: true, Thinks: true, Upstream: "reasoner",
			Description: "Sandbox: shows its steps as reasoning before it answers. Not a language model.",
		},
		{
			ID: "sandbox/embed", Plan: account.Free, ContextLength: 131_072, Embeds: true, Upstream: "embed",
			Description: "Sandbox: embeddings whose cosine follows the words that texts share, up to 512 dimensions. Knows nothing about meaning.",
		},
	}
	for i := range models {
		m := &models[i]
		m.OwnedBy, m.Provider, m.Sandbox, m.Origin = SandboxProvider, SandboxProvider, true, BuiltIn
		if m.RequestMilli == 0 {
			m.RequestMilli = 1000
		}
		// For built-in models the abuse score counts a call with the same weight as the limits do.
		m.UnitMilli = m.RequestMilli
	}
	return models
}
