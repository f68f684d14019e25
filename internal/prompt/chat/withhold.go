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
func Withhold(dialect allowance.Dialects, body []byte, allow *allowance.Set) (out []byte, dropped []string, err error) {
	w := NewWithholder(dialect, allow)
	out, err = w.Body(body)
	return out, w.Dropped(), err
}

// Withholder is Withhold for a body whose conversation is completed with items that are stored here.
type Withholder struct {
	dialect allowance.Dialects
	allow   *allowance.Set
	path    []byte
	depth   int  // of the value that is being written, below a member of the body
	ours    bool // the value is stored here: the ids in it were allowed, or are of the upstream itself
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
	out := w.value(make([]byte, 0, len(item)), item)
	w.ours = false
	if !w.changed {
		return item
	}
	return out
}

// Body returns the caller's body; see Withhold.
func (w *Withholder) Body(body []byte) ([]byte, error) {
	w.changed = false
	out := w.request(make([]byte, 0, len(body)), body)
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
func (w *Withholder) request(dst, body []byte) []byte {
	// The tools first: what is left of them decides about other members.
	var list []byte
	offered := false
	eachMember(body, func(key string, v []byte) {
		if strings.EqualFold(key, "tools") && isKind(v, '[') {
			w.in(key, -1)
			list, offered = w.tools(nil, v), true
			w.path = w.path[:0]
		}
	})
	none := offered && len(w.withheld) > 0 && len(list) == len("[]")
	bounded := false
	dst = append(dst, '{')
	eachMember(body, func(key string, v []byte) {
		if w.fault != nil {
			return
		}
		w.path = append(w.path[:0], key...)
		name := strings.ToLower(key)
		switch {
		case name == "tools" && isKind(v, '['):
			if !none {
				dst = append(appendName(dst, key), list...)
			}
			return
		case name == "tool_choice" && len(w.withheld) > 0:
			if w.choose(v, none); none {
				return
			}
		case none && (name == "parallel_tool_calls" || name == "max_tool_calls"):
			return
		case name == "max_tool_calls" && w.paid && !isKind(v, 'n'):
			bounded = true
			if n, err := strconv.ParseFloat(string(v), 64); err != nil || n > allowance.MaxCalls {
				w.drop(key)
				v = strconv.AppendInt(nil, allowance.MaxCalls, 10)
			}
		case name == "max_tool_calls" && w.paid:
			return // null: the bound takes its place
		}
		if e := allowance.Field(key); e != nil && !w.allow.Has(e) {
			if Asks(v) {
				if e.Refused&w.dialect != 0 {
					w.refuse(e)
				}
				w.drop(canonical(key, e))
			}
			w.changed = true
			return
		}
		dst = w.member(appendName(dst, key), key, v)
	})
	if w.paid && !bounded && w.dialect == allowance.Responses {
		w.changed = true
		dst = strconv.AppendInt(appendName(dst, "max_tool_calls"), allowance.MaxCalls, 10)
	}
	return append(dst, '}')
}

// choose looks at a tool_choice beside tools that were left out. One that could not be followed any more is refused.
func (w *Withholder) choose(v []byte, none bool) {
	var names []string
	switch {
	case isKind(v, '"'):
		if word := jsonscan.Unquote(v); none && word != "auto" && word != "none" {
			names = w.withheld[:1]
		}
	case isKind(v, '{'):
		eachMember(v, func(key string, v []byte) {
			if word := jsonscan.Unquote(v); isKind(v, '"') && (slices.Contains(w.withheld, word) || none && key == "type" && word == "any") {
				names = append(names, word)
			}
			if isKind(v, '[') { // of the type allowed_tools
				eachElement(v, func(_ int, v []byte) {
					for _, word := range []string{memberText(v, "type"), memberText(v, "name")} {
						if word != "" && slices.Contains(w.withheld, word) {
							names = append(names, word)
						}
					}
				})
			}
		})
	}
	if len(names) > 0 && w.fault == nil {
		w.fault = fault.New(fault.Invalid, "%s asks for the tool %q, which is not allowed for this model. Leave it out, or ask the operator of this service to allow it.", w.path, names[0]).At(string(w.path))
	}
}

// tools writes an array of tools without those that the vendor would run and that are not allowed.
func (w *Withholder) tools(dst, list []byte) []byte {
	dst = append(dst, '[')
	mark := len(w.path)
	eachElement(list, func(i int, v []byte) {
		if w.fault != nil {
			return
		}
		defer func() { w.path = w.path[:mark] }()
		w.in("", i)
		kind := memberText(v, "type")
		e := allowance.Tool(kind)
		if e != nil && !w.allow.Has(e) {
			if e.Refused&w.dialect != 0 {
				w.refuse(e)
				return
			}
			w.withheld = append(w.withheld, kind)
			if name := memberText(v, "name"); name != "" {
				w.withheld = append(w.withheld, name)
			}
			w.drop("tools." + e.Name)
			return
		}
		if len(dst) > 0 && dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		if e != nil && e.Runs {
			w.paid = true
		}
		from := len(dst)
		dst = w.value(dst, v)
		if e != nil && w.dialect == allowance.Messages && e.Bounded {
			dst = append(dst[:from], w.bound(dst[from:])...)
		}
	})
	return append(dst, ']')
}

// bound returns a tool of Messages with a bound on its uses.
func (w *Withholder) bound(tool []byte) []byte {
	const name = "max_uses"
	found := false
	out := []byte{'{'}
	eachMember(tool, func(key string, v []byte) {
		if key == name && isKind(v, 'n') {
			return
		}
		if key == name {
			found = true
			if n, err := strconv.ParseFloat(string(v), 64); err != nil || n > allowance.MaxCalls {
				w.drop("tools[].max_uses")
				v = strconv.AppendInt(nil, allowance.MaxCalls, 10)
			}
		}
		out = append(appendName(out, key), v...)
	})
	if !found {
		w.changed = true
		out = strconv.AppendInt(appendName(out, name), allowance.MaxCalls, 10)
	}
	return append(out, '}')
}

// opaque are members whose values are the caller's own data: schemas, arguments, what the model cited. Names in them mean
// nothing to the vendor.
func opaque(key string, v []byte) bool {
	switch key {
	case "parameters", "input_schema", "output_schema", "schema", "metadata", "arguments", "annotations", "citations":
		return true
	case "input": // of a call; that of a request is an array or a text
		return isKind(v, '{')
	}
	return false
}

// member writes the value of a member, whose path is the current one.
func (w *Withholder) member(dst []byte, key string, v []byte) []byte {
	if opaque(key, v) {
		return append(dst, v...)
	}
	if e := allowance.ID(key); e != nil && !w.allow.Has(e) && holds(v) {
		w.refuse(e)
	}
	return w.value(dst, v)
}

// maxLook is how deep ids and tools are looked for: deeper than any that a vendor reads. It bounds the time, since every
// level reads its values again.
const maxLook = 12

// value writes a value, and looks for ids and tools in it.
func (w *Withholder) value(dst, v []byte) []byte {
	mark := len(w.path)
	w.depth++
	defer func() { w.depth-- }()
	switch {
	case w.fault != nil || w.depth > maxLook:
	case isKind(v, '['):
		dst = append(dst, '[')
		eachElement(v, func(i int, v []byte) {
			if i > 0 {
				dst = append(dst, ',')
			}
			w.in("", i)
			dst = w.value(dst, v)
			w.path = w.path[:mark]
		})
		return append(dst, ']')
	case isKind(v, '{'):
		kind := memberText(v, "type")
		if w.dialect == allowance.Messages && strings.HasSuffix(kind, "_tool_result") {
			break // what a tool of the vendor has answered earlier
		}
		dst = append(dst, '{')
		eachMember(v, func(key string, v []byte) {
			w.in(key, -1)
			dst = appendName(dst, key)
			switch name := strings.ToLower(key); {
			case name == "tools" && isKind(v, '['):
				dst = w.tools(dst, v)
			default:
				// A machine at the vendor, by its id or made for this request.
				hosted := name == "environment" && kind == "shell" && isKind(v, '{') && memberText(v, "type") != "local"
				if e := allowance.Container(); (hosted || name == "container" && isKind(v, '"')) && !w.allow.Has(e) {
					w.refuse(e)
				}
				w.paid = w.paid || hosted
				dst = w.member(dst, key, v)
			}
			w.path = w.path[:mark]
		})
		return append(dst, '}')
	}
	return append(dst, v...)
}

// holds reports whether a value holds ids: a text that is not empty, or an array of some.
func holds(v []byte) bool {
	return isKind(v, '"') && len(v) > 2 || isKind(v, '[') && !isEmpty(v) || isKind(v, '{')
}

// canonical returns the name of a field that may stand in a header: the caller's, unless it has other letters that are equal
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

// appendName appends the key of a member, behind a comma if it is not the first.
func appendName(dst []byte, key string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(jsonscan.AppendQuoted(dst, key), ':')
}

func isKind(v []byte, c byte) bool { return len(v) > 0 && v[0] == c }

// isEmpty reports whether an array has no elements.
func isEmpty(v []byte) bool { return v[jsonscan.Space(v, 1)] == ']' }

// memberText returns a member that is a text; empty if there is none. Upper and lower case are the same; see
// allowance.Field.
func memberText(v []byte, name string) (text string) {
	if !isKind(v, '{') {
		return ""
	}
	eachMember(v, func(key string, v []byte) {
		if isKind(v, '"') && strings.EqualFold(key, name) {
			text = jsonscan.Unquote(v)
		}
	})
	return text
}

// eachMember calls each for the members of an object that Check has accepted, with unescaped keys.
func eachMember(v []byte, each func(key string, v []byte)) {
	i := jsonscan.Space(v, jsonscan.Space(v, 0)+1)
	for i < len(v) && v[i] != '}' {
		end, _, _ := jsonscan.String(v, i)
		key := jsonscan.Unquote(v[i:end])
		i = jsonscan.Space(v, jsonscan.Space(v, end)+1) // behind the colon
		end = behind(v, i)
		each(key, v[i:end])
		if i = jsonscan.Space(v, end); i < len(v) && v[i] == ',' {
			i = jsonscan.Space(v, i+1)
		}
	}
}

// eachElement is eachMember for an array.
func eachElement(v []byte, each func(i int, v []byte)) {
	i := jsonscan.Space(v, 1)
	for n := 0; i < len(v) && v[i] != ']'; n++ {
		end := behind(v, i)
		each(n, v[i:end])
		if i = jsonscan.Space(v, end); i < len(v) && v[i] == ',' {
			i = jsonscan.Space(v, i+1)
		}
	}
}

// behind returns the index behind the value that begins at v[i].
func behind(v []byte, i int) int {
	for depth := 0; i < len(v); {
		switch v[i] {
		case '"':
			i, _, _ = jsonscan.String(v, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
			continue
		default: // a number or a word
			for i < len(v) && !strings.ContainsRune(",]} \t\r\n", rune(v[i])) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(v)
}
