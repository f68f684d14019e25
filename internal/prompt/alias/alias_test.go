package alias_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sluice/internal/prompt/alias"
)

func TestFind(t *testing.T) {
	t.Parallel()
	table, err := alias.New(map[string]string{
		"gpt-4o": "lab/small", "gpt-*": "lab/large", "gpt-4*": "lab/mid", "claude-sonnet-*": "lab/large", "vendor/x": "lab/x",
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"gpt-4o": "lab/small", "gpt-4o-mini": "lab/mid", "gpt-4": "lab/mid", "gpt-5": "lab/large", "gpt-": "lab/large", "gpt": "",
		"claude-sonnet-4-5": "lab/large", "claude-sonnet-": "lab/large", "claude-sonnet": "", "vendor/x": "lab/x", "vendor/xy": "",
		"": "", "gpt-*": "lab/large", "GPT-4o": "", "gpt-4 o": "", "gpt-\x1b[0m": "", "gpt-é": "", "gpt-" + strings.Repeat("x", 197): "", "gpt-" + strings.Repeat("x", 196): "lab/large",
	} {
		if got, ok := table.Find(name); got != want || ok != (want != "") {
			t.Errorf("Find(%q) = %q, %v, want %q", name, got, ok, want)
		}
	}
	if got := table.Of("lab/large"); !slices.Equal(got, []string{"claude-sonnet-*", "gpt-*"}) {
		t.Errorf("Of(lab/large) = %q", got)
	}
	again, err := alias.Parse(table.Text())
	if err != nil || !maps.Equal(again.Names(), table.Names()) {
		t.Errorf("Parse(Text()) = %v, %v, want %v", again.Names(), err, table.Names())
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	table, err := alias.New(nil)
	if _, ok := table.Find("x"); ok || err != nil || table != nil || table.Text() != "" || len(table.Names()) != 0 || table.Of("x") != nil {
		t.Errorf("New(nil) = %v, %v, want a table without names", table, err)
	}
	if table, err = alias.Parse(""); table != nil || err != nil {
		t.Errorf(`Parse("") = %v, %v, want no table`, table, err)
	}
	if all, err := alias.New(map[string]string{"*": "lab/x"}); err != nil {
		t.Errorf("New(*) = %v", err)
	} else if got, _ := all.Find("whatever"); got != "lab/x" {
		t.Errorf("Find with the pattern * = %q, want lab/x", got)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range alias.Most + 1 {
		many[fmt.Sprint("n", i)] = "m"
	}
	for want, names := range map[string]map[string]string{
		`an alias has 1 to 200 visible ASCII characters and no spaces; got ""`:    {"": "m"},
		`an alias has 1 to 200 visible ASCII characters and no spaces; got "a b"`: {"a b": "m"},
		`only the last character of an alias may be an asterisk; got "a*b"`:       {"a*b": "m"},
		`only the last character of an alias may be an asterisk; got "**"`:        {"**": "m"},
		`the alias "a" has no model`:                                              {"a": ""},
		`there are 1001 aliases; the most is 1000`:                                many,
	} {
		if _, err := alias.New(names); err == nil || err.Error() != want {
			t.Errorf("New(%d names) = %v, want %s", len(names), err, want)
		}
	}
	if _, err := alias.Parse("[]"); err == nil {
		t.Error("Parse([]) = nil, want an error")
	}
}
