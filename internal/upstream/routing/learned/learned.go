// Package learned tells hard prompts from easy ones, by weights that tools/routertrain has learned from the
// outcomes of many models.
//
// The difficulty of a prompt is the chance that a weak model fails where a strong one does not. It is a sum of
// one weight for each word and pair of words of the prompt, hashed to a table, and of a few counts. What it
// means for one model follows from the model's strength (Quality). Choosing among models is not done here; see
// package routing.
package learned

import (
	"math"
	"sync"
)

// Typical is the difficulty at which a model does as well as its estimate says.
const Typical = 0.3

// Difficulty is what is known about a prompt.
type Difficulty struct {
	Chance float64 // that a weak model fails where a strong one does not
	Known  bool    // the training set says something about such a prompt; else Chance is Typical
	Kind   Kind    // of work, if the prompt is in prose; otherwise Talk
}

// assumed is the difficulty of prompts in prose of which the training set has none, by kind of work. The
// figures are our own estimate: weak models lag most where an answer must be exact.
var assumed = [kinds]float64{Talk: 0.16, Writing: 0.12, Data: 0.24, Logic: 0.34, Program: 0.36}

// trust is what the learned weights count for such prompts.
const trust = 0.35

// texts holds Texts for use again. They are 13 KB each.
var texts = sync.Pool{New: func() any { return new(Text) }}

// Borrow returns a text for a prompt. Judge takes it back.
func (m *Model) Borrow() *Text {
	t := texts.Get().(*Text)
	t.known = &m.known
	t.Reset()
	return t
}

// Judge ends the text and returns how difficult the prompt is.
func (m *Model) Judge(t *Text) Difficulty {
	t.Close()
	d := Difficulty{Chance: Typical}
	if t.Known() {
		form := t.Form()
		if d.Known = true; form == Open || form == Formula { // questions with options are all of a kind
			d.Kind = t.work()
		}
		d.Chance = m.chance(d.Kind, form, m.Score(t, form))
	}
	t.known = nil
	texts.Put(t)
	return d
}

// chance turns a score into a chance.
func (m *Model) chance(kind Kind, form Form, score float64) float64 {
	c := &m.calibration[form]
	if form == Open && kind != Sums {
		p := assumed[kind]
		return logistic(math.Log(p/(1-p)) + trust*float64(c.slope)*score)
	}
	return m.Calibrated(form, score)
}

// Score returns the sum of the weights, before calibration. The score of a typical prompt of a form is about 0.
func (m *Model) Score(t *Text, form Form) float64 {
	var counts [Counts]float64
	t.Counts(&counts)
	return m.ScoreOf(t.Terms(), &counts, form)
}

// ScoreOf is Score of a text's terms and counts.
func (m *Model) ScoreOf(terms []uint16, counts *[Counts]float64, form Form) float64 {
	sum := 0
	for _, at := range terms {
		sum += int(m.weights[at][form])
	}
	score := float64(m.scale[form]) * float64(sum) / norm(len(terms))
	for i, v := range counts {
		score += float64(float64(m.counts[form][i]) * v)
	}
	return score
}

// Calibrated turns a score into a chance.
func (m *Model) Calibrated(form Form, score float64) float64 {
	c := &m.calibration[form]
	return logistic(float64(c.start) + float64(c.slope)*score)
}

// norm is the length that the terms of a text are divided by, so that a long prompt does not have a large
// score for its length alone.
func norm(terms int) float64 { return math.Sqrt(float64(terms) + 5) }

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// The models that Quality compares: a strong one, and a weak one.
const (
	strongQuality = 90.0
	weakQuality   = 60.0
)

// Curve is how well models of every quality do a prompt of one difficulty. The zero Curve is not one.
type Curve struct{ slope float64 }

// top and behind are the logits of the strong model, and how far the weak one is behind it on a typical prompt.
var (
	top    = logit(strongQuality)
	behind = top - logit(weakQuality)
)

// CurveOf returns the curve of a difficulty.
func CurveOf(difficulty float64) Curve {
	// How far the weak model falls behind, in logits, against how far it is behind on a typical prompt.
	gap := strongQuality - 100*min(max(difficulty, 0.02), 0.85)
	return Curve{(top - logit(gap)) / behind}
}

// Quality returns how well a model does the prompt, from 0 to 100. quality is its estimate for the kind of task.
// Strong models do about as well on every prompt; the more difficult it is, the further the weak ones fall
// behind. In the terms of item response: the difficulty sets the discrimination, so that a model of quality 90
// answers where one of quality 60 fails with the given chance. At Typical the quality stays what it is.
func (c Curve) Quality(quality float64) float64 {
	return 100 * logistic(top+c.slope*(logit(min(max(quality, 1), 99))-top))
}

func logit(percent float64) float64 { return math.Log(percent / (100 - percent)) }
