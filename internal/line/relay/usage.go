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
	prompt, completion, total := -1, -1, 0 // -1: absent
	var d details
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
			return c.Null() || d.readPrompt(&c)
		case "completion_tokens_details":
			return c.Null() || d.readCompletion(&c)
		case "prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens":
			return false // a spelling of few vendors, for the decoder
		default:
			return isPlainKey(key) && c.Skip(maxDepth-1)
		}
	})
	// The decoder decides about anything that is not plain: parts that exceed their whole, a total that
	// exceeds its parts, zeros, and huge numbers.
	if !ok || !c.End() || prompt <= 0 || completion <= 0 || d.cached+d.written+d.audioIn+d.imageIn > prompt || d.reasoning+d.audioOut+d.imageOut > completion ||
		total > prompt+completion || max(prompt, completion) > usualTokens {
		return provider.ReadUsage(raw)
	}
	return chat.Usage{
		Prompt: prompt - d.cached, Cached: d.cached, CacheWrite: d.written, AudioIn: d.audioIn, ImageIn: d.imageIn,
		Completion: completion - d.reasoning, Reasoning: d.reasoning, AudioOut: d.audioOut, ImageOut: d.imageOut,
	}, true
}

// details are the parts of the prompt and of the completion.
type details struct {
	cached, written, audioIn, imageIn int
	reasoning, audioOut, imageOut     int
}

// readPrompt reads the parts of the prompt, and skips members that are not known.
func (d *details) readPrompt(c *jsonscan.Cursor) bool {
	return c.Members(func(key []byte) bool {
		switch string(key) {
		case "cached_tokens":
			return readCount(c, &d.cached)
		case "cache_write_tokens":
			return readCount(c, &d.written)
		case "audio_tokens":
			return readCount(c, &d.audioIn)
		case "image_tokens":
			return readCount(c, &d.imageIn)
		case "cache_creation_input_tokens", "cache_creation":
			return false // for the decoder
		default:
			return isPlainKey(key) && c.Skip(maxDepth-2)
		}
	})
}

// readCompletion reads the parts of the completion.
func (d *details) readCompletion(c *jsonscan.Cursor) bool {
	return c.Members(func(key []byte) bool {
		switch string(key) {
		case "reasoning_tokens":
			return readCount(c, &d.reasoning)
		case "audio_tokens":
			return readCount(c, &d.audioOut)
		case "image_tokens":
			return readCount(c, &d.imageOut)
		default:
			return isPlainKey(key) && c.Skip(maxDepth-2)
		}
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
