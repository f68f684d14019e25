package chat

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxEntries bounds the messages, content parts and tool calls of one request together, and with them
// the memory of a parsed request: without it, a body of tiny messages would take several times its own
// size. Each entry costs a model several tokens, so no context window holds more.
const maxEntries = 100_000

// tooMany is said by the parser and by Builder.
const tooMany = "holds too much: at most %d messages, content parts and tool calls together"

// fewMessages is how many messages are appended without asking how many there will be.
const fewMessages = 64

// messages reads messages, which must not be empty. For null it leaves them nil; whole then reports the
// missing field. Calls of the last message must be answered too: a conversation that ends with an
// assistant's calls has nothing that a model could continue from.
func (p *parser) messages() {
	if p.null() || !p.array("an array of messages") {
		return
	}
	// Not nil, so that whole can tell an empty array from a missing one. A long body mostly has a message for each few kilobytes.
	p.req.Messages = make([]Message, 0, min(max(len(p.body)>>12, 4), fewMessages))
	for p.element() {
		p.message()
	}
	if p.failed() {
		return
	}
	if len(p.req.Messages) == 0 {
		p.bad("", "must hold at least one message")
		return
	}
	p.allAnswered()
}

// message reads one message and appends it. Its members may come in any order, so rules that depend on
// the role are checked at the end. Members that the contract does not know are skipped; they stay in
// Raw and reach upstreams of the same dialect.
//
// An empty tool_calls array is removed from what upstreams get, since some refuse it;
// the edit is recorded here and made by Patch.
func (p *parser) message() {
	from, files := p.pos, p.req.size.files
	if !p.entry() || !p.object("an object with role and content") {
		return
	}
	var (
		m     Message
		calls CallIndex
	)
	var (
		refusal quotation // what the model said instead of a content; the zero value if it did not
		spoken  bool      // the reply is given as a sound
		empty   span      // an empty tool_calls with its comma; zero if there is none
	)
	for before := p.pos; p.member(); before = p.pos {
		switch string(p.key) {
		case "role":
			m.Role = p.role()
		case "content":
			m.Content = p.content()
		case "tool_calls":
			list := p.peek() == '['
			if calls = p.toolCalls(); list && calls.Calls == nil && !p.failed() {
				empty = p.withComma(before)
				p.req.edits = append(p.req.edits, edit{span: empty})
			}
		case "tool_call_id":
			m.ToolCallID = p.toolCallID()
		case "name":
			m.Name = p.optionalText()
			p.req.size.bytes += len(m.Name)
		case "function_call":
			p.legacy("tool_calls, and tools")
		case "reasoning_content", "refusal":
			// Counted, because some upstreams put them into the prompt.
			if p.peek() == '"' {
				said := string(p.key) == "refusal"
				t, _ := p.quoted()
				p.req.size.bytes += t.size
				if said && t.size > 0 {
					refusal = t
				}
				break
			}
			p.skip()
		case "audio":
			spoken = p.peek() == '{'
			p.other(messageShape)
		default:
			p.req.marked = p.req.marked || isMark(p.key)
			p.other(messageShape)
		}
	}
	if p.failed() {
		return
	}
	m.ToolCalls = calls.Calls
	// From the opening brace to just after the closing one.
	m.raw = p.body[from:p.pos]
	if empty.to > 0 {
		m.raw = append(append([]byte(nil), p.body[from:empty.from]...), p.body[empty.to:p.pos]...)
	}
	// An earlier reply may have said something without a content: a refusal counts as its text,
	// and a sound is known only to the vendor that made it.
	if m.Role == RoleAssistant && m.Content.IsNull() {
		switch {
		case refusal.to > 0: // models of other dialects read it as what was said
			m.Content = Content{raw: p.body[refusal.from:refusal.to]}
		case spoken && calls.Calls == nil:
			p.foreignAt(p.path()+".audio", "an earlier reply by the id of its sound")
		default:
			spoken = false
		}
	}
	p.checkMessage(&m, spoken)
	if p.req.size.files > files {
		p.attached(&m)
	}
	p.checkTurn(&m, calls)
	if n := len(p.req.Messages); n == cap(p.req.Messages) && n >= fewMessages {
		// Doubling a long list again and again would copy it several times. As many bytes as so far have as many messages.
		rest := n * (len(p.body) - p.pos) / p.pos
		p.req.Messages = slices.Grow(p.req.Messages, min(max(rest, n/4)+1, maxEntries))
	}
	p.req.Messages = append(p.req.Messages, m)
}

// withComma returns the current member, whose value has just been read, with the comma in front of it or, if it is the first
// one, the comma after it. Before is where the member in front of it ends.
func (p *parser) withComma(before int) span {
	s := span{before, p.pos}
	if p.frames[len(p.frames)-1].count == 1 && p.peek() == ',' {
		s.to = p.pos + 1
	}
	return s
}

// entry counts one more message, part or tool call. It reports false, and refuses the body, if there
// are too many.
func (p *parser) entry() bool {
	p.entries++
	if p.entries > maxEntries {
		p.badAt("messages", tooMany, maxEntries)
		return false
	}
	return true
}

// role reads the role of a message. It returns 0 for null and after a problem. Each "developer" is
// recorded with its place, so that a Patch can replace it without a second parse.
func (p *parser) role() Role {
	from := p.pos
	switch p.oneOf(roles, "system", "developer", "user", "assistant", "tool") {
	case "system":
		return RoleSystem
	case "developer":
		p.req.edits = append(p.req.edits, edit{span: span{from, p.pos}, with: systemRole, role: true})
		return RoleSystem
	case "user":
		return RoleUser
	case "assistant":
		return RoleAssistant
	case "tool":
		return RoleTool
	}
	return 0
}

// systemRole is what a role developer becomes.
var systemRole = []byte(`"system"`)

// roles lists the roles for messages.
const roles = `"system", "developer", "user", "assistant" or "tool"`

// content reads the content of a message: a text, an array of parts, or null. A text is checked, not
// unescaped.
func (p *parser) content() Content {
	const want = "a string or an array of content parts"
	switch p.peek() {
	case 'n':
		p.null()
		return Content{}
	case '[':
		if p.enter(false) {
			return p.parts()
		}
		return Content{}
	}
	t := p.text(want)
	p.req.size.bytes += t.size
	return Content{raw: p.body[t.from:t.to]}
}

// parts reads an array of content parts.
func (p *parser) parts() Content {
	var c Content
	for p.element() {
		if part, ok := p.part(); ok {
			c.parts = append(c.parts, part)
		}
	}
	if c.parts == nil {
		p.bad("", "must hold at least one part; send an empty string for no text")
	}
	return c
}

// part reads one content part. Its type may come after the value that depends on it, so both are
// read first and compared at the end. A null member counts as absent, because some libraries send the
// members of all types; text and image_url are checked in a part of any type.
//
// Besides the part itself it looks for anything from which an upstream could take an address: a
// member of another type, or one that nobody knows. An upstream inside the operator's network does
// not get such a part.
func (p *parser) part() (Part, bool) {
	if !p.entry() || !p.object("an object with a type") {
		return Part{}, false
	}
	var (
		kind        string
		words       quotation
		image       Part
		text, pixel bool      // whether text and image_url are there
		refusal     quotation // the zero value if there is none
		file, audio *File     // nil if they are no objects
		beside      string    // the path of the first member that is not of a known type; empty if there is none
		members     [len(partMembers)]bool
	)
	for p.member() {
		for i, name := range partMembers {
			members[i] = members[i] || string(p.key) == name && p.holds()
		}
		switch string(p.key) {
		case "type":
			kind = p.oneOf(partTypes, "text", "image_url", "file", "input_audio", "refusal")
		case "text":
			if !p.null() {
				words, text = p.text("a string"), true
			}
		case "image_url":
			if !p.null() {
				image, pixel = p.imageURL()
			}
		case "refusal":
			if p.peek() == '"' {
				refusal, _ = p.quoted()
				break
			}
			p.skip()
		case "file":
			file = p.file(false)
		case "input_audio":
			audio = p.file(true)
		default:
			mark := isMark(p.key)
			p.req.marked = p.req.marked || mark
			if beside == "" && p.holds() && !mark {
				beside = p.path()
			}
			p.other(partShape)
		}
	}
	if beside == "" {
		for i, name := range partMembers {
			if members[i] && name != kind && !p.failed() {
				beside = p.path() + "." + name
			}
		}
	}
	p.unvetted(beside)
	switch {
	case p.failed():
		return Part{}, false
	case kind == "":
		p.bad(".type", "is required: "+partTypes)
		return Part{}, false
	case kind == "text" && !text:
		p.bad(".text", `is required in a part of type "text"`)
		return Part{}, false
	case kind == "text":
		p.req.size.bytes += words.size
		return Part{raw: p.body[words.from:words.to]}, true
	case kind == "refusal" && refusal.to == 0:
		p.bad(".refusal", `is required in a part of type "refusal": a string`)
		return Part{}, false
	case kind == "file" && file == nil, kind == "input_audio" && audio == nil:
		p.bad("."+kind, "is required in a part of type %q: an object", kind)
		return Part{}, false
	case kind == "refusal": // the model reads it, so it counts as text
		p.req.size.bytes += refusal.size
		if p.req.foreign.Path == "" { // an adapter that writes messages anew writes it as text
			p.req.foreign = Foreign{Path: p.path(), What: "parts of type " + kind}
		}
		return Part{raw: p.body[refusal.from:refusal.to]}, true
	case kind == "file":
		p.req.size.files++
		return Part{File: file}, true
	case kind == "input_audio":
		p.req.size.files++
		return Part{File: audio}, true
	case !pixel:
		p.bad(".image_url", `is required in a part of type "image_url"`)
		return Part{}, false
	}
	p.req.size.images++
	return image, true
}

// foreign records that the current value is something that only some providers support. It is no
// problem yet, because the model may be served by such a provider; routing and the adapters decide.
// The first such value is enough for a message.
func (p *parser) foreign(what string) {
	if p.req.unreadable.Path == "" {
		p.foreignAt(p.path(), what)
	}
}

// foreignAt is foreign for the value at path.
// There are two notes. unreadable is what only one dialect can express; foreign also has files,
// which several dialects know.
func (p *parser) foreignAt(path, what string) {
	if p.req.unreadable.Path == "" && !p.failed() {
		p.req.unreadable = Foreign{Path: path, What: what}
		if p.req.foreign.Path == "" {
			p.req.foreign = p.req.unreadable
		}
	}
}

// attached records the files and sounds of a message. Those of a user are content that several dialects know; in any other
// message they are foreign to all but one.
func (p *parser) attached(m *Message) {
	for i, part := range m.Content.parts {
		if part.File == nil || p.failed() {
			continue
		}
		f := Foreign{Path: fmt.Sprintf("%s.content[%d]", p.path(), i), What: "parts of type " + part.File.kind()}
		if p.req.foreign.Path == "" {
			p.req.foreign = f
		}
		if m.Role != RoleUser && p.req.unreadable.Path == "" {
			p.req.unreadable = f
		}
	}
}

// partMembers are the members of parts that hold what is said, which are named like the types.
var partMembers = [...]string{"text", "image_url", "refusal", "file", "input_audio"}

// unvetted records the path of something from which an upstream might take an address that was not checked. An empty path
// is nothing; the first one is enough for a message.
func (p *parser) unvetted(path string) {
	if p.req.unvetted == "" {
		p.req.unvetted = path
	}
}

// holds reports whether the value at pos can be an address, or have one in it: a string, an object or an array.
func (p *parser) holds() bool {
	c := p.peek()
	return c == '"' || c == '{' || c == '['
}

// isData reports whether a text begins like data: base64, or a data: URL. An address does not.
// A colon, which every address has after its scheme, is in neither alphabet of base64.
func isData(v Value) bool {
	head := start(v.raw, urlStart)
	if isDataURL(head) {
		return true
	}
	for _, c := range []byte(head[:min(len(head), urlStart)]) {
		if !isWord(c) && c != '+' && c != '/' && c != '-' && c != '=' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}

// isDataURL reports whether a text begins like a data: URL.
func isDataURL(head string) bool { return len(head) >= 5 && strings.EqualFold(head[:5], "data:") }

// partTypes lists the types of parts for messages.
const partTypes = `"text", "image_url", "file", "input_audio" or "refusal"`

// imageURL reads image_url. The image itself is not fetched or decoded here. Whether an address is
// public is checked later, when the provider is known: some providers accept only data (docs/api.md#messages).
func (p *parser) imageURL() (image Part, ok bool) {
	if !p.object("an object with a url") {
		return image, false
	}
	for p.member() {
		switch string(p.key) {
		case "url":
			if p.null() {
				break
			}
			if t := p.text("a string"); !p.failed() {
				head := start(p.body[t.from:t.to], urlStart)
				image.image, image.data = p.body[t.from:t.to], isDataURL(head)
				if !IsImageURL(head) {
					p.bad("", "must be an https:// or http:// address, or data:image/…;base64, data; got %s", urlHead(head))
				}
			}
		case "detail":
			image.Detail = p.oneOf(`"auto", "low", "high" or "original"`, "auto", "low", "high", "original")
		default:
			if p.holds() {
				p.unvetted(p.path())
			}
			p.other(imageShape)
		}
	}
	if len(image.image) <= len(`""`) {
		p.bad(".url", "is required: the address of the image, or its data as a data: URL")
	}
	return image, !p.failed()
}

// urlStart is how many bytes of an image's address are looked at: a data: URL may be many megabytes long, and its
// media type is short.
const urlStart = 64

// IsImageURL reports whether url, or what begins like it, can be given to an upstream as an image. Schemes and media
// types are compared without regard to case.
// Only the form is checked; see imageURL.
func IsImageURL(url string) bool {
	// A data: URL has its media type before the first comma.
	head, _, isData := bytes.Cut([]byte(url[:min(len(url), urlStart)]), []byte(","))
	head = bytes.ToLower(head)
	switch {
	case bytes.HasPrefix(head, []byte("https://")):
		return len(url) > len("https://")
	case bytes.HasPrefix(head, []byte("http://")):
		return len(url) > len("http://")
	}
	return isData && bytes.HasPrefix(head, []byte("data:image/")) && bytes.HasSuffix(head, []byte(";base64"))
}

// urlHead returns the part of a URL that shows its kind, in quotes. The rest may be private and is not
// repeated.
func urlHead(url string) string {
	url = url[:min(len(url), maxEcho)]
	for _, end := range []string{"://", ","} {
		if i := strings.Index(url, end); i >= 0 {
			return strconv.Quote(url[:i+len(end)])
		}
	}
	return "no URL"
}

// checkMessage checks the rules for the role of a message (docs/api.md#messages). The scanner's path is
// that of the message. Spoken says that it needs no content, because it is an earlier reply that was a sound. Only the first
// rule that is broken is reported.
func (p *parser) checkMessage(m *Message, spoken bool) {
	switch {
	case m.Role == 0:
		p.bad(".role", "is required: "+roles)
	case len(m.ToolCalls) > 0 && m.Role != RoleAssistant:
		p.bad(".tool_calls", "is allowed only in an assistant message")
	case m.Role == RoleTool && m.ToolCallID == "":
		p.bad(".tool_call_id", "is required in a tool message: the id of the call that it answers")
	case m.Content.IsNull() && len(m.ToolCalls) > 0: // a reply that only calls tools has no content
	case m.Content.IsNull() && m.Role == RoleAssistant && spoken:
	case m.Content.IsNull() && m.Role == RoleAssistant:
		p.bad(".content", "is required in an assistant message without tool_calls")
	case m.Content.IsNull():
		p.bad(".content", "is required: a string or an array of content parts")
	case m.Role != RoleUser:
		for i, part := range m.Content.parts {
			if part.IsImage() {
				p.bad(fmt.Sprintf(".content[%d]", i), "is an image; only user messages may hold images")
			}
		}
	}
}
