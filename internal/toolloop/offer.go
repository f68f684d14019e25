package toolloop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/chat"
	"sluice/internal/excerpt"
	"sluice/internal/fault"
	"sluice/internal/jsonscan"
	"sluice/internal/mcpclient"
)

// offer is the tools that the model is offered, and whose they are.
type offer struct {
	tools     []byte // JSON of the array; nil: there are none
	functions map[string]bool
	remote    map[string]*remote   // by the name that the model knows
	plain     map[string][]*remote // by the server's own name
	choice    []byte               // JSON of tool_choice for the first turn; nil: none
}

// remote is a tool of an MCP server.
type remote struct {
	server  *mcpclient.Server
	label   string
	name    string // the server's
	offered string // the model's
	approve bool   // the caller decides on each call
}

const maxName = 64 // characters, as the contract and most providers have it

// newOffer names the tools that were found, and finds what tool_choice means.
func newOffer(req *chat.Request, found []discovery, most int) (*offer, error) {
	o := &offer{functions: make(map[string]bool), remote: make(map[string]*remote), plain: make(map[string][]*remote)}
	for _, t := range req.Tools {
		if t.Function != nil {
			o.functions[t.Function.Name] = true
		}
	}
	slugs := make(map[string]bool)
	n := len(o.functions)
	for i := range found {
		found[i].narrow(req.Tools[found[i].entry].MCP)
		n += len(found[i].tools)
	}
	if n > most {
		return nil, fault.New(fault.Invalid, "The request and its MCP servers have %d tools together; at most %d are possible. Name those you need in allowed_tools.", n, most).At("tools")
	}
	var list [][]byte
	for i, t := range req.Tools {
		if t.Function != nil {
			list = append(list, t.Raw())
			continue
		}
		d := of(found, i)
		slug := unique(slugs, slugOf(d.label))
		for k := range d.tools {
			tool := &d.tools[k]
			r := &remote{server: d.server, label: d.label, name: tool.Name, approve: t.MCP.RequireApproval == "always"}
			r.offered = o.nameFor(slug, tool.Name)
			o.remote[r.offered] = r
			o.plain[r.name] = append(o.plain[r.name], r)
			list = append(list, definition(r.offered, tool))
		}
	}
	if len(list) > 0 {
		o.tools = slices.Concat([]byte("["), bytes.Join(list, []byte(",")), []byte("]"))
	}
	return o, o.choose(req.ToolChoice)
}

// of is what was discovered for an entry of the request's tools.
func of(found []discovery, entry int) *discovery {
	return &found[slices.IndexFunc(found, func(d discovery) bool { return d.entry == entry })]
}

// narrow leaves the tools that the caller allows, each once: some servers list one twice. The list that was
// discovered stays as it is, since others may have it, too.
func (d *discovery) narrow(m *chat.MCP) {
	wanted := make(map[string]bool, len(d.tools))
	for i := range d.tools {
		wanted[d.tools[i].Name] = m.AllowedTools == nil
	}
	for _, name := range m.AllowedTools {
		if _, listed := wanted[name]; listed {
			wanted[name] = true
		}
	}
	var left []mcpclient.Tool
	for i := range d.tools {
		if name := d.tools[i].Name; wanted[name] {
			wanted[name] = false
			left = append(left, d.tools[i])
		}
	}
	d.tools = left
}

// choose writes tool_choice for the first turn (docs/api.md#tool-calling). A tool of a server may be
// named as the model knows it, or as its server does if no other has the name.
func (o *offer) choose(c chat.ToolChoice) error {
	switch c.Mode {
	case chat.ChoiceNone:
		o.choice = []byte(`"none"`)
	case chat.ChoiceRequired:
		if o.tools == nil {
			return fault.New(fault.Invalid, `tool_choice is "required", but the MCP servers offer no tool that is allowed.`).At("tool_choice")
		}
		o.choice = []byte(`"required"`)
	case chat.ChoiceNamed:
		name := c.Name
		if same := o.plain[name]; !o.functions[name] && o.remote[name] == nil {
			switch len(same) {
			case 0:
				return fault.New(fault.Invalid, "tool_choice names %q, and neither the functions nor the MCP servers of the request have it.", excerpt.Of(name, 100)).At("tool_choice.function.name")
			case 1:
				name = same[0].offered
			default:
				return fault.New(fault.Invalid, "tool_choice names %q, which several MCP servers have. Say which one: %q or %q.", excerpt.Of(name, 100), same[0].offered, same[1].offered).At("tool_choice.function.name")
			}
		}
		o.choice = append(jsonscan.AppendQuoted([]byte(`{"type":"function","function":{"name":`), name), "}}"...)
	}
	return nil
}

// find is the tool that a call of the model means; nil: it is a function of the caller's, or nothing.
// Models forget prefixes.
func (o *offer) find(name string) *remote {
	if r := o.remote[name]; r != nil || o.functions[name] {
		return r
	}
	if same := o.plain[name]; len(same) == 1 {
		return same[0]
	}
	return nil
}

// nameFor makes the name that the model knows a tool by: <slug>__<tool>. Where that is too long, taken,
// or not a name, a digest of the server's name for it makes the difference, whatever else is listed.
func (o *offer) nameFor(slug, tool string) string {
	name := slug + "__" + tool
	taken := func(name string) bool { return o.functions[name] || o.remote[name] != nil }
	if len(name) <= maxName && isName(tool) && !taken(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail := "_" + hex.EncodeToString(sum[:4])
	name = slug + "__" + strings.Map(nameRune, tool)
	name = name[:min(len(name), maxName-len(tail))] + tail
	for n := 2; taken(name); n++ {
		suffix := strconv.Itoa(n)
		name = name[:min(len(name), maxName-len(suffix))] + suffix
	}
	return name
}

// nameRune keeps what every provider takes in a name.
func nameRune(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '_'
}

func isName(s string) bool { return s == strings.Map(nameRune, s) }

// labelOf is what a server is called: as the caller does, or by its host.
func labelOf(m *chat.MCP) string {
	if m.ServerLabel != "" {
		return m.ServerLabel
	}
	u, err := url.Parse(m.ServerURL)
	if err != nil {
		return "mcp"
	}
	return u.Hostname()
}

const maxSlug = 24

// slugOf makes a label the beginning of names: lower-case words joined by single underscores.
func slugOf(label string) string {
	words := strings.FieldsFunc(strings.ToLower(label), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	slug := strings.Join(words, "_")
	if slug == "" || slug[0] < 'a' { // some providers want a letter first
		slug = strings.Trim("mcp_"+slug, "_")
	}
	return strings.TrimRight(slug[:min(len(slug), maxSlug)], "_")
}

// unique is the slug, or the slug with a number behind it where it is taken.
func unique(taken map[string]bool, slug string) string {
	name := slug
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s_%d", slug, n)
	}
	taken[name] = true
	return name
}

// definition is the tool as the model is told of it. Where the server's schema is none that a request
// may have, the tool takes any object.
func definition(name string, t *mcpclient.Tool) []byte {
	write := func(schema json.RawMessage) []byte {
		b := jsonscan.AppendQuoted([]byte(`{"type":"function","function":{"name":`), name)
		if t.Description != "" {
			b = jsonscan.AppendQuoted(append(b, `,"description":`...), t.Description)
		}
		b = append(append(b, `,"parameters":`...), schema...)
		return append(b, "}}"...)
	}
	b := write(t.Schema)
	probe := slices.Concat([]byte(`{"model":"m","messages":[{"role":"user","content":""}],"tools":[`), b, []byte("]}"))
	if _, err := chat.Parse(probe); err != nil {
		return write(json.RawMessage(`{"type":"object","properties":{}}`))
	}
	return b
}
