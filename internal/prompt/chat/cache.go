package chat

import (
	"bytes"
	"cmp"
	"slices"

	"sluice/internal/kit/jsonscan"
)

// Cache is what a mark for a vendor's cache asks for: the prompt is to be kept up to there. Anthropic has cache_control, and
// clients of others send it in chat completions, too. OpenAI has prompt_cache_breakpoint.
type Cache struct {
	Type       string // ephemeral
	TTL        string // 5m, 1h or empty; of a breakpoint a time of OpenAI's, such as 30m
	Breakpoint bool   // it is a prompt_cache_breakpoint
}

// The names of marks, as x-sluice-dropped has them.
const (
	ControlName    = "cache_control"
	BreakpointName = "messages[].content[].prompt_cache_breakpoint"
)

// Name returns the name of the member, for x-sluice-dropped.
func (c Cache) Name() string {
	if c.Breakpoint {
		return BreakpointName
	}
	return ControlName
}

// AppendBreakpoint appends the mark as OpenAI has it. A time of another vendor's is left out.
func (c Cache) AppendBreakpoint(dst []byte) []byte {
	dst = append(dst, `{"mode":"explicit"`...)
	if c.Breakpoint && c.TTL != "" {
		dst = jsonscan.AppendQuoted(append(dst, `,"ttl":`...), c.TTL)
	}
	return append(dst, '}')
}

// NoPart stands for the message itself; see Mark.
const NoPart = -1

// Mark is a mark in a message.
type Mark struct {
	Cache
	// Part is the index of the part behind which it stands. NoPart: it is the message's own.
	Part int
	// end is where it stands inside a text that is the whole content: before this byte of the JSON. 0: at the end.
	end int
}

// The members that are marks.
const (
	controlMember    = "cache_control"
	breakpointMember = "prompt_cache_breakpoint"
)

// isMark reports whether a member is a mark.
func isMark(key []byte) bool {
	return string(key) == controlMember || string(key) == breakpointMember
}

// Marked reports whether some message or tool of the request has a mark. Nearly none has, and then nobody looks for them.
func (r *Request) Marked() bool { return r.marked }

// Marks returns the marks of a message in the order of its parts, its own last; nil if there are none.
func (m *Message) Marks() []Mark {
	if m.raw == nil {
		return m.marks
	}
	if !mayMark(m.raw) {
		return nil
	}
	var found []Mark
	v := ValueOf(m.raw)
	if content := v.Member("content"); content.Kind() == '[' {
		for w := content.Walk(); w.Next(); {
			if c, ok := markOf(w.Value); ok {
				found = append(found, Mark{Cache: c, Part: w.Index})
			}
		}
	}
	if c, ok := markOf(v); ok {
		found = append(found, Mark{Cache: c, Part: NoPart})
	}
	return found
}

// Mark adds a mark to a message that is built. Marks are added in the order of Marks.
func (m *Message) Mark(part int, c Cache) { m.marks = append(m.marks, Mark{Cache: c, Part: part}) }

// MarkAt is Mark for a place inside the text that is the whole content; see Words.End.
func (m *Message) MarkAt(end int, c Cache) {
	m.marks = append(m.marks, Mark{Cache: c, end: end})
}

// Pieces returns the text of a message whose content is a text, cut behind each mark that stands inside it. The marks of
// the message are those of the pieces, in the same order, and a text behind the last mark has none.
func (m *Message) Pieces() (texts []string, marks []Cache) {
	raw, from := m.Content.raw, 1
	for _, k := range m.marks {
		to := cmp.Or(k.end, len(raw)-1)
		texts = append(texts, Value{raw: slices.Concat([]byte{'"'}, raw[from:to], []byte{'"'})}.Text())
		marks, from = append(marks, k.Cache), to
	}
	if from < len(raw)-1 {
		texts = append(texts, Value{raw: slices.Concat([]byte{'"'}, raw[from:len(raw)-1], []byte{'"'})}.Text())
	}
	return texts, marks
}

// Cut reports whether a mark stands inside the text of the message, so that it has Pieces.
func (m *Message) Cut() bool {
	return slices.ContainsFunc(m.marks, func(k Mark) bool { return k.end > 0 })
}

// mayMark reports whether some member of an object may be a mark: there is a part of both keys, or an escape of a letter or
// of the underscore, in which it could be hidden. Nearly no text has such an escape.
func mayMark(raw []byte) bool { return bytes.Contains(raw, []byte("cache_")) || mayHide(raw) }

// Beside returns the names of what a message of a chat completion has beside what other dialects can say: the sound of an
// earlier reply, and a refusal next to a content. Nearly every message has nothing.
func (m *Message) Beside() (names []string) {
	if m.Role != RoleAssistant {
		return nil
	}
	if bytes.Contains(m.raw, []byte(`"audio"`)) && ValueOf(m.raw).Member("audio").Kind() == '{' {
		names = append(names, "audio")
	}
	if bytes.Contains(m.raw, []byte(`"refusal"`)) {
		if v := ValueOf(m.raw); !v.Member("content").Null() && v.Member("refusal").IsText() && !v.Member("refusal").Is("") {
			names = append(names, "refusal")
		}
	}
	return names
}

// Cache returns the cache_control of a tool, in the entry or in its function, and reports whether there is one.
func (t *Tool) Cache() (Cache, bool) {
	if t.mark != nil {
		return *t.mark, true
	}
	if !mayMark(t.raw) {
		return Cache{}, false
	}
	entry := ValueOf(t.raw)
	if c, ok := readCache(entry.Member("function").Member(controlMember)); ok {
		return c, true
	}
	return readCache(entry.Member(controlMember))
}

// Mark adds a mark to a tool that is built.
func (t *Tool) Mark(c Cache) { t.mark = &c }

// Cache returns the cache_control of the whole request, and reports whether there is one: a mark at the end of the prompt,
// wherever that is.
func (r *Request) Cache() (Cache, bool) { return readCache(ValueOf(r.Member(controlMember))) }

// CacheOptions are prompt_cache_options, by which OpenAI is told where to put marks of its own.
type CacheOptions struct {
	Given    bool
	Explicit bool   // no mark but those of the caller
	TTL      string // such as 30m; empty: not given
}

// CacheOptions returns the prompt_cache_options of the request.
func (r *Request) CacheOptions() CacheOptions {
	v := ValueOf(r.Member("prompt_cache_options"))
	return CacheOptions{Given: v.Kind() == '{', Explicit: v.Member("mode").Is("explicit"), TTL: v.Member("ttl").Text()}
}

// CacheOf reads a mark as its dialect has it: cache_control, or a breakpoint.
func CacheOf(v Value, breakpoint bool) (Cache, bool) {
	if breakpoint {
		return Cache{Type: "ephemeral", TTL: v.Member("ttl").Text(), Breakpoint: true}, v.Kind() == '{'
	}
	return readCache(v)
}

// markOf returns the mark of a part or a message, and reports whether it has one.
func markOf(v Value) (Cache, bool) {
	if c, ok := readCache(v.Member(controlMember)); ok {
		return c, true
	}
	return CacheOf(v.Member(breakpointMember), true)
}

// readCache reads a cache_control, unless it is none.
func readCache(v Value) (Cache, bool) {
	return Cache{Type: v.Member("type").Text(), TTL: v.Member("ttl").Text()}, v.Kind() == '{'
}
