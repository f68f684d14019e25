package claude

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// This file finds the thinking of earlier turns, and decides which of it goes back.
//
// Newer models check what comes back (Model.Binds): the tools, the system prompt and all messages before a block must be
// what they were when it was made, and the blocks before it must be the last ones of those that were there then, without a
// gap. So a turn records a digest of what stood before it, its rank among the turns with thinking, from which rank on
// their thinking stood before it, and which thinking was the last before it: two conversations that begin alike share what
// is kept. The vendor compares what we have written. That follows from what the caller sent, so
// the caller's words are compared here.

// digest is a hash of a conversation up to some message. It includes the tools.
type digest [sha256.Size]byte

// name returns the name under which a turn without tool calls is kept that ends the conversation of the digest.
func (d digest) name() string { return "turn " + base64.RawURLEncoding.EncodeToString(d[:]) }

// short returns what a turn records of the digest of what stood before it.
func (d digest) short() string { return base64.RawURLEncoding.EncodeToString(d[:12]) }

// begin returns the digest of a conversation without messages.
func begin(req *chat.Request) (d digest) {
	h := sha256.New()
	for _, t := range req.ListedTools() {
		if f := t.Function; f != nil {
			add(h, f.Name)
			add(h, f.Description)
			add(h, string(f.Parameters))
		}
	}
	h.Sum(d[:0])
	return d
}

// add writes a text to a hash, with its length before it.
func add(h hash.Hash, s string) {
	var n [binary.MaxVarintLen64]byte
	_, _ = h.Write(binary.AppendUvarint(n[:0], uint64(len(s))))
	_, _ = h.Write([]byte(s))
}

// after returns the digest of a conversation that continues with a message. What the vendor does not compare is not in it,
// such as marks for the cache, and the arguments of calls, whose JSON clients write anew.
func (d digest) after(m *chat.Message) digest {
	if m.Role == chat.RoleAssistant {
		text := sha256.Sum256([]byte(m.Content.Text()))
		return d.answer(text, m.ToolCalls)
	}
	h := sha256.New()
	_, _ = h.Write(d[:])
	_, _ = h.Write([]byte{byte(m.Role)})
	add(h, m.ToolCallID)
	for _, p := range m.Content.Parts() {
		switch {
		case p.File != nil:
			kind, data, _ := p.File.Data()
			add(h, kind)
			add(h, p.File.Name)
			add(h, data)
		case p.IsImage():
			add(h, p.ImageURL())
		default:
			add(h, p.Text())
		}
	}
	h.Sum(d[:0])
	return d
}

// answer returns the digest of a conversation that continues with a reply. text is the hash of its text.
func (d digest) answer(text digest, calls []chat.PastCall) digest {
	h := sha256.New()
	_, _ = h.Write(d[:])
	_, _ = h.Write([]byte{byte(chat.RoleAssistant)})
	_, _ = h.Write(text[:])
	for i := range calls {
		add(h, calls[i].ID)
	}
	h.Sum(d[:0])
	return d
}

// Place is where a reply stands in its conversation. The zero value is that of a reply whose turn is kept under the ids of
// its calls alone, for the exchange in progress.
type Place struct {
	all    bool   // every later turn needs the thinking
	before digest // of everything before the reply
	// rank is the number of the reply among the turns with thinking, and from the number of the first of them whose
	// thinking went along.
	rank, from int
	link       string // names the thinking of the turn before; see Turn.name
	key        string // of the upstream; see Conversation.Key
}

// past is an earlier turn of the assistant.
type past struct {
	at     int    // its index among the messages
	id     string // under which it was kept
	before digest // of what stands before it
	turn   *Turn  // nil if none was kept
	used   bool   // its thinking goes back
}

// history is what is known of the earlier turns of a conversation.
type history struct {
	turns []past
	place Place
}

// find returns the turn of the message with this index, and whether its thinking goes back. The turn is nil if none is known.
func (h *history) find(at int) (*Turn, bool) {
	for len(h.turns) > 0 && h.turns[0].at < at { // they are asked for in their order
		h.turns = h.turns[1:]
	}
	if len(h.turns) == 0 || h.turns[0].at != at {
		return nil, false
	}
	return h.turns[0].turn, h.turns[0].used
}

// recall finds the earlier turns of a conversation with one look into the memory of the call.
func (c *Conversation[B]) recall(ctx context.Context, call *provider.Call) {
	h := &c.past
	d := begin(call.Request)
	var ids []string
	for i := range call.Request.Messages {
		m := &call.Request.Messages[i]
		before := d
		d = d.after(m)
		if m.Role != chat.RoleAssistant {
			continue
		}
		id := d.name()
		if len(m.ToolCalls) > 0 {
			id = m.ToolCalls[0].ID
		}
		ids, h.turns = append(ids, id), append(h.turns, past{at: i, id: id, before: before})
	}
	h.place = Place{all: true, before: d, rank: 1, from: 1, key: c.Key}
	found, _ := call.Memory.RecallAll(ctx, ids) // without what cannot be recalled, the conversation goes on
	for i := range h.turns {
		p := &h.turns[i]
		if state, ok := found[p.id]; ok {
			p.turn = readTurn(state, c.Dialect, call.Upstream)
		}
	}
	c.choose(call)
}

// choose decides which of the thinking that was found goes back: that which fits, from the last turn backwards until one is
// missing. Thinking that was there and does not fit any more is noted as dropped.
func (c *Conversation[B]) choose(call *provider.Call) {
	h := &c.past
	next, least := 0, 0 // the rank that the turn before must have, and the lowest that may go along; 0: any
	link := ""          // the name that the thinking of the turn before must have
	for i := len(h.turns) - 1; i >= 0 && !c.Bare; i-- {
		p := &h.turns[i]
		switch t := p.turn; {
		case t == nil:
		case c.Model.Binds && t.Before != p.before.short() || c.Model.Account && t.Key != c.Key:
			call.Omit("thinking")
		case next == 0, t.Rank == next && t.name() == link:
			if p.used = true; next == 0 {
				h.place.rank, h.place.link = t.Rank+1, t.name()
			}
			h.place.from = t.Rank
			next, least, link = t.Rank-1, max(least, t.From), t.Link
			if next < max(least, 1) {
				return
			}
		default:
			return
		}
	}
}
