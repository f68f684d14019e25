package app

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/account"
	"sluice/internal/auth"
	"sluice/internal/config"
	"sluice/internal/datadir"
	"sluice/internal/sqlstore"
)

// facts is what a server and an offline command have in common: the locked data folder, the open database, and the
// accounts.
type facts struct {
	dir      *datadir.Dir
	store    *sqlstore.Store
	index    *auth.Index // empty in an offline command
	accounts *account.Accounts

	// onChange is called with the state of an account before a change, nil if it is not in the index, and after it.
	// It is set before the first change.
	onChange func(was, is *account.Account)
}

// openFacts opens the database with sqlstore.Open for a server, and with sqlstore.OpenAsIs for a command.
func openFacts(ctx context.Context, cfg *config.Config, open func(ctx context.Context, database, dir string) (*sqlstore.Store, error)) (*facts, error) {
	dir, err := datadir.Open(cfg.Data)
	if err != nil {
		return nil, err
	}
	store, err := open(ctx, cfg.Database, dir.Path())
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

// createOwner opens the first account if there is none, and returns its master key.
func (f *facts) createOwner(ctx context.Context) (string, error) {
	if f.index.Accounts() > 0 {
		return "", nil
	}
	raw, err := f.accounts.CreateOwner(ctx)
	if err == nil && raw == "" { // another node created it after we had loaded the accounts
		err = f.index.Load(ctx, f.store)
	}
	return raw, err
}

// alone reports whether no other process can use the database: that of SQLite lies in the locked folder.
func (f *facts) alone() bool { return f.store.Engine() == sqlstore.SQLite }

func (f *facts) close() error { return errors.Join(f.store.Close(), f.dir.Close()) }

// openFacts locks the data folder and opens the database.
func (a *App) openFacts(ctx context.Context, cfg *config.Config) (err error) {
	a.facts, err = openFacts(ctx, cfg, sqlstore.Open)
	if errors.Is(err, datadir.ErrLocked) {
		return fmt.Errorf("%w; stop it first, or give this one another folder with --data", err)
	}
	if err == nil && cfg.Secret == "" && a.facts.store.Engine() == sqlstore.Postgres {
		a.log.Warn("SLUICE_SECRET is not set, so secret.key in the data folder is used; other nodes on this database need the same: set SLUICE_SECRET to what it holds on all of them, or copy it into each data folder")
	}
	return err
}

// loadAccounts fills the index of keys. The number of the last change is read first: what another node changes in
// the meantime is then seen twice, not missed.
func (a *App) loadAccounts(ctx context.Context, _ *config.Config) (err error) {
	if a.followFrom, err = a.facts.store.LastChange(ctx); err != nil {
		return err
	}
	return a.facts.index.Load(ctx, a.facts.store)
}

// createOwner opens the owner's account on an empty database.
func (a *App) createOwner(ctx context.Context, _ *config.Config) (err error) {
	a.ownerKey, err = a.facts.createOwner(ctx)
	return err
}

// signOwnerIn makes the link that signs a new owner in once.
func (a *App) signOwnerIn(ctx context.Context, _ *config.Config) (err error) {
	if a.ownerKey != "" {
		a.ownerLink, err = a.desk.SignInLink(ctx, account.OwnerEmail)
	}
	return err
}
