package gemini

import (
	"context"
	"encoding/json"

	"sluice/internal/upstream/continuation"
)

// signatures are the signatures of a reply's thoughts, kept under the id of the call they came with. They are
// stored as JSON: a change to the tags loses those of conversations that are under way.
type signatures struct {
	Vendor string `json:"vendor"`         // tells them from what other adapters keep
	Call   string `json:"call,omitempty"` // of the call itself
	Text   string `json:"text,omitempty"` // of the text before it
}

// vendor is the signatures.Vendor of this package.
const vendor = "gemini"

// keep stores the signatures. m may be nil. An error is ignored: the next turn is a little worse without them, but
// this reply is complete.
func keep(ctx context.Context, m *continuation.Memory, id string, s signatures) {
	s.Vendor = vendor
	if state, err := json.Marshal(s); err == nil {
		_ = m.Keep(ctx, id, state)
	}
}

// recall returns the signatures that came with a call, and reports whether there are any. m may be nil.
func recall(ctx context.Context, m *continuation.Memory, id string) (signatures, bool) {
	// Whatever goes wrong, the call is treated like one without signatures.
	var s signatures
	state, ok, err := m.Recall(ctx, id)
	if err != nil || !ok || json.Unmarshal(state, &s) != nil || s.Vendor != vendor {
		return signatures{}, false
	}
	return s, s.Call != "" || s.Text != ""
}
