package config

import "reflect"

// vendorKeys holds the environment variables in which the vendors' own tools look for a key,
// by kind of provider.
var vendorKeys = []struct{ kind, variable string }{
	{"openai", "OPENAI_API_KEY"},
	{"anthropic", "ANTHROPIC_API_KEY"},
	{"gemini", "GEMINI_API_KEY"},
	{"openrouter", "OPENROUTER_API_KEY"},
	{"groq", "GROQ_API_KEY"},
	{"mistral", "MISTRAL_API_KEY"},
	{"deepseek", "DEEPSEEK_API_KEY"},
	{"xai", "XAI_API_KEY"},
	{"together", "TOGETHER_API_KEY"},
	{"fireworks", "FIREWORKS_API_KEY"},
	{"cerebras", "CEREBRAS_API_KEY"},
	{"perplexity", "PERPLEXITY_API_KEY"},
}

// Found is a provider that is not configured but whose key is in the environment.
type Found struct {
	Provider
	// Variable is the environment variable with the key.
	Variable string
}

// Found returns the vendors whose keys are in the environment and that are not configured.
func (c *Config) Found() []*Found { return c.found }

// findKeys looks for vendors' keys in the environment.
func (c *Config) findKeys(env map[string]string) {
	if !c.Discover {
		return
	}
	configured := map[string]bool{}
	for i := range c.Providers {
		configured[c.Providers[i].Kind], configured[c.Providers[i].Name] = true, true
	}
	for _, v := range vendorKeys {
		if env[v.variable] != "" && !configured[v.kind] {
			c.found = append(c.found, &Found{Unconfigured(v.kind, "", Secret(env[v.variable])), v.variable})
		}
	}
}

// Unconfigured returns a provider with the given kind, URL and key, and defaults for
// everything else.
func Unconfigured(kind, baseURL string, key Secret) Provider {
	p := Provider{}
	setDefaults(reflect.ValueOf(&p).Elem())
	p.Name, p.Kind, p.BaseURL, p.APIKey = kind, kind, baseURL, key
	return p
}
