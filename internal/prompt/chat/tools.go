package chat

import "slices"

const (
	// MaxTools is how many entries tools may have (docs/api.md#tools).
	MaxTools = 128
	// MaxMCPServers is how many of them may be MCP servers.
	MaxMCPServers = 8

	maxFunctionName = 64 // characters
)

// tools reads tools. No two functions or custom tools may have the same name: a model could not say
// which one it calls. Names of MCP tools are made unique after discovery, so they are not compared here.
func (p *parser) tools() {
	if p.null() || !p.array("an array of tools") {
		return
	}
	servers := 0
	for p.element() {
		if p.index() == MaxTools {
			p.bad("", "is one too many: a request may have at most %d tools", MaxTools)
			return
		}
		tool, ok := p.tool()
		if !ok {
			return
		}
		if tool.MCP != nil {
			servers++
			if servers > MaxMCPServers {
				p.bad("", "is one too many: a request may have at most %d MCP servers", MaxMCPServers)
				return
			}
		} else if name := tool.name(); p.req.toolNamed(name) >= 0 {
			p.bad(tool.member()+".name", "must differ from that of tools[%d]; both are %s", p.req.toolNamed(name), quoteShort(name))
			return
		}
		p.req.Tools = append(p.req.Tools, tool)
	}
	p.req.orderTools()
}

// toolNamed returns the position of the function or custom tool among the tools read so far, or -1. It
// compares names one by one: there are at most MaxTools.
func (r *Request) toolNamed(name string) int {
	return slices.IndexFunc(r.Tools, func(t Tool) bool { return t.MCP == nil && t.name() == name })
}

// name returns the name of a function or custom tool; empty for an MCP server.
func (t *Tool) name() string {
	if t.Function != nil {
		return t.Function.Name
	}
	return t.Custom
}

// member returns the path, within the entry, of the member that holds the definition. It must not be
// called for an MCP server, whose members are in the entry itself.
func (t *Tool) member() string {
	if t.Function != nil {
		return ".function"
	}
	return ".custom"
}

// tool reads one entry of tools. The meaning of its members depends on type, which nearly always comes
// first. A function that comes before it is skipped, and revisited once the type is known. So is an MCP server, which is short.
//
// Nearly every client sends type first, and then nothing is read twice.
func (p *parser) tool() (Tool, bool) {
	from := p.pos
	if !p.object("an object with a type") {
		return Tool{}, false
	}
	var (
		kind     string
		function *Function
		early    place // a function that comes before type
		custom   place
	)
	for p.member() {
		switch string(p.key) {
		case "type":
			kind = p.oneOf(`"function", "mcp" or "custom"`, "function", "mcp", "custom")
			continue
		case "function":
			if kind == "function" { // the usual order: read it now, and only once
				function = p.function()
				continue
			}
			early = p.here()
		case "custom":
			custom = p.here()
		default:
			p.req.marked = p.req.marked || isMark(p.key)
		}
		p.other(toolShape)
	}
	if p.failed() {
		return Tool{}, false
	}
	// The entry is read; what was skipped is revisited now that the type is known.
	tool := Tool{raw: p.body[from:p.pos]}
	switch kind {
	case "mcp":
		r := mcpReader{}
		if tool.MCP = r.server(ValueOf(tool.raw).Given); r.problem != "" {
			p.bad(r.sub, "%s", r.problem)
		}
	case "function":
		if end := p.pos; p.revisit(early) {
			function = p.function()
			p.resume(end)
		}
		if function == nil {
			p.bad(".function", "is required: an object with a name")
		}
		tool.Function = function
	case "custom":
		if end := p.pos; p.revisit(custom) {
			tool.Custom = p.customTool()
			p.resume(end)
		}
		if tool.Custom == "" {
			p.bad(".custom", "is required: an object with a name")
		}
		p.foreign("custom tools")
	default:
		p.bad(".type", `is required: "function", "mcp" or "custom"`)
	}
	return tool, !p.failed()
}

// customTool reads the definition of a custom tool and returns its name. It returns an empty string for
// null and after a problem.
func (p *parser) customTool() (name string) {
	from := p.pos
	if p.null() || !p.object("an object with a name") {
		return ""
	}
	for p.member() {
		if string(p.key) != "name" {
			p.other(customShape)
			continue
		}
		name = p.functionName()
	}
	if name == "" {
		p.bad(".name", "is required")
	}
	p.req.size.bytes += p.pos - from
	return name
}

// function reads the function of a tool. It returns nil for null and after a problem. The JSON of the
// whole function counts toward the prompt, since templates show it to the model as JSON.
func (p *parser) function() *Function {
	from := p.pos
	if p.null() || !p.object("an object with a name") {
		return nil
	}
	f := new(Function)
	for p.member() {
		switch string(p.key) {
		case "name":
			f.Name = p.functionName()
		case "description":
			if !p.null() {
				f.Description = p.unquoted(p.text("a string"))
			}
		case "parameters":
			f.Parameters = p.schema()
		case "strict":
			f.Strict = !p.null() && p.boolean()
		default:
			p.req.marked = p.req.marked || isMark(p.key)
			p.other(functionShape)
		}
	}
	// An empty name is reported where it is read; this is for an absent one or null.
	if f.Name == "" {
		p.bad(".name", "is required")
	}
	if p.failed() {
		return nil
	}
	p.req.size.bytes += p.pos - from
	return f
}

// functionName reads the name of a function. It returns an empty string for null and after a problem.
func (p *parser) functionName() string {
	name := p.requiredText()
	if len(name) > maxFunctionName {
		p.bad("", "must be at most %d characters long; got %s", maxFunctionName, quoteShort(name))
	}
	for _, c := range []byte(name) {
		if !isWord(c) && c != '-' && c != '.' {
			p.bad("", "may hold only letters, digits, underscores, hyphens and dots; got %s", quoteShort(name))
		}
	}
	return name
}

// schema reads a JSON schema and returns its JSON, or nil for null and after a problem. The schema is
// passed on as it is; models and upstreams judge it.
func (p *parser) schema() []byte {
	if p.null() {
		return nil
	}
	from := p.pos
	if p.peek() != '{' {
		p.mismatchType("an object, a JSON schema")
		return nil
	}
	p.skip()
	return p.body[from:p.pos]
}

// toolChoice reads tool_choice: a word, or an object that names a tool. tools may come later in the
// body, so choosable checks the name at the end.
func (p *parser) toolChoice() {
	const want = `"auto", "none", "required" or an object that names a tool`
	c := &p.req.ToolChoice
	switch p.peek() {
	case 'n':
		p.null()
		return
	case '{':
		p.namedChoice()
		return
	}
	switch p.oneOf(want, "auto", "none", "required") {
	case "none":
		c.Mode = ChoiceNone
	case "required":
		c.Mode = ChoiceRequired
	}
}

// namedChoice reads a tool_choice that names a function, a custom tool, or those that are allowed.
// The type may come after the name, so names are collected first and the one that belongs to the
// type is used.
func (p *parser) namedChoice() {
	if !p.enter(true) {
		return
	}
	var (
		kind    string
		named   = map[string]string{} // the name in function and in custom, whichever are there
		allowed byte                  // the first byte of allowed_tools; 0: it is absent
	)
	c := &p.req.ToolChoice
	for p.member() {
		switch key := string(p.key); key {
		case "type":
			kind = p.oneOf(`"function", "custom" or "allowed_tools"`, "function", "custom", "allowed_tools")
		case "function", "custom":
			if p.null() || !p.object("an object with a name") {
				break
			}
			named[key] = ""
			for p.member() {
				if string(p.key) != "name" {
					p.other(calledShape)
					continue
				}
				named[key] = p.requiredText()
			}
		case "allowed_tools":
			allowed = p.peek()
			p.other(choiceShape)
		default:
			p.other(choiceShape)
		}
	}
	name, found := named[kind]
	switch {
	case kind == "":
		p.bad(".type", `is required: "function", "custom" or "allowed_tools"`)
	// What it holds is left to the upstream.
	case kind == "allowed_tools" && allowed != '{':
		p.bad(".allowed_tools", "is required: an object with mode and tools")
	case kind == "allowed_tools":
		c.Mode = ChoiceAllowed
		p.foreign("a tool_choice of type allowed_tools")
	case !found:
		p.bad("."+kind, "is required: an object with the name of a tool")
	case name == "":
		p.bad("."+kind+".name", "is required: the name of a tool among tools")
	default:
		c.Mode, c.Name = ChoiceNamed, name
		if kind == "custom" {
			p.foreign("a tool_choice of type custom")
		}
	}
}

// unchoosable returns why tool_choice cannot be satisfied, and the path of what is wrong; both are empty if it can. A name
// that no function has may still be that of a tool of an MCP server, which is known only after its tools were listed.
func (r *Request) unchoosable() (path, problem string) {
	switch c := r.ToolChoice; {
	case c.Mode == ChoiceRequired && len(r.Tools) == 0:
		return "tool_choice", `is "required", but the request has no tools; add tools or choose "auto"`
	case c.Mode == ChoiceNamed && len(r.Tools) == 0:
		return "tool_choice", "names the tool " + quoteShort(c.Name) + ", but the request has no tools"
	case c.Mode == ChoiceAllowed && len(r.Tools) == 0:
		return "tool_choice", "allows some tools, but the request has none"
	// With MCP servers the name may be that of a tool that is listed later.
	case c.Mode == ChoiceNamed && r.toolNamed(c.Name) < 0 && !r.HasMCP():
		return "tool_choice.function.name", "must be the name of a function among tools; got " + quoteShort(c.Name)
	// The loop that runs MCP tools puts calls together from functions only.
	case r.HasMCP() && r.hasCustom():
		return "tools", "mixes MCP servers with custom tools, which cannot be called in one request"
	case r.HasMCP() && c.Mode == ChoiceAllowed:
		return "tool_choice", "cannot be of type allowed_tools beside MCP servers; use the allowed_tools of each server"
	}
	return "", ""
}

// HasMCP reports whether the tools include an MCP server. Such a request goes through the tool loop and
// may take several turns of the model.
func (r *Request) HasMCP() bool {
	return slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.MCP != nil })
}

// hasCustom reports whether the tools include a custom one.
func (r *Request) hasCustom() bool {
	return slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Custom != "" })
}

// place is a member that will be revisited: its key, and where its value starts. A value never starts
// at 0, so the zero place is a member that is absent.
// The parser is a single pass otherwise; this is its only way back.
type place struct {
	from, to int32
	value    int
}

// here returns the current member. It must be called before its value is read.
func (p *parser) here() place {
	f := p.frames[len(p.frames)-1]
	return place{f.from, f.to, p.pos}
}

// revisit moves back to the value of a member that was skipped, and reports whether there is one. No
// value is revisited inside another that is revisited, so every byte is read at most twice. resume
// ends the revisit.
//
// The frame that it pushes stands for the object around the value, so that messages have the right
// path although that object is closed by now.
func (p *parser) revisit(at place) bool {
	if at.value == 0 || p.failed() {
		return false
	}
	p.frames = append(p.frames, frame{object: true, count: 1, from: at.from, to: at.to, mark: p.seen.mark()})
	p.pos = at.value
	return true
}

// resume ends a revisit and continues at end, which is where the scanner was before.
func (p *parser) resume(end int) {
	if !p.failed() {
		p.frames = p.frames[:len(p.frames)-1]
		p.pos = end
	}
}
