package models_test

import (
	"context"
	"math"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/upstream/provider"
	"sluice/sandbox/models"
)

// The cosine of two texts follows the words that they share.
func TestEmbed(t *testing.T) {
	t.Parallel()
	texts := []string{
		"The gate is closed tonight", "tonight, the GATE is closed!", "The gate is open tonight", "A gate of the old harbour", "seven purple umbrellas", "??",
	}
	for _, dimensions := range []int{0, 512, 64, 1} {
		req := &embeddings.Request{Model: "sandbox/embed", Dimensions: dimensions}
		for _, text := range texts {
			req.Inputs = append(req.Inputs, embeddings.Input{Text: text})
		}
		v, err := provider.Embed(context.Background(), models.New(), &provider.Call{}, req)
		if err != nil || v.Tokens == 0 {
			t.Fatalf("Embed = %+v, %v", v, err)
		}
		cosine := func(i, j int) (sum float64) {
			a, b := v.List[i].Values, v.List[j].Values
			for k := range a {
				sum += float64(a[k]) * float64(b[k])
			}
			return sum
		}
		for i := range texts {
			if n := cosine(i, i); math.Abs(n-1) > 1e-4 {
				t.Errorf("the vector of %q has the length %v, want 1", texts[i], math.Sqrt(n))
			}
		}
		if n := cosine(0, 1); n < 0.999 {
			t.Errorf("the same words in another order have the cosine %v", n)
		}
		if dimensions == 0 || dimensions == 512 {
			if len(v.List[0].Values) != models.Dimensions {
				t.Errorf("a vector has %d numbers", len(v.List[0].Values))
			}
			near, far, other := cosine(0, 2), cosine(0, 3), cosine(0, 4)
			if !(near > 0.6 && near > far && far > other && math.Abs(other) < 0.3) {
				t.Errorf("cosines of four, two and no common words: %v, %v, %v", near, far, other)
			}
		}
	}
	ask := func(text string, dimensions int) error {
		_, err := provider.Embed(context.Background(), models.New(), &provider.Call{}, &embeddings.Request{Model: "sandbox/embed", Inputs: []embeddings.Input{{Text: text}}, Dimensions: dimensions})
		return err
	}
	if err := ask("a", 513); !fault.Is(err, fault.Invalid) || fault.From(err).Param != "dimensions" {
		t.Errorf("Embed with 513 dimensions = %v", err)
	}
	if err := ask("a [[sandbox:error=503]]", 0); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Embed that is to fail = %v", err)
	}
	if err := ask("a [[sandbox:no]]", 0); !fault.Is(err, fault.Invalid) || fault.From(err).Param != "input" {
		t.Errorf("Embed with an unknown directive = %v", err)
	}
}
