package routing

import (
	"fmt"
	"strconv"

	"sluice/internal/upstream/routing/learned"
)

// reason says in words why a candidate was chosen, for a header.
func reason(f *Features, candidates []Candidate, best int, sticky bool) string {
	if sticky {
		return f.Task.String() + inWords(f.Difficulty) + "; goes on with the model of this conversation" + saving(&candidates[best], f)
	}
	chosen := &candidates[best]
	chosen.weigh(f)
	cheapest, ablest := true, true
	for i := range candidates {
		c := &candidates[i]
		c.weigh(f)
		cheapest = cheapest && c.cost >= chosen.cost
		ablest = ablest && c.quality <= chosen.quality
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
	return f.Task.String() + inWords(f.Difficulty) + "; " + why + " of " + strconv.Itoa(len(candidates))
}

// saving says how much of its price the cache of the chosen model takes off the call; empty if it is next to nothing.
func saving(c *Candidate, f *Features) string {
	if f.warm != c.Model.ID {
		return ""
	}
	cold := *f
	cold.warm = ""
	c.weigh(f)
	percent := 100 * (1 - c.cost/costOf(c.Model, &cold))
	if percent < 1 {
		return ""
	}
	return ", whose cache saves " + strconv.Itoa(int(percent+0.5)) + "% of the price"
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
	c.weigh(f)
	chosen.weigh(f)
	if sticky && f.warm == chosen.Model.ID && c.cost > 1.05*chosen.cost {
		return fmt.Sprintf("another model has begun this conversation; leaving its cache costs %.1f times as much", c.cost/chosen.cost)
	}
	if sticky {
		return "another model has begun this conversation"
	}
	better := c.quality - chosen.quality // points
	dearer := c.cost / chosen.cost
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
