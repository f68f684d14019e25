package gemini

import (
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Gemini refuses empty texts, so they are left out; without any other there is nothing to ask, and no need to.
func TestNoText(t *testing.T) {
	t.Parallel()
	for _, messages := range []string{
		`{"role":"user","content":""}`, `{"role":"system","content":""},{"role":"user","content":[{"type":"text","text":""}]}`, `{"role":"user","content":""},{"role":"assistant","content":""}`,
	} {
		req, err := chat.Parse([]byte(`{"model":"m","messages":[` + messages + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		out, err := translate(t.Context(), &provider.Call{Request: req, Upstream: "gemini-2.5-flash"})
		if f := fault.From(err); err == nil || f.Kind != fault.Invalid || f.Param != "messages" {
			t.Errorf("translate(%s) = %+v, %v, want a 400 at messages", messages, out, err)
		}
	}
}
