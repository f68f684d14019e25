package openai

import (
	"slices"
	"strings"

	"sluice/internal/chat"
)

// Preset is what is known of one vendor that speaks this dialect: where it is, and in what it differs.
// The zero Preset differs in nothing.
type Preset struct {
	// Kind is its name.
	Kind string
	// BaseURL is where its API begins, the version included; empty: everybody has their own.
	BaseURL string
	// keyHeader takes the key in place of a bearer token.
	keyHeader string
	// deployments: paths are Azure's.
	deployments bool

	// refused are fields that it answers with an error, and that do not change the answer.
	refused []string
	// refusedThinking are those that it refuses from models that think, while they do.
	refusedThinking []string
	// hottest is its highest temperature; 0: that of everybody, 2.
	hottest float64
	// limit is the one name by which it knows the bound of a reply; empty: it knows both.
	limit string
	// seed is its name of that field; empty: seed.
	seed string
	// efforts are the values of reasoning_effort that it does not have, and what is nearest.
	efforts map[chat.Effort]chat.Effort
	// off is a field that turns thinking off, where no effort does.
	off *chat.Setting
	// developer: it knows the role.
	developer bool
	// figured: it gives its figures without being asked, and does not know stream_options.
	figured bool
	// single: n must be 1.
	single bool
	// plain: of what Request.Foreign tells of it knows nothing.
	plain bool
	// nameless: messages may not have names.
	nameless bool
	// shortIDs: ids of calls have nine letters and digits.
	shortIDs bool
	// unforced: tool_choice is not known.
	unforced bool
	// schematic: JSON is only to be had with a schema.
	schematic bool
	// returns is the member of a message with calls in which it wants its thoughts back.
	returns string
}

const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
)

// least is for vendors whose efforts begin with low.
var least = map[chat.Effort]chat.Effort{chat.EffortMinimal: chat.EffortLow}

// sampling are fields that OpenAI's models refuse while they reason, wherever they are served
// (learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning).
var sampling = []string{"temperature", "top_p", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias"}

var presets = []Preset{
	// platform.openai.com/docs/api-reference/chat: max_tokens is deprecated, and refused by models
	// that reason; these also know the role developer.
	{Kind: "openai", BaseURL: "https://api.openai.com/v1", limit: maxCompletionTokens, developer: true, refusedThinking: sampling},
	// learn.microsoft.com/azure/ai-foundry/openai/reference: deployments in the path and an
	// api-version, or the newer /openai/v1; the key in a header of its own.
	{Kind: "azure", keyHeader: "Api-Key", deployments: true, refusedThinking: sampling},
	// openrouter.ai/docs/use-cases/reasoning-tokens: thoughts come as reasoning, and, for the next
	// turn, as reasoning_details.
	{Kind: "openrouter", BaseURL: "https://openrouter.ai/api/v1", returns: "reasoning_details"},
	// console.groq.com/docs/openai: these fields, and names of messages, are a 400; n must be 1.
	// Figures also come inside of x_groq.
	{
		Kind: "groq", plain: true, BaseURL: "https://api.groq.com/openai/v1", limit: maxCompletionTokens, efforts: least, single: true, nameless: true,
		refused: []string{"logprobs", "top_logprobs", "logit_bias"},
	},
	// docs.mistral.ai/api: a field that is not listed there is a 422; the seed has another name; the
	// temperature ends at 1.5; ids of calls have nine characters; thoughts come as parts of the content.
	{
		Kind: "mistral", plain: true, BaseURL: "https://api.mistral.ai/v1", limit: maxTokens, seed: "random_seed", hottest: 1.5, shortIDs: true, figured: true,
		efforts: map[chat.Effort]chat.Effort{chat.EffortMinimal: chat.EffortNone, chat.EffortLow: chat.EffortNone, chat.EffortMedium: chat.EffortHigh},
		refused: []string{"logprobs", "top_logprobs", "logit_bias", "user", "store", "service_tier", "modalities", "audio", "verbosity", "prompt_cache_key", "safety_identifier", "web_search_options"},
	},
	// api-docs.deepseek.com/guides/thinking_mode: thinking is on unless switched off by a field; the
	// thoughts that led to calls must come back as reasoning_content.
	{
		Kind: "deepseek", plain: true, BaseURL: "https://api.deepseek.com/v1", limit: maxTokens, returns: "reasoning_content",
		off: &chat.Setting{Name: "thinking", Value: []byte(`{"type":"disabled"}`)},
	},
	// docs.x.ai/docs/guides/reasoning: models that reason refuse penalties; there is no minimal effort.
	{Kind: "xai", plain: true, BaseURL: "https://api.x.ai/v1", efforts: least, refusedThinking: []string{"presence_penalty", "frequency_penalty"}},
	// docs.together.ai/reference/chat-completions-1.
	{Kind: "together", plain: true, BaseURL: "https://api.together.xyz/v1", limit: maxTokens},
	// docs.fireworks.ai/api-reference/post-chatcompletions.
	{Kind: "fireworks", plain: true, BaseURL: "https://api.fireworks.ai/inference/v1"},
	// inference-docs.cerebras.ai/resources/openai: these fields are a 400; there is no role developer;
	// the temperature ends at 1.5.
	{
		Kind: "cerebras", plain: true, BaseURL: "https://api.cerebras.ai/v1", limit: maxCompletionTokens, efforts: least, hottest: 1.5,
		refused: []string{"frequency_penalty", "presence_penalty", "logit_bias", "service_tier"},
	},
	// docs.perplexity.ai/api-reference/chat-completions-post: one reply; a temperature below 2; figures
	// come by themselves.
	{
		Kind: "perplexity", plain: true, BaseURL: "https://api.perplexity.ai", limit: maxTokens, single: true, figured: true, hottest: 1.99,
		refused: []string{"logprobs", "top_logprobs", "logit_bias", "seed", "user", "store", "metadata", "service_tier", "parallel_tool_calls"},
	},
	// docs.api.nvidia.com/nim/reference: extra fields are refused.
	{Kind: "nvidia", plain: true, BaseURL: "https://integrate.api.nvidia.com/v1", limit: maxTokens, refused: []string{"store", "metadata", "service_tier", "user"}},
	// docs.vllm.ai/en/latest/serving/openai_compatible_server.
	{Kind: "vllm", BaseURL: "http://127.0.0.1:8000/v1"},
	// github.com/ggml-org/llama.cpp/tree/master/tools/server.
	{Kind: "llamacpp", BaseURL: "http://127.0.0.1:8080/v1"},
	// lmstudio.ai/docs/developer/openai-compat/structured-output: json_schema or text.
	{Kind: "lmstudio", plain: true, BaseURL: "http://127.0.0.1:1234/v1", limit: maxTokens, schematic: true},
	// docs.ollama.com/api/openai-compatibility: no tool_choice, logit_bias, user or n.
	{Kind: "ollama", plain: true, BaseURL: "http://127.0.0.1:11434/v1", limit: maxTokens, efforts: least, single: true, unforced: true, refused: []string{"logit_bias", "user"}},
}

// Kinds are the names of the presets.
func Kinds() []string {
	kinds := make([]string, len(presets))
	for i := range presets {
		kinds[i] = presets[i].Kind
	}
	return kinds
}

// PresetOf finds the preset of a kind. The kind openai at another address than the vendor's is
// whatever speaks the dialect there: the zero Preset.
func PresetOf(kind, baseURL string) (Preset, bool) {
	i := slices.IndexFunc(presets, func(p Preset) bool { return p.Kind == kind })
	switch {
	case i < 0:
		return Preset{}, false
	case kind == "openai" && baseURL != "" && strings.TrimRight(baseURL, "/") != presets[i].BaseURL:
		return Preset{}, true
	}
	return presets[i], true
}
