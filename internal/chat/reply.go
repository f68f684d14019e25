package chat

// Finish is why a reply ended (finish_reason on the wire).
type Finish string

const (
	FinishStop          Finish = "stop"
	FinishLength        Finish = "length"
	FinishToolCalls     Finish = "tool_calls"
	FinishContentFilter Finish = "content_filter"
)

// Usage is what a call consumed, in tokens. The parts are disjoint: Prompt does not include Cached,
// and Completion does not include Reasoning; the wire's sums do.
type Usage struct {
	Prompt     int
	Cached     int
	Completion int
	Reasoning  int
}

// PromptTotal is prompt_tokens on the wire.
func (u Usage) PromptTotal() int { return u.Prompt + u.Cached }

// CompletionTotal is completion_tokens on the wire.
func (u Usage) CompletionTotal() int { return u.Completion + u.Reasoning }

// Total is total_tokens on the wire.
func (u Usage) Total() int { return u.PromptTotal() + u.CompletionTotal() }
