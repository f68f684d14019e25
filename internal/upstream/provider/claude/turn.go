package claude

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Turn records the order in which a model wrote text, tool calls and signed thinking. Claude wants its
// thinking back, unchanged and in its place, together with the results of the calls. The standard fields of
// a message carry only text and calls, so the turn is kept under the ids of the calls and found again when
// they are answered. A turn without calls is kept under a digest of the conversation. Its JSON is stored: a change to the tags loses turns that are under way.
type Turn struct {
	Dialect string      `json:"dialect"` // the API whose form State has
	Model   string      `json:"model"`   // the upstream's name; a signature is valid for this model only
	Blocks  []TurnBlock `json:"blocks"`

	// What the vendor checks when the thinking comes back; see Place. Turns that are kept for the exchange in progress
	// alone have none of it.
	Before string `json:"before,omitempty"` // a digest of what stood before the turn
	Key    string `json:"key,omitempty"`    // stands for the key of the upstream
	Rank   int    `json:"rank,omitempty"`
	From   int    `json:"from,omitempty"`
	Link   string `json:"link,omitempty"` // names the thinking of the turn before it; see name
}

// name returns a hash of the thinking of a turn.
func (t *Turn) name() string {
	h := sha256.New()
	for _, b := range t.Blocks {
		_, _ = h.Write(b.State)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:9])
}

// TurnBlock is one block of a turn: exactly one of its fields is set.
type TurnBlock struct {
	State json.RawMessage `json:"state,omitempty"` // signed thinking as the API sent it
	Size  int             `json:"size,omitempty"`  // the length of a text in bytes; the caller has the text
	Call  string          `json:"call,omitempty"`  // the id of a tool call
}

// Add appends a block. Texts that follow each other become one.
func (t *Turn) Add(b TurnBlock) {
	if last := len(t.Blocks) - 1; b.Size > 0 && last >= 0 && t.Blocks[last].Size > 0 {
		t.Blocks[last].Size += b.Size
		return
	}
	t.Blocks = append(t.Blocks, b)
}

// Keep stores the turn under the id of each of its calls or, if it has none and every later turn needs it, under a digest
// of the conversation that it ends. text is the hash of the reply's text. Keep stores nothing if the turn has no signed
// thinking or the call has no memory. An error is ignored: a turn that is not found again is treated like
// one that has expired.
func (t *Turn) Keep(ctx context.Context, call *provider.Call, p Place, text [sha256.Size]byte) {
	if call.Memory == nil || !t.signed() {
		return
	}
	keep := call.Memory.Keep
	if p.all {
		keep, t.Before, t.Key, t.Rank, t.From, t.Link = call.Memory.KeepLong, p.before.short(), p.key, p.rank, p.from, p.link
	}
	state, err := json.Marshal(t)
	if err != nil {
		return
	}
	called := false
	for _, b := range t.Blocks {
		if b.Call != "" {
			called = true
			_ = keep(ctx, b.Call, state)
		}
	}
	if p.all && !called {
		_ = keep(ctx, p.before.answer(text, nil).name(), state)
	}
}

// signed reports whether the turn has thinking that must come back.
func (t *Turn) signed() bool {
	return slices.ContainsFunc(t.Blocks, func(b TurnBlock) bool { return b.State != nil })
}

// RecallTurn returns the turn that an assistant's message was made of. It returns nil if none was kept, if it
// has expired, or if another API or another model wrote it.
// The turn is stored under each of its calls, so the first call is enough to find it.
func RecallTurn(ctx context.Context, call *provider.Call, dialect string, m *chat.Message) *Turn {
	if len(m.ToolCalls) == 0 {
		return nil
	}
	state, ok, err := call.Memory.Recall(ctx, m.ToolCalls[0].ID)
	if err != nil || !ok {
		return nil
	}
	return readTurn(state, dialect, call.Upstream)
}

// readTurn reads a turn that was kept. It returns nil if it cannot, or if another API or another model wrote it.
func readTurn(state []byte, dialect, model string) *Turn {
	var t Turn
	if json.Unmarshal(state, &t) != nil || t.Dialect != dialect || t.Model != model {
		return nil
	}
	return &t
}

// TurnPiece is a part of an assistant's message: exactly one of its fields is set.
type TurnPiece struct {
	State json.RawMessage // signed thinking, as it was kept
	Text  string
	Call  *chat.PastCall // points into the message
}

// Arrange returns the parts of an assistant's message in the order of the turn. What the caller has left out
// stays out, and what the caller has added comes last. t may be nil: then the text comes before the calls.
//
// The caller's message wins in every conflict: the turn only says where things go, and adds the
// thinking.
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

// split cuts a text into the texts that the model wrote. If the lengths do not fit, the caller has changed
// the text, and split returns it whole.
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

// arrangement is the state of Arrange.
type arrangement struct {
	pieces []TurnPiece     // placed so far
	texts  []string        // not placed yet
	calls  []chat.PastCall // all calls of the message
	placed []string        // the ids of the calls that are placed
}

// text places the next text, unless it is empty.
func (a *arrangement) text() {
	if len(a.texts) > 0 {
		if a.texts[0] != "" {
			a.pieces = append(a.pieces, TurnPiece{Text: a.texts[0]})
		}
		a.texts = a.texts[1:]
	}
}

// call places the call with this id, once.
func (a *arrangement) call(id string) {
	for i := range a.calls {
		if c := &a.calls[i]; c.ID == id && !slices.Contains(a.placed, id) {
			a.placed = append(a.placed, id)
			a.pieces = append(a.pieces, TurnPiece{Call: c})
		}
	}
}

// rest places all texts and calls that have no place yet.
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
