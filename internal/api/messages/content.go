package messages

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// system reads system: a text, or blocks of text. It becomes one message, which every upstream accepts.
func (p *parser) system(v value) {
	if v.absent() {
		return
	}
	var text []byte
	switch v[0] {
	case '"':
		text = v.inside()
	case '[':
		p.each(v, func(_ int, v value) {
			if !v.is('{') {
				p.bad(noObject)
				return
			}
			if t := v.member("type"); !t.is('"') || t.text() != "text" {
				p.badAt("type", "Input should be 'text'")
				return
			}
			p.cache(v)
			if t := p.text(v); t != nil {
				text = appendText(text, t, `\n\n`)
			}
		})
	default:
		p.bad(noText)
		return
	}
	if len(text) > 0 {
		p.begin(origin{message: -1})
		p.out = append(append(append(p.out, `{"role":"system","content":"`...), text...), `"}`...)
	}
}

// appendText appends a string to the inside of another, behind a separator, which is the inside of a string, too.
func appendText(to []byte, v value, between string) []byte {
	if len(to) > 0 {
		to = append(to, between...)
	}
	return append(to, v.inside()...)
}

// text returns the text of a block of the type text, as JSON. It must not be empty. After a problem it is nil.
func (p *parser) text(block value) (text value) {
	p.at("text.text", func() {
		t := block.member("text")
		switch {
		case !p.need(t, '"', noText):
		case len(t) == 2:
			p.bad("text content blocks must be non-empty")
		default:
			text = t
		}
	})
	return text
}

// cache checks the cache_control of a block. Only upstreams of the dialect use it.
func (p *parser) cache(block value) {
	c := block.member("cache_control")
	p.at("cache_control", func() {
		if c = p.object(c); c == nil {
			return
		}
		if t := c.member("type"); !t.is('"') || t.text() != "ephemeral" {
			p.badAt("type", "Input should be 'ephemeral'")
		}
		if t := c.member("ttl"); !t.absent() && (!t.is('"') || t.text() != "5m" && t.text() != "1h") {
			p.badAt("ttl", "Input should be '5m' or '1h'")
		}
		if p.caches++; p.caches > maxCache {
			p.bad("A maximum of %d blocks with cache_control may be provided", maxCache)
		}
	})
}

// begin begins a message of the chat completion.
func (p *parser) begin(from origin) {
	if p.written > 0 {
		p.out = append(p.out, ',')
	}
	p.written++
	p.req.origins = append(p.req.origins, from)
}

// messages reads messages.
func (p *parser) messages(v value) {
	if !p.need(v, '[', noList) {
		return
	}
	p.current = currentExchange(p.body, v)
	n := 0
	v.elements(func(int, value) { n++ })
	if n == 0 {
		p.bad("at least one message is required")
	}
	p.each(v, func(i int, v value) { p.message(i, v, i == n-1) })
	p.allAnswered()
}

// currentExchange returns the index of the last message in which the user says something. The exchange of tool calls
// behind it is going on, and its thinking matters to the model. It looks only if the body has thinking of ours.
func currentExchange(body []byte, messages value) (last int) {
	if !bytes.Contains(body, []byte(signaturePrefix)) {
		return 0
	}
	messages.elements(func(i int, m value) {
		if !m.is('{') {
			return
		}
		content := m.member("content")
		if role := m.member("role"); !role.is('"') || role.text() != "user" {
			return
		}
		says := content.is('"')
		if content.is('[') {
			content.elements(func(_ int, b value) {
				if b.is('{') {
					t := b.member("type")
					says = says || t.is('"') && t.text() != "tool_result"
				}
			})
		}
		if says {
			last = i
		}
	})
	return last
}

// message reads one message. An empty one is allowed only at the end: it asks the model to begin its reply.
func (p *parser) message(i int, v value, last bool) {
	if !v.is('{') {
		p.bad(noObject)
		return
	}
	role, content := v.member("role"), v.member("content")
	user := false
	p.at("role", func() {
		if !p.need(role, '"', noText) {
			return
		}
		switch role.text() {
		case "user":
			user = true
		case "assistant":
		case "system":
			p.bad("Unexpected role 'system'. The Messages API accepts a top-level `system` parameter, not 'system' as an input message role.")
		default:
			p.bad("Input should be 'user' or 'assistant'")
		}
		if i == 0 && !user {
			p.bad("first message must use the 'user' role")
		}
	})
	empty := false
	p.at("content", func() {
		switch {
		case content == nil:
			p.bad(required)
		case content.is('['):
			empty = content[jsonscan.Space(content, 1)] == ']'
		case content.is('"'):
			empty = len(content) == 2
		default:
			p.bad("Input should be a valid string or a list of content blocks")
		}
	})
	switch {
	case p.fault != nil:
	case empty && (user || !last):
		p.bad("all messages must have non-empty content except for the optional final assistant message")
	case empty:
	case user:
		p.at("content", func() { p.user(i, content) })
	default:
		if p.allAnswered() {
			p.at("content", func() { p.assistant(i, content) })
		}
	}
}

// user reads a message of the user. Results of tools go in front, each in a message of its own.
func (p *parser) user(i int, content value) {
	p.parts, p.blocks, p.single = p.parts[:0], p.blocks[:0], nil
	if content.is('"') {
		if p.allAnswered() {
			p.begin(origin{message: i})
			p.out = append(append(append(p.out, `{"role":"user","content":`...), content...), '}')
		}
		return
	}
	written := p.written
	p.each(content, func(j int, v value) { p.userBlock(i, j, v) })
	switch {
	case !p.allAnswered():
		return
	case len(p.blocks) == 0 && p.written > written: // results of tools alone
		return
	case len(p.blocks) == 0: // only what an upstream of the dialect understands
		p.say(0, "")
	}
	p.begin(origin{message: i, blocks: slices.Clone(p.blocks)})
	p.out = append(p.out, `{"role":"user","content":`...)
	if len(p.blocks) == 1 && p.single != nil {
		p.out = append(p.out, p.single...)
	} else {
		p.out = append(append(append(p.out, '['), p.parts...), ']')
	}
	p.out = append(p.out, '}')
}

// block returns the type of a content block; empty after a problem.
func (p *parser) block(v value) string {
	if !v.is('{') {
		p.bad(noObject)
		return ""
	}
	t := v.member("type")
	p.at("type", func() { p.need(t, '"', noText) })
	if p.fault != nil {
		return ""
	}
	p.cache(v)
	kind := t.text()
	p.vet(kind, v)
	return kind
}

// userBlock reads block j of message i, which is the user's.
func (p *parser) userBlock(i, j int, v value) {
	switch kind := p.block(v); kind {
	case "":
	case "tool_result":
		p.toolResult(i, j, v)
	case "thinking", "redacted_thinking", "tool_use":
		p.bad("Input tag '%s' found using 'type' does not match any of the expected tags: 'document', 'image', 'search_result', 'text', 'tool_result'", kind)
	default:
		p.part(j, kind, v)
	}
}

// part reads a block of text, an image, a document or a search result of the user.
func (p *parser) part(j int, kind string, v value) {
	switch kind {
	case "text":
		if t := p.text(v); t != nil {
			p.addText(j, t)
		}
	case "image":
		p.at("image.source", func() { p.image(j, v.member("source")) })
	case "document":
		p.at("document", func() { p.document(j, v) })
	case "search_result":
		p.at("search_result", func() { p.searchResult(j, v) })
	default:
		p.only("content blocks of type " + show(kind))
	}
}

// only records that only an upstream of the dialect understands the current value. It is no problem yet: the model may
// be of such an upstream.
func (p *parser) only(what string) {
	if p.needs.Path == "" && p.fault == nil {
		p.needs = chat.Foreign{Path: string(p.path), What: what}
	}
}

// addPart begins a part of the user's message, which comes from block j.
func (p *parser) addPart(j int) {
	if len(p.blocks) > 0 {
		p.parts = append(p.parts, ',')
	}
	p.blocks = append(p.blocks, int32(j))
}

// addText adds a text, given as JSON, to the user's message.
func (p *parser) addText(j int, text value) {
	p.addPart(j)
	p.single = text
	p.parts = append(append(append(p.parts, `{"type":"text","text":`...), text...), '}')
}

// say adds a text of ours to the user's message.
func (p *parser) say(j int, text string) { p.addText(j, jsonscan.AppendQuoted(nil, text)) }

// source returns the type of the source of an image or a document. An unknown type may be known to an upstream of the
// dialect. It is empty for one, and after a problem.
func (p *parser) source(v value, kinds ...string) string {
	if !p.need(v, '{', noObject) {
		return ""
	}
	t := v.member("type")
	p.at("type", func() { p.need(t, '"', noText) })
	if p.fault != nil {
		return ""
	}
	kind := t.text()
	p.vet("source", v)
	if !slices.Contains(kinds, kind) {
		p.loose = true
		p.only("sources of type " + show(kind))
		return ""
	}
	return kind
}

// image adds an image.
func (p *parser) image(j int, source value) {
	switch p.source(source, "base64", "url") {
	case "base64":
		kind := source.member("media_type")
		p.at("base64.media_type", func() {
			if !p.need(kind, '"', noText) {
				return
			}
			switch kind.text() {
			case "image/jpeg", "image/png", "image/gif", "image/webp":
			default:
				p.bad("Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'")
			}
		})
		if data := p.data(source); p.fault == nil {
			p.addPart(j)
			p.parts = append(append(p.parts, `{"type":"image_url","image_url":{"url":"data:`...), kind.text()...)
			p.parts = append(append(append(p.parts, `;base64,`...), data.inside()...), `"}}`...)
		}
	case "url":
		url := source.member("url")
		p.at("url.url", func() {
			if p.need(url, '"', noText) && (!chat.IsImageURL(url.text()) || strings.HasPrefix(url.text(), "data:")) {
				p.bad("Input should be an http or https URL")
			}
		})
		if p.fault == nil {
			p.addPart(j)
			p.parts = append(append(append(p.parts, `{"type":"image_url","image_url":{"url":`...), url...), `}}`...)
		}
	}
}

// data reads the base64 of a source. Line breaks in it are refused, as in the original.
func (p *parser) data(source value) value {
	data := source.member("data")
	p.at("base64.data", func() {
		switch {
		case !p.need(data, '"', noText):
		case len(data) == 2:
			p.bad("String should have at least 1 character")
		case !isBase64(data):
			p.bad("Input should be valid base64")
		}
	})
	return data
}

// isBase64 reports whether a string, given as JSON, is base64. It decodes piece by piece and keeps nothing.
func isBase64(v value) bool {
	b := v.inside()
	if bytes.IndexByte(b, '\\') >= 0 { // a slash may be escaped
		b = []byte(v.text())
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
func (p *parser) document(j int, v value) {
	title := v.member("title")
	p.at("title", func() {
		if !title.absent() && !title.is('"') {
			p.bad(noText)
		}
	})
	source := v.member("source")
	p.at("source", func() {
		switch p.source(source, "base64", "text", "content", "url") {
		case "url":
			url := source.member("url")
			p.at("url.url", func() {
				if p.need(url, '"', noText) {
					if why := provider.Unfetchable(url.text()); why != "" {
						p.bad("This document cannot be fetched: %s", why)
					}
				}
			})
			p.only("documents by their address")
			p.remote = cmp.Or(p.remote, string(p.path))
		case "base64":
			kind := source.member("media_type")
			p.at("base64.media_type", func() {
				if p.need(kind, '"', noText) && kind.text() != "application/pdf" {
					p.bad("Input should be 'application/pdf'")
				}
			})
			data := p.data(source)
			if p.fault != nil {
				return
			}
			name := "document.pdf"
			if !title.absent() && len(title) > 2 {
				name = title.text()
			}
			p.addPart(j)
			p.parts = jsonscan.AppendQuoted(append(p.parts, `{"type":"file","file":{"filename":`...), name)
			p.parts = append(append(append(p.parts, `,"file_data":"data:application/pdf;base64,`...), data.inside()...), `"}}`...)
		case "text":
			data := source.member("data")
			p.at("text.data", func() { p.need(data, '"', noText) })
			if p.fault == nil {
				p.title(j, title)
				p.addText(j, data)
			}
		case "content":
			p.title(j, title)
			p.at("content.content", func() { p.inner(j, source.member("content")) })
		}
	})
}

// title adds the title of a document, if it has one.
func (p *parser) title(j int, title value) {
	if !title.absent() && len(title) > 2 {
		p.say(j, "Document: "+title.text())
	}
}

// inner adds a content that stands inside a block: a text, or texts and images.
func (p *parser) inner(j int, content value) {
	switch {
	case content == nil:
		p.bad(required)
	case content.is('"'):
		p.addText(j, content)
	case content.is('['):
		p.each(content, func(_ int, v value) {
			switch kind := p.block(v); kind {
			case "":
			case "text", "image":
				p.part(j, kind, v)
			default:
				p.bad("Input tag %s found using 'type' does not match any of the expected tags: 'image', 'text'", show(kind))
			}
		})
	default:
		p.bad("Input should be a valid string or a list of content blocks")
	}
}

// searchResult adds a search result as text: its title, its source, and what was found there.
func (p *parser) searchResult(j int, v value) {
	title, source := v.member("title"), v.member("source")
	p.at("title", func() { p.need(title, '"', noText) })
	p.at("source", func() { p.need(source, '"', noText) })
	if p.fault != nil {
		return
	}
	p.say(j, "Search result: "+title.text()+"\nSource: "+source.text())
	p.at("content", func() { p.inner(j, v.member("content")) })
}

// toolResult reads the result of a call and writes it as a message. Tool messages have no images, so those go to the
// user's message that follows.
func (p *parser) toolResult(i, j int, v value) {
	id, failed, content := v.member("tool_use_id"), v.member("is_error"), v.member("content")
	p.at("tool_result.tool_use_id", func() { p.need(id, '"', noText) })
	p.at("tool_result.is_error", func() {
		if !failed.absent() && !failed.isBool() {
			p.bad(noBool)
		}
	})
	if p.fault != nil || !p.answer(id.text()) {
		return
	}
	var text []byte
	images := 0
	p.at("tool_result.content", func() {
		switch {
		case content.absent():
		case content.is('"'):
			text = content.inside()
		case content.is('['):
			text, images = p.resultBlocks(j, content)
		default:
			p.bad("Input should be a valid string or a list of content blocks")
		}
	})
	if p.fault != nil {
		return
	}
	if len(text) == 0 && images > 0 {
		text = []byte("The result follows.")
	}
	// Chat completions have no such mark, so the text must say it.
	if failed.is('t') && !hasPrefixFold(text, "error") {
		text = append([]byte("Error: "), text...)
	}
	p.begin(origin{message: i, blocks: []int32{int32(j)}})
	p.out = append(append(p.out, `{"role":"tool","tool_call_id":`...), id...)
	p.out = append(append(append(p.out, `,"content":"`...), text...), `"}`...)
}

func hasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && strings.EqualFold(string(b[:len(prefix)]), prefix)
}

// resultBlocks reads the blocks of a result. It returns the texts as the inside of a string, and the number of images,
// which it adds to the user's message.
func (p *parser) resultBlocks(j int, content value) (text []byte, images int) {
	p.each(content, func(_ int, v value) {
		switch kind := p.block(v); kind {
		case "":
		case "text":
			t := v.member("text")
			p.at("text.text", func() {
				if p.need(t, '"', noText) {
					text = appendText(text, t, `\n`)
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
		default:
			p.only("content blocks of type " + show(kind) + " in a tool_result")
		}
	})
	return text, images
}

// answer records that a call has its result.
func (p *parser) answer(id string) bool {
	at, found := p.byID[id]
	switch {
	case !found:
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
			p.fault = refuse("messages."+itoa(p.caller), "`tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", show(p.calls[i]))
			return false
		}
	}
	if len(p.calls) > 0 {
		p.calls, p.answered, p.byID = p.calls[:0], p.answered[:0], nil // clearing a map that was large costs more
	}
	return true
}

// assistant reads an earlier reply. Its texts become one, as the model wrote them.
func (p *parser) assistant(i int, content value) {
	if content.is('"') {
		p.begin(origin{message: i})
		p.out = append(append(append(p.out, `{"role":"assistant","content":`...), content...), '}')
		return
	}
	var text, thought, calls []byte
	p.caller = i
	p.each(content, func(_ int, v value) {
		switch kind := p.block(v); kind {
		case "":
		case "text":
			if t := p.text(v); t != nil {
				text = append(text, t.inside()...)
			}
		case "thinking":
			p.at("thinking", func() {
				words, signature := v.member("thinking"), v.member("signature")
				p.at("signature", func() { p.need(signature, '"', noText) })
				p.at("thinking", func() { p.need(words, '"', noText) })
				if p.fault == nil && isOurs(signature) {
					p.altered = true
					thought = appendText(thought, words, `\n\n`)
				}
			})
		case "redacted_thinking":
			p.at("redacted_thinking.data", func() { p.need(v.member("data"), '"', noText) })
		case "tool_use":
			p.at("tool_use", func() { calls = p.call(calls, v) })
		case "image", "document", "tool_result", "search_result":
			p.bad("Input tag '%s' found using 'type' does not match any of the expected tags: 'redacted_thinking', 'text', 'thinking', 'tool_use'", kind)
		default:
			p.only("content blocks of type " + show(kind))
		}
	})
	if p.fault != nil || len(text)+len(calls) == 0 {
		return // thinking alone says nothing to another model
	}
	p.begin(origin{message: i})
	p.out = append(p.out, `{"role":"assistant","content":`...)
	if len(text) > 0 {
		p.out = append(append(append(p.out, '"'), text...), '"')
	} else {
		p.out = append(p.out, `null`...)
	}
	// Models that think in a field of their own want it back while they call tools. Later they ignore it.
	if len(thought) > 0 && len(calls) > 0 && i > p.current {
		p.out = append(append(append(p.out, `,"reasoning_content":"`...), thought...), '"')
	}
	if len(calls) > 0 {
		p.out = append(append(append(p.out, `,"tool_calls":[`...), calls...), ']')
	}
	p.out = append(p.out, '}')
}

// call reads a tool_use block and appends it to the calls of a message.
func (p *parser) call(calls []byte, v value) []byte {
	id, name, input := v.member("id"), v.member("name"), v.member("input")
	p.at("id", func() {
		if p.need(id, '"', noText) && len(id) == 2 {
			p.bad("String should have at least 1 character")
		}
	})
	p.at("name", func() {
		if p.need(name, '"', noText) && len(name) == 2 {
			p.bad("String should have at least 1 character")
		}
	})
	p.at("input", func() { p.need(input, '{', noObject) })
	if p.fault != nil {
		return calls
	}
	key := id.text()
	if _, twice := p.byID[key]; twice {
		p.badAt("id", "`tool_use` ids must be unique")
		return calls
	}
	// An upstream of another dialect may have made the id, and one of this dialect would refuse it.
	p.altered = p.altered || !isPlain(key)
	if p.byID == nil {
		p.byID = map[string]int{}
	}
	p.byID[key] = len(p.calls)
	p.calls, p.answered = append(p.calls, key), append(p.answered, false)
	if len(calls) > 0 {
		calls = append(calls, ',')
	}
	calls = append(append(calls, `{"id":`...), id...)
	calls = jsonscan.AppendQuoted(append(calls, `,"type":"function","function":{"name":`...), p.shortName(name.text()))
	calls = jsonscan.AppendQuoted(append(calls, `,"arguments":`...), string(input))
	return append(calls, `}}`...)
}
