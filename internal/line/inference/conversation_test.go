package inference_test

import (
	"strings"
	"testing"

	"sluice/internal/line/inference"
	"sluice/internal/prompt/chat"
)

// parse returns a request with these messages.
func parse(t testing.TB, messages string) *chat.Request {
	t.Helper()
	req, err := chat.Parse([]byte(`{"model":"m","messages":[` + messages + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestConversationName(t *testing.T) {
	t.Parallel()
	const first = `{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}`
	one, later := parse(t, first), parse(t, first+`,{"role":"assistant","content":"Hi"},{"role":"user","content":"More"}`)
	name := inference.Conversation("acct_1", "", one)
	if len(name) != 32 || strings.Trim(name, "0123456789abcdef") != "" {
		t.Fatalf("Conversation = %q, want 32 hexadecimal digits", name)
	}
	if got := inference.Conversation("acct_1", "", later); got != name {
		t.Errorf("Conversation of a later turn = %s, want %s", got, name)
	}
	named := inference.Conversation("acct_1", "run-7", one)
	if got := inference.Conversation("acct_1", "run-7", parse(t, `{"role":"user","content":"Anything"}`)); got != named {
		t.Errorf("Conversation of the same session = %s, want %s", got, named)
	}
	for what, got := range map[string]string{
		"another account":        inference.Conversation("acct_2", "", one),
		"another opening":        inference.Conversation("acct_1", "", parse(t, `{"role":"system","content":"Be brief."},{"role":"user","content":"Good day"}`)),
		"another system":         inference.Conversation("acct_1", "", parse(t, `{"role":"system","content":"Be long."},{"role":"user","content":"Hello"}`)),
		"a session":              named,
		"the session of another": inference.Conversation("acct_2", "run-7", one),
	} {
		if got == name || what != "a session" && got == named {
			t.Errorf("Conversation of %s = %s, the same as another", what, got)
		}
	}
	if got := inference.Conversation("acct_1", "run-7", nil); got != "" {
		t.Errorf("Conversation without a request = %q, want none", got)
	}
}

func BenchmarkConversation(b *testing.B) {
	req := parse(b, `{"role":"system","content":"`+strings.Repeat("Be brief. ", 5000)+`"},{"role":"user","content":"`+strings.Repeat("Hello. ", 500)+`"}`)
	for _, session := range []string{"", "4b1c7c1e-6f0e-4f5e-9d0e-9b4f2f1f7f5a"} {
		b.Run("session "+session, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				inference.Conversation("acct_0123456789abcdef", session, req)
			}
		})
	}
}
