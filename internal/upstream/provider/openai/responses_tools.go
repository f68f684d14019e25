package openai

import (
	"slices"
	"strconv"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
)

// tools writes the functions and the custom tools, and how free the model is to call them.
// Definitions are flat here: name and parameters are members of the tool itself.
func (w *responseWriter) tools() {
	if len(w.req.Tools) == 0 {
		return
	}
	w.out = append(w.out, `,"tools":[`...)
	for i := range w.req.Tools {
		switch t := &w.req.Tools[i]; {
		case t.Function != nil:
			w.function(t.Function)
		case t.Custom != "":
			w.item(`{"type":"custom","name":`, t.Custom)
			w.flat(chat.ValueOf(t.Raw()).Member("custom"), "name")
			w.out = append(w.out, '}')
		} // the tool loop has replaced servers
	}
	w.out = append(w.out, ']')
	w.choice()
}

// function writes one function.
func (w *responseWriter) function(f *chat.Function) {
	w.item(`{"type":"function","name":`, f.Name)
	if f.Description != "" {
		w.out = jsonscan.AppendQuoted(append(w.out, `,"description":`...), f.Description)
	}
	w.out = append(w.out, `,"parameters":`...)
	if f.Parameters != nil {
		w.out = append(w.out, f.Parameters...)
	} else {
		w.out = append(w.out, `{"type":"object","properties":{}}`...)
	}
	// Unlike in chat completions, the default is true.
	w.out = append(strconv.AppendBool(append(w.out, `,"strict":`...), f.Strict), '}')
}

// flat writes the members of an object except one, behind another member. In chat completions the members of what has a type are in
// an object that is named like the type: those of a tool in function or custom, those of a format in grammar.
func (w *responseWriter) flat(v chat.Value, except ...string) {
	for m := v.Walk(); v.Kind() == '{' && m.Next(); {
		key := string(m.Key)
		switch {
		case slices.Contains(except, key):
		case key == "format" && m.Value.Member("grammar").Kind() == '{':
			w.out = append(w.out, `,"format":{"type":"grammar"`...)
			w.flat(m.Value.Member("grammar"))
			w.out = append(w.out, '}')
		default:
			w.out = append(jsonscan.AppendQuoted(append(w.out, ','), key), ':')
			w.out = append(w.out, m.Value.Raw()...)
		}
	}
}

// choice writes tool_choice.
func (w *responseWriter) choice() {
	switch w.req.ToolChoice.Mode {
	case chat.ChoiceNone:
		w.out = append(w.out, `,"tool_choice":"none"`...)
	case chat.ChoiceRequired:
		w.out = append(w.out, `,"tool_choice":"required"`...)
	case chat.ChoiceNamed:
		kind := `,"tool_choice":{"type":"function","name":`
		if slices.ContainsFunc(w.req.Tools, func(t chat.Tool) bool { return t.Custom == w.req.ToolChoice.Name }) {
			kind = `,"tool_choice":{"type":"custom","name":`
		}
		w.out = append(jsonscan.AppendQuoted(append(w.out, kind...), w.req.ToolChoice.Name), '}')
	case chat.ChoiceAllowed:
		w.allowed(chat.ValueOf(w.req.Member("tool_choice")).Member("allowed_tools"))
	}
}

// allowed writes a choice among some of the tools.
func (w *responseWriter) allowed(v chat.Value) {
	w.out = append(w.out, `,"tool_choice":{"type":"allowed_tools"`...)
	w.flat(v, "tools")
	w.out = append(w.out, `,"tools":[`...)
	for m := v.Member("tools").Walk(); m.Next(); {
		kind := m.Value.Member("type").Text()
		w.item(`{"type":`, kind)
		w.flat(m.Value, "type", kind)
		w.flat(m.Value.Member(kind))
		w.out = append(w.out, '}')
	}
	w.out = append(w.out, "]}"...)
}
