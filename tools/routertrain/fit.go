package main

import (
	"math"
	"sync"

	"sluice/internal/upstream/routing/learned"
)

// weightOf is what a question of a source counts. Sources in which many models answered say more about each
// question than those with two. Others count 1.
var weightOf = map[string]float64{"rl_gsm8k": 2, "mmlupro": 2, "ze_gsm": 2}

// The figures of the fit. They were chosen by cross-validation over stems.
const (
	sharedTerms  = 0.3  // what the weights of terms that all forms share count, against those of one form
	sharedCounts = 1.0  // the same for counts
	ridgeTerms   = 3.0  // the penalty of the weights of terms
	ridgeCounts  = 3.0  // the penalty of the weights of counts
	own          = 0.5  // what a question's own outcome counts; the rest is the mean of its group
	groupPrior   = 30.0 // questions of the source that a group's mean is mixed with
	rounds       = 30   // of conjugate gradients
)

// example is what the model looks at in one question.
type example struct {
	terms  []uint16
	norm   float64
	counts [learned.Counts]float64
	form   learned.Form
}

// trainer holds what all fits share.
type trainer struct {
	*set
	learner  learned.Learner
	examples []example
}

func newTrainer(s *set) *trainer {
	t := &trainer{set: s, examples: make([]example, len(s.questions))}
	for i, q := range s.questions {
		text := t.learner.Read(q.Prompt, true)
		e := &t.examples[i]
		e.terms = append([]uint16(nil), text.Terms()...)
		e.norm, e.form = text.Norm(), text.Form()
		text.Counts(&e.counts)
	}
	return t
}

// targets returns what the fit should predict for each question, and what each counts: the gain, against the mean
// of its source, because the difference between sources is one of their models. A single outcome says little, and
// the mean of a group of questions about the same subject says more, so the target is a mix of both.
func (t *trainer) targets(use func(i int) bool) (y, weight []float64) {
	y, weight = make([]float64, len(t.questions)), make([]float64, len(t.questions))
	for _, from := range t.sources {
		sum, n := 0.0, 0.0
		groupSum, groupN := map[string]float64{}, map[string]float64{}
		for _, i := range from.questions {
			if q := t.questions[i]; use(i) && len(from.pairs) > 0 {
				sum += q.gain
				n++
				groupSum[q.Group] += q.gain
				groupN[q.Group]++
			}
		}
		if n == 0 {
			continue
		}
		mean := sum / n
		counts, ok := weightOf[from.name]
		if !ok {
			counts = 1
		}
		for _, i := range from.questions {
			if !use(i) {
				continue
			}
			q := t.questions[i]
			weight[i] = counts
			y[i] = q.gain - mean
			if len(groupN) > 1 {
				group := (groupSum[q.Group]+groupPrior*mean)/(groupN[q.Group]+groupPrior) - mean
				y[i] = own*y[i] + (1-own)*group
			}
		}
	}
	return y, weight
}

// The vector of a fit: the shared weights of terms, those of each form, and the same for counts.
const (
	termsEnd = learned.Places * (1 + int(learned.Forms))
	size     = termsEnd + learned.Counts*(1+int(learned.Forms))
)

// each calls f with the positions and values of an example.
func (e *example) each(f func(at int, v float64)) {
	v := 1 / e.norm
	form := 1 + int(e.form)
	for _, term := range e.terms {
		f(int(term), sharedTerms*v)
		f(learned.Places*form+int(term), v)
	}
	for i, v := range e.counts {
		f(termsEnd+i, sharedCounts*v)
		f(termsEnd+learned.Counts*form+i, v)
	}
}

// times returns the product of the example and a vector. Conversions keep products from being fused with sums,
// so that every processor rounds alike.
func (e *example) times(w []float64) float64 {
	both := 0.0
	form := learned.Places * (1 + int(e.form))
	for _, term := range e.terms {
		both += float64(sharedTerms*w[term]) + w[form+int(term)]
	}
	sum := both / e.norm
	form = termsEnd + learned.Counts*(1+int(e.form))
	for i, v := range e.counts {
		sum += float64(v * (float64(sharedCounts*w[termsEnd+i]) + w[form+i]))
	}
	return sum
}

// addTo adds the example to a vector, times a factor.
func (e *example) addTo(w []float64, factor float64) {
	v := factor / e.norm
	common := float64(sharedTerms * v)
	form := learned.Places * (1 + int(e.form))
	for _, term := range e.terms {
		w[term] += common
		w[form+int(term)] += v
	}
	form = termsEnd + learned.Counts*(1+int(e.form))
	for i, c := range e.counts {
		x := float64(factor * c)
		w[termsEnd+i] += float64(sharedCounts * x)
		w[form+i] += x
	}
}

// fit returns the model of the questions that use names: the least squares of the targets with a penalty on large
// weights, found by conjugate gradients. Everything is added up in one order, so the result is always the same.
func (t *trainer) fit(use func(i int) bool) *learned.Model {
	y, weight := t.targets(use)
	penalty := func(at int) float64 {
		if at < termsEnd {
			return ridgeTerms
		}
		return ridgeCounts
	}
	w, rest, diagonal := make([]float64, size), make([]float64, size), make([]float64, size)
	for i := range t.examples {
		if weight[i] > 0 {
			t.examples[i].addTo(rest, float64(weight[i]*y[i]))
			t.examples[i].each(func(at int, v float64) { diagonal[at] += float64(weight[i] * float64(v*v)) })
		}
	}
	for at := range diagonal {
		diagonal[at] = 1 / (diagonal[at] + penalty(at))
	}
	direction, image := make([]float64, size), make([]float64, size)
	norm := 0.0
	for at := range rest {
		direction[at] = rest[at] * diagonal[at]
		norm += float64(rest[at] * direction[at])
	}
	for range rounds {
		for at := range image {
			image[at] = float64(penalty(at) * direction[at])
		}
		for i := range t.examples {
			if weight[i] > 0 {
				t.examples[i].addTo(image, float64(weight[i]*t.examples[i].times(direction)))
			}
		}
		along := 0.0
		for at := range image {
			along += float64(direction[at] * image[at])
		}
		if along <= 0 {
			break
		}
		step := norm / along
		next := 0.0
		for at := range w {
			w[at] += float64(step * direction[at])
			rest[at] -= float64(step * image[at])
			next += float64(rest[at] * float64(rest[at]*diagonal[at]))
		}
		turn := next / norm
		norm = next
		for at := range direction {
			direction[at] = float64(rest[at]*diagonal[at]) + float64(turn*direction[at])
		}
	}
	return t.learner.Model(merged(w))
}

// merged adds the shared weights to those of each form.
func merged(w []float64) *[learned.Forms]learned.Found {
	var found [learned.Forms]learned.Found
	for f := range found {
		for p := range found[f].Weights {
			found[f].Weights[p] = float64(sharedTerms*w[p]) + w[learned.Places*(1+f)+p]
		}
		for i := range found[f].Counts {
			found[f].Counts[i] = float64(sharedCounts*w[termsEnd+i]) + w[termsEnd+learned.Counts*(1+f)+i]
		}
	}
	return &found
}

// calibrate sets how the scores of each form become chances: the logistic regression of the share of pairs in
// which the weak model fails and the strong one does not, over scores of questions that the fits had not seen.
func (t *trainer) calibrate(m *learned.Model, scores []float64) {
	for f := range learned.Forms {
		start, slope := -1.0, 1.0
		for range 30 { // Newton's method
			var g0, g1, h00, h01, h11 float64
			for i, q := range t.questions {
				if t.examples[i].form != f {
					continue
				}
				x := scores[i]
				p := 1 / (1 + math.Exp(-(start + float64(slope*x))))
				g0 += q.fails - p
				g1 += float64((q.fails - p) * x)
				v := float64(p * (1 - p))
				h00 += v
				h01 += float64(v * x)
				h11 += float64(v * float64(x*x))
			}
			h00 += 1e-6
			h11 += 1e-3 // a form without questions keeps its slope
			det := float64(h00*h11) - float64(h01*h01)
			start += (float64(h11*g0) - float64(h01*g1)) / det
			slope += (float64(h00*g1) - float64(h01*g0)) / det
			start, slope = min(max(start, -5), 5), min(max(slope, 0.25), 8)
		}
		m.Calibrate(f, start, slope)
	}
}

// together runs n functions, two at a time.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	places := make(chan struct{}, 2)
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			f(i)
			<-places
		})
	}
	wg.Wait()
}
