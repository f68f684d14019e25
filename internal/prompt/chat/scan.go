package chat

import (
	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
)

// maxDepth bounds how deeply objects and arrays may be nested. The contract's own structure needs
// eight levels; the rest is room for tool schemas and metadata.
const maxDepth = 128

// scanner reads a JSON body once, from front to back, and checks all of it: grammar, UTF-8, depth,
// and that no object has a key twice. Package jsonscan reads the tokens; the scanner adds what a
// message for the caller needs, the path to the value and the place in the body.
//
// The first problem is kept in fault. From then on pos is at the end of the body, so every further
// read finds nothing, and the code that reads needs no check after each step.
//
// A typical reader is: if object, then for member, a switch over key that reads exactly one value
// in each case.
type scanner struct {
	body  []byte
	pos   int          // of the next byte; len(body) once fault is set
	fault *fault.Fault // the first problem; nil: none so far

	frames []frame // the open objects and arrays, outermost first
	key    []byte  // the key that member read last, unescaped; valid until the next member
	seen   keyStack
}

// frame is an open object or array, and how far it has been read. The frames together are the path
// that messages name, which is built only when there is a problem.
type frame struct {
	mark     keyMark
	from, to int32 // the current key in the body, with its quotes
	count    int32 // members or elements started so far
	object   bool
}

// peek skips white space and returns the byte at pos, without moving past it. It returns 0 at the
// end, and so after a problem; 0 starts no JSON token.
func (s *scanner) peek() byte {
	if s.pos = jsonscan.Space(s.body, s.pos); s.pos < len(s.body) {
		return s.body[s.pos]
	}
	return 0
}

// enter opens the object or array at pos. It reports false if it would be nested too deeply. Whoever
// enters must call member or element until it reports false, which closes the frame again.
func (s *scanner) enter(object bool) bool {
	if len(s.frames) == maxDepth {
		// Name the field that contains the nesting: a path of all levels would help nobody.
		s.badAt(s.pathOf(s.frames[:2]), "is nested more than %d levels deep", maxDepth)
		return false
	}
	s.pos++
	s.frames = append(s.frames, frame{object: object, mark: s.seen.mark()})
	return true
}

// member moves to the value of the next member of the open object and sets key. It reports false
// after the last one, with the object closed.
// It also reports false after a problem, which the caller need not tell apart.
func (s *scanner) member() bool {
	f := &s.frames[len(s.frames)-1]
	c := s.peek()
	switch {
	case c == '}':
		// Keys of a closed object may appear again in its siblings.
		s.seen.release(s.body, f.mark)
		s.frames = s.frames[:len(s.frames)-1]
		s.pos++
		return false
	case f.count == 0:
		if c != '"' {
			s.expected(`a field name in double quotes or "}"`)
			return false
		}
	case c != ',':
		s.expected(`a comma or "}"`)
		return false
	default:
		s.pos++
		if s.peek() != '"' {
			s.expected("a field name in double quotes after the comma")
			return false
		}
	}
	// As quoted does, without the call: most strings of a request are keys.
	end, size, problem := jsonscan.String(s.body, s.pos)
	if problem != jsonscan.OK {
		s.badString(end, problem)
		return false
	}
	key := quotation{from: s.pos, to: end, size: size}
	s.pos = end
	f.count++
	f.from, f.to = int32(key.from), int32(key.to)
	if s.peek() != ':' {
		s.expected("a colon after the field name")
		return false
	}
	s.pos++
	var verdict keyVerdict
	// Upstreams differ in which of two equal keys counts. We might check one value and they use the other.
	s.key, verdict = s.seen.add(s.body, f.mark, key)
	switch verdict {
	case keyTwice:
		s.bad("", "is given twice in the same object; keep one of them")
		return false
	case keyTooMany:
		s.bad("", "is one field too many: an object and those around it may hold at most %d", maxOpenKeys)
		return false
	}
	s.peek()
	return true
}

// element moves to the next element of the open array. It reports false after the last one, with
// the array closed, and after a problem.
func (s *scanner) element() bool {
	f := &s.frames[len(s.frames)-1]
	c := s.peek()
	switch {
	case c == ']':
		s.frames = s.frames[:len(s.frames)-1]
		s.pos++
		return false
	case f.count == 0:
		if c == 0 {
			s.expected(`a value or "]"`)
			return false
		}
	case c != ',':
		s.expected(`a comma or "]"`)
		return false
	default:
		s.pos++
		if s.peek() == ']' {
			s.expected("a value after the comma")
			return false
		}
	}
	f.count++
	return true
}

// index returns the index of the current element of the innermost open array. It must be called between
// two calls of element, with no object open inside the element.
func (s *scanner) index() int { return int(s.frames[len(s.frames)-1].count) - 1 }

// skip reads one value of any type. It checks everything and keeps nothing. enter bounds the
// recursion. Members that we do not know go through it, so a body that Parse accepts is valid JSON as a
// whole, and can be sent to an upstream without another check.
func (s *scanner) skip() {
	switch c := s.peek(); {
	case c == '"':
		s.quoted()
	case c == '{':
		if s.enter(true) {
			for s.member() {
				s.skip()
			}
		}
	case c == '[':
		if s.enter(false) {
			for s.element() {
				s.skip()
			}
		}
	case c == '-' || '0' <= c && c <= '9':
		s.number()
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	default:
		s.expected("a value")
	}
}

// literal reads the given word. The caller has seen its first byte at pos. What follows the word, such
// as the x of truex, is refused by the next read.
func (s *scanner) literal(word string) bool {
	end := s.pos + len(word)
	if end > len(s.body) || string(s.body[s.pos:end]) != word {
		s.expected("a value")
		return false
	}
	s.pos = end
	return true
}

// null reads a null and reports whether there was one. For an optional field null means the same as
// leaving the field out (docs/api.md#chat-completion-request).
func (s *scanner) null() bool {
	return s.peek() == 'n' && s.literal("null")
}

// object opens an object. If the value is of another type, the fault says that want was expected.
func (s *scanner) object(want string) bool {
	if s.peek() == '{' {
		return s.enter(true)
	}
	s.mismatchType(want)
	return false
}

// array opens an array. If the value is of another type, the fault says that want was expected.
func (s *scanner) array(want string) bool {
	if s.peek() == '[' {
		return s.enter(false)
	}
	s.mismatchType(want)
	return false
}

// text reads a string. If the value is of another type, the fault says that want was expected. After a problem the result is
// the zero quotation, whose text is empty.
func (s *scanner) text(want string) (t quotation) {
	if s.peek() == '"' {
		t, _ = s.quoted()
	} else {
		s.mismatch(want)
	}
	return t
}

// boolean reads true or false. After a problem it returns false, as it does for false itself: the caller
// may ignore the difference, since nothing is read any more.
func (s *scanner) boolean() bool {
	switch s.peek() {
	case 't':
		return s.literal("true")
	case 'f':
		s.literal("false")
		return false
	}
	s.mismatch("a boolean")
	return false
}
