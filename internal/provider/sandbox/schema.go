package sandbox

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// schema is the part of JSON Schema that the sandbox honours. A pattern is not.
type schema struct {
	Ref              string            `json:"$ref"`
	Type             typeNames         `json:"type"`
	Enum             []json.RawMessage `json:"enum"`
	Const            json.RawMessage   `json:"const"`
	Default          json.RawMessage   `json:"default"`
	Description      string            `json:"description"`
	Format           string            `json:"format"`
	Properties       object            `json:"properties"`
	Required         []string          `json:"required"`
	Items            *schema           `json:"items"`
	MinItems         int               `json:"minItems"`
	MaxItems         *int              `json:"maxItems"`
	AnyOf            []json.RawMessage `json:"anyOf"`
	OneOf            []json.RawMessage `json:"oneOf"`
	AllOf            []json.RawMessage `json:"allOf"`
	MinLength        int               `json:"minLength"`
	MaxLength        *int              `json:"maxLength"`
	Minimum          *float64          `json:"minimum"`
	Maximum          *float64          `json:"maximum"`
	ExclusiveMinimum *float64          `json:"exclusiveMinimum"`
	ExclusiveMaximum *float64          `json:"exclusiveMaximum"`
	MultipleOf       float64           `json:"multipleOf"`
}

// UnmarshalJSON reads what it can: a wrong member of a caller's schema is as good as none, and the
// schemas true and false are open.
func (s *schema) UnmarshalJSON(data []byte) error {
	type plain schema
	_ = json.Unmarshal(data, (*plain)(s))
	return nil
}

func parseSchema(raw []byte) *schema {
	s := new(schema)
	_ = json.Unmarshal(raw, s)
	return s
}

// typeNames is type: one name or several.
type typeNames []string

func (t *typeNames) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		data = slices.Concat([]byte("["), data, []byte("]"))
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// property is one member of properties.
type property struct {
	name string
	*schema
}

// property reads one of the properties. They stay raw until then: a schema may have many more than
// a reply gets to see.
func (s *schema) property(i int) property {
	p := s.Properties[i]
	if known, ok := p.value.(*schema); ok {
		return property{p.name, known}
	}
	return property{p.name, parseSchema(p.value.(json.RawMessage))}
}

// object is a JSON object that keeps the order of its members. Read, it has raw values.
type object []member

type member struct {
	name  string
	value any
}

func (o *object) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return err
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return err
		}
		*o = append(*o, member{name.(string), value})
	}
	return nil
}

func (o object) MarshalJSON() ([]byte, error) {
	var parts []string
	for _, m := range o {
		parts = append(parts, encode(m.name)+":"+encode(m.value))
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

// encode is json.Marshal without the escapes that only HTML needs.
func encode(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return "null" // not reached: texts, numbers, raw JSON and lists of them can all be written
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// form makes a value of a schema's shape out of what a text gives.
type form struct {
	root     []byte
	evidence *evidence
	every    bool           // an object that requires nothing gets all its properties
	missing  []string       // required properties for which the text gives nothing
	inside   map[string]int // references being followed
	nodes    int
}

const (
	mostNodes    = 1000 // values tried for one reply; beyond that only what is required, up to
	everyNode    = 4000
	deepestValue = 60
)

// fill returns a value, and whether anything in the text speaks for it.
func (f *form) fill(name string, s *schema, depth int) (value any, found bool) {
	if f.nodes++; depth > deepestValue || f.nodes > everyNode {
		return nil, false
	}
	switch {
	case s.Ref != "":
		f.inside[s.Ref]++
		defer func() { f.inside[s.Ref]-- }()
		return f.fill(name, f.with(s, f.resolve(s.Ref)), depth+1)
	case len(s.AllOf) > 0:
		return f.fill(name, f.with(s, s.AllOf...), depth+1)
	case len(s.AnyOf)+len(s.OneOf) > 0:
		return f.choose(name, s, slices.Concat(s.AnyOf, s.OneOf), depth)
	case s.Const != nil:
		return s.Const, false
	case len(s.Enum) > 0:
		value, found = f.evidence.oneOf(name, s)
	default:
		switch kind := s.kind(name); kind {
		case "object":
			return f.object(name, s, depth)
		case "array":
			return f.array(name, s, depth)
		case "null":
			return nil, false
		case "boolean":
			value, found = f.evidence.truth(name)
		case "integer", "number":
			value, found = f.evidence.number(name, s, kind == "integer")
		default:
			value, found = f.evidence.prose(name, s)
		}
	}
	if !found && s.Default != nil {
		return s.Default, false
	}
	if !found && slices.Contains(s.Type, "null") {
		return nil, false
	}
	return value, found
}

// kind is the type to write; guessed from the name where the schema has none.
func (s *schema) kind(name string) string {
	for _, t := range s.Type {
		if t != "null" || len(s.Type) == 1 {
			return t
		}
	}
	switch {
	case len(s.Properties) > 0:
		return "object"
	case s.Items != nil:
		return "array"
	case s.Minimum != nil || s.Maximum != nil || s.MultipleOf != 0:
		return "number"
	}
	return guessType(name)
}

// resolve follows a reference within the schema.
func (f *form) resolve(ref string) json.RawMessage {
	raw := json.RawMessage(f.root)
	for step := range strings.SplitSeq(ref, "/") {
		var members map[string]json.RawMessage
		if step != "#" && json.Unmarshal(raw, &members) == nil {
			raw = members[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		}
	}
	return raw
}

// with lays other schemas over one, in place of the keyword that named them.
func (f *form) with(s *schema, parts ...json.RawMessage) *schema {
	whole := *s
	whole.Ref, whole.AllOf, whole.AnyOf, whole.OneOf = "", nil, nil, nil
	for _, part := range parts {
		for range 8 {
			required := whole.Required
			whole.Properties, whole.Required = slices.Clip(whole.Properties), nil
			_ = json.Unmarshal(part, &whole)
			whole.Required = append(required, whole.Required...)
			if whole.Ref == "" || len(parts) == 1 {
				break // a reference that stands alone is followed, and counted, by fill
			}
			part, whole.Ref = f.resolve(whole.Ref), ""
		}
	}
	return &whole
}

// choose takes the first option that the text speaks for, else null where it is one, else the first.
func (f *form) choose(name string, s *schema, options []json.RawMessage, depth int) (first any, found bool) {
	filled := false
	for i, option := range options {
		whole := f.with(s, option)
		if slices.Equal(whole.Type, typeNames{"null"}) {
			first, filled = nil, true
		} else if i+1 == len(options) && !filled || !f.again(whole) && f.nodes < mostNodes {
			value, found := f.fill(name, whole, depth+1)
			if found {
				return value, true
			}
			if !filled {
				first, filled = value, true
			}
		}
	}
	return first, false
}

// again reports whether following a schema would go round in a circle.
func (f *form) again(s *schema) bool { return s.Ref == "#" || f.inside[s.Ref] > 0 }

func (f *form) object(name string, s *schema, depth int) (any, bool) {
	e, any := f.evidence, false
	outer, strict := e.within, e.sure
	e.within = name
	values := make(map[string]member)
	// Lists of people and places come first: "Alice and Bob" are the guests, not the name of the party.
	for _, lists := range []bool{true, false} {
		for i := range s.Properties {
			must := slices.Contains(s.Required, s.Properties[i].name) || f.every && len(s.Required) == 0
			if !must && f.nodes > mostNodes {
				continue
			}
			p := s.property(i)
			if lists != (p.Items != nil && isName(p.name)) || !must && f.again(p.schema) {
				continue
			}
			e.sure = strict || !must
			value, found := f.fill(p.name, p.schema, depth+1)
			if must && !found && p.Default == nil && p.Const == nil && len(p.Enum) == 0 && !slices.Contains(p.Type, "null") &&
				slices.Contains([]string{"string", "number", "integer"}, p.kind(p.name)) {
				f.missing = append(f.missing, p.name)
			}
			if found || must {
				values[p.name] = member{p.name, value}
			}
			any = any || found
		}
	}
	e.within, e.sure = outer, strict
	o := object{}
	for _, p := range s.Properties {
		if m, ok := values[p.name]; ok {
			o = append(o, m)
			delete(values, p.name)
		}
	}
	return o, any
}

// array takes elements for as long as each finds something new in the text.
func (f *form) array(name string, s *schema, depth int) (any, bool) {
	e, items, values, most := f.evidence, s.Items, []any{}, mostNodes
	if items == nil {
		items = new(schema)
	}
	if s.MaxItems != nil {
		most = *s.MaxItems
	}
	defer func(before bool) { e.inList = before }(e.inList)
	e.inList = true
	for len(values) < most && !f.again(items) && f.nodes < mostNodes {
		before := e.spent
		value, found := f.fill(name, items, depth+1)
		if !found || e.spent == before {
			break
		}
		values = append(values, value)
	}
	found := len(values) > 0
	for len(values) < s.MinItems && f.nodes < everyNode {
		value, _ := f.fill(name, items, depth+1)
		values = append(values, value)
	}
	return values, found
}

// legal is the number nearest to n that the bounds allow.
func (s *schema) legal(n float64, whole bool) float64 {
	step, gap := s.MultipleOf, 0.001
	if whole && step == 0 {
		step = 1
	}
	if step > 0 {
		gap = step
	}
	bound := func(inclusive, exclusive *float64, gap, none float64) float64 {
		switch {
		case exclusive != nil:
			return *exclusive + gap
		case inclusive != nil:
			return *inclusive
		}
		return none
	}
	high := bound(s.Maximum, s.ExclusiveMaximum, -gap, math.Inf(1))
	n = max(min(n, high), bound(s.Minimum, s.ExclusiveMinimum, gap, math.Inf(-1)))
	if step == 0 {
		return n
	}
	if up := math.Ceil(n/step) * step; up <= high {
		return up
	}
	return math.Floor(n/step) * step
}
