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
	for _, t := range w.req.ListedTools() {
		switch {
		case t.Function != nil:
			w.function(t.Function)
		case t.Custom != "":
			w.custom(t)
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

// custom writes one custom tool, whose members are in an object of their own in chat completions, and those of its grammar in
// another one.
func (w *responseWriter) custom(t *chat.Tool) {
	definition := chat.ValueOf(t.Raw()).Member("custom")
	w.item(`{"type":"custom","name":`, t.Custom)
	w.picked(definition, "description")
	if format := definition.Given("format"); format.Exists() {
		w.out = append(w.out, `,"format":{"type":`...)
		w.out = jsonscan.AppendQuoted(w.out, format.Member("type").Text())
		w.picked(format.Member("grammar"), "syntax", "definition")
		w.out = append(w.out, '}')
	}
	w.out = append(w.out, '}')
}

// picked writes the texts among the members of an object that have these names, behind another member. All other members stay
// behind: what a caller adds must not become a member of something that the vendor reads in another way.
func (w *responseWriter) picked(v chat.Value, names ...string) {
	for _, name := range names {
		if text := v.Given(name); text.IsText() {
			w.member(name, text.Raw())
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
	w.picked(v, "mode")
	w.out = append(w.out, `,"tools":[`...)
	for m := v.Member("tools").Walk(); m.Next(); {
		kind := m.Value.Member("type").Text()
		w.item(`{"type":`, kind)
		w.picked(m.Value.Member(kind), "name")
		w.out = append(w.out, '}')
	}
	w.out = append(w.out, "]}"...)
}
