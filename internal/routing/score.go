package routing

import (
	"math"
	"time"

	"sluice/internal/account"
	"sluice/internal/catalog"
)

// Candidate is a model that can serve a request, with what its calls show.
type Candidate struct {
	Model *catalog.Model
	// Latency is how long its replies take to begin, a moving average; 0: it has not been called.
	Latency time.Duration
}

// Scorer says how good a choice each candidate is: it fills in one score for each, more is better.
type Scorer interface {
	Score(f Features, candidates []Candidate, scores []float64)
}

// Estimate scores by an estimate of quality for the kind of task, against what the call costs and how
// long it takes to begin. Dial says what counts, from 0, the cheapest that serves, to 100, the best.
type Estimate struct{ Dial int }

// MiddleDial is where the dial stands unless somebody turns it.
const MiddleDial = 50

// At the middle of the dial, ten points of quality are worth a price about four times as high; a reply
// that begins a second sooner is worth one and a half points.
const (
	pricePerDoubling = 5.0
	pointsPerSecond  = 1.5
	mostWaiting      = 10.0 // points: beyond that, slow is slow
)

// Score implements Scorer.
func (e Estimate) Score(f Features, candidates []Candidate, scores []float64) {
	cheapest := math.Inf(1)
	for i := range candidates {
		cheapest = min(cheapest, costOf(candidates[i].Model, f))
	}
	best := float64(min(max(e.Dial, 0), 100)) / 100
	for i := range candidates {
		c := &candidates[i]
		quality := float64(c.Model.QualityAt(f.Task))
		if f.Thinks && !c.Model.Thinks {
			quality -= thinkingMissed
		}
		price := pricePerDoubling * math.Log2(costOf(c.Model, f)/cheapest)
		waiting := min(c.Latency.Seconds()*pointsPerSecond, mostWaiting)
		scores[i] = 2*best*quality - 2*(1-best)*price - waiting
	}
}

// thinkingMissed is what a model loses that cannot reason where reasoning was asked for.
const thinkingMissed = 15

// What a million tokens cost where no price is known, in micro-dollars: about what models of the tier do.
var usualPrices = map[account.Plan][2]float64{
	account.Free:    {100_000, 400_000},
	account.Basic:   {1_000_000, 4_000_000},
	account.Premium: {3_000_000, 15_000_000},
}

// leastCost keeps free models comparable, in micro-dollars: a thousandth of a cent.
const leastCost = 10

// costOf is about what the call costs at the model, in micro-dollars.
func costOf(m *catalog.Model, f Features) float64 {
	in, out := usualPrices[m.Plan][0], usualPrices[m.Plan][1]
	if p := m.Pricing; p != nil && p.Input != nil && p.Output != nil {
		in, out = float64(*p.Input), float64(*p.Output)
	}
	return max(leastCost, (float64(f.PromptTokens)*in+float64(f.OutputTokens)*out)/1e6)
}
