package catalog

import (
	"time"

	"sluice/internal/account"
)

// Tier is the lowest plan that may call a model, from a time on.
type Tier struct {
	Plan account.Plan
	From time.Time
}

// Tiered returns the catalog with the tiers that staff has given to models, by their ids. One that begins later is
// announced in the model's verbose form, and therefore in the log of changes. A model without a tier gets one. The
// router keeps its own.
func (c *Catalog) Tiered(tiers map[string]Tier, now time.Time) *Catalog {
	if len(tiers) == 0 {
		return c
	}
	return c.with(func(m *Model) {
		t, ok := tiers[m.ID]
		if !ok || m.Router {
			return
		}
		m.Moved = true
		if now.Before(t.From) {
			m.Upcoming = &t
		} else {
			m.Plan, m.StaffOnly = t.Plan, false
		}
	})
}
