package openai

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
)

// messages notes which members of messages must differ, because the vendor refuses them as they are or wants something back
// that only it can read. Everything around them stays the caller's bytes.
func (q *quirks) messages(ctx context.Context) {
	for i := range q.req.Messages {
		q.changes(ctx, &q.req.Messages[i], i)
	}
}

// edit gives a member of a message another value; nil leaves it out.
func (q *quirks) edit(message int, name string, value []byte) {
	q.out.Edits = append(q.out.Edits, chat.MessageEdit{Message: message, Name: name, Value: value})
}

// changes notes the members of a message that must differ.
func (q *quirks) changes(ctx context.Context, m *chat.Message, index int) {
	if q.preset.nameless && m.Name != "" {
		q.edit(index, "name", nil)
		q.call.Omit("messages[].name")
	}
	if q.preset.shortIDs {
		q.shorten(m, index)
	}
	if !q.preset.original && slices.ContainsFunc(m.Content.Parts(), func(p chat.Part) bool { return p.Detail == "original" }) {
		q.edit(index, "content", highest(m))
		q.call.Omit("image_url.detail")
	}
	if name := q.preset.returns; name != "" && len(m.ToolCalls) > 0 {
		// Thoughts that the caller sent itself stay.
		if thoughts := q.thoughts(ctx, m); thoughts != nil && !chat.ValueOf(m.Raw()).Member(name).Exists() {
			q.edit(index, name, thoughts)
		}
	}
}

// highest returns the content of a message with the highest detail of images that all vendors have in place of the original
// one.
func highest(m *chat.Message) json.RawMessage {
	b := []byte{'['}
	for part := chat.ValueOf(m.Raw()).Member("content").Walk(); part.Next(); {
		if part.Index > 0 {
			b = append(b, ',')
		}
		image := part.Value.Member("image_url")
		if !image.Member("detail").Is("original") {
			b = append(b, part.Value.Raw()...)
			continue
		}
		b = append(append(b, `{"type":"image_url","image_url":{"detail":"high","url":`...), image.Member("url").Raw()...)
		b = append(b, "}}"...)
	}
	return append(b, ']')
}

// thoughts returns the thinking that led to the calls of a message, or nil if none is needed.
func (q *quirks) thoughts(ctx context.Context, m *chat.Message) json.RawMessage {
	for i := range m.ToolCalls {
		if kept, ok := recall(ctx, q.call.Memory, m.ToolCalls[i].ID, q.preset.returns); ok {
			return kept
		}
	}
	if q.preset.returns == "reasoning_content" && q.call.Thinks && q.req.ReasoningEffort != chat.EffortNone {
		return json.RawMessage(`""`) // DeepSeek refuses calls without the member, but accepts it empty
	}
	return nil
}

// shorten replaces the ids of calls that the vendor does not accept. Equal ids get equal replacements, so a
// result still belongs to its call.
func (q *quirks) shorten(m *chat.Message, index int) {
	if m.ToolCallID != "" && !isShort(m.ToolCallID) {
		q.edit(index, "tool_call_id", jsonscan.AppendQuoted(nil, shortID(m.ToolCallID)))
	}
	changed := false
	var calls []byte
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		id := c.ID
		if !isShort(id) {
			id, changed = shortID(id), true
		}
		calls = fmt.Appendf(calls, `,{"id":%q,"type":"function","function":{"name":%s,"arguments":%s}}`,
			id, jsonscan.AppendQuoted(nil, c.Name), jsonscan.AppendQuoted(nil, c.Arguments()))
	}
	if changed {
		q.edit(index, "tool_calls", append(append([]byte{'['}, calls[1:]...), ']'))
	}
}

// shortLength is the length that Mistral requires of the id of a call.
const shortLength = 9

// isShort reports whether an id is of Mistral's form: nine letters and digits.
func isShort(id string) bool {
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(id) == shortLength
}

// shortID returns a short id that is made of another one: the beginning of its hash in base 62.
func shortID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return new(big.Int).SetBytes(sum[:]).Text(62)[:shortLength]
}
