package messages

import "sluice/internal/prompt/chat"

// system reads system: a text, or blocks of text. It becomes one message, which every upstream accepts.
// Blocks are joined with an empty line between them.
func (p *parser) system(v chat.Value) {
	if v.Null() {
		return
	}
	var text chat.Words
	var m chat.Message
	switch v.Kind() {
	case '"':
		if !chat.IsAttribution(v) {
			text.Add(v)
		}
	case '[':
		p.each(v, func(_ int, v chat.Value) {
			p.need(v, '{', noObject)
			if !v.Member("type").Is("text") {
				p.badAt("type", "Input should be 'text'")
				return
			}
			p.cache(v)
			if t := p.text(v); t.Exists() && !chat.IsAttribution(t) {
				join(&text, t, "\n\n")
			}
			p.markText(&m, &text)
		})
	default:
		p.bad(noText)
		return
	}
	if !text.Empty() {
		m.Role, m.Content = chat.RoleSystem, text.Content()
		p.add(from(-1, nil), m)
	}
}

// markText marks the text of a message where it ends so far, if the last block has a mark.
func (p *parser) markText(m *chat.Message, text *chat.Words) {
	if c, ok := p.taken(); ok && !text.Empty() {
		m.MarkAt(text.End(), c)
	}
}

// role is who speaks in a message.
type role string

const (
	user      role = "user"
	assistant role = "assistant"
	system    role = "system"
)

// speaker reads the role of message i. A system message follows the user, or the results of a tool that the vendor ran, and
// comes before the assistant or at the end: elsewhere the model would not know what it belongs to. Where a thread is
// continued, the vendor knows what was said before.
func (p *parser) speaker(i int, v chat.Value) (who role) {
	p.at("role", func() {
		if !p.need(v, '"', noText) {
			return
		}
		before := p.spoke
		who = role(v.Among([]string{string(user), string(assistant), string(system)}))
		p.spoke = who
		switch {
		case who != user && who != assistant && who != system:
			p.bad("Input should be 'user', 'assistant' or 'system'")
		case p.held.Previous != "" && i == 0:
		case i == 0 && who == system:
			p.bad("Unexpected role 'system'. The first message must use the 'user' role; instructions for the whole conversation belong in the top-level `system` parameter.")
		case i == 0 && who != user:
			p.bad("first message must use the 'user' role")
		case who == system && before == assistant && !p.served:
			p.bad("Unexpected role 'system'. A system message must follow a message of the user, or one of the assistant that ends with the result of a server tool.")
		case who == user && before == system:
			p.bad("Unexpected role 'user'. A system message must be followed by a message of the assistant, or be the last.")
		}
	})
	return who
}

// between reads message i, which is of the system and stands between others. It stays where it is: what a model has
// thought is bound to the messages before it. It may change the tools and the effort from there on, which only an
// upstream of the dialect understands.
func (p *parser) between(i int, v chat.Value) {
	content := v.Member("content")
	p.leaveGiven(v, "output_config", "messages[].output_config")
	cleared := false
	switch at := v.Member("clear_at"); {
	case at.Is("next_user_message"):
		cleared = p.lastAsked() > i
	case !at.Is("never"):
		p.leaveGiven(v, "clear_at", "messages[].clear_at")
	}
	var text chat.Words
	var m chat.Message
	p.at("content", func() {
		switch {
		case content.Null() && !v.Member("output_config").Null():
		case !content.Exists():
			p.bad(required)
		case content.IsText():
			text.Add(content)
		case content.Kind() == '[':
			p.each(content, func(_ int, v chat.Value) {
				p.instruction(&text, v)
				p.markText(&m, &text)
			})
		default:
			p.bad(noContent)
		}
	})
	if !text.Empty() && !cleared && p.fault == nil {
		m.Role, m.Content = chat.RoleSystem, text.Content()
		p.add(from(i, nil), m)
	}
}

// lastAsked returns the index of the last message of the user. It is looked for once: a request may have many messages.
func (p *parser) lastAsked() int {
	if !p.looked {
		p.looked = true
		for w := p.list.Walk(); w.Next(); {
			if w.Value.Member("role").Is(string(user)) {
				p.asked = w.Index
			}
		}
	}
	return p.asked
}

// instruction reads a block of a system message that stands between others.
func (p *parser) instruction(text *chat.Words, v chat.Value) {
	switch kind := p.block(v); kind {
	case "":
	case "text":
		if t := p.text(v); t.Exists() && !chat.IsAttribution(t) {
			join(text, t, "\n\n")
		}
	case "tool_addition", "tool_removal":
		p.runs = true
		p.only("content blocks of type " + show(kind))
	default:
		p.bad("Input tag %s found using 'type' does not match any of the expected tags: 'text', 'tool_addition', 'tool_removal'", show(kind))
	}
}
