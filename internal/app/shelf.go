package app

import (
	"time"

	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
	"sluice/internal/web/front"
)

// shelf returns what pages show of models.
func (a *App) shelf() *front.Shelf {
	return &front.Shelf{
		Catalog:   a.catalog,
		Health:    func(m *catalog.Model) string { return a.settings.Load().Health(m) },
		Standings: func(m *catalog.Model) []routing.Standing { return a.settings.Load().Routes.Of(m, time.Now()) },
		Record:    a.record, Video: func() catalog.Model { return a.settings.Load().VideoModel() },
	}
}
