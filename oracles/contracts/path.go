package contracts

import (
	"fmt"
	"maps"
	"strings"
)

// Path leads from the root of a document to a name: messages[]{user}.content[]{image_url}.image_url.detail=low.
type Path []Step

// Step is one step of a Path. Text is the name of a member, the tag of a variant, or a value.
type Step struct {
	Kind StepKind
	Text string
}

// StepKind is the character that begins a step in writing.
type StepKind byte

const (
	Member  StepKind = '.'
	Element StepKind = '['
	Variant StepKind = '{'
	Value   StepKind = '='
)

// tagKeys are the members that may tell the variants of a union apart, as in extract.mjs.
var tagKeys = []string{"type", "role", "object", "mode"}

// ParsePath reads a path.
func ParsePath(text string) (p Path, err error) {
	rest := text
	if rest != "" && !strings.ContainsRune(".[{=", rune(rest[0])) {
		rest = "." + rest
	}
	for rest != "" {
		kind, end := StepKind(rest[0]), 0
		rest = rest[1:]
		switch kind {
		case Element:
			end = strings.IndexByte(rest, ']')
		case Variant:
			end = strings.IndexByte(rest, '}')
		case Value:
			end = len(rest)
		case Member:
			if end = strings.IndexAny(rest, ".[{="); end < 0 {
				end = len(rest)
			}
		default:
			end = -1
		}
		if end < 0 {
			return nil, fmt.Errorf("%q is no path", text)
		}
		p, rest = append(p, Step{kind, rest[:end]}), rest[end:]
		if kind == Element || kind == Variant {
			rest = rest[1:]
		}
	}
	return p, nil
}

func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte(byte(s.Kind))
		b.WriteString(s.Text)
		switch s.Kind {
		case Element:
			b.WriteByte(']')
		case Variant:
			b.WriteByte('}')
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// Last is the text that names the end of the path: a member, a tag or a value.
func (p Path) Last() string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].Text != "" {
			return p[i].Text
		}
	}
	return ""
}

// Find returns the values that the path leads to in a document.
func (p Path) Find(doc any) []any {
	if len(p) == 0 {
		return []any{doc}
	}
	s, rest := p[0], p[1:]
	var found []any
	switch v := doc.(type) {
	case map[string]any:
		inner, ok := v[s.Text]
		if s.Kind == Member && ok {
			found = rest.Find(inner)
		}
		if s.Kind == Variant && tagged(v, s.Text) {
			found = rest.Find(v)
		}
	case []any:
		for _, e := range v {
			if s.Kind == Element {
				found = append(found, rest.Find(e)...)
			}
		}
	case string:
		if s.Kind == Value && v == s.Text {
			found = []any{v}
		}
	}
	return found
}

func tagged(object map[string]any, tag string) bool {
	for _, key := range tagKeys {
		if object[key] == tag {
			return true
		}
	}
	return false
}

// Samples makes documents that have a name in them.
type Samples struct {
	least map[string]any // by the name in writing
}

// NewSamples returns the samples of some lists.
func NewSamples(lists ...*List) *Samples {
	s := &Samples{least: map[string]any{}}
	for _, l := range lists {
		for _, n := range l.Names {
			s.least[n.String()] = n.Least
		}
	}
	return s
}

// Of returns the value that base must be replaced with so that it has a value at the end of the path of a name. Objects on the
// way have what their types require, arrays one element. The base is not changed.
func (s *Samples) Of(root string, base any, path Path, value any) any {
	return s.put(root, base, nil, path, value)
}

func (s *Samples) put(root string, here any, done, rest Path, value any) any {
	if len(rest) == 0 {
		return value
	}
	step, next := rest[0], append(done[:len(done):len(done)], rest[0])
	if least, ok := s.smallest(root, next); ok && step.Kind == Variant {
		here = least
	} else if ok && step.Kind == Element {
		here = []any{least}
	}
	switch step.Kind {
	case Element:
		var first any
		if list, ok := here.([]any); ok && len(list) > 0 {
			first = list[0]
		}
		return []any{s.put(root, first, next, rest[1:], value)}
	case Variant:
		return s.put(root, here, next, rest[1:], value)
	case Value:
		return value
	}
	object := map[string]any{}
	if known, ok := here.(map[string]any); ok {
		object = maps.Clone(known)
	}
	inner, ok := object[step.Text]
	if !ok || len(done) > 0 {
		if least, ok := s.smallest(root, next); ok {
			inner = least
		}
	}
	object[step.Text] = s.put(root, inner, next, rest[1:], value)
	return object
}

// smallest looks for the least value of a path. A beta lists only what it adds.
func (s *Samples) smallest(root string, path Path) (any, bool) {
	least, ok := s.least[root+" "+path.String()]
	if !ok {
		least, ok = s.least[strings.Replace(root, "-beta", "", 1)+" "+path.String()]
	}
	return least, ok
}
