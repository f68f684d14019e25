package relay

import (
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// scanUsage reads a usage object. The usual one is scanned by hand, because every reply has one: 0.5 µs
// instead of 3.6 in the decoder. Figures that do not add up are for the decoder, which has the rules for
// them. It reports false if there is no usage.
func scanUsage(raw []byte) (chat.Usage, bool) {
	if len(raw) == 0 {
		return chat.Usage{}, false
	}
	prompt, completion, total, cached, written, reasoning := -1, -1, 0, 0, 0, 0 // -1: absent
	c := jsonscan.Cursor{Body: raw}
	ok := c.Members(func(key []byte) bool {
		switch string(key) {
		case "prompt_tokens":
			return readCount(&c, &prompt)
		case "completion_tokens":
			return readCount(&c, &completion)
		case "total_tokens":
			return readCount(&c, &total)
		case "prompt_tokens_details":
			return c.Null() || readDetails(&c, detail{"cached_tokens", &cached}, detail{"cache_write_tokens", &written})
		case "completion_tokens_details":
			return c.Null() || readDetails(&c, detail{"reasoning_tokens", &reasoning})
		default:
			return isPlainKey(key) && c.Skip(maxDepth-1)
		}
	})
	// The decoder decides about anything that is not plain: parts that exceed their whole, a total that
	// exceeds its parts, zeros, and huge numbers.
	if !ok || !c.End() || prompt <= 0 || completion <= 0 || cached+written > prompt || reasoning > completion || total > prompt+completion || max(prompt, completion) > usualTokens {
		return provider.ReadUsage(raw)
	}
	return chat.Usage{Prompt: prompt - cached, Cached: cached, CacheWrite5m: written, Completion: completion - reasoning, Reasoning: reasoning}, true
}

// detail is a member of a details object.
type detail struct {
	name string
	to   *int
}

// readDetails reads members of a details object and skips the others.
func readDetails(c *jsonscan.Cursor, wanted ...detail) bool {
	return c.Members(func(key []byte) bool {
		for _, d := range wanted {
			if string(key) == d.name {
				return readCount(c, d.to)
			}
		}
		return isPlainKey(key) && c.Skip(maxDepth-2)
	})
}

// isPlainKey reports whether a key is in lower case without escapes. The decoder also accepts other
// spellings of the keys that we look for, so an odd key must go there.
func isPlainKey(key []byte) bool {
	for _, ch := range key {
		if (ch < 'a' || ch > 'z') && ch != '_' && (ch < '0' || ch > '9') {
			return false
		}
	}
	return true
}

// usualTokens is the largest number of tokens that the scan accepts. Larger ones are likely a mistake of
// the upstream, and the decoder has the rules for those.
const usualTokens = 10_000_000

// readCount reads a whole number of tokens. Null leaves the value as it is. Twelve digits cannot overflow an int.
// A leading zero, a fraction and an exponent are for the decoder.
func readCount(c *jsonscan.Cursor, to *int) bool {
	if c.Next() == 'n' {
		return c.Null()
	}
	v, ok := c.Uint(12)
	if ok {
		*to = v
	}
	return ok
}
