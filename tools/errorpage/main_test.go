package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
)

const root = "../.."

func TestPageIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := page(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", "errors.md"))
	if err != nil || string(got) != want {
		t.Errorf("docs/errors.md is not what the code says (%v): run go generate ./cmd/sluice", err)
	}
}

// Every kind has an entry with a cause and a remedy, and at least one sentence of the source, except that of our bugs.
func TestPageHasEveryKind(t *testing.T) {
	t.Parallel()
	text, err := page(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range fault.Kinds() {
		_, entry, ok := strings.Cut(text, fmt.Sprintf("\n## %d %s\n\n", k.Status(), k))
		entry, _, _ = strings.Cut(entry, "\n## ")
		if !ok || len(entry) < 80 || strings.Contains(entry, "** \n") || k != fault.Internal && !strings.Contains(entry, "\n- ") {
			t.Errorf("the entry of %d %s is %q, want a cause, a remedy and a sentence", k.Status(), k, entry)
		}
	}
	if len(constants) != len(fault.Kinds()) {
		t.Errorf("constants has %d names, and package fault %d kinds", len(constants), len(fault.Kinds()))
	}
	for kind, want := range map[string]string{"429": "- The limit is … requests a minute; … are used", "401": `- No API key was given.`, "431": "larger than 16 KiB"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q of %s", want, kind)
		}
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"The key %q has %d of %s, or 100%%.": `The key "…" has … of …, or 100%.`,
		"set n to %[1]d or `max_tokens`":     "set n to … or \\`max\\_tokens\\`",
		"%s %s":                              "",
		"%s must":                            "",
	} {
		if got := readable(format); got != want {
			t.Errorf("readable(%q) = %q, want %q", format, got, want)
		}
	}
}
