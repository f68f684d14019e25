package catalog

import "sluice/internal/account"

// SandboxProvider is the name of the provider that serves the built-in models.
const SandboxProvider = "sandbox"

// Router is the model that picks another one for each request (docs/api.md#router). New replaces
// what it can do by what the models behind it can do; the figures here hold while there are none.
func Router(brand string) Model {
	return Model{
		ID: brand + "/auto", OwnedBy: brand,
		Description: "Picks a model for each request by what the request needs and what is available.",
		Plan:        account.Basic, RequestMilli: 1000, UnitMilli: 1000,
		ContextLength: 400_000, MaxOutput: 65_536, ToolCalling: true, Thinks: true, Images: true, Router: true, Origin: BuiltIn,
	}
}

// standBehind makes the router as capable as the models that it picks from: the built-in ones only where
// customers have no others. Its context stays.
func (m *Model) standBehind(models []Model) {
	real := false
	for i := range models {
		c := &models[i]
		real = real || !c.Router && !c.Sandbox && !c.StaffOnly
	}
	first := true
	for i := range models {
		c := &models[i]
		if c.Router || c.Vanished || real && c.Sandbox {
			continue
		}
		if first {
			m.MaxOutput, m.ToolCalling, m.Thinks, m.Images, first = 0, false, false, false, false
		}
		m.MaxOutput = max(m.MaxOutput, c.MaxOutput)
		m.ToolCalling = m.ToolCalling || c.ToolCalling
		m.Thinks = m.Thinks || c.Thinks
		m.Images = m.Images || c.Images
	}
}

// Sandbox is the built-in models: deterministic programs, not language models, that make the whole
// API work offline.
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
	}
	for i := range models {
		m := &models[i]
		m.OwnedBy, m.Provider, m.Sandbox, m.Origin = SandboxProvider, SandboxProvider, true, BuiltIn
		if m.RequestMilli == 0 {
			m.RequestMilli = 1000
		}
		m.UnitMilli = m.RequestMilli
	}
	return models
}
