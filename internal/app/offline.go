package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"sluice/internal/abuse"
	"sluice/internal/account"
	"sluice/internal/admin"
	"sluice/internal/app/settings"
	"sluice/internal/billing"
	"sluice/internal/buildinfo"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/datadir"
	"sluice/internal/signin"
	"sluice/internal/sqlstore"
	"sluice/internal/usage"
)

// Admin returns a client of the admin operations: of the server that runs on the data folder, or if none does, of
// this process, which then holds the folder until done is called. While another command holds it, Admin waits.
func Admin(ctx context.Context, cfg *config.Config) (client *admin.Client, done func() error, err error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if client, err := admin.Dial(ctx, cfg.Data); err == nil {
			return client, func() error { return nil }, nil
		}
		f, err := openFacts(ctx, cfg, sqlstore.OpenAsIs)
		if err == nil {
			return offline(cfg, f)
		}
		if !errors.Is(err, datadir.ErrLocked) {
			return nil, nil, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, err
		case <-time.After(wait):
		}
	}
}

// offline serves the admin operations in this process.
func offline(cfg *config.Config, f *facts) (*admin.Client, func() error, error) {
	s, err := settings.New(cfg, nil)
	if err != nil {
		f.close()
		return nil, nil, err
	}
	plans := func() account.Plans { return s.Plans }
	books := usage.NewBooks(f.dir.Join(journalFolder), f.store, &usage.BooksOptions{SyncEach: cfg.Usage.SyncEach})
	local := func() bool { return datadir.Proxied(f.dir.Path()) == "" }
	till, _ := newBilling(cfg, f, cfg.Origin(), billing.Options{
		Plans: plans, Log: slog.New(slog.DiscardHandler),
		Withdrawn: func() bool { return cfg.Billing.Processor == "" && !local() },
	})
	b := &admin.Backend{
		Accounts: f.accounts,
		Books:    books,
		Scores:   abuse.New(f.store, abuse.Options{Plans: plans, Accounts: f.accounts, Flush: books.Flush}),
		Desk:     signin.New(f.store, f.accounts, nil, func() signin.Settings { return signinSettings(cfg, cfg.Origin(), local()) }, nil),
		Billing:  till,
		Plans:    plans,
		Status: func(context.Context) admin.Status {
			return admin.Status{Version: buildinfo.Version, Database: string(f.store.Engine()), Models: len(s.Catalog.Models())}
		},
		Catalog:  func() *catalog.Catalog { return s.Catalog },
		Standing: s.Standing,
		Reload:   func(context.Context) error { return errors.New("no server runs on this data folder") },
	}
	return admin.InProcess(b), func() error { return errors.Join(books.Close(), f.close()) }, nil
}

// Listing is the catalog as an operator sees it.
type Listing struct {
	JSON     json.RawMessage // as GET /v1/models gives it
	Standing []admin.ModelStanding
}

// Models returns the catalog of the server that runs on the data folder, or if none does, that of the configuration.
// It needs no data folder and makes none. With refresh, the server looks for models first.
func Models(ctx context.Context, cfg *config.Config, verbose, refresh bool) (*Listing, error) {
	client, err := admin.Dial(ctx, cfg.Data)
	if err != nil {
		s, err := settings.New(cfg, nil)
		if err != nil {
			return nil, err
		}
		client = admin.InProcess(&admin.Backend{Catalog: func() *catalog.Catalog { return s.Catalog }, Standing: s.Standing})
	}
	l := &Listing{}
	operation := "models.standing"
	if refresh {
		operation = "models.refresh"
	}
	if err := client.Call(ctx, operation, admin.Empty{}, &l.Standing); err != nil {
		return nil, err
	}
	return l, client.Call(ctx, "models", admin.ModelQuery{Verbose: verbose}, &l.JSON)
}

// Restore puts a backup into the data folder, which must not hold a database yet. The backup is sealed under a secret
// that is not in it; note says what to do if that secret is not here.
func Restore(ctx context.Context, cfg *config.Config, backup string) (note string, err error) {
	if cfg.Database != "sqlite" {
		return "", errors.New("the database is PostgreSQL: restore it with pg_restore or psql")
	}
	dir, err := datadir.Open(cfg.Data)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if err := sqlstore.Restore(ctx, backup, dir.Path()); err != nil {
		return "", err
	}
	in, err := sqlstore.Inspect(ctx, cfg.Database, dir.Path())
	if err != nil || in.Sealed == nil {
		return "", err
	}
	secrets, err := datadir.ReadSecrets(dir.Path(), cfg.Secret.Reveal())
	if err != nil || slices.ContainsFunc(secrets.All(), func(s string) bool { return sqlstore.Opens(in.Sealed, s) }) {
		return "", err
	}
	return "The secret that it is sealed under is not here. Before you start the server, " + datadir.SecretAdvice + ".", nil
}

// ResetSecret gives up what is sealed under a lost secret, and returns how many accounts lost their second factor.
// The next start makes a new secret, or uses the one that is configured.
func ResetSecret(ctx context.Context, cfg *config.Config) (accounts int, err error) {
	dir, err := datadir.Open(cfg.Data)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	store, err := sqlstore.OpenAsIs(ctx, cfg.Database, dir.Path())
	if err != nil {
		return 0, err
	}
	defer store.Close()
	return store.ForgetSealed(ctx)
}
