package responses

import (
	"bytes"
	"math"
	"net/url"
	"slices"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
)

// maxOffered bounds the tools of a conversation, those in namespaces and in items included.
const maxOffered = 1024

// tools are the tools of a request.
type tools struct {
	declared shelf // those of the request itself, as it was read
	// list has what the model is told about: the tools of earlier turns, too. Compose fills it, and what follows.
	list    []tool
	renamed map[string]*tool  // those that the model knows by another name, by that name
	wires   map[string]string // the names that the model knows them by, by fullName
	custom  map[string]bool   // the names of custom tools, which the model sees as functions
	absent  []string          // the names of built-in tools, which only an upstream of the dialect gets
	echo    []byte            // the JSON of tools as replies repeat it
	choice  chat.ToolChoice
}

// tool is one tool that the model is told about.
type tool struct {
	index     int    // in the field tools; -1: it is of an item
	name      string // of an MCP server its label
	namespace string // what its name belongs to; empty for most
	wire      string // the name that the model knows it by
	server    bool
	custom    bool
	search    bool // it finds other tools
	function  chat.Function
	rest      []byte    // the JSON of the function behind its name: members that begin with a comma
	chat      chat.Tool // of an MCP server
}

// scope is where a tool stands.
type scope struct {
	index     int    // of the entry in the field tools; -1: it is in an item
	namespace string // that it is in; empty: none
}

// ownTools are the tools of the dialect that the caller runs, or that find tools of the caller.
var ownTools = map[string]bool{
	"computer": true, "computer_use_preview": true, "computer_use": true,
	"local_shell": true, "shell": true, "apply_patch": true, "tool_search": true,
}

// builtIn returns the name of a tool that only upstreams of the dialect have; empty for any other type. Other models are not
// told about them: agents offer them on every call and do without. Only a tool_choice that forces one is refused there.
func builtIn(kind string) string {
	if ownTools[kind] {
		return kind
	}
	if e := allowance.Tool(kind); e != nil && kind != "mcp" { // the service calls such servers itself
		return e.Name
	}
	return ""
}

// tools reads the field tools.
func (p *parser) tools(v chat.Value) {
	if !p.array(v, "an array of tools") {
		return
	}
	t := &p.req.tools
	t.echo = []byte{'['}
	servers := 0
	for walk := v.Walk(); walk.Next(); {
		i, entry := walk.Index, walk.Value
		if i == chat.MaxTools {
			p.bad(entry, "", "is one too many: a request may have at most %d tools", chat.MaxTools)
			return
		}
		if i > 0 {
			t.echo = append(t.echo, ',')
		}
		if entry.Kind() == '{' && entry.Given("type").Is("mcp") {
			if servers++; servers > chat.MaxMCPServers {
				p.bad(entry, "", "is one too many: a request may have at most %d MCP servers", chat.MaxMCPServers)
				return
			}
			t.echo = append(t.echo, p.server(i, entry)...)
		} else {
			p.tool(entry, scope{index: i})
			t.echo = append(t.echo, entry.Raw()...)
		}
		if p.failed() {
			return
		}
	}
	t.echo = append(t.echo, ']')
}

// tool reads a tool, other than an MCP server in the field tools.
func (p *parser) tool(entry chat.Value, at scope) {
	const types = `"function", "custom" or "mcp"`
	p.object(entry, "an object with a type")
	kind := p.required(entry, "type", types)
	switch name := kind.Text(); {
	case name == "function":
		p.function(entry, at)
	case name == "custom":
		p.custom(entry, at)
	case name == "namespace" && at.namespace == "":
		p.namespaceTool(entry, at)
	case name == toolSearch && entry.Given("execution").Is("client") && at.namespace == "":
		p.search(entry, at)
	case !kind.IsText() || name == "":
		p.bad(entry, ".type", "must be %s, or the type of a built-in tool; got %s", types, describe(kind))
	default:
		t := &p.req.tools
		p.req.offers, p.req.loose = true, p.req.loose || addressed(entry)
		known := builtIn(name)
		if name == "mcp" { // the service calls the servers of the field tools alone
			known = name
		}
		if known == "" {
			p.only(entry, "the tool type "+describe(kind))
		} else if !slices.Contains(t.absent, known) {
			t.absent = append(t.absent, known)
		}
	}
}

// namespaceTool reads tools that share a namespace. Other dialects have none, so that it becomes a part of their names.
func (p *parser) namespaceTool(entry chat.Value, at scope) {
	at.namespace = p.sized(p.required(entry, "name", "the name of the namespace"), 1, maxToolName).Text()
	p.toolsIn(p.required(entry, "tools", "an array of tools"), at)
	for walk := entry.Walk(); walk.Next(); {
		switch key := string(walk.Key); key {
		case "type", "name", "tools":
		default:
			if chat.Asks(walk.Value.Raw()) {
				p.leave("tools.namespace." + key)
			}
		}
	}
}

// toolsIn reads the tools of a namespace, or of an item.
func (p *parser) toolsIn(list chat.Value, at scope) {
	if !p.array(list, "an array of tools") {
		return
	}
	for walk := list.Walk(); !p.failed() && walk.Next(); {
		p.tool(walk.Value, at)
	}
}

// maxToolName is how long the name of a tool may be, in bytes. Longer ones than maxWire reach other models shortened.
const maxToolName = 128

// toolName reads the name of a function or custom tool, which no other in the same place may have.
func (p *parser) toolName(entry chat.Value, at scope) string {
	v := p.sized(p.required(entry, "name", "the name of the tool"), 1, maxToolName)
	name := v.Text()
	for _, c := range []byte(name) {
		if !isNameByte(c) {
			p.bad(v, "", "may hold only letters, digits, underscores, hyphens and dots; got %s", describe(v))
		}
	}
	list := p.offered()
	if i := list.find(at.namespace, name); at.index >= 0 && i >= 0 && list.tools[i].index >= 0 {
		p.bad(v, "", "must differ from the names of the other tools; two are %s", describe(v))
	}
	return name
}

// function reads a function tool, which is flat here and has an object of its own in chat completions.
func (p *parser) function(entry chat.Value, at scope) {
	f := chat.Function{}
	name := p.toolName(entry, at)
	var b []byte
	for walk := entry.Walk(); walk.Next(); {
		key, m := string(walk.Key), walk.Value
		if m.Null() || key == "type" || key == "name" {
			continue
		}
		switch key {
		case "description":
			f.Description = p.sized(m, 0, math.MaxInt).Text()
		case "parameters":
			p.object(m, "an object, a JSON schema")
			f.Parameters = m.Raw()
		case "strict":
			f.Strict = p.boolean(m)
		default:
			p.leave("tools[]." + key)
			continue
		}
		b = append(append(append(append(b, `,"`...), key...), `":`...), m.Raw()...)
	}
	p.offer(entry, tool{index: at.index, name: name, namespace: at.namespace, function: f, rest: b})
}

// offer adds a tool that the model is told about. One that an item offers takes the place of an earlier one of its name, and of
// one in the field tools, wherever that stands.
func (p *parser) offer(entry chat.Value, one tool) {
	list := p.offered()
	if i := list.find(one.namespace, one.name); i >= 0 {
		if one.index < 0 || list.tools[i].index >= 0 {
			list.tools[i] = one
		}
		return
	}
	if len(list.tools) == maxOffered {
		p.bad(entry, "", "is one too many: a request may offer at most %d tools", maxOffered)
		return
	}
	list.add(one)
}

// offered returns the list that the tools which are being read belong to.
func (p *parser) offered() *shelf {
	if p.recalled != nil {
		return p.recalled
	}
	return &p.req.tools.declared
}

// anyInput is the schema of the function that stands for a custom tool.
const anyInput = `{"type":"object","properties":{"input":{"type":"string","description":"The input of the tool, as plain text"}},"required":["input"],"additionalProperties":false}`

// custom reads a custom tool, which takes any text. Few providers have such tools, so the model sees a function with
// one text, and the writer turns its calls back. A grammar that the text must follow is told to the model in words.
func (p *parser) custom(entry chat.Value, at scope) {
	f := chat.Function{Parameters: []byte(anyInput)}
	name := p.toolName(entry, at)
	if m := entry.Given("description"); m.Exists() {
		f.Description = p.sized(m, 0, math.MaxInt).Text()
	}
	if format := entry.Given("format"); format.Exists() && p.object(format, "an object with a type") {
		f.Description += p.grammar(format)
	}
	for walk := entry.Walk(); walk.Next(); {
		switch key := string(walk.Key); key {
		case "type", "name", "description", "format":
		default:
			if chat.Asks(walk.Value.Raw()) {
				p.leave("tools[]." + key)
			}
		}
	}
	b := jsonscan.AppendQuoted([]byte(`,"description":`), f.Description)
	b = append(b, `,"parameters":`+anyInput...)
	p.offer(entry, tool{index: at.index, name: name, namespace: at.namespace, custom: true, function: f, rest: b})
}

// toolSearch is the type of a tool by which the model finds other tools, and the name of the function that stands for it.
const toolSearch = "tool_search"

// search reads a search for tools that the caller runs. The model sees a function, and the writer turns its calls back.
// What the caller finds is offered from then on.
func (p *parser) search(entry chat.Value, at scope) {
	f := chat.Function{Parameters: []byte(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`)}
	if m := entry.Given("description"); m.Exists() {
		f.Description = p.sized(m, 0, math.MaxInt).Text()
	}
	if m := entry.Given("parameters"); m.Exists() && p.object(m, "an object, a JSON schema") {
		f.Parameters = m.Raw()
	}
	b := jsonscan.AppendQuoted([]byte(`,"description":`), f.Description)
	b = append(append(b, `,"parameters":`...), f.Parameters...)
	p.offer(entry, tool{index: at.index, name: toolSearch, namespace: searches, search: true, function: f, rest: b})
}

// searches is the namespace of the function that stands for a search, so that it differs from a function of that name.
const searches = "\x00"

// grammar returns what the model is told about the format of a custom tool's input.
func (p *parser) grammar(format chat.Value) string {
	const types = `"text" or "grammar"`
	if p.oneOf(p.required(format, "type", types), types, "text", "grammar") != "grammar" {
		return ""
	}
	syntax := p.required(format, "syntax", `"lark" or "regex"`)
	definition := p.string(format, "definition", "the grammar")
	called := p.oneOf(syntax, `"lark" or "regex"`, "lark", "regex")
	return "\n\nThe input must match this " + called + " definition exactly:\n" + definition.Text()
}

// server reads an MCP server. Its members are those of chat completions. Unlike there, calls need an approval unless
// the request says otherwise, as in the original. It returns what replies repeat of it.
func (p *parser) server(i int, entry chat.Value) (echo []byte) {
	label := p.id(entry, "server_label", "the name of the server")
	if !entry.Given("server_url").Exists() && entry.Given("connector_id").Exists() {
		p.bad(entry, ".connector_id", "is not supported: give the address of an MCP server in server_url")
	}
	address := p.string(entry, "server_url", "the address of the MCP server")
	list := &p.req.tools.declared
	if slices.ContainsFunc(list.tools, func(one tool) bool { return one.server && one.name == label }) {
		p.bad(entry, ".server_label", "must differ from the labels of the other servers; two are %s", describe(entry.Given("server_label")))
	}
	member := func(name string) chat.Value {
		v := entry.Given(name)
		if name == "require_approval" && !v.Exists() {
			return chat.ValueOf([]byte(`"always"`))
		}
		return v
	}
	// Replies do not repeat what may be secret.
	echo = []byte(`{"type":"mcp"`)
	for walk := entry.Walk(); walk.Next(); {
		key, m := string(walk.Key), walk.Value
		switch {
		case m.Null():
		case key == "server_url":
			echo = jsonscan.AppendQuoted(append(echo, `,"server_url":`...), origin(address.Text()))
		case key == "server_label", key == "allowed_tools", key == "require_approval":
			echo = append(append(append(append(echo, `,"`...), key...), `":`...), m.Raw()...)
		}
	}
	if !entry.Given("require_approval").Exists() {
		echo = append(echo, `,"require_approval":"always"`...)
	}
	list.add(tool{index: i, name: label, server: true, chat: chat.ServerTool(member)})
	return append(echo, '}')
}

// origin returns the beginning of an address, without what may be secret.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "<redacted>"
	}
	if u.Path == "" || u.Path == "/" {
		return u.Scheme + "://" + u.Host + u.Path
	}
	return u.Scheme + "://" + u.Host + "/<redacted>"
}

// choice reads tool_choice, when all tools are known.
func (p *parser) choice(v chat.Value) {
	t := &p.req.tools
	t.choice = chat.ToolChoice{}
	const want = `"auto", "none", "required" or an object that names a tool`
	switch v.Kind() {
	case 0:
	case '"':
		switch p.oneOf(v, want, "auto", "none", "required") {
		case "none":
			t.choice.Mode = chat.ChoiceNone
		case "required":
			t.choice.Mode = chat.ChoiceRequired
			p.forcible(v)
		}
	case '{':
		p.named(v)
	default:
		p.bad(v, "", "must be %s; got %s", want, v.TypeName())
	}
	if len(t.list) == 0 {
		t.choice = chat.ToolChoice{} // chat completions refuse a choice among no tools
	}
}

// forcible refuses a choice that no tool can satisfy.
func (p *parser) forcible(v chat.Value) {
	t := &p.req.tools
	switch {
	case len(t.list) > 0 || p.failed():
	case t.absent != nil || p.req.offers:
		p.only(v, "the built-in tools of the request, one of which tool_choice requires")
	default:
		p.bad(v, "", `is "required", but the request has no tools; add tools or choose "auto"`)
	}
}

// only notes that only an upstream of the dialect can take the request.
func (p *parser) only(v chat.Value, what string) {
	p.needs(v, what+"; only models whose provider has the Responses API do")
}

// needs is only for what the caller can say in another way.
func (p *parser) needs(v chat.Value, what string) {
	if p.req.needs.Path == "" {
		p.req.needs = chat.Foreign{Path: p.path(v), What: what}
	}
}

// named reads a tool_choice that is an object.
func (p *parser) named(v chat.Value) {
	const types = `"function", "custom", "mcp" or "allowed_tools"`
	kind := p.required(v, "type", types)
	t := &p.req.tools
	switch name := kind.Text(); {
	case name == "function", name == "custom":
		called := p.id(v, "name", "the name of a tool among tools")
		i := t.named(v.Given("namespace").Text(), called)
		if i < 0 {
			p.bad(v, ".name", "must be the name of a tool among tools; got %s", describe(v.Given("name")))
			return
		}
		t.choice = chat.ToolChoice{Mode: chat.ChoiceNamed, Name: t.list[i].wire}
	case name == "mcp":
		label := p.id(v, "server_label", "the label of a server among tools")
		if t.server(label) < 0 {
			p.bad(v, ".server_label", "must be the label of an MCP server among tools; got %s", describe(v.Given("server_label")))
		}
		t.choice.Mode = chat.ChoiceRequired
		if !v.Given("name").Exists() {
			t.keep(func(one tool) bool { return one.server && one.name == label })
			return
		}
		t.choice = chat.ToolChoice{Mode: chat.ChoiceNamed, Name: p.id(v, "name", "the name of a tool")}
	case name == "allowed_tools":
		p.allowed(v)
	case name == toolSearch && t.named(searches, toolSearch) >= 0:
		t.choice = chat.ToolChoice{Mode: chat.ChoiceNamed, Name: t.wireOf(searches, toolSearch)}
	case builtIn(name) != "":
		p.only(v, "the built-in tool "+describe(kind)+", which tool_choice forces")
	case kind.IsText():
		p.only(kind, "the type "+describe(kind)+" of tool_choice")
	default:
		p.bad(v, ".type", "must be %s; got %s", types, describe(kind))
	}
}

// allowed reads a tool_choice that allows some of the tools. The model sees only those.
func (p *parser) allowed(v chat.Value) {
	t := &p.req.tools
	mode, list := p.required(v, "mode", `"auto" or "required"`), p.required(v, "tools", "an array of tools")
	how := p.oneOf(mode, `"auto" or "required"`, "auto", "required")
	if !p.array(list, "an array of tools") {
		return
	}
	allowed := make([]bool, len(t.list))
	for walk := list.Walk(); walk.Next(); {
		one := walk.Value
		p.object(one, "an object with a type")
		kind := p.required(one, "type", "the type of a tool")
		name := "name"
		switch kind.Text() {
		case "mcp":
			name = "server_label"
		case "function", "custom", "namespace":
		default: // other models do not have it, but for a search
			for i := range t.list {
				allowed[i] = allowed[i] || t.list[i].search && kind.Is(toolSearch)
			}
			continue
		}
		if !t.mark(allowed, kind.Text(), one.Given("namespace").Text(), p.id(one, name, "which of the tools it is")) {
			p.bad(one, "."+name, "must be that of a tool among tools; got %s", describe(one.Given(name)))
		}
	}
	i := -1
	t.keep(func(tool) bool { i++; return allowed[i] })
	if how == "required" {
		t.choice.Mode = chat.ChoiceRequired
		p.forcible(v)
	}
}

// mark marks the tools that an entry of allowed_tools means, and reports whether there are any.
func (t *tools) mark(allowed []bool, kind, namespace, name string) (found bool) {
	for i := range t.list {
		if t.list[i].chosen(kind, namespace, name) {
			allowed[i], found = true, true
		}
	}
	return found
}

// chosen reports whether an entry of allowed_tools means the tool: one of its name, or all of its namespace.
func (t *tool) chosen(kind, namespace, name string) bool {
	switch {
	case kind == "mcp" || t.server:
		return kind == "mcp" && t.server && t.name == name
	case kind == "namespace":
		return t.namespace == name
	}
	return t.name == name && !t.search && (namespace == "" || namespace == t.namespace)
}

// server returns the index of an MCP server, or -1.
func (t *tools) server(label string) int {
	return slices.IndexFunc(t.list, func(one tool) bool { return one.server && one.name == label })
}

// named returns the index of a tool that a choice names, or -1. Without a namespace it may be in any, if it is in none.
func (t *tools) named(namespace, name string) int {
	i := slices.IndexFunc(t.list, func(one tool) bool { return !one.server && one.name == name && one.namespace == namespace })
	if i < 0 && namespace == "" {
		i = slices.IndexFunc(t.list, func(one tool) bool { return !one.server && !one.search && (one.name == name || one.wire == name) })
	}
	return i
}

// keep leaves out the tools that the function does not choose.
func (t *tools) keep(chosen func(tool) bool) {
	t.list = slices.DeleteFunc(t.list, func(one tool) bool { return !chosen(one) })
}

// oneLine returns JSON without line ends. In valid JSON they are only space between tokens, and an event of a stream
// must not have any.
func oneLine(b []byte) []byte {
	if hasLines(b) {
		b = bytes.Clone(b)
		breakless(b)
	}
	return b
}

// breakless is oneLine for JSON that may be changed.
func breakless(b []byte) {
	if !hasLines(b) {
		return
	}
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}

// hasLines reports whether there is a line end.
func hasLines(b []byte) bool { return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0 }

// servers reports whether the tools include an MCP server.
func (t *tools) servers() bool {
	return slices.ContainsFunc(t.list, func(one tool) bool { return one.server })
}
