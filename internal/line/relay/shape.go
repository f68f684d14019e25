package relay

import (
	"bytes"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// maxDepth bounds how deeply the values of a reply may be nested that are skipped unread. Deeper ones are left
// to the decoder, which has a bound of its own.
const maxDepth = 64

// span is a part of a reply: raw[from:to].
type span struct{ from, to int }

// empty reports whether there is nothing between from and to. An empty string has from > 0; an
// absent one is the zero span.
func (s span) empty() bool { return s.from == s.to }

// shape is the result of one scan of a chunk or a whole reply of the OpenAI dialect: enough to send its
// choices on as they are. The spans are places in the bytes that were scanned.
//
// The usual shape has at most one choice, whose delta or message contains only texts, and no error. Tool
// calls, several choices in one chunk, unknown finish reasons and anything odd go to the decoder, which is
// several times slower and knows every dialect.
//
// All spans are offsets into one slice, so a shape is valid as long as those bytes are.
type shape struct {
	choices span   // the array, with its brackets
	lines   bool   // the array contains line ends, which would end an event too early
	usage   span   // the object; empty if it is null or absent
	tier    string // the service tier; empty if it is none that clients know

	one       bool // there is exactly one choice; the fields below are about it
	index     int
	role      bool        // it has "role":"assistant"
	content   span        // the inside of the content string
	reasoning span        // the inside of the reasoning_content string
	refusal   span        // the inside of the refusal string
	bare      bool        // the delta or message has no member at all
	finish    chat.Finish // empty: null or absent
	hasFinish bool        // finish_reason is present, if only as null
	others    bool        // it has annotations or audio, which go out as they are

	// Of a whole reply: what it has, if only as null, and where the rest can be added.
	hasContent, hasRefusal, hasLogprobs bool
	partEnd, choiceEnd                  int  // of the message and the choice: the place of its closing brace
	fingerprint                         span // the inside of the system_fingerprint string
}

// produced reports whether the choice has any text.
func (s *shape) produced() bool {
	return !s.content.empty() || !s.reasoning.empty() || !s.refusal.empty() || s.others
}

// scanReply scans a reply of the usual form. Part is "delta" for a chunk and "message" for a whole reply.
// It reports false for anything that needs the decoder. Wrongly reporting false costs time; wrongly
// reporting true would send something that breaks the rules. So it accepts only what it knows, and each
// member at most once: parsers disagree about which of two counts.
//
// The members below are those that matter to us or to the caller. Everything else is checked for
// syntax and skipped: the bytes outside of choices are not sent.
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
			return c.Null() // the decoder turns an error into a fault
		case "system_fingerprint":
			if part != "message" || c.Next() == 'n' {
				return c.Skip(maxDepth - 1) // chunks go out without it
			}
			var ok bool
			again := s.fingerprint.to > 0
			s.fingerprint.from, s.fingerprint.to, ok = c.Text()
			return ok && !again
		case "service_tier":
			if s.tier = ""; c.Next() != '"' {
				return c.Skip(maxDepth - 1)
			}
			from, to, ok := c.Text()
			if ok {
				s.tier = provider.TierOf(string(raw[from:to]))
			}
			return ok && bytes.IndexByte(raw[from:to], '\\') < 0 // an escape is for the decoder
		case "x_groq":
			return c.Null() // it may contain the usage, which the decoder finds
		default:
			return c.Skip(maxDepth - 1)
		}
	})
	return s, ok && seen && c.End()
}

// scanChoices scans an array of one choice or none.
// The index and the part must be there. Three digits are enough for an index: n is at most 128.
func (s *shape) scanChoices(c *jsonscan.Cursor, part string) bool {
	if !c.Take('[') {
		return false
	}
	if c.Take(']') {
		return true
	}
	s.one = true
	var members [3]bool // index, part and finish_reason: each may occur once
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
			ok := once(1) && s.scanPart(c)
			s.partEnd = c.Pos - 1
			return ok
		case "delta", "message", "error":
			return false // the other part, or a failure inside a choice: both are for the decoder
		case "finish_reason":
			s.hasFinish = true
			return once(2) && s.scanFinish(c)
		case "logprobs":
			again := s.hasLogprobs
			s.hasLogprobs = true
			return !again && c.Skip(maxDepth-3)
		default:
			return c.Skip(maxDepth - 3)
		}
	})
	s.choiceEnd = c.Pos - 1
	return ok && members[0] && members[1] && c.Take(']')
}

// scanFinish scans a finish reason, or null. Reasons outside the standard are for the decoder, which maps
// them.
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

// scanPart scans a delta or message that contains only texts.
// A null, or an empty array, says nothing and may stand under any key.
func (s *shape) scanPart(c *jsonscan.Cursor) bool {
	s.bare = true
	var reasoning bool
	return c.Members(func(key []byte) bool {
		s.bare = false
		switch string(key) {
		case "role":
			from, to, ok := c.Text()
			ok = ok && !s.role && string(c.Body[from:to]) == "assistant"
			s.role = true
			return ok
		case "content":
			return s.scanText(c, &s.content, &s.hasContent)
		case "reasoning_content":
			return s.scanText(c, &s.reasoning, &reasoning)
		case "refusal":
			return s.scanText(c, &s.refusal, &s.hasRefusal)
		case "annotations", "audio":
			if c.Null() || c.Word("[]") {
				return true
			}
			s.others = true
			return c.Skip(maxDepth - 5)
		default:
			// tool_calls, reasoning and any other member that is not empty are for the decoder.
			return c.Null() || c.Word("[]")
		}
	})
}

// scanText scans a string or null, and refuses the second one of a key.
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
