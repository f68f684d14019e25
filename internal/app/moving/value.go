package moving

import (
	"strconv"
	"strings"
)

// value is one value of a source: a mapping, a list, or a text. The methods work on a nil value, which is one that the
// source does not have.
type value struct {
	path string // such as model_list[0].litellm_params.model
	line int    // 0: not known

	keys   []string // of a mapping, in the order of the source
	fields map[string]*value
	items  []*value // of a list
	text   string   // of a text, number or boolean
	form   form

	// fate is what became of a value without parts; nil: nobody has looked at it.
	fate *fate
	// repeated are values of keys that occur again later, which wins.
	repeated []*value
}

type form int

const (
	isNull form = iota
	isText
	isPlain // a number or a boolean
	isMapping
	isList
)

// get returns the field of a mapping.
func (v *value) get(key string) *value {
	if v == nil {
		return nil
	}
	return v.fields[key]
}

// at returns a value by the keys that lead to it.
func (v *value) at(keys ...string) *value {
	for _, k := range keys {
		v = v.get(k)
	}
	return v
}

// is reports whether the value exists and has the form.
func (v *value) is(f form) bool { return v != nil && v.form == f }

// given reports whether the value is a text, number or boolean and not empty.
func (v *value) given() bool {
	return v != nil && (v.form == isText || v.form == isPlain) && v.text != ""
}

// set reports whether the value is not null, false, zero or empty.
func (v *value) set() bool {
	switch {
	case v == nil, v.form == isNull:
		return false
	case v.form == isMapping:
		return len(v.keys) > 0
	case v.form == isList:
		return len(v.items) > 0
	case v.form == isPlain:
		return v.text != "false" && v.text != "0"
	}
	return v.text != ""
}

// String returns the text of a value, or "".
func (v *value) String() string {
	if v == nil {
		return ""
	}
	return v.text
}

// yes reports whether the value is true.
func (v *value) yes() bool { return v.given() && strings.EqualFold(v.text, "true") }

// number returns a number, also from a text that is one.
func (v *value) number() (float64, bool) {
	if !v.given() {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(v.text, "_", ""), 64)
	return n, err == nil && n >= 0 && n < 1e15
}

// whole returns a number without a fraction, or 0.
func (v *value) whole() int {
	n, _ := v.number()
	return int(n)
}

// list returns the items of a list, or the value itself if it is a single text.
func (v *value) list() []*value {
	switch {
	case v == nil, v.form == isNull:
		return nil
	case v.form == isList:
		return v.items
	}
	return []*value{v}
}

// leaves calls visit for every value without parts.
func (v *value) leaves(visit func(*value)) {
	if v == nil {
		return
	}
	for _, r := range v.repeated {
		r.leaves(visit)
	}
	if len(v.keys) == 0 && len(v.items) == 0 {
		visit(v)
	}
	for _, k := range v.keys {
		v.fields[k].leaves(visit)
	}
	for _, item := range v.items {
		item.leaves(visit)
	}
}

// mark says what became of all parts of the value that are not marked yet.
func (v *value) mark(o Outcome, text string) {
	v.leaves(func(leaf *value) {
		if leaf.fate == nil {
			leaf.fate = &fate{o, text}
		}
	})
}

// taken marks a value as taken, and says where it went.
func (v *value) taken(to string) { v.mark(Taken, to) }

// changed marks a value as taken in another form.
func (v *value) changed(how string) { v.mark(Changed, how) }

// dropped marks a value without a counterpart, and says what to do instead.
func (v *value) dropped(instead string) { v.mark(Dropped, instead) }

// pattern is a path without the indexes of lists and without the file.
func pattern(path string) string {
	if _, after, ok := strings.Cut(path, ": "); ok {
		path = after
	}
	var b strings.Builder
	inside := false
	for _, r := range path {
		switch {
		case r == '[':
			inside = true
			b.WriteString("[]")
		case r == ']':
			inside = false
		case !inside:
			b.WriteRune(r)
		}
	}
	return b.String()
}
