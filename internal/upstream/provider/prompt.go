package provider

import (
	"regexp"
	"slices"
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

// longReplies match what vendors say of a prompt and of the reply that is asked for beside it. The groups are the tokens of
// both.
var longReplies = []*regexp.Regexp{
	regexp.MustCompile(`exceed context limit: (\d{1,9}) \+ (\d{1,9}) > `),                                         // Anthropic
	regexp.MustCompile(`\((\d{1,9}) in (?:the|your) (?:messages|prompt)[,;] (\d{1,9}) (?:in|for) the completion`), // OpenAI, vLLM
	regexp.MustCompile(`(\d{1,9}) tokens from the input messages and (\d{1,9}) tokens for the completion`),        // SGLang
	regexp.MustCompile("given: (\\d{1,9}) `?inputs`? tokens and (\\d{1,9}) `?max_new_tokens"),                     // Text Generation Inference
}

// tooLong reports whether the error says that the prompt is too long, and by how much. What it does not say is zero.
func (s *said) tooLong() (l fault.Long, long bool) {
	message := strings.ToLower(s.whole)
	if notLong.MatchString(message) {
		return l, false
	}
	long = slices.Contains(longTypes, s.code) || slices.Contains(longTypes, s.kind)
	for _, sentence := range longSentences {
		if m := sentence.FindStringSubmatch(message); m != nil {
			long = true
			if l.Most = parsed(m[len(m)-1]); l.Most > 0 {
				break
			}
		}
	}
	switch {
	case !long:
		return fault.Long{}, false
	case s.most > 0:
		l.Tokens, l.Most = s.tokens, s.most
	case l.Most > 0:
		l.Tokens, l.Reply = counted(message, l.Most)
	}
	return l, true
}

// counted returns the tokens of a prompt that is too long, as the message has them: the largest number above most. If the
// prompt would fit without the reply that is asked for, it returns both. It returns zeros if the message does not say.
func counted(message string, most int) (prompt, reply int) {
	for _, pair := range longReplies {
		if m := pair.FindStringSubmatch(message); m != nil {
			prompt, reply = parsed(m[1]), parsed(m[2])
			if prompt > most || prompt+reply <= most {
				reply = 0
			}
			return prompt, reply
		}
	}
	for _, text := range number.FindAllString(message, -1) {
		prompt = max(prompt, parsed(text))
	}
	if prompt <= most {
		prompt = 0
	}
	return prompt, 0
}

// parsed returns the number that a text is, and zero if it is none.
func parsed(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n > 1e9 {
		return 0
	}
	return n
}
