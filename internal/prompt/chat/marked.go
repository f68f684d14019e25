package chat

import "bytes"

// markKeys are the members with which callers mark what is to be kept of a prompt, with their quotes. In a text their quotes
// would be escaped, so a prompt that speaks of them has none.
var markKeys = [...][]byte{[]byte(`"cache_control"`), []byte(`"prompt_cache_breakpoint"`)}

// MarkedByCaller reports whether the caller has marked, or may have marked, what is to be kept of the prompt: on the request, a
// tool, a message or a part, in the words of any dialect.
func (r *Request) MarkedByCaller() bool {
	if r.marked {
		return true
	}
	raw := r.raw
	if r.Original != nil && r.Original.Body != nil {
		raw = r.Original.Body
	}
	for _, key := range markKeys {
		if bytes.Contains(raw, key) {
			return true
		}
	}
	return mayHide(raw)
}

// mayHide reports whether a key with a letter or an underscore may be hidden by an escape.
func mayHide(raw []byte) bool {
	for {
		_, rest, ok := bytes.Cut(raw, []byte(`\u00`))
		if !ok {
			return false
		}
		if len(rest) > 0 && rest[0] >= '5' && rest[0] <= '7' {
			return true
		}
		raw = rest
	}
}
