package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sluice/internal/kit/datadir"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/calls"
)

// ReplayJournal settles the journal of a node that does not come back in a database, which is in the folder data if it
// is SQLite. The path is the node's data folder, or the folder journal in it; both may be a copy.
func ReplayJournal(ctx context.Context, database, data, secret, path string, opts *usage.ReplayOptions) (usage.Replayed, error) {
	node, journal, err := findJournal(path)
	if err != nil {
		return usage.Replayed{}, err
	}
	held := "" // the folder of the database
	if database == "sqlite" {
		if err := MustExist(database, data); err != nil {
			return usage.Replayed{}, err
		}
		// The journal may be that of the database's own folder, which is then locked once.
		dir, err := datadir.Open(data)
		if errors.Is(err, datadir.ErrLocked) {
			return usage.Replayed{}, fmt.Errorf("%w; stop the server first: it holds the database", err)
		}
		if err != nil {
			return usage.Replayed{}, err
		}
		defer dir.Close()
		held = dir.Path()
	}
	if !sameFolder(node, held) {
		release, err := datadir.Hold(node)
		if errors.Is(err, datadir.ErrLocked) {
			return usage.Replayed{}, fmt.Errorf("%w; the server that runs there settles its journal itself", err)
		}
		if err != nil {
			return usage.Replayed{}, err
		}
		defer release()
	}
	store, err := sqlstore.OpenAsIs(ctx, database, held)
	if err != nil {
		return usage.Replayed{}, err
	}
	defer store.Close()
	// Receipts in the journal are signed. Without them a secret is not needed, so a wrong one is an error only then.
	if secrets, err := datadir.ReadSecrets(data, secret); err == nil && len(secrets.All()) > 0 {
		if err := store.Unlock(ctx, secrets.All()...); err != nil && !errors.Is(err, sqlstore.ErrWrongSecret) {
			return usage.Replayed{}, err
		}
	}
	return usage.Replay(ctx, journal, calls.New(store), opts)
}

// findJournal returns the data folder and the journal that a path means.
func findJournal(path string) (data, journal string, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return "", "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", "", fmt.Errorf("there is no journal in %s: name the data folder of the lost server, or the folder journal in it: %w", path, err)
	}
	if !info.IsDir() {
		return "", "", fmt.Errorf("%s is a file: name a data folder, or the folder journal in it", path)
	}
	if inside, err := os.Stat(filepath.Join(path, JournalFolder)); err == nil && inside.IsDir() {
		return path, filepath.Join(path, JournalFolder), nil
	}
	return filepath.Dir(path), path, nil
}

// sameFolder reports whether two paths lead to the same folder. An empty path leads nowhere.
func sameFolder(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	one, errOne := os.Stat(a)
	two, errTwo := os.Stat(b)
	return errOne == nil && errTwo == nil && os.SameFile(one, two)
}
