package gemini

import (
	"context"
	"encoding/json"

	"sluice/internal/continuation"
)

// signatures are those of a reply's thoughts, kept under the id of the call they came with.
type signatures struct {
	Vendor string `json:"vendor"`         // states of others stand under ids of the same kind
	Call   string `json:"call,omitempty"` // of the call itself
	Text   string `json:"text,omitempty"` // of the text before it
}

const vendor = "gemini"

// keep stores the signatures. A turn whose signatures are lost goes on without them, a little less
// clever; so a store that fails is no reason to fail the reply.
func keep(ctx context.Context, m *continuation.Memory, id string, s signatures) {
	s.Vendor = vendor
	if state, err := json.Marshal(s); err == nil {
		_ = m.Keep(ctx, id, state)
	}
}

// recall returns the signatures that came with a call; false where there are none.
func recall(ctx context.Context, m *continuation.Memory, id string) (signatures, bool) {
	var s signatures
	state, ok, err := m.Recall(ctx, id)
	if err != nil || !ok || json.Unmarshal(state, &s) != nil || s.Vendor != vendor {
		return signatures{}, false
	}
	return s, s.Call != "" || s.Text != ""
}
