package relay

import (
	"bytes"

	"sluice/internal/jsonscan"
)

// pattern is what the chunks of a stream have in common. They mostly differ in one text alone, so a
// chunk that begins and ends like the one scanned before it needs only that text looked at: 0.06 µs
// instead of 0.9.
type pattern struct {
	head, tail       []byte // of the upstream's chunk, around the inside of the text
	outHead, outTail []byte // of ours
	index            int
	reasoning        bool // the text is reasoning, not content
}

// learn makes the chunk the pattern for those that follow, if there is just one text in it.
func (s *streamer) learn(raw []byte, sh *shape) {
	text := sh.content
	if sh.role || sh.finish != "" || !sh.usage.empty() || !sh.refusal.empty() || sh.content.empty() == sh.reasoning.empty() {
		return
	}
	p := &s.like
	if p.reasoning = sh.content.empty(); p.reasoning {
		text = sh.reasoning
	}
	p.index = sh.index
	p.head = append(p.head[:0], raw[:text.from]...)
	p.tail = append(p.tail[:0], raw[text.to:]...)
	p.outHead = append(append(p.outHead[:0], s.prefix...), raw[sh.choices.from:text.from]...)
	p.outTail = append(append(p.outTail[:0], raw[text.to:sh.choices.to]...), "}\n\n"...)
}

// again hands a chunk on that fits the pattern. It reports false where it does not.
func (s *streamer) again(raw []byte) bool {
	p := &s.like
	if len(p.head) == 0 || len(raw) < len(p.head)+len(p.tail) || !bytes.HasPrefix(raw, p.head) || !bytes.HasSuffix(raw, p.tail) {
		return false
	}
	// The head ends with the opening quote, and the tail starts with the closing one: between them must be the inside of
	// exactly one string.
	from, to := len(p.head), len(raw)-len(p.tail)
	if end, _, problem := jsonscan.String(raw, from-1); problem != jsonscan.OK || end != to+1 {
		return false
	}
	text := raw[from:to]
	if s.choices[p.index].finished {
		return true // it is over
	}
	if p.reasoning {
		s.outcome.reasoning.add(text)
	} else {
		s.outcome.text.add(text)
	}
	s.out = append(s.out, p.outHead...)
	s.out = append(s.out, text...)
	s.out = append(s.out, p.outTail...)
	return true
}
