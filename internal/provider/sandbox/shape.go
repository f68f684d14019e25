package sandbox

import (
	"encoding/json"
	"regexp"
	"strings"

	"sluice/internal/chat"
)

var (
	keyList = regexp.MustCompile(`(?i)\b(?:keys?|fields?|properties|attributes)\b(?:\s+(?:named|called|are|is))?\s*:?\s+([^.\n;{}]+?)(?:\s+(?:for|from|of)\b|[.\n;]|$)|` +
		`(?:\bextract|\b(?:object|JSON)\s+(?:with|containing|having))\s+(?:an?\s+|the\s+)?(?:keys?:?\s+|fields?:?\s+)?([\w, ]+?)(?:\s+(?:for|from|of)\b|[.\n;:]|$)`)
	keyForm   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,39}$`)
	aboutJSON = regexp.MustCompile(`(?i)\s*\b(?:(?:in|as|with)\s+)?JSON\b`)
	looseKeys = regexp.MustCompile(`["'](\w+)["']\s*:`)
)

// shaped is the answer as the JSON that the request's format asks for.
func (p *prompt) shaped(a answer) string {
	s, example := p.wantedShape()
	if s == nil {
		o := object{{"answer", p.phrase(a)}}
		if n, ok := rational(a.value); ok {
			o = object{{"answer", json.Number(decimal(n))}}
		}
		for _, r := range p.results {
			if json.Valid([]byte(r.content)) {
				o = append(o, member{bareName(r.name), json.RawMessage(r.content)})
			}
		}
		return encode(o)
	}
	e := newEvidence(aboutJSON.ReplaceAllString(strings.Replace(p.text, example, "", 1), ""))
	e.answer, e.facts = a.value, p.facts()
	f := &form{root: p.request.Format.Schema, evidence: e, every: true, inside: make(map[string]int)}
	value, _ := f.fill("", s, 0)
	return encode(value)
}

// facts are the members of the tools' results and arguments, by name.
func (p *prompt) facts() map[string]json.RawMessage {
	facts := make(map[string]json.RawMessage)
	for _, r := range p.results {
		for _, text := range []string{r.content, r.arguments} {
			var members map[string]json.RawMessage
			_ = json.Unmarshal([]byte(text), &members)
			for name, value := range members {
				if facts[name] == nil {
					facts[name] = value
				}
			}
		}
	}
	return facts
}

// wantedShape is the schema of the request, or else of the object that a text describes, by an example
// or by naming its keys, with the example as written. Nil where there is neither.
func (p *prompt) wantedShape() (s *schema, example string) {
	if raw := p.request.Format.Schema; raw != nil {
		return parseSchema(raw), ""
	}
	texts := []string{p.text}
	for _, u := range p.said {
		if u.role == chat.RoleSystem {
			texts = append(texts, u.text)
		}
	}
	for _, text := range texts {
		var keys []string
		text = excerpt(text, 16<<10)
		if _, after, ok := strings.Cut(text, "{"); ok {
			var raw json.RawMessage
			if json.NewDecoder(strings.NewReader("{"+after)).Decode(&raw) == nil {
				return shapeOf(raw), string(raw)
			}
			for _, key := range looseKeys.FindAllStringSubmatch(after, 40) {
				keys = append(keys, key[1])
			}
		} else if m := keyList.FindStringSubmatch(text); m != nil {
			keys = parseList(strings.Join(m[1:], "")).items
		}
		s, example = &schema{Type: typeNames{"object"}}, keyList.FindString(text)
		for _, key := range keys {
			if key = strings.Trim(key, "\"'`()[]"); keyForm.MatchString(key) {
				s.Properties = append(s.Properties, member{key, new(schema)})
			}
		}
		if len(s.Properties) > 0 {
			return s, example
		}
	}
	return nil, ""
}

// shapeOf is the schema of an example. A text that names a type stands for that type.
func shapeOf(example json.RawMessage) *schema {
	s := new(schema)
	var o object
	var list []json.RawMessage
	switch kind := strings.Trim(string(example), `"`); {
	case example[0] == '{':
		_ = json.Unmarshal(example, &o)
		for _, m := range o {
			s.Properties = append(s.Properties, member{m.name, shapeOf(m.value.(json.RawMessage))})
		}
		s.Type = typeNames{"object"}
	case example[0] == '[':
		if s.Items = new(schema); json.Unmarshal(example, &list) == nil && len(list) > 0 {
			s.Items = shapeOf(list[0])
		}
	case kind == "number" || kind == "integer" || kind == "boolean":
		s.Type = typeNames{kind}
	case example[0] == '"' && strings.Contains(kind, "|"):
		for option := range strings.SplitSeq(kind, "|") {
			s.Enum = append(s.Enum, json.RawMessage(encode(strings.TrimSpace(option))))
		}
	case example[0] == '"':
		s.Type = typeNames{"string"}
		if kind != "string" {
			s.Default = example
		}
	case kind == "true" || kind == "false":
		s.Type = typeNames{"boolean"}
	default:
		s.Type = typeNames{"number"}
	}
	return s
}
