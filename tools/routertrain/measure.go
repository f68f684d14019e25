package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// measure is an APGR with its 95 % interval.
type measure struct {
	value, low, high float64
	questions, pairs int
}

// apgr returns the average performance gap recovered: questions go to the strong model in the order of their
// scores, highest first, and the share of the gap between the two models that is won is averaged over all shares
// of strong calls. A router that knows nothing gets 0.5. Of several pairs it is the mean. Times says how often
// each question counts; nil: once.
func apgr(s *set, from *source, order []int, times []int) float64 {
	sums, won, at := make([]float64, len(from.pairs)), make([]float64, len(from.pairs)), make([]float64, len(from.pairs))
	for _, i := range order {
		n := 1.0
		if times != nil {
			n = float64(times[i])
		}
		if n == 0 {
			continue
		}
		for k, g := range s.questions[i].gains {
			if g == missing {
				continue
			}
			sums[k] += n * g
			won[k] += n * g * (at[k] + n/2)
			at[k] += n
		}
	}
	total, n := 0.0, 0.0
	for k := range sums {
		if sums[k] > 0 {
			total += 1 - won[k]/at[k]/sums[k]
			n++
		}
	}
	return total / n
}

// measured returns the APGR of the scores on a source, with an interval by resampling its questions.
func measured(s *set, from *source, scores []float64, resamples int, seed uint64) measure {
	order := slices.Clone(from.questions)
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		// Of equal scores no order is better. The stem's hash is as good as chance.
		if s.questions[a].stem < s.questions[b].stem {
			return -1
		}
		return 1
	})
	m := measure{value: apgr(s, from, order, nil), questions: len(order), pairs: len(from.pairs)}
	m.low, m.high = math.NaN(), math.NaN()
	if resamples > 0 {
		random := rand.New(rand.NewPCG(seed, 0))
		values := make([]float64, resamples)
		times := make([]int, len(s.questions))
		for r := range values {
			clear(times)
			for range order {
				times[order[random.IntN(len(order))]]++
			}
			values[r] = apgr(s, from, order, times)
		}
		slices.Sort(values)
		m.low, m.high = values[resamples/40], values[resamples-1-resamples/40]
	}
	return m
}

// bin is a part of the questions, by their predicted chance.
type bin struct {
	predicted, seen float64
	questions       int
}

// reliability compares predicted chances with what was seen, in tenths of the questions.
func reliability(predicted, seen []float64) []bin {
	order := make([]int, len(predicted))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case predicted[a] < predicted[b]:
			return -1
		case predicted[a] > predicted[b]:
			return 1
		}
		return 0
	})
	bins := make([]bin, 10)
	for k := range bins {
		part := order[k*len(order)/10 : (k+1)*len(order)/10]
		for _, i := range part {
			bins[k].predicted += predicted[i]
			bins[k].seen += seen[i]
		}
		bins[k].predicted /= float64(len(part))
		bins[k].seen /= float64(len(part))
		bins[k].questions = len(part)
	}
	return bins
}
