package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strings"
)

// question is one line of the training set: a prompt, and how well each model answered it.
type question struct {
	Source string             `json:"ds"`
	Group  string             `json:"grp"`
	Prompt string             `json:"prompt"`
	Scores map[string]float64 `json:"scores"`

	stem  uint64    // a hash of the question without its options
	gains []float64 // for each pair of the source: the strong model's score minus the weak one's; NaN: not both answered
	gain  float64   // their mean
	fails float64   // the share of pairs in which the weak model fails and the strong one does not
}

// pair is a weak and a strong model that answered the same source.
type pair struct {
	weak, strong string
	gap          float64
}

// source is the questions of one origin.
type source struct {
	name      string
	questions []int // in the order of the file
	pairs     []pair
}

// set is a training set.
type set struct {
	questions []*question
	sources   []*source // by name
}

// leastGap is the difference in mean score that makes a weak and a strong model of two. A source with two models
// has one pair, whatever their difference.
const leastGap = 0.2

// read reads a training set, gzipped or not. A stem belongs to the set if keep says so.
func read(path string, keep func(stem uint64) bool) (*set, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if lines, err = gzip.NewReader(f); err != nil {
			return nil, err
		}
	}
	s := &set{}
	by := map[string]*source{}
	in := bufio.NewScanner(lines)
	in.Buffer(nil, 16<<20)
	for n := 1; in.Scan(); n++ {
		q := &question{}
		if err := json.Unmarshal(in.Bytes(), q); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if q.stem = stemOf(q.Prompt); !keep(q.stem) {
			continue
		}
		if by[q.Source] == nil {
			by[q.Source] = &source{name: q.Source}
			s.sources = append(s.sources, by[q.Source])
		}
		from := by[q.Source]
		from.questions = append(from.questions, len(s.questions))
		s.questions = append(s.questions, q)
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(s.sources, func(a, b *source) int { return strings.Compare(a.name, b.name) })
	for _, from := range s.sources {
		s.pair(from)
	}
	return s, nil
}

// stemOf returns a hash of the letters and digits of a question, without its options. Two questions with the same
// stem are never on both sides of a split.
func stemOf(prompt string) uint64 {
	if i := strings.Index(prompt, "\nA. "); i >= 0 {
		prompt = prompt[:i]
	}
	h := fnv.New64a()
	for _, c := range []byte(strings.ToLower(prompt)) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 0x80 {
			_, _ = h.Write([]byte{c})
		}
	}
	// The lower bits of FNV are not well distributed.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// pair finds the pairs of a source, and what each question says about them.
func (s *set) pair(from *source) {
	sum, n := map[string]float64{}, map[string]int{}
	for _, i := range from.questions {
		for m, score := range s.questions[i].Scores { // the scores are whole numbers, so the order does not matter
			sum[m] += score
			n[m]++
		}
	}
	var models []string
	for m := range n {
		if 5*n[m] >= 4*len(from.questions) { // models that answered few questions compare badly
			models = append(models, m)
		}
	}
	slices.Sort(models)
	mean := func(m string) float64 { return sum[m] / float64(n[m]) }
	for _, weak := range models {
		for _, strong := range models {
			gap := mean(strong) - mean(weak)
			if gap >= leastGap || len(models) == 2 && gap > 0 {
				from.pairs = append(from.pairs, pair{weak, strong, gap})
			}
		}
	}
	for _, i := range from.questions {
		q := s.questions[i]
		q.gains = make([]float64, len(from.pairs))
		both := 0.0
		for k, p := range from.pairs {
			weak, ok := q.Scores[p.weak]
			strong, too := q.Scores[p.strong]
			if !ok || !too {
				q.gains[k] = missing
				continue
			}
			q.gains[k] = strong - weak
			q.gain += strong - weak
			q.fails += (1 - weak) * strong
			both++
		}
		if both > 0 {
			q.gain /= both
			q.fails /= both
		}
	}
}

// missing stands for the gain of a pair of which one model gave no answer. Gains are between -1 and 1.
const missing = -2
