package models

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/jsonscan"
)

// schema has the keywords of JSON Schema that the sandbox follows. Schemas inside it stay raw until they are needed,
// and a keyword whose value has the wrong form is ignored.
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

// parseSchema parses a schema. Bounds that are not given are infinite.
func parseSchema(raw []byte) *schema {
	s := schema{MaxItems: mostValues, Minimum: math.Inf(-1), ExclusiveMinimum: math.Inf(-1), Maximum: math.Inf(1), ExclusiveMaximum: math.Inf(1)}
	return s.with(raw)
}

// with returns the schema with the keywords of another one on top. The other replaces the keyword that named it: a
// reference or a list of options.
func (s schema) with(raw []byte) *schema {
	s.Ref, s.AnyOf, s.OneOf = "", nil, nil
	_ = json.Unmarshal(raw, &s)
	return &s
}

// is reports whether the schema allows a type. The keyword type is a name or a list of names.
func (s *schema) is(kind string) bool { return bytes.Contains(s.Type, []byte(`"`+kind+`"`)) }

// text reports whether the schema allows a text or a list of texts.
func (s *schema) text() bool {
	return s.is("string") || s.is("array") && parseSchema(s.Items).is("string")
}

// kind returns the type to write. If the schema has none, it is guessed from the property's name; the root has no
// name and is an object.
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

// legal returns the number nearest to n that the bounds allow; a whole one if whole is set.
func (s *schema) legal(n float64, whole bool) float64 {
	if !whole {
		return max(min(n, s.Maximum, s.ExclusiveMaximum-0.001), s.Minimum, s.ExclusiveMinimum+0.001)
	}
	n = min(math.Round(n), math.Floor(s.Maximum), math.Ceil(s.ExclusiveMaximum)-1)
	return max(n, math.Ceil(s.Minimum), math.Floor(s.ExclusiveMinimum)+1)
}

// member is a member of a JSON object. A nil value is one that is left out.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of a JSON object, in order. It returns nil for any other value. encoding/json would
// lose the order, in which models are expected to write.
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

// join returns the JSON object with these members.
func join(all []member) json.RawMessage {
	var parts []string
	for _, m := range all {
		parts = append(parts, encode(m.name)+":"+string(m.value))
	}
	return json.RawMessage("{" + strings.Join(parts, ",") + "}")
}

// encode returns a text as JSON.
func encode(text string) string { return string(jsonscan.AppendQuoted(nil, text)) }

// form fills a schema with values from a text.
type form struct {
	*evidence
	root   []byte         // the whole schema, for references
	every  bool           // an object that requires nothing gets all its properties
	inside map[string]int // how often each reference is being followed
	values int            // how many values have been tried
}

// mostValues bounds the values that are tried for one schema: a few bytes of a schema that refers to itself can ask
// for any number. What is not required stops at half of it, so that the required rest still fits.
const mostValues = 2000

// fill returns JSON that follows a schema, with values from the evidence. every says that an object which requires
// nothing gets all its properties, as replies do and arguments do not.
func fill(raw []byte, e *evidence, every bool) (value string) {
	f := &form{evidence: e, root: raw, every: every, inside: make(map[string]int)}
	value, _ = f.fill("", parseSchema(raw))
	return value
}

// fill returns a value for the property with the name, and reports whether it comes from the text. The name of the
// root is empty.
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
		if s.is("any") { // of a key without a type: a number if the text says "3 seats", else a text
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
	// Without a value in the text, a default or null is more honest than a sample.
	switch {
	case !found && s.Default != nil:
		return string(s.Default), false
	case !found && s.is("null"):
		return "null", false
	}
	return value, found
}

// resolve returns the schema that a reference within the root names; nil if there is none.
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

// free reports whether a schema that is not required may be filled. It must not be inside itself, and half of
// mostValues must be left.
func (f *form) free(s *schema) bool {
	return f.values < mostValues/2 && s.Ref != "#" && f.inside[s.Ref] == 0
}

// choose fills the first option that gets its value from the text. If none does, it returns null where that is an
// option, else the first option.
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

// object fills the properties of an object. Lists of texts come first: "Alice and Bob" are the guests, not the name
// of the party. A property that is not required is filled only with what the text ties to it by name.
func (f *form) object(s *schema) (value string, found bool) {
	sure, all := f.sure, members(s.Properties)
	values := make([]member, min(len(all), mostValues)) // in the order of the properties; those without a value are cut
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
	if !sure && !f.every { // in arguments of a tool, unless the object itself is not required
		found = f.rest(all[:len(values)], values) || found
	}
	f.sure = sure
	return string(join(slices.DeleteFunc(values, func(m member) bool { return m.value == nil }))), found
}

// rest fills properties that are not required and have no value yet with what is left of the text: in "the weather
// in Paris", Paris is the city even if the city is not required. Numbers are used only if no property takes a text.
// A property that takes any text takes all of it or nothing, and then there is no rest for others.
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

// array fills a list: with as many elements as it requires, and with more as long as each finds something new in the
// text, of the same kind as the elements before.
func (f *form) array(name string, s *schema) (value string, found bool) {
	var values []string
	items, like := parseSchema(s.Items), f.like
	for len(values) < s.MaxItems && f.values < mostValues {
		must := len(values) < s.MinItems
		if !must && !f.free(items) {
			break
		}
		// An element that takes nothing from the text would come again and again, so it ends the list.
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

// option returns the value of an enum that follows the property's name in the text, else the first one that the text
// has, else the first of the enum.
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

// number returns the number for a property, or the legal one nearest to zero.
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

// samples are values of the formats, for properties that the text has no value for.
var samples = map[string]string{"date": "2026-01-01", "date-time": "2026-01-01T00:00:00Z", "email": "unknown@example.com", "uri": "https://example.com/"}

// prose returns the text for a property, or a sample. Dates are written in the form that the schema asks for.
func (f *form) prose(name string, s *schema) (value string, found bool) {
	offers, dated := f.of(kindNames[s.Format]...), strings.HasPrefix(s.Format, "date")
	if samples[s.Format] == "" {
		offers = f.offers(name, properName, quotation, email, link, spot, code)
	}
	value, found = f.first(offers, func(t thing) (string, bool) {
		// A date is accepted only if it can be rewritten; the time of a date-time is the sample's.
		for _, layout := range []string{time.DateOnly, time.RFC3339, "2 January 2006", "2 Jan 2006", "January 2, 2006", "Jan 2, 2006", "1/2/2006"} {
			if day, err := time.Parse(layout, t.value); err == nil && dated {
				return encode(day.Format(time.DateOnly) + strings.TrimPrefix(samples[s.Format], samples["date"])), true
			}
		}
		return encode(t.value), !dated
	})
	return cmp.Or(value, encode(cmp.Or(samples[s.Format], "unknown"))), found
}

// keyList matches a request for certain keys, such as "JSON with keys a, b and c".
var keyList = regexp.MustCompile(`(?i)\b(?:(?:object|JSON) with|extract|keys?|fields?|properties)(?: the)?(?: keys?| fields?)?\s*:?\s+([^.\n;:{}]+?)(?:\s+(?:for|from|of)\b|[.\n;:]|$)`)

// shaped returns an answer as the JSON that response_format asks for. Values may also come from what tools said.
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

// shape returns the schema of the object that the prompt asks for, and the last user message without that part. The
// prompt may have a schema, an example, or the names of keys. If it has none of them, the keys are made of what the
// message tells; see example.
func (p *prompt) shape(answer string) (shape json.RawMessage, text string) {
	// The last user message comes before the others: it may ask for another object.
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

// firstObject returns the first JSON object in a text, or nil.
func firstObject(text string) (object json.RawMessage) {
	text = text[:min(len(text), mostSchema)]
	for range 20 { // a brace may mean something else; a text full of them must not cost more than this
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

// mostSchema bounds how much of a text is searched for a schema, in bytes.
const mostSchema = 64 << 10

// isSchema reports whether an object is a schema, and not an example of the object that is asked for.
func isSchema(object json.RawMessage) bool {
	s := parseSchema(object)
	return s.is("object") && (members(s.Properties) != nil || s.AnyOf != nil) || s.Ref != ""
}

// example returns an object with the keys that the prompt names or, failing that, that its words suggest, and the
// last user message without the names of the keys. Without any keys it is an object with the member answer.
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

// tellsKey matches words of a text that can serve as keys: from and to before a name, and units after a number.
var tellsKey = regexp.MustCompile(`\b(from|to) (?:\p{Lu}|")|\b\d[\d.,]* (\p{Ll}{3,})\b`)

// told returns the keys that a text suggests, with an example of each: "from Porto to Lisbon with 3 seats" suggests
// from, to and seats.
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

// shapeOf returns the schema of an example.
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
