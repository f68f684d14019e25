package messages

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// join appends a text to others, after a separator.
func join(to *chat.Words, v chat.Value, between string) {
	if !to.Empty() {
		to.Say(between)
	}
	to.Add(v)
}

// text returns the text of a block of the type text, as JSON. It must not be empty. After a problem it is nil.
func (p *parser) text(block chat.Value) (text chat.Value) {
	p.at("text.text", func() {
		t := block.Member("text")
		switch {
		case !p.need(t, '"', noText):
		case t.Size() == 0:
			p.bad("text content blocks must be non-empty")
		default:
			text = t
		}
	})
	return text
}

// cache reads the cache_control of a block; see taken.
func (p *parser) cache(block chat.Value) {
	c := block.Member("cache_control")
	if c.Null() { // nearly every block
		return
	}
	p.at("cache_control", func() {
		if !p.optional(c, '{', noObject) {
			return
		}
		if !c.Member("type").Is("ephemeral") {
			p.badAt("type", "Input should be 'ephemeral'")
		}
		if t := c.Member("ttl"); !t.Null() && !t.Is("5m") && !t.Is("1h") {
			p.badAt("ttl", "Input should be '5m' or '1h'")
		}
		most := maxCache
		if p.held.Wanted { // the thread has one of its own
			most--
		}
		if p.caches++; p.caches > most {
			p.bad("A maximum of %d blocks with cache_control may be provided", most)
		}
		p.mark, p.marked = chat.CacheOf(c, false)
	})
}

// taken returns the mark that was read last, and forgets it. It reports false if there is none. A mark inside of a block
// counts as that of the block.
func (p *parser) taken() (chat.Cache, bool) {
	ok := p.marked
	p.marked = false
	return p.mark, ok
}

// inherit gives a message the last mark that was read as its own.
func (p *parser) inherit(m *chat.Message) {
	if c, ok := p.taken(); ok {
		m.Mark(chat.NoPart, c)
	}
}

// add adds a message to the request.
func (p *parser) add(o origin, m chat.Message) {
	p.req.origins = append(p.req.origins, o)
	p.out.Message(m)
	p.full = p.full || p.out.Failed()
}

// messages reads messages.
//
// The rules of a conversation are those of the original API: it begins with the user, nothing is
// empty but the last message, and the calls of one message are answered in the next. What continues a thread may
// have no messages: the model goes on from where it stopped.
func (p *parser) messages(v chat.Value) {
	if !p.need(v, '[', noList) {
		return
	}
	p.list = v
	switch {
	case !v.IsEmpty():
	case p.held.Previous == "":
		p.bad("at least one message is required")
	default:
		p.add(from(0, nil), chat.Message{Role: chat.RoleUser, Content: chat.Text("")})
	}
	n := v.Len()
	p.full = p.out.Full(n)
	p.each(v, func(i int, m chat.Value) { p.message(i, m, i == n-1) })
	p.allAnswered()
}

// message reads one message. An empty one is allowed only at the end: it asks the model to begin its reply.
func (p *parser) message(i int, v chat.Value, last bool) {
	p.need(v, '{', noObject)
	content := v.Member("content")
	who := p.speaker(i, v.Member("role"))
	if who == system {
		p.between(i, v)
		return
	}
	empty := false
	p.at("content", func() {
		switch {
		case !content.Exists():
			p.bad(required)
		case content.Kind() == '[':
			empty = content.IsEmpty()
		case content.IsText():
			empty = content.Size() == 0
		default:
			p.bad(noContent)
		}
	})
	switch {
	case p.fault != nil:
	case empty && (who == user || !last):
		p.bad("all messages must have non-empty content except for the optional final assistant message")
	case empty:
	case who == user:
		p.at("content", func() { p.user(i, content) })
	default:
		if p.allAnswered() {
			p.at("content", func() { p.assistant(i, content) })
		}
	}
}

// user reads a message of the user. Results of tools go in front, each in a message of its own.
//
// One message of this dialect may therefore become several: a tool message for each result, and
// one for everything else.
func (p *parser) user(i int, content chat.Value) {
	p.parts, p.blocks, p.marks = p.parts[:0], p.blocks[:0], p.marks[:0]
	if content.IsText() {
		if p.allAnswered() {
			p.add(from(i, nil), chat.Message{Role: chat.RoleUser, Content: chat.TextOf(content)})
		}
		return
	}
	written := p.out.Messages()
	p.each(content, func(j int, v chat.Value) { p.userBlock(i, j, v) })
	switch {
	case !p.allAnswered():
		return
	case len(p.blocks) == 0 && p.out.Messages() > written: // results of tools alone
		return
	case len(p.blocks) == 0: // only what an upstream of the dialect understands
		p.say(0, "")
	}
	m := chat.Message{Role: chat.RoleUser, Content: chat.PartsOf(p.parts)}
	for _, k := range p.marks {
		m.Mark(k.Part, k.Cache)
	}
	p.add(from(i, p.blocks), m)
}

// block returns the type of a content block; empty after a problem.
// It also checks cache_control, which every block may have, and vets the members.
func (p *parser) block(v chat.Value) string {
	p.need(v, '{', noObject)
	t := v.Member("type")
	p.needAt("type", t, '"', noText)
	p.cache(v)
	kind := t.Among(kinds)
	p.vet(kind, v)
	return kind
}

// userBlock reads block j of message i, which is the user's.
func (p *parser) userBlock(i, j int, v chat.Value) {
	switch kind := p.block(v); kind {
	case "":
	case "tool_result":
		p.toolResult(i, j, v)
	case "thinking", "redacted_thinking", "tool_use":
		p.bad("Input tag '%s' found using 'type' does not match any of the expected tags: 'document', 'image', 'search_result', 'text', 'tool_result'", kind)
	default:
		if citations := v.Member("citations"); kind == "text" && !citations.Null() && !citations.IsEmpty() {
			p.outdated("text.citations", "Extra inputs are not permitted")
		}
		p.part(j, kind, v)
	}
	if c, ok := p.taken(); ok && len(p.parts) > 0 {
		p.marks = append(p.marks, chat.Mark{Cache: c, Part: len(p.parts) - 1})
	}
}

// part reads a block of text, an image, a document or a search result of the user.
// A type that is not known here is left to upstreams of the dialect.
func (p *parser) part(j int, kind string, v chat.Value) {
	switch kind {
	case "text":
		if t := p.text(v); t.Exists() {
			p.addPart(j, chat.TextPart(chat.TextOf(t)))
		}
	case "image":
		p.leaveGiven(v, "transformations", "messages[].content[].transformations")
		p.at("image.source", func() { p.image(j, v.Member("source")) })
	case "document":
		p.leaveCitations(v)
		p.at("document", func() { p.document(j, v) })
	case "search_result":
		p.leaveCitations(v)
		p.at("search_result", func() { p.searchResult(j, v) })
	case "tool_addition", "tool_removal":
		p.runs = true
		p.only("content blocks of type " + show(kind))
	default:
		p.only("content blocks of type " + show(kind))
	}
}

// leaveCitations notes that a document is to be cited: other dialects do not tell what a text relies on.
func (p *parser) leaveCitations(v chat.Value) {
	if v.Member("citations").Member("enabled").Kind() == 't' {
		p.req.leave("messages[].content[].citations")
	}
}

// only records that only an upstream of the dialect understands the current value. It is no problem yet: the model may
// be of such an upstream.
func (p *parser) only(what string) {
	if p.needs.Path == "" && p.fault == nil {
		p.needs = chat.Foreign{Path: string(p.path), What: what}
	}
}

// addPart adds a part to the user's message, which comes from block j.
func (p *parser) addPart(j int, part chat.Part) {
	if p.full = p.full || p.out.Full(len(p.parts)+1); !p.full {
		p.parts, p.blocks = append(p.parts, part), append(p.blocks, int32(j))
	}
}

// say adds a text of ours to the user's message.
func (p *parser) say(j int, text string) { p.addPart(j, chat.TextPart(chat.Text(text))) }

// source returns the type of the source of an image or a document. An unknown type may be known to an upstream of the
// dialect. It is empty for one, and after a problem.
// What lies in an unknown source cannot be vetted.
func (p *parser) source(v chat.Value, kinds ...string) string {
	p.need(v, '{', noObject)
	t := v.Member("type")
	p.needAt("type", t, '"', noText)
	kind := t.Text()
	p.vet("source", v)
	if !slices.Contains(kinds, kind) {
		p.loose = true
		p.only("sources of type " + show(kind))
		return ""
	}
	return kind
}

// image adds an image.
// Base64 becomes a data: URL, the form that chat completions have for it.
func (p *parser) image(j int, source chat.Value) {
	switch p.source(source, "base64", "url") {
	case "base64":
		kind := source.Member("media_type")
		p.at("base64.media_type", func() {
			if !p.need(kind, '"', noText) {
				return
			}
			switch kind.Text() {
			case "image/jpeg", "image/png", "image/gif", "image/webp":
			default:
				p.bad("Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'")
			}
		})
		if data := p.data(source); p.fault == nil {
			p.addPart(j, chat.ImagePart(dataURL(kind.Text(), data), ""))
		}
	case "url":
		url := source.Member("url")
		p.at("url.url", func() {
			if p.need(url, '"', noText) && (!chat.IsImageURL(url.Text()) || strings.HasPrefix(url.Text(), "data:")) {
				p.bad("Input should be an http or https URL")
			}
		})
		if p.fault == nil {
			p.addPart(j, chat.ImagePart(url.Raw(), ""))
		}
	}
}

// dataURL returns base64 as a data: URL, both in JSON.
func dataURL(mediaType string, data chat.Value) []byte {
	b := make([]byte, 0, len(data.Raw())+len(mediaType)+len(`data:;base64,`))
	b = append(append(append(b, `"data:`...), mediaType...), ";base64,"...)
	return append(b, data.Raw()[1:]...)
}

// data reads the base64 of a source. Line breaks in it are refused, as in the original.
func (p *parser) data(source chat.Value) chat.Value {
	data := source.Member("data")
	p.at("base64.data", func() {
		switch {
		case !p.need(data, '"', noText):
		case data.Size() == 0:
			p.bad(noCharacter)
		case !isBase64(data):
			p.bad("Input should be valid base64")
		}
	})
	return data
}

// isBase64 reports whether a string, given as JSON, is base64. It decodes piece by piece and keeps nothing.
// The bound on its memory matters: an image may have many megabytes, and requests with images come
// in parallel.
func isBase64(v chat.Value) bool {
	b := v.Inside()
	if bytes.IndexByte(b, '\\') >= 0 { // a slash may be escaped
		b = []byte(v.Text())
	}
	for _, c := range b { // the decoder skips line breaks
		if c == '\n' || c == '\r' {
			return false
		}
	}
	encoding := base64.StdEncoding
	if len(b)%4 != 0 {
		encoding = base64.RawStdEncoding
	}
	var room [3 << 10]byte
	for len(b) > 0 {
		n := min(len(b), 4<<10)
		if _, err := encoding.Decode(room[:], b[:n]); err != nil {
			return false
		}
		if n < len(b) && b[n-1] == '=' {
			return false
		}
		b = b[n:]
	}
	return true
}

// document adds a document. One that is text becomes text; a file in base64 a file part, which some upstreams know.
//
// An address is fetched by the vendor, so it must be one that a stranger may fetch, and only
// upstreams of the dialect get it.
func (p *parser) document(j int, v chat.Value) {
	title, context := v.Member("title"), v.Member("context")
	p.at("title", func() { p.optional(title, '"', noText) })
	p.at("context", func() { p.optional(context, '"', noText) })
	source := v.Member("source")
	if about := context.Text(); about != "" {
		p.say(j, "About the document that follows: "+about)
	}
	p.at("source", func() {
		switch p.source(source, "base64", "text", "content", "url") {
		case "url":
			url := source.Member("url")
			p.at("url.url", func() {
				if p.need(url, '"', noText) {
					if why := provider.Unfetchable(url.Text()); why != "" {
						p.bad("This document cannot be fetched: %s", why)
					}
				}
			})
			p.only("documents by their address")
			p.remote = cmp.Or(p.remote, string(p.path))
		case "base64":
			kind := source.Member("media_type")
			p.at("base64.media_type", func() {
				if p.need(kind, '"', noText) && kind.Text() != "application/pdf" {
					p.bad("Input should be 'application/pdf'")
				}
			})
			data := p.data(source)
			if p.fault != nil {
				return
			}
			const name = "document.pdf"
			p.addPart(j, chat.FilePart(cmp.Or(title.Text(), name), dataURL("application/pdf", data)))
		case "text":
			data := source.Member("data")
			p.needAt("text.data", data, '"', noText)
			if p.fault == nil {
				p.title(j, title)
				p.addPart(j, chat.TextPart(chat.TextOf(data)))
			}
		case "content":
			p.title(j, title)
			p.at("content.content", func() { p.inner(j, source.Member("content")) })
		}
	})
}

// title adds the title of a document, if it has one.
func (p *parser) title(j int, title chat.Value) {
	if t := title.Text(); t != "" {
		p.say(j, "Document: "+t)
	}
}

// inner adds a content that stands inside a block: a text, or texts and images.
func (p *parser) inner(j int, content chat.Value) {
	switch {
	case !content.Exists():
		p.bad(required)
	case content.IsText():
		p.addPart(j, chat.TextPart(chat.TextOf(content)))
	case content.Kind() == '[':
		p.each(content, func(_ int, v chat.Value) {
			switch kind := p.block(v); kind {
			case "":
			case "text", "image":
				p.part(j, kind, v)
			default:
				p.bad("Input tag %s found using 'type' does not match any of the expected tags: 'image', 'text'", show(kind))
			}
		})
	default:
		p.bad(noContent)
	}
}

// searchResult adds a search result as text: its title, its source, and what was found there.
func (p *parser) searchResult(j int, v chat.Value) {
	title, source := v.Member("title"), v.Member("source")
	p.needAt("title", title, '"', noText)
	p.needAt("source", source, '"', noText)
	p.say(j, "Search result: "+title.Text()+"\nSource: "+source.Text())
	p.at("content", func() { p.inner(j, v.Member("content")) })
}

// toolResult reads the result of a call and writes it as a message. Tool messages have no images, so those go to the
// user's message that follows.
//
// The tool message is added at once, and so precedes the user's own message, which is
// added when all blocks were read. Chat completions want this order.
func (p *parser) toolResult(i, j int, v chat.Value) {
	id, failed, content := v.Member("tool_use_id"), v.Member("is_error"), v.Member("content")
	p.needAt("tool_result.tool_use_id", id, '"', noText)
	p.boolAt("tool_result.is_error", failed)
	if p.held.Previous != "" { // its call is in the thread
		p.at("tool_result.content", func() { p.heldResult(j, content) })
		return
	}
	if !p.answer(id.Text()) {
		return
	}
	var text chat.Words
	images := 0
	p.at("tool_result.content", func() {
		switch {
		case content.Null():
		case content.IsText():
			text.Add(content)
		case content.Kind() == '[':
			text, images = p.resultBlocks(j, content)
		default:
			p.bad(noContent)
		}
	})
	if text.Empty() && images > 0 {
		text.Say("The result follows.")
	}
	// Chat completions have no such mark, so the text must say it.
	if failed.Kind() == 't' && !saysError(text.Content().Text()) {
		text.Lead("Error: ")
	}
	m := chat.Message{Role: chat.RoleTool, ToolCallID: id.Text(), Content: text.Content()}
	p.inherit(&m)
	p.add(origin{message: int32(i), block: int32(j), parts: 1}, m)
}

// heldResult reads the result of a call that is in a thread, as words of the user. Nobody is told so: it is for what the
// request costs, and for its limits.
func (p *parser) heldResult(j int, content chat.Value) {
	switch {
	case content.Null():
	case content.IsText():
		p.addPart(j, chat.TextPart(chat.TextOf(content)))
	case content.Kind() == '[':
		if text, _ := p.resultBlocks(j, content); !text.Empty() && p.fault == nil {
			p.addPart(j, chat.TextPart(text.Content()))
		}
	default:
		p.bad(noContent)
	}
}

// saysError reports whether a result says itself that it is an error.
func saysError(text string) bool {
	const word = "error"
	return len(text) >= len(word) && strings.EqualFold(text[:len(word)], word)
}

// resultBlocks reads the blocks of a result. It returns the texts, and the number of images, which it adds to the user's
// message.
// Documents and search results count as images here: what matters is that something follows the
// text.
func (p *parser) resultBlocks(j int, content chat.Value) (text chat.Words, images int) {
	p.each(content, func(_ int, v chat.Value) {
		switch kind := p.block(v); kind {
		case "":
		case "text":
			t := v.Member("text")
			p.at("text.text", func() {
				if p.need(t, '"', noText) {
					join(&text, t, "\n")
				}
			})
		case "image":
			if images++; images == 1 {
				p.say(j, "An image from the result of a tool:")
			}
			p.part(j, kind, v)
		case "document", "search_result":
			p.part(j, kind, v)
			images++
		case "tool_reference":
			// The tools of a request are all sent, so the model has this one already.
			name := v.Member("tool_name")
			p.textAt("tool_reference.tool_name", name)
			if !text.Empty() {
				text.Say("\n")
			}
			text.Say("The tool " + p.shortName(name.Text()) + " is available.")
		default:
			p.only("content blocks of type " + show(kind) + " in a tool_result")
		}
	})
	return text, images
}

// answer records that a call has its result.
func (p *parser) answer(id string) bool {
	at := p.calls.Find(id)
	switch {
	case at < 0:
		p.bad("unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", show(id))
	case p.answered[at]:
		p.bad("each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", show(id))
	default:
		p.answered[at] = true
	}
	return p.fault == nil
}

// allAnswered reports whether all calls of the last message of the assistant have a result, and refuses the request if
// not. It forgets them: a result must come in the next message.
func (p *parser) allAnswered() bool {
	if p.fault != nil {
		return false
	}
	for i, done := range p.answered {
		if !done {
			p.fault = refuse("messages."+strconv.Itoa(p.caller), "`tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", show(p.calls.Calls[i].ID))
			return false
		}
	}
	p.calls, p.answered = chat.CallIndex{}, p.answered[:0]
	return true
}

// assistant reads an earlier reply. Its texts become one, as the model wrote them.
//
// Thinking with a signature of the vendor is left out here. It stays in the caller's own body,
// which is all that an upstream of the dialect reads.
func (p *parser) assistant(i int, content chat.Value) {
	if content.IsText() {
		p.add(from(i, nil), chat.Message{Role: chat.RoleAssistant, Content: chat.TextOf(content)})
		return
	}
	var text, thought chat.Words
	p.caller = i
	p.each(content, func(_ int, v chat.Value) {
		kind := p.block(v)
		p.served = strings.HasSuffix(kind, "_tool_result")
		switch kind {
		case "":
		case "text":
			if t := p.text(v); t.Exists() {
				text.Add(t)
			}
		case "thinking":
			p.at("thinking", func() {
				words, signature := v.Member("thinking"), v.Member("signature")
				p.needAt("signature", signature, '"', noText)
				p.needAt("thinking", words, '"', noText)
				if p.fault == nil && isOurs(signature) {
					p.altered = true
					join(&thought, words, "\n\n")
				}
			})
		case "redacted_thinking":
			p.needAt("redacted_thinking.data", v.Member("data"), '"', noText)
		case "tool_use":
			p.at("tool_use", func() { p.call(v) })
		default:
			p.strange(kind, v)
		}
	})
	calls := p.calls.Calls
	m := chat.Message{Role: chat.RoleAssistant, ToolCalls: calls}
	p.inherit(&m)
	if p.fault != nil || text.Empty() && len(calls) == 0 {
		return // thinking alone says nothing to another model
	}
	if !text.Empty() {
		m.Content = text.Content()
	}
	// Models that think in a field of their own want it back while they call tools. Later they ignore it, but a prompt without
	// it would not be the one that is in their cache.
	if !thought.Empty() && len(calls) > 0 {
		m.Think(thought.Content())
	}
	p.add(from(i, nil), m)
}

// strange reads a block of the assistant that no other dialect has. What is about a search among the tools is left out: a
// model of another dialect has all tools.
func (p *parser) strange(kind string, v chat.Value) {
	const unexpected = "Input tag '%s' found using 'type' does not match any of the expected tags: 'redacted_thinking', 'text', 'thinking', 'tool_use'"
	switch kind {
	case "document":
		p.outdated(kind, fmt.Sprintf(unexpected, kind))
		p.only("documents of the assistant")
	case "image", "tool_result", "search_result":
		p.bad(unexpected, kind)
	case "tool_search_tool_result":
	case "server_tool_use":
		if !strings.HasPrefix(v.Member("name").Text(), toolSearch) {
			p.only("content blocks of type " + show(kind))
		}
	default:
		p.only("content blocks of type " + show(kind))
	}
}

// call reads a tool_use block.
// The input becomes the text of the arguments, as it is written.
func (p *parser) call(v chat.Value) {
	id, name, input := v.Member("id"), v.Member("name"), v.Member("input")
	p.textAt("id", id)
	p.textAt("name", name)
	p.needAt("input", input, '{', noObject)
	c := chat.Called(id.Text(), p.shortName(name.Text()), input.Raw())
	if p.calls.Find(c.ID) >= 0 {
		p.badAt("id", "`tool_use` ids must be unique")
	}
	// An upstream of another dialect may have made the id, and one of this dialect would refuse it.
	p.altered = p.altered || !isPlain(c.ID)
	if p.full = p.full || p.out.Full(len(p.answered)+1); p.full {
		return
	}
	p.calls.Add(c)
	p.answered = append(p.answered, false)
}
