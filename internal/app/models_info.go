package app

import (
	"time"

	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
	"sluice/internal/web/front"
)

// modelInfo returns what pages show of models.
func (a *App) modelInfo() *front.ModelInfo {
	return &front.ModelInfo{
		Catalog: a.catalog,
		Health:  func(m *catalog.Model) string { return a.settings.Load().Health(m) },
		Targets: func(m *catalog.Model) []routing.TargetHealth { return a.settings.Load().Routes.Of(m, time.Now()) },
		Record:  a.record, Video: func() catalog.Model { return a.settings.Load().VideoModel() },
	}
}
