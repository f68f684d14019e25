package inference

import (
	"strings"

	"sluice/internal/ledger/price"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
)

// Costs returns what a completion costs at a model at least and at most, at whichever of its places: by our count of the prompt,
// for everything from no reply to the longest one, with the operator's markup for the account. Both are nil if a price that may be
// needed is not known, or if nothing bounds
// the reply. It is called after Explain.
func (l *Line) Costs(call *Call, m *catalog.Model) (least, most *price.Nano) {
	return l.costs(call, m, int64(call.prompt.known()), 0)
}

// costs is Costs for a prompt and a reply of so many tokens; an output of 0 is the longest reply that the call allows.
func (l *Line) costs(call *Call, m *catalog.Model, prompt, output int64) (least, most *price.Nano) {
	if call.Inputs != nil {
		return l.embeddingCosts(call, m, prompt)
	}
	req := call.Request
	if output == 0 {
		output = int64(longest(req, m))
	}
	turns, window := int64(1), int64(m.ContextLength)
	longestPrompt := prompt + int64(req.Images())*(dearestImage-perImage)
	mcp := req.HasMCP() && l.tools != nil
	// A file can have any number of pages, and a sound any number of minutes; what tools find is read, too.
	if mcp || req.Runs || req.Files() > 0 {
		if window == 0 {
			return nil, nil
		}
		longestPrompt = window
	}
	if mcp {
		turns = int64(l.tools.Turns())
	}
	if window > 0 {
		longestPrompt = max(prompt, min(longestPrompt, window))
	}
	for _, place := range m.Places() {
		e := place.Price.At(call.Start.Unix())
		tiers := tiersOf(req)
		low, ok := e.Least(prompt, 0, tiers)
		high, bounded := e.Most(longestPrompt, output*int64(call.choices()), tiers)
		fees, known := vendorFees(req, e)
		if !ok || !bounded || !known || output == 0 {
			return nil, nil
		}
		high = min(price.Most, min(high, price.Most/price.Nano(turns))*price.Nano(turns)+fees)
		markup := m.Markup.Of(call.Caller.Account.Plan.String(), call.Caller.Account.ID)
		low, high = low.Told(markup), high.Told(markup)
		if least == nil {
			least, most = &low, &high
			continue
		}
		*least, *most = min(*least, low), max(*most, high)
	}
	return least, most
}

// embeddingCosts is costs for embeddings, which have no reply that costs anything.
func (l *Line) embeddingCosts(call *Call, m *catalog.Model, prompt int64) (least, most *price.Nano) {
	for _, place := range m.Places() {
		cost, ok := place.Price.At(call.Start.Unix()).Most(prompt, 0, nil)
		if !ok {
			return nil, nil
		}
		cost = cost.Told(m.Markup.Of(call.Caller.Account.Plan.String(), call.Caller.Account.ID))
		if most == nil || cost > *most {
			least, most = &cost, &cost
		}
	}
	return least, most
}

// dearestImage is how many tokens an image may take where a prompt must not cost more than was thought. Our count has perImage for it,
// which is about what most take; vendors take up to 5,000 for a large one.
const dearestImage = 8 << 10

// known returns the number of tokens by the best count that was made, as CountPrompt does.
func (s *size) known() int {
	if s.exact > 0 {
		return s.exact
	}
	return max(1, s.sample())
}

// bound returns a number of tokens that the prompt does not exceed.
func (s *size) bound() int { return s.earlier + s.req.TokenBound() }

// counted returns the number of tokens by the count that was made, or what they do not exceed. A prompt that is too long to be counted,
// or whose account has used up its ration of counting, has only an estimate.
func (s *size) counted() int {
	if s.exact > 0 {
		return s.earlier + s.exact
	}
	return s.bound()
}

// longest returns how many tokens a reply of the model can have; 0 if that is not known.
func longest(req *chat.Request, m *catalog.Model) int {
	most := m.MaxOutput
	if most == 0 {
		most = m.ContextLength
	}
	if req.MaxTokens > 0 && (most == 0 || req.MaxTokens < most) {
		return req.MaxTokens
	}
	return most
}

// tiersOf returns the service tiers at which a call may be served beside the list price: the one that it asks for, if the
// operator allows that.
func tiersOf(req *chat.Request) []string {
	tier := chat.ValueOf(req.Member("service_tier"))
	if !tier.IsText() {
		return nil
	}
	return []string{strings.Clone(tier.Text())}
}

// vendorFees returns the most that tools which the vendor runs for the call can cost. It reports false if they have no price.
func vendorFees(req *chat.Request, e *price.Entry) (most price.Nano, known bool) {
	if !req.Runs {
		return 0, true
	}
	// Responses has one bound for all of its tools, Messages one for each.
	each := req.Original != nil && req.Original.Dialect == chat.DialectMessages
	for name, fee := range e.Fees {
		switch {
		case strings.HasPrefix(name, "video"):
		case each:
			most, known = most+fee*allowance.MaxCalls, true
		default:
			most, known = max(most, fee*allowance.MaxCalls), true
		}
	}
	return most, known
}
