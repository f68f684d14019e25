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

// messages replaces the member messages if one of them must differ, because the vendor refuses it as it is or
// wants something back that only it can read. The messages that need no change stay the caller's bytes.
//
// A message that changes is decoded into its members and encoded again, which sorts them.
func (q *quirks) messages(ctx context.Context) error {
	changed := false
	raws := make([]json.RawMessage, len(q.req.Messages))
	for i := range q.req.Messages {
		m := &q.req.Messages[i]
		raws[i] = m.Raw()
		members := q.changes(ctx, m)
		if len(members) == 0 {
			continue
		}
		changed = true
		var all map[string]json.RawMessage
		if err := json.Unmarshal(raws[i], &all); err != nil {
			return fmt.Errorf("reading a message again: %w", err)
		}
		for name, value := range members {
			if value == nil {
				delete(all, name)
			} else if _, sent := all[name]; !sent || name != q.preset.returns { // thoughts that the caller sent itself stay
				all[name] = value
			}
		}
		raw, err := json.Marshal(all)
		if err != nil {
			return fmt.Errorf("writing a message: %w", err)
		}
		raws[i] = raw
	}
	if !changed {
		return nil
	}
	// A replaced member is not patched any more, so the role developer must become system here.
	for i := range q.req.Messages {
		if m := &q.req.Messages[i]; m.Role == chat.RoleSystem && q.out.SystemRole {
			raws[i] = fmt.Appendf(nil, `{"role":"system","content":%s}`, jsonscan.AppendQuoted(nil, m.Content.Text()))
		}
	}
	all, err := json.Marshal(raws)
	if err != nil {
		return fmt.Errorf("writing messages: %w", err)
	}
	q.set("messages", string(all))
	return nil
}

// changes returns the members of a message that must differ. A nil value is for a member that must be left out.
func (q *quirks) changes(ctx context.Context, m *chat.Message) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if q.preset.nameless && m.Name != "" {
		members["name"] = nil
		q.call.Omit("messages[].name")
	}
	if q.preset.shortIDs {
		q.shorten(m, members)
	}
	if !q.preset.original && slices.ContainsFunc(m.Content.Parts(), func(p chat.Part) bool { return p.Detail == "original" }) {
		members["content"] = highest(m)
		q.call.Omit("image_url.detail")
	}
	if q.preset.returns != "" && len(m.ToolCalls) > 0 {
		if thoughts := q.thoughts(ctx, m); thoughts != nil {
			members[q.preset.returns] = thoughts
		}
	}
	return members
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
func (q *quirks) shorten(m *chat.Message, members map[string]json.RawMessage) {
	if m.ToolCallID != "" && !isShort(m.ToolCallID) {
		members["tool_call_id"] = jsonscan.AppendQuoted(nil, shortID(m.ToolCallID))
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
			id, jsonscan.AppendQuoted(nil, c.Name), jsonscan.AppendQuoted(nil, c.Arguments))
	}
	if changed {
		members["tool_calls"] = append(append([]byte{'['}, calls[1:]...), ']')
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
