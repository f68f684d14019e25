// Package alias maps names of models that callers use to ids of the catalog.
//
// Clients that know one vendor ask for that vendor's names, such as claude-sonnet-4-5. A Table says which model of the
// catalog they mean: by the exact name, or by a pattern that ends with an asterisk. The exact name wins over patterns, and
// of patterns the longest. A target is the id of a model, never another alias. Whether there is such a model is not decided
// here; see catalog.
package alias

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// Most is how many names a table has at most.
	Most = 1000
	// maxName is the length of a name at most, in bytes. Names that callers send are stored with their settlements.
	maxName = 200
)

// Table maps names to ids. It does not change. A nil table is empty.
type Table struct {
	names    map[string]string // as given
	patterns []pattern         // the longest first
}

// pattern is a name that ends with an asterisk, without it.
type pattern struct{ prefix, target string }

// New returns a table of the names and their targets. It returns nil for no names.
func New(names map[string]string) (*Table, error) {
	if len(names) == 0 {
		return nil, nil
	}
	if len(names) > Most {
		return nil, fmt.Errorf("there are %d aliases; the most is %d", len(names), Most)
	}
	t := &Table{names: maps.Clone(names)}
	for name, target := range names {
		if err := Check(name); err != nil {
			return nil, err
		}
		if target == "" {
			return nil, fmt.Errorf("the alias %q has no model", name)
		}
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			t.patterns = append(t.patterns, pattern{prefix, target})
		}
	}
	slices.SortFunc(t.patterns, func(a, b pattern) int { return len(b.prefix) - len(a.prefix) })
	return t, nil
}

// Check returns what is wrong with a name or pattern, or nil.
func Check(name string) error {
	switch {
	case !plain(name):
		return fmt.Errorf("an alias has 1 to %d visible ASCII characters and no spaces; got %q", maxName, name[:min(len(name), 60)])
	case strings.Contains(name[:len(name)-1], "*"):
		return fmt.Errorf("only the last character of an alias may be an asterisk; got %q", name)
	}
	return nil
}

// plain reports whether a name can be an alias, or match one. It keeps what callers send out of terminals and bounds it.
func plain(name string) bool {
	for i := range len(name) {
		if name[i] <= ' ' || name[i] >= 0x7f {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// Find returns the id that a name stands for, and reports whether there is one.
func (t *Table) Find(name string) (target string, ok bool) {
	if t == nil || !plain(name) {
		return "", false
	}
	// A name with an asterisk is a pattern, which nobody can ask for.
	if target, ok = t.names[name]; ok && name[len(name)-1] != '*' {
		return target, true
	}
	for i := range t.patterns {
		if p := &t.patterns[i]; strings.HasPrefix(name, p.prefix) {
			return p.target, true
		}
	}
	return "", false
}

// Names returns a copy of the names and patterns with their targets.
func (t *Table) Names() map[string]string {
	if t == nil {
		return map[string]string{}
	}
	return maps.Clone(t.names)
}

// Equal reports whether two tables say the same.
func (t *Table) Equal(other *Table) bool { return maps.Equal(t.Names(), other.Names()) }

// Of returns the names and patterns that stand for an id, in order.
func (t *Table) Of(id string) (names []string) {
	if t == nil {
		return nil
	}
	for name, target := range t.names {
		if target == id {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Text returns the table as a JSON object, or "" if it is empty.
func (t *Table) Text() string {
	if t == nil {
		return ""
	}
	b, err := json.Marshal(t.names)
	if err != nil {
		panic("alias: " + err.Error()) // a map of strings can always be encoded
	}
	return string(b)
}

// Parse is the inverse of Text.
func Parse(text string) (*Table, error) {
	if text == "" {
		return nil, nil
	}
	var names map[string]string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return nil, err
	}
	return New(names)
}
