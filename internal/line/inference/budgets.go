package inference

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"sluice/internal/account"
	"sluice/internal/kit/excerpt"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/runaway"
	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/catalog"
)

// Budgets keeps calls within the budgets of their accounts; *budget.Ledger does.
type Budgets interface {
	Reserve(ctx context.Context, a *account.Account, dues []budget.Due, need price.Nano) (*budget.Hold, *budget.Obstacle, error)
	// ReservePlenty is Reserve if the budgets have far more left than a call needs; otherwise it returns nil.
	ReservePlenty(a *account.Account, dues []budget.Due, need price.Nano) *budget.Hold
}

// affordable is what a call may cost. A model that could cost more does not answer it.
type affordable struct {
	line *Line
	call *Call
	most price.Nano
	// prompt is how many tokens the prompt has at most, and clamped the longest reply; 0: that of the model.
	prompt, clamped int
	hard            bool // most is reserved of a hard budget; else the call's MaxCost alone bounds it
}

// bound returns the most that the customer pays for the call.
func (f *affordable) bound() price.Nano {
	if f.hard {
		return f.most
	}
	return *f.call.MaxCost
}

// output returns how many tokens a reply of the model may have.
func (f *affordable) output(m *catalog.Model) int {
	if f.clamped > 0 && (m.MaxOutput == 0 || f.clamped < m.MaxOutput) {
		return f.clamped
	}
	return m.MaxOutput
}

// fits reports whether a model cannot cost more. It does for a call that nothing bounds.
func (f *affordable) fits(m *catalog.Model) bool {
	if f == nil {
		return true
	}
	cost, ok := f.line.worst(f.call, m, f.prompt, f.clamped)
	return ok && cost <= f.most
}

// afford reserves the most that the call can cost from the budgets that it counts against, and sees that it costs no more than
// its caller allows. It does nothing for a call that nothing bounds.
func (l *Line) afford(ctx context.Context, h http.Header, models *Models, call *Call, t task, a *admitted) error {
	var dues []budget.Due
	if l.budgets != nil && len(call.Caller.Account.Budgets) > 0 {
		dues = budget.Of(call.Caller.Account, call.Caller.KeyID, call.Tags, call.Session)
	}
	if !budget.Hard(dues) && call.MaxCost == nil {
		if len(dues) > 0 { // they only warn
			a.hold, _, _ = l.budgets.Reserve(ctx, call.Caller.Account, dues, 0) // which needs nothing and cannot fail
		}
		return nil
	}
	f := &affordable{line: l, call: call, prompt: t.bound(), hard: budget.Hard(dues)}
	l.pass(f, a)
	// While there is plenty, the bytes of the prompt bound its tokens, and nobody has to count them.
	var ok bool
	if f.most, ok = l.dearest(models, call, a, f); ok && call.MaxCost == nil {
		if a.hold = l.budgets.ReservePlenty(call.Caller.Account, dues, f.most); a.hold != nil {
			call.afford = f
			return nil
		}
	}
	switch {
	case call.Inputs == nil:
		if err := l.count(ctx, call, t, 0); err != nil { // all of it
			return err
		}
		f.prompt = t.counted()
	case !f.hard: // inputs are only counted as far as a bound for each goes
		if err := l.count(ctx, call, t, longestInput(a.chosen.Model)); err != nil {
			return err
		}
		f.prompt = t.counted()
	default:
		// Inputs are all that embeddings cost, and other vendors count them otherwise than we do: their bytes bound them.
	}
	if f.most, ok = l.dearest(models, call, a, f); !ok {
		return l.unknown(call, a.chosen.Model, dues)
	}
	if call.MaxCost != nil && f.most > *call.MaxCost && !l.within(f, a, *call.MaxCost) {
		return l.tooDear(models, f, a.chosen.Model)
	}
	return l.reserve(ctx, h, call, a, f, dues)
}

// pass passes over models of the router's choice whose cost nobody can bound, as long as there are others.
func (l *Line) pass(f *affordable, a *admitted) {
	for c := &a.chosen; len(c.Others) > 0; c.Model, c.Others = c.Others[0], c.Others[1:] {
		if _, ok := l.worst(f.call, c.Model, f.prompt, 0); ok {
			return
		}
	}
}

// reserve reserves from the budgets. If that needs more than is left and the caller prefers a shorter reply to none, it bounds the
// reply by what is left.
func (l *Line) reserve(ctx context.Context, h http.Header, call *Call, a *admitted, f *affordable, dues []budget.Due) error {
	for try := 0; ; try++ {
		var obstacle *budget.Obstacle
		var err error
		if len(dues) > 0 {
			a.hold, obstacle, err = l.budgets.Reserve(ctx, call.Caller.Account, dues, f.most)
		}
		switch {
		case err != nil:
			return err
		case obstacle == nil:
			call.afford = f
			if f.clamped > 0 {
				h["X-Sluice-Clamped"] = []string{"max_tokens=" + strconv.Itoa(f.clamped)}
			}
			return nil
		case !call.Clamp || try > 2 || !l.shorten(f, a, obstacle.Left):
			return obstacle.Fault(call.cheaper())
		}
	}
}

// cheaper says how a call can cost less, as a part of a sentence.
func (c *Call) cheaper() string {
	if c.Inputs != nil {
		return "send fewer or shorter inputs, use a cheaper model"
	}
	return "set a smaller max_tokens, use a cheaper model"
}

// within makes the call cost no more than its caller allows: by a shorter reply, or by the router's next best model for which that
// is not needed.
func (l *Line) within(f *affordable, a *admitted, most price.Nano) bool {
	for i, m := range a.chosen.Others {
		if cost, ok := l.worst(f.call, m, f.prompt, 0); ok && cost <= most {
			a.chosen.Model, a.chosen.Others, f.most = m, a.chosen.Others[i+1:], cost
			return true
		}
	}
	return l.shorten(f, a, most)
}

// shorten bounds the reply so that the call costs no more than most, and reports whether that leaves a reply.
func (l *Line) shorten(f *affordable, a *admitted, most price.Nano) bool {
	if f.call.Request == nil || !f.call.Clamp && f.call.MaxCost == nil {
		return false
	}
	fits := func(output int) bool {
		cost, ok := l.worst(f.call, a.chosen.Model, f.prompt, output)
		return ok && cost <= most
	}
	low, high := 0, longest(f.call.Request, a.chosen.Model) // a reply of low tokens fits, one of high does not
	if f.clamped > 0 {
		high = f.clamped
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	if low < leastReply {
		return false
	}
	f.clamped = low
	f.most, _ = l.worst(f.call, a.chosen.Model, f.prompt, low)
	return true
}

// leastReply is the shortest reply that is worth its prompt, in tokens. Some vendors refuse a smaller bound.
const leastReply = 16

// dearest returns the most that the call can cost at any model that may answer it. A model whose price is not known does not,
// except the chosen one, for which dearest reports false.
func (l *Line) dearest(models *Models, call *Call, a *admitted, f *affordable) (most price.Nano, ok bool) {
	if most, ok = l.worst(call, a.chosen.Model, f.prompt, f.clamped); !ok {
		return 0, false
	}
	if call.Inputs != nil {
		return most, true
	}
	for _, id := range a.chosen.Model.Fallbacks {
		if m, ok := models.Catalog.Lookup(id); ok {
			if cost, ok := l.worst(call, m, f.prompt, f.clamped); ok {
				most = max(most, cost)
			}
		}
	}
	for _, m := range a.chosen.Others {
		if cost, ok := l.worst(call, m, f.prompt, f.clamped); ok {
			most = max(most, cost)
		}
	}
	return most, true
}

// worst returns the most that a call costs at a model, with a prompt of so many tokens, and a reply of at most output tokens; 0: the
// longest that the call allows. It reports false if a price that may be needed is not known, or if nothing bounds the reply.
func (l *Line) worst(call *Call, m *catalog.Model, prompt, output int) (price.Nano, bool) {
	_, most := l.costs(call, m, int64(prompt), int64(output))
	if most == nil {
		return 0, false
	}
	return *most, true
}

// unknown returns the 402 for a call whose cost at a model nobody can bound, and says why.
func (l *Line) unknown(call *Call, m *catalog.Model, dues []budget.Due) error {
	if call.Inputs == nil {
		priced := len(m.Places()) > 0
		for _, place := range m.Places() {
			_, ok := place.Price.At(call.Start.Unix()).Most(1, 1, nil)
			priced = priced && ok
		}
		switch tiers := tiersOf(call.Request); {
		case !priced:
		case longest(call.Request, m) == 0:
			return budget.Unknown(fmt.Sprintf("How long a reply of the model %q can be is not known", m.ID), "Set max_tokens.", dues, "max_tokens")
		case call.Request.Runs:
			return budget.Unknown(fmt.Sprintf("What the tools cost that the provider runs for this call is not known for the model %q", m.ID), "Leave them out, or ask the operator to set a price for them.", dues, "tools")
		case len(tiers) > 0:
			return budget.Unknown(fmt.Sprintf("The model %q has no price for the service tier %q", m.ID, excerpt.Of(tiers[0], 100)), "Leave service_tier out, or ask the operator to set a price for it.", dues, "service_tier")
		}
	}
	return budget.Unpriced(m.ID, dues)
}

// tooDear returns the 402 for a call that could cost more than its caller allows. It names the cheapest model that would do.
func (l *Line) tooDear(models *Models, a *affordable, m *catalog.Model) error {
	needed, most := a.most, *a.call.MaxCost
	advice := "Set a smaller max_tokens or a larger max_cost."
	if c, cost := l.cheapest(models, a); c != nil && cost <= most {
		advice = fmt.Sprintf("%q would cost at most $%s.", c.ID, cost)
	}
	return budget.TooDear(m.ID, needed, most, advice)
}

// cheapest returns the model that costs least for the call at most, among those that its caller may call; nil if there is none.
func (l *Line) cheapest(models *Models, a *affordable) (found *catalog.Model, least price.Nano) {
	who := a.call.Caller
	for _, m := range models.Catalog.Models() {
		if m.Router || m.Embeds != (a.call.Inputs != nil) || !who.Account.Plan.Includes(m.Plan) || m.StaffOnly && !who.Account.Staff || !who.Limits.Allows(m.ID) {
			continue
		}
		if a.call.Inputs == nil && a.call.prompt.check(m) != nil {
			continue
		}
		if cost, ok := l.worst(a.call, m, a.prompt, 0); ok && (found == nil || cost < least) {
			found, least = m, cost
		}
	}
	return found, least
}

// watched tells the runaway watch of a call that has ended.
func (s *settling) watched(r *usage.Settlement) {
	charge := r.Charge()
	if charge == nil {
		return
	}
	used, _ := s.first.used()
	c := runaway.Call{Account: s.call.Caller.Account, KeyID: r.KeyID, Model: r.ModelUsed, Start: r.At, Cost: *charge, Window: used.ContextLength}
	if s.call.thread == nil { // otherwise the request is only the end of what the model reads
		c.Request = s.call.Request
	}
	if len(r.Terms.Turns) == 0 {
		c.Prompt = r.Tokens.PromptTotal()
	}
	s.first.line.runaway.Saw(&c)
}
