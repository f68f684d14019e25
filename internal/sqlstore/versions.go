package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// The migrations run on both engines, all but one (see indexEmails) as the same text. They are numbered and forward only; an applied one never
// changes. From number 18 on they only add, so that the program of the version before works on the
// new tables, too; see CONTRIBUTING.md.
//
//go:embed migrations/*.sql
var migrations embed.FS

// Newest returns the number of the newest migration that this program has.
func Newest() int64 {
	files, _ := migrations.ReadDir("migrations") // it is embedded
	number, _, _ := strings.Cut(files[len(files)-1].Name(), "_")
	n, _ := strconv.ParseInt(number, 10, 64) // TestNewest compares it with what goose reads
	return n
}

// Inspection describes a database without changing it.
type Inspection struct {
	Engine  Engine
	Version int64 // number of the last migration applied; 0 if there are no tables
	Known   int64 // number of the newest migration that this program has
	// Sealed is the sealed data key (see Opens), or nil if nothing is sealed yet.
	Sealed []byte
	// Unserved says why no server may use the database; nil if one may. See Transfer.
	Unserved error
}

// Inspect looks at a database without migrating it. It returns an error if the database cannot be
// reached.
func Inspect(ctx context.Context, database, dir string) (Inspection, error) {
	s := &Store{}
	if err := s.connect(database, dir); err != nil {
		return Inspection{}, err
	}
	defer s.Close()
	return s.inspect(ctx)
}

func (s *Store) inspect(ctx context.Context) (Inspection, error) {
	p, err := s.provider()
	if err != nil {
		return Inspection{}, err
	}
	// Connecting is lazy, so ask the database for a sign of life.
	in := Inspection{Engine: s.engine, Known: newest(p)}
	if err := s.read.ping(ctx); err != nil {
		return in, clean(err)
	}
	err = s.read.QueryRowContext(ctx, "SELECT MAX(version_id) FROM goose_db_version").Scan(&in.Version)
	if err != nil {
		in.Version = 0 // there is no such table: nothing has been set up
	}
	in.Sealed, _ = s.Sealed(ctx) // the table may be missing, too
	if moves, err := s.transfers(ctx); err == nil {
		in.Unserved = unserved(s.engine, moves)
	}
	return in, nil
}

// provider loads the migrations. On PostgreSQL they run under an advisory lock, so that nodes that
// start at the same time do not migrate twice; the others wait for up to two minutes.
func (s *Store) provider() (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	dialect, opts := goose.DialectSQLite3, []goose.ProviderOption{}
	if s.engine == Postgres {
		dialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120)) // try every second, 120 times
		if err != nil {
			return nil, err
		}
		opts = append(opts, goose.WithSessionLocker(boundedLocker{locker}))
	}
	opts = append(opts, goose.WithGoMigrations(goose.NewGoMigration(emailIndex, &goose.GoFunc{RunTx: s.indexEmails}, nil)))
	// Migrations need the writing pool; on SQLite the others cannot write.
	p, err := goose.NewProvider(dialect, s.write.db, files, opts...)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}

// emailIndex is the number of the migration that is not the same on both engines.
const emailIndex = 25

// indexEmails adds an index that finds addresses by how they begin. On SQLite the unique index does that: it compares
// bytes. On PostgreSQL it compares as the database's language does, which may ignore dots and the at sign.
func (s *Store) indexEmails(ctx context.Context, tx *sql.Tx) error {
	if s.engine == SQLite {
		return nil
	}
	_, err := tx.ExecContext(ctx, `CREATE INDEX accounts_by_email_bytes ON accounts (email COLLATE "C")`)
	return err
}

// boundedLocker is a lock whose release has a deadline. goose releases it without one, on a connection that may
// have gone silent.
type boundedLocker struct{ lock.SessionLocker }

func (l boundedLocker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, usual.call)
	defer cancel()
	return l.SessionLocker.SessionUnlock(ctx, conn)
}

// newest returns the number of the last migration that this program has.
func newest(p *goose.Provider) int64 {
	sources := p.ListSources()
	return sources[len(sources)-1].Version
}

// migrate applies the missing migrations. A database with migrations that this program does not have is
// refused, because an old program could damage data that it does not understand.
func (s *Store) migrate(ctx context.Context) error {
	return s.long(ctx, s.bringUpToDate) // which may wait for another node that migrates
}

// bringUpToDate is migrate with a context that ends when the database does not answer any more.
func (s *Store) bringUpToDate(ctx context.Context) error {
	p, err := s.provider()
	if err != nil {
		return err
	}
	// GetDBVersion is also the first statement that reaches the database. It creates the table of
	// versions.
	known := newest(p)
	s.known = known
	have, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("open the %s database: %w", s.engine, clean(err))
	}
	if have > known {
		return fmt.Errorf("the database is at version %d and this program knows versions up to %d: use a newer sluice, such as the one that set it up", have, known)
	}
	if strange, err := s.unknown(ctx, p); err != nil {
		return fmt.Errorf("open the %s database: %w", s.engine, clean(err))
	} else if len(strange) > 0 {
		return fmt.Errorf("the database has migrations that this program does not know (%s): use the sluice that set it up, or a newer one", join(strange))
	}
	// Most starts find nothing to do, and need not wait for the lock.
	if pending, err := p.HasPending(ctx); err != nil {
		return fmt.Errorf("open the %s database: %w", s.engine, clean(err))
	} else if !pending {
		return nil
	}
	// Each migration is one transaction, so a failed start leaves no half-applied one behind.
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate the %s database: %w", s.engine, clean(err))
	}
	return nil
}

// unknown returns the applied migrations that this program does not have.
func (s *Store) unknown(ctx context.Context, p *goose.Provider) (strange []int64, err error) {
	known := map[int64]bool{0: true} // goose writes a row 0 when it creates its table
	for _, source := range p.ListSources() {
		known[source.Version] = true
	}
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		var v int64
		if err := rows.Scan(&v); err != nil {
			return err
		}
		if !known[v] {
			strange = append(strange, v)
		}
		return nil
	}, `SELECT DISTINCT version_id FROM goose_db_version ORDER BY version_id`)
	return strange, err
}

// refuseOlder returns an error if this program would have to migrate a PostgreSQL that is in use. The
// servers do that when they start; a command must not do it behind their back.
func (s *Store) refuseOlder(ctx context.Context) error {
	if s.engine != Postgres {
		return nil
	}
	in, err := s.inspect(ctx)
	if err != nil {
		return fmt.Errorf("open the %s database: %w", s.engine, err)
	}
	if in.Version == 0 || in.Version >= in.Known {
		return nil // migrate says what is wrong with one that is newer
	}
	return fmt.Errorf("the database is at version %d and this program needs version %d: only \"sluice serve\" migrates a shared database; start a server of this version first, or use the sluice that the running servers have", in.Version, in.Known)
}

// join lists numbers for a message.
func join(numbers []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ", "), "[]")
}
