package inference

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/admission"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// Embed answers a call for embeddings on w: the walk of Complete without a choice of the model, without tools and without
// a stream. Errors are those of Complete.
func (l *Line) Embed(ctx context.Context, w http.ResponseWriter, models Models, call *Call) error {
	s, err := l.open(ctx, w.Header(), &models, call)
	if err != nil {
		return err
	}
	// From here on the call is settled exactly once, whatever happens.
	first := s.first
	defer s.failed()
	defer s.close()

	// Ask the targets, settle the call, and only then send the reply.
	err = first.Start()
	first.introduce(w.Header())
	if err != nil {
		return s.refused(ctx, err)
	}
	first.ended(nil)
	o := &relay.Outcome{Complete: true, Begun: true, HasUsage: first.vectors.Tokens > 0}
	o.Usage.Prompt = first.vectors.Tokens
	s.settle(o)
	body := first.vectors.Append(nil, first.at.Model.ID, call.Inputs.Base64, o.Usage.Prompt)
	body = append(o.AppendCost(body[:len(body)-1]), '}') // the usage is the last member
	if sign := s.signer(); sign != nil {
		sum := sha256.Sum256(body)
		relay.SetReceipt(w.Header(), sign(&sum))
	}
	w.Header()["Content-Type"], w.Header()["Content-Length"] = []string{"application/json"}, []string{strconv.Itoa(len(body))}
	if c, ok := w.(relay.Completer); ok {
		c.Completing()
	}
	if _, err := w.Write(body); err != nil {
		return errors.Join(relay.ErrGone, err)
	}
	return nil
}

// inputs is the task of a call for embeddings: texts, each within what the model reads of one.
type inputs struct {
	req      *embeddings.Request
	tokenize func(text string) int // nil: the tokenizer
	// checked says that tokens and refused are known: how many tokens the inputs have, or that they are too long.
	checked bool
	guessed bool // by an estimate
	tokens  int
	refused error
}

func (in *inputs) check(m *catalog.Model) error {
	switch {
	case !m.Embeds:
		return fault.New(fault.Invalid, "The model %q makes no embeddings. Use a model whose kind in GET /v1/models/verbose is embedding.", m.ID).At("model")
	case in.checked:
		return in.refused
	}
	_, err := in.req.Check(longestInput(m), nil)
	return err
}

// longestInput returns how many tokens an input of the model may have.
func longestInput(m *catalog.Model) int {
	if m.ContextLength > 0 {
		return m.ContextLength
	}
	return embeddings.MaxInput
}

func (in *inputs) demand(*catalog.Model) admission.Demand {
	if in.checked {
		return admission.Demand{PromptTokens: in.tokens, Choices: 1}
	}
	return admission.Demand{PromptTokens: in.req.About(), Choices: 1}
}

func (in *inputs) doubt(_ *Models, m *catalog.Model) int {
	if most := longestInput(m); !in.req.Sure(most) {
		return most
	}
	return 0 // their bytes tell that they fit
}

func (in *inputs) bytes() int {
	n, _ := in.req.Bytes()
	return n
}

func (in *inputs) count(ctx context.Context, most int) error {
	if in.bytes() > embeddings.MaxTotal*8 {
		in.guess(most)
		return ctx.Err()
	}
	in.checked = true
	in.tokens, in.refused = in.req.Check(most, func(text string) int {
		c := tokens.Counter{Context: ctx, Count: in.tokenize} // requests take turns in counting
		if c.Add([]byte(text)) != nil || c.End() != nil {
			in.guessed = true
			return len(text) / 4
		}
		return c.Tokens()
	})
	return ctx.Err()
}

// bound has the tokens that models put around each input.
func (in *inputs) bound() int {
	bytes, tokens := in.req.Bytes()
	return bytes + tokens + perMessage*len(in.req.Inputs)
}

func (in *inputs) counted() int {
	if in.checked && !in.guessed && in.refused == nil {
		return in.tokens
	}
	return in.bound()
}

func (in *inputs) guess(most int) {
	in.checked, in.guessed = true, true
	in.tokens, in.refused = in.req.Check(most, func(text string) int { return len(text) / 4 })
}

// tryEmbed calls the target of the last attempt for vectors. The event that it returns has nothing in it; the vectors are
// kept.
func (a *attempts) tryEmbed(ctx context.Context) (*provider.Event, error) {
	v, err := provider.Embed(ctx, a.at.Adapter, &a.call, a.embed)
	if err != nil {
		a.had = a.had || provider.WasSent(err)
		return nil, reason(ctx, err)
	}
	a.had, a.vectors = true, v
	a.unlimit()
	return &provider.Event{Kind: provider.Whole}, nil
}
