// Package inference runs one chat completion, from the parsed request to the settled lease.
//
// Line.Complete is the whole walk: look the model up, choose, admit, open the first attempt that has
// something to say, relay it, settle. Embed is the same for embeddings. Each step is a call into the package that knows how. What this
// package adds is the one way a call is admitted (admit.go), the retries over a plan's targets (attempts.go), how long a
// prompt is (size.go), conversations that upstreams hold (thread.go), and what a call costs (settlement.go).
package inference

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/http"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/pulse"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/runaway"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/line/toolloop"
	"sluice/internal/prompt/alias"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/prompt/prefix"
	"sluice/internal/upstream/caching"
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

// Call is one request for a completion or for embeddings.
type Call struct {
	ID    string // the request's id
	Start time.Time
	// Span is the span of the request; nil: it is not traced.
	Span *telemetry.Span
	// Wait gets the time that the call waits for upstreams and tools; nil: it is not measured.
	Wait    *telemetry.Wait
	Caller  auth.Caller
	Limits  account.Limits      // the limits in force for the caller's account
	Request *chat.Request       // of a completion, and of questions about one; nil: it asks for embeddings
	Inputs  *embeddings.Request // of a call for embeddings
	// Door is the name of the door that the call came through, as the settlement has it, and Dialect writes its reply;
	// empty and nil: chat completions.
	Door    string
	Dialect relay.Dialect
	Depth   int // how many calls through our own MCP server it is nested in
	// Address is the caller's, and RequestID the id that the caller is told if a proxy gave it. Both are kept
	// with the settlement.
	Address, RequestID string
	Session            string // the caller's name of the run that the call belongs to; empty: it gave none
	// MaxCost is the most that the call may cost; nil: budgets alone bound it. Clamp says that a shorter reply is better than
	// none if there is not enough for the longest.
	MaxCost *price.Nano
	Clamp   bool
	// Tags are what the calls of the account are marked with by their owner; nil: nothing. They outlive the call.
	Tags     []string
	TellCost bool // the usage of the reply says what the call costs
	// Receipt is what the receipt of the call needs; nil: it has none.
	Receipt *Receipt

	prompt size        // of Request; set by the line
	thread *thread     // that Request continues; nil: it continues none, or one that is not known. Set by the line
	afford *affordable // what the call may cost; nil: nothing bounds it. Set by the line
}

// Receipt is how a call gets its receipt.
type Receipt struct {
	Request [sha256.Size]byte // the hash of the body as it was received
	Deliver bool              // it goes out with the reply; it is stored in any case
}

// model returns the name of the model that the call asks for.
func (c *Call) model() string {
	if c.Inputs != nil {
		return c.Inputs.Model
	}
	return c.Request.Model
}

// choices returns how many replies the call asks for.
func (c *Call) choices() int {
	if c.Inputs != nil {
		return 1
	}
	return max(1, c.Request.N)
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// States keeps what adapters need for a later turn; nil: nothing is kept.
	States *continuation.States
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
	// Deliver signs the receipt of a settled call, and returns it; empty: there is none. Nil: no call gets one.
	Deliver func(*usage.Receipt) string
	// Budgets keeps calls within the budgets of their accounts; nil: nothing does.
	Budgets Budgets
	// Runaway is told of every call that has cost something; nil: nobody is.
	Runaway *runaway.Watch
	// Prefixes is what fingerprints of prompts are made under; nil: none are made.
	Prefixes *prefix.Key
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
	states   *continuation.States // nil: nothing is kept
	tools    *toolloop.Loop       // nil: no MCP tools
	router   *routing.Router
	closed   func(model string, now time.Time) error
	routed   func(usage.Settlement)      // may be nil
	deliver  func(*usage.Receipt) string // may be nil
	budgets  Budgets                     // may be nil
	runaway  *runaway.Watch              // may be nil
	prefixes *prefix.Key                 // may be nil
	patience time.Duration
	counting counting
	counts   ration // of bytes of prompts that are counted
	returns  ration // of failed calls that are given back
	marks    *caching.Memory
	streams  atomic.Int64 // streams that are open
}

// Streams returns the number of streamed replies that are under way.
func (l *Line) Streams() int64 { return l.streams.Load() }

// New returns a line behind the gate. The pulse keeps silent streams alive.
func New(gate *admission.Gate, p *pulse.Pulse, opts *Options) *Line {
	if opts == nil {
		opts = &Options{}
	}
	closed := opts.Closed
	if closed == nil {
		closed = func(string, time.Time) error { return nil }
	}
	return &Line{marks: caching.NewMemory(), closed: closed, gate: gate, pulse: p, states: opts.States, tools: opts.Tools, router: cmp.Or(opts.Router, routing.NewRouter(nil)), routed: opts.Routed, deliver: opts.Deliver, budgets: opts.Budgets, runaway: opts.Runaway, prefixes: opts.Prefixes, patience: cmp.Or(opts.Patience, patience), counting: counting{patience: opts.CountPatience}}
}

// Complete answers the call on w. A returned fault means that nothing has been written. An error that is
// relay.ErrTold or relay.ErrGone means that there is nothing left to say.
//
// What is needed to admit the call is in a function of its own, so that its variables do not take up the stack of a
// stream that lasts for minutes.
func (l *Line) Complete(ctx context.Context, w http.ResponseWriter, models Models, call *Call) error {
	s, err := l.open(ctx, w.Header(), &models, call)
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
		Stream: call.Request.Stream, N: call.Request.N, IncludeUsage: call.Request.IncludeUsage || call.TellCost, Pulse: l.pulse, Dialect: call.Dialect,
		Sign: s.signer(),
	})
	defer out.Close()
	err = reply.Start()
	out.Introduce(s.first.introduce)

	// Relay it, settle the call, and only then send the last byte: a caller who has got the whole reply
	// finds it in the usage and in the limits. A call with a receipt is settled when Finish knows the last byte.
	var outcome *relay.Outcome
	if err == nil {
		outcome = out.Relay(ctx, reply)
	} else {
		outcome = out.Fail(ctx, err)
	}
	s.settle(outcome)
	return out.Finish()
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

// Explain returns which model would answer the call, and why, without calling it. It counts the prompt, for Costs. That costs one
// request. It sets the headers about limits in h.
func (l *Line) Explain(ctx context.Context, h http.Header, models Models, call *Call) (routing.Choice, error) {
	var a admitted
	if err := l.admit(ctx, h, &models, call, toExplain, &a); err != nil {
		return routing.Choice{}, err
	}
	if err := l.count(ctx, call, &call.prompt, 0); err != nil {
		return routing.Choice{}, err
	}
	choice, err := l.router.Explain(ctx, l.query(&models, call, a.named))
	if err != nil {
		a.giveBack(l.gate, h)
	}
	return choice, err
}

// Caching is what would be marked for the cache of a vendor.
type Caching struct {
	Marks  caching.Marks
	Reason string // empty: nobody wants marks, or the vendor needs none
}

// ExplainMarks returns what would be marked if the call went to the first target of a model. It changes nothing, and the
// call must have been explained.
func (l *Line) ExplainMarks(models Models, call *Call, m *catalog.Model) Caching {
	t := models.Routes.First(m)
	if t == nil {
		return Caching{}
	}
	marks := l.marksOf(call)
	marks.looking = true
	set := marks.decide(&place{m, t.Adapter, t.Provider, t.Upstream, t.LastFour}, call.Request, call.Start, call.prompt.estimate)
	return Caching{set, marks.reason}
}

// CountPrompt returns how many tokens the prompt of a call has, by our own tokenizer. That costs one request. A prompt
// may be longer than the model reads. It sets the headers about limits in h.
func (l *Line) CountPrompt(ctx context.Context, h http.Header, models Models, call *Call) (int, error) {
	if err := l.admit(ctx, h, &models, call, toCount, new(admitted)); err != nil {
		return 0, err
	}
	// As for a prompt near a limit: beyond the account's ration of counting, a sample decides.
	if err := l.count(ctx, call, &call.prompt, 0); err != nil {
		return 0, err
	}
	if call.prompt.exact > 0 {
		return call.prompt.exact, nil
	}
	return max(1, call.prompt.sample()), nil
}

// Knock returns the refusal that a call of the account would get now, if it has no request left. It costs nothing. It
// is for work that comes before a call is admitted. It sets the headers about limits of a refusal in h.
func (l *Line) Knock(h http.Header, caller auth.Caller, limits account.Limits) error {
	demand := &admission.Demand{Caller: caller, Limits: limits}
	// Usually there is a request left. Taking it, if only for a moment, could refuse another call.
	if headroom := l.gate.Headroom(demand); headroom.Requests.Limit == account.Unlimited || headroom.Requests.Remaining > 0 {
		return nil
	}
	taken, headroom, err := l.gate.AdmitRequest(demand)
	if err != nil {
		headroom.SetHeader(h)
		return err
	}
	taken.GiveBack()
	return nil
}

// Repeat admits the repeat of an earlier call, which gets the reply of that call. It costs one request. The earlier call
// may have been made with another key, or under another plan: model and tools are what this one needs access to. A model
// that is gone since is no reason to keep its reply back, unless the key may call only certain models. It sets the headers
// about limits in h.
func (l *Line) Repeat(h http.Header, models Models, caller auth.Caller, limits account.Limits, model string, tools bool) error {
	demand := admission.Demand{Caller: caller, Limits: limits, Tools: tools, Model: admission.Model{ID: model}}
	if named, ok := models.Catalog.Resolve(model, caller.Account.Aliases); ok {
		demand.Model = admission.Model{ID: named.ID, Tier: named.Plan, StaffOnly: named.StaffOnly}
	}
	if headroom, err := l.gate.Access(&demand); err != nil {
		headroom.SetHeader(h)
		return err
	}
	return l.Admit(h, caller, limits)
}

// Admit admits a request that calls no model. It costs one request. It sets the headers about limits in h.
func (l *Line) Admit(h http.Header, caller auth.Caller, limits account.Limits) error {
	_, headroom, err := l.gate.AdmitRequest(&admission.Demand{Caller: caller, Limits: limits})
	headroom.SetHeader(h)
	return err
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

// question is a call as the router sees it.
type question struct {
	routing.Query
	line *Line
	call *Call
}

// Closed and Reads implement routing.Circumstances.
func (q *question) Closed(m *catalog.Model) bool { return q.line.closed(m.ID, q.call.Start) != nil }
func (q *question) Reads(most int) bool          { return q.call.prompt.within(most) != exceeds }

// query returns what the router needs to know about a completion.
func (l *Line) query(m *Models, call *Call, named *catalog.Model) *routing.Query {
	a := call.Caller.Account
	q := &question{line: l, call: call}
	q.Query = routing.Query{
		Circumstances: q,
		Catalog:       m.Catalog, Routes: m.Routes, Scorer: m.Scorer, Weights: m.Weights, Strengths: m.Strengths, Model: named,
		AccountID: a.ID, Plan: a.Plan, Staff: a.Staff, Request: call.Request,
		PromptTokens: call.prompt.estimate(),
	}
	return &q.Query
}
