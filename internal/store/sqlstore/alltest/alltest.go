// Package alltest opens a database with all of its parts, for tests.
package alltest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"sluice/internal/account"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
	"sluice/internal/store/sqlstore/alerts"
	"sluice/internal/store/sqlstore/budgets"
	"sluice/internal/store/sqlstore/calls"
	"sluice/internal/store/sqlstore/kept"
	"sluice/internal/store/sqlstore/logins"
	"sluice/internal/store/sqlstore/nodes"
	"sluice/internal/store/sqlstore/payments"
	"sluice/internal/store/sqlstore/service"
	"sluice/internal/store/sqlstore/tickets"
	"sluice/internal/store/sqlstore/videos"
)

// The parts of a database, each under a name of its own.
type (
	kernel = sqlstore.Store

	accountPart = accounts.Store
	alertPart   = alerts.Store
	budgetPart  = budgets.Store
	callPart    = calls.Store
	keptPart    = kept.Store
	loginPart   = logins.Store
	ticketPart  = tickets.Store
	nodePart    = nodes.Store
	paymentPart = payments.Store
	servicePart = service.Store
	videoPart   = videos.Store
)

// Store is a whole database: the kernel, and every part over it. The program gives each package its part; tests often
// need several.
type Store struct {
	*kernel

	*accountPart
	*alertPart
	*budgetPart
	*callPart
	*keptPart
	*loginPart
	*ticketPart
	*nodePart
	*paymentPart
	*servicePart
	*videoPart
}

// empty returns a SQLite database that has its tables and nothing else. Making them takes longer than most tests do, so a
// process does it once.
var empty = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "sluice-empty-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	db, err := sqlstore.Open(context.Background(), "sqlite", dir, nil)
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, sqlstore.File))
})

// Prepare puts a SQLite database without content into a data folder, which it makes if need be: a first start there finds
// its tables. It does nothing if there is a database.
func Prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, sqlstore.File)
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := empty()
	if err != nil {
		return err
	}
	return os.WriteFile(file, db, 0o600)
}

// Open opens a database as sqlstore.Open does. One that is new is a copy.
func Open(ctx context.Context, database, dir string) (*Store, error) {
	if database == "sqlite" {
		if err := Prepare(dir); err != nil {
			return nil, err
		}
	}
	db, err := sqlstore.Open(ctx, database, dir, nil)
	if err != nil {
		return nil, err
	}
	return Over(db), nil
}

// In is Open for the time of a test.
func In(t testing.TB, database, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), database, dir)
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Over returns all parts of an open database.
func Over(db *sqlstore.Store) *Store {
	return &Store{
		kernel: db,

		accountPart: accounts.New(db),
		alertPart:   alerts.New(db),
		budgetPart:  budgets.New(db),
		callPart:    calls.New(db),
		keptPart:    kept.New(db),
		loginPart:   logins.New(db),
		ticketPart:  tickets.New(db),
		nodePart:    nodes.New(db),
		paymentPart: payments.New(db),
		servicePart: service.New(db),
		videoPart:   videos.New(db),
	}
}

// Kernel returns what the parts are over.
func (s *Store) Kernel() *sqlstore.Store { return s.kernel }

// FindAccount, AuditLog and Secret are methods of several parts. This is that
// of the accounts.
func (s *Store) FindAccount(ctx context.Context, ref string) (*account.Account, error) {
	return s.accountPart.FindAccount(ctx, ref)
}

// AuditLog is that of the accounts.
func (s *Store) AuditLog(ctx context.Context, accountID string, before int64, limit int) ([]account.Entry, error) {
	return s.accountPart.AuditLog(ctx, accountID, before, limit)
}

// Secret is that of the kernel.
func (s *Store) Secret(ctx context.Context, name string, fresh []byte) ([]byte, error) {
	return s.kernel.Secret(ctx, name, fresh)
}

// DropExpired deletes what has expired in any part.
func (s *Store) DropExpired(ctx context.Context, failed func(what string, err error)) {
	for _, part := range []interface{ Expiring() []sqlstore.Expiring }{s.keptPart, s.servicePart, s.alertPart, s.callPart, s.budgetPart} {
		sqlstore.DropExpired(ctx, failed, part.Expiring()...)
	}
}
