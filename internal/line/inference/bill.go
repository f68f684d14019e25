package inference

import (
	"cmp"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// turn is what one turn of a call consumed.
type turn struct {
	by    *attempts
	usage chat.Usage
	tier  string // the service tier, as OpenAI's dialect tells it
}

// bill sets the cost of a call and what it follows from. Nearly every call is priced as a whole. Vendors price the turns of a
// conversation with tools apart, and so does bill: the length of each prompt decides the prices of its turn, and another
// target may answer it.
func (s *settling) bill(r *usage.Settlement, o *relay.Outcome, sp *spent) {
	r.Terms.Estimated = sp.estimated
	used, _ := s.first.used()
	markup := used.Markup.Of(r.Plan, r.AccountID)
	b := s.first.Bill()
	if len(sp.each) == 0 && len(b.Parts) == 0 {
		r.Terms.Tier, r.Terms.Region, r.Terms.Model, r.Terms.Uses = price.Special(cmp.Or(b.Tier, o.Tier)), price.Special(b.Region), b.Model, b.Uses
		r.Price(s.first.prices(b.Model).At(r.At.Unix()), markup)
		return
	}
	if len(sp.each) == 0 {
		sp.each = []turn{{s.first, sp.tokens, o.Tier}}
	}
	var entries []*price.Entry
	r.Tokens = chat.Usage{}
	for i := range sp.each {
		t := &sp.each[i]
		for _, part := range t.parts() {
			r.AddTurn(part)
			entries = append(entries, t.by.prices(part.Model).At(r.At.Unix()))
		}
	}
	first := &r.Terms.Turns[0]
	r.Terms.Tier, r.Terms.Region, r.Terms.Model = first.Tier, first.Region, first.Model
	if len(r.Terms.Turns) == 1 {
		r.Terms.Turns = nil
	}
	r.PriceTurns(func(i int) *price.Entry { return entries[i] }, markup)
}

// parts returns the turn as its vendor prices it: the steps that the vendor tells of, if they are all of it. What was used
// beside tokens is a part of the first.
func (t *turn) parts() []usage.Turn {
	b := t.by.Bill()
	one := usage.Turn{Tokens: t.usage, Tier: price.Special(cmp.Or(b.Tier, t.tier)), Region: price.Special(b.Region), Model: b.Model, Uses: b.Uses}
	var sum chat.Usage
	for i := range b.Parts {
		sum.Add(b.Parts[i].Usage)
	}
	if sum != t.usage {
		return []usage.Turn{one}
	}
	turns := make([]usage.Turn, len(b.Parts))
	for i, p := range b.Parts {
		turns[i] = one
		turns[i].Tokens, turns[i].Model = p.Usage, p.Model
		one.Uses = nil
	}
	return turns
}

// Bill returns what the reply of the last attempt is billed by. The calls of tools are those of all attempts.
func (a *attempts) Bill() provider.Bill {
	b := a.billed
	if a.stream != nil {
		b = provider.BillOf(a.stream)
	}
	b.Calls += a.served
	return b
}

// bounded returns tokens that we have counted, or that an upstream told before it was cut off, with no more output than the
// call could produce.
func (a *attempts) bounded(u chat.Usage, choices int) chat.Usage {
	if a.embed != nil {
		return u
	}
	most := a.call.MaxOutput
	if asked := a.call.Request.MaxTokens; asked > 0 && (most == 0 || asked < most) {
		most = asked
	}
	over := u.CompletionTotal() - most*choices
	if most == 0 || over <= 0 {
		return u
	}
	more := min(over, u.Completion)
	u.Completion, u.Reasoning = u.Completion-more, u.Reasoning-(over-more)
	u.AudioOut = min(u.AudioOut, u.Completion)
	u.ImageOut = min(u.ImageOut, u.Completion-u.AudioOut)
	return u
}
