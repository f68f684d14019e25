package responses

import (
	"strconv"

	"sluice/internal/kit/excerpt"
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
		return strconv.Quote(excerpt.Of(v.Text(), maxEcho))
	}
	return excerpt.Of(string(v.Raw()), maxEcho)
}
