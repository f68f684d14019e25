package app

import (
	"context"
	"errors"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/app/config"
	"sluice/internal/kit/datadir"
	"sluice/internal/store/installation"
	"sluice/internal/store/sqlstore"
)

// facts is what a server and an offline command have in common: the locked data folder, the open
// database, and the accounts.
type facts struct {
	dir      *datadir.Dir
	store    *sqlstore.Store
	stores   stores
	index    *auth.Index // empty in an offline command, which authenticates nobody
	accounts *account.Accounts

	// onChange, if not nil, is called with the states of an account before and after a change. The
	// state before is nil if the account is not in the index. onChange is set once, by New, while
	// nothing else runs, so no lock guards it.
	onChange func(was, is *account.Account)

	// revoke, if not nil, makes other nodes read an account again before they act on it. It is set once,
	// too, before the first change.
	revoke func(accountID string)
}

// openFacts locks the data folder, opens the database, and unlocks what is sealed in it. It returns
// datadir.ErrLocked if another process has the folder. open is sqlstore.Open for a server, which migrates the
// database, and sqlstore.OpenAsIs for a command, which does not.
func openFacts(ctx context.Context, cfg *config.Config, open installation.OpenFunc) (*facts, error) {
	dir, err := datadir.Open(cfg.Data)
	if err != nil {
		return nil, err
	}
	store, err := installation.Open(ctx, cfg.Database, dir, cfg.Secret.Reveal(), open)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	f := &facts{dir: dir, store: store, stores: storesOf(store), index: auth.NewIndex()}
	f.accounts = account.New(f.stores.accounts, &account.Options{Brand: cfg.Brand, OnChange: f.changed})
	return f, nil
}

// changed publishes the new state of an account in the index. Package account calls it before it
// confirms a change, so a key that was deleted is refused from then on.
func (f *facts) changed(a *account.Account) {
	// Between the two lines another change may be published. At worst a letter is sent twice or
	// not at all; the index itself is right.
	was := f.index.Account(a.ID)
	f.index.Put(a)
	if f.revoke != nil {
		f.revoke(a.ID)
	}
	if f.onChange != nil {
		f.onChange(was, a)
	}
}

// alone reports whether no other process can use the database. That of SQLite is in the folder that
// we have locked.
func (f *facts) alone() bool { return f.store.Engine() == sqlstore.SQLite }

// close closes the database, then unlocks the folder that it may be in.
func (f *facts) close() error { return errors.Join(f.store.Close(), f.dir.Close()) }

// openFacts locks the data folder and opens the database. A second server on the folder fails here.
func (a *App) openFacts(ctx context.Context, cfg *config.Config) (err error) {
	a.facts, err = openFacts(ctx, cfg, func(ctx context.Context, database, dir string) (*sqlstore.Store, error) {
		return sqlstore.Open(ctx, database, dir, a.reportMigration)
	})
	if err != nil {
		return datadir.Advise(err)
	}
	if note := installation.SecretNote(a.facts.store, cfg.Secret.Reveal()); note != "" {
		a.log.Warn(note)
	}
	return nil
}

// reportMigration reports how far the migrations of the database are.
func (a *App) reportMigration(m sqlstore.Migration) {
	a.opts.room.Tell(m.String())
	if m.News() {
		a.log.Info(m.String())
	}
}

// loadAccounts fills the index of keys. It reads the number of the last change first. What another
// node changes while the accounts are read is then seen twice; in the other order it could be missed.
func (a *App) loadAccounts(ctx context.Context, _ *config.Config) (err error) {
	if a.followFrom, err = a.facts.stores.accounts.LastChange(ctx); err != nil {
		return err
	}
	return a.facts.index.Load(ctx, a.facts.stores.accounts)
}

// createOwner creates the owner's account on an empty database.
func (a *App) createOwner(ctx context.Context, _ *config.Config) (err error) {
	a.ownerKey, err = a.facts.index.CreateOwner(ctx, a.facts.accounts, a.facts.stores.accounts)
	return err
}

// signOwnerIn makes the link that signs a new owner in once. The owner has no password yet, and the
// address of the account receives no mail.
func (a *App) signOwnerIn(ctx context.Context, _ *config.Config) (err error) {
	if a.ownerKey != "" {
		a.ownerLink, err = a.logins.SignInLink(ctx, account.OwnerEmail)
	}
	return err
}
