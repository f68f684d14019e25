package inference

import (
	"cmp"
	"context"
	"errors"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/admission"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/routing"
)

// The tokens of a prompt beside its texts, roughly. The figures are those of OpenAI's chat format.
const (
	perRequest = 3
	perMessage = 4
	perImage   = 1024
)

const (
	// smallPrompt is the number of bytes up to which a prompt is counted rather than sampled: a sample of
	// it would cost as much.
	smallPrompt = 16 << 10
	// A sample is samplePieces pieces of sampleBytes bytes, evenly spread: about 5 ms of work, with an error
	// of a few percent. A fine sample replaces a count that would cost too much.
	samplePieces = 32
	finePieces   = 512
	sampleBytes  = 512
	// A rough one is for prompts that are nowhere near a limit, and for reservations: 0.06 ms. A part of the prompt that is between
	// its pieces changes the number by a quarter.
	roughPieces = 12
	roughBytes  = 96
	// maxCounted is the number of bytes up to which a prompt is counted: about 0.7 s of work. A fine sample
	// decides for a longer one.
	maxCounted = 2 << 20
	// countPatience is how long a request waits for its prompt to be counted. Then a sample decides.
	countPatience = 10 * time.Second
)

// size is the number of tokens of a prompt, found out only as exactly as somebody needs it. There are four
// methods, from cheap to expensive:
//
//   - the bytes, which are an upper bound;
//   - a sample, which costs the same for a prompt of any length;
//   - a floor, a lower bound by splitting words, about 3 ms for a MiB;
//   - a count by the tokenizer, which only count does, and only near a limit.
//
// The results are kept, so comparing many models with one prompt costs little. A size belongs to one
// request and is not safe for concurrent use.
type size struct {
	req *chat.Request
	counting

	floor   int  // a lower bound
	floored bool // the floor is that of the whole prompt, so it gets no higher
	rough   int  // by a rough sample; 0: none was taken
	about   int  // by a sample; 0: none was taken
	exact   int  // by a count; 0: there was none
	settled bool // no count will follow: the sample decides
	earlier int  // tokens of the conversation that the upstream holds, which the request does not have
}

// counting says how prompts are counted. Its zero value is for production; tests replace what depends on the speed
// of the machine.
type counting struct {
	tokenize func(text string) int // nil: the tokenizer
	patience time.Duration         // 0: countPatience
}

// verdict says whether a prompt fits a number of tokens.
type verdict uint8

const (
	fits    verdict = iota
	unsure          // the prompt is near the limit: only a count can tell
	exceeds         // the prompt does not fit
)

// within compares the prompt with a number of tokens, without counting it. The cheapest method that can
// decide does.
func (s *size) within(most int) verdict {
	if most -= s.earlier; most < 0 {
		return exceeds
	}
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
	// A rough sample only lets through, and only what is far below the limit.
	if s.about == 0 && s.roughly()/2*3 <= most {
		return fits
	}
	// A sample errs by a few percent, so it decides only with a margin. The margin for refusing is larger:
	// the upstream can still refuse what we let through, but nobody can undo our refusal.
	switch about := s.sample(); {
	case about/4*5 <= most:
		return fits
	case about/3*2 > most:
		return exceeds
	}
	if !s.floored {
		// The floor is computed up to at least twice the one before. So comparing a hundred windows costs
		// little more than comparing the largest.
		s.floor, s.floored = floorOf(s.req, max(most, 2*s.floor))
	}
	if s.floor > most {
		return exceeds
	}
	return unsure
}

// decide returns fits or exceeds.
func decide(fit bool) verdict {
	if fit {
		return fits
	}
	return exceeds
}

// The methods of a task: a size is that of a completion.

func (s *size) bytes() int { return s.req.PromptBytes() }
func (s *size) guess(int)  { s.settled = true }

// check returns the fault for a request that the model cannot take, or nil. Package routing has the rule;
// only the length of the prompt is known here. A prompt near the model's window passes until it has been
// counted: see Line.permit.
func (s *size) check(m *catalog.Model) error {
	if err := routing.Refusal(s.req, m); err != nil {
		return err
	}
	if s.within(routing.Window(m)) == exceeds {
		return fault.NewLong(fault.Long{Tokens: s.earlier + max(s.floor, s.exact, s.about), Most: m.ContextLength, Advice: provider.LongAdvice(m.ID)})
	}
	return nil
}

func (s *size) demand(named *catalog.Model) admission.Demand {
	// A caller may ask for more tokens than the model writes. Reserving them would only use up the limit.
	most := s.req.MaxTokens
	if named.MaxOutput > 0 {
		most = min(most, named.MaxOutput)
	}
	return admission.Demand{Tools: s.req.UsesTools(), PromptTokens: s.estimate(), MaxTokens: most, Choices: s.req.N, Long: s.isLong()}
}

// doubt looks at the windows of all models if the router is to choose one.
func (s *size) doubt(m *Models, named *catalog.Model) (most int) {
	// A count up to the largest limit decides about the smaller ones, too.
	look := func(limit int) {
		if limit > most && s.within(limit) == unsure {
			most = limit
		}
	}
	look(admission.LongPrompt)
	look(routing.Window(named))
	if named.Router {
		for _, other := range m.Catalog.Models() {
			if other.Embeds {
				continue
			}
			look(other.ContextLength)
			look(routing.Window(other))
		}
	}
	return most
}

// roughly returns the number of tokens by a rough sample, and sample by a usual one.
func (s *size) roughly() int { return s.sampled(&s.rough, roughPieces, roughBytes) }
func (s *size) sample() int  { return s.sampled(&s.about, samplePieces, sampleBytes) }

// sampled returns the number of tokens by a sample. The first call takes it.
func (s *size) sampled(kept *int, pieces, bytes int) int {
	if *kept == 0 {
		n, _ := sampleOf(s.req, pieces, bytes, tokens.Counter{Count: s.tokenize})
		*kept = max(s.floor, n)
	}
	return *kept
}

// count counts the tokens, and stops once there are more than most; 0: it counts all. If counting would cost
// too much, or takes too long, a sample decides from then on. It returns an error only if ctx has ended.
func (s *size) count(ctx context.Context, most int) error {
	if s.exact > 0 || s.settled {
		return nil
	}
	if most > 0 {
		most = max(1, most-s.earlier)
	}
	// Requests take turns in counting, so that it does not use all cores. That is what the patience is for.
	patient, cancel := context.WithTimeout(ctx, cmp.Or(s.patience, countPatience))
	defer cancel()
	if s.req.PromptBytes() > maxCounted {
		s.settled = true
		if about, err := sampleOf(s.req, finePieces, sampleBytes, tokens.Counter{Context: patient, Count: s.tokenize}); err == nil {
			s.about = max(s.floor, about)
		}
		return ctx.Err()
	}
	n, err := countOf(s.req, tokens.Counter{Context: patient, Most: most, Count: s.tokenize})
	switch {
	case err == nil:
		s.exact = n
	case errors.Is(err, tokens.ErrEnough): // more than most: the exact number does not matter
		s.floor, s.settled = n, true
		s.about = max(s.about, n)
	default: // out of patience
		s.settled = true
	}
	return ctx.Err()
}

// estimate returns about how many tokens there are, at almost no cost. It takes what is known, else four
// bytes for a token. For a long prompt it also takes a rough sample: a table has a token every two bytes, and
// a reservation that is much too low would let an account exceed its limit.
func (s *size) estimate() int {
	const long = 64 << 10 // from here on a rough sample costs less than reading the prompt
	bytes := s.req.PromptBytes()
	least := max(s.floor, bytes/4+perMessage*len(s.req.Messages)+perImage*s.req.Attachments())
	switch {
	case s.exact > 0:
		return s.earlier + s.exact
	case s.about > 0:
		return s.earlier + s.about
	case bytes > long:
		return s.earlier + max(least, s.roughly())
	}
	return s.earlier + least
}

// isLong reports whether the prompt is so long that the request counts twice. A prompt that may be just
// above the limit is long only once it has been counted.
func (s *size) isLong() bool { return s.within(admission.LongPrompt) == exceeds }

// frameOf returns the tokens of a prompt beside its texts.
func frameOf(req *chat.Request) int {
	return perRequest + perMessage*len(req.Messages) + perImage*req.Attachments()
}

// floorOf returns a lower bound of the number of tokens, and whether it is that of the whole prompt. It stops
// once the bound is above most. It looks in strides of 64 KiB, so that it stops soon.
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

// sampleOf estimates the number of tokens by counting pieces of the prompt, each of some bytes. They are spread
// over all passages together, so a long passage gets more of them. It returns the error of the counter's
// context. A counter with a context counts in blocks and waits for its turn before each; a small sample
// uses none, because waiting would take longer than counting.
func sampleOf(req *chat.Request, pieces, bytes int, c tokens.Counter) (int, error) {
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
			part := p.Sample(at-bytes/2, bytes)
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
	if seen == 0 { // every piece fell on a place without text
		return frameOf(req) + req.PromptBytes()/4, nil
	}
	return frameOf(req) + int(int64(c.Tokens())*int64(total)/int64(seen)), nil
}

// countOf counts the prompt. C.Most, if set, bounds the tokens of the texts and of the frame together.
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

// promptTokens returns the number of tokens of a prompt whose upstream gave no figures, for its settlement.
func promptTokens(req *chat.Request) int {
	s := size{req: req}
	_ = s.count(context.Background(), 0) // bounded by its own patience: what cannot be counted is sampled
	if s.exact > 0 {
		return s.exact
	}
	return s.sample()
}
