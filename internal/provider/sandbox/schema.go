package sandbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/jsonscan"
	"sluice/internal/lazyregexp"
)

// schema is the part of JSON Schema that the sandbox honours. What it holds stays raw until a reply
// gets to see it, and a member of the wrong form counts as none.
type schema struct {
	Ref              string            `json:"$ref"`
	Type             json.RawMessage   `json:"type"`
	Enum             []json.RawMessage `json:"enum"`
	Const            json.RawMessage   `json:"const"`
	Default          json.RawMessage   `json:"default"`
	Format           string            `json:"format"`
	Properties       json.RawMessage   `json:"properties"`
	Required         []string          `json:"required"`
	Items            json.RawMessage   `json:"items"`
	MinItems         int               `json:"minItems"`
	MaxItems         int               `json:"maxItems"`
	AnyOf            []json.RawMessage `json:"anyOf"`
	OneOf            []json.RawMessage `json:"oneOf"`
	Minimum          float64           `json:"minimum"`
	Maximum          float64           `json:"maximum"`
	ExclusiveMinimum float64           `json:"exclusiveMinimum"`
	ExclusiveMaximum float64           `json:"exclusiveMaximum"`
}

func parseSchema(raw []byte) *schema {
	s := schema{MaxItems: mostValues, Minimum: math.Inf(-1), ExclusiveMinimum: math.Inf(-1), Maximum: math.Inf(1), ExclusiveMaximum: math.Inf(1)}
	return s.with(raw)
}

// with lays another schema over this one, in place of the keyword that named it.
func (s schema) with(raw []byte) *schema {
	s.Ref, s.AnyOf, s.OneOf = "", nil, nil
	_ = json.Unmarshal(raw, &s)
	return &s
}

func (s *schema) is(kind string) bool { return bytes.Contains(s.Type, []byte(`"`+kind+`"`)) }

// text reports whether it takes a text, or a list of texts.
func (s *schema) text() bool {
	return s.is("string") || s.is("array") && parseSchema(s.Items).is("string")
}

// kind is the type to write; guessed from the name where the schema has none.
func (s *schema) kind(name string) string {
	for _, kind := range []string{"object", "array", "string", "integer", "number", "boolean", "null"} {
		if s.is(kind) {
			return kind
		}
	}
	switch {
	case s.Properties != nil || name == "":
		return "object"
	case countNames[lastWord(name)]:
		return "number"
	}
	return "string"
}

// legal is the number nearest to n that the bounds allow.
func (s *schema) legal(n float64, whole bool) float64 {
	if !whole {
		return max(min(n, s.Maximum, s.ExclusiveMaximum-0.001), s.Minimum, s.ExclusiveMinimum+0.001)
	}
	n = min(math.Round(n), math.Floor(s.Maximum), math.Ceil(s.ExclusiveMaximum)-1)
	return max(n, math.Ceil(s.Minimum), math.Floor(s.ExclusiveMinimum)+1)
}

type member struct {
	name  string
	value json.RawMessage
}

// members are those of a JSON object, in their order; none of any other value.
func members(raw []byte) (all []member) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, _ := d.Token(); open != json.Delim('{') {
		return nil
	}
	for d.More() {
		var m member
		key, _ := d.Token()
		if m.name, _ = key.(string); d.Decode(&m.value) != nil {
			break
		}
		all = append(all, m)
	}
	return all
}

// join writes members as a JSON object.
func join(all []member) json.RawMessage {
	var parts []string
	for _, m := range all {
		parts = append(parts, encode(m.name)+":"+string(m.value))
	}
	return json.RawMessage("{" + strings.Join(parts, ",") + "}")
}

func encode(text string) string { return string(jsonscan.AppendQuoted(nil, text)) }

// form makes JSON of a schema's shape out of what a text gives.
type form struct {
	*evidence
	root   []byte
	every  bool           // an object that requires nothing gets all its properties
	inside map[string]int // references being followed
	values int            // tried so far
}

const mostValues = 2000 // half of them for what is not required

func fill(raw []byte, e *evidence, every bool) (value string) {
	f := &form{evidence: e, root: raw, every: every, inside: make(map[string]int)}
	value, _ = f.fill("", parseSchema(raw))
	return value
}

// fill returns a value, and whether anything in the text speaks for it.
func (f *form) fill(name string, s *schema) (value string, found bool) {
	if f.values++; f.values > mostValues || f.inside[s.Ref] > 30 {
		return "null", false
	}
	switch kind := s.kind(name); {
	case s.Ref != "":
		f.inside[s.Ref]++
		defer func() { f.inside[s.Ref]-- }()
		return f.fill(name, s.with(f.resolve(s.Ref)))
	case len(s.AnyOf)+len(s.OneOf) > 0:
		return f.choose(name, s)
	case s.Const != nil:
		return string(s.Const), false
	case len(s.Enum) > 0:
		value, found = f.option(name, s)
	case kind == "object":
		return f.object(s)
	case kind == "array":
		return f.array(name, s)
	case kind == "boolean":
		value, found = f.truth(name)
	case kind == "string":
		if s.is("any") { // "3 seats" are a number
			sure := f.sure
			f.sure = true
			value, found = f.number(name, s, false)
			f.sure = sure
		}
		if !found {
			value, found = f.prose(name, s)
		}
	case kind != "null":
		value, found = f.number(name, s, kind == "integer")
	}
	switch {
	case !found && s.Default != nil:
		return string(s.Default), false
	case !found && s.is("null"):
		return "null", false
	}
	return value, found
}

// resolve follows a reference within the schema.
func (f *form) resolve(ref string) json.RawMessage {
	raw := json.RawMessage(f.root)
	for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		var o map[string]json.RawMessage
		if step != "" && json.Unmarshal(raw, &o) == nil {
			raw = o[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		}
	}
	return raw
}

// free reports whether a schema that need not be followed can be, without going round in a circle.
func (f *form) free(s *schema) bool {
	return f.values < mostValues/2 && s.Ref != "#" && f.inside[s.Ref] == 0
}

// choose takes the first option that the text speaks for, else null where it is one, else the first.
func (f *form) choose(name string, s *schema) (first string, found bool) {
	for _, raw := range slices.Concat(s.AnyOf, s.OneOf) {
		if option := s.with(raw); f.free(option) {
			value, found := f.fill(name, option)
			if found {
				return value, true
			}
			if first == "" || value == "null" {
				first = value
			}
		}
	}
	return cmp.Or(first, "null"), false
}

// object fills lists of texts first: "Alice and Bob" are the guests, not the name of the party.
func (f *form) object(s *schema) (value string, found bool) {
	sure, all := f.sure, members(s.Properties)
	values := make([]member, min(len(all), mostValues))
	for _, lists := range []bool{true, false} {
		for i, m := range all[:len(values)] {
			p, must := parseSchema(m.value), slices.Contains(s.Required, m.name) || f.every && len(s.Required) == 0
			if lists != parseSchema(p.Items).is("string") || !must && !f.free(p) {
				continue
			}
			f.sure = sure || !must
			value, ok := f.fill(m.name, p)
			if ok || must {
				values[i] = member{m.name, json.RawMessage(value)}
			}
			found = found || ok
		}
	}
	if !sure && !f.every {
		found = f.rest(all[:len(values)], values) || found
	}
	f.sure = sure
	return string(join(slices.DeleteFunc(values, func(m member) bool { return m.value == nil }))), found
}

// rest fills what nothing requires with what is left: "the weather in Paris" is that of a city that may be left
// out. Numbers count where no text is asked for. A property that takes any text takes all of it, or nothing.
func (f *form) rest(all, values []member) (found bool) {
	prose := slices.ContainsFunc(all, func(m member) bool { return proseNames[lastWord(m.name)] })
	texts := slices.ContainsFunc(all, func(m member) bool { return parseSchema(m.value).text() })
	if prose && slices.ContainsFunc(values, func(m member) bool { return m.value != nil }) {
		return false
	}
	f.sure, f.left = false, !prose
	defer func() { f.left = false }()
	for i, m := range all {
		p := parseSchema(m.value)
		if values[i].value != nil || p.Enum != nil || p.Const != nil || p.text() != texts || prose && (found || !proseNames[lastWord(m.name)]) {
			continue
		}
		if value, ok := f.fill(m.name, p); ok {
			values[i], found = member{m.name, json.RawMessage(value)}, true
		}
	}
	return found
}

// array takes elements for as long as each finds something new in the text.
func (f *form) array(name string, s *schema) (value string, found bool) {
	var values []string
	items, like := parseSchema(s.Items), f.like
	for len(values) < s.MaxItems && f.values < mostValues {
		must := len(values) < s.MinItems
		if !must && !f.free(items) {
			break
		}
		f.last = 0
		value, ok := f.fill(name, items)
		if ok = ok && f.last != 0; !ok && !must {
			break
		}
		values, found = append(values, value), found || ok
		f.like = f.last
	}
	f.like = like
	return "[" + strings.Join(values, ",") + "]", found
}

// option is the value of an enum that follows the property's name, else the first of the text, or of the enum.
func (f *form) option(name string, s *schema) (value string, found bool) {
	options := make(map[string]string)
	for _, raw := range s.Enum[:min(len(s.Enum), 500)] {
		options[fold(string(raw))] = string(raw)
	}
	value, found = f.first(slices.Concat(f.after(name), f.phrases), func(t thing) (string, bool) {
		value, ok := options[strings.ToLower(t.value)]
		return value, ok
	})
	return cmp.Or(value, string(s.Enum[0])), found
}

// number is the figure for a property, or the legal one nearest to zero.
func (f *form) number(name string, s *schema, whole bool) (value string, found bool) {
	value, found = f.first(f.offers(name, numeral), func(t thing) (string, bool) {
		exact, ok := rational(t.value)
		if !ok {
			return "", false
		}
		n, _ := exact.Float64()
		return decimal(exact), s.legal(n, whole) == n
	})
	return cmp.Or(value, strconv.FormatFloat(s.legal(0, whole), 'f', -1, 64)), found
}

// samples are texts of the formats, for where the text gives none.
var samples = map[string]string{"date": "2026-01-01", "date-time": "2026-01-01T00:00:00Z", "email": "unknown@example.com", "uri": "https://example.com/"}

// prose is the text for a property, or a sample of it.
func (f *form) prose(name string, s *schema) (value string, found bool) {
	offers, dated := f.of(kindNames[s.Format]...), strings.HasPrefix(s.Format, "date")
	if samples[s.Format] == "" {
		offers = f.offers(name, properName, quotation, email, link, spot, code)
	}
	value, found = f.first(offers, func(t thing) (string, bool) {
		for _, layout := range []string{time.DateOnly, time.RFC3339, "2 January 2006", "2 Jan 2006", "January 2, 2006", "Jan 2, 2006", "1/2/2006"} {
			if day, err := time.Parse(layout, t.value); err == nil && dated {
				return encode(day.Format(time.DateOnly) + strings.TrimPrefix(samples[s.Format], samples["date"])), true
			}
		}
		return encode(t.value), !dated
	})
	return cmp.Or(value, encode(cmp.Or(samples[s.Format], "unknown"))), found
}

var keyList = lazyregexp.New(`(?i)\b(?:(?:object|JSON) with|extract|keys?|fields?|properties)(?: the)?(?: keys?| fields?)?\s*:?\s+([^.\n;:{}]+?)(?:\s+(?:for|from|of)\b|[.\n;:]|$)`)

// shaped is the answer as the JSON that the request's format asks for. What tools said counts, too.
func (p *prompt) shaped(answer string) string {
	shape, text, said := p.request.Format.Schema, p.text, []string{}
	if shape == nil {
		shape, text = p.shape(answer)
	}
	for _, c := range p.made {
		said = append(said, p.results[c.ID], c.Arguments, "")
	}
	e := newEvidence(strings.Join(said, "\n"), text)
	e.answer = answer
	return fill(shape, e, true)
}

// shape is the schema of the object that the prompt asks for, by a schema, an example, or the names of the
// keys, and the message without that. A message that does none of these may still tell of several things.
func (p *prompt) shape(answer string) (shape json.RawMessage, text string) {
	for _, text := range append([]string{p.text}, p.said...) {
		if object := firstObject(text); object != nil {
			if text = strings.Replace(p.text, string(object), "", 1); isSchema(object) {
				return object, text
			}
			return shapeOf(object), text
		}
	}
	example, text := p.example(answer)
	return shapeOf(example), text
}

// firstObject is the first JSON object in a text; nil where there is none.
func firstObject(text string) (object json.RawMessage) {
	text = text[:min(len(text), mostSchema)]
	for range 20 { // braces may mean something else
		i := strings.IndexByte(text, '{')
		if i < 0 {
			break
		}
		if text = text[i:]; json.NewDecoder(strings.NewReader(text)).Decode(&object) == nil {
			return object
		}
		text = text[1:]
	}
	return nil
}

const mostSchema = 64 << 10 // bytes of a text that are searched for a schema

// isSchema reports whether an object describes others, rather than being an example of them.
func isSchema(object json.RawMessage) bool {
	s := parseSchema(object)
	return s.is("object") && (members(s.Properties) != nil || s.AnyOf != nil) || s.Ref != ""
}

// example is an object with the keys that the prompt names, or that its parts go by.
func (p *prompt) example(answer string) (example json.RawMessage, text string) {
	all := excerpt(strings.Join(append([]string{p.text}, p.said...), "\n"), mostText)
	if m := keyList.FindStringSubmatch(all); m != nil {
		var keys []member
		items, _ := parseList(m[1])
		for _, item := range items {
			keys = append(keys, member{strings.Trim(item, "\"'`"), json.RawMessage("null")})
		}
		return join(keys), strings.Replace(p.text, m[0], "", 1)
	}
	if keys := told(p.text); len(keys) > 1 {
		return join(keys), p.text
	}
	if _, ok := rational(answer); ok {
		return json.RawMessage(`{"answer":0}`), p.text
	}
	return json.RawMessage(`{"answer":""}`), p.text
}

var tellsKey = lazyregexp.New(`\b(from|to) (?:\p{Lu}|")|\b\d[\d.,]* (\p{Ll}{3,})\b`)

// told are keys for what a text says by itself: from Porto to Lisbon with 3 seats.
func told(text string) (keys []member) {
	text = head(text)
	for _, m := range tellsKey.FindAllStringSubmatchIndex(text, -1) {
		g := group(m)
		key, value := text[m[g]:m[g+1]], `""`
		if g == 4 {
			value = "0"
		}
		if !slices.ContainsFunc(keys, func(k member) bool { return k.name == key }) {
			keys = append(keys, member{key, json.RawMessage(value)})
		}
	}
	return keys
}

// shapeOf is the schema of an example.
func shapeOf(example json.RawMessage) json.RawMessage {
	all := members(example)
	if all == nil {
		kinds := map[byte]string{'{': "object", '[': "array", '"': "string", 't': "boolean", 'f': "boolean", 'n': "any"}
		return json.RawMessage(`{"type":` + encode(cmp.Or(kinds[example[0]], "number")) + `}`)
	}
	for i := range all {
		all[i].value = shapeOf(all[i].value)
	}
	return slices.Concat(json.RawMessage(`{"properties":`), join(all), json.RawMessage(`}`))
}
