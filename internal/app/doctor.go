package app

import (
	"context"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/kit/datadir"
	"sluice/internal/operate/doctor"
	"sluice/internal/store/installation"
	"sluice/internal/store/sqlstore"
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
	site.Models = func() (doctor.Models, error) { return s.Counted(), nil }
	return doctor.Examine(ctx, site)
}

// CheckUpgrade returns what would happen if this program served the site of a configuration. It changes
// nothing.
func CheckUpgrade(ctx context.Context, cfg *config.Config) []doctor.Finding {
	return doctor.Upgrade(ctx, settings.Examined(cfg))
}

// UpgradeDatabase migrates the database of a configuration to the version of this program, as the start of a server does,
// and returns its versions before and after. report is told how far it is. Servers of the version before may be using
// PostgreSQL meanwhile; SQLite needs the data folder for itself.
func UpgradeDatabase(ctx context.Context, cfg *config.Config, report func(sqlstore.Migration)) (was, is int64, err error) {
	if err := installation.MustExist(cfg.Database, cfg.Data); err != nil {
		return 0, 0, err
	}
	before, err := sqlstore.Inspect(ctx, cfg.Database, cfg.Data)
	if err != nil {
		return 0, 0, err
	}
	f, err := openFacts(ctx, cfg, func(ctx context.Context, database, dir string) (*sqlstore.Store, error) {
		return sqlstore.Open(ctx, database, dir, report)
	})
	if err != nil {
		return 0, 0, datadir.Advise(err)
	}
	return before.Version, sqlstore.Newest(), f.close()
}
