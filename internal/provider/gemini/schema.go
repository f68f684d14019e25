package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/jsonscan"
)

// Schemas go up as JSON Schema (parametersJsonSchema, responseJsonSchema), of which the vendor
// documents the keywords it knows. The others are left out, or, where there is a near one, put into
// that: an answer may then be a little wider than the caller's schema, but the call does not fail.
// The order of members is kept, since it is the order that the model writes them in.

// keywords are those that the vendor documents.
var keywords = []string{
	"$id", "$anchor", "$defs", "$ref", "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems",
	"minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required", "propertyOrdering",
}

// formats are the values of format that it documents.
var formats = []string{`"date-time"`, `"date"`, `"time"`}

// parameters is the schema of a function's arguments; nil where there are none, which the vendor
// wants left out.
func parameters(raw []byte) (json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	n, err := parseSchema(raw)
	if err != nil {
		return nil, err
	}
	n.reduce()
	if extra := n.get("additionalProperties"); !n.has("$ref") && !n.has("anyOf") && !n.has("oneOf") && (extra == nil || !extra.isObject) {
		if p := n.get("properties"); p == nil || len(p.members) == 0 {
			return nil, nil
		}
	}
	return n.append(nil), nil
}

// subset is a schema with the keywords that the vendor knows.
func subset(raw []byte) (json.RawMessage, error) {
	n, err := parseSchema(raw)
	if err != nil {
		return nil, err
	}
	n.reduce()
	return n.append(nil), nil
}

// node is a JSON value whose members keep their order.
type node struct {
	isObject, isArray bool
	members           []member
	elements          []*node
	scalar            []byte // JSON, where it is neither
}

type member struct {
	key   string
	value *node
}

func parseSchema(raw []byte) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	n, err := parseNode(d)
	if err != nil {
		return nil, fmt.Errorf("reading a schema: %w", err)
	}
	return n, nil
}

func parseNode(d *json.Decoder) (*node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	n := &node{}
	switch v := token.(type) {
	case json.Delim:
		n.isObject, n.isArray = v == '{', v == '['
		for d.More() {
			var key string
			if n.isObject {
				k, err := d.Token()
				if err != nil {
					return nil, err
				}
				key, _ = k.(string) // the decoder accepts no other key
			}
			child, err := parseNode(d)
			if err != nil {
				return nil, err
			}
			if n.isObject {
				n.members = append(n.members, member{key, child})
			} else {
				n.elements = append(n.elements, child)
			}
		}
		_, err = d.Token()
	case string:
		n.scalar = jsonscan.AppendQuoted(nil, v)
	case json.Number:
		n.scalar = []byte(v)
	case bool:
		n.scalar = fmt.Append(nil, v)
	default:
		n.scalar = []byte("null")
	}
	return n, err
}

// append appends the value as JSON.
func (n *node) append(dst []byte) []byte {
	switch {
	case n.isObject:
		dst = append(dst, '{')
		for i, m := range n.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsonscan.AppendQuoted(dst, m.key)
			dst = append(dst, ':')
			dst = m.value.append(dst)
		}
		return append(dst, '}')
	case n.isArray:
		dst = append(dst, '[')
		for i, e := range n.elements {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.append(dst)
		}
		return append(dst, ']')
	}
	return append(dst, n.scalar...)
}

func (n *node) get(key string) *node {
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

func (n *node) has(key string) bool { return n.get(key) != nil }

// rename gives a member another key, unless there is one already.
func (n *node) rename(from, to string) {
	for i := range n.members {
		if n.members[i].key == from && !n.has(to) {
			n.members[i].key = to
		}
	}
}

// reduce makes a schema one of the vendor's keywords.
func (n *node) reduce() {
	if !n.isObject { // true or false: anything goes
		*n = node{isObject: true}
		return
	}
	n.mergeAll()
	n.rename("definitions", "$defs")
	n.rename("exclusiveMinimum", "minimum")
	n.rename("exclusiveMaximum", "maximum")
	n.tuple()
	n.constant()
	isRef := n.has("$ref")
	n.members = slices.DeleteFunc(n.members, func(m member) bool {
		return !m.value.fits(m.key) || isRef && !strings.HasPrefix(m.key, "$") // nothing may stand beside a reference
	})
	for _, m := range n.members {
		m.value.reduceBelow(m.key)
	}
}

// fits reports whether the value may stand under the keyword.
func (n *node) fits(key string) bool {
	switch key {
	case "format":
		return slices.Contains(formats, string(n.scalar))
	case "minimum", "maximum": // exclusive ones were booleans once
		return len(n.scalar) > 0 && n.scalar[0] != 't' && n.scalar[0] != 'f'
	case "enum":
		n.elements = slices.DeleteFunc(n.elements, func(e *node) bool { // only strings and numbers
			return len(e.scalar) == 0 || e.scalar[0] == 't' || e.scalar[0] == 'f' || e.scalar[0] == 'n'
		})
		return len(n.elements) > 0
	}
	return slices.Contains(keywords, key)
}

// reduceBelow reduces the schemas inside a keyword's value.
func (n *node) reduceBelow(key string) {
	switch key {
	case "properties", "$defs":
		for _, m := range n.members {
			m.value.reduce()
		}
	case "anyOf", "oneOf", "prefixItems":
		for _, e := range n.elements {
			e.reduce()
		}
	case "items":
		n.reduce()
	case "additionalProperties":
		if n.isObject {
			n.reduce()
		}
	case "$ref":
		n.scalar = bytes.Replace(n.scalar, []byte(`"#/definitions/`), []byte(`"#/$defs/`), 1)
	}
}

// tuple writes the older form of a tuple, an array of items, in the newer one.
func (n *node) tuple() {
	if items := n.get("items"); items != nil && items.isArray {
		n.rename("items", "prefixItems")
	}
}

// constant writes a single allowed value as an enumeration.
func (n *node) constant() {
	for i := range n.members {
		if n.members[i].key == "const" && !n.has("enum") {
			n.members[i] = member{"enum", &node{isArray: true, elements: []*node{n.members[i].value}}}
		}
	}
}

// mergeAll writes the members of allOf, which is not known over there, into the schema itself. What
// both have stays the schema's own, except for properties and required, which add up.
func (n *node) mergeAll() {
	all := n.get("allOf")
	if all == nil {
		return
	}
	n.members = slices.DeleteFunc(n.members, func(m member) bool { return m.key == "allOf" })
	for _, e := range all.elements {
		if e.isObject {
			e.mergeAll()
		}
		for _, m := range e.members {
			own := n.get(m.key)
			switch {
			case own == nil:
				n.members = append(n.members, m)
			case m.key == "properties":
				for _, p := range m.value.members {
					if !own.has(p.key) {
						own.members = append(own.members, p)
					}
				}
			case m.key == "required":
				own.elements = append(own.elements, m.value.elements...)
			}
		}
	}
}
