package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"sluice/internal/kit/pace"
)

// The migrations run on both engines, all but one (see indexEmails) as the same text. They are numbered and forward only; an applied one never
// changes. From number 18 on they only add, so that the program of the version before works on the
// new tables, too; see CONTRIBUTING.md.
//
//go:embed migrations/*.sql
var migrations embed.FS

// known returns the numbers of all migrations in their order.
var known = sync.OnceValue(func() []int64 {
	numbers := []int64{emailIndex}
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range files {
		number, err := goose.NumericComponent(name)
		if err != nil {
			panic(err) // the files are part of the program
		}
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return numbers
})

// Newest returns the number of the newest migration that this program has.
func Newest() int64 { return known()[len(known())-1] }

// Inspection describes a database without changing it.
type Inspection struct {
	Engine  Engine
	Version int64 // number of the last migration applied; 0 if there are no tables
	Known   int64 // number of the newest migration that this program has
	// Sealed is the sealed data key (see Opens), or nil if nothing is sealed yet.
	Sealed []byte
	// Unserved says why no server may use the database; nil if one may. See Transfer.
	Unserved error
	// Calls is how many single calls the database holds; 0 if that is not known.
	Calls int64
}

// The migrations up to lastOfCalls rewrite and count all calls. perMillion is what that took for each million of them on
// two busy cores, on either engine: TestMigrationsTake.
const (
	lastOfCalls = 44
	perMillion  = 2 * time.Minute
)

// Takes returns how long the start of this program will migrate, as an order of magnitude. It is 0 for migrations that
// do not depend on how much there is.
func (in *Inspection) Takes() time.Duration {
	if in.Version == 0 || in.Version >= lastOfCalls || in.Version >= in.Known {
		return 0
	}
	return time.Duration(in.Calls) * perMillion / 1_000_000
}

// Inspect looks at a database without migrating it. It returns an error if the database cannot be
// reached.
func Inspect(ctx context.Context, database, dir string) (Inspection, error) {
	s := &Store{}
	if err := s.connect(database, dir); err != nil {
		return Inspection{}, err
	}
	defer s.Close()
	return s.Inspect(ctx)
}

// Inspect is the function Inspect for a store that is open. Only a database that cannot be reached is an error;
// tables that are missing are a finding.
func (s *Store) Inspect(ctx context.Context) (Inspection, error) {
	// Connecting is lazy, so ask the database for a sign of life.
	in := Inspection{Engine: s.engine, Known: Newest()}
	if err := s.read.ping(ctx); err != nil {
		return in, Clean(err)
	}
	err := s.read.scan(ctx, "SELECT MAX(version_id) FROM goose_db_version", &in.Version)
	if err != nil {
		in.Version = 0 // there is no such table: nothing has been set up
	}
	in.Sealed, _ = s.Sealed(ctx) // the table may be missing, too
	if in.Version < in.Known {
		if s.read.scan(ctx, `SELECT COUNT(*) FROM settlements`, &in.Calls) != nil {
			in.Calls = 0
		}
	}
	if moves, err := s.transfers(ctx); err == nil {
		in.Unserved = unserved(s.engine, moves)
	}
	return in, nil
}

// emailIndex is the number of the migration that is not the same on both engines.
const emailIndex = 25

// indexEmails returns the migration that adds an index which finds addresses by how they begin. On SQLite the unique
// index does that: it compares bytes. On PostgreSQL it compares as the database's language does, which may ignore dots
// and the at sign.
func indexEmails(engine Engine) *goose.Migration {
	up := &goose.GoFunc{Mode: goose.TransactionEnabled}
	if engine == Postgres {
		up.RunTx = func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `CREATE INDEX accounts_by_email_bytes ON accounts (email COLLATE "C")`)
			return err
		}
	}
	return goose.NewGoMigration(emailIndex, up, nil)
}

// migrator returns goose for this database. It keeps the versions in a table of its own, goose_db_version.
func (s *Store) migrator() (*goose.Provider, error) {
	dialect := goose.DialectSQLite3
	if s.engine == Postgres {
		dialect = goose.DialectPostgres
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return s.write.migrator(dialect, files, goose.WithGoMigrations(indexEmails(s.engine)), goose.WithDisableGlobalRegistry(true))
}

// Migration says how far the migrations of a database are.
type Migration struct {
	Version  int64         // that is being applied; 0 if another node is at work
	Step, Of int           // which of those that were missing; 0 if another node is at work
	Took     time.Duration // since it began
}

// String describes it for people.
func (m Migration) String() string {
	took := m.Took.Round(time.Second)
	if m.Of == 0 {
		return fmt.Sprintf("waiting for another node that migrates the database, for %s", took)
	}
	return fmt.Sprintf("migrating the database to version %d, step %d of %d, for %s", m.Version, m.Step, m.Of, took)
}

// News reports whether a log needs to say it. Most steps take no time; the first one says that there are some.
func (m Migration) News() bool { return m.Step <= 1 || m.Took > 0 }

// tellEvery is how often a migration that takes long is reported.
const tellEvery = 10 * time.Second

// reporting runs work, and reports it when it begins and every ten seconds.
// No report is made after it has returned.
func (s *Store) reporting(m Migration, work func() error) error {
	if s.report == nil {
		return work()
	}
	began := time.Now()
	s.report(m)
	ctx, stop := context.WithCancel(context.Background())
	var telling sync.WaitGroup
	telling.Go(func() {
		for range pace.Every(ctx, tellEvery) {
			m.Took = time.Since(began)
			s.report(m)
		}
	})
	defer telling.Wait()
	defer stop()
	return work()
}

// migrate applies the missing migrations. A database with migrations that this program does not have is
// refused, because an old program could damage data that it does not understand.
func (s *Store) migrate(ctx context.Context) error {
	return s.Long(ctx, s.bringUpToDate) // which may wait for another node that migrates
}

// bringUpToDate is migrate with a context that ends when the database does not answer any more.
func (s *Store) bringUpToDate(ctx context.Context) error {
	s.known = Newest()
	m, err := s.migrator()
	if err != nil {
		return err
	}
	have, err := s.applied(ctx, m)
	if err != nil {
		return fmt.Errorf("open the %s database: %w", s.engine, Clean(err))
	}
	// Most starts find nothing to do, and need not wait for the lock.
	if pending, err := have.missing(s.known); err != nil || len(pending) == 0 {
		return err
	}
	if err := s.apply(ctx, m, s.known); err != nil {
		return fmt.Errorf("migrate the %s database: %w", s.engine, Clean(err))
	}
	return nil
}

// versions are the numbers of the migrations that a database has.
type versions []int64

// applied returns the migrations that the database has. It is also the first statement that reaches the database.
func (s *Store) applied(ctx context.Context, m *goose.Provider) (have versions, err error) {
	// This creates the table of versions if there is none, also if two nodes do it at the same time.
	_, err = m.GetDBVersion(ctx)
	if s.write.note(err); err != nil {
		return nil, err
	}
	err = each(ctx, s.write, func(rows *sql.Rows) error {
		var v int64
		err := rows.Scan(&v)
		have = append(have, v)
		return err
	}, `SELECT DISTINCT version_id FROM goose_db_version WHERE version_id > 0 ORDER BY version_id`)
	return have, err
}

// missing returns the migrations up to a version that a database does not have yet. A database with migrations that this
// program does not know, or without one that it needs, is refused: nobody knows what its tables look like.
//
// The checks come in the order in which their messages help most: a database of a newer program
// would fail the later ones, too.
func (have versions) missing(upTo int64) (pending []int64, err error) {
	last := int64(0)
	if len(have) > 0 {
		last = have[len(have)-1]
	}
	if newest := Newest(); last > newest {
		return nil, fmt.Errorf("the database is at version %d and this program knows versions up to %d: use a newer sluice, such as the one that set it up", last, newest)
	}
	for _, v := range known() {
		if v > upTo || slices.Contains(have, v) {
			continue
		}
		if v < last {
			return nil, fmt.Errorf("the database is at version %d but lacks version %d: restore a backup of it", last, v)
		}
		pending = append(pending, v)
	}
	if strange := slices.DeleteFunc(slices.Clone(have), func(v int64) bool { return slices.Contains(known(), v) }); len(strange) > 0 {
		return nil, fmt.Errorf("the database has migrations that this program does not know (%s): use the sluice that set it up, or a newer one", join(strange))
	}
	return pending, nil
}

// apply applies the missing migrations up to a version. Each is one transaction, so a failed start leaves no half-applied
// one behind. On PostgreSQL nodes that start at the same time do it one after the other; the later ones find nothing left.
// It looks again after it has the lock, because another node may have applied some or all of them
// meanwhile.
func (s *Store) apply(ctx context.Context, m *goose.Provider, upTo int64) error {
	unlock, err := s.lockMigrations(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	have, err := s.applied(ctx, m)
	if err != nil {
		return err
	}
	pending, err := have.missing(upTo)
	if err != nil {
		return err
	}
	// The tables of a new database are no news, and take no time.
	if len(have) == 0 {
		s.report = nil
	}
	for i, v := range pending {
		err := s.reporting(Migration{Version: v, Step: i + 1, Of: len(pending)}, func() error {
			_, err := m.ApplyVersion(ctx, v, true)
			s.write.note(err)
			return err
		})
		if failed, ok := errors.AsType[*goose.PartialError](err); ok {
			err = failed.Err
		}
		if err != nil {
			return fmt.Errorf("version %d: %w", v, err)
		}
	}
	return nil
}

// lockMigrations waits until no other node migrates, for as long as the database answers. SQLite's folder is locked
// already. The lock is held on a connection of its own while all migrations run.
func (s *Store) lockMigrations(ctx context.Context) (unlock func(), err error) {
	if s.engine != Postgres {
		return func() {}, nil
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, uint64(longest/time.Second)))
	if err != nil {
		return nil, err
	}
	conn, err := s.write.conn(ctx)
	if err != nil {
		return nil, err
	}
	// Only a node that has to wait says so.
	var locked bool
	err = conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(lock.DefaultLockID)).Scan(&locked)
	if err == nil && !locked {
		err = s.reporting(Migration{}, func() error { return locker.SessionLock(ctx, conn) })
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usual.call)
		defer cancel()
		_ = locker.SessionUnlock(ctx, conn) // else the end of the session does it
		conn.Close()
	}, nil
}

// refuseOlder returns an error if this program would have to migrate a PostgreSQL that is in use. The
// servers do that when they start; a command must not do it while they run.
func (s *Store) refuseOlder(ctx context.Context) error {
	if s.engine != Postgres {
		return nil
	}
	in, err := s.Inspect(ctx)
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
