// Package inference runs one chat completion, from the parsed request to the settled lease.
//
// Line.Complete is the whole walk: look the model up, choose, admit, open the first attempt that has
// something to say, relay it, settle. Each step is a call into the package that knows how. What this
// package adds is the order of the steps, the retries over a plan's targets (attempts.go), how long a
// prompt is (size.go), and what a call costs (settlement.go).
package inference

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pulse"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/line/toolloop"
	"sluice/internal/prompt/alias"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/continuation"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/routing"
)

// Models are the models that can be called, and how. A request keeps the value that it started with, so a
// reload does not change what it sees.
type Models struct {
	Catalog *catalog.Catalog
	Routes  *routing.Routes // of the same catalog
	// Scorer rates models for the router; nil: the router's own estimate.
	Scorer routing.Scorer
	// Weights are what the router has learned; nil: nothing.
	Weights *routing.Weights
	// Strengths are what feedback has taught the router, which then also wants to know how its calls end; nil: feedback
	// is off.
	Strengths *routing.Strengths
}

// Call is one request for a completion.
type Call struct {
	ID    string // the request's id
	Start time.Time
	// Span is the span of the request; nil: it is not traced.
	Span *telemetry.Span
	// Wait gets the time that the call waits for upstreams and tools; nil: nobody wants to know.
	Wait    *telemetry.Wait
	Caller  auth.Caller
	Limits  account.Limits // the limits in force for the caller's account
	Request *chat.Request
	// Door is the name of the door that the call came through, as the settlement has it, and Dialect writes its reply;
	// empty and nil: chat completions.
	Door    string
	Dialect relay.Dialect
	Depth   int // how many calls through our own MCP server it is nested in
	// Address is the caller's, and RequestID the id that the caller is told if a proxy gave it. Both are kept
	// with the settlement.
	Address, RequestID string
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// States keeps what adapters need for a later turn; nil: nothing is kept.
	States *continuation.Keeper
	// Tools runs requests with MCP tools; nil: they are refused.
	Tools *toolloop.Loop
	// Router chooses models for service/auto; nil: one that shares nothing with other nodes.
	Router *routing.Router
	// Closed returns the fault that calls of a model get because of maintenance, or nil; nil: there is none. It is called
	// for every request, so it must be quick.
	Closed func(model string, now time.Time) error
	// Routed is called with the settlement of every call whose model the router chose, while feedback is on; nil: nobody
	// wants to know. It must be quick, and must not keep the way.
	Routed func(usage.Settlement)
	// Patience is how long a request keeps trying after every target has failed once; for tests. Default
	// 30 seconds.
	Patience time.Duration
	// CountPatience is how long a request waits for its prompt to be counted; for tests. Default 10 seconds.
	CountPatience time.Duration
}

// Line completes chats. It is safe for concurrent use.
type Line struct {
	gate     *admission.Gate
	pulse    *pulse.Pulse
	states   *continuation.Keeper // nil: nothing is kept
	tools    *toolloop.Loop       // nil: no MCP tools
	router   *routing.Router
	closed   func(model string, now time.Time) error
	routed   func(usage.Settlement) // nil: nobody wants to know
	patience time.Duration
	counting counting
	counts   ration       // of bytes of prompts that are counted
	returns  ration       // of failed calls that are given back
	streams  atomic.Int64 // streams that are open
}

// Streams returns the number of streamed replies that are under way.
func (l *Line) Streams() int64 { return l.streams.Load() }

// New returns a line behind the gate. The pulse keeps silent streams alive.
func New(gate *admission.Gate, p *pulse.Pulse, opts *Options) *Line {
	if opts == nil {
		opts = &Options{}
	}
	router := opts.Router
	if router == nil {
		router = routing.NewRouter(nil)
	}
	closed := opts.Closed
	if closed == nil {
		closed = func(string, time.Time) error { return nil }
	}
	return &Line{closed: closed, gate: gate, pulse: p, states: opts.States, tools: opts.Tools, router: router, routed: opts.Routed, patience: cmp.Or(opts.Patience, patience), counting: counting{patience: opts.CountPatience}}
}

// Complete answers the call on w. A returned fault means that nothing has been written. An error that is
// relay.ErrTold or relay.ErrGone means that there is nothing left to say.
//
// What is needed to admit the call is in a function of its own, so that its variables do not take up the stack of a
// stream that lasts for minutes.
func (l *Line) Complete(ctx context.Context, w http.ResponseWriter, models Models, call *Call) error {
	s, err := l.admit(ctx, w, &models, call)
	if err != nil {
		return err
	}
	// From here on the call is settled exactly once, whatever happens.
	defer s.failed() // after close: what the upstream has cost is then known
	defer s.close()
	if call.Request.Stream {
		l.streams.Add(1)
		defer l.streams.Add(-1)
	}

	// Open the first attempt that has something to say. A caller who waits for it gets keep-alive comments.
	reply, err := l.prepare(ctx, w, &models, s)
	if err != nil {
		return s.refused(ctx, err)
	}
	out := relay.New(w, relay.Head{RequestID: call.ID, Created: call.Start.Unix()}, relay.Options{
		Stream: call.Request.Stream, N: call.Request.N, IncludeUsage: call.Request.IncludeUsage, Pulse: l.pulse, Dialect: call.Dialect,
	})
	defer out.Close()
	err = reply.Start()
	out.Introduce(s.first.introduce)

	// Relay it, settle the call, and only then send the last byte: a caller who has got the whole reply
	// finds it in the usage and in the limits.
	var outcome *relay.Outcome
	if err == nil {
		outcome = out.Relay(ctx, reply)
	} else {
		outcome = out.Fail(ctx, err)
	}
	s.settle(outcome)
	return out.Finish()
}

// admit checks the call, chooses the model that answers, and admits it. It returns what must be settled.
func (l *Line) admit(ctx context.Context, w http.ResponseWriter, models *Models, call *Call) (*settling, error) {
	// Look the model up, and check the request against it and against the plan.
	prompt := size{req: call.Request, counting: l.counting}
	named, err := models.lookup(&prompt, call)
	if err != nil {
		return nil, err
	}
	describe(call.Span, call, named)
	admission := call.Span.Child("admission")
	defer admission.End()
	demand, refusal, err := l.permit(ctx, models, call, named, &prompt)
	if refusal != nil {
		refusal.SetHeader(w.Header())
	}
	if err != nil {
		return nil, failed(admission, err)
	}

	// Choose the model that answers.
	route := admission.Child("route")
	defer route.End()
	chosen := routing.Choice{Model: named}
	maintenance := l.closed(named.ID, call.Start)
	if named.Router && maintenance == nil {
		if chosen, err = l.router.Choose(ctx, l.query(models, call, named, prompt)); err != nil {
			return nil, failed(route, err)
		}
		w.Header()["X-Sluice-Route-Reason"] = []string{chosen.Reason}
		route.Text(telemetry.AttrReason, chosen.Reason)
	}
	route.Text(telemetry.AttrAnswered, chosen.Model.ID)
	route.End()

	lease, standing, err := l.gate.Admit(&demand)
	standing.SetHeader(w.Header())
	if err != nil {
		return nil, failed(admission, err)
	}
	// A limit is told before maintenance (docs/api.md#status-codes), which costs nothing.
	if maintenance != nil {
		lease.Release()
		l.gate.Standing(&demand).SetHeader(w.Header())
		return nil, failed(admission, maintenance)
	}
	l.router.Share(&chosen)
	first := l.attempts(ctx, models.Routes.Plan(chosen.Model, chosen.Others...), chosen.Model, call)
	first.prompt, first.routed = prompt, named.Router
	s := &settling{lease: lease, call: call, named: named, multiplier: demand.Multiplier(), first: first, last: first, status: http.StatusInternalServerError}
	s.way = usage.Way{RequestID: call.RequestID, Address: call.Address, Reason: chosen.Reason, Attempts: s.tried[:0]}
	first.way = &s.way
	if named.Router && models.Strengths != nil {
		s.routed = l.routed
	}
	return s, nil
}

// reply is what a call relays: the attempts of one turn, or a conversation with tools over several turns.
type reply interface {
	provider.Stream
	// Start calls upstreams until Next has an event to return. It is called once, before Next.
	Start() error
}

// prepare returns the reply of an admitted call, which has not been started. For a request with MCP tools it
// discovers the servers' tools; an error there is one that the caller can still get as an ordinary error
// response.
func (l *Line) prepare(ctx context.Context, w http.ResponseWriter, models *Models, s *settling) (reply, error) {
	if s.call.Request.HasMCP() {
		return l.converse(ctx, w, models, s)
	}
	return s.first, nil
}

// Explain returns which model would answer the call, and why, without calling it. That costs one request. The
// standing is nil if the request was refused before anybody looked at the limits.
func (l *Line) Explain(ctx context.Context, models Models, call Call) (routing.Choice, *admission.Standing, error) {
	prompt := size{req: call.Request, counting: l.counting}
	named, err := models.lookup(&prompt, &call)
	if err != nil {
		return routing.Choice{}, nil, err
	}
	demand, refusal, err := l.permit(ctx, &models, &call, named, &prompt)
	if err != nil {
		return routing.Choice{}, refusal, err
	}
	admitted, standing, err := l.gate.AdmitRequest(&demand)
	if err != nil {
		return routing.Choice{}, &standing, err
	}
	var choice routing.Choice
	if err = l.closed(named.ID, call.Start); err == nil {
		choice, err = l.router.Explain(ctx, l.query(&models, &call, named, prompt))
	}
	if err != nil { // a request that is refused costs nothing
		admitted.GiveBack()
		standing = l.gate.Standing(&demand)
	}
	return choice, &standing, err
}

// CountPrompt returns how many tokens the prompt of a call has, by our own tokenizer. That costs one request. A prompt
// may be longer than the model reads. The standing is nil if the request was refused before anybody looked at the limits.
func (l *Line) CountPrompt(ctx context.Context, models Models, call Call) (int, *admission.Standing, error) {
	prompt := size{req: call.Request, counting: l.counting}
	named, err := models.find(call.Request, &call)
	if err != nil {
		return 0, nil, err
	}
	demand := demandOf(&call, named, &prompt)
	if standing, err := l.gate.Access(&demand); err != nil {
		return 0, &standing, err
	}
	_, standing, err := l.gate.AdmitRequest(&demand)
	if err != nil {
		return 0, &standing, err
	}
	// As for a prompt near a limit: beyond the account's ration of counting, a sample decides.
	if l.counts.take(call.Caller.Account.ID, min(call.Request.PromptBytes(), maxCounted), mostCounted, call.Start) && prompt.count(ctx, 0) != nil {
		return 0, &standing, relay.Ended(ctx)
	}
	if prompt.exact > 0 {
		return prompt.exact, &standing, nil
	}
	return max(1, prompt.sample()), &standing, nil
}

// Knock returns the refusal that a call of the account would get now, if it has no request left. It costs nothing. It
// is for work that comes before a call is admitted.
func (l *Line) Knock(caller auth.Caller, limits account.Limits) (admission.Standing, error) {
	demand := &admission.Demand{Caller: caller, Limits: limits}
	// Usually there is a request left. Taking it, if only for a moment, could refuse another call.
	if standing := l.gate.Standing(demand); standing.Requests.Limit == account.Unlimited || standing.Requests.Remaining > 0 {
		return standing, nil
	}
	admitted, standing, err := l.gate.AdmitRequest(demand)
	if err == nil {
		admitted.GiveBack()
	}
	return standing, err
}

// Repeat admits the repeat of an earlier call, which gets the reply of that call. It costs one request. The earlier call
// may have been made with another key, or under another plan: model and tools are what this one needs access to. A model
// that is gone since is no reason to keep its reply back, unless the key may call only certain models.
func (l *Line) Repeat(models Models, caller auth.Caller, limits account.Limits, model string, tools bool) (admission.Standing, error) {
	demand := admission.Demand{Caller: caller, Limits: limits, Tools: tools, Model: admission.Model{ID: model}}
	if named, ok := models.Catalog.Resolve(model, caller.Account.Aliases); ok {
		demand.Model = admission.Model{ID: named.ID, Tier: named.Plan, StaffOnly: named.StaffOnly}
	}
	if standing, err := l.gate.Access(&demand); err != nil {
		return standing, err
	}
	return l.Admit(caller, limits)
}

// Admit admits a request that calls no model. It costs one request.
func (l *Line) Admit(caller auth.Caller, limits account.Limits) (admission.Standing, error) {
	_, standing, err := l.gate.AdmitRequest(&admission.Demand{Caller: caller, Limits: limits})
	return standing, err
}

// lookup returns the model that the request names, by its id or by an alias, if the model can take the request.
func (m *Models) lookup(prompt *size, call *Call) (*catalog.Model, error) {
	named, err := m.find(prompt.req, call)
	if err != nil {
		return nil, err
	}
	return named, prompt.check(named)
}

// find returns the model that the request names.
func (m *Models) find(req *chat.Request, call *Call) (*catalog.Model, error) {
	named, ok := m.Catalog.Resolve(req.Model, call.Caller.Account.Aliases)
	if !ok {
		return nil, fault.New(fault.Invalid, "There is no model %q. GET /v1/models lists those there are.", excerpt.Of(req.Model, 100)).At("model")
	}
	return named, nil
}

// Reads reports whether the prompt of a request fits the window of the model that it names, by a sample of it, with a
// sixteenth of the window to spare. Aliases are those of the caller's account. A request for an unknown model fits: it is
// refused for that.
func (m *Models) Reads(req *chat.Request, aliases *alias.Table) bool {
	named, ok := m.Catalog.Resolve(req.Model, aliases)
	if !ok {
		return true
	}
	prompt := size{req: req, settled: true}
	window := routing.Window(named)
	return prompt.within(window-window/16) != exceeds
}

// permit checks the caller's plan, and counts a prompt that is near a limit, which may refuse the request
// or double its cost. It returns what to ask of admission. The standing is nil unless the plan or a limit
// refuses the call; then it is for the headers of the error.
func (l *Line) permit(ctx context.Context, models *Models, call *Call, named *catalog.Model, prompt *size) (admission.Demand, *admission.Standing, error) {
	demand := demandOf(call, named, prompt)
	if standing, err := l.gate.Access(&demand); err != nil {
		return demand, new(standing), err
	}
	limit := models.nearLimit(named, prompt)
	if limit == 0 {
		return demand, nil, nil
	}
	if standing, err := l.measure(ctx, call.Start, &demand, prompt, limit); err != nil {
		return demand, new(standing), err
	}
	if err := prompt.check(named); err != nil {
		return demand, nil, err
	}
	return demandOf(call, named, prompt), nil, nil
}

// nearLimit returns the largest number of tokens that matters for the request and that the prompt may or
// may not exceed; 0: there is none, so nobody has to count. For the router the windows of all models matter.
func (m *Models) nearLimit(named *catalog.Model, prompt *size) (most int) {
	// A count up to the largest limit decides about the smaller ones, too.
	look := func(limit int) {
		if limit > most && prompt.within(limit) == unsure {
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

// measure counts a prompt that is near a limit. Counting is the only check that costs much. So it comes
// after the checks that cost little, and the call holds a place while it runs, which bounds how many
// prompts of one account are counted at the same time. The place is given back: the call is admitted again
// once its price is known. For an account that has used up its ration of counting, a sample decides.
func (l *Line) measure(ctx context.Context, now time.Time, demand *admission.Demand, prompt *size, most int) (admission.Standing, error) {
	lease, standing, err := l.gate.Admit(demand)
	if err != nil {
		return standing, err
	}
	defer lease.Release()
	if !l.counts.take(demand.Caller.Account.ID, min(prompt.req.PromptBytes(), maxCounted), mostCounted, now) {
		prompt.settled = true
		return admission.Standing{}, nil
	}
	// Count fails only if the caller hangs up or the server stops.
	if prompt.count(ctx, most) != nil {
		return admission.Standing{}, relay.Ended(ctx)
	}
	return admission.Standing{}, nil
}

// demandOf returns what the call asks of admission. The named model decides the price, also if the router
// chooses another one.
func demandOf(call *Call, named *catalog.Model, prompt *size) admission.Demand {
	req := call.Request
	// A caller may ask for more tokens than the model writes. Reserving them would only use up the limit.
	most := req.MaxTokens
	if named.MaxOutput > 0 {
		most = min(most, named.MaxOutput)
	}
	return admission.Demand{
		Caller: call.Caller, Limits: call.Limits, Tools: req.UsesTools(),
		Model:        admission.Model{ID: named.ID, Tier: named.Plan, StaffOnly: named.StaffOnly, RequestMilli: named.RequestMilli, UnitMilli: named.UnitMilli},
		PromptTokens: prompt.estimate(), MaxTokens: most, Choices: req.N, Long: prompt.isLong(),
	}
}

// question is a call as the router sees it.
type question struct {
	routing.Query
	line   *Line
	start  time.Time
	prompt size
}

// Closed and Reads implement routing.Circumstances.
func (q *question) Closed(m *catalog.Model) bool { return q.line.closed(m.ID, q.start) != nil }
func (q *question) Reads(most int) bool          { return q.prompt.within(most) != exceeds }

// query returns what the router needs to know about a call. It takes the size by value: the caller's would otherwise
// move to the heap, also for calls that are not routed.
func (l *Line) query(m *Models, call *Call, named *catalog.Model, prompt size) *routing.Query {
	a := call.Caller.Account
	q := &question{line: l, start: call.Start, prompt: prompt}
	q.Query = routing.Query{
		Circumstances: q,
		Catalog:       m.Catalog, Routes: m.Routes, Scorer: m.Scorer, Weights: m.Weights, Strengths: m.Strengths, Model: named,
		AccountID: a.ID, Plan: a.Plan, Staff: a.Staff, Request: call.Request,
		PromptTokens: prompt.estimate(),
	}
	return &q.Query
}
