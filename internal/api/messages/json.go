package messages

import (
	"bytes"
	"strconv"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/jsonscan"
)

// value is the JSON of one value, without space around it. chat.Check has accepted the body that it is part of, so its
// methods read valid JSON and do not check it again. A nil value is absent.
type value []byte

// absent reports whether the value is null or not there: for an optional field both mean the same.
func (v value) absent() bool { return v == nil || v[0] == 'n' }

// is reports whether the value begins with c, which tells its type: one of { [ " t f n, or a digit or - for a number.
func (v value) is(c byte) bool { return v != nil && v[0] == c }

func (v value) isBool() bool   { return v.is('t') || v.is('f') }
func (v value) isNumber() bool { return v != nil && (v[0] == '-' || '0' <= v[0] && v[0] <= '9') }

// text returns the unescaped text of a string.
func (v value) text() string { return jsonscan.Unquote(v) }

// inside returns what stands between the quotes of a string, still escaped.
func (v value) inside() []byte { return v[1 : len(v)-1] }

// number returns the value of a number.
func (v value) number() float64 {
	f, _ := strconv.ParseFloat(string(v), 64) // chat.Check has refused what a float64 cannot hold
	return f
}

// members calls each for every member of an object. The key is unescaped and valid during the call.
func (v value) members(each func(key []byte, v value)) {
	i := jsonscan.Space(v, 1)
	for v[i] != '}' {
		end := stringEnd(v, i)
		key := v[i+1 : end-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key = value(jsonscan.Unquote(v[i:end]))
		}
		i = jsonscan.Space(v, jsonscan.Space(v, end)+1) // behind the colon
		end = skip(v, i)
		each(key, v[i:end])
		if i = jsonscan.Space(v, end); v[i] == ',' {
			i = jsonscan.Space(v, i+1)
		}
	}
}

// elements calls each for every element of an array.
func (v value) elements(each func(i int, v value)) {
	i := jsonscan.Space(v, 1)
	for n := 0; v[i] != ']'; n++ {
		end := skip(v, i)
		each(n, v[i:end])
		if i = jsonscan.Space(v, end); v[i] == ',' {
			i = jsonscan.Space(v, i+1)
		}
	}
}

// member returns the member of an object with a name; nil if it has none.
func (v value) member(name string) (found value) {
	v.members(func(key []byte, v value) {
		if string(key) == name {
			found = v
		}
	})
	return found
}

// skip returns the index behind the value that begins at b[i].
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
	default:
		for i < len(b) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(b[i])) {
			i++
		}
		return i
	}
	for depth := 0; ; {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// stringEnd returns the index behind the string that begins at b[i]. A quote ends it unless an odd number of
// backslashes stands before the quote.
func stringEnd(b []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(b[i:], '"')
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// maxEcho is how many bytes of a caller's text a message repeats.
const maxEcho = 40

// show returns the beginning of a text in the quotes that the dialect's messages use. It has no line breaks.
func show(text string) string {
	quoted := strconv.Quote(excerpt.Of(text, maxEcho))
	return "'" + quoted[1:len(quoted)-1] + "'"
}

// isPlain reports whether s has only letters, digits, hyphens and underscores, and is not empty.
func isPlain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}
