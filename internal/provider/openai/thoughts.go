package openai

import (
	"bytes"
	"context"
	"encoding/json"

	"sluice/internal/continuation"
	"sluice/internal/jsonscan"
	"sluice/internal/provider"
)

// Some vendors want the thoughts that led to tool calls back with their results, in a member that
// most clients drop. They are kept under the id of the first call.

// state is what is kept.
type state struct {
	Dialect string          `json:"dialect"`
	Member  string          `json:"member"` // of the message
	Value   json.RawMessage `json:"value"`
}

const dialect = "openai"

// recall finds the thoughts that were kept under a call.
func recall(ctx context.Context, memory *continuation.Memory, id, member string) (json.RawMessage, bool) {
	var s state
	raw, ok, err := memory.Recall(ctx, id)
	if err != nil || !ok || json.Unmarshal(raw, &s) != nil || s.Dialect != dialect || s.Member != member {
		return nil, false
	}
	return s.Value, true
}

// thoughts collects those of one reply.
type thoughts struct {
	ctx     context.Context //nolint:containedctx // one call's, for what is kept for the next turn
	call    *provider.Call
	member  string
	content []byte           // of reasoning_content
	details []map[string]any // of reasoning_details
	id      string           // of the first call
}

type thoughtful struct {
	Content   string           `json:"reasoning_content"`
	Details   []map[string]any `json:"reasoning_details"`
	ToolCalls []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
}

// note reads a chunk or a whole reply. Most chunks hold nothing of this, which a glance tells.
func (t *thoughts) note(raw []byte) {
	if t == nil || !bytes.Contains(raw, []byte(`"reasoning_`)) && !bytes.Contains(raw, []byte(`"tool_calls"`)) {
		return
	}
	var w struct {
		Choices []struct {
			Delta   thoughtful `json:"delta"`
			Message thoughtful `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(raw, &w) != nil || len(w.Choices) != 1 {
		return // what cannot be read is the relay's to tell
	}
	for _, part := range []*thoughtful{&w.Choices[0].Delta, &w.Choices[0].Message} {
		t.content = append(t.content, part.Content...)
		for _, d := range part.Details {
			t.detail(d)
		}
		if t.id == "" && len(part.ToolCalls) > 0 {
			t.id = part.ToolCalls[0].ID
		}
	}
}

// detail adds a piece of reasoning_details. Pieces of one text or summary follow each other and are
// put together again.
func (t *thoughts) detail(piece map[string]any) {
	if n := len(t.details); n > 0 {
		last := t.details[n-1]
		kind := piece["type"]
		if last["type"] == kind && last["index"] == piece["index"] && (kind == "reasoning.text" || kind == "reasoning.summary") {
			for key, value := range piece {
				old, isText := last[key].(string)
				more, moreText := value.(string)
				switch {
				case (key == "text" || key == "summary") && isText && moreText:
					last[key] = old + more
				case value != nil:
					last[key] = value
				}
			}
			return
		}
	}
	t.details = append(t.details, piece)
}

// keep stores the thoughts, if there was a call. A store that fails is no reason to fail the reply.
func (t *thoughts) keep() {
	if t == nil || t.id == "" {
		return
	}
	s := state{Dialect: dialect, Member: t.member}
	switch {
	case t.member == "reasoning_content" && len(t.content) > 0:
		s.Value = jsonscan.AppendQuoted(nil, string(t.content))
	case t.member == "reasoning_details" && len(t.details) > 0:
		s.Value, _ = json.Marshal(t.details) // it came as JSON
	default:
		return
	}
	if raw, err := json.Marshal(s); err == nil {
		_ = t.call.Memory.Keep(t.ctx, t.id, raw)
	}
}
