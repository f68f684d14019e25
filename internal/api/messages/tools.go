package messages

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
)

const (
	maxToolName  = 128 // of the dialect
	maxShortName = 64  // of chat completions
)

// toolOrigin is where a tool of the chat completion comes from.
type toolOrigin struct {
	field string // tools or mcp_servers
	index int
}

// tools reads tools and mcp_servers, and returns how many tools there are.
func (p *parser) tools(list, servers value) int {
	p.at("mcp_servers", func() { servers = p.list(servers) })
	p.at("tools", func() { list = p.list(list) })
	t := toolList{parser: p, servers: servers, sets: map[string]value{}, names: map[string]bool{}}
	if list != nil {
		p.at("tools", func() { p.each(list, t.tool) })
	}
	if servers != nil {
		p.at("mcp_servers", func() { p.each(servers, t.server) })
	}
	for name := range t.sets {
		if !t.known(name) {
			p.at("tools", func() { p.bad("MCP server %s not found in mcp_servers", show(name)) })
		}
	}
	if t.n > 0 {
		p.out = append(p.out, ']')
	}
	return t.n
}

// toolList is the state of tools.
type toolList struct {
	*parser
	servers value
	n       int              // tools written
	names   map[string]bool  // of the functions
	sets    map[string]value // mcp_toolset entries by the name of their server
}

// begin begins a tool of the chat completion.
func (t *toolList) begin(field string, index int) {
	if t.n++; t.n == 1 {
		t.out = append(t.out, `,"tools":[`...)
	} else {
		t.out = append(t.out, ',')
	}
	t.req.tools = append(t.req.tools, toolOrigin{field, index})
}

// tool reads one entry of tools: a tool that the caller runs, the tools of an MCP server, or one that only upstreams
// of the dialect have.
func (t *toolList) tool(i int, v value) {
	if t.n == chat.MaxTools {
		t.bad("is one too many: a request may have at most %d tools", chat.MaxTools)
		return
	}
	if !v.is('{') {
		t.bad(noObject)
		return
	}
	kind := "custom"
	if k := v.member("type"); !k.absent() {
		if !k.is('"') {
			t.badAt("type", noText)
			return
		}
		kind = k.text()
	}
	t.cache(v)
	switch kind {
	case "custom":
		t.at("custom", func() { t.custom(i, v) })
	case "mcp_toolset":
		t.at("mcp_toolset", func() { t.toolset(v) })
	default:
		t.only("the tool type " + show(kind))
		// It counts as a tool: plans and models without tools refuse it.
		name := v.member("name")
		if !name.is('"') || !isPlain(name.text()) || len(name) > maxShortName || t.names[name.text()] {
			name = value(`"tool_` + itoa(i) + `"`)
		}
		t.names[name.text()] = true
		t.begin("tools", i)
		t.out = append(append(append(t.out, `{"type":"function","function":{"name":`...), name...), `}}`...)
	}
}

// custom reads a tool that the caller runs.
func (t *toolList) custom(i int, v value) {
	name, description, schema, strict := v.member("name"), v.member("description"), v.member("input_schema"), v.member("strict")
	t.at("name", func() {
		if !t.need(name, '"', noText) {
			return
		}
		n := name.text()
		switch {
		case !isPlain(n) || len(n) > maxToolName:
			t.bad("String should match pattern '^[a-zA-Z0-9_-]{1,%d}$'", maxToolName)
		case t.names[n]:
			t.bad("Tool names must be unique")
		}
		t.names[n] = true
	})
	t.at("description", func() {
		if !description.absent() && !description.is('"') {
			t.bad(noText)
		}
	})
	t.at("input_schema", func() {
		if t.need(schema, '{', noObject) {
			if k := schema.member("type"); !k.is('"') || k.text() != "object" {
				t.badAt("type", "Input should be 'object'")
			}
		}
	})
	t.at("strict", func() {
		if !strict.absent() && !strict.isBool() {
			t.bad(noBool)
		}
	})
	if t.fault != nil {
		return
	}
	t.begin("tools", i)
	t.out = jsonscan.AppendQuoted(append(t.out, `{"type":"function","function":{"name":`...), t.shortName(name.text()))
	if !description.absent() {
		t.out = append(append(t.out, `,"description":`...), description...)
	}
	t.out = append(append(t.out, `,"parameters":`...), schema...)
	if strict.is('t') {
		t.out = append(t.out, `,"strict":true`...)
	}
	t.out = append(t.out, `}}`...)
}

// shortName returns the name of a tool in the chat completion. Names there are shorter, so a long one loses its end to a
// hash; Writer puts the caller's name back.
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
func (t *toolList) toolset(v value) {
	name := v.member("mcp_server_name")
	t.at("mcp_server_name", func() { t.need(name, '"', noText) })
	if t.fault != nil {
		return
	}
	switch {
	case t.sets[name.text()] != nil:
		t.badAt("mcp_server_name", "an MCP server may have one mcp_toolset")
	case len(t.sets) == chat.MaxMCPServers:
		t.bad("is one too many: a request may have at most %d MCP servers", chat.MaxMCPServers)
	}
	t.sets[name.text()] = v
}

// known reports whether an MCP server has the name.
func (t *toolList) known(name string) (found bool) {
	if t.servers == nil || t.fault != nil {
		return t.fault != nil
	}
	t.servers.elements(func(_ int, v value) { found = found || v.member("name").text() == name })
	return found
}

// server reads an entry of mcp_servers and writes it as a tool of the type mcp.
func (t *toolList) server(i int, v value) {
	if !v.is('{') {
		t.bad(noObject)
		return
	}
	if t.req.servers(t.req.tools) == chat.MaxMCPServers {
		t.bad("is one too many: a request may have at most %d MCP servers", chat.MaxMCPServers)
		return
	}
	if t.tag(v.member("type"), "url") == "" {
		return
	}
	url, name, token := v.member("url"), v.member("name"), v.member("authorization_token")
	t.at("url", func() { t.need(url, '"', noText) })
	t.at("name", func() {
		if t.need(name, '"', noText) && len(name) == 2 {
			t.bad("String should have at least 1 character")
		}
	})
	t.at("authorization_token", func() {
		if !token.absent() && !token.is('"') {
			t.bad(noText)
		}
	})
	if t.fault != nil {
		return
	}
	allowed, ok := t.allowed(v, t.sets[name.text()])
	if !ok || t.fault != nil {
		return
	}
	t.begin("mcp_servers", i)
	t.out = append(append(t.out, `{"type":"mcp","server_url":`...), url...)
	t.out = append(append(t.out, `,"server_label":`...), name...)
	if !token.absent() {
		t.out = append(append(t.out, `,"authorization":`...), token...)
	}
	if allowed != nil {
		t.out = append(append(t.out, `,"allowed_tools":`...), allowed...)
	}
	t.out = append(t.out, '}')
}

// allowed returns the list of the tools of a server that may be called, as JSON; nil means all. It reports false if the
// server is switched off. set is the server's mcp_toolset; nil if it has none.
func (t *toolList) allowed(server, set value) (allowed value, ok bool) {
	ok = true
	t.at("tool_configuration", func() {
		c := t.object(server.member("tool_configuration"))
		if c == nil {
			return
		}
		if e := c.member("enabled"); !e.absent() && !e.isBool() {
			t.badAt("enabled", noBool)
		} else if e.is('f') {
			ok = false
		}
		t.at("allowed_tools", func() {
			if allowed = t.list(c.member("allowed_tools")); allowed != nil {
				t.each(allowed, func(_ int, v value) {
					if !v.is('"') {
						t.bad(noText)
					}
				})
			}
		})
	})
	if set == nil {
		return allowed, ok
	}
	byDefault := true
	if d := set.member("default_config"); d.is('{') {
		byDefault = !d.member("enabled").is('f')
	}
	var on []byte
	configs := set.member("configs")
	if configs.is('{') {
		configs.members(func(key []byte, v value) {
			enabled := byDefault
			if v.is('{') && v.member("enabled").isBool() {
				enabled = v.member("enabled").is('t')
			}
			switch {
			case enabled:
				on = jsonscan.AppendQuoted(append(on, ','), string(key))
			case byDefault:
				t.bad("an mcp_toolset that allows all tools but some is not supported; list those that are allowed")
			}
		})
	}
	if byDefault {
		return allowed, ok
	}
	if len(on) == 0 {
		return value(`[]`), ok
	}
	return append(append(value{'['}, on[1:]...), ']'), ok
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
func (p *parser) choice(v value, tools int) {
	if v = p.object(v); v == nil {
		return
	}
	kind := p.tag(v.member("type"), "any", "auto", "none", "tool")
	alone := v.member("disable_parallel_tool_use")
	p.at("disable_parallel_tool_use", func() {
		if !alone.absent() && !alone.isBool() {
			p.bad(noBool)
		}
	})
	name := v.member("name")
	if kind == "tool" {
		p.at("tool.name", func() { p.need(name, '"', noText) })
	}
	if p.fault != nil {
		return
	}
	if tools == 0 {
		if kind == "any" || kind == "tool" {
			p.bad("tool_choice may only be specified while providing tools")
		}
		return
	}
	switch kind {
	case "any":
		p.out = append(p.out, `,"tool_choice":"required"`...)
	case "none":
		p.out = append(p.out, `,"tool_choice":"none"`...)
	case "tool":
		p.out = jsonscan.AppendQuoted(append(p.out, `,"tool_choice":{"type":"function","function":{"name":`...), p.shortName(name.text()))
		p.out = append(p.out, `}}`...)
	}
	if alone.is('t') {
		p.out = append(p.out, `,"parallel_tool_calls":false`...)
	}
}
