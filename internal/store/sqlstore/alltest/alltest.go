// Package alltest opens a database with all of its parts, for tests.
package alltest

import (
	"context"

	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/logins"
)

// The parts of a database, each under a name of its own.
type (
	kernel = sqlstore.Store
	signIn = logins.Store
)

// Store is a whole database: the kernel, and every part over it. The program gives each package its part; tests often
// need several.
type Store struct {
	*kernel
	*signIn
}

// Open opens a database as sqlstore.Open does.
func Open(ctx context.Context, database, dir string) (*Store, error) {
	db, err := sqlstore.Open(ctx, database, dir)
	if err != nil {
		return nil, err
	}
	return Over(db), nil
}

// Over returns all parts of an open database.
func Over(db *sqlstore.Store) *Store {
	return &Store{kernel: db, signIn: logins.New(db)}
}

// Kernel returns what the parts are over.
func (s *Store) Kernel() *sqlstore.Store { return s.kernel }
