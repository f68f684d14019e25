package provider_test

import (
	"regexp"
	"strings"
	"testing"

	"sluice/internal/provider"
)

func TestToolNames(t *testing.T) {
	t.Parallel()
	var n provider.ToolNames
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
		got := provider.WireID(id)
		if !form.MatchString(got) || seen[got] || form.MatchString(id) != (got == id) || provider.WireID(id) != got {
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
		if got := string(provider.ObjectSchema(in)); got != want {
			t.Errorf("ObjectSchema(%s) = %s, want %s", schema, got, want)
		}
	}
}

func TestObjectArguments(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "{}", " ": "{}", `{"a":1}`: `{"a":1}`, `{"a":`: `{"arguments":"{\"a\":"}`, "7": `{"arguments":"7"}`, `[1]`: `{"arguments":"[1]"}`,
	} {
		if got := string(provider.ObjectArguments(in)); got != want {
			t.Errorf("ObjectArguments(%q) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{"": "{}", "null": "{}", `{ "a": 1 }`: `{"a":1}`, "{": "{}"} {
		if got := provider.ArgumentsText([]byte(in)); got != want {
			t.Errorf("ArgumentsText(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestImageData(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]string{
		"data:image/png;base64,AAAA": {"image/png", "AAAA"},
		"DATA:image/JPG;base64,BB==": {"image/jpeg", "BB=="},
		"https://example.com/a,b":    {},
		"":                           {},
	} {
		mediaType, data, ok := provider.ImageData(url)
		if mediaType != want[0] || data != want[1] || ok != (want[0] != "") {
			t.Errorf("ImageData(%q) = %q, %q, %t, want %q", url, mediaType, data, ok, want)
		}
	}
}
