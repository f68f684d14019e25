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

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/mcpclient"
)

// offer is the list of tools that the model gets, and where each comes from. It does not change after
// newOffer.
//
// A tool has up to three names: the server's own name ("search"), the name that the model knows
// ("my_docs__search"), and what the model writes in a call, which should be the second and is sometimes the
// first. The prefix keeps the tools of two servers apart.
type offer struct {
	tools     []byte               // the JSON array; nil: there are no tools
	functions map[string]bool      // names of the caller's functions
	remote    map[string]*remote   // MCP tools by the name that the model knows
	plain     map[string][]*remote // MCP tools by the server's own name, which several servers may have
	choice    []byte               // the JSON of tool_choice in the first turn; nil: none
}

// remote is a tool of an MCP server.
type remote struct {
	server  *mcpclient.Server
	label   string // the server's
	name    string // what the server calls it
	offered string // what the model calls it
	approve bool   // the caller must approve each call
}

// maxName is the length of a tool's name in characters (docs/api.md#tool-calling). Most providers have
// the same bound.
const maxName = 64

// newOffer gives each tool that was found a name, and resolves tool_choice. The order of the tools is that
// of the request. Most is the number of tools that the model may get; more are the caller's fault.
func newOffer(req *chat.Request, found []discovery, most int) (*offer, error) {
	o := &offer{functions: make(map[string]bool), remote: make(map[string]*remote), plain: make(map[string][]*remote)}
	for _, t := range req.Tools {
		if t.Function != nil {
			o.functions[t.Function.Name] = true
		}
	}
	// The bound is checked after allowed_tools was applied, so that it is a way to stay within it.
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
			list = append(list, t.Raw()) // the caller's own bytes
			continue
		}
		d := of(found, i)
		slug := unique(slugs, slugOf(d.label))
		for k := range d.tools {
			tool := &d.tools[k]
			r := &remote{server: d.server, label: d.label, name: tool.Name, approve: t.MCP.NeedsApproval(tool.Name, tool.ReadOnly)}
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

// of returns the discovery of an entry of the request's tools. Every MCP entry has one.
func of(found []discovery, entry int) *discovery {
	return &found[slices.IndexFunc(found, func(d discovery) bool { return d.entry == entry })]
}

// narrow reduces the list to the tools that the caller allows, each once: some servers list a tool twice. It
// makes a new list, because other requests may share the old one. Names that the server does not list are ignored:
// the tools of a server may change, and the request should not fail for that.
func (d *discovery) narrow(m *chat.MCP) {
	seen := make(map[string]bool, len(d.tools))
	var left []mcpclient.Tool
	for i := range d.tools {
		t := &d.tools[i]
		if !seen[t.Name] && (m.Allowed == nil || m.Allowed.Has(t.Name, t.ReadOnly)) {
			left = append(left, *t)
		}
		seen[t.Name] = true
	}
	// Servers may list their tools in any order. The prompt behind them is only in a cache if theirs does not change.
	slices.SortStableFunc(left, func(a, b mcpclient.Tool) int { return strings.Compare(a.Name, b.Name) })
	d.tools = left
}

// choose sets tool_choice for the first turn (docs/api.md#tool-calling). The caller may name an MCP tool by
// the name that the model knows, or by the server's own name if no other server has it.
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
		// A name that the model knows needs no translation. Otherwise it may be a server's own name.
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

// find returns the MCP tool that a call of the model means; nil: the call means a function of the caller, or
// nothing. Models sometimes leave out the prefix, so the server's own name counts if it is unique.
func (o *offer) find(name string) *remote {
	if r := o.remote[name]; r != nil || o.functions[name] {
		return r
	}
	if same := o.plain[name]; len(same) == 1 {
		return same[0]
	}
	return nil
}

// nameFor returns the name by which the model knows a tool: <slug>__<tool>. If that is too long, taken, or
// not a valid name, it ends in a digest of the full name. The digest depends on nothing else, so the name
// stays the same when the server adds other tools, and an earlier conversation still fits.
func (o *offer) nameFor(slug, tool string) string {
	name := slug + "__" + tool
	taken := func(name string) bool { return o.functions[name] || o.remote[name] != nil }
	if len(name) <= maxName && isName(tool) && !taken(name) {
		return name
	}
	// Four bytes of the digest are enough to tell a few hundred tools apart. Should they ever collide, a
	// number follows.
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

// nameRune returns r if every provider accepts it in a name, else an underscore.
func nameRune(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '_'
}

// isName reports whether every provider accepts the name.
func isName(s string) bool { return s == strings.Map(nameRune, s) }

// labelOf returns the label of a server: the caller's, or its host.
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

// maxSlug leaves at least 38 of the 64 characters of a name to the tool.
const maxSlug = 24

// slugOf returns the prefix of a server's tools: the words of its label in lower case, joined by single
// underscores. A double underscore separates the prefix from the tool, so it must not occur in the prefix.
func slugOf(label string) string {
	words := strings.FieldsFunc(strings.ToLower(label), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	slug := strings.Join(words, "_")
	if slug == "" || slug[0] < 'a' { // some providers require a letter first
		slug = strings.Trim("mcp_"+slug, "_")
	}
	return strings.TrimRight(slug[:min(len(slug), maxSlug)], "_")
}

// unique returns the slug, with a number after it if it is taken, and marks it as taken.
func unique(taken map[string]bool, slug string) string {
	name := slug
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s_%d", slug, n)
	}
	taken[name] = true
	return name
}

// definition returns a tool as a function definition for the model. The schema comes from the server. If
// chat.Parse would refuse it in a request, the tool takes any object instead: one odd schema must not fail
// the whole request.
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
