// Package inference is one chat completion, from the parsed request to the settled lease.
//
// Complete reads like the sentence it is: look the model up, check the request against it, admit,
// choose who answers, call, relay, settle. Each step is a call into the package that knows how.
package inference

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"sluice/internal/account"
	"sluice/internal/admission"
	"sluice/internal/auth"
	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/continuation"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/pulse"
	"sluice/internal/relay"
	"sluice/internal/routing"
	"sluice/internal/toolloop"
	"sluice/internal/usage"
)

// Models is who can be asked: the catalog, and how each of its models is reached.
type Models struct {
	Catalog *catalog.Catalog
	Routes  *routing.Routes
	// Scorer is what the router chooses by; nil: an estimate at the middle of its dial.
	Scorer routing.Scorer
}

// asked is what the router has to know of a call.
func (m *Models) asked(call *Call, model *catalog.Model, prompt size) *routing.Asked {
	a := call.Caller.Account
	return &routing.Asked{
		Catalog: m.Catalog, Routes: m.Routes, Scorer: m.Scorer, Model: model,
		AccountID: a.ID, Plan: a.Plan, Staff: a.Staff, Request: call.Request,
		PromptTokens: prompt.estimate(), Reads: func(most int) bool { return prompt.within(most) != exceeds },
	}
}

// edge is the largest of the limits that the prompt may or may not keep; 0: there is none. Behind the
// router every window counts.
func (m *Models) edge(asked *catalog.Model, prompt *size) (most int) {
	look := func(limit int) {
		if limit > most && prompt.within(limit) == unsure {
			most = limit
		}
	}
	look(admission.LongPrompt)
	look(window(asked))
	if asked.Router {
		for _, other := range m.Catalog.Models() {
			look(other.ContextLength)
			look(window(other))
		}
	}
	return most
}

// Call is one request for a completion.
type Call struct {
	ID      string // the request's
	Start   time.Time
	Caller  auth.Caller
	Limits  account.Limits // those in force for the caller's account
	Request *chat.Request
	Depth   int // how many calls through our own MCP server it is nested in
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// States is where adapters keep what a later turn needs; nil: nowhere.
	States *continuation.Keeper
	// Tools answers requests with MCP tools; nil: they are refused.
	Tools *toolloop.Loop
	// Patience is how long a request looks for somebody who answers, where all that can be asked has
	// failed once; for tests. Default 30 seconds.
	Patience time.Duration
}

// Line is the way of every chat completion.
type Line struct {
	gate     *admission.Gate
	pulse    *pulse.Pulse
	states   *continuation.Keeper
	tools    *toolloop.Loop
	router   *routing.Router
	patience time.Duration
	tokenize func(text string) int // replaces the tokenizer, for tests
	counts   ration
}

// New returns a line behind the gate. The pulse keeps silent streams alive.
func New(gate *admission.Gate, p *pulse.Pulse, opts *Options) *Line {
	if opts == nil {
		opts = &Options{}
	}
	return &Line{gate: gate, pulse: p, states: opts.States, tools: opts.Tools, router: routing.NewRouter(), patience: cmp.Or(opts.Patience, patience)}
}

// Complete answers the call on w. A returned fault means that nothing has been written;
// relay.ErrTold and relay.ErrGone, that there is nothing left to say.
func (l *Line) Complete(ctx context.Context, w http.ResponseWriter, models Models, call Call) error {
	req := call.Request
	prompt := size{req: req, tokenize: l.tokenize}
	asked, err := models.lookup(&prompt)
	if err != nil {
		return err
	}
	ask := asking(call, asked, &prompt)
	if standing, err := l.gate.Access(&ask); err != nil {
		standing.SetHeader(w.Header())
		return err
	}
	if most := models.edge(asked, &prompt); most > 0 {
		if standing, err := l.measure(ctx, call.Start, &ask, &prompt, most); err != nil {
			standing.SetHeader(w.Header())
			return err
		}
		if err := prompt.check(asked); err != nil {
			return err
		}
		ask = asking(call, asked, &prompt)
	}
	choice := routing.Choice{Model: asked}
	if asked.Router {
		if choice, err = l.router.Choose(models.asked(&call, asked, prompt)); err != nil {
			return err
		}
		w.Header()["X-Sluice-Route-Reason"] = []string{choice.Reason}
	}
	model := choice.Model
	lease, standing, err := l.gate.Admit(&ask)
	standing.SetHeader(w.Header())
	if err != nil {
		return err
	}
	stream := l.attempts(ctx, models.Routes.Plan(model, choice.Others...), model, &call)
	stream.prompt, stream.routed = prompt, asked.Router
	s := &settling{lease: lease, call: call, asked: asked, stream: stream, multiplier: ask.Multiplier(), status: http.StatusInternalServerError}
	defer s.failed() // counts only where nothing else settled it
	var reply provider.Stream = stream
	if req.HasMCP() {
		if reply, err = l.converse(ctx, w, models, s); err != nil {
			return s.fault(ctx, w, err)
		}
	}
	defer reply.Close()
	send := relay.Collect
	if req.Stream {
		send = relay.Stream
	}
	err = send(ctx, w, reply, relay.Head{RequestID: call.ID, Created: call.Start.Unix()}, relay.Options{
		N: req.N, IncludeUsage: req.IncludeUsage, Pulse: l.pulse, Answers: stream.introduce, Settle: s.outcome,
	})
	return s.fault(ctx, w, err)
}

// Explain tells which model would answer the call, and why, without asking it.
func (l *Line) Explain(models Models, call Call) (routing.Choice, error) {
	prompt := size{req: call.Request, tokenize: l.tokenize}
	asked, err := models.lookup(&prompt)
	if err != nil {
		return routing.Choice{}, err
	}
	ask := asking(call, asked, &prompt)
	if _, err := l.gate.Access(&ask); err != nil {
		return routing.Choice{}, err
	}
	if most := models.edge(asked, &prompt); most > 0 {
		if _, err := l.measure(context.Background(), call.Start, &ask, &prompt, most); err != nil {
			return routing.Choice{}, err
		}
		if err := prompt.check(asked); err != nil {
			return routing.Choice{}, err
		}
	}
	return l.router.Explain(models.asked(&call, asked, prompt))
}

// measure counts a prompt that is near a limit. Counting is the one check that costs, so whoever is to be
// refused for another reason is refused before, and the call holds its place meanwhile: that bounds how
// many prompts of one account are counted at a time. The place is given back; the call asks for it again
// once its price is known. An account that has had its share counted must do with samples.
func (l *Line) measure(ctx context.Context, now time.Time, ask *admission.Ask, prompt *size, most int) (admission.Standing, error) {
	lease, standing, err := l.gate.Admit(ask)
	if err != nil {
		return standing, err
	}
	defer lease.Release()
	if !l.counts.take(ask.Caller.Account.ID, min(prompt.req.PromptBytes(), maxCounted), now) {
		prompt.settled = true
		return admission.Standing{}, nil
	}
	if err := prompt.count(ctx, most); err != nil {
		return admission.Standing{}, errors.Join(relay.ErrGone, err)
	}
	return admission.Standing{}, nil
}

// lookup finds the model that the request names and holds the request against it.
func (m *Models) lookup(prompt *size) (*catalog.Model, error) {
	asked, ok := m.Catalog.Lookup(prompt.req.Model)
	if !ok {
		return nil, fault.New(fault.Invalid, "There is no model %q. GET /v1/models lists those there are.", clip(prompt.req.Model)).At("model")
	}
	return asked, prompt.check(asked)
}

// asking is what the call wants of admission.
func asking(call Call, asked *catalog.Model, prompt *size) admission.Ask {
	req := call.Request
	most := req.MaxTokens
	if asked.MaxOutput > 0 {
		most = min(most, asked.MaxOutput)
	}
	return admission.Ask{
		Caller: call.Caller, Limits: call.Limits, Model: asked, Tools: len(req.Tools) > 0 || req.WebSearch,
		PromptTokens: prompt.estimate(), MaxTokens: most, Long: prompt.isLong(),
	}
}

// attempts asks for the model, along the plan, when its first event is wanted.
func (l *Line) attempts(ctx context.Context, plan routing.Plan, m *catalog.Model, call *Call) *attempts {
	a := &attempts{line: l, ctx: ctx, plan: plan, model: m, holds: call.Caller.Account.Plan, start: call.Start, until: call.Start.Add(l.patience)}
	a.call = provider.Call{Request: call.Request, ID: call.ID}
	a.prompt = size{req: call.Request, tokenize: l.tokenize}
	if l.states != nil {
		a.call.Memory = l.states.For(call.Caller.Account.ID)
	}
	return a
}

// settling makes the lease's settlement of what the call came to.
type settling struct {
	lease      *admission.Lease
	call       Call
	asked      *catalog.Model
	stream     *attempts
	loop       *toolloop.Stream // where the tools include MCP servers, else nil
	header     http.Header      // of the reply, where there is a loop
	multiplier int64            // of a long prompt
	status     int              // of the fault that is answered; as long as there is none, that of a panic
	gone       bool             // the caller left before anything was sent
}

// outcome settles a call whose reply was sent or begun, and counts what the upstream did not.
func (s *settling) outcome(o *relay.Outcome) {
	turns := int64(1)
	r := s.record()
	if s.loop != nil {
		turns = s.conversed(o)
	} else if !o.HasUsage && (o.Complete || !o.FirstContent.IsZero()) {
		o.Usage = count(s.call.Request, o)
	}
	r.Tokens, r.Counted = o.Usage, !o.HasUsage
	r.RequestMilli = s.asked.RequestMilli * s.multiplier
	if o.Begun {
		r.Status = http.StatusOK
	}
	if o.Complete || !o.FirstContent.IsZero() {
		used, _ := s.stream.used()
		r.UnitMilli = used.UnitMilli * s.multiplier * turns
		r.CostMicro = used.Pricing.Cost(o.Usage)
	}
	if !o.FirstContent.IsZero() {
		r.FirstToken = o.FirstContent.Sub(s.call.Start)
	}
	switch {
	case o.Complete:
		r.End = usage.EndComplete
	case errors.Is(o.Err, relay.ErrGone):
		r.End = usage.EndHangUp
	case o.FirstContent.IsZero(): // what fails before its first content costs nothing
		r.End, r.Tokens, r.RequestMilli = usage.EndFailed, chat.Usage{}, 0
	default:
		r.End = usage.EndCut
	}
	s.lease.Settle(r)
}

// fault notes the status that a plain fault will be answered with, and tells who was asked. A call that
// failed because its caller left is no fault of anybody.
func (s *settling) fault(ctx context.Context, w http.ResponseWriter, err error) error {
	if err == nil || errors.Is(err, relay.ErrGone) || errors.Is(err, relay.ErrTold) {
		return err
	}
	if ctx.Err() != nil {
		s.gone = true
		return errors.Join(relay.ErrGone, err)
	}
	s.stream.introduce(w.Header())
	s.status = fault.From(err).Kind.Status()
	return err
}

// failed settles a call that produced nothing.
func (s *settling) failed() {
	r := s.record()
	r.End, r.Status = usage.EndFailed, s.status
	if s.gone {
		r.End, r.Status, r.RequestMilli = usage.EndHangUp, 0, s.asked.RequestMilli*s.multiplier
	}
	s.lease.Settle(r)
}

func (s *settling) record() usage.Settlement {
	used, by := s.stream.used()
	calls, failed := s.remote()
	return usage.Settlement{
		ID: s.call.ID, At: s.call.Start, AccountID: s.call.Caller.Account.ID, KeyID: s.call.Caller.KeyID,
		Plan: s.call.Caller.Account.Plan.String(), Tier: used.Plan.String(),
		ModelAsked: s.asked.ID, ModelUsed: used.ID, Provider: by, Latency: time.Since(s.call.Start),
		MCPCalls: calls, MCPFailed: failed,
	}
}
