package relay

import (
	"bytes"

	"sluice/internal/chat"
	"sluice/internal/jsonscan"
)

// maxDepth bounds how deeply the values of a reply may be nested that are skipped unread. Deeper ones are left
// to the decoder, which has a bound of its own.
const maxDepth = 64

// span is a part of a reply: raw[from:to].
type span struct{ from, to int }

func (s span) empty() bool { return s.from == s.to }

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
	c := jsonscan.Cursor{Body: raw}
	seen := false
	ok := c.Members(func(key []byte) bool {
		switch string(key) {
		case "choices":
			if seen {
				return false
			}
			seen = true
			from := c.Pos
			ok := s.scanChoices(&c, part)
			s.choices = span{from, c.Pos}
			// In valid JSON a line end is white space between tokens: a string has to escape it.
			s.lines = bytes.IndexByte(raw[from:c.Pos], '\n') >= 0 || bytes.IndexByte(raw[from:c.Pos], '\r') >= 0
			return ok
		case "usage":
			if c.Next() == 'n' {
				return c.Null()
			}
			from := c.Pos
			ok := s.usage.empty() && c.Next() == '{' && c.Skip(maxDepth-1)
			s.usage = span{from, c.Pos}
			return ok
		case "error":
			return c.Null() // an error beside or instead of choices is not usual
		case "x_groq":
			return c.Null() // it may hold figures
		default:
			return c.Skip(maxDepth - 1)
		}
	})
	return s, ok && seen && c.End()
}

// scanChoices reads an array of one choice, or of none.
func (s *shape) scanChoices(c *jsonscan.Cursor, part string) bool {
	if !c.Take('[') {
		return false
	}
	if c.Take(']') {
		return true
	}
	s.one = true
	var members [3]bool // index, part, finish_reason: each once
	once := func(i int) bool {
		was := members[i]
		members[i] = true
		return !was
	}
	ok := c.Members(func(key []byte) bool {
		switch string(key) {
		case "index":
			var ok bool
			s.index, ok = c.Uint(3)
			return ok && once(0)
		case part:
			return once(1) && s.scanPart(c)
		case "delta", "message", "error":
			return false
		case "finish_reason":
			s.hasFinish = true
			return once(2) && s.scanFinish(c)
		default:
			return c.Skip(maxDepth - 3)
		}
	})
	return ok && members[0] && members[1] && c.Take(']')
}

func (s *shape) scanFinish(c *jsonscan.Cursor) bool {
	if c.Next() == 'n' {
		return c.Null()
	}
	from, to, ok := c.Text()
	if !ok {
		return false
	}
	switch f := chat.Finish(c.Body[from:to]); f {
	case chat.FinishStop, chat.FinishLength, chat.FinishContentFilter, chat.FinishToolCalls:
		s.finish = f
		return true
	}
	return false
}

// scanPart reads a delta or message that holds texts alone.
func (s *shape) scanPart(c *jsonscan.Cursor) bool {
	s.bare = true
	var content, reasoning, refusal bool
	return c.Members(func(key []byte) bool {
		s.bare = false
		switch string(key) {
		case "role":
			from, to, ok := c.Text()
			ok = ok && !s.role && string(c.Body[from:to]) == "assistant"
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
			return c.Null() || c.Word("[]")
		}
	})
}

// scanText reads a string or null, once.
func (s *shape) scanText(c *jsonscan.Cursor, to *span, seen *bool) bool {
	if *seen {
		return false
	}
	*seen = true
	if c.Next() == 'n' {
		return c.Null()
	}
	var ok bool
	to.from, to.to, ok = c.Text()
	return ok
}
