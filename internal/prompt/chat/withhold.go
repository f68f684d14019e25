package chat

import (
	"slices"
	"strconv"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/allowance"
)

// Withhold returns a body in the dialect of its upstream without what only the operator may decide and has not allowed, and
// the names of what was left out; see package allowance. The error is a fault that names a field without which the request
// would mean something else. Tools that the vendor runs get a bound on their calls.
//
// The body must be JSON that Check has accepted. It is returned as it is if nothing has to change.
//
// There are three answers to something that is not allowed: a field or a tool that only adds to
// the reply is left out and named in a header; one without which the request would mean something
// else is refused; and a bound that is missing is added.
func Withhold(dialect allowance.Dialects, body []byte, allow *allowance.Set) (out []byte, dropped []string, err error) {
	w := NewWithholder(dialect, allow)
	out, err = w.Body(body)
	return out, w.Dropped(), err
}

// Withholder is Withhold for a body whose conversation is completed with items that are stored here.
//
// It rewrites the body while it walks over it, and path always leads to the value that is being
// written. If nothing has changed in the end, the copy is dropped.
type Withholder struct {
	dialect allowance.Dialects
	allow   *allowance.Set
	path    []byte
	depth   int  // of the value that is being written, below a member of the body
	ours    bool // the value is stored here: the ids in it were allowed, or are of the upstream itself
	result  bool // the value is of what a tool of the vendor has answered earlier
	dropped []string
	changed bool
	fault   *fault.Fault

	withheld []string // names and types of the tools that were left out
	paid     bool     // a tool that the vendor runs is left
}

// NewWithholder returns a Withholder. It serves one body.
func NewWithholder(dialect allowance.Dialects, allow *allowance.Set) *Withholder {
	return &Withholder{dialect: dialect, allow: allow}
}

// Item returns an item that is stored here without the tools that are not allowed. It is called before Body.
func (w *Withholder) Item(item []byte) []byte {
	w.ours, w.changed = true, false
	out := w.value(make([]byte, 0, len(item)), ValueOf(item))
	w.ours = false
	if !w.changed {
		return item
	}
	return out
}

// Body returns the caller's body; see Withhold.
func (w *Withholder) Body(body []byte) ([]byte, error) {
	w.changed = false
	out := w.request(make([]byte, 0, len(body)), ValueOf(body))
	switch {
	case w.fault != nil:
		return nil, w.fault
	case !w.changed:
		return body, nil
	}
	return out, nil
}

// Dropped returns the names of what was left out.
func (w *Withholder) Dropped() []string { return w.dropped }

// drop notes that something is left out.
func (w *Withholder) drop(name string) {
	w.changed = true
	if !slices.Contains(w.dropped, name) {
		w.dropped = append(w.dropped, name)
	}
}

// refuse refuses the request because of the current value.
func (w *Withholder) refuse(e *allowance.Entry) {
	if w.fault == nil && !w.ours {
		w.fault = Unallowed(string(w.path), e)
	}
}

// Unallowed returns the fault of a request that has something the operator does not allow.
func Unallowed(path string, e *allowance.Entry) *fault.Fault {
	if e.Never != "" {
		return fault.New(fault.Invalid, "%s is not possible: %s. Leave it out.", path, e.Never).At(path)
	}
	return fault.New(fault.Invalid, "%s is %s, which is not allowed for this model. Leave it out, or ask the operator of this service to allow %s.", path, e.What, e.Name).At(path)
}

// in moves to a member, and to an element of an array if index is not negative. The path is cut back by the caller.
func (w *Withholder) in(name string, index int) {
	switch {
	case index < 0:
		if len(w.path) > 0 {
			w.path = append(w.path, '.')
		}
		w.path = append(w.path, name...)
	case w.dialect == allowance.Messages: // its paths have dots alone
		w.path = strconv.AppendInt(append(w.path, '.'), int64(index), 10)
	default:
		w.path = append(strconv.AppendInt(append(w.path, '['), int64(index), 10), ']')
	}
}

// request writes the members of the body.
//
// Keys are compared without regard to case, because some vendors read them so.
func (w *Withholder) request(dst []byte, body Value) []byte {
	// The tools first: what is left of them decides about other members.
	var list []byte
	offered := false
	for m := body.Walk(); m.Next(); {
		if strings.EqualFold(string(m.Key), "tools") && m.Value.Kind() == '[' {
			w.in(string(m.Key), -1)
			list, offered = w.tools(nil, m.Value), true
			w.path = w.path[:0]
		}
	}
	none := offered && len(w.withheld) > 0 && len(list) == len("[]")
	bounded := false
	dst = append(dst, '{')
	for m := body.Walk(); w.fault == nil && m.Next(); {
		key, v := string(m.Key), m.Value
		w.path = append(w.path[:0], key...)
		name := strings.ToLower(key)
		switch {
		case name == "tools" && v.Kind() == '[':
			if !none {
				dst = append(AppendName(dst, key), list...)
			}
			continue
		case name == "tool_choice" && len(w.withheld) > 0:
			if w.choose(v, none); none {
				continue
			}
		case none && (name == "parallel_tool_calls" || name == "max_tool_calls"):
			continue
		case name == "usage" || name == "max_cost" || name == "budget" || name == "auto_cache": // for this service: what the call costs, and may cost
			w.changed = true
			continue
		case name == "max_tool_calls" && w.paid && v.Null():
			continue // the bound takes its place
		case name == "max_tool_calls" && w.paid:
			bounded = true
			v = w.most(key, v)
		}
		// A field that asks for nothing, such as false, is removed as well, but neither refused
		// nor reported.
		if e := allowance.Field(key); e != nil && e.Ours&w.dialect == 0 && !w.allow.Has(e) {
			if Asks(v.raw) {
				if e.Refused&w.dialect != 0 {
					w.refuse(e)
				}
				w.drop(canonical(key, e))
			}
			w.changed = true
			continue
		}
		dst = w.member(AppendName(dst, key), key, v)
	}
	if w.paid && !bounded && w.dialect == allowance.Responses {
		w.changed = true
		dst = strconv.AppendInt(AppendName(dst, "max_tool_calls"), allowance.MaxCalls, 10)
	}
	return append(dst, '}')
}

// most returns a bound on calls, or the highest that there is if it is higher, or none at all.
// A value that is no number is replaced, too: the vendor might read it in another way than we do.
func (w *Withholder) most(name string, v Value) Value {
	if n, err := strconv.ParseFloat(string(v.raw), 64); err == nil && n <= allowance.MaxCalls {
		return v
	}
	w.drop(name)
	return Value{raw: strconv.AppendInt(nil, allowance.MaxCalls, 10)}
}

// choose looks at a tool_choice beside tools that were left out. One that could not be followed any more is refused.
//
// A choice names a tool by its name or by its type, in a member of its own or in the list of
// allowed_tools. A word such as "required" can no longer be followed once no tool is left.
func (w *Withholder) choose(v Value, none bool) {
	var names []string
	if word := v.Text(); none && v.IsText() && word != "auto" && word != "none" {
		names = w.withheld[:1]
	}
	for m := v.Walk(); v.Kind() == '{' && m.Next(); {
		if word := m.Value.Text(); m.Value.IsText() && (slices.Contains(w.withheld, word) || none && string(m.Key) == "type" && word == "any") {
			names = append(names, word)
		}
		for tool := m.Value.Walk(); m.Value.Kind() == '[' && tool.Next(); { // of the type allowed_tools
			for _, word := range []string{memberText(tool.Value, "type"), memberText(tool.Value, "name")} {
				if word != "" && slices.Contains(w.withheld, word) {
					names = append(names, word)
				}
			}
		}
	}
	if len(names) > 0 && w.fault == nil {
		w.fault = fault.New(fault.Invalid, "%s asks for the tool %q, which is not allowed for this model. Leave it out, or ask the operator of this service to allow it.", w.path, names[0]).At(string(w.path))
	}
}

// tools writes an array of tools without those that the vendor would run and that are not allowed.
func (w *Withholder) tools(dst []byte, list Value) []byte {
	dst = append(dst, '[')
	mark := len(w.path)
	for entry := list.Walk(); w.fault == nil && entry.Next(); w.path = w.path[:mark] {
		v := entry.Value
		w.in("", entry.Index)
		kind := memberText(v, "type")
		e := allowance.Tool(kind)
		if e != nil && !w.allow.Has(e) {
			w.withhold(v, kind, e)
			continue
		}
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = w.tool(dst, v)
	}
	return append(dst, ']')
}

// tool writes a tool, with a bound if the vendor runs it. One that is not allowed is refused.
func (w *Withholder) tool(dst []byte, v Value) []byte {
	e := allowance.Tool(memberText(v, "type"))
	if e != nil && !w.allow.Has(e) {
		w.refuse(e)
	}
	w.paid = w.paid || e != nil && e.Runs
	from := len(dst)
	dst = w.value(dst, v)
	if e != nil && w.dialect == allowance.Messages && e.Bounded {
		dst = append(dst[:from], w.bound(dst[from:])...)
	}
	return dst
}

// withhold leaves out a tool that is not allowed.
// Its type and its name are kept for choose.
func (w *Withholder) withhold(v Value, kind string, e *allowance.Entry) {
	if e.Refused&w.dialect != 0 {
		w.refuse(e)
		return
	}
	w.withheld = append(w.withheld, kind)
	if name := memberText(v, "name"); name != "" {
		w.withheld = append(w.withheld, name)
	}
	w.drop("tools." + e.Name)
}

// bound returns a tool of Messages with a bound on its uses.
func (w *Withholder) bound(tool []byte) []byte {
	const name = "max_uses"
	found := false
	out := []byte{'{'}
	for m := ValueOf(tool).Walk(); m.Next(); {
		v := m.Value
		if string(m.Key) == name {
			if v.Null() {
				continue
			}
			found = true
			v = w.most("tools[].max_uses", v)
		}
		out = append(AppendName(out, string(m.Key)), v.raw...)
	}
	if !found {
		w.changed = true
		out = strconv.AppendInt(AppendName(out, name), allowance.MaxCalls, 10)
	}
	return append(out, '}')
}

// opaque are members whose values are the caller's own data: schemas, arguments, what the model cited. Names in them mean
// nothing to the vendor.
// Without this list, a caller could not send a schema that has a property called file_id.
func opaque(key string, v Value) bool {
	switch key {
	case "parameters", "input_schema", "output_schema", "schema", "metadata", "arguments", "annotations", "citations":
		return true
	case "input": // of a call; that of a request is an array or a text
		return v.Kind() == '{'
	}
	return false
}

// member writes the value of a member, whose path is the current one.
func (w *Withholder) member(dst []byte, key string, v Value) []byte {
	if opaque(key, v) {
		return append(dst, v.raw...)
	}
	if e := allowance.ID(key); e != nil && !w.allow.Has(e) && holds(v) && !w.answered() {
		w.refuse(e)
	}
	return w.value(dst, v)
}

// answered reports whether the value is of what code of the vendor's has answered, and the operator allows such code: it
// names the files that it has written.
func (w *Withholder) answered() bool {
	return w.result && w.allow.Has(allowance.Tool("code_execution"))
}

// maxLook is how deep ids and tools are looked for: deeper than any that a vendor reads. It bounds the time, since every
// level reads its values again.
const maxLook = 12

// value writes a value, and looks for ids and tools in it.
// A value that lies too deep is copied as it is.
func (w *Withholder) value(dst []byte, v Value) []byte {
	w.depth++
	defer func() { w.depth-- }()
	switch {
	case w.fault != nil || w.depth > maxLook:
	case v.Kind() == '[':
		return w.elements(dst, v)
	case v.Kind() == '{':
		kind := memberText(v, "type")
		if w.dialect == allowance.Messages && strings.HasSuffix(kind, "_tool_result") && !w.result {
			w.result = true
			defer func() { w.result = false }()
		}
		return w.members(dst, v, kind)
	}
	return append(dst, v.raw...)
}

// elements is value for an array.
func (w *Withholder) elements(dst []byte, v Value) []byte {
	mark := len(w.path)
	dst = append(dst, '[')
	for m := v.Walk(); m.Next(); w.path = w.path[:mark] {
		if m.Index > 0 {
			dst = append(dst, ',')
		}
		w.in("", m.Index)
		dst = w.value(dst, m.Value)
	}
	return append(dst, ']')
}

// members is value for an object of a type.
func (w *Withholder) members(dst []byte, v Value, kind string) []byte {
	mark := len(w.path)
	dst = append(dst, '{')
	for m := v.Walk(); m.Next(); w.path = w.path[:mark] {
		key := string(m.Key)
		if e := allowance.ID(key); e != nil && e.Refused&w.dialect == 0 && !w.allow.Has(e) {
			w.drop(e.Name)
			continue
		}
		w.in(key, -1)
		dst = AppendName(dst, key)
		name := strings.ToLower(key)
		if name == "tools" && m.Value.Kind() == '[' && !w.result {
			dst = w.tools(dst, m.Value)
			continue
		}
		if name == "definition" && w.dialect == allowance.Messages && !w.result { // of a tool that is added in the middle of a conversation
			dst = w.tool(dst, m.Value)
			continue
		}
		// A machine at the vendor, by its id or made for this request.
		hosted := name == "environment" && kind == "shell" && m.Value.Kind() == '{' && memberText(m.Value, "type") != "local"
		if e := allowance.Container(); (hosted || name == "container" && m.Value.IsText() && !w.result) && !w.allow.Has(e) {
			w.refuse(e)
		}
		w.paid = w.paid || hosted
		dst = w.member(dst, key, m.Value)
	}
	return append(dst, '}')
}

// holds reports whether a value holds ids: a text that is not empty, or an array of some. A switch that is on counts, too.
func holds(v Value) bool {
	return v.Kind() == 't' || v.IsText() && len(v.raw) > 2 || v.Kind() == '[' && !v.IsEmpty() || v.Kind() == '{'
}

// canonical returns the name of a field that may be in a header: the caller's, unless it has other letters that are equal
// but for their case.
func canonical(key string, e *allowance.Entry) string {
	for _, c := range []byte(key) {
		if c >= 0x80 {
			return e.Name
		}
	}
	return key
}

// Asks reports whether the JSON of a field asks for something.
func Asks(value []byte) bool {
	switch string(value) {
	case "", "null", "false", "0", "[]":
		return false
	}
	return true
}

// AppendName appends the key of a member, after a comma if it is not the first of its object.
func AppendName(dst []byte, key string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(jsonscan.AppendQuoted(dst, key), ':')
}

// memberText returns a member that is a text; empty if there is none. Upper and lower case are the same; see
// allowance.Field.
func memberText(v Value, name string) (text string) {
	for m := v.Walk(); v.Kind() == '{' && m.Next(); {
		if m.Value.IsText() && strings.EqualFold(string(m.Key), name) {
			text = m.Value.Text()
		}
	}
	return text
}
