package responses

import (
	"cmp"
	"math"
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
)

// maxItems bounds the items of one request, those of its earlier turns included.
const maxItems = 100_000

// longInput is the size of an input from which its items are counted before they are read, in bytes.
const longInput = 64 << 10

// itemKind says what an item becomes.
type itemKind uint8

const (
	itemMessage   itemKind = iota + 1
	itemCall               // a call of a tool: part of an assistant's message
	itemOutput             // the result of a call
	itemReference          // an item of an earlier response, which is looked up
	itemReasoning          // what led to the calls behind it, if it was sealed here; see docs/api.md#responses
	itemRemote             // a call of an MCP tool with its result: a call and its output, if the request has servers
	itemOther              // nothing: a record of what a built-in tool or an MCP server has done
	itemNative             // what only an upstream of the dialect understands, such as the call of a shell
)

// item is one item of the input, read and checked.
type item struct {
	kind  itemKind
	index int // in input; -1: it is of an earlier response
	role  string
	// Of a message: the texts of an assistant's, which may be joined with others, and the content of any other, which is
	// ready to be sent.
	texts   []value
	content []byte
	// Of a call and of its result. An id is that of the call; name and arguments are JSON strings.
	id              string
	name, arguments value
	approved        string // of a call that has run: the id of the call that the caller approved
	mcp             bool   // it is an approval, or the request for one
	images          []byte // parts that a tool message cannot hold, without brackets
}

// input reads the field input.
func (p *parser) input(v value) {
	if v.kind() == '"' {
		p.req.items = append(p.req.items, item{kind: itemMessage, index: -1, role: "user", content: v})
		return
	}
	if !p.array(v, "a string or an array of items") {
		return
	}
	// A long list is counted first: growing it step by step would copy it several times, and for nothing if it is too long.
	if len(v) > longInput {
		n := 0
		for range v.elements() {
			if n++; n > maxItems {
				p.bad("", "holds too much: at most %d items", maxItems)
				return
			}
		}
		p.req.items = make([]item, 0, n)
	}
	for i, m := range v.elements() {
		if i == maxItems {
			p.bad("", "holds too much: at most %d items", maxItems)
			return
		}
		mark := p.inElement(i)
		it, ok := p.item(m)
		if !ok {
			return
		}
		it.index = i
		p.req.items = append(p.req.items, it)
		p.out(mark)
	}
}

// item reads one item. It reports false after a problem.
func (p *parser) item(v value) (it item, ok bool) {
	if !p.object(v, "an object with a type") {
		return it, false
	}
	kind := "message"
	if t := v.member("type"); t != nil {
		if t.kind() != '"' {
			p.bad(".type", "must be a string; got %s", t.typeName())
			return it, false
		}
		kind = t.text()
	} else if v.member("role") == nil && v.member("id") != nil {
		kind = "item_reference" // its type may be left out
	}
	switch kind {
	case "message":
		p.message(v, &it)
	case "function_call":
		it.kind = itemCall
		it.id, it.name = p.callID(v), p.name(v)
		it.arguments = p.string(v, "arguments", "the arguments of the call, as JSON text")
	case "custom_tool_call":
		it.kind = itemCall
		it.id, it.name = p.callID(v), p.name(v)
		if input := p.string(v, "input", "the input of the call"); input != nil {
			it.arguments = asArguments(input)
		}
	case "function_call_output", "custom_tool_call_output":
		it.kind, it.id = itemOutput, p.callID(v)
		p.output(v, &it)
	case "reasoning":
		it.kind = itemReasoning
		p.thoughts(v)
		it.arguments = v.member("encrypted_content")
	case "item_reference":
		it.kind = itemReference
		if id := p.string(v, "id", "the id of an item of an earlier response"); id != nil {
			it.id = id.text()
		}
	case "mcp_approval_request":
		it.kind, it.mcp = itemCall, true
		it.id = p.approvalID(v, "id")
		it.name = p.name(v)
		it.arguments = p.string(v, "arguments", "the arguments of the call, as JSON text")
	case "mcp_approval_response":
		it.kind, it.mcp, it.id = itemOutput, true, p.approvalID(v, "approval_request_id")
		approve := p.required(v, "approve", "true or false")
		if approve == nil {
			break
		}
		mark := p.in("approve")
		it.content = []byte(`"{\"approve\":false}"`)
		if p.boolean(approve) {
			it.content = []byte(`"{\"approve\":true}"`)
		}
		p.out(mark)
	case "mcp_call":
		it.kind = itemRemote
		it.id, it.name = p.id(v, "id", "the id of the call"), p.name(v)
		it.arguments = p.string(v, "arguments", "the arguments of the call, as JSON text")
		it.approved = strings.TrimPrefix(v.member("approval_request_id").text(), approval)
		it.content = []byte(`"(no content)"`)
		if out := v.member("output"); out.kind() == '"' {
			it.content = out
		} else if failed := v.member("error"); failed.kind() == '"' {
			it.content = failed
		}
	case "mcp_list_tools":
		it.kind = itemOther
	case "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call":
		it.kind = itemOther
		p.leave("input[]." + kind)
	default:
		it.kind = itemNative
		p.native(v, kind, &it)
	}
	p.vetItem(kind, v)
	return it, !p.failed()
}

// native reads an item that only an upstream of the dialect understands. Nobody else gets it, so the text that stands for it
// in the chat completion only makes the prompt as long as it is.
func (p *parser) native(v value, kind string, it *item) {
	p.only("items of type " + v.member("type").describe())
	if v.member("tools").kind() == '[' {
		p.req.offers = true
	}
	it.content = jsonscan.AppendQuoted(nil, kind+" "+string(p.spoken(nil, v)))
}

// spoken appends the JSON of a value without the data of images. It notes the first address in it.
func (p *parser) spoken(b []byte, v value) []byte {
	switch v.kind() {
	case '{':
		b = append(b, '{')
		for key, m := range v.members() {
			mark := p.in(key)
			b = append(p.spoken(append(jsonscan.AppendQuoted(b, key), ':'), m), ',')
			p.out(mark)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for i, m := range v.elements() {
			mark := p.inElement(i)
			b = append(p.spoken(b, m), ',')
			p.out(mark)
		}
		return append(b, ']')
	case '"':
		switch scheme, _, _ := strings.Cut(v.text()[:min(len(v.text()), 8)], ":"); strings.ToLower(scheme) {
		case "data":
			return append(b, `"data"`...)
		case "http", "https":
			p.req.remote = cmp.Or(p.req.remote, string(p.path))
		}
	}
	return append(b, v...)
}

// string returns a member that must be a string.
func (p *parser) string(v value, name, what string) value {
	m := p.required(v, name, what)
	if m != nil && m.kind() != '"' {
		p.bad("."+name, "must be a string; got %s", m.typeName())
		return nil
	}
	return m
}

// callID returns the member call_id.
func (p *parser) callID(v value) string {
	return p.id(v, "call_id", "the id of the call")
}

// id returns a member that is an id.
func (p *parser) id(v value, name, what string) string {
	m := p.required(v, name, what)
	if m == nil {
		return ""
	}
	mark := p.in(name)
	defer p.out(mark)
	if !p.isText(m, 1, maxID) {
		return ""
	}
	return m.text()
}

// name returns the name of the tool that an item calls, as a JSON string.
func (p *parser) name(v value) value {
	m := p.required(v, "name", "the name of the tool")
	if m == nil {
		return nil
	}
	mark := p.in("name")
	defer p.out(mark)
	p.isText(m, 1, maxID)
	return m
}

// approval is what the id of an approval request begins with. The id of its call follows.
const approval = "mcpr_"

// approvalID returns the id of the call that an approval is about.
func (p *parser) approvalID(v value, name string) string {
	id := p.id(v, name, "the id of the approval request")
	call, ok := strings.CutPrefix(id, approval)
	if !ok && id != "" {
		p.bad("."+name, "must be the id of an item of type mcp_approval_request; got %s", v.member(name).describe())
	}
	return call
}

// asArguments returns the arguments of the function that stands for a custom tool; see tools.custom.
func asArguments(input value) value {
	b := append(append([]byte(`{"input":`), input...), '}')
	return jsonscan.AppendQuoted(nil, string(b))
}

// message reads an item of type message.
func (p *parser) message(v value, it *item) {
	it.kind = itemMessage
	const roles = `"user", "assistant", "system" or "developer"`
	role := p.required(v, "role", roles)
	content := p.required(v, "content", "a string or an array of content parts")
	if role == nil || content == nil {
		return
	}
	mark := p.in("role")
	it.role = p.oneOf(role, roles, "user", "assistant", "system", "developer")
	p.out(mark)
	mark = p.in("content")
	defer p.out(mark)
	if content.kind() == '"' {
		it.texts, it.content = []value{content}, content
		return
	}
	if !p.array(content, "a string or an array of content parts") {
		return
	}
	parts := p.parts(content, it.role == "user")
	it.texts = parts.texts
	switch {
	case parts.all == nil:
		it.content = []byte(`""`)
	case len(parts.texts) == 1 && parts.n == 1:
		it.content = parts.texts[0]
	default:
		it.content = append(append([]byte{'['}, parts.all...), ']')
	}
}

// parts are the parts of a content, in the form of chat completions.
type parts struct {
	n      int
	texts  []value
	all    []byte // of any type, separated by commas
	others []byte // those that are no text
}

const partTypes = `"input_text", "input_image", "input_file", "input_audio", "output_text" or "refusal"`

// parts reads an array of content parts. Only what a person says may hold images.
func (p *parser) parts(content value, user bool) (out parts) {
	for i, v := range content.elements() {
		if i == maxItems {
			p.bad("", "holds too much: at most %d parts", maxItems)
			return out
		}
		mark := p.inElement(i)
		out.add(p, v, user)
		if p.failed() {
			return out
		}
		p.out(mark)
	}
	return out
}

// add reads one part.
func (c *parts) add(p *parser, v value, user bool) {
	if !p.object(v, "an object with a type") {
		return
	}
	kind := p.required(v, "type", partTypes)
	if kind == nil {
		return
	}
	mark := p.in("type")
	name := p.oneOf(kind, partTypes, "input_text", "output_text", "text", "refusal", "input_image", "input_file", "input_audio")
	p.out(mark)
	p.vet(v, partMembers[name])
	var part []byte
	switch name {
	case "input_text", "output_text", "text":
		text := p.string(v, "text", "a string")
		c.texts = append(c.texts, text)
		part = append(append([]byte(`{"type":"text","text":`), text...), '}')
	case "refusal": // the model reads what it has said, under any provider
		text := p.string(v, "refusal", "a string")
		c.texts = append(c.texts, text)
		part = append(append([]byte(`{"type":"text","text":`), text...), '}')
	case "input_image":
		part = p.image(v)
	case "input_file":
		part = p.file(v)
	case "input_audio":
		audio := p.required(v, "input_audio", "an object with data and format")
		if audio != nil && audio.kind() != '{' {
			p.bad(".input_audio", "must be an object with data and format; got %s", audio.typeName())
		}
		part = append(append([]byte(`{"type":"input_audio","input_audio":`), audio...), '}')
	}
	if p.failed() {
		return
	}
	text := name != "input_image" && name != "input_file" && name != "input_audio"
	if !text && !user {
		p.bad("", "is of type %s, which only messages of the role user and the output of calls may hold", name)
		return
	}
	if c.n > 0 {
		c.all = append(c.all, ',')
	}
	c.n++
	c.all = append(c.all, part...)
	if !text {
		if c.others != nil {
			c.others = append(c.others, ',')
		}
		c.others = append(c.others, part...)
	}
}

// image reads a part that is an image. It is not fetched here.
func (p *parser) image(v value) []byte {
	if v.member("image_url") == nil && v.member("file_id") != nil {
		return p.stored(v)
	}
	address := p.string(v, "image_url", "the address of the image, or its data as a data: URL")
	if address == nil {
		return nil
	}
	if !chat.IsImageURL(address.text()) {
		p.bad(".image_url", "must be an https:// or http:// address, or data:image/…;base64, data")
		return nil
	}
	b := append(append([]byte(`{"type":"image_url","image_url":{"url":`), address...), `,"detail":`...)
	detail := "auto"
	if d := v.member("detail"); d != nil {
		mark := p.in("detail")
		detail = p.oneOf(d, `"auto", "low", "high" or "original"`, "auto", "low", "high", "original")
		p.out(mark)
		if detail == "original" { // the highest that chat completions have
			detail = "high"
		}
	}
	return append(jsonscan.AppendQuoted(b, detail), "}}"...)
}

// stored reads a part that names a file which is stored at the vendor. Only an upstream of the dialect can read it, if the
// operator allows it.
func (p *parser) stored(v value) []byte {
	if p.id(v, "file_id", "the id of a file") == "" {
		return nil
	}
	mark := p.in("file_id")
	p.only("files by their id; send the content as data")
	p.out(mark)
	return []byte(`{"type":"text","text":"(file)"}`)
}

// file reads a part that is a file, which must come with its data.
func (p *parser) file(v value) []byte {
	switch {
	case v.member("file_data") != nil:
	case v.member("file_id") != nil:
		return p.stored(v)
	case v.member("file_url") != nil:
		p.bad(".file_url", "is not supported: files are not fetched; send the content in file_data")
		return nil
	}
	data := p.string(v, "file_data", "the content of the file as a data: URL")
	b := append(append([]byte(`{"type":"file","file":{"file_data":`), data...), `,"filename":`...)
	if name := v.member("filename"); name != nil {
		mark := p.in("filename")
		p.isText(name, 0, maxLabel)
		p.out(mark)
		b = append(b, name...)
	} else {
		b = append(b, `"file"`...)
	}
	return append(b, "}}"...)
}

// output reads the result of a call. What a tool message cannot hold follows it in a message of its own; see Compose.
func (p *parser) output(v value, it *item) {
	out := p.required(v, "output", "a string or an array of content parts")
	if out == nil {
		return
	}
	mark := p.in("output")
	defer p.out(mark)
	if out.kind() == '"' {
		it.content = out
		return
	}
	if !p.array(out, "a string or an array of content parts") {
		return
	}
	parts := p.parts(out, true)
	it.images = parts.others
	switch len(parts.texts) {
	case 0:
		it.content = []byte(`""`)
		if it.images != nil {
			it.content = []byte(`"(see the attachments below)"`)
		}
	case 1:
		it.content = parts.texts[0]
	default:
		b := []byte{'['}
		for i, text := range parts.texts {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, `{"type":"text","text":`...), text...), '}')
		}
		it.content = append(b, ']')
	}
}

// thoughts checks a reasoning item. Its summary does not reach the model. What an upstream needs back of its own reasoning is
// in the encrypted content, or kept with the calls (package continuation).
func (p *parser) thoughts(v value) {
	for _, name := range []string{"summary", "content"} {
		list := v.member(name)
		if list == nil {
			continue
		}
		mark := p.in(name)
		if p.array(list, "an array of texts") {
			for i, part := range list.elements() {
				mark := p.inElement(i)
				if p.object(part, "an object with a text") {
					p.string(part, "text", "a string")
				}
				p.out(mark)
			}
		}
		p.out(mark)
	}
	if sealed := v.member("encrypted_content"); sealed != nil {
		mark := p.in("encrypted_content")
		p.isText(sealed, 0, math.MaxInt)
		p.out(mark)
	}
}
