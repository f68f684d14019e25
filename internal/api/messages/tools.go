package messages

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
)

const (
	maxToolName  = 128 // of the dialect
	maxShortName = 64  // of chat completions
)

// toolSearch is what the types and the names of tools begin with by which the vendor searches among the others.
const toolSearch = "tool_search_tool"

// toolOrigin is where a tool of the chat completion comes from.
type toolOrigin struct {
	field string // tools or mcp_servers
	index int
}

// tools reads tools and mcp_servers, and returns how many tools there are.
//
// The types of both lists are checked first, because the entries of one refer to the other.
func (p *parser) tools(list, servers chat.Value) int {
	p.at("mcp_servers", func() { p.optional(servers, '[', noList) })
	p.at("tools", func() { p.optional(list, '[', noList) })
	t := toolList{parser: p, servers: servers}
	p.at("tools", func() { p.each(list, t.tool) })
	p.at("mcp_servers", func() { p.each(servers, t.server) })
	for name := range t.sets {
		if !t.known(name) {
			p.at("tools", func() { p.bad("MCP server %s not found in mcp_servers", show(name)) })
		}
	}
	p.out.Tools(t.list)
	return len(t.list)
}

// toolList is the state of tools.
type toolList struct {
	*parser
	servers chat.Value
	list    []chat.Tool
	names   map[string]bool       // of the functions
	sets    map[string]chat.Value // mcp_toolset entries by the name of their server
}

// add adds a tool to the request.
func (t *toolList) add(field string, index int, tool chat.Tool) {
	if c, ok := t.taken(); ok {
		tool.Mark(c)
	}
	t.list = append(t.list, tool)
	t.req.tools = append(t.req.tools, toolOrigin{field, index})
}

// take notes the name of a function.
func (t *toolList) take(name string) {
	if t.names == nil {
		t.names = map[string]bool{}
	}
	t.names[name] = true
}

// tool reads one entry of tools: a tool that the caller runs, the tools of an MCP server, or one that only upstreams
// of the dialect have.
//
// A tool of the vendor gets a stand-in, a function without parameters, so that the rules about
// tools apply to it. An upstream that gets the caller's own body does not see it.
func (t *toolList) tool(i int, v chat.Value) {
	if len(t.list) == chat.MaxTools {
		t.bad("is one too many: a request may have at most %d tools", chat.MaxTools)
		return
	}
	t.need(v, '{', noObject)
	kind := "custom"
	if k := v.Member("type"); !k.Null() {
		t.needAt("type", k, '"', noText)
		kind = k.Text()
	}
	t.cache(v)
	for _, name := range []string{"input_examples", "defer_loading", "eager_input_streaming"} { // all tools go along, and as one chunk
		t.leaveGiven(v, name, "tools[]."+name)
	}
	if strings.HasPrefix(kind, toolSearch) { // where the vendor does not search, the model gets all tools
		t.runs = true
		t.req.leave("tools." + toolSearch)
		return
	}
	defer func() {
		if _, ok := t.taken(); ok { // it became no tool
			t.req.leave("cache_control")
		}
	}()
	switch kind {
	case "custom":
		t.at("custom", func() { t.custom(i, v) })
	case "mcp_toolset":
		t.at("mcp_toolset", func() { t.toolset(v) })
	default:
		t.only("the tool type " + show(kind))
		// It counts as a tool: plans and models without tools refuse it.
		name := v.Member("name").Text()
		if !isPlain(name) || len(name) > maxShortName-2 || t.names[name] {
			name = "tool_" + strconv.Itoa(i)
		}
		t.take(name)
		t.add("tools", i, chat.FunctionTool(chat.Function{Name: name}, []byte(`{"name":"`+name+`"}`)))
	}
}

// custom reads a tool that the caller runs.
func (t *toolList) custom(i int, v chat.Value) {
	name, description, schema, strict := v.Member("name"), v.Member("description"), v.Member("input_schema"), v.Member("strict")
	t.at("name", func() {
		if !t.need(name, '"', noText) {
			return
		}
		n := name.Text()
		switch {
		case !isPlain(n) || len(n) > maxToolName:
			t.bad("String should match pattern '^[a-zA-Z0-9_-]{1,%d}$'", maxToolName)
		case t.names[n]:
			t.bad("Tool names must be unique")
		}
		t.take(n)
	})
	t.at("description", func() { t.optional(description, '"', noText) })
	t.at("input_schema", func() {
		if t.need(schema, '{', noObject) && !schema.Member("type").Is("object") {
			t.badAt("type", "Input should be 'object'")
		}
	})
	t.boolAt("strict", strict)
	f := chat.Function{Name: t.shortName(name.Text()), Description: description.Text(), Parameters: schema.Raw(), Strict: strict.Kind() == 't'}
	b := jsonscan.AppendQuoted([]byte(`{"name":`), f.Name)
	if !description.Null() {
		b = append(append(b, `,"description":`...), description.Raw()...)
	}
	b = append(append(b, `,"parameters":`...), f.Parameters...)
	if f.Strict {
		b = append(b, `,"strict":true`...)
	}
	t.add("tools", i, chat.FunctionTool(f, append(b, '}')))
}

// shortName returns the name of a tool in the chat completion. Names there are shorter, so a long one loses its end to a
// hash; Writer puts the caller's name back.
// Five bytes of the hash keep names apart that differ only in their ends.
func (p *parser) shortName(name string) string {
	if len(name) <= maxShortName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	short := strings.ToValidUTF8(name[:maxShortName-11], "") + "_" + hex.EncodeToString(sum[:5])
	if p.req.names == nil {
		p.req.names = map[string]string{}
	}
	p.req.names[short] = name
	return short
}

// toolset reads an entry that chooses tools of an MCP server. The server's own entry becomes the tool.
func (t *toolList) toolset(v chat.Value) {
	name := v.Member("mcp_server_name")
	t.needAt("mcp_server_name", name, '"', noText)
	switch {
	case t.sets[name.Text()].Exists():
		t.badAt("mcp_server_name", "an MCP server may have one mcp_toolset")
	case len(t.sets) == chat.MaxMCPServers:
		t.bad("is one too many: a request may have at most %d MCP servers", chat.MaxMCPServers)
	}
	if t.sets == nil {
		t.sets = map[string]chat.Value{}
	}
	t.sets[name.Text()] = v
}

// known reports whether an MCP server has the name.
func (t *toolList) known(name string) (found bool) {
	for w := t.servers.Walk(); w.Next(); {
		found = found || w.Value.Member("name").Is(name)
	}
	return found || t.fault != nil
}

// server reads an entry of mcp_servers and writes it as a tool of the type mcp.
// A server that is switched off becomes no tool.
func (t *toolList) server(i int, v chat.Value) {
	t.need(v, '{', noObject)
	if t.req.servers(t.req.tools) == chat.MaxMCPServers {
		t.bad("is one too many: a request may have at most %d MCP servers", chat.MaxMCPServers)
		return
	}
	t.tag(v.Member("type"), "url")
	url, name, token := v.Member("url"), v.Member("name"), v.Member("authorization_token")
	t.needAt("url", url, '"', noText)
	t.textAt("name", name)
	t.at("authorization_token", func() { t.optional(token, '"', noText) })
	allowed, ok := t.allowed(v, t.sets[name.Text()])
	if !ok {
		return
	}
	t.add("mcp_servers", i, chat.ServerTool(func(member string) chat.Value {
		switch member {
		case "server_url":
			return url
		case "server_label":
			return name
		case "authorization":
			return token
		case "allowed_tools":
			return allowed
		}
		return chat.Value{}
	}))
}

// allowed returns the list of the tools of a server that may be called, as JSON; nil means all. It reports false if the
// server is switched off. set is the server's mcp_toolset; nil if it has none.
//
// There are two generations of this: tool_configuration in the server's entry, and an mcp_toolset
// in tools. The second knows exceptions from a default; all tools but some cannot be expressed as
// a list, and is refused.
func (t *toolList) allowed(server, set chat.Value) (allowed chat.Value, ok bool) {
	ok = true
	t.at("tool_configuration", func() {
		c := server.Member("tool_configuration")
		if !t.optional(c, '{', noObject) {
			return
		}
		t.boolAt("enabled", c.Member("enabled"))
		ok = c.Member("enabled").Kind() != 'f'
		t.at("allowed_tools", func() {
			if allowed = c.Given("allowed_tools"); t.optional(allowed, '[', noList) {
				t.each(allowed, func(_ int, v chat.Value) {
					if !v.IsText() {
						t.bad(noText)
					}
				})
			}
		})
	})
	if !set.Exists() {
		return allowed, ok
	}
	byDefault := set.Member("default_config").Member("enabled").Kind() != 'f'
	var on []byte
	configs := set.Member("configs")
	for w := configs.Walk(); configs.Kind() == '{' && w.Next(); {
		enabled := byDefault
		if e := w.Value.Member("enabled"); e.IsBool() {
			enabled = e.Kind() == 't'
		}
		switch {
		case enabled:
			on = jsonscan.AppendQuoted(append(on, ','), string(w.Key))
		case byDefault:
			t.bad("an mcp_toolset that allows all tools but some is not supported; list those that are allowed")
		}
	}
	if byDefault {
		return allowed, ok
	}
	if len(on) == 0 {
		return chat.ValueOf([]byte(`[]`)), ok
	}
	on[0] = '['
	return chat.ValueOf(append(on, ']')), ok
}

// servers returns how many of the tools are MCP servers.
func (r *Request) servers(tools []toolOrigin) (n int) {
	for _, t := range tools {
		if t.field == "mcp_servers" {
			n++
		}
	}
	return n
}

// choice reads tool_choice.
// Without tools, "auto" and "none" are harmless and ignored.
func (p *parser) choice(v chat.Value, tools int) {
	if !p.optional(v, '{', noObject) {
		return
	}
	kind := p.tag(v.Member("type"), "any", "auto", "none", "tool")
	alone := v.Member("disable_parallel_tool_use")
	p.boolAt("disable_parallel_tool_use", alone)
	name := v.Member("name")
	if kind == "tool" {
		p.needAt("tool.name", name, '"', noText)
	}
	if tools == 0 {
		if kind == "any" || kind == "tool" {
			p.bad("tool_choice may only be specified while providing tools")
		}
		return
	}
	switch kind {
	case "any":
		p.out.Choose(chat.ToolChoice{Mode: chat.ChoiceRequired})
	case "none":
		p.out.Choose(chat.ToolChoice{Mode: chat.ChoiceNone})
	case "tool":
		p.out.Choose(chat.ToolChoice{Mode: chat.ChoiceNamed, Name: p.shortName(name.Text())})
	}
	if alone.Kind() == 't' {
		p.out.Set("parallel_tool_calls", chat.ValueOf([]byte("false")))
	}
}
