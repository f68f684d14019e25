package provider

import (
	"regexp"
	"strconv"
	"strings"

	"sluice/internal/kit/fault"
)

// A prompt that is too long is the one refusal that programs handle themselves: they shorten the conversation and try
// again. Every vendor has its own sentence for it. This file recognizes them.

// longTypes are the types and codes of errors that say nothing else: OpenAI's, and that of llama.cpp.
var longTypes = []string{fault.ReasonLong, "exceed_context_size_error"}

// longSentences match what vendors say of a prompt that is too long. The group is the number of tokens that the model
// reads, if the sentence has it.
var longSentences = []*regexp.Regexp{
	// Anthropic, and Claude at Bedrock and Google: "prompt is too long: 205123 tokens > 200000 maximum"; Fireworks: "The
	// prompt is too long: 140000, model maximum context length: 131071".
	regexp.MustCompile(`prompt is too long(?:: \d+(?: tokens >|, model maximum context length:) (\d+))?`),
	// Anthropic: "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000".
	regexp.MustCompile(`exceed context limit: \d+ \+ \d+ > (\d+)`),
	// OpenAI, Azure, vLLM, SGLang, DeepSeek, OpenRouter: "This model's maximum context length is 8192 tokens. However, …".
	regexp.MustCompile(`maximum context length (?:is|of) (\d+)`),
	// OpenAI: "Your input exceeds the context window of this model.", "Input tokens exceed the configured limit of 272000
	// tokens."
	regexp.MustCompile(`exceeds the context window`),
	regexp.MustCompile(`input tokens exceed the configured limit(?: of (\d+))?`),
	// Google: "The input token count (1196265) exceeds the maximum number of tokens allowed (1048576)."
	regexp.MustCompile(`input token count.* exceeds the maximum number of tokens allowed(?: \(?(\d+))?`),
	// Bedrock, of several vendors: "Input is too long for requested model.", "Too many input tokens. Max input tokens: …",
	// "Input Tokens Exceeded: Number of input tokens exceeds maximum length."
	regexp.MustCompile(`input is too long\b`),
	regexp.MustCompile(`too many input tokens(?:.* max input tokens: (\d+))?`),
	regexp.MustCompile(`number of input tokens exceeds maximum length`),
	// Mistral: "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length".
	regexp.MustCompile(`too large for model with (\d+) maximum context length`),
	// vLLM: "The decoder prompt (length 9000) is longer than the maximum model length of 8192."
	regexp.MustCompile(`longer than the maximum model length of (\d+)`),
	// SGLang: "The input (9000 tokens) is longer than the model's context length (8192 tokens)."
	regexp.MustCompile(`longer than the model's context length(?: \(?(\d+))?`),
	// llama.cpp: "the request exceeds the available context size (4096 tokens), try increasing it".
	regexp.MustCompile(`exceeds the available context size(?: \((\d+))?`),
	// Ollama: "the input length exceeds the context length"; LM Studio: "The number of tokens to keep from the initial prompt
	// is greater than the context length".
	regexp.MustCompile(`(?:exceeds|greater than) the context length`),
	// xAI: "This model's maximum prompt length is 131072 but the request contains 537812 tokens."
	regexp.MustCompile(`maximum prompt length is (\d+)`),
	// Groq and Cerebras: "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192".
	regexp.MustCompile(`reduce the length of the messages(?:.* limit is (\d+))?`),
	// Cohere: "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292."
	regexp.MustCompile(`tokens in the prompt cannot exceed (\d+)`),
	// Moonshot: "Your request exceeded model token limit: 262144 (requested: 265000)".
	regexp.MustCompile(`exceeded model token limit(?:: (\d+))?`),
	// MiniMax: "invalid params, context window exceeds limit (2013)"; the number is that of the error.
	regexp.MustCompile(`context window exceeds limit`),
	// GitHub Copilot: "prompt token count of 130000 exceeds the limit of 128000".
	regexp.MustCompile(`prompt token count of \d+ exceeds the limit of (\d+)`),
	// Alibaba: "Range of input length should be [1, 129024]".
	regexp.MustCompile(`range of input length should be \[\d+, ?(\d+)\]`),
	// Text Generation Inference and Together: "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: …", "`inputs` must
	// have less than 4095 tokens. Given: 5000".
	regexp.MustCompile("inputs`? tokens \\+ `?max_new_tokens`? must be <= (\\d+)"),
	regexp.MustCompile("inputs`? must have less than (\\d+) tokens"),
	// Perplexity: "The total length of all messages is too long."
	regexp.MustCompile(`total length of all messages is too long`),
}

// notLong matches the beginning of a message about the length of the reply, whatever it says of the model.
var notLong = regexp.MustCompile("^[`'\"]?max_(completion_|output_|new_)?tokens\\b")

// number matches a number of tokens.
var number = regexp.MustCompile(`\d{1,9}`)

// tooLong reports whether the error says that the prompt is too long, and how many tokens the prompt has and the model
// reads. What it does not say is zero.
func (s *said) tooLong() (long bool, tokens, most int) {
	message := strings.ToLower(s.whole)
	if notLong.MatchString(message) {
		return false, 0, 0
	}
	for _, t := range longTypes {
		long = long || s.code == t || s.kind == t
	}
	for _, sentence := range longSentences {
		m := sentence.FindStringSubmatch(message)
		if m == nil {
			continue
		}
		if long = true; len(m) > 1 && m[1] != "" {
			most, _ = strconv.Atoi(m[1])
			break
		}
	}
	if !long {
		return false, 0, 0
	}
	if s.most > 0 {
		return true, s.tokens, s.most
	}
	return true, above(message, most), most
}

// above returns the largest number of a message, or the sum that it names, if that is above most; else zero.
func above(message string, most int) (tokens int) {
	if most == 0 {
		return 0
	}
	if a, b, ok := strings.Cut(message, " + "); ok {
		left, right := number.FindAllString(a, -1), number.FindString(b)
		if len(left) > 0 && right != "" {
			x, _ := strconv.Atoi(left[len(left)-1])
			y, _ := strconv.Atoi(right)
			tokens = x + y
		}
	}
	for _, text := range number.FindAllString(message, -1) {
		if n, err := strconv.Atoi(text); err == nil {
			tokens = max(tokens, n)
		}
	}
	if tokens <= most {
		return 0
	}
	return tokens
}
