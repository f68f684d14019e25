package inference

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// Embed answers a call for embeddings on w: the walk of Complete without a choice of the model, without tools and without
// a stream. The call has no request of its own; req takes its place. Errors are those of Complete.
func (l *Line) Embed(ctx context.Context, w http.ResponseWriter, models Models, call Call, req *embeddings.Request) error {
	// Steps that are the same for all calls look at a completion. This one asks for nothing.
	call.Request = &chat.Request{Model: req.Model, N: 1}

	// Look the model up, and check the request against it and against the plan.
	named, err := models.lookupEmbedding(req, &call)
	if err != nil {
		return err
	}
	describe(call.Span, &call, named)
	step := call.Span.Child("admission")
	defer step.End()
	demand := admission.Demand{
		Caller: call.Caller, Limits: call.Limits,
		Model:        admission.Model{ID: named.ID, Tier: named.Plan, StaffOnly: named.StaffOnly, RequestMilli: named.RequestMilli, UnitMilli: named.UnitMilli},
		PromptTokens: req.About(), Choices: 1,
	}
	if refusal, err := l.permitEmbedding(ctx, &call, &demand, named, req); err != nil {
		if refusal != nil {
			refusal.SetHeader(w.Header())
		}
		return failed(step, err)
	}

	// Admit the call. From here on it is settled exactly once, whatever happens.
	lease, standing, err := l.gate.Admit(&demand)
	standing.SetHeader(w.Header())
	if err != nil {
		return failed(step, err)
	}
	if maintenance := l.closed(named.ID, call.Start); maintenance != nil {
		lease.Release()
		l.gate.Standing(&demand).SetHeader(w.Header())
		return failed(step, maintenance)
	}
	step.End()
	first := l.attempts(ctx, models.Routes.Plan(named), named, &call)
	first.embed = req
	s := &settling{lease: lease, call: &call, named: named, multiplier: demand.Multiplier(), first: first, last: first, status: http.StatusInternalServerError}
	s.way = usage.Way{RequestID: call.RequestID, Address: call.Address, Attempts: s.tried[:0]}
	first.way = &s.way
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
	body := first.vectors.Append(nil, first.at.Model.ID, req.Base64, o.Usage.Prompt)
	w.Header()["Content-Type"], w.Header()["Content-Length"] = []string{"application/json"}, []string{strconv.Itoa(len(body))}
	if c, ok := w.(relay.Completer); ok {
		c.Completing()
	}
	if _, err := w.Write(body); err != nil {
		return errors.Join(relay.ErrGone, err)
	}
	return nil
}

// lookupEmbedding returns the model that the request names, by its id or by an alias, if it makes embeddings.
func (m *Models) lookupEmbedding(req *embeddings.Request, call *Call) (*catalog.Model, error) {
	named, ok := m.Catalog.Resolve(req.Model, call.Caller.Account.Aliases)
	switch {
	case !ok:
		return nil, fault.New(fault.Invalid, "There is no model %q. GET /v1/models lists those there are.", excerpt.Of(req.Model, 100)).At("model")
	case !named.Embeds:
		return nil, fault.New(fault.Invalid, "The model %q makes no embeddings. Use a model whose kind in GET /v1/models/verbose is embedding.", named.ID).At("model")
	}
	_, err := req.Check(longestInput(named), nil)
	return named, err
}

// longestInput returns how many tokens an input of the model may have.
func longestInput(m *catalog.Model) int {
	if m.ContextLength > 0 {
		return m.ContextLength
	}
	return embeddings.MaxInput
}

// permitEmbedding checks the caller's plan, and the length of the inputs, which are counted only if their bytes do not tell
// that they fit. Counting holds a place, as in measure. The standing is nil unless the plan or a limit refuses the call.
func (l *Line) permitEmbedding(ctx context.Context, call *Call, demand *admission.Demand, named *catalog.Model, req *embeddings.Request) (*admission.Standing, error) {
	if standing, err := l.gate.Access(demand); err != nil {
		return &standing, err
	}
	most := longestInput(named)
	if req.Sure(most) {
		return nil, nil
	}
	lease, standing, err := l.gate.Admit(demand)
	if err != nil {
		return &standing, err
	}
	defer lease.Release()
	// Requests take turns in counting. For an account that has used up its ration, the length decides.
	count := func(text string) int { return len(text) / 4 }
	if bytes, _ := req.Bytes(); l.counts.take(demand.Caller.Account.ID, min(bytes, maxCounted), mostCounted, call.Start) && bytes <= embeddings.MaxTotal*8 {
		count = func(text string) int {
			c := tokens.Counter{Context: ctx, Count: l.counting.tokenize}
			if c.Add([]byte(text)) != nil || c.End() != nil {
				return len(text) / 4
			}
			return c.Tokens()
		}
	}
	n, err := req.Check(most, count)
	if ctx.Err() != nil {
		return nil, relay.Ended(ctx)
	}
	demand.PromptTokens = n
	return nil, err
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
	if a.beat != nil {
		a.beat.Stop()
		a.beat = nil
	}
	return &provider.Event{Kind: provider.Whole}, nil
}

// embedded is spent for a call for embeddings. If the upstream gave no figures, the inputs are counted here.
func (s *settling) embedded(o *relay.Outcome, free bool) spent {
	sp := spent{content: o.Complete, counted: !o.HasUsage}
	if !sp.content && (free || !s.first.had) {
		return sp
	}
	sp.turns = 1
	if sp.tokens = o.Usage; !o.HasUsage {
		sp.tokens.Prompt = s.first.embed.Count()
	}
	o.Usage = sp.tokens
	return sp
}
