package chat

import "strings"

// Finish is why a reply ended: finish_reason on the wire (docs/api.md#chat-completion-response).
type Finish string

// The reasons that callers see. Adapters map every other word of an upstream to one of them.
const (
	FinishStop          Finish = "stop"           // the model was done, or wrote a stop sequence
	FinishLength        Finish = "length"         // max_tokens or the context window was reached
	FinishToolCalls     Finish = "tool_calls"     // the model calls tools and waits for their results
	FinishContentFilter Finish = "content_filter" // the upstream withheld the rest
)

// Usage is what a call consumed, in tokens. The first four fields do not overlap: Prompt does not include Cached,
// and Completion does not include Reasoning. The sums on the wire do include them. Without an overlap
// the cost of a call is the sum of each field times its price.
type Usage struct {
	Prompt     int
	Cached     int
	Completion int
	Reasoning  int
	// Of Prompt, the tokens that the upstream wrote to its cache, by how long it keeps them: five minutes, an hour, or as
	// long as it likes. All are zero for upstreams that do not say what they write.
	CacheWrite5m int
	CacheWrite1h int
	CacheWrite   int
	// Of Prompt, what was sound and pictures, where the upstream counts them apart; and the same of Completion.
	AudioIn, ImageIn   int
	AudioOut, ImageOut int
}

// Add adds what another call, or another turn, consumed.
func (u *Usage) Add(more Usage) {
	u.Prompt += more.Prompt
	u.Cached += more.Cached
	u.Completion += more.Completion
	u.Reasoning += more.Reasoning
	u.CacheWrite5m += more.CacheWrite5m
	u.CacheWrite1h += more.CacheWrite1h
	u.CacheWrite += more.CacheWrite
	u.AudioIn += more.AudioIn
	u.ImageIn += more.ImageIn
	u.AudioOut += more.AudioOut
	u.ImageOut += more.ImageOut
}

// PromptTotal returns prompt_tokens on the wire.
func (u Usage) PromptTotal() int { return u.Prompt + u.Cached }

// CacheWritten returns cache_write_tokens on the wire: what the upstream wrote to its cache, for however long.
func (u Usage) CacheWritten() int { return u.CacheWrite5m + u.CacheWrite1h + u.CacheWrite }

// CompletionTotal returns completion_tokens on the wire.
func (u Usage) CompletionTotal() int { return u.Completion + u.Reasoning }

// IsCost reports whether a member of an upstream's usage says what the call costs the operator there: OpenRouter's, xAI's and
// Perplexity's do. Callers do not get it.
func IsCost(key string) bool { return strings.HasPrefix(key, "cost") || key == "is_byok" }

// Total returns total_tokens on the wire.
func (u Usage) Total() int { return u.PromptTotal() + u.CompletionTotal() }
