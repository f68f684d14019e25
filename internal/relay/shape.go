package relay

import "sluice/internal/chat"

// shape is the result of one scan of a chunk or a whole reply of the OpenAI dialect: enough to send its
// choices on as they are. The spans are places in the bytes that were scanned.
//
// The usual shape has at most one choice, whose delta or message contains only texts, and no error. Tool
// calls, several choices in one chunk, unknown finish reasons and anything odd go to the decoder, which is
// several times slower and knows every dialect.
type shape struct {
	choices span // the array, with its brackets
	lines   bool // the array contains line ends, which would end an event too early
	usage   span // the object; empty if it is null or absent

	one       bool // there is exactly one choice; the fields below are about it
	index     int
	role      bool        // it has "role":"assistant"
	content   span        // the inside of the content string
	reasoning span        // the inside of the reasoning_content string
	refusal   span        // the inside of the refusal string
	bare      bool        // the delta or message has no member at all
	finish    chat.Finish // empty: null or absent
	hasFinish bool        // finish_reason is present, if only as null
}

// produced reports whether the choice has any text.
func (s *shape) produced() bool {
	return !s.content.empty() || !s.reasoning.empty() || !s.refusal.empty()
}

// scanReply scans a reply of the usual form. Part is "delta" for a chunk and "message" for a whole reply.
// It reports false for anything that needs the decoder. Wrongly reporting false costs time; wrongly
// reporting true would send something that breaks the rules. So it accepts only what it knows, and each
// member at most once: parsers disagree about which of two counts.
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
			c.lines = false // line ends before the choices do not matter: only the choices go out
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
			return c.null() // the decoder turns an error into a fault
		case "x_groq":
			return c.null() // it may contain the usage, which the decoder finds
		default:
			return c.skip(1)
		}
	})
	return s, ok && seen && c.end()
}

// scanChoices scans an array of one choice or none.
func (s *shape) scanChoices(c *cursor, part string) bool {
	if !c.take('[') {
		return false
	}
	if c.take(']') {
		return true
	}
	s.one = true
	var members [3]bool // index, part and finish_reason: each may occur once
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
			return false // the other part, or a failure inside a choice: both are for the decoder
		case "finish_reason":
			s.hasFinish = true
			return once(2) && s.scanFinish(c)
		default:
			return c.skip(3)
		}
	})
	return ok && members[0] && members[1] && c.take(']')
}

// scanFinish scans a finish reason, or null. Reasons outside the standard are for the decoder, which maps
// them.
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

// scanPart scans a delta or message that contains only texts.
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
			// tool_calls, reasoning and any other member that is not empty are for the decoder.
			return c.null() || c.word("[]")
		}
	})
}

// scanText scans a string or null, and refuses the second one of a key.
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
