package claude_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
	"sluice/internal/upstream/provider/providertest"
)

// arranged is an arrangement as a line.
func arranged(pieces []claude.TurnPiece) string {
	var words []string
	for _, p := range pieces {
		switch {
		case p.State != nil:
			words = append(words, string(p.State))
		case p.Call != nil:
			words = append(words, "call:"+p.Call.ID)
		default:
			words = append(words, p.Text)
		}
	}
	return strings.Join(words, " ")
}

func TestTurn(t *testing.T) {
	t.Parallel()
	turn := &claude.Turn{Dialect: "x", Model: "m"}
	for _, b := range []claude.TurnBlock{
		{State: json.RawMessage("1")}, {Size: 3}, {Size: 2}, {State: json.RawMessage("2")}, {Size: 1}, {Call: "a"}, {State: json.RawMessage("3")}, {Call: "b"},
	} {
		turn.Add(b)
	}
	call := &provider.Call{Upstream: "m", Memory: providertest.NewMemory()}
	turn.Keep(t.Context(), call, claude.Place{}, [32]byte{})
	message := func(text, ids string) *chat.Message {
		m := &chat.Message{Role: chat.RoleAssistant, Content: chat.Text(text)}
		for _, id := range strings.Fields(ids) {
			m.ToolCalls = append(m.ToolCalls, chat.PastCall{ID: id})
		}
		return m
	}
	for _, tt := range []struct {
		name string
		m    *chat.Message
		want string
	}{
		{"as it was", message("hello!", "a b"), "1 hello 2 ! call:a 3 call:b"},
		{"without its text", message("", "a b"), "1 2 call:a 3 call:b"},
		{"with a shorter text", message("hi", "a b"), "1 hi 2 call:a 3 call:b"},
		{"with a longer text", message("hello, world", "a b"), "1 hello, world 2 call:a 3 call:b"},
		{"in another order", message("hello!", "b a"), "1 hello 2 ! call:a 3 call:b"},
		{"with one call less", message("hello!", "b"), "1 hello 2 ! 3 call:b"},
		{"with one call more", message("hello!", "a c b"), "1 hello 2 ! call:a 3 call:b call:c"},
		{"of another turn", message("hello!", "c"), "hello! call:c"},
		{"without calls", message("hello!", ""), "hello!"},
	} {
		if got := arranged(claude.RecallTurn(t.Context(), call, "x", tt.m).Arrange(tt.m)); got != tt.want {
			t.Errorf("%s: Arrange = %q, want %q", tt.name, got, tt.want)
		}
	}
	m := message("", "a")
	if got := claude.RecallTurn(t.Context(), call, "y", m); got != nil {
		t.Errorf("RecallTurn in another dialect = %+v, want none", got)
	}
	for _, other := range []*provider.Call{{Upstream: "n", Memory: call.Memory}, {Upstream: "m"}} {
		if got := claude.RecallTurn(t.Context(), other, "x", m); got != nil {
			t.Errorf("RecallTurn of %q = %+v, want none", other.Upstream, got)
		}
	}
}

// A turn that nobody signed is not worth keeping.
func TestTurnUnsigned(t *testing.T) {
	t.Parallel()
	turn := &claude.Turn{Dialect: "x", Model: "m"}
	turn.Add(claude.TurnBlock{Size: 3})
	turn.Add(claude.TurnBlock{Call: "a"})
	call := &provider.Call{Upstream: "m", Memory: providertest.NewMemory()}
	turn.Keep(t.Context(), call, claude.Place{}, [32]byte{})
	if got := claude.RecallTurn(t.Context(), call, "x", &chat.Message{ToolCalls: []chat.PastCall{{ID: "a"}}}); got != nil {
		t.Errorf("RecallTurn = %+v, want nothing kept", got)
	}
}
