// Package render turns the hand-kept OpenAPI document into what is served: JSON and a reference page.
//
// The document stays a tree of ordered maps, so that fields appear everywhere in the order in which they
// were written. It is trusted to be valid OpenAPI; the tests of package api see to that. Only the generator
// and those tests import this package.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// Document is a parsed OpenAPI document.
type Document struct {
	root yaml.MapSlice
}

// Parse reads a document in YAML. References that lead nowhere are errors.
func Parse(source []byte) (*Document, error) {
	var root yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(source, &root, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	d := &Document{root}
	return d, d.checkRefs(root)
}

// JSON is the document as JSON in one line, its keys in the order of the source.
func (d *Document) JSON() []byte {
	return append(compact(d.root), '\n')
}

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

// target is the object that a reference of the form #/a/b/c names, nil where there is none.
func (d *Document) target(ref string) yaml.MapSlice {
	var v any = d.root
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		v = get(v, name)
	}
	object, _ := v.(yaml.MapSlice)
	return object
}

// object is v as an object; a reference becomes its target, with the members beside the reference
// laid over it.
func (d *Document) object(v any) yaml.MapSlice {
	object, _ := v.(yaml.MapSlice)
	ref := text(object, "$ref")
	if ref == "" {
		return object
	}
	var merged yaml.MapSlice
	for _, item := range object {
		if item.Key != "$ref" {
			merged = append(merged, item)
		}
	}
	for _, item := range d.target(ref) {
		if get(object, item.Key.(string)) == nil {
			merged = append(merged, item)
		}
	}
	return merged
}

// get is the member name of v, nil where v has none or is no object.
func get(v any, name string) any {
	object, _ := v.(yaml.MapSlice)
	for _, item := range object {
		if item.Key == name {
			return item.Value
		}
	}
	return nil
}

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

// compact is v as JSON without white space, keys in order.
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

// inlineWidth is how wide an object or a list may be to stand on one line of an example.
const inlineWidth = 52

// pretty is v as JSON for people: what is short stands on one line, the rest is indented.
func pretty(v any) string {
	var b strings.Builder
	writePretty(&b, v, "", 0)
	return b.String()
}

// writePretty writes v, which begins at the column.
func writePretty(b *strings.Builder, v any, indent string, column int) {
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

// oneLine is v as JSON on one line with a space after each comma and colon.
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

// scalar is a string, number, boolean or null as JSON. Angle brackets stay as they are.
func scalar(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // YAML holds no value that JSON cannot
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
