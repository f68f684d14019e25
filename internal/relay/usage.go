package relay

import (
	"sluice/internal/chat"
	"sluice/internal/jsonscan"
	"sluice/internal/provider"
)

// scanUsage reads a usage object. The usual one is scanned by hand, since every reply has one: 0.5 µs
// instead of 3.6. It reports false for what is no usage.
func scanUsage(raw []byte) (chat.Usage, bool) {
	if len(raw) == 0 {
		return chat.Usage{}, false
	}
	prompt, completion, total, cached, reasoning := -1, -1, 0, 0, 0
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
			return c.Null() || readDetail(&c, "cached_tokens", &cached)
		case "completion_tokens_details":
			return c.Null() || readDetail(&c, "reasoning_tokens", &reasoning)
		default:
			return isPlainKey(key) && c.Skip(maxDepth-1)
		}
	})
	if !ok || !c.End() || prompt <= 0 || completion <= 0 || cached > prompt || reasoning > completion || total > prompt+completion || max(prompt, completion) > usualTokens {
		return provider.ReadUsage(raw)
	}
	return chat.Usage{Prompt: prompt - cached, Cached: cached, Completion: completion - reasoning, Reasoning: reasoning}, true
}

// readDetail reads the one member that counts of a details object.
func readDetail(c *jsonscan.Cursor, name string, to *int) bool {
	return c.Members(func(key []byte) bool {
		if string(key) == name {
			return readCount(c, to)
		}
		return isPlainKey(key) && c.Skip(maxDepth-2)
	})
}

// isPlainKey reports whether a key can only mean what it says: the decoder also takes other spellings.
func isPlainKey(key []byte) bool {
	for _, ch := range key {
		if (ch < 'a' || ch > 'z') && ch != '_' && (ch < '0' || ch > '9') {
			return false
		}
	}
	return true
}

// usualTokens bounds what is taken without a second look.
const usualTokens = 10_000_000

// readCount reads a whole number of tokens, or null, which leaves to as it is. Twelve digits are more than any reply has.
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
