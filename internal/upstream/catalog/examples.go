package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// Examples returns two models for examples to call: the one that needs the lowest plan, and the one that needs the
// highest. Both are the router if no model fits.
func (c *Catalog) Examples() (first, second *Model) {
	var fit []*Model
	for _, m := range c.models {
		if !m.Router && !m.Embeds && !m.StaffOnly && !m.Vanished && !strings.ContainsFunc(m.ID, needsQuoting) {
			fit = append(fit, m)
		}
	}
	if len(fit) == 0 {
		return c.models[0], c.models[0]
	}
	slices.SortStableFunc(fit, func(a, b *Model) int { return cmp.Compare(a.Plan, b.Plan) })
	return fit[0], fit[len(fit)-1]
}

// Embedder returns an embedding model for examples: the one that needs the lowest plan, or a name that says what is meant
// if there is none.
func (c *Catalog) Embedder() string {
	var best *Model
	for _, m := range c.models {
		if m.Embeds && !m.StaffOnly && !m.Vanished && !strings.ContainsFunc(m.ID, needsQuoting) && (best == nil || m.Plan < best.Plan) {
			best = m
		}
	}
	if best == nil {
		return "an-embedding-model"
	}
	return best.ID
}

// needsQuoting reports whether a character means something to a shell, JSON or HTML.
func needsQuoting(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._:/@", c))
}
