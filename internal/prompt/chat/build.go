package chat

import (
	"fmt"
	"slices"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/allowance"
)

// Builder makes the Request that stands for a request of another dialect. Its door reads the caller's body and fills the
// Builder; the messages are written as JSON only for an upstream that wants JSON.
//
// Members of the request are given in the order in which such an upstream gets them. The first problem is kept for Request.
//
// It writes the JSON of the top-level members as it goes, with the places that Patch needs, so
// that a request that was built and one that was parsed look the same to the rest of the program.
// The messages are the exception: their member is an empty array, and appendBuilt writes them when
// an upstream wants them.
type Builder struct {
	req     *Request
	entries int
	fault   *fault.Fault
}

// NewBuilder returns a Builder of a request for a model, with about this many messages.
func NewBuilder(model string, messages int) *Builder {
	// One allocation is enough for nearly every request.
	room := &struct {
		Builder
		req      Request
		members  [12]member
		messages [2]Message
		raw      [256]byte
	}{}
	b := &room.Builder
	b.req = &room.req
	b.req.Model, b.req.N, b.req.built = model, 1, true
	b.req.raw = append(room.raw[:0], '{')
	b.req.members = room.members[:0]
	if b.req.Messages = room.messages[:0]; messages > len(room.messages) {
		b.req.Messages = make([]Message, 0, messages)
	}
	var quoted [128]byte
	b.put("model", jsonscan.AppendQuoted(quoted[:0], model), fieldModel)
	return b
}

// put writes a member.
// The name needs no escaping: names come from the doors, or are keys that a door has checked.
func (b *Builder) put(name string, value []byte, f field) {
	r := b.req
	if len(r.members) > 0 {
		r.raw = append(r.raw, ',')
	}
	m := member{from: int32(len(r.raw)), field: f}
	r.raw = append(append(append(r.raw, '"'), name...), '"')
	m.keyTo = int32(len(r.raw))
	r.raw = append(r.raw, ':')
	m.value = int32(len(r.raw))
	r.raw = append(r.raw, value...)
	m.to = int32(len(r.raw))
	r.members = append(r.members, m)
}

// Set sets a member to a value that the door has checked; one that is not there is left out.
//
// Fields with a meaning for us are also set in the Request. Any other is passed on unread, and
// reserved if the operator pays for it.
func (b *Builder) Set(name string, v Value) {
	if !v.Exists() {
		return
	}
	r, f := b.req, fieldOther
	switch name {
	case "stream":
		r.Stream = v.Kind() == 't'
	case "max_tokens", "max_completion_tokens":
		r.MaxTokens = int(v.Number())
	case "temperature":
		r.numbers[0] = v.Number()
		r.Temperature = &r.numbers[0]
	case "top_p":
		r.numbers[1] = v.Number()
		r.TopP = &r.numbers[1]
	case "parallel_tool_calls":
		r.parallel, f = v.Kind() == 't', fieldTools
		r.ParallelToolCalls = &r.parallel
	case "reasoning_effort":
		r.ReasoningEffort = Effort(v.Text())
	case "user":
		r.User = v.Text()
	default:
		f = fieldUnread
		r.reserve(allowance.Field(name), v.raw)
	}
	b.put(name, v.raw, f)
}

// Say is Set for a text of ours.
func (b *Builder) Say(name, text string) {
	b.Set(name, Value{raw: jsonscan.AppendQuoted(make([]byte, 0, len(text)+2), text)})
}

// Stop sets the stop sequences, which must not be empty.
func (b *Builder) Stop(sequences []string) {
	if len(sequences) > 0 {
		b.req.Stop = sequences
		b.put("stop", b.req.appendStops(nil), fieldStop)
	}
}

// Reply sets the form of the reply to a JSON object, or to one of a schema. Definition is the JSON of json_schema.
func (b *Builder) Reply(f Format, definition []byte) {
	if b.req.Format = f; f.Kind == FormatJSONObject {
		b.put("response_format", []byte(`{"type":"json_object"}`), fieldOther)
		return
	}
	b.req.size.bytes += len(definition)
	b.put("response_format", append(append([]byte(`{"type":"json_schema","json_schema":`), definition...), '}'), fieldOther)
}

// Choose sets tool_choice. ChoiceAuto, the default, is not written.
func (b *Builder) Choose(c ToolChoice) {
	var value []byte
	switch b.req.ToolChoice = c; c.Mode {
	case ChoiceNone:
		value = []byte(`"none"`)
	case ChoiceRequired:
		value = []byte(`"required"`)
	case ChoiceNamed:
		value = append(jsonscan.AppendQuoted([]byte(`{"type":"function","function":{"name":`), c.Name), "}}"...)
	default:
		return
	}
	b.put("tool_choice", value, fieldTools)
}

// Tools sets the tools.
// The problems of MCP servers, found by ServerTool, are reported here with their index.
func (b *Builder) Tools(tools []Tool) {
	if len(tools) == 0 {
		return
	}
	var list []byte
	servers := 0
	for i := range tools {
		t := &tools[i]
		// The first entry follows a bracket, every other one a comma.
		list = append(append(list, "[,"[min(i, 1)]), t.raw...)
		b.req.marked = b.req.marked || t.mark != nil
		if t.MCP != nil {
			servers++
		} else {
			b.req.size.bytes += len(t.raw) - len(functionHead) - 1
		}
		switch path := fmt.Sprintf("tools[%d]", i); {
		case i == MaxTools:
			b.bad(path, "is one too many: a request may have at most %d tools", MaxTools)
		case t.problem != "":
			b.bad(path+t.sub, "%s", t.problem)
		case servers > MaxMCPServers:
			b.bad(path, "is one too many: a request may have at most %d MCP servers", MaxMCPServers)
		}
	}
	b.req.Tools = tools
	if b.req.orderTools(); b.req.order != nil {
		list = list[:0]
		for _, t := range b.req.ListedTools() {
			list = append(append(list, "[,"[min(len(list), 1)]), t.raw...)
		}
	}
	b.put("tools", append(list, ']'), fieldTools)
}

// functionHead is what the JSON of a function begins with; its definition and a closing brace follow.
const functionHead = `{"type":"function","function":`

// FunctionTool returns a function. Its definition is the JSON of f.
func FunctionTool(f Function, definition []byte) Tool {
	raw := make([]byte, 0, len(functionHead)+len(definition)+1)
	return Tool{Function: &f, raw: append(append(append(raw, functionHead...), definition...), '}')}
}

// ServerTool returns an MCP server, of which member returns the members by their names in chat completions. Builder.Tools
// refuses it if something is wrong with it.
func ServerTool(member func(name string) Value) Tool {
	r := mcpReader{}
	t := Tool{MCP: r.server(member), sub: r.sub, problem: r.problem}
	t.raw = append(t.raw, `{"type":"mcp"`...)
	for _, name := range []string{"server_url", "server_label", "authorization", "headers", "allowed_tools", "require_approval"} {
		if v := member(name); !v.Null() {
			t.raw = append(append(append(append(t.raw, `,"`...), name...), `":`...), v.raw...)
		}
	}
	t.raw = append(t.raw, '}')
	return t
}

// bad refuses the request. The path is that of a chat completion.
func (b *Builder) bad(path, format string, args ...any) {
	if b.fault == nil {
		b.fault = fault.New(fault.Invalid, "%s %s", path, fmt.Sprintf(format, args...)).At(path)
	}
}

// Message adds a message. The door has checked that it fits its role.
//
// Bounds and sizes are counted here as the parser counts them, since both kinds of requests meet
// the same limits.
func (b *Builder) Message(m Message) {
	r := b.req
	if len(r.Messages) == 0 {
		b.put("messages", []byte("[]"), fieldMessages)
	}
	if b.Full(1 + len(m.Content.parts) + len(m.ToolCalls)) {
		return
	}
	b.entries += 1 + len(m.Content.parts) + len(m.ToolCalls)
	r.size.bytes += m.Content.size + len(m.ToolCallID)
	if m.thought != nil {
		r.size.bytes += m.thought.size
	}
	for i := range m.Content.parts {
		b.part(&m.Content.parts[i], i)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if c.ID == "" {
			b.bad(fmt.Sprintf("messages[%d].tool_calls[%d].id", len(r.Messages), i), "must not be empty")
		}
		r.size.calls++
		r.size.bytes += len(c.ID) + len(c.Name) + len(c.raw)
	}
	if m.Role == RoleTool && m.ToolCallID == "" {
		b.bad(fmt.Sprintf("messages[%d].tool_call_id", len(r.Messages)), "must not be empty")
	}
	r.Messages = append(r.Messages, m)
	r.marked = r.marked || len(m.marks) > 0
}

// Full reports whether so many messages, parts and calls more are too many, and refuses the request then. A door that reads
// many of them before it adds a message asks in between: a body of tiny ones would take many times its own size.
func (b *Builder) Full(more int) bool {
	if b.entries+more <= maxEntries {
		return false
	}
	b.bad("messages", tooMany, maxEntries)
	return true
}

// Failed reports whether the request is refused already. Nothing more need be read then.
func (b *Builder) Failed() bool { return b.fault != nil }

// part counts a part of the next message, and notes what not every provider knows.
func (b *Builder) part(p *Part, index int) {
	r := b.req
	switch {
	case p.File != nil:
		r.size.files++
		path := fmt.Sprintf("messages[%d].content[%d]", len(r.Messages), index)
		if r.foreign.Path == "" {
			r.foreign = Foreign{Path: path, What: "parts of type " + p.File.kind()}
		}
		if r.unvetted == "" && p.File.unvetted != "" {
			r.unvetted = path + "." + p.File.kind() + p.File.unvetted
		}
	case p.image != nil:
		r.size.images++
	default:
		r.size.bytes += p.size
	}
}

// Messages returns how many messages there are so far.
func (b *Builder) Messages() int { return len(b.req.Messages) }

// Request returns the request. The error is a fault whose path is that of a chat completion.
func (b *Builder) Request() (*Request, error) {
	if path, problem := b.req.unchoosable(); problem != "" {
		b.bad(path, "%s", problem)
	}
	if b.fault != nil {
		return nil, b.fault
	}
	b.req.raw = append(b.req.raw, '}')
	return b.req, nil
}

// Words puts a text together from texts of a body and from words of ours. The zero value is empty.
//
// It works on escaped JSON, not on text: most texts are one value of the body, which is then
// neither decoded nor copied.
type Words struct {
	raw  []byte // a JSON string; without its closing quote while it is open
	size int
	open bool // raw is ours and can be appended to
}

// Add appends a text of the body. It is not copied unless something is added to it.
func (w *Words) Add(v Value) {
	if w.raw == nil {
		w.raw, w.size = v.raw, v.Size()
		return
	}
	w.unclose()
	w.raw = append(w.raw, v.Inside()...)
	w.size += v.Size()
}

// Say appends words of ours.
func (w *Words) Say(text string) {
	if w.raw == nil {
		w.raw, w.open = []byte{'"'}, true
	}
	w.unclose()
	quoted := jsonscan.AppendQuoted(nil, text)
	w.raw = append(w.raw, quoted[1:len(quoted)-1]...)
	w.size += len(text)
}

// unclose makes raw ours, without its closing quote.
func (w *Words) unclose() {
	if !w.open {
		w.raw, w.open = append(make([]byte, 0, 2*len(w.raw)), w.raw[:len(w.raw)-1]...), true
	}
}

// Lead puts words of ours in front of the text.
func (w *Words) Lead(text string) {
	rest := Value{raw: w.Content().raw}
	*w = Words{}
	w.Say(text)
	w.Add(rest)
}

// End returns where the text ends so far; see Message.MarkAt.
func (w *Words) End() int {
	if w.open {
		return len(w.raw)
	}
	return len(w.raw) - 1
}

// Empty reports whether the text is empty.
func (w *Words) Empty() bool { return w.size == 0 }

// Content returns the text as the content of a message, which nothing is added to any more.
func (w *Words) Content() Content {
	if w.raw == nil {
		return Content{raw: []byte(`""`)}
	}
	if w.open {
		w.raw, w.open = append(w.raw, '"'), false
	}
	return Content{raw: w.raw, size: w.size}
}

// TextOf returns a text of a body as the content of a message.
func TextOf(v Value) Content { return Content{raw: v.raw, size: v.Size()} }

// PartsOf returns parts as the content of a message. One text is a content by itself, and so is nothing: an empty text. The
// parts are copied.
// The door may use its slice again.
func PartsOf(parts []Part) Content {
	switch {
	case len(parts) == 0:
		return Text("")
	case len(parts) == 1 && parts[0].raw != nil:
		return Content{raw: parts[0].raw, size: parts[0].size}
	}
	return Content{parts: slices.Clone(parts)}
}

// TextPart returns a text as a part.
func TextPart(c Content) Part { return Part{raw: c.raw, size: c.size} }

// ImagePart returns a part that is an image. The address is a JSON string.
func ImagePart(address []byte, detail string) Part {
	return Part{image: address, data: isDataURL(start(address, urlStart)), Detail: detail}
}

// FilePart returns a part that is a file. The data is a JSON string.
func FilePart(name string, data []byte) Part {
	f := &File{Name: name, data: data}
	if !isData(Value{raw: data}) {
		f.unvetted = ".file_data"
	}
	return Part{File: f}
}

// SoundPart returns a part that is a sound, of an object as chat completions have it.
func SoundPart(v Value) Part { return Part{File: newFile(v, true)} }

// appendBuilt appends the messages of a request that was built, as JSON.
func (r *Request) appendBuilt(dst []byte, p Patch) []byte {
	style := p.Marks
	if !r.marked {
		style = MarksNone
	}
	dst = append(dst, '[')
	for i := range r.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		from := len(dst)
		dst = r.Messages[i].append(dst, p.SystemRole, style)
		for len(p.Edits) > 0 && p.Edits[0].Message == i {
			own := slices.Clone(dst[from:])
			e := memberEdit(own, 0, ValueOf(own), p.Edits[0])
			dst = appendEdited(dst[:from], own, span{0, len(own)}, []edit{e}, false)
			p.Edits = p.Edits[1:]
		}
	}
	return append(dst, ']')
}

// append appends the JSON of a message that was built. SystemRole says that the role developer is written as system.
func (m *Message) append(dst []byte, systemRole bool, style MarkStyle) []byte {
	role := [...]string{RoleSystem: "system", RoleUser: "user", RoleAssistant: "assistant", RoleTool: "tool"}[m.Role]
	if m.Developer && !systemRole {
		role = "developer"
	}
	dst = append(append(append(dst, `{"role":"`...), role...), '"')
	if m.Role == RoleTool {
		dst = jsonscan.AppendQuoted(append(dst, `,"tool_call_id":`...), m.ToolCallID)
	}
	dst = append(dst, `,"content":`...)
	if style == MarksAsSent || style == MarksNone || m.Content.IsNull() || style == marksOwn && m.marks == nil {
		dst = m.Content.append(dst)
	} else {
		dst = m.appendPieces(dst, style)
	}
	if m.thought != nil {
		dst = append(append(dst, `,"reasoning_content":`...), m.thought.raw...)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = jsonscan.AppendQuoted(append(dst, `{"id":`...), c.ID)
		dst = jsonscan.AppendQuoted(append(dst, `,"type":"function","function":{"name":`...), c.Name)
		dst = append(jsonscan.AppendQuoted(append(dst, `,"arguments":`...), c.Arguments()), "}}"...)
	}
	if len(m.ToolCalls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// append appends the JSON of a content.
func (c *Content) append(dst []byte) []byte {
	switch {
	case c.raw != nil:
		return append(dst, c.raw...)
	case c.parts == nil:
		return append(dst, "null"...)
	}
	for i := range c.parts {
		dst = c.parts[i].append(append(dst, "[,"[min(i, 1)]))
	}
	return append(dst, ']')
}

// append appends the JSON of a part that was built.
func (p *Part) append(dst []byte) []byte {
	switch {
	case p.File != nil && p.File.Audio:
		return append(append(append(dst, `{"type":"input_audio","input_audio":`...), p.File.raw...), '}')
	case p.File != nil:
		dst = append(append(dst, `{"type":"file","file":{"file_data":`...), p.File.data...)
		return append(jsonscan.AppendQuoted(append(dst, `,"filename":`...), p.File.Name), "}}"...)
	case p.image == nil:
		return append(append(append(dst, `{"type":"text","text":`...), p.raw...), '}')
	}
	dst = append(append(dst, `{"type":"image_url","image_url":{"url":`...), p.image...)
	if p.Detail != "" {
		dst = jsonscan.AppendQuoted(append(dst, `,"detail":`...), p.Detail)
	}
	return append(dst, "}}"...)
}
