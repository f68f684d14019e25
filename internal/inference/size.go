package inference

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/admission"
	"sluice/internal/chat"
	"sluice/internal/tokens"
)

// What a prompt holds beside its texts, roughly: the figures of OpenAI's chat format.
const (
	perRequest = 3
	perMessage = 4
	perImage   = 1024
)

const (
	// Up to so many bytes a prompt is counted wherever bytes do not decide: a sample would cost as much.
	smallPrompt = 16 << 10
	// A sample is so many pieces of so many bytes, evenly spread: about 5 ms of work, and right within a
	// few percent. A fine one takes the place of a count that would cost too much.
	samplePieces = 32
	finePieces   = 512
	sampleBytes  = 512
	// maxCounted bounds the bytes that are counted for one request: about 0.7 s of work. Of a longer prompt
	// a fine sample decides.
	maxCounted = 2 << 20
	// countPatience bounds how long a request waits for its prompt to be counted.
	countPatience = 10 * time.Second
)

// size is how many tokens a prompt has, as exactly as somebody needs to know. Bytes decide where they can,
// then a sample, which costs the same for a prompt of any length. Near a limit it is a floor that splits
// words, some 3 ms for a MiB, and only where that is below the limit does count ask the tokenizer for all.
// What is found is kept, so many models may be held against one prompt.
type size struct {
	req *chat.Request
	// tokenize replaces the tokenizer, for tests.
	tokenize func(text string) int

	floor   int  // there are at least so many tokens
	floored bool // the floor is that of the whole prompt
	about   int  // by a sample; 0: none was taken
	exact   int  // by a count; 0: there was none
	settled bool // nobody counts any more: the sample decides
}

// verdict is whether a prompt fits a number of tokens.
type verdict uint8

const (
	fits    verdict = iota
	unsure          // it is near the limit: only a count decides
	exceeds         // it does not fit
)

// within holds the prompt against a number of tokens, without counting it.
func (s *size) within(most int) verdict {
	switch {
	case s.req.TokenBound() <= most:
		return fits
	case s.exact > 0:
		return decide(s.exact <= most)
	case s.floor > most:
		return exceeds
	case s.settled:
		return decide(s.sample() <= most)
	case s.req.PromptBytes() <= smallPrompt:
		return unsure
	}
	// A sample errs by a few percent. It refuses only with a large margin: a call that it lets through
	// the upstream can still refuse.
	switch about := s.sample(); {
	case about/4*5 <= most:
		return fits
	case about/3*2 > most:
		return exceeds
	}
	if !s.floored {
		// Twice the floor known before: a hundred models cost little more than the largest of them.
		s.floor, s.floored = floorOf(s.req, max(most, 2*s.floor))
	}
	if s.floor > most {
		return exceeds
	}
	return unsure
}

func decide(fit bool) verdict {
	if fit {
		return fits
	}
	return exceeds
}

func (s *size) sample() int {
	if s.about == 0 {
		about, _ := sampleOf(s.req, samplePieces, tokens.Counter{Count: s.tokenize})
		s.about = max(s.floor, about)
	}
	return s.about
}

// count finds out how many tokens there are, up to most. Where that would cost too much, or take too long,
// a sample decides. The error is that of the context.
func (s *size) count(ctx context.Context, most int) error {
	if s.exact > 0 || s.settled {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, countPatience)
	defer cancel()
	if s.req.PromptBytes() > maxCounted {
		s.settled = true
		if about, err := sampleOf(s.req, finePieces, tokens.Counter{Context: patient, Count: s.tokenize}); err == nil {
			s.about = max(s.floor, about)
		}
		return ctx.Err()
	}
	n, err := countOf(s.req, tokens.Counter{Context: patient, Most: most, Count: s.tokenize})
	switch {
	case err == nil:
		s.exact = n
	case errors.Is(err, tokens.ErrEnough):
		s.floor, s.settled = n, true
		s.about = max(s.about, n)
	default:
		s.settled = true
	}
	return ctx.Err()
}

// estimate is about how many tokens there are, at next to no cost: four bytes make one, more or less. A
// long prompt has at least as many as its floor: tables have a token every two bytes.
func (s *size) estimate() int {
	const (
		long     = 64 << 10 // from here on a floor pays, 0.2 ms
		veryLong = 1 << 20  // from here on a sample costs less
	)
	bytes := s.req.PromptBytes()
	switch {
	case s.exact > 0:
		return s.exact
	case s.about > 0, bytes > veryLong:
		return s.sample()
	case !s.floored && bytes > long:
		s.floor, s.floored = floorOf(s.req, 2*bytes)
	}
	return max(s.floor, s.req.PromptBytes()/4+perMessage*len(s.req.Messages)+perImage*s.req.Attachments())
}

// isLong reports whether the prompt counts twice.
func (s *size) isLong() bool { return s.within(admission.LongPrompt) == exceeds }

// String says how many tokens there are, as far as that is known.
func (s *size) String() string {
	if s.exact == 0 && s.about == 0 {
		return fmt.Sprintf("at least %d tokens", s.floor)
	}
	return fmt.Sprintf("about %d tokens", max(s.exact, s.about))
}

// The functions below take no size, so that one can stay on the stack of a call that needs none of them.

// frameOf is what a prompt holds beside its texts.
func frameOf(req *chat.Request) int {
	return perRequest + perMessage*len(req.Messages) + perImage*req.Attachments()
}

// floorOf is a number of tokens that the prompt has at least, and whether all of it was looked at. It stops
// once the number is above most.
func floorOf(req *chat.Request, most int) (floor int, whole bool) {
	const stride = 64 << 10
	var f tokens.Floor
	frame := frameOf(req)
	for p := range req.Passages() {
		for piece := range p.Pieces() {
			for len(piece) > 0 {
				n := min(len(piece), stride)
				f.Add(piece[:n])
				piece = piece[n:]
				if floor := frame + f.Tokens(); floor > most {
					return floor, false
				}
			}
		}
		f.End()
	}
	return frame + f.Tokens(), true
}

// sampleOf is about how many tokens the prompt has, by so many pieces of it. The error is that of the
// counter's context. A counter with a context counts the pieces in blocks, and waits for its turn with
// each; without one they are too small to be worth that.
func sampleOf(req *chat.Request, pieces int, c tokens.Counter) (int, error) {
	total := 0
	for p := range req.Passages() {
		total += p.Len()
	}
	if total == 0 {
		return frameOf(req), nil
	}
	gap := max(1, total/pieces)
	seen, at := 0, gap/2 // the middle of the next piece, in the passage
	for p := range req.Passages() {
		for ; at < p.Len(); at += gap {
			part := p.Sample(at-sampleBytes/2, sampleBytes)
			seen += part.Len()
			for piece := range part.Pieces() {
				if err := c.Add(piece); err != nil {
					return 0, err
				}
			}
			if c.Context == nil {
				_ = c.End() // without a context it does not fail
			}
		}
		at -= p.Len()
	}
	if err := c.End(); err != nil {
		return 0, err
	}
	if seen == 0 {
		return frameOf(req) + req.PromptBytes()/4, nil
	}
	return frameOf(req) + int(int64(c.Tokens())*int64(total)/int64(seen)), nil
}

// countOf counts the prompt.
func countOf(req *chat.Request, c tokens.Counter) (int, error) {
	frame := frameOf(req)
	if c.Most > 0 {
		c.Most = max(1, c.Most-frame)
	}
	for p := range req.Passages() {
		for piece := range p.Pieces() {
			if err := c.Add(piece); err != nil {
				return frame + c.Tokens(), err
			}
		}
		if err := c.End(); err != nil {
			return frame + c.Tokens(), err
		}
	}
	return frame + c.Tokens(), nil
}

// promptTokens is the number of tokens of a prompt whose upstream gave no figures.
func promptTokens(req *chat.Request) int {
	s := size{req: req}
	_ = s.count(context.Background(), 0) // bounded by its own patience: what cannot be counted is sampled
	if s.exact > 0 {
		return s.exact
	}
	return s.sample()
}
