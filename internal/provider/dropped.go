package provider

import "slices"

// Drop notes the fields among names that the caller sent, and that ask for something: the upstream
// does not see them.
func (c *Call) Drop(names ...string) {
	for _, name := range names {
		switch string(c.Request.Member(name)) {
		case "", "null", "false", "0":
		default:
			c.Omit(name)
		}
	}
}

// Omit notes a field that is known to have been sent, or one inside of another, once.
func (c *Call) Omit(name string) {
	if !slices.Contains(c.Dropped, name) {
		c.Dropped = append(c.Dropped, name)
	}
}

// OpenAIOnly are fields of OpenAI's chat completions that no other dialect has, and whose absence
// does not make another answer.
func OpenAIOnly() []string {
	return []string{
		"audio", "logit_bias", "logprobs", "metadata", "modalities", "prediction", "prompt_cache_key",
		"safety_identifier", "service_tier", "store", "top_logprobs", "user", "verbosity", "web_search_options",
	}
}
