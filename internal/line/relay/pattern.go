package relay

import (
	"bytes"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/upstream/provider"
)

// pattern is what the chunks of a stream have in common. Most of them differ in one text only. So a chunk
// that begins and ends like the last one that was scanned needs no scan, only a look at its text: 0.06 µs
// instead of 0.9. For example:
//
//	{"id":"x","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}
//	└────────────────────── head ──────────────────────┘text └───────── tail ─────────┘
//
// OutHead is our own beginning up to the text, outTail what follows it in our chunk. Other doors have no use for them: their
// Dialect gets the text.
type pattern struct {
	head, tail       []byte // of the upstream's chunk, before and after the inside of the text; empty: none learned
	outHead, outTail []byte // of our chunk
	index            int    // of the choice
	reasoning        bool   // the text is reasoning, not content
}

// learn makes a chunk that was scanned the pattern for those that follow, if it has exactly one text and
// nothing else that we act on. It copies, since the upstream's buffer is reused for the next chunk.
// A pattern that was learned before stays if this chunk is not suitable.
func (s *streamer) learn(raw []byte, sh *shape) {
	text := sh.content
	if !sh.one || s.choice(sh.index) == nil || sh.role || sh.finish != "" || !sh.usage.empty() || !sh.refusal.empty() || sh.others || sh.content.empty() == sh.reasoning.empty() {
		return
	}
	p := &s.like
	if p.reasoning = sh.content.empty(); p.reasoning {
		text = sh.reasoning
	}
	p.index = sh.index
	// Four copies for each chunk that is scanned. That is little compared with the scan, and the slices are
	// reused.
	p.head = append(p.head[:0], raw[:text.from]...)
	p.tail = append(p.tail[:0], raw[text.to:]...)
	if s.spoken != nil {
		return
	}
	p.outHead = append(append(p.outHead[:0], s.prefix...), raw[sh.choices.from:text.from]...)
	p.outTail = append(append(p.outTail[:0], raw[text.to:sh.choices.to]...), "}\n\n"...)
}

// again sends or tells a chunk that fits the pattern. It reports false if the chunk does not fit. The text must be
// the inside of a JSON string, or a quote in it could hide other members.
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
		return true // the choice is over: drop it
	}
	if s.spoken != nil {
		kind := provider.Text
		if p.reasoning {
			kind = provider.Reasoning
		}
		inside, _ := s.spoken.respell(text)
		s.out = s.say(s.out, kind, inside, nil, false)
		return true
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
