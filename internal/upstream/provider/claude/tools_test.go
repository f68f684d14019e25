package claude_test

import (
	"regexp"
	"strings"
	"testing"

	"sluice/internal/upstream/provider/claude"
)

func TestToolNames(t *testing.T) {
	t.Parallel()
	var n claude.ToolNames
	for _, tt := range []struct {
		name, wire string
		ok         bool
	}{{"clock.now", "clock_now", true}, {"plain", "plain", true}, {"clock_now", "clock_now", false}, {"a.b.c", "a_b_c", true}} {
		if wire, ok := n.Add(tt.name); wire != tt.wire || ok != tt.ok {
			t.Errorf("Add(%q) = %q, %t, want %q, %t", tt.name, wire, ok, tt.wire, tt.ok)
		}
	}
	for wire, want := range map[string]string{"clock_now": "clock.now", "plain": "plain", "other": "other"} {
		if got := n.Original(wire); got != want {
			t.Errorf("Original(%q) = %q, want %q", wire, got, want)
		}
	}
}

func TestWireID(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	seen := map[string]bool{}
	for _, id := range []string{"toolu_01-x", "functions.f:0", "functions.f:1", "é", strings.Repeat("a", 65), strings.Repeat("a", 64)} {
		got := claude.WireID(id)
		if !form.MatchString(got) || seen[got] || form.MatchString(id) != (got == id) || claude.WireID(id) != got {
			t.Errorf("WireID(%q) = %q, want a fitting id of its own, and the same each time", id, got)
		}
		seen[got] = true
	}
}

func TestObjectSchema(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		``:                           `{"type":"object"}`,
		`{}`:                         `{"type":"object"}`,
		`{ }`:                        `{"type":"object"}`,
		`{"type":"object"}`:          `{"type":"object"}`,
		` {"properties":{}}`:         `{"type":"object","properties":{}}`,
		`{"type":["object","null"]}`: `{"type":["object","null"]}`,
	} {
		var in []byte
		if schema != "" {
			in = []byte(schema)
		}
		if got := string(claude.ObjectSchema(in)); got != want {
			t.Errorf("ObjectSchema(%s) = %s, want %s", schema, got, want)
		}
	}
}
