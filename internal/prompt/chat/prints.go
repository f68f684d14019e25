package chat

import "hash/maphash"

// Prints writes what the model reads of the messages to a hash, and returns it after the first message of the user and at the end: what
// opens a conversation, and all of it. Tools are left out: a program that repeats itself repeats its messages. Nothing is unescaped or
// copied. A request that was built and one that was parsed have different prints.
func (r *Request) Prints(h *maphash.Hash) (opening, whole uint64) {
	opened := false
	for i := range r.Messages {
		m := &r.Messages[i]
		_ = h.WriteByte(byte(m.Role)) // a hash never fails
		m.Content.hash(h)
		for j := range m.ToolCalls {
			c := &m.ToolCalls[j]
			_, _ = h.WriteString(c.Name)
			_ = h.WriteByte(0)
			_, _ = h.WriteString(c.Arguments)
			_ = h.WriteByte(0)
		}
		if m.Role == RoleUser && !opened {
			opening, opened = h.Sum64(), true
		}
	}
	whole = h.Sum64()
	if !opened {
		opening = whole
	}
	return opening, whole
}

// Beginning is what requests of one conversation, and others, have in common: the tools, and the system messages in front.
type Beginning struct {
	Print uint64 // of all that; 0: there is nothing
	Bytes int    // of its texts, as they are written in the body
}

// Beginning writes the tools and the first system messages to a hash. The hash then goes on to the end of the first message
// of the user, whose print names the conversation.
func (r *Request) Beginning(h *maphash.Hash) (b Beginning, opening uint64) {
	for i := range r.Tools {
		_, _ = h.Write(r.Tools[i].raw)
		b.Bytes += len(r.Tools[i].raw)
	}
	i := 0
	for ; i < len(r.Messages) && r.Messages[i].Role == RoleSystem; i++ {
		c := &r.Messages[i].Content
		b.Bytes += c.lengths()
		c.hash(h)
	}
	if b.Bytes > 0 {
		b.Print = h.Sum64()
	}
	for ; i < len(r.Messages); i++ {
		m := &r.Messages[i]
		_ = h.WriteByte(byte(m.Role))
		m.Content.hash(h)
		if m.Role == RoleUser {
			break
		}
	}
	return b, h.Sum64()
}

// lengths returns how many bytes the texts of a content have in the body.
func (c *Content) lengths() int {
	n := len(c.raw)
	for i := range c.parts {
		n += len(c.parts[i].raw)
	}
	return n
}

// hash writes a content to a hash. A text is JSON with its quotes, so that no two lists of parts are written alike.
func (c *Content) hash(h *maphash.Hash) {
	_, _ = h.Write(c.raw)
	for i := range c.parts {
		p := &c.parts[i]
		_, _ = h.Write(p.raw)
		_, _ = h.Write(p.image)
		if p.File != nil {
			_, _ = h.Write(p.File.raw)
			_, _ = h.Write(p.File.data) // of a part that a door made
		}
	}
}
