package routing

import (
	"fmt"

	"sluice/internal/routing/learned"
)

// reason says in words why a candidate was chosen, for a header.
func reason(f *Features, candidates []Candidate, best int, sticky bool) string {
	if sticky {
		return fmt.Sprintf("%s%s; goes on with the model of this conversation", f.Task, inWords(f.Difficulty))
	}
	chosen := candidates[best].Model
	quality, cost := expected(chosen, f), costOf(chosen, *f)
	cheapest, ablest := true, true
	for i := range candidates {
		cheapest = cheapest && costOf(candidates[i].Model, *f) >= cost
		ablest = ablest && expected(candidates[i].Model, f) <= quality
	}
	why := "the best balance of quality and price"
	switch {
	case cheapest && ablest:
		why = "the best and cheapest"
	case cheapest:
		why = "the cheapest"
	case ablest:
		why = "the best"
	}
	return fmt.Sprintf("%s%s; %s of %d", f.Task, inWords(f.Difficulty), why, len(candidates))
}

// inWords describes a difficulty, after the kind of task.
func inWords(d learned.Difficulty) string {
	switch {
	case !d.Known:
		return ""
	case d.Chance < 0.15:
		return ", easy"
	case d.Chance < 0.3:
		return ", not hard"
	case d.Chance < 0.4:
		return ", rather hard"
	}
	return ", hard"
}

// passed says why a candidate was passed over for the chosen one.
func passed(f *Features, c, chosen *Candidate, sticky bool) string {
	if sticky {
		return "another model has begun this conversation"
	}
	better := expected(c.Model, f) - expected(chosen.Model, f) // points
	dearer := costOf(c.Model, *f) / costOf(chosen.Model, *f)
	slower := c.Latency - chosen.Latency
	switch {
	case better >= 0.5 && dearer > 1.05:
		return fmt.Sprintf("%.0f points better, at %.1f times the price", better, dearer)
	case better <= -0.5 && dearer < 0.95:
		return fmt.Sprintf("%.0f points worse, at %.0f%% of the price", -better, 100*dearer)
	case better <= -0.5:
		return fmt.Sprintf("%.0f points worse, and no cheaper", -better)
	case dearer > 1.05:
		return fmt.Sprintf("no better, at %.1f times the price", dearer)
	case slower > 0:
		return fmt.Sprintf("begins %.1f s later", slower.Seconds())
	}
	return "scores lower"
}
