package responses

import (
	"strconv"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
)

// maxEcho is how many bytes of the caller's input a message repeats.
const maxEcho = 40

// describe names a value for a message: an object or an array by its type, anything else by its beginning.
func describe(v chat.Value) string {
	switch v.Kind() {
	case 0:
		return "nothing"
	case '{', '[', 'n':
		return v.TypeName()
	case '"':
		// Only the beginning is unescaped: a text may be megabytes long.
		if len(v.Raw()) > 8*maxEcho {
			return strconv.Quote(excerpt.Of(jsonscan.Unquote(cutString(v.Raw(), 4*maxEcho)), maxEcho))
		}
		return strconv.Quote(excerpt.Of(v.Text(), maxEcho))
	}
	return excerpt.Of(string(v.Raw()), maxEcho)
}

// cutString returns a JSON string of about the first n bytes of another one.
func cutString(v []byte, n int) []byte {
	out := []byte{'"'}
	for i := 1; i < n; {
		_, size := jsonscan.Rune(v[i : len(v)-1])
		out = append(out, v[i:i+size]...)
		i += size
	}
	return append(out, '"')
}
