package chat

import (
	"cmp"
	"iter"
	"slices"

	"sluice/internal/kit/jsonscan"
)

// IsBuilt reports whether the request was built by the door of another dialect, or put together here: its upstream does not get words
// that the caller has chosen for it.
func (r *Request) IsBuilt() bool { return r.built }

// appendMark appends a mark as a member, without a comma.
func appendMark(dst []byte, c Cache, style MarkStyle) []byte {
	if style == MarksBreakpoint || style == marksOwn && c.Breakpoint {
		return c.AppendBreakpoint(append(dst, `"`+breakpointMember+`":`...))
	}
	dst = append(dst, `"`+controlMember+`":{"type":"ephemeral"`...)
	if c.TTL != "" && !c.Breakpoint {
		dst = jsonscan.AppendQuoted(append(dst, `,"ttl":`...), c.TTL)
	}
	return append(dst, '}')
}

// markEdits returns what must change in the messages for their marks to be in a style, in the order of the body. What is in
// it already stays as it is. A mark of a message itself moves to its last part.
func (r *Request) markEdits(messages member, style MarkStyle) (edits []edit) {
	at := int(messages.value)
	list := ValueOf(r.raw[messages.value:messages.to])
	for w := list.Walk(); w.Next(); {
		var own Cache
		var content Value
		marked := false
		before := w.Value.Offset() + 1
		for m := w.Value.Walk(); m.Next(); before = m.Value.Offset() + len(m.Value.raw) {
			switch {
			case string(m.Key) == "content":
				content = m.Value
			case isMark(m.Key) && m.Value.Kind() == '{':
				own, marked = CacheOf(m.Value, string(m.Key) == breakpointMember)
				edits = append(edits, without(r.raw, at, before, m.Value))
			}
		}
		marked = marked && style != MarksNone
		if content.Kind() == '[' {
			edits = r.partEdits(edits, at, content, own, marked, style)
		} else if marked && content.IsText() {
			with := append(append([]byte(`[{"type":"text","text":`), content.raw...), ',')
			with = append(appendMark(with, own, style), "}]"...)
			edits = append(edits, edit{span: span{at + content.Offset(), at + content.Offset() + len(content.raw)}, with: with})
		}
	}
	return edits
}

// partEdits appends what must change in the parts of a content. If marked is set, the last part gets the mark own, unless it
// has one.
func (r *Request) partEdits(edits []edit, at int, content Value, own Cache, marked bool, style MarkStyle) []edit {
	last, has := Value{}, false
	for w := content.Walk(); w.Next(); {
		last, has = w.Value, false
		before := w.Value.Offset() + 1
		for m := w.Value.Walk(); m.Next(); before = m.Value.Offset() + len(m.Value.raw) {
			if !isMark(m.Key) || m.Value.Kind() != '{' {
				continue
			}
			breakpoint := string(m.Key) == breakpointMember
			if has = true; breakpoint == (style == MarksBreakpoint) && style != MarksNone {
				continue
			}
			e := without(r.raw, at, before, m.Value)
			if c, ok := CacheOf(m.Value, breakpoint); ok && style != MarksNone {
				from := jsonscan.Space(r.raw, at+before)
				if r.raw[from] == ',' {
					from = jsonscan.Space(r.raw, from+1)
				}
				e = edit{span: span{from, at + m.Value.Offset() + len(m.Value.raw)}, with: appendMark(nil, c, style)}
			}
			edits = append(edits, e)
		}
	}
	if marked && !has && last.Kind() == '{' {
		end := at + last.Offset() + len(last.raw) - 1
		edits = append(edits, edit{span: span{end, end}, with: appendMark([]byte{','}, own, style)})
	}
	return edits
}

// without returns the edit that leaves out the member whose value is v, with a comma. Before is where the member in front of
// it ends; both are counted from at.
func without(text []byte, at, before int, v Value) edit {
	e := edit{span: span{at + before, at + v.Offset() + len(v.raw)}}
	if text[jsonscan.Space(text, e.from)] == ',' {
		return e
	}
	if next := jsonscan.Space(text, e.to); text[next] == ',' { // the first member
		e.to = next + 1
	}
	return e
}

// appendPieces appends the content of a message that is built as parts, with its marks. Every text is a list of parts then,
// whether it has a mark or not: a mark that moves must not change what stands before it.
func (m *Message) appendPieces(dst []byte, style MarkStyle) []byte {
	raw, from := m.Content.raw, 1
	text := func(to int) {
		dst = append(append(append(dst, `{"type":"text","text":"`...), raw[from:to]...), '"')
		from = to
	}
	if dst = append(dst, '['); raw != nil {
		for _, k := range m.marks {
			to := k.end
			if to == 0 {
				to = len(raw) - 1
			}
			text(to)
			dst = append(appendMark(append(dst, ','), k.Cache, style), "},"...)
		}
		if from == len(raw)-1 && len(m.marks) > 0 {
			return append(dst[:len(dst)-1], ']')
		}
		text(len(raw) - 1)
		return append(dst, "}]"...)
	}
	for i := range m.Content.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = m.Content.parts[i].append(dst)
		for _, k := range m.marks {
			if k.Part == i || k.Part == NoPart && i == len(m.Content.parts)-1 {
				dst = append(appendMark(append(dst[:len(dst)-1], ','), k.Cache, style), '}')
				break
			}
		}
	}
	return append(dst, ']')
}

// ListedTools yields the tools with their indexes, in the order in which an upstream of another dialect gets them: by name.
// Programs that keep their tools in a map send them in another order each time, and no cache would have the prompt behind
// them. Where a tool has a mark, the caller has thought of the order, and it stays.
func (r *Request) ListedTools() iter.Seq2[int, *Tool] {
	return func(yield func(int, *Tool) bool) {
		for i := range r.Tools {
			if r.order != nil {
				i = int(r.order[i])
			}
			if !yield(i, &r.Tools[i]) {
				return
			}
		}
	}
}

// orderTools sets the order of the tools.
func (r *Request) orderTools() {
	byName := func(a, b Tool) int { return cmp.Compare(a.name(), b.name()) }
	if len(r.Tools) > MaxTools || r.HasMCP() || // whose tools are listed later
		slices.IsSortedFunc(r.Tools, byName) || r.marked && slices.ContainsFunc(r.Tools, func(t Tool) bool { _, ok := t.Cache(); return ok }) {
		return
	}
	r.order = make([]uint8, len(r.Tools))
	for i := range r.order {
		r.order[i] = uint8(i)
	}
	slices.SortStableFunc(r.order, func(a, b uint8) int { return byName(r.Tools[a], r.Tools[b]) })
}
