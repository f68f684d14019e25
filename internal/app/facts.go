package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/admin"
	"sluice/internal/auth"
	"sluice/internal/buildinfo"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/datadir"
	"sluice/internal/fault"
	"sluice/internal/signin"
	"sluice/internal/sqlstore"
	"sluice/internal/usage"
)

// facts is the data folder, held, with the database open and every account known: what a server and
// an offline command have in common.
type facts struct {
	dir      *datadir.Dir
	store    *sqlstore.Store
	index    *auth.Index
	accounts *account.Accounts

	// onChange is told what an account was, as far as this process knew, and what it is; set before the
	// first change.
	onChange func(was, is *account.Account)

	journal   *usage.Journal // nil until openJournal
	committer *usage.Committer
}

func openFacts(ctx context.Context, cfg *config.Config) (*facts, error) {
	dir, err := datadir.Open(cfg.Data)
	if err != nil {
		return nil, err
	}
	store, err := sqlstore.Open(ctx, cfg.Database, dir.Path())
	if err != nil {
		dir.Close()
		return nil, err
	}
	if err := store.UnlockIn(ctx, dir, cfg.Secret.Reveal()); err != nil {
		return nil, errors.Join(err, store.Close(), dir.Close())
	}
	f := &facts{dir: dir, store: store, index: auth.NewIndex()}
	f.accounts = account.New(store, &account.Options{Brand: cfg.Brand, OnChange: f.changed})
	return f, nil
}

// changed publishes the new state of an account.
func (f *facts) changed(a *account.Account) {
	was := f.index.Account(a.ID)
	f.index.Put(a)
	if f.onChange != nil {
		f.onChange(was, a)
	}
}

// load brings every account into the index.
func (f *facts) load(ctx context.Context) error {
	const page = 1000
	after := ""
	for {
		list, err := f.store.Accounts(ctx, after, page)
		if err != nil {
			return fmt.Errorf("load accounts: %w", err)
		}
		for _, a := range list {
			f.index.Put(a)
		}
		if len(list) < page {
			return nil
		}
		after = list[len(list)-1].ID
	}
}

// createOwner opens the first account where there is none, and returns its master key.
func (f *facts) createOwner(ctx context.Context) (string, error) {
	if f.index.Accounts() > 0 {
		return "", nil
	}
	_, raw, err := f.accounts.Create(ctx, "first start", account.OwnerEmail, account.Scale, true)
	if fault.Is(err, fault.Conflict) {
		return "", f.load(ctx) // another node that started on the same database was quicker
	}
	if err != nil {
		return "", fmt.Errorf("create the owner account: %w", err)
	}
	return raw, nil
}

// openJournal opens the settlements that are not in the database yet.
func (f *facts) openJournal(cfg *config.Config, log *slog.Logger) (err error) {
	if f.journal != nil {
		return nil
	}
	f.journal, err = usage.OpenJournal(f.dir.Join("journal"), &usage.JournalOptions{SyncEach: cfg.Usage.SyncEach})
	if err != nil {
		return err
	}
	f.committer = usage.NewCommitter(f.journal, f.store, log)
	return nil
}

func (f *facts) close() error {
	var err error
	if f.journal != nil {
		err = f.journal.Close()
	}
	return errors.Join(err, f.store.Close(), f.dir.Close())
}

// Admin returns a client of the admin operations: of the server that runs on the data folder, or
// where none does, of this process, which then holds the folder until done is called. While
// another command holds it, Admin waits.
func Admin(ctx context.Context, cfg *config.Config) (client *admin.Client, done func() error, err error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if client, err := admin.Dial(ctx, cfg.Data); err == nil {
			return client, func() error { return nil }, nil
		}
		f, err := openFacts(ctx, cfg)
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

func offline(cfg *config.Config, f *facts) (*admin.Client, func() error, error) {
	s, err := newSettings(cfg, nil)
	if err != nil {
		f.close()
		return nil, nil, err
	}
	books := &offlineBooks{f, cfg}
	desk := signin.New(f.store, f.accounts, nil, func() signin.Settings { return signinSettings(cfg, cfg.Origin(), datadir.Proxied(f.dir.Path()) == "") }, nil)
	b := &admin.Backend{
		Accounts: f.accounts,
		Books:    books,
		Scores:   &offlineScores{books, s.plans},
		Desk:     desk,
		Billing:  offlineBilling(cfg, f, s.plans),
		Plans:    func() account.Plans { return s.plans },
		Status: func(context.Context) admin.Status {
			return admin.Status{Version: buildinfo.Version, Database: string(f.store.Engine()), Models: len(s.catalog.Models())}
		},
		Catalog:  func() *catalog.Catalog { return s.catalog },
		Standing: func() []admin.ModelStanding { return standing(s) },
		Reload:   func(context.Context) error { return errors.New("no server runs on this data folder") },
	}
	return admin.InProcess(b), f.close, nil
}

// Restore puts a backup into the data folder, which must not hold a database yet. The backup is sealed
// under a secret that is not in it; note says what to do where that secret is not here.
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
