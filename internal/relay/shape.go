package relay

import "sluice/internal/chat"

// shape is what one scan finds out about a chunk or a whole reply of the OpenAI dialect: enough to
// hand its choices on as they are.
type shape struct {
	choices span // the array, with its brackets
	lines   bool // there are line ends in it, which an event cannot hold
	usage   span // the object; empty where null or absent

	one       bool // there is exactly one choice, and the rest of this is about it
	index     int
	role      bool // "role":"assistant"
	content   span // inside of the content string
	reasoning span // inside of the reasoning_content string
	refusal   span
	bare      bool // the delta or message has no member at all
	finish    chat.Finish
	hasFinish bool // the member is there, if only as null
}

// produced reports whether there is any text in it.
func (s *shape) produced() bool {
	return !s.content.empty() || !s.reasoning.empty() || !s.refusal.empty()
}

// scanReply reads a reply of the usual form; part is "delta" for a chunk, "message" for a whole
// reply. It reports false for anything that needs the decoder.
func scanReply(raw []byte, part string) (shape, bool) {
	var s shape
	c := cursor{b: raw}
	seen := false
	ok := c.members(func(key []byte) bool {
		switch string(key) {
		case "choices":
			if seen {
				return false
			}
			seen = true
			from := c.i
			c.lines = false
			ok := s.scanChoices(&c, part)
			s.choices, s.lines = span{from, c.i}, c.lines
			return ok
		case "usage":
			if c.next() == 'n' {
				return c.null()
			}
			from := c.i
			ok := s.usage.empty() && c.next() == '{' && c.skip(1)
			s.usage = span{from, c.i}
			return ok
		case "error":
			return c.null() // an error beside or instead of choices is not usual
		case "x_groq":
			return c.null() // it may hold figures
		default:
			return c.skip(1)
		}
	})
	return s, ok && seen && c.end()
}

// scanChoices reads an array of one choice, or of none.
func (s *shape) scanChoices(c *cursor, part string) bool {
	if !c.take('[') {
		return false
	}
	if c.take(']') {
		return true
	}
	s.one = true
	var members [3]bool // index, part, finish_reason: each once
	once := func(i int) bool {
		was := members[i]
		members[i] = true
		return !was
	}
	ok := c.members(func(key []byte) bool {
		switch string(key) {
		case "index":
			var ok bool
			s.index, ok = c.small()
			return ok && once(0)
		case part:
			return once(1) && s.scanPart(c)
		case "delta", "message", "error":
			return false
		case "finish_reason":
			s.hasFinish = true
			return once(2) && s.scanFinish(c)
		default:
			return c.skip(3)
		}
	})
	return ok && members[0] && members[1] && c.take(']')
}

func (s *shape) scanFinish(c *cursor) bool {
	if c.next() == 'n' {
		return c.null()
	}
	word, ok := c.text()
	if !ok {
		return false
	}
	switch f := chat.Finish(c.b[word.from:word.to]); f {
	case chat.FinishStop, chat.FinishLength, chat.FinishContentFilter, chat.FinishToolCalls:
		s.finish = f
		return true
	}
	return false
}

// scanPart reads a delta or message that holds texts alone.
func (s *shape) scanPart(c *cursor) bool {
	s.bare = true
	var content, reasoning, refusal bool
	return c.members(func(key []byte) bool {
		s.bare = false
		switch string(key) {
		case "role":
			word, ok := c.text()
			ok = ok && !s.role && string(c.b[word.from:word.to]) == "assistant"
			s.role = true
			return ok
		case "content":
			return s.scanText(c, &s.content, &content)
		case "reasoning_content":
			return s.scanText(c, &s.reasoning, &reasoning)
		case "refusal":
			return s.scanText(c, &s.refusal, &refusal)
		default:
			// tool_calls, reasoning and what else may hold something are the decoder's.
			return c.null() || c.word("[]")
		}
	})
}

// scanText reads a string or null, once.
func (s *shape) scanText(c *cursor, to *span, seen *bool) bool {
	if *seen {
		return false
	}
	*seen = true
	if c.next() == 'n' {
		return c.null()
	}
	var ok bool
	*to, ok = c.text()
	return ok
}
