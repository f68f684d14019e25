package openai

import (
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
)

// marking returns how a model of the vendor is told up to where a prompt is to be kept. OpenAI's models take marks from
// GPT-5.6 on (developers.openai.com/api/docs/guides/prompt-caching); OpenRouter passes cache_control on to the vendors who have
// it (openrouter.ai/docs/guides/best-practices/prompt-caching). A server that nobody knows gets what its caller has written.
func (p *Preset) marking(model string) chat.MarkStyle {
	switch own, openais := strings.CutPrefix(model, "openai/"); {
	case p.Kind == "":
		return chat.MarksAsSent
	case p.Kind == "openrouter" && !openais:
		return chat.MarksControl
	case p.Kind == "openrouter", p.Kind == "openai", p.Kind == "azure":
		if f := familyOf(own); f.marks() {
			return chat.MarksBreakpoint
		}
	}
	return chat.MarksNone
}

// automatic reports whether the vendor marks the end of each prompt itself, unless it is told otherwise, so that there is no
// need to ask for it.
func (p *Preset) automatic() bool { return p.Kind == "openai" || p.Kind == "azure" }

// marks says how the marks of a request are written, and notes those that are not.
func (q *quirks) marks() {
	style := q.preset.marking(q.call.Upstream)
	built := q.req.IsBuilt()
	if q.out.Marks = style; style == chat.MarksNone || style == chat.MarksAsSent && built {
		q.call.DropMarks()
	} else if style != chat.MarksAsSent && q.req.Marked() {
		q.call.DropToolMarks(style == chat.MarksControl && !built)
		for i := range q.req.Messages {
			if m := &q.req.Messages[i]; m.Content.IsNull() { // there is no part that could have it
				for _, k := range m.Marks() {
					q.call.Omit(k.Name())
				}
			}
		}
		q.call.DropTimes(style == chat.MarksBreakpoint)
	}
	switch {
	case q.preset.Kind == "" && !built: // in the caller's own words
	case q.preset.automatic():
		q.out.Drop = append(q.out.Drop, chat.ControlName)
	case style != chat.MarksControl:
		q.drop([]string{chat.ControlName})
	}
	if f := familyOf(q.call.Upstream); q.preset.automatic() && (f.marks() || f.name == "") || q.preset.Kind == "" && !built || style == chat.MarksBreakpoint {
		return
	}
	q.drop([]string{"prompt_cache_options"})
}

// marksOf returns the marks of a message.
func (w *responseWriter) marksOf(m *chat.Message) []chat.Mark {
	if !w.req.Marked() { // nearly every request
		return nil
	}
	return m.Marks()
}

// writes reports whether a mark is written: one of the dialect always, another one if the model is known to take it.
func (w *responseWriter) writes(c chat.Cache) bool { return c.Breakpoint || w.marks }

// mark adds a mark to the part that was written last.
func (w *responseWriter) mark(c chat.Cache) {
	w.out = append(w.out[:len(w.out)-1], `,"prompt_cache_breakpoint":`...)
	w.out = append(c.AppendBreakpoint(w.out), '}')
}

// text writes a text as a part.
func (w *responseWriter) inputText(text string) {
	w.out = append(jsonscan.AppendQuoted(append(w.out, `{"type":"input_text","text":`...), text), '}')
}

// pieces writes the text of a message in parts, each up to a mark.
func (w *responseWriter) pieces(m *chat.Message) {
	texts, marks := m.Pieces()
	for j, text := range texts {
		if j > 0 {
			w.out = append(w.out, ',')
		}
		if w.inputText(text); j < len(marks) {
			w.mark(marks[j])
		}
	}
}

// output writes the result of a call, and ends its item. Where marks are written, each result is a list of parts, whether it has a mark or
// not: a mark that moves must not change what stands before it.
func (w *responseWriter) output(m *chat.Message) {
	w.out = append(w.out, `,"output":`...)
	if !w.req.Marked() || !w.marks {
		w.out = append(jsonscan.AppendQuoted(w.out, m.Content.Text()), '}')
		return
	}
	w.out = append(w.out, '[')
	w.inputText(m.Content.Text())
	if marks := m.Marks(); len(marks) > 0 {
		w.mark(marks[len(marks)-1].Cache)
	}
	w.out = append(w.out, "]}"...)
}

// unmarked notes the marks that were not written: those of tools and of what the assistant has said, and their times.
func (w *responseWriter) unmarked() {
	w.call.DropToolMarks(false)
	if w.marks {
		w.call.DropTimes(true)
	}
	for i := range w.req.Messages {
		m := &w.req.Messages[i]
		said := m.Role == chat.RoleAssistant || m.Role == chat.RoleTool && !w.marks
		for _, k := range m.Marks() {
			if said || !w.writes(k.Cache) {
				w.call.Omit(k.Name())
			}
		}
	}
}
