package learned

import "math"

// Learner collects the words of a training set, and makes a Model of what the trainer has found.
type Learner struct {
	text  Text
	words [vocabulary]uint8 // how often a word occurs, up to 255
}

// Read returns a text that has been read to its end. It is valid until the next call. The words of the text are
// remembered if note is set.
func (l *Learner) Read(prompt string, note bool) *Text {
	l.text.learn = nil
	if note {
		l.text.learn = func(word uint32) {
			if l.words[word] < math.MaxUint8 {
				l.words[word]++
			}
		}
	}
	l.text.Reset()
	l.text.Write([]byte(prompt))
	l.text.Close()
	return &l.text
}

// Norm is what the terms of the text are divided by; see Model.Score.
func (t *Text) Norm() float64 { return norm(t.n) }

// cutOff is the largest weight that is kept, in standard deviations of a form's weights.
const cutOff = 3.5

// commonWord is how often a word must occur in the training set to be known.
const commonWord = 2

// Found is what the trainer has found about one form.
type Found struct {
	Weights [Places]float64
	Counts  [Counts]float64
}

// Model rounds what was found to the weights of a model that is not calibrated yet.
func (l *Learner) Model(found *[Forms]Found) *Model {
	m := new(Model)
	for f := range found {
		m.calibration[f] = calibration{0, 1}
		squares := 0.0
		for _, w := range found[f].Weights {
			squares += float64(w * w)
		}
		// Few weights are much larger than the others. Cutting those off leaves more steps to the rest.
		scale := max(cutOff*math.Sqrt(squares/Places)/largest, 1e-12)
		m.scale[f] = float32(scale)
		for p, w := range found[f].Weights {
			m.weights[p][f] = int8(math.Round(min(max(w/scale, -largest), largest)))
		}
		for i, v := range found[f].Counts {
			m.counts[f][i] = float32(v)
		}
	}
	for w, n := range l.words {
		if n >= commonWord {
			m.known[w/64] |= 1 << (w % 64)
		}
	}
	return m
}

// Calibrate sets how scores of a form become chances.
func (m *Model) Calibrate(f Form, start, slope float64) {
	m.calibration[f] = calibration{float32(start), float32(slope)}
}
