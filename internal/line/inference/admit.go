package inference

import (
	"context"
	"net/http"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

// task is what a call asks of the model that it names. Each kind of call says what it demands; the rules are the same
// for all of them, and stand in Line.admit. A completion is a *size, a call for embeddings an *inputs.
type task interface {
	// check returns the fault of a task that the model cannot do, or nil. A length near the limit passes until it has been
	// counted.
	check(*catalog.Model) error
	// demand returns what the task takes from the limits; the caller and the model are added to it.
	demand(*catalog.Model) admission.Demand
	// doubt returns the largest number of tokens that matters and that the task may or may not exceed; 0: there is none,
	// so nobody has to count.
	doubt(*Models, *catalog.Model) int
	// bytes returns how much a count reads.
	bytes() int
	// count counts the tokens; it may stop once there are more than most. It returns an error only if ctx has ended.
	count(ctx context.Context, most int) error
	// guess decides by an estimate what a count would decide.
	guess(most int)
	// bound returns a number of tokens that the task does not exceed, and counted the count if one was made, else the bound: what is
	// reserved must not rest on an estimate.
	bound() int
	counted() int
}

// purpose is what a call is admitted for.
type purpose uint8

const (
	// toAnswer: a model answers the call, which takes its cost and a place.
	toAnswer purpose = iota
	// toExplain: the caller asks which model would answer. That costs one request.
	toExplain
	// toCount: the caller asks how long its prompt is, which may be longer than the model reads. That costs one request,
	// also while the model is under maintenance.
	toCount
)

// admitted is a call that was let in.
type admitted struct {
	named  *catalog.Model // the model that the request names: it decides the price, also if the router chooses another one
	chosen routing.Choice // the model that answers; only for toAnswer
	demand admission.Demand
	lease  *admission.Lease // for toAnswer
	taken  *admission.Job   // for the others
	hold   *budget.Hold     // what was reserved of budgets; nil: nothing
}

// giveBack returns what was taken, and tells how the caller stands then: a call that is refused costs nothing.
func (a *admitted) giveBack(gate *admission.Gate, h http.Header) {
	a.hold.Cancel()
	if a.lease != nil {
		a.lease.Release()
	} else {
		a.taken.GiveBack()
	}
	gate.Headroom(&a.demand).SetHeader(h)
}

// task returns the task of a call. The prompt is part of the call, which saves an allocation.
func (l *Line) task(call *Call) task {
	if call.Inputs != nil {
		return &inputs{req: call.Inputs, tokenize: l.counting.tokenize}
	}
	call.prompt = size{req: call.Request, counting: l.counting}
	if call.thread != nil {
		call.prompt.earlier = call.thread.Tokens
	}
	return &call.prompt
}

// admit looks up the model that the call names, checks the task against it and against the plan, chooses the model that
// answers, and takes what the call costs. It fills in a, and sets the headers about limits in h.
func (l *Line) admit(ctx context.Context, h http.Header, models *Models, call *Call, p purpose, a *admitted) (err error) {
	t := l.task(call)
	if a.named, err = models.find(call); err != nil {
		return err
	}
	if p != toCount {
		if err = t.check(a.named); err != nil {
			return err
		}
	}
	describe(call.Span, call, a.named)
	step := call.Span.Child("admission")
	defer step.End()
	if err = l.permit(ctx, h, models, call, t, p, a); err != nil {
		return failed(step, err)
	}
	var maintenance error
	if p != toCount {
		maintenance = l.closed(a.named.ID, call.Start)
	}
	var headroom admission.Headroom
	if p == toAnswer {
		if err = l.choose(ctx, h, models, call, a, step, maintenance == nil); err != nil {
			return err
		}
		a.lease, headroom, err = l.gate.Admit(&a.demand)
	} else {
		a.taken, headroom, err = l.gate.AdmitRequest(&a.demand)
	}
	headroom.SetHeader(h)
	if err != nil {
		return failed(step, err)
	}
	// A limit is told before maintenance (docs/api.md#status-codes), which costs nothing.
	if maintenance != nil {
		a.giveBack(l.gate, h)
		return failed(step, maintenance)
	}
	if p == toAnswer {
		if err = l.afford(ctx, h, models, call, t, a); err != nil {
			a.giveBack(l.gate, h)
			return failed(step, err)
		}
	}
	return nil
}

// find returns the model that the call names, by its id or an alias.
func (m *Models) find(call *Call) (*catalog.Model, error) {
	named, ok := m.Catalog.Resolve(call.model(), call.Caller.Account.Aliases)
	if !ok {
		return nil, fault.New(fault.Invalid, "There is no model %q. GET /v1/models lists those there are.", excerpt.Of(call.model(), 100)).At("model")
	}
	return named, nil
}

// permit checks the caller's plan, and counts a task that is near a limit, which may refuse the call or double its cost.
// It sets what to ask of admission, and the headers of a refusal.
func (l *Line) permit(ctx context.Context, h http.Header, models *Models, call *Call, t task, p purpose, a *admitted) error {
	a.demand = demandOf(call, a.named, t)
	headroom, err := l.gate.Access(&a.demand)
	if paused := call.Caller.Account.Runaway.Pause(call.Caller.KeyID); err == nil && paused != nil && p == toAnswer {
		headroom, err = l.gate.Refuse(&a.demand, budget.Paused(paused))
	}
	if err != nil {
		headroom.SetHeader(h)
		return err
	}
	if p == toCount { // which is counted once it is admitted
		return nil
	}
	limit := t.doubt(models, a.named)
	if limit == 0 {
		return nil
	}
	// Counting is the only check that costs much. So it comes after the checks that cost little, and the call holds a
	// place while it runs, which bounds how many prompts of one account are counted at the same time. The place is given
	// back: the call is admitted again once its price is known.
	lease, headroom, err := l.gate.Admit(&a.demand)
	if err != nil {
		headroom.SetHeader(h)
		return err
	}
	defer lease.Release()
	if err := l.count(ctx, call, t, limit); err != nil {
		return err
	}
	if err := t.check(a.named); err != nil {
		return err
	}
	a.demand = demandOf(call, a.named, t)
	return nil
}

// count counts a task. For an account that has used up its ration of counting, an estimate decides. It fails only if the
// caller hangs up or the server stops.
func (l *Line) count(ctx context.Context, call *Call, t task, most int) error {
	if !l.counts.take(call.Caller.Account.ID, min(t.bytes(), maxCounted), mostCounted, call.Start) {
		t.guess(most)
		return nil
	}
	if t.count(ctx, most) != nil {
		return relay.Ended(ctx)
	}
	return nil
}

// demandOf returns what the call asks of admission.
func demandOf(call *Call, named *catalog.Model, t task) admission.Demand {
	d := t.demand(named)
	d.Caller, d.Limits = call.Caller, call.Limits
	d.Model = admission.Model{ID: named.ID, Tier: named.Plan, StaffOnly: named.StaffOnly, RequestMilli: named.RequestMilli, UnitMilli: named.UnitMilli}
	return d
}

// choose chooses the model that answers: the one that the request names, or the router's choice. The router is not asked
// while it is not open.
func (l *Line) choose(ctx context.Context, h http.Header, models *Models, call *Call, a *admitted, step *telemetry.Span, open bool) (err error) {
	a.chosen = routing.Choice{Model: a.named}
	if call.Inputs != nil { // vectors of different models cannot be compared
		return nil
	}
	route := step.Child("route")
	defer route.End()
	if held := l.held(models, call); a.named.Router && held != nil {
		a.chosen.Model = held
	} else if a.named.Router && open {
		if a.chosen, err = l.router.Choose(ctx, l.query(models, call, a.named)); err != nil {
			return failed(route, err)
		}
		h["X-Sluice-Route-Reason"] = []string{a.chosen.Reason}
		route.Text(telemetry.AttrReason, a.chosen.Reason)
	}
	route.Text(telemetry.AttrAnswered, a.chosen.Model.ID)
	return nil
}

// open admits a call that a model is to answer. It returns what must be settled. The first attempt has not been started.
func (l *Line) open(ctx context.Context, h http.Header, models *Models, call *Call) (*settling, error) {
	if err := l.recall(ctx, h, call); err != nil {
		return nil, err
	}
	var a admitted
	if err := l.admit(ctx, h, models, call, toAnswer, &a); err != nil {
		return nil, err
	}
	return l.settling(ctx, h, models, call, &a), nil
}

// settling returns what must be settled of an admitted call. It is a function of its own because admission goes deep, and the
// variables here would lie below it: a stack that has grown once stays so as long as the call.
func (l *Line) settling(ctx context.Context, h http.Header, models *Models, call *Call, a *admitted) *settling {
	l.router.Share(&a.chosen)
	plan := models.Routes.Plan(a.chosen.Model, a.chosen.Others...)
	pinned := call.thread != nil && plan.Pin(call.thread.Provider, call.thread.Upstream, call.thread.Key, call.thread.Replica)
	first := l.attempts(ctx, plan, a.chosen.Model, call)
	first.call.Continues = pinned
	first.prompt, first.routed = &call.prompt, a.named.Router
	s := &settling{header: h, lease: a.lease, hold: a.hold, call: call, named: a.named, multiplier: a.demand.Multiplier(), first: first, last: first, status: http.StatusInternalServerError}
	s.requestTrace = usage.Trace{RequestID: call.RequestID, Address: call.Address, Session: call.Session, Reason: a.chosen.Reason, Attempts: s.tried[:0]}
	first.requestTrace = &s.requestTrace
	if a.named.Router && models.Strengths != nil {
		s.routed = l.routed
	}
	return s
}
