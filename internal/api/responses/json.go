package responses

import (
	"bytes"
	"iter"
	"strconv"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/jsonscan"
)

// value is the JSON of one value, without space around it. Package chat has checked the body that it is part of, so
// everything here reads valid JSON and no object has a key twice. Its methods do not check again. The zero value is a
// value that is absent.
type value []byte

// at returns the value that begins at b[i], and the index behind it. Space before it is skipped.
func at(b []byte, i int) (value, int) {
	i = jsonscan.Space(b, i)
	end := skip(b, i)
	return value(b[i:end]), end
}

// skip returns the index behind the value that begins at b[i].
func skip(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = closing(b, i)
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		default:
			if depth == 0 {
				return word(b, i)
			}
		}
	}
	return i
}

// word returns the index behind the number or the literal that begins at b[i].
func word(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

// closing returns the index of the closing quote of the string that begins at b[i].
func closing(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b) - 1
		}
		// An escaped quote has an odd number of backslashes before it.
		j := i + n
		slashes := 0
		for k := j - 1; k >= i && b[k] == '\\'; k-- {
			slashes++
		}
		if i = j; slashes%2 == 0 {
			return i
		}
	}
	return len(b) - 1
}

// members yields the keys and values of an object. It yields nothing for a value of another type.
func (v value) members() iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		if v.kind() != '{' {
			return
		}
		for i := jsonscan.Space(v, 1); i < len(v) && v[i] == '"'; {
			end := closing(v, i) + 1
			key := jsonscan.Unquote(v[i:end])
			i = jsonscan.Space(v, end) + 1 // behind the colon
			member, end := at(v, i)
			if !yield(key, member) {
				return
			}
			i = jsonscan.Space(v, end)
			if i < len(v) && v[i] == ',' {
				i = jsonscan.Space(v, i+1)
			}
		}
	}
}

// elements yields the elements of an array. It yields nothing for a value of another type.
func (v value) elements() iter.Seq2[int, value] {
	return func(yield func(int, value) bool) {
		if v.kind() != '[' {
			return
		}
		i := jsonscan.Space(v, 1)
		for n := 0; i < len(v) && v[i] != ']'; n++ {
			element, end := at(v, i)
			if !yield(n, element) {
				return
			}
			i = jsonscan.Space(v, end)
			if i < len(v) && v[i] == ',' {
				i = jsonscan.Space(v, i+1)
			}
		}
	}
}

// member returns a member of an object; the zero value if it is absent or null.
func (v value) member(name string) value {
	for key, member := range v.members() {
		if key == name {
			if member.null() {
				return nil
			}
			return member
		}
	}
	return nil
}

// kind returns the first byte, which tells the type; 0 if the value is absent.
func (v value) kind() byte {
	if len(v) == 0 {
		return 0
	}
	return v[0]
}

// null reports whether the value is null or absent.
func (v value) null() bool { return v.kind() == 0 || v.kind() == 'n' }

// text returns the text of a string; empty for other types.
func (v value) text() string {
	if v.kind() != '"' {
		return ""
	}
	return jsonscan.Unquote(v)
}

// is reports whether the value is the string s.
func (v value) is(s string) bool { return v.kind() == '"' && jsonscan.Equal(v, s) }

// maxEcho is how many bytes of the caller's input a message repeats.
const maxEcho = 40

// describe names the value for a message: an object or an array by its type, anything else by its beginning.
func (v value) describe() string {
	switch v.kind() {
	case 0:
		return "nothing"
	case '{', '[', 'n':
		return v.typeName()
	case '"':
		// Only the beginning is unescaped: a text may be megabytes long.
		if len(v) > 8*maxEcho {
			return strconv.Quote(excerpt.Of(jsonscan.Unquote(cutString(v, 4*maxEcho)), maxEcho))
		}
		return strconv.Quote(excerpt.Of(v.text(), maxEcho))
	}
	return excerpt.Of(string(v), maxEcho)
}

// cutString returns a JSON string of about the first n bytes of another one.
func cutString(v value, n int) value {
	out := value{'"'}
	for i := 1; i < n; {
		_, size := jsonscan.Rune(v[i : len(v)-1])
		out = append(out, v[i:i+size]...)
		i += size
	}
	return append(out, '"')
}

// typeName returns the type of the value in words.
func (v value) typeName() string {
	switch v.kind() {
	case 0:
		return "nothing"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
