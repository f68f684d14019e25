package anthropic

import (
	"slices"
	"strings"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/caching"
	"sluice/internal/upstream/provider/claude"
)

// This file sets marks where package caching wants them, in requests that have none: in one that is translated, and in one
// that goes up in its caller's words, of which every other byte stays.

// mark marks a request that was translated.
func (w *writer) mark() {
	marks := w.call.Marks
	if marks.None() {
		return
	}
	if len(w.out.System) > 0 {
		w.markBlock(w.out.System, marks.Head)
	} else if n := len(w.out.Tools); n > 0 && marks.Head != caching.Not {
		control := claude.Lasting(marks.Head)
		w.out.Tools[n-1].Cache = &control
	}
	last, before := claude.UserTurns(w.out.Messages)
	if last >= 0 {
		w.markBlock(w.out.Messages[last].Content, marks.Last)
	}
	if before >= 0 {
		w.markBlock(w.out.Messages[before].Content, marks.Before)
	}
}

// markBlock marks the last of the blocks.
func (w *writer) markBlock(blocks []block, ttl caching.TTL) {
	if ttl == caching.Not || len(blocks) == 0 {
		return
	}
	_, _ = w.Mark(blocks, claude.Lasting(ttl)) // a block that cannot be marked has none
}

// splice is a text that goes into a body before a place.
type splice struct {
	at   int
	text string
}

// marked returns a body in the words of its caller with marks in it. Nothing else changes: a prompt that the vendor has kept
// is recognized by its bytes.
func marked(body []byte, marks caching.Marks) []byte {
	if marks.None() {
		return body
	}
	request := chat.ValueOf(body)
	var all []splice
	if !markContent(&all, request.Member("system"), marks.Head) {
		markTools(&all, request.Member("tools"), marks.Head)
	}
	last, before := turnsOf(request.Member("messages"))
	markContent(&all, before, marks.Before)
	markContent(&all, last, marks.Last)
	return spliced(request.Raw(), all)
}

// spliced returns a body with texts in it. The body is not changed.
func spliced(body []byte, all []splice) []byte {
	slices.SortStableFunc(all, func(a, b splice) int { return a.at - b.at })
	out, from := make([]byte, 0, len(body)+64*len(all)), 0
	for _, s := range all {
		out = append(append(out, body[from:s.at]...), s.text...)
		from = s.at
	}
	return append(out, body[from:]...)
}

// turnsOf returns the content of the last message of the user, and of the last one before the last reply.
func turnsOf(messages chat.Value) (last, before chat.Value) {
	replied := false
	for m := messages.Walk(); m.Next(); {
		switch role := m.Value.Member("role"); {
		case role.Is("assistant"):
			replied = true
		case role.Is("user"):
			if replied {
				before, replied = last, false
			}
			last = m.Value.Member("content")
		}
	}
	return last, before
}

// markContent marks the last block of a content that can be marked; a text becomes a block. It reports whether there is one.
func markContent(all *[]splice, content chat.Value, ttl caching.TTL) bool {
	if ttl == caching.Not || !content.Exists() {
		return false
	}
	if content.IsText() {
		if blank(content) {
			return false
		}
		*all = append(*all,
			splice{content.Offset(), `[{"type":"text","text":`},
			splice{content.Offset() + len(content.Raw()), "," + member(ttl) + "}]"})
		return true
	}
	end := -1
	for b := content.Walk(); b.Next(); {
		if b.Value.Kind() == '{' && markable(b.Value) {
			end = b.Value.Offset()
		}
	}
	if end >= 0 {
		*all = append(*all, splice{end + 1, member(ttl) + ","})
	}
	return end >= 0
}

// markable reports whether the vendor takes a mark on a block: not on thinking, and not on a blank text.
func markable(b chat.Value) bool {
	kind := b.Member("type")
	switch {
	case kind.Is("text"):
		return !blank(b.Member("text"))
	case kind.Is("image"), kind.Is("document"), kind.Is("search_result"), kind.Is("tool_result"), kind.Is("tool_use"):
		return true
	}
	return false
}

// blank reports whether there is no text but white space.
func blank(text chat.Value) bool { return strings.TrimSpace(text.Text()) == "" }

// markTools marks the last tool that is listed to the model from the beginning.
func markTools(all *[]splice, tools chat.Value, ttl caching.TTL) {
	end := -1
	for t := tools.Walk(); t.Next(); {
		if t.Value.Kind() == '{' && t.Value.Member("defer_loading").Kind() != 't' && t.Value.Member("name").Exists() {
			end = t.Value.Offset()
		}
	}
	if ttl != caching.Not && end >= 0 {
		*all = append(*all, splice{end + 1, member(ttl) + ","})
	}
}

// member returns the member of a block that marks it.
func member(ttl caching.TTL) string {
	if ttl == caching.Long {
		return `"cache_control":{"type":"ephemeral","ttl":"1h"}`
	}
	return `"cache_control":{"type":"ephemeral"}`
}
