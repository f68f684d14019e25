package app

import (
	"context"

	"sluice/internal/config"
	"sluice/internal/datadir"
	"sluice/internal/sqlstore"
)

// ResetSecret gives up what is sealed under a lost secret, and returns how many accounts lost their second
// factor. The next start makes a new secret, or uses the one that is configured.
func ResetSecret(ctx context.Context, cfg *config.Config) (accounts int, err error) {
	dir, err := datadir.Open(cfg.Data)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	store, err := sqlstore.Open(ctx, cfg.Database, dir.Path())
	if err != nil {
		return 0, err
	}
	defer store.Close()
	return store.ForgetSealed(ctx)
}
