package app

import (
	"context"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/store/installation"
	"sluice/internal/store/sqlstore"
)

// Migration is a move of an installation from SQLite to PostgreSQL, in the words of the configuration.
type Migration struct {
	From     string       // the data folder
	To       string       // the address of the PostgreSQL database
	Storage  *config.Blob // where video files are copied to; nil: they stay where they are
	Live     bool         // see installation.Move
	Patience time.Duration
	Report   func(step string, p sqlstore.Progress)
}

// move returns the move that is meant.
func (m *Migration) move(cfg *config.Config) *installation.Move {
	out := &installation.Move{From: m.From, To: m.To, Secret: cfg.Secret.Reveal(), Live: m.Live, Patience: m.Patience, Report: m.Report}
	if m.Storage != nil {
		out.Files = func(spool string) (from, to installation.Files, err error) {
			if from, err = settings.OpenFiles(cfg.Blob, m.From, spool+"/from"); err != nil {
				return nil, nil, err
			}
			to, err = settings.OpenFiles(*m.Storage, m.From, spool+"/to")
			return from, to, err
		}
	}
	return out
}

// Migrate moves an installation. It may be interrupted and run again.
func Migrate(ctx context.Context, cfg *config.Config, m *Migration) (*installation.Moved, error) {
	return m.move(cfg).Run(ctx)
}

// PlanMigration returns what Migrate would do. It changes nothing, and a server may be running.
func PlanMigration(ctx context.Context, cfg *config.Config, m *Migration) (*installation.Plan, error) {
	return m.move(cfg).Plan(ctx)
}
