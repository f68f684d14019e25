package inference

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sluice/internal/admission"
	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/relay"
	"sluice/internal/toolloop"
	"sluice/internal/usage"
)

// settling turns what a call came to into the lease's settlement (docs/accounting.md#what-costs-what).
type settling struct {
	lease      *admission.Lease
	call       Call
	named      *catalog.Model
	stream     *attempts        // of the first turn
	turn       *attempts        // of the last turn, which is mostly the first
	loop       *toolloop.Stream // where the tools include MCP servers, else nil
	header     http.Header      // of the reply, where there is a loop
	out        bool             // a tool server was called
	multiplier int64            // of a long prompt
	status     int              // of the fault that is answered; 500 until there is one, for a panic
	gone       bool             // the caller left before anything was sent
}

// outcome settles a call whose reply was sent or begun, and counts what the upstream did not.
func (s *settling) outcome(o *relay.Outcome) {
	s.tellCalls()
	status := http.StatusOK
	switch {
	case o.Complete:
	case errors.Is(o.Err, relay.ErrGone):
		s.gone = true
	default:
		status = fault.From(o.Err).Kind.Status()
	}
	s.settle(o, status)
}

// fault notes the status that a plain fault will be answered with, and tells who was called. A call that
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

// failed settles a call of which nothing was sent.
func (s *settling) failed() {
	if !s.lease.Settled() {
		s.settle(&relay.Outcome{}, s.status)
	}
}

// settle settles the call. Status is what its failure means to the caller, also where a stream with
// status 200 had begun.
func (s *settling) settle(o *relay.Outcome, status int) {
	free := status >= http.StatusInternalServerError && !s.gone
	spent := s.spent(o, free)
	r := s.record()
	requests := s.named.RequestMilli * s.multiplier
	switch {
	case o.Complete:
		r.End = usage.EndComplete
	case s.gone:
		r.End = usage.EndHangUp
	case spent.content:
		r.End = usage.EndCut
	default:
		r.End = usage.EndFailed
	}
	switch {
	case r.End != usage.EndFailed:
		r.RequestMilli, r.Tokens = requests, spent.tokens
		if spent.turns > 0 {
			used, _ := s.stream.used()
			r.UnitMilli = used.UnitMilli * s.multiplier * spent.turns * int64(max(1, s.call.Request.N))
			r.CostMicro = used.Pricing.Cost(spent.tokens)
		}
	case free:
		// What the upstream, or we, failed to do costs nothing.
	case s.out || spent.turns > 0:
		// Refused, but not before something went out. The upstream charges nothing for that.
		r.RequestMilli, r.Tokens = requests, spent.tokens
	}
	r.Counted = spent.counted && r.Tokens.Total() > 0
	switch {
	case o.Begun:
		r.Status = http.StatusOK
	case !s.gone:
		r.Status = status
	}
	if !o.FirstContent.IsZero() {
		r.FirstToken = o.FirstContent.Sub(s.call.Start)
	}
	s.lease.Settle(r)
}

// spent is what was asked of upstreams and what came of it.
type spent struct {
	tokens  chat.Usage
	counted bool  // by us, at least in part
	turns   int64 // of which an upstream was sent the prompt
	content bool  // one of them produced something
}

// spent finds out what the call came to. For a complete reply without figures it counts them, and puts
// them into the outcome. Free says that a call without content costs nothing, so that its prompt, which
// may be long, need not be counted.
func (s *settling) spent(o *relay.Outcome, free bool) spent {
	if s.loop != nil {
		return s.conversed(o, free)
	}
	sp := spent{content: o.Complete || !o.FirstContent.IsZero(), counted: !o.HasUsage}
	if !sp.content && (free || !s.stream.had) {
		return sp
	}
	sp.turns = 1
	figures, has := o.Usage, o.HasUsage
	if !has && !o.Complete {
		figures, has = s.stream.Figures()
	}
	switch {
	case !has:
		sp.tokens = count(s.call.Request, o)
	case o.Complete:
		sp.tokens = figures
	default:
		sp.tokens, sp.counted = provider.Partial(figures, count(s.call.Request, o)), false
	}
	o.Usage = sp.tokens
	return sp
}

func (s *settling) record() usage.Settlement {
	used, by := s.stream.used()
	calls, failed := s.remote()
	return usage.Settlement{
		ID: s.call.ID, At: s.call.Start, AccountID: s.call.Caller.Account.ID, KeyID: s.call.Caller.KeyID,
		Plan: s.call.Caller.Account.Plan.String(), Tier: used.Plan.String(),
		ModelAsked: s.named.ID, ModelUsed: used.ID, Provider: by, Latency: time.Since(s.call.Start),
		MCPCalls: calls, MCPFailed: failed,
	}
}
