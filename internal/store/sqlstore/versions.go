package sqlstore

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/internal/kit/order"
)

// The migrations run on both engines, all but one (see indexEmails) as the same text. They are numbered and forward only; an applied one never
// changes. From number 18 on they only add, so that the program of the version before works on the
// new tables, too; see CONTRIBUTING.md.
//
// The command pack puts the files of the folder migrations into one: run go generate after you add one.
//
//go:generate go run sluice/internal/store/sqlstore/pack
//go:embed migrations.gz
var packed []byte

// migrationTexts returns the name and the text of each migration, by turns.
var migrationTexts = sync.OnceValue(func() []string {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err) // the file is part of the program
	}
	text, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
})

// Newest returns the number of the newest migration that this program has.
func Newest() int64 {
	all := migrations()
	return all[len(all)-1].version
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
	return s.inspect(ctx)
}

func (s *Store) inspect(ctx context.Context) (Inspection, error) {
	// Connecting is lazy, so ask the database for a sign of life.
	in := Inspection{Engine: s.engine, Known: Newest()}
	if err := s.read.ping(ctx); err != nil {
		return in, Clean(err)
	}
	err := s.read.QueryRowContext(ctx, "SELECT MAX(version_id) FROM goose_db_version").Scan(&in.Version)
	if err != nil {
		in.Version = 0 // there is no such table: nothing has been set up
	}
	in.Sealed, _ = s.Sealed(ctx) // the table may be missing, too
	if in.Version < in.Known {
		if s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM settlements`).Scan(&in.Calls) != nil {
			in.Calls = 0
		}
	}
	if moves, err := s.transfers(ctx); err == nil {
		in.Unserved = unserved(s.engine, moves)
	}
	return in, nil
}

// migration is one step from one version of the tables to the next.
type migration struct {
	version int64
	run     func(ctx context.Context, s *Store, tx *sql.Tx) error
}

// migrations returns all migrations in their order.
func migrations() []migration {
	texts := migrationTexts()
	all := make([]migration, 0, len(texts)/2+1)
	for i := 0; i+1 < len(texts); i += 2 {
		number, _, _ := strings.Cut(texts[i], "_")
		version, _ := strconv.ParseInt(number, 10, 64) // TestMigrationsAreNumbered reads them all
		all = append(all, migration{version, func(ctx context.Context, _ *Store, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, texts[i+1])
			return err
		}})
	}
	all = append(all, migration{emailIndex, indexEmails})
	order.By(all, func(a, b migration) int { return int(a.version - b.version) })
	return all
}

// emailIndex is the number of the migration that is not the same on both engines.
const emailIndex = 25

// indexEmails adds an index that finds addresses by how they begin. On SQLite the unique index does that: it compares
// bytes. On PostgreSQL it compares as the database's language does, which may ignore dots and the at sign.
func indexEmails(ctx context.Context, s *Store, tx *sql.Tx) error {
	if s.engine == SQLite {
		return nil
	}
	_, err := tx.ExecContext(ctx, `CREATE INDEX accounts_by_email_bytes ON accounts (email COLLATE "C")`)
	return err
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

// tellEvery is how often a migration that takes long is told of.
const tellEvery = 10 * time.Second

// reporting runs work, and tells of it when it begins and every ten seconds.
func (s *Store) reporting(m Migration, work func() error) error {
	if s.report == nil {
		return work()
	}
	began, done, told := time.Now(), make(chan struct{}), make(chan struct{})
	s.report(m)
	go func() {
		defer close(told)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				m.Took = time.Since(began)
				s.report(m)
			}
		}
	}()
	defer func() { close(done); <-told }()
	return work()
}

// migrate applies the missing migrations. A database with migrations that this program does not have is
// refused, because an old program could damage data that it does not understand.
func (s *Store) migrate(ctx context.Context) error {
	return s.long(ctx, s.bringUpToDate) // which may wait for another node that migrates
}

// bringUpToDate is migrate with a context that ends when the database does not answer any more.
func (s *Store) bringUpToDate(ctx context.Context) error {
	s.known = Newest()
	have, err := s.applied(ctx)
	if err != nil {
		return fmt.Errorf("open the %s database: %w", s.engine, Clean(err))
	}
	// Most starts find nothing to do, and need not wait for the lock.
	if pending, err := have.missing(s.known); err != nil || len(pending) == 0 {
		return err
	}
	if err := s.apply(ctx, s.known); err != nil {
		return fmt.Errorf("migrate the %s database: %w", s.engine, Clean(err))
	}
	return nil
}

// versions are the numbers of the migrations that a database has.
type versions []int64

// applied returns the migrations that the database has. It is also the first statement that reaches the database.
func (s *Store) applied(ctx context.Context) (have versions, err error) {
	if err := s.createVersions(ctx); err != nil {
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

// createVersions creates the table of versions if there is none. Its name and its row 0 are those of goose, which early
// versions used.
func (s *Store) createVersions(ctx context.Context) error {
	id, truth, now := "INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER", "(datetime('now'))"
	if s.engine == Postgres {
		id, truth, now = "integer PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY", "boolean", "now()"
		// CREATE TABLE IF NOT EXISTS may fail on PostgreSQL if two nodes run it at the same time.
		var there bool
		if err := s.write.QueryRowContext(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&there); err != nil || there {
			return err
		}
	}
	return s.write.tx(ctx, s.patience.call, nil, func(ctx context.Context, tx *sql.Tx) error {
		if s.engine == Postgres {
			if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(`+strconv.Itoa(versionsLock)+`)`); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS goose_db_version (id `+id+`, version_id BIGINT NOT NULL, is_applied `+truth+` NOT NULL, tstamp TIMESTAMP NOT NULL DEFAULT `+now+`);
			INSERT INTO goose_db_version (version_id, is_applied) SELECT 0, TRUE WHERE NOT EXISTS (SELECT 1 FROM goose_db_version)`)
		return err
	})
}

// The advisory locks of PostgreSQL. That of the migrations is goose's, so that a node of an early version waits, too.
const (
	migrationsLock = 4097083626
	versionsLock   = 4097083627
)

// missing returns the migrations up to a version that a database does not have yet. A database with migrations that this
// program does not know, or without one that it needs, is refused: nobody knows what its tables look like.
func (have versions) missing(upTo int64) (pending []migration, err error) {
	known, last := map[int64]bool{}, int64(0)
	if len(have) > 0 {
		last = have[len(have)-1]
	}
	if newest := Newest(); last > newest {
		return nil, fmt.Errorf("the database is at version %d and this program knows versions up to %d: use a newer sluice, such as the one that set it up", last, newest)
	}
	for _, m := range migrations() {
		known[m.version] = true
		if m.version > upTo || slices.Contains(have, m.version) {
			continue
		}
		if m.version < last {
			return nil, fmt.Errorf("the database is at version %d but lacks version %d: restore a backup of it", last, m.version)
		}
		pending = append(pending, m)
	}
	if strange := slices.DeleteFunc(slices.Clone(have), func(v int64) bool { return known[v] }); len(strange) > 0 {
		return nil, fmt.Errorf("the database has migrations that this program does not know (%s): use the sluice that set it up, or a newer one", join(strange))
	}
	return pending, nil
}

// apply applies the missing migrations up to a version. Each is one transaction, so a failed start leaves no half-applied
// one behind. On PostgreSQL nodes that start at the same time do it one after the other; the later ones find nothing left.
func (s *Store) apply(ctx context.Context, upTo int64) error {
	unlock, err := s.lockMigrations(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	have, err := s.applied(ctx)
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
	for i, m := range pending {
		err := s.reporting(Migration{Version: m.version, Step: i + 1, Of: len(pending)}, func() error {
			return s.write.tx(ctx, s.patience.call, nil, func(ctx context.Context, tx *sql.Tx) error {
				if err := m.run(ctx, s, tx); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)`, m.version, true)
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("version %d: %w", m.version, err)
		}
	}
	return nil
}

// lockMigrations waits until no other node migrates, for as long as the database answers. SQLite's folder is locked
// already.
func (s *Store) lockMigrations(ctx context.Context) (unlock func(), err error) {
	if s.engine != Postgres {
		return func() {}, nil
	}
	conn, err := s.write.conn(ctx)
	if err != nil {
		return nil, err
	}
	try := func() (locked bool, err error) {
		return locked, conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(migrationsLock)).Scan(&locked)
	}
	locked, err := try()
	if err == nil && !locked {
		err = s.reporting(Migration{}, func() error {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for !locked {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				var err error
				if locked, err = try(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usual.call)
		defer cancel()
		_, _ = conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(migrationsLock)) // else the end of the session does it
		conn.Close()
	}, nil
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
