// Package render turns the hand-written OpenAPI document into what is served: JSON and a
// reference page.
//
// The document stays a tree of ordered maps, so that fields appear everywhere in the order in
// which they were written. It is assumed to be valid OpenAPI; the tests of package api check
// that. Only the generator and those tests import this package.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// Document is a parsed OpenAPI document. It is not changed after Parse.
type Document struct {
	root yaml.MapSlice
}

// Parse parses a document in YAML. Dangling references are errors: the page would silently leave out what
// they name.
func Parse(source []byte) (*Document, error) {
	var root yaml.MapSlice
	// Ordered maps, also below the root.
	if err := yaml.UnmarshalWithOptions(source, &root, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	d := &Document{root}
	return d, d.checkRefs(root)
}

// JSON returns the document as JSON on one line, with keys in the order of the source. The same source
// always gives the same bytes, so that the generated file changes only with its source.
func (d *Document) JSON() []byte {
	return append(compact(d.root), '\n')
}

// checkRefs returns an error if a reference below v has no target.
func (d *Document) checkRefs(v any) error {
	switch v := v.(type) {
	case yaml.MapSlice:
		for _, item := range v {
			if item.Key == "$ref" && d.target(fmt.Sprint(item.Value)) == nil {
				return fmt.Errorf("reference %v leads nowhere", item.Value)
			}
			if err := d.checkRefs(item.Value); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := d.checkRefs(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// target returns the object that a reference of the form #/a/b/c names, or nil. References into other
// files are not supported; the document has none.
func (d *Document) target(ref string) yaml.MapSlice {
	var v any = d.root
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		v = get(v, name)
	}
	object, _ := v.(yaml.MapSlice)
	return object
}

// object returns v as an object, and nil if it is none. A reference is replaced by its target, and
// members beside the reference override those of the target, as OpenAPI 3.1 allows.
func (d *Document) object(v any) yaml.MapSlice {
	object, _ := v.(yaml.MapSlice)
	ref := text(object, "$ref")
	if ref == "" {
		return object
	}
	// A new list: the document itself must not change.
	var merged yaml.MapSlice
	for _, item := range object {
		if item.Key != "$ref" {
			merged = append(merged, item)
		}
	}
	// Members beside $ref come first and take precedence.
	for _, item := range d.target(ref) {
		if get(object, item.Key.(string)) == nil {
			merged = append(merged, item)
		}
	}
	return merged
}

// get returns the member name of v. It returns nil if v has none or is not an object.
func get(v any, name string) any {
	object, _ := v.(yaml.MapSlice)
	for _, item := range object {
		if item.Key == name {
			return item.Value
		}
	}
	return nil
}

// text, list and members return a member of v by type, or the zero value if it is missing or
// has another type. Most members of OpenAPI are optional, so callers need no checks.
func text(v any, name string) string {
	s, _ := get(v, name).(string)
	return s
}

func list(v any, name string) []any {
	l, _ := get(v, name).([]any)
	return l
}

func members(v any, name string) yaml.MapSlice {
	m, _ := get(v, name).(yaml.MapSlice)
	return m
}

// compact returns v as JSON without white space, with keys in order. encoding/json would sort
// them.
func compact(v any) []byte {
	var b bytes.Buffer
	switch v := v.(type) {
	case yaml.MapSlice:
		b.WriteByte('{')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(scalar(item.Key))
			b.WriteByte(':')
			b.Write(compact(item.Value))
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(compact(item))
		}
		b.WriteByte(']')
	default:
		return scalar(v)
	}
	return b.Bytes()
}

// inlineWidth is the maximum width of an object or list that an example shows on one line, in
// characters.
const inlineWidth = 52

// pretty returns v as JSON for people: short values on one line, the rest indented. json.Indent would
// put every number of a list on its own line.
func pretty(v any) string {
	var b strings.Builder
	writePretty(&b, v, "", 0)
	return b.String()
}

// writePretty writes v, which starts at the given column. Further lines start with indent.
func writePretty(b *strings.Builder, v any, indent string, column int) {
	// Short enough for one line is decided by the text itself.
	one := oneLine(v)
	var open, end string
	var items []any
	switch v := v.(type) {
	case yaml.MapSlice:
		open, end = "{", "}"
		for _, item := range v {
			items = append(items, item)
		}
	case []any:
		open, end, items = "[", "]", v
	}
	// The outermost value is always expanded.
	if len(items) == 0 || column > 0 && column+len(one) <= inlineWidth {
		b.WriteString(one)
		return
	}
	deeper := indent + "  "
	b.WriteString(open)
	for i, item := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		// The key counts toward the width of its value.
		lead := deeper
		if member, ok := item.(yaml.MapItem); ok {
			lead += string(scalar(member.Key)) + ": "
			item = member.Value
		}
		b.WriteString("\n" + lead)
		writePretty(b, item, deeper, len(lead))
	}
	b.WriteString("\n" + indent + end)
}

// oneLine returns v as JSON on one line, with a space after each comma and colon.
func oneLine(v any) string {
	var parts []string
	switch v := v.(type) {
	case yaml.MapSlice:
		for _, item := range v {
			parts = append(parts, string(scalar(item.Key))+": "+oneLine(item.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, item := range v {
			parts = append(parts, oneLine(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return string(scalar(v))
}

// scalar returns a string, number, boolean or null as JSON. Angle brackets are not escaped.
func scalar(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	// The page escapes text itself, and JSON for programs needs no escapes.
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // YAML has no value that JSON cannot represent
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
