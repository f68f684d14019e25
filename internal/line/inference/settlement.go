package inference

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/line/toolloop"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// settling is an admitted call. It turns what became of the call into the settlement of its lease
// (docs/accounting.md#what-costs-what), exactly once:
//
//   - settle settles a call that produced or sent something, before the last byte goes out;
//   - failed, deferred, settles every other call, also after a panic.
type settling struct {
	lease        *admission.Lease
	hold         *budget.Hold // what the call has reserved of budgets; nil: nothing
	call         *Call
	named        *catalog.Model         // the model that the request names: it decides the requests
	multiplier   int64                  // of requests and units; 2 for a long prompt
	first        *attempts              // of the first turn: the model that answers it decides the units
	last         *attempts              // of the last turn; without MCP tools that is the first
	asked        []*attempts            // of all turns of a call with MCP tools
	loop         *toolloop.Stream       // of a call with MCP tools, else nil
	header       http.Header            // of the reply
	contacted    bool                   // an MCP server was contacted
	gone         bool                   // the caller hung up
	requestTrace usage.Trace            // of all turns
	tried        [1]usage.Attempt       // room for the only attempt of the usual call, which saves an allocation
	routed       func(usage.Settlement) // gets the settlement; nil: the model was named, or feedback is off
	cost         [1]string              // the value of a header, here because it saves an allocation
	status       int                    // what a call that failed is answered with; 500 unless a fault says more
	pending      *pending               // what waits for the receipt; nil: nothing
}

// pending is a settlement that waits for the last bytes of the reply, of which its receipt tells.
type pending struct {
	usage.Settlement
	outcome *relay.Outcome
	span    *telemetry.Span
}

// close frees the upstream, and the MCP servers' sessions.
func (s *settling) close() {
	if s.loop != nil {
		_ = s.loop.Close() // never fails
	}
	_ = s.last.Close() // whatever the reply was, it is over
}

// settle settles a call of which something was produced or sent. It sets the usage in the outcome if the
// upstream gave no figures. For an empty outcome it only notes the status: failed settles the call once the
// upstream is closed, when all that it has cost is known.
func (s *settling) settle(o *relay.Outcome) {
	if o.Empty() {
		s.status = fault.From(o.Err).Kind.Status()
		return
	}
	s.tellCalls()
	status := http.StatusOK
	switch {
	case o.Complete:
	case errors.Is(o.Err, relay.ErrGone): // what was produced until then counts
		s.gone = true
	default:
		status = fault.From(o.Err).Kind.Status()
	}
	s.settleAs(o, status)
}

// settleAs settles the lease, and adds what became of the call to its trace.
func (s *settling) settleAs(o *relay.Outcome, status int) {
	span := s.call.Span.Child("settle")
	r := s.settlement(o, status)
	if f := s.call.afford; f != nil {
		r.Bound(f.bound()) // a vendor may say that it has used more than anybody could expect
	}
	s.print(&r)
	o.Cost, o.TellCost = r.Charge(), s.call.TellCost
	s.tellCost(o.Cost)
	if s.call.Receipt != nil && r.End != usage.EndFailed {
		s.pending = &pending{r, o, span}
		return
	}
	s.recorded(&pending{r, o, span})
}

// print adds the fingerprint of the prompt, if the model has a cache. By now the caller has all of the reply but its last bytes.
func (s *settling) print(r *usage.Settlement) {
	key := s.first.line.prefixes
	if key == nil || r.Cacheable == 0 || s.call.Request == nil {
		return
	}
	p := &usage.Prefix{}
	p.Conversation, p.Print = s.call.Request.Prefix(key, r.AccountID)
	r.Trace.Prefix = p
}

// recorded settles the lease with a settlement, and tells others of it.
func (s *settling) recorded(p *pending) {
	// Like the lease, what is left of a reservation is free only once the settlement is recorded.
	if s.hold != nil {
		p.Terms.Budgets = s.hold.Charges(p.At)
		defer s.hold.Settle(p.Spent(&usage.Charge{Reserved: s.hold.Reserved()}))
	}
	s.lease.Settle(p.Settlement)
	if s.routed != nil {
		s.routed(p.Settlement)
	}
	if s.first.line.runaway != nil {
		s.watched(&p.Settlement)
	}
	if s.call.Span != nil {
		p.span.End()
		s.tell(p.outcome, p.Settlement)
	}
}

// CostHeader has what the caller is told that a call costs, in dollars.
const CostHeader = "X-Sluice-Cost"

// tellCost sets the header of a reply that is not streamed, unless the price is not known. Of a stream, the cost is known only
// after its headers.
func (s *settling) tellCost(cost *price.Nano) {
	if cost == nil || s.call.Request != nil && s.call.Request.Stream {
		return
	}
	var room [24]byte
	s.cost[0] = string(cost.AppendJSON(room[:0]))
	s.header[CostHeader] = s.cost[:]
}

// signer returns what settles the call with its receipt, for relay.Options; nil: it gets none.
func (s *settling) signer() func(*[sha256.Size]byte) string {
	if s.call.Receipt == nil {
		return nil
	}
	return s.attest
}

// attest settles a call whose reply has a hash, and returns its receipt if it goes out with the reply.
func (s *settling) attest(reply *[sha256.Size]byte) string {
	p := s.pending
	if p == nil {
		return "" // it failed, or nothing was produced
	}
	s.pending = nil
	r := &usage.Receipt{Request: s.call.Receipt.Request}
	if reply != nil {
		r.Reply, r.Replied = *reply, true
	}
	p.Receipt = r
	s.recorded(p)
	if !s.call.Receipt.Deliver || s.first.line.deliver == nil {
		return ""
	}
	return s.first.line.deliver(r)
}

// refused notes why a call ends before its model was called, and returns the error. If the caller hung up,
// that is the reason, whatever else failed.
func (s *settling) refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = relay.Ended(ctx)
	}
	if errors.Is(err, relay.ErrGone) {
		s.gone = true
		return err
	}
	s.status = fault.From(err).Kind.Status()
	return err
}

// failed settles a call that settle has not settled.
func (s *settling) failed() {
	if s.pending != nil { // the end of the reply could not be made
		s.recorded(s.pending)
	}
	if !s.lease.Settled() {
		s.settleAs(&relay.Outcome{}, s.status)
	}
}

// settlement returns the settlement of the call. Status is what the failure means to the caller, even if a stream with status
// 200 had begun: a failure of 500 and above that produced nothing is free.
func (s *settling) settlement(o *relay.Outcome, status int) usage.Settlement {
	free := status >= http.StatusInternalServerError && !s.gone
	spent := s.spent(o, free)
	r := s.record()
	requests := s.named.RequestMilli * s.multiplier

	// How it ended.
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

	// What it costs. The requests are those of the named model, the units and the price those of the model
	// that answered.
	switch {
	case r.End != usage.EndFailed:
		r.RequestMilli, r.Tokens = requests, spent.tokens
		if spent.turns > 0 {
			used, _ := s.first.used()
			// A call of a tool that the vendor runs costs as much as a turn (docs/accounting.md#what-costs-what).
			r.UnitMilli = used.UnitMilli * s.multiplier * (spent.turns*int64(cmp.Or(o.Choices, s.call.choices())) + int64(s.first.Bill().Calls))
			s.bill(&r, o, &spent)
		}
	case free && (s.first.count == 0 && !s.contacted || s.first.line.returns.take(r.AccountID, 1, mostGivenBack, time.Now())):
		// A failure of the upstream, or of ours, costs nothing.
	case free:
		// The account has had many of them in this minute: its requests stay taken, so that its limit bounds the calls
		// that reach a failing upstream.
		r.RequestMilli = requests
	case s.contacted || spent.turns > 0:
		// Refused, but only after a server or an upstream was called. It costs its requests and tokens. It
		// has no cost in money: upstreams charge nothing for a refusal.
		r.RequestMilli, r.Tokens = requests, spent.tokens
	}
	r.Counted = spent.counted && r.Tokens.Total() > 0

	// What the caller saw: a stream that began has status 200, and one who hung up before that saw nothing.
	switch {
	case o.Begun:
		r.Status = http.StatusOK
	case !s.gone:
		r.Status = status
	}
	if !o.FirstContent.IsZero() {
		r.FirstToken = o.FirstContent.Sub(s.call.Start)
	}
	return r
}

// spent is what a call consumed at upstreams.
type spent struct {
	tokens  chat.Usage
	counted bool // by us, at least in part: the upstream gave no figures
	// estimated: the reply was cut, so the upstream may have produced more than we have seen
	estimated bool
	turns     int64 // turns in which an upstream was sent the prompt
	content   bool  // one of them produced something
	// each is what the turns of a conversation with tools consumed; nil: there is one turn, which has consumed it all
	each []turn
}

// spent returns what the call consumed, and sets the usage in the outcome. It counts the tokens if the
// upstream gave no figures. If free is set, a call without content costs nothing, so its prompt, which may
// be long, is not counted.
func (s *settling) spent(o *relay.Outcome, free bool) spent {
	if s.loop != nil {
		return s.conversed(o, free)
	}
	sp := spent{content: o.Complete || !o.FirstContent.IsZero(), counted: !o.HasUsage}
	if !sp.content && (free || !s.first.had) {
		return sp
	}
	sp.turns, sp.estimated = 1, !o.Complete
	// The figures at the end of a reply are those of the upstream's bill. A reply that was cut may have early
	// ones, which cover the prompt: they are completed with our own count.
	figures, has := o.Usage, o.HasUsage
	if !has && !o.Complete {
		figures, has = s.first.Figures()
	}
	switch {
	case !has:
		sp.tokens = s.first.bounded(s.count(o), s.call.choices())
	case o.Complete:
		sp.tokens = figures
	default:
		sp.tokens, sp.counted = s.first.bounded(provider.Partial(figures, s.count(o)), s.call.choices()), false
	}
	o.Usage = sp.tokens
	return sp
}

// count returns the usage of a call whose upstream gave no figures. Bytes beyond what relay keeps count as a
// quarter of a token each.
func (s *settling) count(o *relay.Outcome) chat.Usage {
	if s.call.Inputs != nil {
		return chat.Usage{Prompt: s.call.Inputs.Count()}
	}
	text, reasoning, more := o.Produced()
	return chat.Usage{
		Prompt:     s.call.prompt.earlier + promptTokens(s.call.Request),
		Completion: tokens.Count(text) + more/4,
		Reasoning:  tokens.Count(reasoning),
	}
}

// record returns the part of the settlement that does not depend on the outcome.
func (s *settling) record() usage.Settlement {
	used, by := s.first.used()
	calls, failed := s.remote()
	// An alias is kept as it was asked for. It may be a part of the body, which does not outlive the call.
	asked := s.named.ID
	if name := s.call.model(); name != asked {
		asked = strings.Clone(name)
	}
	return usage.Settlement{
		ID: s.call.ID, At: s.call.Start, AccountID: s.call.Caller.Account.ID, KeyID: s.call.Caller.KeyID,
		Plan: s.call.Caller.Account.Plan.String(), Tier: used.Plan.String(), Door: s.call.Door,
		ModelAsked: asked, ModelUsed: used.ID, Provider: by, Latency: time.Since(s.call.Start),
		MCPCalls: calls, MCPFailed: failed, Trace: &s.requestTrace, Terms: usage.Terms{Tags: s.call.Tags},
	}
}
