package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sluice/internal/account/billing"
	"sluice/internal/account/signin"
	"sluice/internal/account/staff"
	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/datadir"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/feedback"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/steering"
	"sluice/internal/operate/ticket"
	"sluice/internal/store/installation"
	"sluice/internal/store/sqlstore"
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
		if err := installation.MustExist(cfg.Database, cfg.Data); err != nil {
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
	a := &App{facts: f, imported: newImports()}
	a.settings.Store(s)
	a.openOffline(cfg)
	done := func() error { return errors.Join(a.books.Close(), f.close()) }
	if err := errors.Join(a.helm.Read(context.Background()), a.readPrices(context.Background())); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	if err := s.Import(a.imported.all()); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	s.Tier(a.helm.Tiers())
	b := a.offlineBackend()
	b.Status = func(context.Context) admin.Status {
		return admin.Status{Version: buildinfo.Version(), Database: string(f.store.Engine()), Models: len(s.Catalog.Models())}
	}
	b.Reload = func(context.Context) ([]string, error) {
		return nil, errors.New("no server is running on this data folder")
	}
	return admin.InProcess(b), done, nil
}

// openOffline makes what operations need without a server. A command ends soon, so nothing here needs Run: books opens
// the journal only if an operation reads it, and billing renews nothing by itself.
func (a *App) openOffline(cfg *config.Config) {
	f := a.facts
	revoke, units := visitRedis(cfg, f)
	f.revoke = revoke
	a.books = usage.NewBooks(f.dir.Join(installation.JournalFolder), f.stores.calls, &usage.BooksOptions{SyncEach: cfg.Usage.SyncEach})
	// A command sees no requests. It relies on what the last server has recorded.
	local := func() bool { return datadir.Proxied(f.dir.Path()) == "" }
	a.billing, _ = newBilling(cfg, f, cfg.Origin, billing.Options{
		Plans: a.plans, Seller: a.seller, Log: slog.New(slog.DiscardHandler),
		Withdrawn: func() bool { return cfg.WithdrawsTestCard(cfg, local()) },
	})
	a.helm = steering.New(f.stores.service, nil)
	a.bulletin = incident.New(f.stores.service, &incident.Options{Origin: cfg.Origin})
	a.subscribers = incident.NewSubscribers(f.stores.alerts, nil, nil, nil)
	a.logins = signin.New(f.stores.logins, f.accounts, nil, func() signin.Settings { return a.settings.Load().Signin(cfg.Origin(), local()) }, nil)
	a.roster = staff.New(f.stores.accounts, f.accounts, a.logins)
	a.notices = notice.New(f.stores.tickets, nil, cfg.Origin, nil)
	a.feedback = feedback.New(f.stores.service, nil, nil)
	a.alerts.history = alert.NewHistory(f.stores.alerts, func() alert.Settings { return a.settings.Load().Alerts() }, nil)
	a.abuse = abuse.New(f.stores.calls, abuse.Options{Plans: a.plans, Accounts: f.accounts, Flush: a.books.Flush, Totals: units})
	a.tickets = ticket.NewOffice(f.stores.tickets, nil, func() ticket.Settings { return ticket.Settings{} }, nil)
}

// Catalog returns a client of the operations about models, on the catalog of a configuration. It needs no server and no
// data folder.
func Catalog(cfg *config.Config) (*admin.Client, error) {
	s, err := settings.New(cfg, nil)
	if err != nil {
		return nil, err
	}
	a := &App{imported: newImports()}
	a.settings.Store(s)
	return admin.InProcess(&admin.Backend{Catalog: a.catalog, State: s.Models, Prices: priceBook{a}, VideoModel: a.videoModelID}), nil
}
