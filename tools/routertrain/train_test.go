package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeSet writes a training set of our own: two sources, in which some words make a question hard for the weak
// model. It returns its path.
func writeSet(t *testing.T, questions int) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	plain := strings.Fields("the river market teacher window garden letter morning bridge paper village engine summer kitchen winter stone music forest")
	hard := strings.Fields("eigenvalue contour isomorphic estoppel entropy")
	var lines bytes.Buffer
	z := gzip.NewWriter(&lines)
	out := json.NewEncoder(z)
	for n := range questions {
		source := []string{"exam", "quiz"}[n%2]
		var words []string
		for range 12 + random.IntN(10) {
			words = append(words, plain[random.IntN(len(plain))])
		}
		difficult := random.IntN(3) == 0
		if difficult {
			words[random.IntN(len(words))] = hard[random.IntN(len(hard))]
		}
		weak := 1.0
		if random.Float64() < 0.1 || difficult && random.Float64() < 0.7 {
			weak = 0
		}
		scores := map[string]float64{source + "-weak": weak, source + "-strong": float64(min(1, random.IntN(10)))}
		prompt := fmt.Sprintf("Question %d: %s?\nA. %s\nB. %s", n, strings.Join(words, " "), plain[n%9], plain[9+n%9])
		if err := out.Encode(map[string]any{"ds": source, "id": fmt.Sprint(n), "grp": "all", "prompt": prompt, "scores": scores}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "set.jsonl.gz")
	if err := os.WriteFile(path, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The weights learn what there is to learn, and are the same every time.
func TestTrain(t *testing.T) {
	t.Parallel()
	path := writeSet(t, 800)
	var first []byte
	for range 2 {
		weights, _, err := train(io.Discard, options{data: path, seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = weights
		}
		if !bytes.Equal(weights, first) {
			t.Error("training twice made different weights")
		}
	}
	var report bytes.Buffer
	if _, diagram, err := train(&report, options{data: path, seed: 1, resamples: 40, measures: true}); err != nil || !bytes.Contains(diagram, []byte("<circle")) {
		t.Fatalf("train = %v, diagram %.80s", err, diagram)
	}
	for _, name := range []string{"exam", "quiz"} {
		_, row, _ := strings.Cut(report.String(), "| "+name+" |")
		var apgr float64
		if cells := strings.Split(row, "|"); len(cells) < 5 {
			t.Fatalf("the report has no row of %s:\n%s", name, report.String())
		} else if _, err := fmt.Sscan(cells[4], &apgr); err != nil || apgr < 0.6 {
			t.Errorf("the learned APGR of %s is %q, want at least 0.6 (%v)", name, cells[4], err)
		}
	}
}

// A stem is never on both sides: options and case do not make another question.
func TestStem(t *testing.T) {
	t.Parallel()
	if a, b := stemOf("Stack is also known as\nA. FIFO\nB. LIFO"), stemOf("stack is  also known as\nA. LIFO\nB. FIFO\nC. heap\nAnswer:"); a != b {
		t.Error("two questions that differ in their options have different stems")
	}
	if stemOf("What is 2 + 3?") == stemOf("What is 2 + 4?") {
		t.Error("two questions have the same stem")
	}
}

func TestAPGR(t *testing.T) {
	t.Parallel()
	s := &set{}
	from := &source{name: "s", pairs: []pair{{"weak", "strong", 0.5}}}
	for i := range 100 {
		s.questions = append(s.questions, &question{stem: uint64(i*7919%100 + 1), gains: []float64{float64(i % 2)}})
		from.questions = append(from.questions, i)
	}
	s.sources = []*source{from}
	best, worst, none := make([]float64, 100), make([]float64, 100), make([]float64, 100)
	for i := range best {
		best[i], worst[i] = float64(i%2), float64(-(i % 2))
	}
	for _, tt := range []struct {
		name      string
		scores    []float64
		low, high float64
	}{{"best", best, 0.75, 0.75}, {"worst", worst, 0.25, 0.25}, {"none", none, 0.4, 0.6}} {
		m := measured(s, from, tt.scores, 100, 1)
		if m.value < tt.low-1e-9 || m.value > tt.high+1e-9 || m.low > m.value || m.high < m.value {
			t.Errorf("measured(%s) = %v, want between %g and %g, inside its interval", tt.name, m, tt.low, tt.high)
		}
	}
	// Counting questions twice changes nothing.
	twice := slices.Repeat([]int{2}, 100)
	if got := apgr(s, from, from.questions, twice); got != apgr(s, from, from.questions, nil) {
		t.Errorf("apgr of every question twice = %g, want %g", got, apgr(s, from, from.questions, nil))
	}
}

// tenthSum is the SHA-256 of the weights of a tenth of the training set.
const tenthSum = "d7f938d999b38508c49bfe527ecd7587dddea968c6464167844606694dcc9cd7"

// The weights in the repository are those of the training set, to the byte. The set is not part of the repository:
// SLUICE_TEST_ROUTER_DATA names it. A tenth of it is enough to see that nothing depends on chance; the whole is
// compared with SLUICE_SOAK.
func TestReproduced(t *testing.T) {
	t.Parallel()
	path := os.Getenv("SLUICE_TEST_ROUTER_DATA")
	if path == "" {
		t.Skip("SLUICE_TEST_ROUTER_DATA does not name the router's training set")
	}
	weights, _, err := train(io.Discard, options{data: path, seed: 1, tenth: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(weights)); got != tenthSum {
		t.Errorf("the weights of a tenth of the data have the sum %s, want %s", got, tenthSum)
	}
	if os.Getenv("SLUICE_SOAK") == "" {
		return
	}
	weights, _, err = train(io.Discard, options{data: path, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../../internal/upstream/routing/learned/weights.bin")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(weights, committed) {
		t.Errorf("training made other weights than those in the repository")
	}
	t.Logf("soak: the router's weights, %d bytes, were made again to the byte", len(weights))
}
