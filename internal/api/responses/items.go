package responses

import (
	"math"
	"strconv"
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
)

// maxItems bounds the items of one request, those of its earlier turns included.
const maxItems = 100_000

// itemKind says what an item becomes.
type itemKind uint8

const (
	itemMessage   itemKind = iota + 1
	itemCall               // a call of a tool: part of an assistant's message
	itemOutput             // the result of a call
	itemReference          // an item of an earlier response, which is looked up
	itemReasoning          // what led to the calls after it, if it was sealed here; see docs/api.md#responses
	itemRemote             // a call of an MCP tool with its result: a call and its output, if the request has servers
	itemOther              // nothing: a record of what a built-in tool or an MCP server has done, or tools
	itemUpdate             // how the model should answer from there on
	itemNative             // what only an upstream of the dialect understands, such as the call of a shell
)

// item is one item of the input, read and checked.
type item struct {
	kind  itemKind
	index int // in input; -1: it is of an earlier response
	role  string
	// Of a message, and of the result of a call. What an assistant has said may be joined with what it says in other items.
	content chat.Content
	parts   []chat.Part // of an assistant's content, if it is an array
	// Of a call and of its result. An id is that of the call.
	id, name, arguments string
	namespace           string      // of the tool that is called
	wire                string      // the name that the model knows the tool by; Compose sets it
	sealed              chat.Value  // the encrypted content of reasoning
	approved            string      // of a call that has run: the id of the call that the caller approved
	mcp                 bool        // it is an approval, or the request for one
	others              []chat.Part // parts that a tool message cannot hold
	update              *revision   // of an item that changes how the model should answer
	marks               []chat.Mark // of its parts
}

// revision is what an item of type configuration_update changes.
type revision struct {
	effort     string // empty: nothing
	format     *chat.Format
	definition []byte // see settings
}

// input reads the field input.
func (p *parser) input(v chat.Value) {
	if v.Kind() == '"' {
		p.req.items = append(p.req.items, item{kind: itemMessage, index: -1, role: "user", content: chat.TextOf(v)})
		return
	}
	if !p.array(v, "a string or an array of items") {
		return
	}
	// Growing the list step by step would copy it several times, and for nothing if it is too long.
	n := v.Len()
	if n > maxItems {
		p.bad(v, "", "holds too much: at most %d items", maxItems)
		return
	}
	p.req.items = make([]item, 0, n)
	for walk := v.Walk(); walk.Next(); {
		it, ok := p.item(walk.Value)
		if !ok {
			return
		}
		it.index = walk.Index
		p.req.items = append(p.req.items, it)
	}
}

// item reads one item. It reports false after a problem.
func (p *parser) item(v chat.Value) (it item, ok bool) {
	if !p.object(v, "an object with a type") {
		return it, false
	}
	kind := "message"
	if t := v.Given("type"); t.Exists() {
		if !t.IsText() {
			p.bad(v, ".type", "must be a string; got %s", t.TypeName())
			return it, false
		}
		kind = t.Among(kinds)
	} else if !v.Given("role").Exists() && v.Given("id").Exists() {
		kind = "item_reference" // its type may be left out
	}
	switch kind {
	case "message":
		p.message(v, &it)
	case "function_call":
		it.kind = itemCall
		it.id, it.name, it.namespace = p.callID(v), p.name(v), p.namespace(v)
		it.arguments = p.string(v, "arguments", "the arguments of the call, as JSON text").Text()
	case "custom_tool_call":
		it.kind = itemCall
		it.id, it.name, it.namespace = p.callID(v), p.name(v), p.namespace(v)
		// See parser.custom for the function that stands for the tool.
		it.arguments = `{"input":` + string(p.string(v, "input", "the input of the call").Raw()) + "}"
	case "function_call_output", "custom_tool_call_output":
		it.kind, it.id = itemOutput, p.callID(v)
		p.output(v, &it)
	case "reasoning":
		it.kind = itemReasoning
		p.thoughts(v)
		it.sealed = v.Given("encrypted_content")
	case "item_reference":
		it.kind = itemReference
		it.id = p.string(v, "id", "the id of an item of an earlier response").Text()
	case "mcp_approval_request":
		it.kind, it.mcp = itemCall, true
		it.id = p.approvalID(v, "id")
		it.name = p.name(v)
		it.arguments = p.string(v, "arguments", "the arguments of the call, as JSON text").Text()
	case "mcp_approval_response":
		it.kind, it.mcp, it.id = itemOutput, true, p.approvalID(v, "approval_request_id")
		approve := p.required(v, "approve", "true or false")
		if approve.Exists() {
			it.content = chat.Text(`{"approve":` + strconv.FormatBool(p.boolean(approve)) + "}")
		}
	case "mcp_call":
		it.kind = itemRemote
		it.id, it.name = p.id(v, "id", "the id of the call"), p.name(v)
		it.arguments = p.string(v, "arguments", "the arguments of the call, as JSON text").Text()
		it.approved = strings.TrimPrefix(v.Given("approval_request_id").Text(), approval)
		it.content = chat.Text("(no content)")
		if out := v.Given("output"); out.IsText() {
			it.content = chat.TextOf(out)
		} else if failed := v.Given("error"); failed.IsText() {
			it.content = chat.TextOf(failed)
		}
	case "mcp_list_tools":
		it.kind = itemOther
	case "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call":
		it.kind = itemOther
		p.leave("input[]." + kind)
	case "additional_tools":
		it.kind = itemOther
		p.toolsIn(p.required(v, "tools", "an array of tools"), scope{index: -1})
	case "tool_search_call":
		p.searched(v, &it)
	case "tool_search_output":
		if found := v.Given("tools"); found.Exists() {
			p.toolsIn(found, scope{index: -1})
		}
		if !p.failed() { // names are known to be short now
			p.searched(v, &it)
		}
	case "configuration_update":
		it.kind, it.update = itemUpdate, p.update(v)
	default:
		it.kind = itemNative
		p.native(v, kind, &it)
	}
	p.vetItem(kind, v)
	return it, !p.failed()
}

// searched reads the call of a search for tools, or its result. A search that the provider ran is left out: other models are
// offered all tools.
func (p *parser) searched(v chat.Value, it *item) {
	call, arguments := v.Given("call_id"), v.Given("arguments")
	if it.kind = itemOther; !v.Given("execution").Is("client") || !call.Exists() {
		p.leave("input[]." + v.Given("type").Text())
		return
	}
	it.id, it.name, it.namespace = p.callID(v), toolSearch, searches
	if v.Given("type").Is("tool_search_call") {
		if it.kind, it.arguments = itemCall, "{}"; arguments.Kind() == '{' {
			it.arguments = string(arguments.Raw())
		} else if arguments.IsText() {
			it.arguments = arguments.Text()
		}
		return
	}
	it.kind = itemOutput
	b := []byte("Found. These can be called now:")
	for walk := v.Given("tools").Walk(); walk.Next(); {
		b = append(append(b, ' '), p.found(walk.Value)...)
	}
	it.content = chat.Text(string(b))
}

// found returns the names of a tool that was found, or of those in a namespace, as the model knows them.
func (p *parser) found(v chat.Value) string {
	name := v.Given("name").Text()
	if !v.Given("type").Is("namespace") {
		return wireName("", name)
	}
	var names []string
	for walk := v.Given("tools").Walk(); walk.Next(); {
		names = append(names, wireName(name, walk.Value.Given("name").Text()))
	}
	return strings.Join(names, " ")
}

// update reads an item that changes how the model should answer.
func (p *parser) update(v chat.Value) *revision {
	u := &revision{}
	for _, name := range []string{"reasoning", "text"} {
		set := v.Given(name)
		if !set.Exists() || !p.object(set, "an object") {
			continue
		}
		for walk := set.Walk(); walk.Next(); {
			switch key, m := name+"."+string(walk.Key), walk.Value; {
			case m.Null():
			case key == "reasoning.effort":
				u.effort = p.effort(m)
			case key == "text.format":
				var f chat.Format
				f, u.definition = p.format(m)
				u.format = &f
			default:
				p.leave(p.items() + "." + key)
			}
		}
	}
	return u
}

// native reads an item that only an upstream of the dialect understands. Nobody else gets it, so the text that stands for it
// in the chat completion only makes the prompt as long as it is.
func (p *parser) native(v chat.Value, kind string, it *item) {
	p.only(v, "items of type "+describe(v.Given("type")))
	if v.Given("tools").Kind() == '[' {
		p.req.offers = true
	}
	it.content = chat.Text(kind + " " + string(p.spoken(nil, v)))
}

// spoken appends the JSON of a value without the data of images. It notes the first address in it.
func (p *parser) spoken(b []byte, v chat.Value) []byte {
	switch v.Kind() {
	case '{':
		b = append(b, '{')
		for walk := v.Walk(); walk.Next(); {
			b = append(p.spoken(append(jsonscan.AppendQuoted(b, string(walk.Key)), ':'), walk.Value), ',')
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for walk := v.Walk(); walk.Next(); {
			b = append(p.spoken(b, walk.Value), ',')
		}
		return append(b, ']')
	case '"':
		// The data of an image would count as text of the prompt. An address must be known, since it may lead into the operator's
		// network; see Request.remote.
		switch scheme, _, _ := strings.Cut(v.Text()[:min(len(v.Text()), 8)], ":"); strings.ToLower(scheme) {
		case "data":
			return append(b, `"data"`...)
		case "http", "https":
			if p.req.remote == "" {
				p.req.remote = p.path(v)
			}
		}
	}
	return append(b, v.Raw()...)
}

// string returns a member that must be a string.
func (p *parser) string(v chat.Value, name, what string) chat.Value {
	return p.sized(p.required(v, name, what), 0, math.MaxInt)
}

// callID returns the member call_id.
func (p *parser) callID(v chat.Value) string {
	return p.id(v, "call_id", "the id of the call")
}

// id returns a member that is an id.
func (p *parser) id(v chat.Value, name, what string) string {
	return p.sized(p.required(v, name, what), 1, maxID).Text()
}

// name returns the name of the tool that an item calls.
func (p *parser) name(v chat.Value) string { return p.id(v, "name", "the name of the tool") }

// namespace returns the namespace of the tool that an item calls; empty if it has none.
func (p *parser) namespace(v chat.Value) string {
	if given := v.Given("namespace"); given.Exists() {
		return p.sized(given, 0, maxID).Text()
	}
	return ""
}

// approval is what the id of an approval request begins with. The id of its call follows.
const approval = "mcpr_"

// approvalID returns the id of the call that an approval is about.
func (p *parser) approvalID(v chat.Value, name string) string {
	id := p.id(v, name, "the id of the approval request")
	call, ok := strings.CutPrefix(id, approval)
	if !ok && id != "" {
		p.bad(v, "."+name, "must be the id of an item of type mcp_approval_request; got %s", describe(v.Given(name)))
	}
	return call
}

// message reads an item of type message.
func (p *parser) message(v chat.Value, it *item) {
	it.kind = itemMessage
	const roles = `"user", "assistant", "system" or "developer"`
	role := p.required(v, "role", roles)
	content := p.required(v, "content", "a string or an array of content parts")
	it.role = p.oneOf(role, roles, "user", "assistant", "system", "developer")
	if content.IsText() {
		it.content = chat.TextOf(content)
		return
	}
	if !p.array(content, "a string or an array of content parts") {
		return
	}
	parts := p.parts(it, content, ".content[]", it.role == "user")
	if it.role == "assistant" {
		it.parts = parts
		return
	}
	it.content = chat.PartsOf(parts)
}

const partTypes = `"input_text", "input_image", "input_file", "input_audio", "output_text" or "refusal"`

// parts reads an array of content parts. Only what a person says may hold images. Sub is that of vet.
func (p *parser) parts(it *item, content chat.Value, sub string, user bool) []chat.Part {
	parts := make([]chat.Part, 0, 1) // nearly always
	for walk := content.Walk(); walk.Next(); {
		if walk.Index == maxItems {
			p.bad(content, "", "holds too much: at most %d parts", maxItems)
		}
		part := p.part(walk.Value, sub, user)
		if p.failed() {
			break
		}
		parts = append(parts, part)
		if p.marked {
			at := walk.Index
			if it.role == "assistant" { // whose parts become one text
				at = chat.NoPart
			}
			it.marks, p.marked = append(it.marks, chat.Mark{Cache: p.mark, Part: at}), false
		}
	}
	return parts
}

// part reads one part.
func (p *parser) part(v chat.Value, sub string, user bool) (part chat.Part) {
	p.object(v, "an object with a type")
	kind := p.required(v, "type", partTypes)
	name := kind.Among(partKinds)
	members, known := partMembers[name]
	if !known {
		return p.strange(v, kind)
	}
	p.vet(v, members, sub)
	switch name {
	case "input_text", "output_text", "text":
		return p.said(p.string(v, "text", "a string"))
	case "refusal": // the model reads what it has said, under any provider
		return p.said(p.string(v, "refusal", "a string"))
	case "input_image":
		part = p.image(v)
	case "input_file":
		part = p.file(v)
	case "input_audio":
		audio := p.required(v, "input_audio", "an object with data and format")
		if audio.Exists() && audio.Kind() != '{' {
			p.bad(v, ".input_audio", "must be an object with data and format; got %s", audio.TypeName())
		}
		part = chat.SoundPart(audio)
	}
	if !user {
		p.bad(v, "", "is of type %s, which only messages of the role user and the output of calls may hold", name)
	}
	return part
}

// strange reads a part of a type that is not known. Only an upstream of the dialect gets it; see native.
func (p *parser) strange(v, kind chat.Value) (part chat.Part) {
	if p.sized(kind, 1, math.MaxInt); p.failed() {
		return part
	}
	if p.req.needs.Path == "" { // there may be very many
		p.needs(kind, "content parts of type "+describe(kind)+", but only "+strings.ReplaceAll(partTypes, " or ", " and ")+"; models whose provider has the Responses API may know more")
	}
	p.req.loose = p.req.loose || addressed(v)
	return chat.TextPart(chat.Text(string(p.spoken(nil, v))))
}

// said returns a text as a part, unless there was a problem.
func (p *parser) said(text chat.Value) (part chat.Part) {
	if !p.failed() {
		part = chat.TextPart(chat.TextOf(text))
	}
	return part
}

// image reads a part that is an image. It is not fetched here.
func (p *parser) image(v chat.Value) (part chat.Part) {
	if !v.Given("image_url").Exists() && v.Given("file_id").Exists() {
		return p.stored(v)
	}
	address := p.string(v, "image_url", "the address of the image, or its data as a data: URL")
	if !chat.IsImageURL(address.Text()) {
		p.bad(v, ".image_url", "must be an https:// or http:// address, or data:image/…;base64, data")
		return part
	}
	detail := "auto"
	if d := v.Given("detail"); d.Exists() {
		detail = p.oneOf(d, `"auto", "low", "high" or "original"`, "auto", "low", "high", "original")
		if detail == "original" { // the highest that chat completions have
			detail = "high"
		}
	}
	return chat.ImagePart(address.Raw(), detail)
}

// stored reads a part that names a file which is stored at the vendor. Only an upstream of the dialect can read it, if the
// operator allows it.
func (p *parser) stored(v chat.Value) chat.Part {
	if p.id(v, "file_id", "the id of a file") != "" {
		p.needs(v.Given("file_id"), "files by their id; send the content as data")
	}
	return chat.TextPart(chat.Text("(file)"))
}

// file reads a part that is a file, which must come with its data.
func (p *parser) file(v chat.Value) (part chat.Part) {
	switch {
	case v.Given("file_data").Exists():
	case v.Given("file_id").Exists():
		return p.stored(v)
	case v.Given("file_url").Exists():
		p.bad(v, ".file_url", "is not supported: files are not fetched; send the content in file_data")
		return part
	}
	data, name := p.string(v, "file_data", "the content of the file as a data: URL"), "file"
	if given := v.Given("filename"); given.Exists() {
		p.sized(given, 0, maxLabel)
		name = given.Text()
	}
	if p.failed() {
		return part
	}
	return chat.FilePart(name, data.Raw())
}

// output reads the result of a call. What a tool message cannot hold follows it in a message of its own; see Compose.
func (p *parser) output(v chat.Value, it *item) {
	out := p.required(v, "output", "a string or an array of content parts")
	if out.IsText() {
		it.content = chat.TextOf(out)
		return
	}
	if !p.array(out, "a string or an array of content parts") {
		return
	}
	var texts []chat.Part
	for _, part := range p.parts(it, out, ".output[]", true) {
		if part.IsText() {
			texts = append(texts, part)
		} else {
			it.others = append(it.others, part)
		}
	}
	if it.content = chat.PartsOf(texts); texts == nil && it.others != nil {
		it.content = chat.Text("(see the attachments below)")
	}
}

// thoughts checks a reasoning item. Its summary does not reach the model. What an upstream needs back of its own reasoning is
// in the encrypted content, or kept with the calls (package continuation).
func (p *parser) thoughts(v chat.Value) {
	for _, name := range []string{"summary", "content"} {
		list := v.Given(name)
		if !list.Exists() {
			continue
		}
		if p.array(list, "an array of texts") {
			for walk := list.Walk(); walk.Next(); {
				if p.object(walk.Value, "an object with a text") {
					p.string(walk.Value, "text", "a string")
				}
			}
		}
	}
	if sealed := v.Given("encrypted_content"); sealed.Exists() {
		p.sized(sealed, 0, math.MaxInt)
	}
}
