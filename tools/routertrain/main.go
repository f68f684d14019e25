// Command routertrain learns the weights of the router from the outcomes of many models, and prints how good they are.
//
//	go run ./tools/routertrain -data train.jsonl.gz -out internal/upstream/routing/learned/weights.bin
//
// Every line of the data is a JSON object: ds (the source), grp (a subject), prompt, and scores (from 0 to 1, by
// model). The same data and seed give the same weights, to the byte. See docs/providers/auto.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
	"sluice/internal/upstream/routing/learned"
)

// options are the flags.
type options struct {
	data      string
	tenth     bool   // use a tenth of the stems
	seed      uint64 // of the split into folds and of the intervals
	resamples int    // for the intervals; 0: none
	measures  bool   // print the measures; otherwise only train
}

func main() {
	o := options{measures: true}
	flag.StringVar(&o.data, "data", "", "the training set: JSON lines, gzipped if the name ends with .gz")
	flag.Uint64Var(&o.seed, "seed", 1, "of the split into folds and of the intervals")
	flag.IntVar(&o.resamples, "resamples", 400, "for the 95 % intervals")
	flag.BoolVar(&o.tenth, "tenth", false, "use a tenth of the data")
	out := flag.String("out", "", "where to write the weights; empty: nowhere")
	diagram := flag.String("diagram", "", "where to write the reliability diagram as SVG; empty: nowhere")
	flag.Parse()
	weights, drawing, err := train(os.Stdout, o)
	if err == nil && *out != "" {
		err = os.WriteFile(*out, weights, 0o644)
	}
	if err == nil && *diagram != "" {
		err = os.WriteFile(*diagram, drawing, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// folds is the number of parts of the data of which each is judged by a fit of the others.
const folds = 5

// foldOf returns the fold of a stem. Each seed divides them differently.
func foldOf(stem, seed uint64) uint64 {
	x := (stem ^ seed*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	return (x >> 32) % folds
}

// train returns the weights of the data and a reliability diagram, and prints the measures.
func train(w io.Writer, o options) (weights, diagram []byte, err error) {
	s, err := read(o.data, func(stem uint64) bool { return !o.tenth || stem%10 == 0 })
	if err != nil {
		return nil, nil, err
	}
	t := newTrainer(s)
	fold := func(i int) uint64 { return foldOf(s.questions[i].stem, o.seed) }
	scores := make([]float64, len(s.questions))
	var model *learned.Model
	together(folds+1, func(k int) {
		m := t.fit(func(i int) bool { return fold(i) != uint64(k) })
		if k == folds {
			model = m
			return
		}
		for i := range s.questions {
			if fold(i) == uint64(k) {
				scores[i] = t.score(m, i)
			}
		}
	})
	t.calibrate(model, scores)
	weights = model.Append(nil)
	if !o.measures {
		return weights, nil, nil
	}
	t.report(w, o, scores)
	bins := reliability(t.chances(model, scores), t.fails())
	reportBins(w, bins)
	return weights, draw(bins), nil
}

// score returns the model's score of a question.
func (t *trainer) score(m *learned.Model, i int) float64 {
	e := &t.examples[i]
	return m.ScoreOf(e.terms, &e.counts, e.form)
}

// chances returns the calibrated chances of scores.
func (t *trainer) chances(m *learned.Model, scores []float64) []float64 {
	out := make([]float64, len(scores))
	for i, s := range scores {
		out[i] = m.Calibrated(t.examples[i].form, s)
	}
	return out
}

// fails returns what was seen of each question.
func (t *trainer) fails() []float64 {
	out := make([]float64, len(t.questions))
	for i, q := range t.questions {
		out[i] = q.fails
	}
	return out
}

// byWords returns how difficult the router thinks questions are that has only its list of words: the kinds of task
// in which models differ most come first.
func (t *trainer) byWords() []float64 {
	rank := [catalog.Tasks]float64{catalog.Math: 4, catalog.Code: 3, catalog.Data: 2, catalog.Chat: 1}
	out := make([]float64, len(t.questions))
	for i, q := range t.questions {
		req := &chat.Request{Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text(q.Prompt)}}}
		out[i] = rank[routing.FeaturesOf(req).Task]
	}
	return out
}

// elsewhere returns scores of each source by a model that has seen none of it, nor any question of another source
// with the same stem.
func (t *trainer) elsewhere() []float64 {
	out := make([]float64, len(t.questions))
	together(len(t.sources), func(k int) {
		from := t.sources[k]
		stems := map[uint64]bool{}
		for _, i := range from.questions {
			stems[t.questions[i].stem] = true
		}
		m := t.fit(func(i int) bool { return t.questions[i].Source != from.name && !stems[t.questions[i].stem] })
		for _, i := range from.questions {
			out[i] = t.score(m, i)
		}
	})
	return out
}
