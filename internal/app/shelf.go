package app

import (
	"math"
	"time"

	"sluice/internal/account"
	"sluice/internal/operate/overview"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/front"
)

// shelf returns what pages show of models.
func (a *App) shelf() *front.Shelf {
	return &front.Shelf{
		Catalog: a.catalog,
		Health:  func(m *catalog.Model) string { return a.settings.Load().Health(m) },
		Targets: a.targetsOf, Record: a.record, Video: a.videoModel,
	}
}

// videoModel returns the model that makes videos. It is not in the catalog, whose models answer chats.
func (a *App) videoModel() catalog.Model {
	cfg := a.settings.Load().Config
	plan, err := account.ParsePlan(cfg.Video.Plan)
	if err != nil {
		plan = account.Free // config.Load lets only known names pass
	}
	return catalog.Model{
		ID: cfg.Video.ModelID, OwnedBy: cfg.Brand, Plan: plan, RequestMilli: 1000,
		Description: "Makes short videos from a text.",
	}
}

// targetsOf returns the places that serve a model, by the names that callers know from x-sluice-provider. Several keys
// at one provider are one place.
func (a *App) targetsOf(m *catalog.Model) (places []front.Place) {
	weights := 0
	for _, t := range m.Places() {
		weights += t.Weight
	}
	standings := a.settings.Load().Routes.Of(m, time.Now())
	for _, t := range m.Places() {
		p := front.Place{Provider: t.Provider, Health: "down"}
		if weights > 0 {
			p.Share = int(math.Round(100 * float64(t.Weight) / float64(weights)))
		}
		healthy, all := 0, 0
		for i := range standings {
			if s := &standings[i]; s.Provider == t.Provider && s.Upstream == t.Upstream {
				all++
				if s.Healthy() {
					healthy++
				}
			}
		}
		switch {
		case healthy > 0 && healthy == all:
			p.Health = "healthy"
		case healthy > 0:
			p.Health = "degraded"
		}
		places = append(places, p)
	}
	return places
}

// modelHealth returns the health of the models that customers may call, for the record.
func (a *App) modelHealth() (list []overview.ModelHealth) {
	s := a.settings.Load()
	for _, m := range s.Catalog.Models() {
		if !m.Router && !m.StaffOnly {
			list = append(list, overview.ModelHealth{ID: m.ID, Health: s.Health(m)})
		}
	}
	return list
}
