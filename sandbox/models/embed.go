package models

import (
	"cmp"
	"context"
	"hash/fnv"
	"math"
	"strings"
	"time"
	"unicode"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/provider"
)

const (
	// Dimensions is how many numbers a vector has, and at most.
	Dimensions = 512
	// spread is how many places of a vector a word adds to. Two words seldom share them, so the cosine of two texts is
	// close to the share of their words that they have in common.
	spread = 8
)

// Embed implements provider.Embedder. A vector is the sum of its words, whatever their order and case: two texts are as
// similar as they have words in common. It knows nothing about meaning. Directives work as in a prompt, as far as they
// are about failing and waiting.
func (*Adapter) Embed(ctx context.Context, _ *provider.Call, req *embeddings.Request) (*embeddings.Vectors, error) {
	if err := provider.TextsOnly(req); err != nil {
		return nil, err
	}
	if req.Dimensions > Dimensions {
		return nil, fault.New(fault.Invalid, "dimensions is %d; the model %q gives at most %d.", req.Dimensions, req.Model, Dimensions).At("dimensions")
	}
	n := req.Dimensions
	if n == 0 {
		n = Dimensions
	}
	v := &embeddings.Vectors{List: make([]embeddings.Vector, len(req.Inputs))}
	var delay time.Duration
	var failing error
	for i := range req.Inputs {
		text, orders, err := parseDirectives(req.Inputs[i].Text)
		if err != nil {
			return nil, fault.From(err).At("input")
		}
		delay = max(delay, orders.delay) // of several inputs the longest, not all of them
		if failing == nil && orders.status != 0 {
			failing = orders.failure()
		}
		v.List[i].Values = embed(text, n)
		v.Tokens += tokens.Count(req.Inputs[i].Text)
	}
	if err := cmp.Or(wait(ctx, delay), failing); err != nil {
		return nil, err
	}
	return v, nil
}

// embed returns the vector of a text, of length one.
func embed(text string, n int) []float32 {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if len(words) == 0 {
		words = []string{text} // signs alone are a word, too
	}
	sums := make([]float64, n)
	for _, word := range words {
		h := fnv.New64a()
		_, _ = h.Write([]byte(word)) // never fails
		state := h.Sum64()
		for range spread {
			// A step of splitmix64: the bits of each result are independent of the others.
			state += 0x9e3779b97f4a7c15
			x := state
			x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
			x = (x ^ x>>27) * 0x94d049bb133111eb
			x ^= x >> 31
			sign := float64(1)
			if x>>63 == 1 {
				sign = -1
			}
			sums[x%uint64(n)] += sign
		}
	}
	length := 0.0
	for _, s := range sums {
		length += s * s
	}
	values := make([]float32, n)
	if length == 0 { // words can cancel each other out where there are few places
		values[0] = 1
		return values
	}
	for i, s := range sums {
		values[i] = float32(s / math.Sqrt(length))
	}
	return values
}
