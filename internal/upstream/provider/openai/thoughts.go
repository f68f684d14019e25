package openai

import (
	"bytes"
	"context"
	"encoding/json"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/upstream/continuation"
	"sluice/internal/upstream/provider"
)

// Some vendors want the thoughts that led to tool calls back, together with the results of the calls, in a member
// that most clients drop. They are kept under the id of the reply's first call.

// state is what is kept. It is stored as JSON: a change to the tags loses the thoughts of turns under way.
type state struct {
	Dialect string          `json:"dialect"` // tells it from the states of other adapters
	Member  string          `json:"member"`  // of the message, as in Preset.returns
	Value   json.RawMessage `json:"value"`   // of that member
}

// dialect is the state.Dialect of this package.
const dialect = "openai"

// recall returns the thoughts that were kept under the id of a call. It reports false if there are none, or if
// another adapter or another member's vendor kept them. memory may be nil.
func recall(ctx context.Context, memory *continuation.Memory, id, member string) (json.RawMessage, bool) {
	var s state
	raw, ok, err := memory.Recall(ctx, id)
	if err != nil || !ok || json.Unmarshal(raw, &s) != nil || s.Dialect != dialect || s.Member != member {
		return nil, false
	}
	return s.Value, true
}

// thoughts collects the thoughts of one reply. Its methods do nothing on nil.
type thoughts struct {
	ctx     context.Context //nolint:containedctx // one call's, to keep the thoughts at its end
	call    *provider.Call
	member  string           // which of the two the vendor wants back
	content []byte           // of reasoning_content
	details []map[string]any // of reasoning_details
	id      string           // of the first call; empty until one has come
}

// thoughtful is a message, or a piece of one, as far as it concerns thoughts.
type thoughtful struct {
	Content   string           `json:"reasoning_content"`
	Details   []map[string]any `json:"reasoning_details"`
	ToolCalls []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
}

// note collects the thoughts of a chunk or of a whole reply. Most chunks have none: a search for two words tells
// without decoding.
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
		return // the relay reports what cannot be read
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

// detail adds a piece of reasoning_details. A stream cuts texts and summaries into pieces that follow each other;
// they are joined again, because the vendor wants back what it wrote.
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

// keep stores the thoughts if the reply has a call. An error is ignored: the next turn is worse without them, but
// this reply is complete.
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
