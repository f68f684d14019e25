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

// tools are the tools of a request.
type tools struct {
	list   []tool
	custom map[string]bool // the names of custom tools, which the model sees as functions
	absent []string        // the names of built-in tools, which only an upstream of the dialect gets
	// strange are the types of tools that are not known. Only an upstream of the dialect can take the request.
	strange []string
	echo    []byte // the JSON of tools as replies repeat it
	choice  chat.ToolChoice
}

// tool is one tool that the model is told about.
type tool struct {
	index  int    // in the field tools
	name   string // of an MCP server its label
	server bool
	chat   chat.Tool
}

// ownTools are the tools of the dialect that the caller runs, or that hold tools of the caller.
var ownTools = map[string]bool{
	"computer": true, "computer_use_preview": true, "computer_use": true,
	"local_shell": true, "shell": true, "apply_patch": true, "namespace": true, "tool_search": true,
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
		const types = `"function", "custom" or "mcp"`
		p.object(entry, "an object with a type")
		kind := p.required(entry, "type", types)
		if i > 0 {
			t.echo = append(t.echo, ',')
		}
		switch name := kind.Text(); {
		case name == "function":
			p.function(i, entry)
		case name == "custom":
			p.custom(i, entry)
		case name == "mcp":
			if servers++; servers > chat.MaxMCPServers {
				p.bad(entry, "", "is one too many: a request may have at most %d MCP servers", chat.MaxMCPServers)
				return
			}
			p.server(i, entry)
		case !kind.IsText() || name == "":
			p.bad(entry, ".type", "must be %s, or the type of a built-in tool; got %s", types, describe(kind))
		default:
			p.req.offers = true
			t.echo = append(t.echo, entry.Raw()...)
			if known := builtIn(name); known != "" {
				t.absent = append(t.absent, known)
				break
			}
			p.only(entry, "the tool type "+describe(kind))
			t.strange = append(t.strange, name)
		}
		if p.failed() {
			return
		}
	}
	t.echo = append(t.echo, ']')
}

// toolName reads the name of a function or custom tool, which no other may have.
func (p *parser) toolName(entry chat.Value) string {
	v := p.sized(p.required(entry, "name", "the name of the tool"), 1, 64)
	name := v.Text()
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			p.bad(v, "", "may hold only letters, digits, underscores, hyphens and dots; got %s", describe(v))
		}
	}
	if p.req.tools.find(name, false) >= 0 {
		p.bad(v, "", "must differ from the names of the other tools; two are %s", describe(v))
	}
	return name
}

// function reads a function tool, which is flat here and has an object of its own in chat completions.
func (p *parser) function(i int, entry chat.Value) {
	f := chat.Function{Name: p.toolName(entry)}
	b := append([]byte(`{"name":"`), f.Name...)
	b = append(b, '"')
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
	p.req.tools.add(tool{index: i, name: f.Name, chat: chat.FunctionTool(f, append(b, '}'))}, entry.Raw())
}

// add adds a tool that the model is told about.
func (t *tools) add(one tool, echo []byte) {
	t.list = append(t.list, one)
	t.echo = append(t.echo, echo...)
}

// anyInput is the schema of the function that stands for a custom tool.
const anyInput = `{"type":"object","properties":{"input":{"type":"string","description":"The input of the tool, as plain text"}},"required":["input"],"additionalProperties":false}`

// custom reads a custom tool, which takes any text. Few providers have such tools, so the model sees a function with
// one text, and the writer turns its calls back. A grammar that the text must follow is told to the model in words.
func (p *parser) custom(i int, entry chat.Value) {
	f := chat.Function{Name: p.toolName(entry), Parameters: []byte(anyInput)}
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
	b := append([]byte(`{"name":"`), f.Name...)
	b = jsonscan.AppendQuoted(append(b, `","description":`...), f.Description)
	b = append(b, `,"parameters":`+anyInput+"}"...)
	t := &p.req.tools
	if t.custom == nil {
		t.custom = map[string]bool{}
	}
	t.custom[f.Name] = true
	t.add(tool{index: i, name: f.Name, chat: chat.FunctionTool(f, b)}, entry.Raw())
}

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
// the request says otherwise, as in the original.
func (p *parser) server(i int, entry chat.Value) {
	label := p.id(entry, "server_label", "the name of the server")
	if !entry.Given("server_url").Exists() && entry.Given("connector_id").Exists() {
		p.bad(entry, ".connector_id", "is not supported: give the address of an MCP server in server_url")
	}
	address := p.string(entry, "server_url", "the address of the MCP server")
	t := &p.req.tools
	if t.find(label, true) >= 0 {
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
	echo := []byte(`{"type":"mcp"`)
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
	t.add(tool{index: i, name: label, server: true, chat: chat.ServerTool(member)}, append(echo, '}'))
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
	case t.absent != nil || t.strange != nil || p.req.offers:
		p.only(v, "the built-in tools of the request, one of which tool_choice requires")
	default:
		p.bad(v, "", `is "required", but the request has no tools; add tools or choose "auto"`)
	}
}

// only notes that only an upstream of the dialect can take the request.
func (p *parser) only(v chat.Value, what string) {
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
		if t.find(called, false) < 0 {
			p.bad(v, ".name", "must be the name of a tool among tools; got %s", describe(v.Given("name")))
		}
		t.choice = chat.ToolChoice{Mode: chat.ChoiceNamed, Name: called}
	case name == "mcp":
		label := p.id(v, "server_label", "the label of a server among tools")
		if t.find(label, true) < 0 {
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
	case builtIn(name) != "" || slices.Contains(t.strange, name):
		p.only(v, "the built-in tool "+describe(kind)+", which tool_choice forces")
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
	allowed := map[string]bool{}
	for walk := list.Walk(); walk.Next(); {
		tool := walk.Value
		p.object(tool, "an object with a type")
		kind := p.required(tool, "type", "the type of a tool")
		name, server := "name", kind.Is("mcp")
		if server {
			name = "server_label"
		}
		if builtIn(kind.Text()) == "" && !slices.Contains(t.strange, kind.Text()) {
			called := p.id(tool, name, "which of the tools it is")
			if t.find(called, server) < 0 {
				p.bad(tool, "."+name, "must be that of a tool among tools; got %s", describe(tool.Given(name)))
			}
			allowed[called] = true
		}
	}
	t.keep(func(one tool) bool { return allowed[one.name] })
	if how == "required" {
		t.choice.Mode = chat.ChoiceRequired
		p.forcible(v)
	}
}

// find returns the index of a tool, or of an MCP server, or -1.
func (t *tools) find(name string, server bool) int {
	return slices.IndexFunc(t.list, func(one tool) bool { return one.name == name && one.server == server })
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
