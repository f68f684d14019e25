package messages

import (
	"strconv"

	"sluice/internal/kit/excerpt"
)

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
