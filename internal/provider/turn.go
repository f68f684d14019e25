package provider

import (
	"context"
	"encoding/json"
	"slices"

	"sluice/internal/chat"
)

// Turn is the order in which a model wrote text, tool calls and blocks that only its vendor can read,
// such as signed thinking. A vendor wants those blocks back, unchanged and in their place, together
// with the results of the calls; the standard fields carry text and calls alone.
type Turn struct {
	Dialect string      `json:"dialect"`
	Model   string      `json:"model"` // the upstream's name of it: no other model may get the blocks
	Blocks  []TurnBlock `json:"blocks"`
}

// TurnBlock is one of three things.
type TurnBlock struct {
	State json.RawMessage `json:"state,omitempty"` // a block in the vendor's own form
	Size  int             `json:"size,omitempty"`  // of a text, in bytes
	Call  string          `json:"call,omitempty"`  // the id of a call
}

// Add notes a block. Texts that follow each other are one.
func (t *Turn) Add(b TurnBlock) {
	if last := len(t.Blocks) - 1; b.Size > 0 && last >= 0 && t.Blocks[last].Size > 0 {
		t.Blocks[last].Size += b.Size
		return
	}
	t.Blocks = append(t.Blocks, b)
}

// Keep stores the turn under each of its calls, if the next one needs it. What cannot be stored is
// as good as expired: the conversation goes on without it.
func (t *Turn) Keep(ctx context.Context, call *Call) {
	if call.Memory == nil || !t.signed() {
		return
	}
	state, err := json.Marshal(t)
	if err != nil {
		return
	}
	for _, b := range t.Blocks {
		if b.Call != "" {
			_ = call.Memory.Keep(ctx, b.Call, state)
		}
	}
}

func (t *Turn) signed() bool {
	return slices.ContainsFunc(t.Blocks, func(b TurnBlock) bool { return b.State != nil })
}

// RecallTurn finds how the assistant's message was written; nil: nobody knows, or another model.
func RecallTurn(ctx context.Context, call *Call, dialect string, m *chat.Message) *Turn {
	if len(m.ToolCalls) == 0 {
		return nil
	}
	state, ok, err := call.Memory.Recall(ctx, m.ToolCalls[0].ID)
	if err != nil || !ok {
		return nil
	}
	var t Turn
	if json.Unmarshal(state, &t) != nil || t.Dialect != dialect || t.Model != call.Upstream {
		return nil
	}
	return &t
}

// TurnPiece is a part of an assistant's message: one of three things.
type TurnPiece struct {
	State json.RawMessage
	Text  string
	Call  *chat.ToolCall
}

// Arrange puts an assistant's message into the order of the turn; a nil turn is text before calls.
// What the caller left out stays out, and what the caller added comes last.
func (t *Turn) Arrange(m *chat.Message) []TurnPiece {
	a := arrangement{texts: []string{m.Content.Text()}, calls: m.ToolCalls}
	if t == nil {
		a.rest()
		return a.pieces
	}
	a.texts = t.split(a.texts[0])
	for _, b := range t.Blocks {
		switch {
		case b.State != nil:
			a.pieces = append(a.pieces, TurnPiece{State: b.State})
		case b.Size > 0:
			a.text()
		case b.Call != "":
			a.call(b.Call)
		}
	}
	a.rest()
	return a.pieces
}

// split cuts a text where the model began anew, if it is still the model's.
func (t *Turn) split(text string) []string {
	var texts []string
	rest := text
	for _, b := range t.Blocks {
		if b.Size > len(rest) {
			return []string{text}
		}
		if b.Size > 0 {
			texts = append(texts, rest[:b.Size])
			rest = rest[b.Size:]
		}
	}
	if rest != "" {
		return []string{text}
	}
	return texts
}

// arrangement is a message on the way into its order.
type arrangement struct {
	pieces []TurnPiece
	texts  []string
	calls  []chat.ToolCall
	placed []string // the ids of calls
}

func (a *arrangement) text() {
	if len(a.texts) > 0 {
		if a.texts[0] != "" {
			a.pieces = append(a.pieces, TurnPiece{Text: a.texts[0]})
		}
		a.texts = a.texts[1:]
	}
}

func (a *arrangement) call(id string) {
	for i := range a.calls {
		if c := &a.calls[i]; c.ID == id && !slices.Contains(a.placed, id) {
			a.placed = append(a.placed, id)
			a.pieces = append(a.pieces, TurnPiece{Call: c})
		}
	}
}

// rest places what has no place yet.
func (a *arrangement) rest() {
	for len(a.texts) > 0 {
		a.text()
	}
	if len(a.placed) == len(a.calls) {
		return
	}
	for i := range a.calls {
		if !slices.Contains(a.placed, a.calls[i].ID) {
			a.pieces = append(a.pieces, TurnPiece{Call: &a.calls[i]})
		}
	}
}
