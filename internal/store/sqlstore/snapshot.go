package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ReadDatabase opens a database for reading, while servers may be using it. It must be at the version of this
// program, and complete.
func ReadDatabase(ctx context.Context, database, dir string) (*Store, error) {
	if database == "sqlite" {
		return openExisting(ctx, dir, (*Store).refuseOther, (*Store).refuseTransfer)
	}
	return open(ctx, database, dir, (*Store).refuseOther, (*Store).refuseTransfer)
}

// Snapshot writes all data as of one moment to a new SQLite file, while the database is in use. On
// PostgreSQL that takes a folder, work, which is removed again. report may be nil. A failure may leave a part of the file.
//
// A backup is SQLite on both engines, so that it can be restored on either.
func (s *Store) Snapshot(ctx context.Context, path, work string, report func(Progress)) (err error) {
	if s.engine == SQLite {
		return s.backUp(ctx, path)
	}
	if report == nil {
		report = func(Progress) {}
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	to, err := open(ctx, "sqlite", work, (*Store).migrate)
	if err != nil {
		return err
	}
	err = s.Long(ctx, func(ctx context.Context) error { return s.copyInto(ctx, to, report) })
	if err != nil {
		return errors.Join(fmt.Errorf("copy from PostgreSQL: %w", err), to.Close())
	}
	return errors.Join(to.backUp(ctx, path), to.Close()) // one file, without the write-ahead log
}

// copyInto copies every table of a PostgreSQL into an empty SQLite, as of one moment.
// One read-only transaction that repeats its reads sees all tables as of its first statement,
// however long it takes.
func (s *Store) copyInto(ctx context.Context, to *Store, report func(Progress)) error {
	// Rows arrive table by table, so references are checked at the end. The pragma counts outside of
	// transactions only, and for one connection.
	write, err := to.write.conn(ctx)
	if err != nil {
		return err
	}
	defer write.Close()
	if _, err := write.ExecContext(ctx, `PRAGMA foreign_keys = OFF`); err != nil {
		return err
	}
	err = s.native(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(pgx.Tx) error {
			done := int64(0)
			for i, name := range copied {
				// To count the rows of a large PostgreSQL first takes minutes.
				c := &counter{Progress{Table: name, Number: i + 1, Tables: len(copied)}, report, done}
				if err := s.copyOut(ctx, conn, to, write, name, c); err != nil {
					return fmt.Errorf("table %s: %w", name, err)
				}
				done += c.Rows
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	var table string
	err = write.QueryRowContext(ctx, `SELECT "table" FROM pragma_foreign_key_check LIMIT 1`).Scan(&table)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("rows of the table %s refer to rows that do not exist", table))
}

// copyOut copies one table in one transaction of the target.
func (s *Store) copyOut(ctx context.Context, conn *pgx.Conn, to *Store, write *sql.Conn, name string, c *counter) error {
	t, err := to.columns(ctx, name)
	if err != nil {
		return err
	}
	tx, err := write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()                                                   // does nothing after Commit
	if _, err := tx.ExecContext(ctx, `DELETE FROM `+t.name); err != nil { // migrations fill some
		return err
	}
	insert, err := tx.PrepareContext(ctx, Insert(t.name, strings.Join(t.columns, ", ")))
	if err != nil {
		return err
	}
	defer insert.Close()
	for r, err := range readAhead(postgresRows(ctx, conn, t, false)) {
		if err != nil {
			return err
		}
		if _, err := insert.ExecContext(ctx, r...); err != nil {
			return err
		}
		c.step()
	}
	c.tell()
	return tx.Commit()
}

// OpenBackup opens a file that Snapshot wrote, to look at it. The file is not changed, and nothing is put beside
// it.
func OpenBackup(ctx context.Context, path string) (*Store, error) {
	if err := checkFile(ctx, path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", backupDSN(path))
	if err != nil {
		return nil, err
	}
	s := &Store{engine: SQLite, path: path, patience: usual}
	s.read = s.newPool(db, 4, 1)
	s.write, s.vital = s.read, s.read
	return s, nil
}

// backupDSN returns the data source name of a file that nobody writes to.
func backupDSN(path string) string {
	return sqliteDSN(path, []string{"query_only(1)"}, "mode=ro", "immutable=1")
}

// TableSum is how many rows a table has, and a checksum of them.
type TableSum struct {
	Table    string `json:"table"`
	Rows     int64  `json:"rows"`
	Checksum string `json:"checksum"`
}

// Digests counts the rows of every table of a SQLite database and adds them up to checksums. Tables that an
// older version does not have are left out.
func (s *Store) Digests(ctx context.Context, report func(Progress)) (all []TableSum, err error) {
	err = s.Long(ctx, func(ctx context.Context) error {
		sizes, err := s.Sizes(ctx)
		if err != nil {
			return err
		}
		return walk(sizes, report, func(_ int, c *counter) error {
			t, err := s.columns(ctx, c.Table)
			if err != nil {
				return err
			}
			t.key = nil      // a key is only mended for the checksum, and stays what it is
			var mended int64 // a checksum of what PostgreSQL would store: the same on both engines
			d := &digest{}
			err = d.readAll(s.sqliteRows(ctx, t, false, &mended), c.step)
			all = append(all, TableSum{c.Table, d.rows, d.String()})
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// HasAccounts reports whether the database has any account. A database without one was just created.
func (s *Store) HasAccounts(ctx context.Context) (bool, error) {
	return Value[bool](s.Read(ctx), `SELECT EXISTS (SELECT 1 FROM accounts)`)
}

// restoreAdvice says what to do with a SQLite database that cannot be used any more.
func restoreAdvice(path string) string {
	dir := filepath.Dir(path)
	return fmt.Sprintf("keep a copy of %s, then move %s, and those of the same name with -wal and -shm, away and put the last backup in their place with \"sluice restore BACKUP --data %s\"; "+
		"the next start settles again what the journal in that folder holds", dir, File, dir)
}
