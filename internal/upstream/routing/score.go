package routing

import (
	"math"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
)

// Candidate is a model that can answer a request, with what earlier calls tell about it.
type Candidate struct {
	Model *catalog.Model
	// Latency is the time to the first content, a moving average; 0: no call has been made yet.
	Latency time.Duration

	quality, cost float64 // what is expected; cost is 0 before weigh
}

// weigh fills in what is expected of the candidate.
func (c *Candidate) weigh(f *Features) {
	if c.cost == 0 {
		c.quality, c.cost = expected(c.Model, f), costOf(c.Model, f)
	}
}

// Scorer rates candidates. Score fills in one score for each candidate, at the same index; a higher score
// is better. It must not keep the slices. It is called by many requests at the same time.
type Scorer interface {
	Score(f Features, candidates []Candidate, scores []float64)
}

// Estimate scores by the quality that is expected of the model, minus what the call costs and how long
// it takes to begin. Dial sets what counts more, from 0 (the cheapest model) to 100 (the best).
//
//	score = 2·d·quality − 2·(1−d)·price − waiting    with d = Dial/100
type Estimate struct{ Dial int }

// MiddleDial is the default of the dial.
const MiddleDial = 50

// At the middle of the dial, ten points of quality are worth a price about four times as high; a reply
// that begins a second sooner is worth one and a half points.
const (
	pricePerDoubling = 5.0
	pointsPerSecond  = 1.5
	mostWaiting      = 10.0 // points at most, so that one slow reply does not rule a model out
)

// Score implements Scorer.
func (e Estimate) Score(f Features, candidates []Candidate, scores []float64) {
	// Prices count relative to the cheapest candidate: what matters is how much more a model costs.
	cheapest := math.Inf(1)
	for i := range candidates {
		candidates[i].weigh(&f)
		cheapest = min(cheapest, candidates[i].cost)
	}
	best := float64(min(max(e.Dial, 0), 100)) / 100
	for i := range candidates {
		c := &candidates[i]
		// By doublings: the step from 1 to 2 cents counts as much as that from 10 to 20.
		price := 0.0
		if c.cost > cheapest {
			price = pricePerDoubling * math.Log2(c.cost/cheapest)
		}
		waiting := min(c.Latency.Seconds()*pointsPerSecond, mostWaiting)
		scores[i] = 2*best*c.quality - 2*(1-best)*price - waiting
	}
}

// expected returns how well the model is expected to answer, from 0 to 100: its quality for the kind of task, and
// how far the difficulty of the prompt moves it.
func expected(m *catalog.Model, f *Features) float64 {
	quality := min(max(float64(m.QualityAt(f.Task))+f.strengths.Of(m.ID, f.Task), 1), 100)
	if f.Thinks && !m.Thinks {
		quality -= thinkingMissed
	}
	if f.Difficulty.Known {
		quality = f.curve.Quality(quality)
	}
	return quality
}

// thinkingMissed is the number of points that a model without reasoning loses if the request wants it.
const thinkingMissed = 15

// usualPrices holds the price of a million tokens, input and output, in micro-dollars, for models without a
// known price: about the usual price in the tier.
var usualPrices = [...][2]float64{
	account.Free:    {100_000, 400_000},
	account.Basic:   {1_000_000, 4_000_000},
	account.Premium: {3_000_000, 15_000_000},
}

// leastCost is the lowest cost of a call in micro-dollars, a thousandth of a cent. Score takes the logarithm
// of a ratio of costs, so none may be 0.
const leastCost = 10

// surelyCached is how long a vendor keeps a prompt at least after its last use.
const surelyCached = 5 * time.Minute

// cachedOf returns how many tokens of a prompt stood in the call before: all but what follows the last answer.
func cachedOf(req *chat.Request, tokens int) int {
	fresh := 0
	for i := len(req.Messages) - 1; i >= 0 && req.Messages[i].Role != chat.RoleAssistant; i-- {
		fresh += req.Messages[i].Content.Size()
	}
	all := max(1, req.PromptBytes())
	return int(float64(tokens) * float64(max(0, all-fresh)) / float64(all))
}

// returns reports whether the calls of a conversation with the model reach one cache.
func (r *Routes) returns(m *catalog.Model) bool {
	rt := r.byModel[m]
	return rt != nil && (len(rt.targets) == 1 || rt.affinity != catalog.AffinityOff)
}

// costOf estimates the cost of the call at the model, in micro-dollars: at the prices of its prompt's length, and with what the
// model has of it in its cache. So leaving a model that is warm costs what it costs.
func costOf(m *catalog.Model, f *Features) float64 {
	now := time.Now()
	counts := price.Counts{}
	cached := 0
	if m.ID == f.warm {
		cached = f.cached
	}
	counts.Tokens[price.Input], counts.Tokens[price.CacheRead] = int64(f.PromptTokens-cached), int64(cached)
	counts.Tokens[price.Output] = int64(f.OutputTokens)
	if cost, ok := m.Priced(now).Cost(&counts, price.Terms{At: now.Unix()}); ok {
		return max(leastCost, float64(cost)/1000)
	}
	var in, out float64
	if int(m.Plan) < len(usualPrices) {
		in, out = usualPrices[m.Plan][0], usualPrices[m.Plan][1]
	}
	return max(leastCost, (float64(f.PromptTokens)*in+float64(f.OutputTokens)*out)/1e6)
}
