package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// Examples returns two models for examples to call: the one that needs the lowest plan, and the one that needs the
// highest. Both are the router if no model fits.
func (c *Catalog) Examples() (first, second *Model) {
	fit := c.fit(false)
	if len(fit) == 0 {
		return c.models[0], c.models[0]
	}
	return fit[0], fit[len(fit)-1]
}

// fit returns the models that examples may name, embedding models or the others, by the plan that they need.
func (c *Catalog) fit(embeds bool) []*Model {
	fit := slices.DeleteFunc(slices.Clone(c.models), func(m *Model) bool {
		return m.Router || m.Embeds != embeds || m.StaffOnly || m.Vanished || strings.ContainsFunc(m.ID, needsQuoting)
	})
	slices.SortStableFunc(fit, func(a, b *Model) int { return cmp.Compare(a.Plan, b.Plan) })
	return fit
}

// Embedder returns an embedding model for examples: the one that needs the lowest plan, or a name that says what is meant
// if there is none.
func (c *Catalog) Embedder() string {
	if fit := c.fit(true); len(fit) > 0 {
		return fit[0].ID
	}
	return "an-embedding-model"
}

// needsQuoting reports whether a character means something to a shell, JSON or HTML.
func needsQuoting(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._:/@", c))
}
