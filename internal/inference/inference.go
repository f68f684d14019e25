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
	"sluice/internal/excerpt"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/pulse"
	"sluice/internal/relay"
	"sluice/internal/routing"
	"sluice/internal/toolloop"
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
	s := &settling{lease: lease, call: call, asked: asked, stream: stream, turn: stream, multiplier: ask.Multiplier(), status: http.StatusInternalServerError}
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

// Explain tells which model would answer the call, and why, without asking it. That costs one request.
func (l *Line) Explain(models Models, call Call) (routing.Choice, admission.Standing, error) {
	prompt := size{req: call.Request, tokenize: l.tokenize}
	asked, err := models.lookup(&prompt)
	if err != nil {
		return routing.Choice{}, admission.Standing{}, err
	}
	ask := asking(call, asked, &prompt)
	if standing, err := l.gate.Access(&ask); err != nil {
		return routing.Choice{}, standing, err
	}
	if most := models.edge(asked, &prompt); most > 0 {
		if standing, err := l.measure(context.Background(), call.Start, &ask, &prompt, most); err != nil {
			return routing.Choice{}, standing, err
		}
		if err := prompt.check(asked); err != nil {
			return routing.Choice{}, admission.Standing{}, err
		}
	}
	admitted, standing, err := l.gate.AdmitRequest(&ask)
	if err != nil {
		return routing.Choice{}, standing, err
	}
	choice, err := l.router.Explain(models.asked(&call, asked, prompt))
	if err != nil {
		admitted.GiveBack()
		standing = l.gate.Standing(&ask)
	}
	return choice, standing, err
}

// Repeat admits the repeat of an earlier call, which is answered with that call's reply: it costs one
// request.
func (l *Line) Repeat(caller auth.Caller, limits account.Limits) (admission.Standing, error) {
	_, standing, err := l.gate.AdmitRequest(&admission.Ask{Caller: caller, Limits: limits})
	return standing, err
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
		return nil, fault.New(fault.Invalid, "There is no model %q. GET /v1/models lists those there are.", excerpt.Of(prompt.req.Model, 100)).At("model")
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
		PromptTokens: prompt.estimate(), MaxTokens: most, Choices: req.N, Long: prompt.isLong(),
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
