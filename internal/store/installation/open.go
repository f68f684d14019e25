package installation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"sluice/internal/api/responses"
	"sluice/internal/kit/datadir"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

// OpenFunc opens a database: sqlstore.Open for a server, which migrates it, and sqlstore.OpenAsIs for a command, which
// does not.
type OpenFunc func(ctx context.Context, database, dir string) (*sqlstore.Store, error)

// Open opens the database of a data folder, which the caller has locked, and unlocks what is sealed in it. It refuses
// one that cannot be the database of this folder.
func Open(ctx context.Context, database string, dir *datadir.Dir, secret string, open OpenFunc) (*sqlstore.Store, error) {
	if err := refuseLost(database, dir); err != nil {
		return nil, err
	}
	store, err := open(ctx, database, dir.Path())
	if err != nil {
		return nil, err
	}
	if err := refuseEmpty(ctx, store, dir); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	// Without the secret nothing sealed can be read, so a wrong one stops the start here and not in
	// the middle of a request.
	if err := store.UnlockIn(ctx, dir, secret); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// SecretNote says what other nodes need if the secret is in the data folder alone; "" if they need nothing. Only
// PostgreSQL has other nodes, which do not start without the same secret.
func SecretNote(store *sqlstore.Store, configured string) string {
	if configured != "" || store.Engine() != sqlstore.Postgres {
		return ""
	}
	return "SLUICE_SECRET is not set, so secret.key in the data folder is used; other nodes on this database need the same: set SLUICE_SECRET to what it holds on all of them, or copy it into each data folder"
}

// ErrNone says that there is no installation.
var ErrNone = errors.New("no installation")

// MustExist returns ErrNone if a data folder holds no installation. Commands ask before they open the folder, which
// would make a new one: in the wrong working directory they would work on nothing and say that all is well.
func MustExist(database, data string) error {
	entries, err := os.ReadDir(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	is := func(e fs.DirEntry) bool { return e.Name() == sqlstore.File || e.Name() == JournalFolder }
	if database == "sqlite" && !slices.ContainsFunc(entries, is) { // PostgreSQL itself is the installation
		return fmt.Errorf("%w in %s: name its data folder with --data or its file with --config, or start a new one with \"sluice serve\"", ErrNone, data)
	}
	return nil
}

// refuseLost is refuseEmpty for a SQLite file that is not there, before opening makes a new one: a restore
// needs the place.
func refuseLost(database string, dir *datadir.Dir) error {
	if database != "sqlite" {
		return nil
	}
	if _, err := os.Stat(dir.Join(sqlstore.File)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return refuseJournal(sqlstore.SQLite, dir)
}

// refuseEmpty returns an error if the database has no account although the journal beside it was used: the database
// was lost, or is another one, and starting on it would give every caller's key up.
func refuseEmpty(ctx context.Context, store *sqlstore.Store, dir *datadir.Dir) error {
	has, err := store.HasAccounts(ctx)
	if err != nil || has {
		return err
	}
	return refuseJournal(store.Engine(), dir)
}

// refuseJournal returns an error if the journal of the folder was used.
func refuseJournal(engine sqlstore.Engine, dir *datadir.Dir) error {
	journal := dir.Join(JournalFolder)
	used, err := usage.Used(journal)
	if err != nil || !used {
		return err
	}
	return fmt.Errorf("the %s database has no account, but the journal in %s holds or held settlements: the database is lost, or it is not the one that belongs to this folder; "+
		"set database to the right one, or put the last backup in its place with \"sluice restore\"; for a new installation, move %s away or name another folder with --data", engine, journal, journal)
}

// ResetSecret deletes what is sealed under a lost secret, and returns how many accounts lost their
// second factor. It does not unlock the store, because nothing opens it any more. The next start
// makes a new secret, or uses the configured one.
func ResetSecret(ctx context.Context, database, data string) (accounts int, err error) {
	if err := MustExist(database, data); err != nil {
		return 0, err
	}
	dir, err := datadir.Open(data)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	store, err := sqlstore.OpenAsIs(ctx, database, dir.Path())
	if err != nil {
		return 0, err
	}
	defer store.Close()
	if err := os.RemoveAll(responses.JournalIn(dir.Path())); err != nil { // they are sealed, too
		return 0, err
	}
	return store.ForgetSealed(ctx)
}
