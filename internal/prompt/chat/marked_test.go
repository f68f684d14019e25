package chat_test

import (
	"testing"

	"sluice/internal/prompt/chat"
)

func TestMarkedByCaller(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		body string
		want bool
	}{
		{`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`, false},
		{`{"model":"m","messages":[{"role":"user","content":"What is \"cache_control\"?"}]}`, false},
		{`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}]}`, true},
		{`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"Hi","prompt_cache_breakpoint":{}}]}]}`, true},
		{`{"model":"m","cache_control":{"type":"ephemeral"},"messages":[{"role":"user","content":"Hi"}]}`, true},
		{`{"model":"m","messages":[{"role":"user","content":"caf\u00e9"}]}`, false},
	} {
		req, err := chat.Parse([]byte(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if got := req.MarkedByCaller(); got != tt.want {
			t.Errorf("MarkedByCaller of %s = %t, want %t", tt.body, got, tt.want)
		}
	}
}
