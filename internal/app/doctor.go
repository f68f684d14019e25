package app

import (
	"context"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/operate/doctor"
)

// Examine returns what the doctor finds at the site of a configuration. It changes nothing and needs no server.
func Examine(ctx context.Context, cfg *config.Config) []doctor.Finding {
	return doctor.Examine(ctx, settings.Examined(cfg))
}

// examine is Examine for this server itself: its configuration, with the variables that it was started with, its address
// and the models that it has discovered. version is that of the program that asks.
func (a *App) examine(ctx context.Context, version string) any {
	s := a.settings.Load()
	running := a.status(ctx)
	site := settings.Examined(s.Config)
	site.Running, site.Program, site.Listen, site.Origin, site.Refused = &running, version, a.Addr(), a.Origin(), a.onDisk.Refused()
	site.Models = func() (doctor.Models, error) { return doctor.CountModels(s.Catalog), nil }
	return doctor.Examine(ctx, site)
}

// CheckUpgrade returns what would happen if this program served the site of a configuration. It changes
// nothing.
func CheckUpgrade(ctx context.Context, cfg *config.Config) []doctor.Finding {
	return doctor.Upgrade(ctx, settings.Examined(cfg))
}
