package responses

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"sluice/internal/prompt/chat"
)

// maxWire is how long the name of a function may be in a chat completion, in bytes.
const maxWire = 64

// separator stands between a namespace and a name where there are no namespaces.
const separator = "__"

// isNameByte reports whether the name of a function may hold a byte.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// wireName returns the name that a model knows a tool by: with its namespace in front, in the letters of names, and
// shortened if it is too long. It depends on nothing else, so that it is the same in every turn.
func wireName(namespace, name string) string {
	if (namespace == "" || namespace == searches) && len(name) <= maxWire {
		return name
	}
	whole := name
	if namespace != "" {
		whole = strings.TrimSuffix(namespace, separator) + separator + name
	}
	whole = strings.Map(func(r rune) rune {
		if r < 0x80 && isNameByte(byte(r)) {
			return r
		}
		return '_'
	}, whole)
	if len(whole) > maxWire {
		return marked(whole, namespace, name)
	}
	return whole
}

// marked returns a name with a mark of the tool at its end, which no other tool has.
func marked(whole, namespace, name string) string {
	sum := sha256.Sum256([]byte(fullName(namespace, name)))
	mark := "_" + hex.EncodeToString(sum[:5])
	return whole[:min(len(whole), maxWire-len(mark))] + mark
}

// fullName returns what tells a tool from all others.
func fullName(namespace, name string) string { return namespace + "\x00" + name }

// shelf is a list of tools in which those with a name are found fast, however many there are.
type shelf struct {
	tools []tool
	at    map[string]int // by fullName; nil while there are few
}

// few is how many tools are compared one by one.
const few = 32

// find returns the index of a function or custom tool, or -1.
func (s *shelf) find(namespace, name string) int {
	if s.at != nil {
		if i, ok := s.at[fullName(namespace, name)]; ok {
			return i
		}
		return -1
	}
	for i := range s.tools {
		if t := &s.tools[i]; !t.server && t.name == name && t.namespace == namespace {
			return i
		}
	}
	return -1
}

// add adds a tool that is not on the shelf.
func (s *shelf) add(one tool) {
	s.tools = append(s.tools, one)
	if s.at == nil && len(s.tools) <= few {
		return
	}
	if s.at == nil {
		s.at = make(map[string]int, 4*few)
	}
	for i := len(s.at); i < len(s.tools); i++ { // all, when there are too many for the first time
		key := fullName(s.tools[i].namespace, s.tools[i].name)
		if s.tools[i].server {
			key = "\x00server\x00" + s.tools[i].name
		}
		s.at[key] = i
	}
}

// assemble fills the list with the tools of earlier turns and of the request, and gives each the name that the model knows it by.
// A tool of the request takes the place of one that an earlier turn has offered.
func (t *tools) assemble(earlier *shelf) {
	if len(earlier.tools)+len(t.declared.tools) == 0 {
		t.list = nil
		return
	}
	t.list, t.renamed, t.wires, t.custom = make([]tool, 0, len(earlier.tools)+len(t.declared.tools)), nil, nil, nil
	for i := range earlier.tools {
		if one := &earlier.tools[i]; t.declared.find(one.namespace, one.name) < 0 {
			t.list = append(t.list, *one)
		}
	}
	t.list = append(t.list, t.declared.tools...)
	taken := make(map[string]bool, len(t.list))
	for i := range t.list { // names of the caller come first
		if one := &t.list[i]; !one.server && one.namespace == "" && len(one.name) <= maxWire {
			one.wire, taken[one.name] = one.name, true
		}
	}
	for i := range t.list {
		one := &t.list[i]
		if !one.server && one.wire == "" {
			if one.wire = wireName(one.namespace, one.name); taken[one.wire] {
				one.wire = marked(one.wire, one.namespace, one.name)
			}
			taken[one.wire] = true
			t.rename(one)
		}
		if one.custom {
			if t.custom == nil {
				t.custom = map[string]bool{}
			}
			t.custom[one.wire] = true
		}
	}
}

// rename notes that the model knows a tool by another name.
func (t *tools) rename(one *tool) {
	if t.renamed == nil {
		t.renamed, t.wires = map[string]*tool{}, map[string]string{}
	}
	own := *one // the list may change
	t.renamed[one.wire], t.wires[fullName(one.namespace, one.name)] = &own, one.wire
}

// wireOf returns the name that the model knows a tool by which was called earlier. It need not be among the tools any more.
func (t *tools) wireOf(namespace, name string) string {
	if wire, ok := t.wires[fullName(namespace, name)]; ok {
		return wire
	}
	return wireName(namespace, name)
}

// build returns the tool as a chat completion has it.
func (t *tool) build() chat.Tool {
	if t.server {
		return t.chat
	}
	t.function.Name = t.wire
	b := make([]byte, 0, len(t.wire)+len(t.rest)+16)
	b = append(append(append(b, `{"name":"`...), t.wire...), '"')
	return chat.FunctionTool(t.function, append(append(b, t.rest...), '}'))
}
