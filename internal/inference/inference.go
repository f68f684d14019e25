// Package inference is one chat completion, from the parsed request to the settled lease.
//
// Complete reads like the sentence it is: look the model up, check the request against it, admit,
// choose who answers, call, relay, settle. Each step is a call into the package that knows how.
package inference

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sluice/internal/account"
	"sluice/internal/admission"
	"sluice/internal/auth"
	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/pulse"
	"sluice/internal/relay"
	"sluice/internal/routing"
	"sluice/internal/usage"
)

// Models is who can be asked: the catalog, and the adapters by the provider names written in it.
type Models struct {
	Catalog  *catalog.Catalog
	Adapters map[string]provider.Adapter
}

// Call is one request for a completion.
type Call struct {
	ID      string // the request's
	Start   time.Time
	Caller  auth.Caller
	Limits  account.Limits // those in force for the caller's account
	Request *chat.Request
}

// Line is the way of every chat completion.
type Line struct {
	gate  *admission.Gate
	pulse *pulse.Pulse
}

// New returns a line behind the gate. The pulse keeps silent streams alive.
func New(gate *admission.Gate, p *pulse.Pulse) *Line { return &Line{gate: gate, pulse: p} }

// Complete answers the call on w. A returned fault means that nothing has been written;
// relay.ErrTold and relay.ErrGone, that there is nothing left to say.
func (l *Line) Complete(ctx context.Context, w http.ResponseWriter, models Models, call Call) error {
	req := call.Request
	asked, ok := models.Catalog.Lookup(req.Model)
	if !ok {
		return fault.New(fault.Invalid, "There is no model %q. GET /v1/models lists those there are.", clip(req.Model)).At("model")
	}
	if err := check(req, asked); err != nil {
		return err
	}
	ask := asking(call, asked)
	if standing, err := l.gate.Access(&ask); err != nil {
		standing.SetHeader(w.Header())
		return err
	}
	model, err := routing.Choose(models.Catalog, asked, call.Caller.Account.Plan, req)
	if err != nil {
		return err
	}
	if model != asked {
		if err := check(req, model); err != nil {
			return err
		}
	}
	lease, standing, err := l.gate.Admit(&ask)
	standing.SetHeader(w.Header())
	if err != nil {
		return err
	}
	s := &settling{lease: lease, call: call, asked: asked, used: model, multiplier: ask.Multiplier(), status: http.StatusInternalServerError}
	defer s.failed() // counts only where nothing else settled it

	stream, err := open(ctx, models, model, req)
	if err != nil {
		return s.fault(ctx, err)
	}
	defer stream.Close()
	send := relay.Collect
	if req.Stream {
		send = relay.Stream
	}
	err = send(ctx, w, stream, relay.Head{RequestID: call.ID, Created: call.Start.Unix(), Model: model.ID}, relay.Options{
		N: req.N, IncludeUsage: req.IncludeUsage, Pulse: l.pulse, Settle: s.outcome,
	})
	return s.fault(ctx, err)
}

// asking is what the call wants of admission.
func asking(call Call, asked *catalog.Model) admission.Ask {
	req := call.Request
	return admission.Ask{
		Caller: call.Caller, Limits: call.Limits, Model: asked, Tools: len(req.Tools) > 0,
		PromptTokens: estimate(req), MaxTokens: req.MaxTokens, Long: isLong(req),
	}
}

// open asks the model's provider.
func open(ctx context.Context, models Models, m *catalog.Model, req *chat.Request) (provider.Stream, error) {
	adapter := models.Adapters[m.Provider]
	if adapter == nil {
		return nil, fault.New(fault.Unavailable, "The model %q is not available at the moment.", m.ID).
			Because(errors.New("no adapter for provider " + m.Provider))
	}
	return adapter.Open(ctx, &provider.Call{Request: req, Upstream: m.Upstream, MaxOutput: m.MaxOutput, Thinks: m.Thinks})
}

// settling makes the lease's settlement of what the call came to.
type settling struct {
	lease       *admission.Lease
	call        Call
	asked, used *catalog.Model
	multiplier  int64 // of a long prompt
	status      int   // of the fault that is answered; as long as there is none, that of a panic
	gone        bool  // the caller left before anything was sent
}

// outcome settles a call whose reply was sent or begun, and counts what the upstream did not.
func (s *settling) outcome(o *relay.Outcome) {
	if !o.HasUsage && (o.Complete || !o.FirstContent.IsZero()) {
		o.Usage = count(s.call.Request, o)
	}
	r := s.record()
	r.Tokens, r.Counted = o.Usage, !o.HasUsage
	r.RequestMilli = s.asked.RequestMilli * s.multiplier
	if o.Begun {
		r.Status = http.StatusOK
	}
	if o.Complete || !o.FirstContent.IsZero() {
		r.UnitMilli = s.used.UnitMilli * s.multiplier
		r.CostMicro = s.used.Pricing.Cost(o.Usage)
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

// fault notes the status that a plain fault will be answered with. A call that failed because its
// caller left is no fault of anybody.
func (s *settling) fault(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, relay.ErrGone) || errors.Is(err, relay.ErrTold) {
		return err
	}
	if ctx.Err() != nil {
		s.gone = true
		return errors.Join(relay.ErrGone, err)
	}
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
	return usage.Settlement{
		ID: s.call.ID, At: s.call.Start, AccountID: s.call.Caller.Account.ID, KeyID: s.call.Caller.KeyID,
		Plan: s.call.Caller.Account.Plan.String(), Tier: s.used.Plan.String(),
		ModelAsked: s.asked.ID, ModelUsed: s.used.ID, Provider: s.used.Provider, Latency: time.Since(s.call.Start),
	}
}
