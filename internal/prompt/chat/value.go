package chat

import (
	"bytes"
	"slices"
	"strconv"

	"sluice/internal/kit/jsonscan"
)

// Value is the JSON of one value in a text that was checked; see Check. Its methods read valid JSON and do not check it
// again. The zero Value is one that is not there.
//
// Values are small and are passed by value. They share the bytes of the body, and with an index,
// which Check makes, finding a member does not read the values before it.
type Value struct {
	raw  []byte
	doc  *document // nil: the values inside must be looked for
	at   int32     // the place in doc
	from int32     // where it is in the text
}

// document is the index of a body.
// The nodes are in the order of the text, so a value and everything in it are neighbors.
type document struct{ list []node }

// node is a value in the index of a body: body[from:to]. Behind the node of an object come those of its keys and values, by
// turns, and after that of an array those of its elements.
type node struct {
	from, to int32
	next     int32 // the place in the index after the value and all that is in it; 0: what is in it has no nodes
	size     int32 // of a string and of a key: the bytes of its text, unescaped
}

// maxNodes bounds the index of a body, and with it the memory that one request can make us spend. What is beyond it is read
// without an index, which takes longer.
const maxNodes = 1 << 18

// ValueOf returns the value that raw begins with. It must be valid JSON.
func ValueOf(raw []byte) Value {
	i := jsonscan.Space(raw, 0)
	if i == len(raw) {
		return Value{}
	}
	return Value{raw: raw[i:jsonscan.After(raw, i)]}
}

// Exists reports whether the value is there; it may be null.
func (v Value) Exists() bool { return v.raw != nil }

// Null reports whether the value is null or not there: for an optional field both mean the same.
func (v Value) Null() bool { return v.raw == nil || v.raw[0] == 'n' }

// Raw returns the JSON, without space around it; nil if the value is not there. It must not be changed.
func (v Value) Raw() []byte { return v.raw }

// Offset returns where the value stands in that which its walk began with.
func (v Value) Offset() int { return int(v.from) }

// Kind returns the first byte, which tells the type; 0 if the value is not there.
func (v Value) Kind() byte {
	if v.raw == nil {
		return 0
	}
	return v.raw[0]
}

// TypeName returns the type of the value in words.
func (v Value) TypeName() string { return typeName(v.Kind()) }

// IsText reports whether the value is a string.
func (v Value) IsText() bool { return v.Kind() == '"' }

// IsBool reports whether the value is true or false.
func (v Value) IsBool() bool { return v.Kind() == 't' || v.Kind() == 'f' }

// IsNumber reports whether the value is a number.
func (v Value) IsNumber() bool { return v.Kind() == '-' || '0' <= v.Kind() && v.Kind() <= '9' }

// Holds reports whether the value can be an address, or have one in it: a string, an object or an array.
func (v Value) Holds() bool { return v.Kind() == '"' || v.Kind() == '{' || v.Kind() == '[' }

// Text returns the unescaped text of a string; empty for any other value.
func (v Value) Text() string {
	if !v.IsText() {
		return ""
	}
	return jsonscan.Unquote(v.raw)
}

// Is reports whether the value is the string s.
func (v Value) Is(s string) bool {
	switch n := len(v.raw) - len(`""`); { // escapes are longer than what they stand for
	case n < len(s) || v.raw[0] != '"':
		return false
	case n == len(s):
		return string(v.raw[1:n+1]) == s
	}
	return v.Size() == len(s) && jsonscan.Equal(v.raw, s)
}

// Among returns the text of a string. Nothing is allocated if it is one of the words.
func (v Value) Among(words []string) string {
	if i := slices.IndexFunc(words, v.Is); i >= 0 {
		return words[i]
	}
	return v.Text()
}

// Size returns how many bytes the text of a string has, unescaped.
func (v Value) Size() int {
	if v.doc != nil {
		return int(v.doc.list[v.at].size)
	}
	_, size, _ := jsonscan.String(v.raw, 0)
	return size
}

// Inside returns what stands between the quotes of a string, still escaped.
func (v Value) Inside() []byte { return v.raw[1 : len(v.raw)-1] }

// Number returns the value of a number; 0 for any other value.
func (v Value) Number() float64 {
	if !v.IsNumber() {
		return 0 // ParseFloat would make an error of it
	}
	f, _ := strconv.ParseFloat(string(v.raw), 64) // Check has refused what a float64 cannot hold
	return f
}

// IsEmpty reports whether an array or an object holds nothing.
func (v Value) IsEmpty() bool {
	c := v.raw[jsonscan.Space(v.raw, 1)]
	return c == ']' || c == '}'
}

// Len returns how many elements an array has, or how many members an object.
func (v Value) Len() (n int) {
	for w := v.Walk(); w.Next(); {
		n++
	}
	return n
}

// Member returns the member of an object with a name. It is the zero Value if there is none, or if v is no object.
func (v Value) Member(name string) Value {
	if v.Kind() == '{' && v.doc != nil && v.doc.list[v.at].next > 0 {
		return v.indexed(name)
	}
	for w := v.Walk(); w.Next(); {
		if string(w.Key) == name {
			return w.Value
		}
	}
	return Value{}
}

// indexed is Member for an object with an index.
// It compares lengths first and decodes only keys that have escapes.
func (v Value) indexed(name string) Value {
	list := v.doc.list
	base, end := list[v.at].from, list[v.at].next
	for i := v.at + 1; i < end; {
		k, n := &list[i], &list[i+1]
		if int(k.size) == len(name) {
			key := v.raw[k.from-base : k.to-base]
			if plain := len(key) == len(name)+2; plain && string(key[1:len(key)-1]) == name || !plain && jsonscan.Equal(key, name) {
				return Value{raw: v.raw[n.from-base : n.to-base : n.to-base], doc: v.doc, at: i + 1, from: n.from}
			}
		}
		i = max(n.next, i+2)
	}
	return Value{}
}

// Given is Member for an optional field: one that is null counts as not there.
func (v Value) Given(name string) Value {
	if m := v.Member(name); !m.Null() {
		return m
	}
	return Value{}
}

// Path returns the path that leads to a value inside of v, such as input[2].content; empty for v itself.
// It descends into the one child that contains the place of the value, so that paths cost nothing
// until there is a problem to report.
func (v Value) Path(to Value) string {
	var path []byte
	for at := v; at.from != to.from; {
		w := at.Walk()
		for w.Next() && to.from >= w.Value.from+int32(len(w.Value.raw)) {
		}
		switch {
		case w.Value.raw == nil: // it is nowhere in v
			return string(path)
		case !w.object:
			path = append(strconv.AppendInt(append(path, '['), int64(w.Index), 10), ']')
		case len(path) == 0:
			path = append(path, w.Key...)
		default:
			path = append(append(path, '.'), w.Key...)
		}
		at = w.Value
	}
	return string(path)
}

// Walk goes over the members of an object, or over the elements of an array:
//
//	for w := v.Walk(); w.Next(); {
//
// Over an indexed value it moves from node to node; without an index it searches for the end of
// each value.
type Walk struct {
	Key   []byte // of a member, unescaped; valid until Next
	Index int    // of an element, or how many members were before
	Value Value

	in     []byte // the JSON that it goes over
	doc    *document
	pos    int   // the next byte of in
	node   int32 // the next place in doc
	end    int32
	base   int32 // where in begins in the text
	object bool
}

// Walk returns a walk over what is in the value. For a value that is neither an object nor an array it ends at once.
func (v Value) Walk() Walk {
	w := Walk{Index: -1}
	if v.Kind() != '{' && v.Kind() != '[' {
		return w
	}
	w.in, w.object, w.base = v.raw, v.raw[0] == '{', v.from
	if v.doc != nil {
		if n := &v.doc.list[v.at]; n.next > 0 {
			w.doc, w.node, w.end = v.doc, v.at+1, n.next
			return w
		}
	}
	w.pos = jsonscan.Space(v.raw, 1)
	return w
}

// Next moves to the next member or element and reports whether there is one.
func (w *Walk) Next() bool {
	if w.doc == nil {
		return w.search()
	}
	if w.node == w.end {
		return false
	}
	w.Index++
	if w.object {
		k := &w.doc.list[w.node]
		w.Key = w.in[k.from-w.base+1 : k.to-w.base-1]
		if int(k.size) != len(w.Key) { // it has escapes
			w.key(w.in[k.from-w.base : k.to-w.base])
		}
		w.node++
	}
	n := &w.doc.list[w.node]
	w.Value = Value{raw: w.in[n.from-w.base : n.to-w.base : n.to-w.base], doc: w.doc, at: w.node, from: n.from}
	w.node = max(n.next, w.node+1)
	return true
}

// search is Next without an index.
func (w *Walk) search() bool {
	if w.pos >= len(w.in) || w.in[w.pos] == '}' || w.in[w.pos] == ']' {
		return false
	}
	w.Index++
	if w.object {
		end := jsonscan.After(w.in, w.pos)
		w.key(w.in[w.pos:end])
		w.pos = jsonscan.Space(w.in, jsonscan.Space(w.in, end)+1) // after the colon
	}
	end := jsonscan.After(w.in, w.pos)
	w.Value = Value{raw: w.in[w.pos:end:end], from: w.base + int32(w.pos)}
	if w.pos = jsonscan.Space(w.in, end); w.pos < len(w.in) && w.in[w.pos] == ',' {
		w.pos = jsonscan.Space(w.in, w.pos+1)
	}
	return true
}

// key sets the key, of which nearly none has escapes.
func (w *Walk) key(raw []byte) {
	if w.Key = raw[1 : len(raw)-1]; bytes.IndexByte(w.Key, '\\') >= 0 {
		w.Key = []byte(jsonscan.Unquote(raw))
	}
}

// value reads a value of a Shape like skipAs, and adds it to the index. Only what has a Shape is looked into.
// Strings are always indexed, because callers ask for their size.
func (s *scanner) value(of Shape, list []node) []node {
	c, at := s.peek(), len(list)
	if at == maxNodes {
		s.skipAs(of)
		return list
	}
	list = append(list, node{from: int32(s.pos)})
	switch {
	case c == '"':
		t, _ := s.quoted()
		list[at].size = int32(t.size)
	case of == nil || c != '{' && c != '[':
		s.skip()
	case s.enter(c == '{'):
		return s.all(of, list)
	}
	list[at].to = int32(s.pos)
	return list
}

// all reads the object or array that was entered last, and whose node is the last of the index.
// If the index is full, next stays 0 and a Walk searches instead.
func (s *scanner) all(of Shape, list []node) []node {
	at := len(list) - 1
	if f := s.frames[len(s.frames)-1]; !f.object {
		for s.element() {
			list = s.value(of, list)
		}
	} else {
		for s.member() {
			f := s.frames[len(s.frames)-1]
			inner, ok := of[string(s.key)]
			if !ok && s.respells(of) {
				break
			}
			if len(list) < maxNodes {
				list = append(list, node{from: f.from, to: f.to, size: int32(len(s.key))})
			}
			list = s.value(inner, list)
		}
	}
	list[at].to = int32(s.pos)
	if len(list) < maxNodes {
		list[at].next = int32(len(list))
	}
	return list
}
