package chat

import (
	"hash/maphash"
	"iter"

	"sluice/internal/prompt/prefix"
)

// Prints writes what the model reads of the messages to a hash, and returns it after the first message of the user and at the end: what
// opens a conversation, and all of it. Tools are left out: a program that repeats itself repeats its messages. Nothing is unescaped or
// copied. A request that was built and one that was parsed have different prints.
func (r *Request) Prints(h *maphash.Hash) (opening, whole uint64) {
	opened := false
	for i := range r.Messages {
		m := &r.Messages[i]
		_ = h.WriteByte(byte(m.Role)) // a hash never fails
		for piece := range m.Content.pieces() {
			_, _ = h.Write(piece)
		}
		for j := range m.ToolCalls {
			c := &m.ToolCalls[j]
			_, _ = h.WriteString(c.Name)
			_ = h.WriteByte(0)
			_, _ = h.Write(c.written().raw)
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

// pieces yields what a content consists of. A text is JSON with its quotes, so that no two lists of parts yield the same.
func (c *Content) pieces() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if c.raw != nil && !yield(c.raw) {
			return
		}
		for i := range c.parts {
			p := &c.parts[i]
			if p.raw != nil && !yield(p.raw) || p.image != nil && !yield(p.image) {
				return
			}
			if p.File != nil && (!yield(p.File.raw) || !yield(p.File.data)) { // data is that of a part which a door made
				return
			}
		}
	}
}

// Prefix returns what names the conversation of an account in fingerprints, which is how its first message of a user begins, and the
// fingerprint of what the model reads of the request. Marks for caches are no part of it: they move from turn to turn.
func (r *Request) Prefix(key *prefix.Key, accountID string) (conversation uint64, print []byte) {
	var to prefix.Printer
	to.Reset(key)
	begun := false
	for i := range r.Tools {
		if t := &r.Tools[i]; t.MCP == nil { // those of servers are not known here
			if !begun {
				to.Begin(prefix.Tools)
				begun = true
			}
			to.Write(t.raw)
		}
	}
	begun = false
	opened := false // by a message that is not the system's
	for i := range r.Messages {
		m := &r.Messages[i]
		switch {
		case m.Role != RoleSystem || opened:
			to.Begin(prefix.Messages)
			opened = true
		case !begun:
			to.Begin(prefix.System)
			begun = true
		}
		if m.Role == RoleUser && conversation == 0 {
			conversation = m.opens(key, accountID)
		}
		to.Write([]byte{byte(m.Role)})
		for piece := range m.Content.pieces() {
			to.Write(piece)
		}
		for j := range m.ToolCalls {
			c := &m.ToolCalls[j]
			to.Write([]byte(c.Name))
			to.Write(c.written().raw)
		}
	}
	return conversation, to.Print()
}

// openingBytes is how much of a message names its conversation.
const openingBytes = 1 << 10

// opens returns the name of the conversation that a message opens.
func (m *Message) opens(key *prefix.Key, accountID string) uint64 {
	for piece := range m.Content.pieces() {
		return key.Name([]byte(accountID), piece[:min(len(piece), openingBytes)])
	}
	return key.Name([]byte(accountID))
}

// Opening returns every message up to and including the first of the user. These stay the same in later turns: callers send the
// whole conversation each time, and mostly no id of it.
func (r *Request) Opening() []Message {
	for i := range r.Messages {
		if r.Messages[i].Role == RoleUser {
			return r.Messages[:i+1]
		}
	}
	return r.Messages
}

// Beginning is what requests of one conversation, and others, have in common: the tools, and the system messages in front.
type Beginning struct {
	Print uint64 // of all that; 0: there is nothing
	Bytes int    // of its texts, as they are written in the body
}

// Beginning writes the tools and the first system messages to a hash. The hash then goes on to the end of what opens the
// conversation, whose print names it.
func (r *Request) Beginning(h *maphash.Hash) (b Beginning, opening uint64) {
	for i := range r.Tools {
		_, _ = h.Write(r.Tools[i].raw) // a hash never fails
		b.Bytes += len(r.Tools[i].raw)
	}
	front := true // nothing but system messages so far
	for i := range r.Opening() {
		m := &r.Messages[i]
		if front && m.Role != RoleSystem {
			front, b.Print = false, h.Sum64()
		}
		_ = h.WriteByte(byte(m.Role))
		for piece := range m.Content.pieces() {
			_, _ = h.Write(piece)
			if front {
				b.Bytes += len(piece)
			}
		}
	}
	if opening = h.Sum64(); front {
		b.Print = opening
	}
	if b.Bytes == 0 {
		b.Print = 0
	}
	return b, opening
}
