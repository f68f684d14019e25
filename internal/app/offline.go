package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/signin"
	"sluice/internal/account/staff"
	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/datadir"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/feedback"
	"sluice/internal/operate/finder"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/steering"
	"sluice/internal/operate/ticket"
	"sluice/internal/store/installation"
	"sluice/internal/store/sqlstore"
	"sluice/internal/upstream/catalog"
)

// Admin returns a client of the admin operations. They run in the server on the data folder, or in
// this process if no server runs. In the latter case this process has the folder locked until done
// is called; the caller must call it. While another command has the folder locked, Admin waits.
func Admin(ctx context.Context, cfg *config.Config) (client *admin.Client, done func() error, err error) {
	// Both are tried again and again, because a server or a command may start or end meanwhile. Most
	// commands take a few milliseconds.
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if client, err := admin.Dial(ctx, cfg.Data); err == nil {
			return client, func() error { return nil }, nil
		}
		if err := mustExist(cfg); err != nil {
			return nil, nil, err
		}
		f, err := openFacts(ctx, cfg, sqlstore.OpenAsIs)
		if err == nil {
			return offline(cfg, f)
		}
		if !errors.Is(err, datadir.ErrLocked) {
			return nil, nil, err
		}
		if pace.Sleep(ctx, wait) != nil {
			return nil, nil, err
		}
	}
}

// offline returns a client whose operations run in this process, on f. It takes over f: done closes
// it. What needs a running server is left out, such as mail, Refresh and locks in memory.
func offline(cfg *config.Config, f *facts) (*admin.Client, func() error, error) {
	s, err := settings.New(cfg, nil)
	if err != nil {
		f.close()
		return nil, nil, err
	}
	if cfg.Redis != "" && !f.alone() {
		f.revoke = revokeOnce(cfg)
	}
	// A command ends soon, so nothing here needs Run: books opens the journal only if an operation
	// reads it, and billing renews nothing by itself.
	plans := func() account.Plans { return s.Plans }
	books := usage.NewBooks(f.dir.Join(installation.JournalFolder), f.stores.calls, &usage.BooksOptions{SyncEach: cfg.Usage.SyncEach})
	// A command sees no requests. It relies on what the last server has recorded.
	local := func() bool { return datadir.Proxied(f.dir.Path()) == "" }
	till, _ := newBilling(cfg, f, cfg.Origin, billing.Options{
		Plans: plans, Log: slog.New(slog.DiscardHandler),
		Withdrawn: func() bool { return cfg.Billing.Processor == "" && !local() },
	})
	helm := steering.New(f.stores.service, nil)
	if err := helm.Read(context.Background()); err != nil {
		return nil, nil, errors.Join(err, books.Close(), f.close())
	}
	s.Tier(helm.Tiers())
	desk := signin.New(f.stores.logins, f.accounts, nil, func() signin.Settings { return signinSettings(cfg, cfg.Origin(), local()) }, nil)
	b := &admin.Backend{
		Accounts:   f.accounts,
		Staff:      staff.New(f.stores.accounts, f.accounts, desk, nil),
		Messages:   notice.NewBoard(f.stores.tickets, nil, cfg.Origin, nil),
		Helm:       helm,
		Feedback:   feedback.New(f.stores.service, nil, nil),
		VideoModel: func() string { return cfg.Video.ModelID },
		Alerts:     alert.NewDesk(f.stores.alerts, func() alert.Settings { return alertSettings(cfg) }, nil),
		Books:      books,
		Scores:     abuse.New(f.stores.calls, abuse.Options{Plans: plans, Accounts: f.accounts, Flush: books.Flush, Counter: counterOnce(cfg, f)}),
		Desk:       desk,
		Billing:    till,
		Evidence:   f.stores.calls,
		Tickets:    ticket.NewOffice(f.stores.tickets, nil, func() ticket.Settings { return ticket.Settings{} }, nil),
		Plans:      plans,
		Finder:     finder.New(f.stores.calls, books.View().Flush),
		Refusals:   refusal.NewView(nil, f.stores.calls),
		Signals:    f.stores.calls,
		Status: func(context.Context) admin.Status {
			return admin.Status{Version: buildinfo.Version, Database: string(f.store.Engine()), Models: len(s.Catalog.Models())}
		},
		Catalog:  func() *catalog.Catalog { return s.Catalog },
		Standing: s.Standing,
		Reload: func(context.Context) ([]string, error) {
			return nil, errors.New("no server is running on this data folder")
		},
	}
	return admin.InProcess(b), func() error { return errors.Join(books.Close(), f.close()) }, nil
}

// Listing is the catalog as an operator sees it.
type Listing struct {
	JSON     json.RawMessage // as GET /v1/models returns it
	Standing []admin.ModelStanding
}

// Catalog returns a client of the operations about models, on the catalog of a configuration. It needs no server and no
// data folder.
func Catalog(cfg *config.Config) (*admin.Client, error) {
	s, err := settings.New(cfg, nil)
	if err != nil {
		return nil, err
	}
	return admin.InProcess(&admin.Backend{Catalog: func() *catalog.Catalog { return s.Catalog }, Standing: s.Standing}), nil
}

// Models returns the catalog of a server, or that of a configuration. With refresh, the server looks for models
// first; without a server that is an error.
func Models(ctx context.Context, client *admin.Client, verbose, refresh bool) (*Listing, error) {
	if refresh {
		if _, err := admin.Ops().ModelsRefresh.Call(ctx, client, admin.Cursor{Limit: 1}); err != nil {
			return nil, err
		}
	}
	standing, err := admin.All(admin.Cursor{}, func(at admin.Cursor) (admin.List[admin.ModelStanding], error) {
		return admin.Ops().ModelsStanding.Call(ctx, client, at)
	})
	if err != nil {
		return nil, err
	}
	list, err := admin.Ops().ModelsJSON.Call(ctx, client, admin.ModelQuery{Verbose: verbose})
	return &Listing{list, standing}, err
}

// ResetSecret deletes what is sealed under a lost secret, and returns how many accounts lost their
// second factor. It does not unlock the store, because nothing opens it any more. The next start
// makes a new secret, or uses the configured one.
func ResetSecret(ctx context.Context, cfg *config.Config) (accounts int, err error) {
	if err := mustExist(cfg); err != nil {
		return 0, err
	}
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
