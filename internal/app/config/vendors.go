package config

import (
	"slices"
	"strings"
)

// vendors holds the kinds of providers and the base URLs of their APIs. An empty URL means
// that every customer has their own.
var vendors = []struct{ kind, address string }{
	{"openai", "https://api.openai.com/v1"},
	{"azure", ""},
	{"anthropic", "https://api.anthropic.com"},
	{"gemini", "https://generativelanguage.googleapis.com/v1beta"},
	{"openrouter", "https://openrouter.ai/api/v1"},
	{"groq", "https://api.groq.com/openai/v1"},
	{"mistral", "https://api.mistral.ai/v1"},
	{"deepseek", "https://api.deepseek.com/v1"},
	{"xai", "https://api.x.ai/v1"},
	{"together", "https://api.together.xyz/v1"},
	{"fireworks", "https://api.fireworks.ai/inference/v1"},
	{"cerebras", "https://api.cerebras.ai/v1"},
	{"perplexity", "https://api.perplexity.ai"},
	{"nvidia", "https://integrate.api.nvidia.com/v1"},
	{bedrock, ""},
	{"vllm", "http://127.0.0.1:8000/v1"},
	{"llamacpp", "http://127.0.0.1:8080/v1"},
	{"lmstudio", "http://127.0.0.1:1234/v1"},
	{"ollama", "http://127.0.0.1:11434/v1"},
}

const (
	bedrock = "bedrock"
	native  = "native" // the API of Bedrock that the vendors of its models have themselves
)

// Kinds returns the allowed kinds of providers.
func Kinds() []string {
	kinds := make([]string, len(vendors))
	for i := range vendors {
		kinds[i] = vendors[i].kind
	}
	return kinds
}

// Address returns the base URL of a kind, or "" if it has none.
func Address(kind string) string {
	if i := slices.Index(Kinds(), kind); i >= 0 {
		return vendors[i].address
	}
	return ""
}

// AtVendor reports whether the provider is the vendor itself, and not another server that speaks its API.
func (p *Provider) AtVendor() bool {
	if len(p.Replicas) > 0 {
		return false
	}
	if p.Kind == bedrock {
		host := strings.TrimPrefix(p.BaseURL, "https://")
		return strings.HasPrefix(host, "bedrock-") && (strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".api.aws"))
	}
	return p.BaseURL == "" || p.BaseURL == Address(p.Kind)
}

// isKind reports whether the kind exists.
func isKind(kind string) bool { return slices.Contains(Kinds(), kind) }

// checkVendor fills in the base URL of the provider's kind, and checks settings that only some
// kinds have.
func (r *record) checkVendor(path string, p *Provider) {
	r.checkOneOf(path+".kind", p.Kind, "kind of provider", providerKinds)
	r.checkBedrock(path, p)
	if r.checkReplicas(path, p); p.BaseURL == "" && len(p.Replicas) == 0 {
		p.BaseURL = Address(p.Kind)
	}
	if len(p.Replicas) > 0 {
		r.failIf(p.BaseURL != "", path+".base_url", "is not used with replicas; remove one of the two")
	} else if p.BaseURL == "" {
		r.failIf(isKind(p.Kind) && p.Kind != bedrock, path+".base_url", "is required for this kind: the address of your resource, such as https://mine.openai.azure.com")
	} else {
		r.checkBase(path+".base_url", p.BaseURL)
	}
	if p.API != "" {
		apis := []string{"chat", "responses"}
		switch p.Kind {
		case bedrock:
			apis = []string{native}
		case "openai", "azure":
			apis = append(apis, "auto")
		}
		r.checkOneOf(path+".api", p.API, "API", apis)
		r.failIf(p.Kind == "anthropic" || p.Kind == "gemini", path+".api", "the kind %s has an API of its own; leave it out", p.Kind)
	}
	r.failIf(p.APIVersion != "" && p.Kind != "azure", path+".api_version", "is only for the kind azure")
}

// checkBedrock checks the settings of Amazon Bedrock, which has a region and an AWS key
// instead of a URL and an API key. With the vendors' own APIs a key of Bedrock's takes the place of the AWS key.
func (r *record) checkBedrock(path string, p *Provider) {
	keyed := p.Kind == bedrock && p.API == native && (p.APIKey != "" || len(p.APIKeys) > 0)
	fields := []struct{ name, value string }{
		{"region", p.Region}, {"access_key_id", p.AccessKeyID}, {"secret_access_key", p.SecretAccessKey.Reveal()}, {"session_token", p.SessionToken.Reveal()},
	}
	for _, f := range fields {
		switch {
		case p.Kind != bedrock && f.value != "":
			r.fail(path+"."+f.name, "is only for the kind bedrock")
		case keyed && f.value != "" && f.name != "region":
			r.fail(path+"."+f.name, "is not used with an api_key; remove one of the two")
		case p.Kind == bedrock && f.value == "" && f.name != "session_token" && (!keyed || f.name == "region"):
			r.fail(path+"."+f.name, "is required for the kind bedrock")
		}
	}
	if p.Kind != bedrock {
		return
	}
	r.checkKey(path+".secret_access_key", p.SecretAccessKey)
	r.checkKey(path+".session_token", p.SessionToken)
	r.failIf(p.API != native && (p.APIKey != "" || len(p.APIKeys) > 0), path+".api_key", "is not for the kind bedrock without api: native; give access_key_id and secret_access_key")
	switch {
	case p.BaseURL != "" || p.Region == "":
	case p.API == native:
		p.BaseURL = "https://bedrock-mantle." + p.Region + ".api.aws"
	default:
		p.BaseURL = "https://bedrock-runtime." + p.Region + ".amazonaws.com"
	}
}
