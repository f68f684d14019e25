package jsonscan

import "bytes"

// After returns the index after the value that begins at b[i]. The value must have been checked: After looks only for
// its end. For what is no JSON it returns some index up to len(b).
// It need not match braces with brackets: in a value that was checked, counting both together is
// enough.
func After(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = afterString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			if depth == 0 {
				return afterWord(b, i)
			}
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return len(b)
}

// afterWord returns the index after the number or the literal that begins at b[i].
func afterWord(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

// afterString returns the index after the string that begins at b[i]. A quote ends it unless an odd number of backslashes
// comes before the quote.
// It searches for quotes and then looks back, because bytes.IndexByte is much faster than a loop
// over bytes, and few strings have escaped quotes.
func afterString(b []byte, i int) int {
	from := i
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		i += n
		slashes := 0
		for i-1-slashes > from && b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
	return len(b)
}
