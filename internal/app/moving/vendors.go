package moving

import "strings"

// vendor is how a service that other gateways know is configured here.
type vendor struct {
	// names are those that the other gateways use, in lower case with underscores.
	names string
	// kind is the kind of provider; empty: there is no adapter, and none says what to do instead.
	kind string
	// base is the address, if it is not that of the kind.
	base string
	// key is the variable in which the other gateways look for a key.
	key  string
	none string
}

const (
	noAdapter   = "there is no adapter for this vendor; if it has an OpenAI-compatible API, add it as a provider of kind openai with its base_url"
	notText     = "the vendor has no chat or embedding models; call it directly"
	noVertex    = "there is no adapter for Vertex AI; use a key of the Gemini API (kind gemini), and Anthropic or Bedrock for Claude"
	noFoundry   = "add it by hand: kind azure for models of OpenAI, kind openai with base_url for others, kind anthropic with base_url for Claude"
	noRouter    = "use the router of this service instead: callers ask for the model service/auto (docs/providers/auto.md)"
	noSageMaker = "there is no adapter for SageMaker; use Bedrock, or an endpoint with an OpenAI-compatible API"
)

// vendorTable is in the order of our own kinds, then services with an OpenAI-compatible API, then those without an adapter.
var vendorTable = []vendor{
	{names: "openai chatgpt_api", kind: "openai", key: "OPENAI_API_KEY"},
	{names: "azure azure_openai", kind: "azure", key: "AZURE_API_KEY"},
	{names: "anthropic", kind: "anthropic", key: "ANTHROPIC_API_KEY"},
	{names: "gemini google google_ai", kind: "gemini", key: "GEMINI_API_KEY"},
	{names: "openrouter", kind: "openrouter", key: "OPENROUTER_API_KEY"},
	{names: "groq", kind: "groq", key: "GROQ_API_KEY"},
	{names: "mistral mistral_ai", kind: "mistral", key: "MISTRAL_API_KEY"},
	{names: "deepseek", kind: "deepseek", key: "DEEPSEEK_API_KEY"},
	{names: "xai x_ai", kind: "xai", key: "XAI_API_KEY"},
	{names: "together together_ai", kind: "together", key: "TOGETHERAI_API_KEY"},
	{names: "fireworks fireworks_ai", kind: "fireworks", key: "FIREWORKS_AI_API_KEY"},
	{names: "cerebras", kind: "cerebras", key: "CEREBRAS_API_KEY"},
	{names: "perplexity perplexity_ai", kind: "perplexity", key: "PERPLEXITYAI_API_KEY"},
	{names: "nvidia_nim", kind: "nvidia", key: "NVIDIA_NIM_API_KEY"},
	{names: "bedrock bedrock_converse", kind: "bedrock"},
	{names: "hosted_vllm vllm", kind: "vllm"},
	{names: "ollama ollama_chat", kind: "ollama"},
	{names: "lm_studio", kind: "lmstudio"},
	{names: "llamafile", kind: "llamacpp"},

	{names: "openai_like custom_openai aiohttp_openai litellm_proxy xinference docker_model_runner databricks infinity custom", kind: "openai"},
	{names: "deepinfra", kind: "openai", base: "https://api.deepinfra.com/v1/openai", key: "DEEPINFRA_API_KEY"},
	{names: "moonshot", kind: "openai", base: "https://api.moonshot.ai/v1", key: "MOONSHOT_API_KEY"},
	{names: "dashscope", kind: "openai", base: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", key: "DASHSCOPE_API_KEY"},
	{names: "zai z_ai", kind: "openai", base: "https://api.z.ai/api/paas/v4", key: "ZAI_API_KEY"},
	{names: "minimax", kind: "openai", base: "https://api.minimax.io/v1", key: "MINIMAX_API_KEY"},
	{names: "sambanova", kind: "openai", base: "https://api.sambanova.ai/v1", key: "SAMBANOVA_API_KEY"},
	{names: "nebius", kind: "openai", base: "https://api.studio.nebius.ai/v1", key: "NEBIUS_API_KEY"},
	{names: "novita novita_ai", kind: "openai", base: "https://api.novita.ai/v3/openai", key: "NOVITA_API_KEY"},
	{names: "hyperbolic", kind: "openai", base: "https://api.hyperbolic.xyz/v1", key: "HYPERBOLIC_API_KEY"},
	{names: "volcengine", kind: "openai", base: "https://ark.cn-beijing.volces.com/api/v3", key: "VOLCENGINE_API_KEY"},
	{names: "featherless_ai", kind: "openai", base: "https://api.featherless.ai/v1", key: "FEATHERLESS_AI_API_KEY"},
	{names: "lambda_ai lambda", kind: "openai", base: "https://api.lambda.ai/v1", key: "LAMBDA_API_KEY"},
	{names: "friendliai", kind: "openai", base: "https://api.friendli.ai/serverless/v1", key: "FRIENDLI_TOKEN"},
	{names: "meta_llama", kind: "openai", base: "https://api.llama.com/compat/v1", key: "LLAMA_API_KEY"},
	{names: "baseten", kind: "openai", base: "https://inference.baseten.co/v1", key: "BASETEN_API_KEY"},
	{names: "wandb", kind: "openai", base: "https://api.inference.wandb.ai/v1", key: "WANDB_API_KEY"},
	{names: "codestral", kind: "openai", base: "https://codestral.mistral.ai/v1", key: "CODESTRAL_API_KEY"},
	{names: "scaleway", kind: "openai", base: "https://api.scaleway.ai/v1", key: "SCW_SECRET_KEY"},
	{names: "ovhcloud", kind: "openai", base: "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1", key: "OVHCLOUD_API_KEY"},
	{names: "vercel_ai_gateway", kind: "openai", base: "https://ai-gateway.vercel.sh/v1", key: "VERCEL_AI_GATEWAY_API_KEY"},
	{names: "huggingface", kind: "openai", base: "https://router.huggingface.co/v1", key: "HF_TOKEN"},
	{names: "cometapi", kind: "openai", base: "https://api.cometapi.com/v1", key: "COMETAPI_KEY"},
	{names: "poe", kind: "openai", base: "https://api.poe.com/v1", key: "POE_API_KEY"},
	{names: "siliconflow", kind: "openai", base: "https://api.siliconflow.cn/v1", key: "SILICONFLOW_API_KEY"},

	{names: "vertex_ai vertex_ai_beta", none: noVertex},
	{names: "azure_ai", none: noFoundry},
	{names: "auto_router complexity_router", none: noRouter},
	{names: "sagemaker sagemaker_chat", none: noSageMaker},
	{names: "text_completion_openai text_completion_codestral azure_text anthropic_text", none: "there are no text completions (POST /v1/completions); use a chat model"},
	{names: "elevenlabs deepgram aws_polly assemblyai soniox recraft fal_ai stability stability_ai runwayml black_forest_labs topaz", none: notText},
	{names: "replicate watsonx predibase cohere cohere_chat ai21 ai21_chat voyage jina_ai oci snowflake triton petals nlp_cloud clarifai maritalk cloudflare workers_ai github github_copilot chatgpt gigachat", none: noAdapter},
}

// vendorNamed returns the vendor that another gateway calls by a name, or nil.
func vendorNamed(name string) *vendor {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for i := range vendorTable {
		for known := range strings.SplitSeq(vendorTable[i].names, " ") {
			if known == name {
				return &vendorTable[i]
			}
		}
	}
	return nil
}

// vendorOfModel guesses the vendor of a model from its bare name, or returns "".
func vendorOfModel(name string) string {
	for _, guess := range []struct{ prefix, vendor string }{
		{"gpt-", "openai"},
		{"chatgpt-", "openai"},
		{"o1", "openai"},
		{"o3", "openai"},
		{"o4", "openai"},
		{"text-embedding-", "openai"},
		{"dall-e", "openai"},
		{"tts-", "openai"},
		{"whisper", "openai"},
		{"omni-moderation", "openai"},
		{"claude-", "anthropic"},
		{"gemini-", "gemini"},
		{"anthropic.", "bedrock"},
		{"us.anthropic.", "bedrock"},
		{"eu.anthropic.", "bedrock"},
		{"amazon.", "bedrock"},
		{"mistral-", "mistral"},
		{"deepseek-", "deepseek"},
		{"grok-", "xai"},
		{"sonar", "perplexity"},
	} {
		if strings.HasPrefix(name, guess.prefix) {
			return guess.vendor
		}
	}
	return ""
}

// purposes are what models are for that this service does not offer, by parts of their names and by the modes that other
// gateways have for them.
var purposes = []struct{ parts, modes, instead string }{
	{"dall-e gpt-image imagen- flux stable-diffusion", "image_generation image_edit images", "there is no API for pictures; call the vendor directly"},
	{"tts- whisper -transcribe", "audio_speech audio_transcription audio", "there is no API for speech; call the vendor directly"},
	{"realtime", "realtime", "there is no Realtime API; call the vendor directly"},
	{"moderation", "moderation", "there is no moderation API; call the vendor directly"},
	{"rerank", "rerank", "there is no rerank API; call the vendor directly"},
	{"gpt-3.5-turbo-instruct", "completion text_completion", "there are no text completions (POST /v1/completions); use a chat model"},
	{"", "batch", "there is no batch API; call the vendor directly"},
	{"", "search ocr vector_store video_generation", "there is no counterpart for this kind of model; videos are configured under video (docs/call/videos.md)"},
}

// unserved returns what to do instead of a model of a kind that this service does not offer, or "".
func unserved(name, mode string) string {
	name = strings.ToLower(name)
	for _, p := range purposes {
		for m := range strings.SplitSeq(p.modes, " ") {
			if mode == m {
				return p.instead
			}
		}
		for part := range strings.SplitSeq(p.parts, " ") {
			if mode == "" && part != "" && strings.Contains(name, part) {
				return p.instead
			}
		}
	}
	return ""
}

// isEmbedding guesses from its name whether a model makes embeddings.
func isEmbedding(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "embed") || strings.Contains(name, "bge-") || strings.Contains(name, "/e5-")
}
