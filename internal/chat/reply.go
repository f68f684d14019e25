package chat

// Finish is why a reply ended (finish_reason on the wire).
type Finish string

const (
	FinishStop          Finish = "stop"
	FinishLength        Finish = "length"
	FinishToolCalls     Finish = "tool_calls"
	FinishContentFilter Finish = "content_filter"
)

// Usage is what a call consumed, in tokens. The fields do not overlap: Prompt does not include Cached,
// and Completion does not include Reasoning. The sums on the wire do include them.
type Usage struct {
	Prompt     int
	Cached     int
	Completion int
	Reasoning  int
}

// PromptTotal returns prompt_tokens on the wire.
func (u Usage) PromptTotal() int { return u.Prompt + u.Cached }

// CompletionTotal returns completion_tokens on the wire.
func (u Usage) CompletionTotal() int { return u.Completion + u.Reasoning }

// Total returns total_tokens on the wire.
func (u Usage) Total() int { return u.PromptTotal() + u.CompletionTotal() }
