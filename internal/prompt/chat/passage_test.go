package chat

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sluice/internal/kit/jsonscan"
)

// join returns the text of all pieces.
func join(t Passage) string {
	var b strings.Builder
	for p := range t.Pieces() {
		b.Write(p)
	}
	return b.String()
}

func TestPassages(t *testing.T) {
	t.Parallel()
	var got []string
	for text := range good(t, "tool exchange").Passages() {
		got = append(got, join(text))
	}
	want := []string{"weather?", "weather", `{"city":"Bern"}`, "time", "", "12:00", `{"celsius":7}`, "Cold.", "thanks"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("Passages = %q, want %q", got, want)
	}
	got = nil
	for text := range good(t, "MCP").Passages() {
		got = append(got, join(text))
	}
	if len(got) != 2 || got[0] != "hi" || !strings.Contains(got[1], "f.g-h_1") {
		t.Errorf("Passages with MCP servers = %q, want the message and the function", got)
	}
}

// TestPassageSample takes samples of texts with and without escapes. A sample is always a part of its text.
func TestPassageSample(t *testing.T) {
	t.Parallel()
	scraps := []string{"a", "word ", "\n", `"`, `\`, `\\`, "é", "漢", "😀", "u0041", "ud83d"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom(scraps)).Draw(t, "scraps"), "")
		raw := jsonscan.AppendQuoted(nil, text)
		if rapid.Bool().Draw(t, "ascii") {
			raw = asciiQuoted(text)
		}
		whole := Passage{raw[1 : len(raw)-1], true}
		if got := join(whole); got != text {
			t.Fatalf("Pieces(%s) = %q, want %q", raw, got, text)
		}
		at, n := rapid.IntRange(0, len(raw)).Draw(t, "at"), rapid.IntRange(1, 20).Draw(t, "n")
		got := join(whole.Sample(at, n))
		if !strings.Contains(text, got) || !utf8.ValidString(got) {
			t.Fatalf("Sample(%s, %d, %d) = %q, want a part of %q", raw, at, n, got, text)
		}
	})
}

// asciiQuoted returns the text as JSON, with escapes for everything beyond ASCII, as many libraries write it.
func asciiQuoted(s string) []byte {
	const hex = "0123456789abcdef"
	dst := []byte{'"'}
	unit := func(u rune) { dst = append(dst, '\\', 'u', hex[u>>12&15], hex[u>>8&15], hex[u>>4&15], hex[u&15]) }
	for _, r := range s {
		switch {
		case r >= 0x10000:
			unit(0xd800 + (r-0x10000)>>10)
			unit(0xdc00 + (r-0x10000)&0x3ff)
		case r >= 0x80 || r < ' ':
			unit(r)
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		default:
			dst = append(dst, byte(r))
		}
	}
	return append(dst, '"')
}
