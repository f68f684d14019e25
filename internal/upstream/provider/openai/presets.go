package openai

import (
	"slices"
	"strings"

	"sluice/internal/prompt/chat"
)

// Preset is what is known of one vendor that speaks this dialect: its address, and how it differs from OpenAI's
// reference. The zero Preset differs in nothing. A difference that is not listed costs callers an error of the
// vendor, so each entry of presets names the page that it was read from.
type Preset struct {
	// Kind is the vendor's name in the configuration.
	Kind string
	// BaseURL is where the API begins, version included. It is empty if every customer has a different one.
	BaseURL string
	// keyHeader is the header that the key is sent in. Empty means a bearer token.
	keyHeader string
	// deployments says that the paths are Azure's.
	deployments bool

	// refused lists fields that the vendor answers with an error and that do not change the answer.
	refused []string
	// refusedThinking lists the fields that it also refuses while a model thinks.
	refusedThinking []string
	// hottest is the highest temperature it accepts; 0 means 2, as in the reference.
	hottest float64
	// limit is the only name by which it knows the bound of a reply. Empty means that it knows both.
	limit string
	// seed is its name of the field seed; empty if that is seed.
	seed string
	// efforts are the values of reasoning_effort that it has, in rising order; nil if that is not known.
	efforts []chat.Effort
	// off is the field that turns thinking off, if no effort does; otherwise nil.
	off *chat.Setting
	// original says that it knows the detail original of images.
	original bool
	// stores says that it stores replies if store is true, and refuses metadata otherwise.
	stores bool
	// developer says that it knows the role developer.
	developer bool
	// figured says that it sends usage without being asked, and does not know stream_options.
	figured bool
	// single says that n must be 1.
	single bool
	// plain says that it knows none of the things that chat.Request.Foreign reports.
	plain bool
	// nameless says that messages must not have names.
	nameless bool
	// shortIDs says that ids of calls must have nine letters and digits.
	shortIDs bool
	// unforced says that it does not know tool_choice.
	unforced bool
	// searches says that it charges for every request, by how much it has searched for it.
	searches bool
	// schematic says that it writes JSON only with a schema.
	schematic bool
	// returns is the member of an assistant's message in which it wants the thoughts back that led to the
	// message's calls. Empty means that it wants none.
	returns string
	// hints say how the vendor is told which calls belong together, so that it looks for their prompts in one cache.
	hints hints
}

// hints are the places for the name of a conversation, by which a vendor sends the calls of one conversation to the server
// that has its prompt in a cache. Empty: the vendor documents none.
type hints struct {
	chat      string // the member of a chat completion
	responses string // the member of a response
	header    string // the header of both, in its canonical form
	// inChat says that the header is for chat completions alone.
	inChat bool
}

// cacheKey is the member that OpenAI has for it, and others with it.
const cacheKey = "prompt_cache_key"

// The two names of the bound of a reply.
const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
)

// The efforts of vendors: those that most servers know, and those without the lowest.
var (
	usual = []chat.Effort{chat.EffortNone, chat.EffortMinimal, chat.EffortLow, chat.EffortMedium, chat.EffortHigh}
	least = []chat.Effort{chat.EffortNone, chat.EffortLow, chat.EffortMedium, chat.EffortHigh}
)

// sampling lists the fields that OpenAI's models refuse while they reason, wherever they are served
// (learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning).
var sampling = []string{"temperature", "top_p", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias"}

// unlisted lists a field that Anthropic's dialect has and OpenAI's has not. OpenAI refuses what its reference does not list.
var unlisted = []string{"top_k"}

// presets are the vendors that are known, each with the pages of its documentation that say how it differs.
var presets = []Preset{
	// platform.openai.com/docs/api-reference/chat: max_tokens is deprecated, and refused by models
	// that reason; these also know the role developer. metadata is only for replies that are stored
	// (github.com/tmc/langchaingo/issues/1484).
	// developers.openai.com/api/docs/guides/prompt-caching: prompt_cache_key.
	{Kind: "openai", BaseURL: "https://api.openai.com/v1", hints: hints{chat: cacheKey, responses: cacheKey}, limit: maxCompletionTokens, developer: true, stores: true, original: true, refused: unlisted, refusedThinking: sampling},
	// learn.microsoft.com/azure/ai-foundry/openai/reference: deployments in the path and an
	// api-version, or the newer /openai/v1; the key in a header of its own.
	// learn.microsoft.com/azure/foundry/openai/how-to/prompt-caching: prompt_cache_key.
	{Kind: "azure", hints: hints{chat: cacheKey, responses: cacheKey}, keyHeader: "Api-Key", deployments: true, stores: true, original: true, refused: unlisted, refusedThinking: sampling},
	// openrouter.ai/docs/use-cases/reasoning-tokens: thoughts come as reasoning, and, for the next
	// turn, as reasoning_details.
	// openrouter.ai/docs/guides/best-practices/prompt-caching: session_id.
	{Kind: "openrouter", BaseURL: "https://openrouter.ai/api/v1", hints: hints{chat: "session_id"}, original: true, returns: "reasoning_details"},
	// console.groq.com/docs/openai: these fields, and names of messages, are a 400; n must be 1.
	// Figures also come inside of x_groq.
	{
		Kind: "groq", plain: true, BaseURL: "https://api.groq.com/openai/v1", limit: maxCompletionTokens, efforts: least, single: true, nameless: true,
		refused: []string{"logprobs", "top_logprobs", "logit_bias", "top_k"},
	},
	// docs.mistral.ai/api: a field that is not listed there is a 422; the seed has another name; the
	// temperature ends at 1.5; ids of calls have nine characters; thoughts come as parts of the content.
	// docs.mistral.ai/studio-api/conversations/advanced/prompt-caching: prompt_cache_key.
	{
		Kind: "mistral", plain: true, BaseURL: "https://api.mistral.ai/v1", hints: hints{chat: cacheKey}, limit: maxTokens, seed: "random_seed", hottest: 1.5, shortIDs: true, figured: true,
		efforts: []chat.Effort{chat.EffortNone, chat.EffortHigh},
		refused: []string{"logprobs", "top_logprobs", "logit_bias", "top_k", "user", "store", "service_tier", "modalities", "audio", "verbosity", "safety_identifier", "web_search_options"},
	},
	// api-docs.deepseek.com/guides/thinking_mode: thinking is on unless switched off by a field; the
	// thoughts that led to calls must come back as reasoning_content.
	{
		Kind: "deepseek", plain: true, efforts: usual, BaseURL: "https://api.deepseek.com/v1", limit: maxTokens, returns: "reasoning_content",
		off: &chat.Setting{Name: "thinking", Value: []byte(`{"type":"disabled"}`)},
	},
	// docs.x.ai/docs/guides/reasoning: models that reason refuse penalties; there is no minimal effort.
	// docs.x.ai/developers/advanced-api-usage/prompt-caching/maximizing-cache-hits: x-grok-conv-id and prompt_cache_key.
	{Kind: "xai", hints: hints{responses: cacheKey, header: "X-Grok-Conv-Id", inChat: true}, plain: true, BaseURL: "https://api.x.ai/v1", efforts: least, refusedThinking: []string{"presence_penalty", "frequency_penalty"}},
	// docs.together.ai/reference/chat-completions-1.
	{Kind: "together", plain: true, efforts: usual, BaseURL: "https://api.together.xyz/v1", limit: maxTokens},
	// docs.fireworks.ai/api-reference/post-chatcompletions.
	// docs.fireworks.ai/guides/prompt-caching: x-session-affinity.
	{Kind: "fireworks", hints: hints{header: "X-Session-Affinity"}, plain: true, efforts: usual, BaseURL: "https://api.fireworks.ai/inference/v1"},
	// inference-docs.cerebras.ai/resources/openai: these fields are a 400; there is no role developer;
	// the temperature ends at 1.5.
	{
		Kind: "cerebras", plain: true, BaseURL: "https://api.cerebras.ai/v1", limit: maxCompletionTokens, efforts: least, hottest: 1.5,
		refused: []string{"frequency_penalty", "presence_penalty", "logit_bias", "service_tier"},
	},
	// docs.perplexity.ai/api-reference/chat-completions-post: one reply; a temperature below 2; figures
	// come by themselves.
	{
		Kind: "perplexity", plain: true, efforts: usual, BaseURL: "https://api.perplexity.ai", limit: maxTokens, single: true, figured: true, hottest: 1.99, searches: true,
		refused: []string{"logprobs", "top_logprobs", "logit_bias", "seed", "user", "store", "metadata", "service_tier", "parallel_tool_calls"},
	},
	// docs.api.nvidia.com/nim/reference: extra fields are refused.
	{Kind: "nvidia", plain: true, efforts: usual, BaseURL: "https://integrate.api.nvidia.com/v1", limit: maxTokens, refused: []string{"store", "metadata", "service_tier", "user"}},
	// docs.vllm.ai/en/latest/serving/openai_compatible_server.
	{Kind: "vllm", BaseURL: "http://127.0.0.1:8000/v1"},
	// github.com/ggml-org/llama.cpp/tree/master/tools/server.
	{Kind: "llamacpp", BaseURL: "http://127.0.0.1:8080/v1"},
	// lmstudio.ai/docs/developer/openai-compat/structured-output: json_schema or text.
	{Kind: "lmstudio", plain: true, efforts: usual, BaseURL: "http://127.0.0.1:1234/v1", limit: maxTokens, schematic: true},
	// docs.ollama.com/api/openai-compatibility: no tool_choice, logit_bias, user or n.
	{Kind: "ollama", plain: true, BaseURL: "http://127.0.0.1:11434/v1", limit: maxTokens, efforts: least, single: true, unforced: true, refused: []string{"logit_bias", "user"}},
}

// PresetOf returns the preset of a kind, and reports whether there is one. The kind openai at another address than
// OpenAI's is any server that speaks the dialect: its preset is the zero Preset.
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
