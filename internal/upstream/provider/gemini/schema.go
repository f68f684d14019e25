package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/kit/jsonscan"
)

// Schemas go up as JSON Schema (parametersJsonSchema, responseJsonSchema), of which the vendor documents the keywords
// that it knows; it refuses others. They are left out, or replaced by a near one. An answer may then be a little
// wider than the caller's schema, but the call does not fail. The order of members is kept, since the model writes
// them in that order.

// keywords are the keywords that the vendor documents.
var keywords = []string{
	"$id", "$anchor", "$defs", "$ref", "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems",
	"minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required", "propertyOrdering",
}

// formats are the values of format that the vendor documents, as JSON.
var formats = []string{`"date-time"`, `"date"`, `"time"`}

// parameters returns the schema of a function's arguments. It returns nil for a function without arguments: the
// vendor requires that an object without properties is left out. raw may be nil.
func parameters(raw []byte) (json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	n, err := parseSchema(raw)
	if err != nil {
		return nil, err
	}
	n.reduce()
	// A schema that could describe members in any other way than by properties is kept.
	if extra := n.get("additionalProperties"); !n.has("$ref") && !n.has("anyOf") && !n.has("oneOf") && (extra == nil || !extra.isObject) {
		if p := n.get("properties"); p == nil || len(p.members) == 0 {
			return nil, nil
		}
	}
	return n.append(nil), nil
}

// subset returns a schema with the keywords that the vendor knows.
func subset(raw []byte) (json.RawMessage, error) {
	n, err := parseSchema(raw)
	if err != nil {
		return nil, err
	}
	n.reduce()
	return n.append(nil), nil
}

// node is a JSON value whose members keep their order. encoding/json would sort them.
type node struct {
	isObject, isArray bool
	members           []member // of an object
	elements          []*node  // of an array
	scalar            []byte   // the JSON of any other value
}

// member is a member of an object. Keys may repeat, as in the caller's JSON.
type member struct {
	key   string
	value *node // never nil
}

// parseSchema parses the JSON of a schema.
func parseSchema(raw []byte) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	// A float64 would change large numbers.
	d.UseNumber()
	n, err := parseNode(d)
	if err != nil {
		return nil, fmt.Errorf("reading a schema: %w", err)
	}
	return n, nil
}

// parseNode reads one value. Package chat has bounded its depth.
// Tokens come in the order of the text, which is what keeps the order of members.
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
				key, _ = k.(string) // the decoder accepts only strings as keys
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
		// The closing bracket.
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

// append appends the JSON of the value to dst and returns it.
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

// get returns the first member with the key, or nil.
func (n *node) get(key string) *node {
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// has reports whether there is a member with the key.
func (n *node) has(key string) bool { return n.get(key) != nil }

// rename gives a member another key, unless there is a member with that key already: then the caller's own value of
// that key is kept, and the other is deleted later as unknown.
func (n *node) rename(from, to string) {
	for i := range n.members {
		if n.members[i].key == from && !n.has(to) {
			n.members[i].key = to
		}
	}
}

// reduce rewrites a schema, and all schemas inside it, with the keywords that the vendor knows.
//
// The steps depend on each other: allOf is merged first, because what it brings along must be
// renamed and reduced, too.
func (n *node) reduce() {
	if !n.isObject { // true and false become the schema of anything
		*n = node{isObject: true}
		return
	}
	// First everything moves to the keywords that are known, then the others are deleted.
	n.mergeAll()
	n.rename("definitions", "$defs")
	// An exclusive bound becomes an inclusive one: the schema gets wider by one value.
	n.rename("exclusiveMinimum", "minimum")
	n.rename("exclusiveMaximum", "maximum")
	n.tuple()
	n.constant()
	isRef := n.has("$ref")
	n.members = slices.DeleteFunc(n.members, func(m member) bool {
		// The vendor refuses other keywords beside a reference.
		return !m.value.fits(m.key) || isRef && !strings.HasPrefix(m.key, "$")
	})
	for _, m := range n.members {
		m.value.reduceBelow(m.key)
	}
}

// fits reports whether the vendor accepts the keyword with this value. It removes values of an enum that the vendor
// does not accept.
func (n *node) fits(key string) bool {
	switch key {
	case "format":
		return slices.Contains(formats, string(n.scalar))
	case "minimum", "maximum": // in older drafts the exclusive ones, which were renamed to these, are booleans
		return len(n.scalar) > 0 && n.scalar[0] != 't' && n.scalar[0] != 'f'
	case "enum":
		n.elements = slices.DeleteFunc(n.elements, func(e *node) bool { // only strings and numbers stay
			return len(e.scalar) == 0 || e.scalar[0] == 't' || e.scalar[0] == 'f' || e.scalar[0] == 'n'
		})
		return len(n.elements) > 0
	}
	return slices.Contains(keywords, key)
}

// reduceBelow reduces the schemas inside the value of a keyword.
func (n *node) reduceBelow(key string) {
	switch key {
	// Objects whose members are schemas, under names that are no keywords.
	case "properties", "$defs":
		for _, m := range n.members {
			m.value.reduce()
		}
	// Arrays of schemas.
	case "anyOf", "oneOf", "prefixItems":
		for _, e := range n.elements {
			e.reduce()
		}
	// Schemas; additionalProperties may also be a boolean, which the vendor accepts.
	case "items":
		n.reduce()
	case "additionalProperties":
		if n.isObject {
			n.reduce()
		}
	// The definitions have been renamed, so references to them must follow.
	case "$ref":
		n.scalar = bytes.Replace(n.scalar, []byte(`"#/definitions/`), []byte(`"#/$defs/`), 1)
	}
}

// tuple rewrites the older form of a tuple, an array under items, to the newer one, prefixItems.
func (n *node) tuple() {
	if items := n.get("items"); items != nil && items.isArray {
		n.rename("items", "prefixItems")
	}
}

// constant rewrites const to an enum of one value.
func (n *node) constant() {
	for i := range n.members {
		if n.members[i].key == "const" && !n.has("enum") {
			n.members[i] = member{"enum", &node{isArray: true, elements: []*node{n.members[i].value}}}
		}
	}
}

// mergeAll moves the members of the schemas under allOf, which the vendor does not know, into the schema itself. Of a
// keyword that both have, the schema's own is kept, except for properties and required, which are joined.
//
// Where two schemas bound the same keyword, the result may allow more than both together. It never
// allows less.
func (n *node) mergeAll() {
	all := n.get("allOf")
	if all == nil {
		return
	}
	n.members = slices.DeleteFunc(n.members, func(m member) bool { return m.key == "allOf" })
	for _, e := range all.elements {
		if e.isObject { // which may have an allOf of its own
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
