package moving

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// write returns the draft as a configuration file.
func (d *draft) write(from string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Converted from the format %s by \"sluice config import\".\n# \"sluice config docs\" explains every setting. \"sluice config check\" checks this file.\n", from)
	for _, n := range d.notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	// Keys in the environment would add models that the source does not offer.
	b.WriteString("\ndiscover: false\n")
	if d.open {
		b.WriteString("\nplans: # the other gateway limits nobody unless it is told to; so do these plans\n")
		for _, plan := range []string{"none", "free", "basic", "premium", "scale"} {
			fmt.Fprintf(&b, "  %s: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited, monthly_units: unlimited}\n", plan)
		}
	}
	if len(d.providers) > 0 {
		b.WriteString("\nproviders:\n")
		for _, p := range d.providers {
			p.write(&b)
		}
	}
	if len(d.models) > 0 {
		b.WriteString("\nmodels:\n")
		for _, m := range d.models {
			m.write(&b, d.options.Plan)
		}
	}
	if len(d.aliases) > 0 {
		b.WriteString("\naliases:\n")
		for _, name := range slices.Sorted(maps.Keys(d.aliases)) {
			fmt.Fprintf(&b, "  %s: %s\n", literal(name), literal(d.aliases[name]))
		}
	}
	return b.String()
}

// fields writes "key: value" lines of an entry of a list. Empty values are left out.
type fields struct {
	b     *strings.Builder
	first bool
}

func (f *fields) add(key, text string) {
	if text == "" {
		return
	}
	lead := "    "
	if f.first {
		lead, f.first = "  - ", false
	}
	fmt.Fprintf(f.b, "%s%s: %s\n", lead, key, text)
}

func (p *provider) write(b *strings.Builder) {
	if p.comment != "" {
		fmt.Fprintf(b, "  # %s\n", p.comment)
	}
	f := &fields{b, true}
	f.add("name", quoted(p.name))
	f.add("kind", quoted(p.kind))
	f.add("base_url", quoted(p.baseURL))
	f.add("api_version", quoted(p.apiVersion))
	f.add("region", quoted(p.region))
	switch len(p.keys) {
	case 0:
	case 1:
		f.add("api_key", quoted(p.keys[0]))
	default:
		f.add("api_keys", quotedList(p.keys, quoted))
	}
	f.add("access_key_id", quoted(p.accessKeyID))
	f.add("secret_access_key", quoted(p.secretAccessKey))
	f.add("session_token", quoted(p.sessionKey))
	f.add("discover", quoted(p.discover))
	if p.maxConcurrent > 0 {
		f.add("max_concurrent", fmt.Sprint(p.maxConcurrent))
	}
	if p.firstContent > 0 {
		f.add("timeouts", fmt.Sprintf("{first_content: %ds}", int(p.firstContent.Seconds())))
	}
}

func (m *model) write(b *strings.Builder, plan string) {
	for _, c := range m.comments {
		fmt.Fprintf(b, "  # %s\n", c)
	}
	f := &fields{b, true}
	f.add("id", literal(m.id))
	if t := m.targets[0]; len(m.targets) == 1 {
		f.add("provider", quoted(t.to.name))
		if t.upstream != m.id {
			f.add("upstream", literal(t.upstream))
		}
	} else {
		f.b.WriteString("    targets:\n")
		for _, t := range m.targets {
			fmt.Fprintf(f.b, "      - {provider: %s, upstream: %s, weight: %d}\n", quoted(t.to.name), literal(t.upstream), t.weight)
		}
	}
	f.add("fallbacks", quotedList(m.fallbacks, literal))
	if m.embedding {
		f.add("kind", "embedding")
	}
	f.add("plan", plan)
	f.add("context_length", fmt.Sprint(m.context))
	if !m.embedding {
		f.add("max_output", fmt.Sprint(m.maxOutput))
		f.add("tool_calling", flagText(m.tools, false))
		f.add("reasoning", flagText(m.reasons, false))
		f.add("json_mode", flagText(m.json, true))
	}
	f.add("description", quoted(m.description))
	f.add("pricing", m.pricing())
}

// flagText returns a boolean unless it is the default.
func flagText(b *bool, usual bool) string {
	if b == nil || *b == usual {
		return ""
	}
	return fmt.Sprint(*b)
}

// pricing returns the prices of a model.
func (m *model) pricing() string {
	var parts []string
	for _, p := range []struct {
		name  string
		micro *int64
	}{{"input", m.input}, {"output", m.output}, {"cached", m.cached}, {"reasoning", m.reasoning}} {
		if p.micro != nil && (!m.embedding || p.name == "input") {
			parts = append(parts, p.name+": "+dollars(*p.micro))
		}
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// dollars writes millionths of a dollar.
func dollars(micro int64) string {
	text := fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// quoted returns a text as YAML. Anything that is more than a word is written as a JSON string, which is YAML, too.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	if isWord(text) {
		return text
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "\x7f", `\u007f`)
}

// literal is quoted for a text that is not a reference, unless it is nothing but one: ${NAME}.
func literal(text string) string {
	if !variableOnly(text) {
		text = strings.ReplaceAll(text, "${", "$${")
	}
	return quoted(text)
}

// isWord reports whether a text means itself in YAML, inside braces as well.
func isWord(text string) bool {
	letter := false
	for i, r := range text {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
			letter = true
		case '0' <= r && r <= '9', strings.ContainsRune("._/-", r) && i > 0:
		default:
			return false
		}
	}
	first := text[0]
	number := '0' <= first && first <= '9'
	return letter && !number && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(text))
}

// quotedList returns a list on one line, or "" for an empty one.
func quotedList(list []string, one func(string) string) string {
	if len(list) == 0 {
		return ""
	}
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = one(text)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
