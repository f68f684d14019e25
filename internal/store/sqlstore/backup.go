package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sluice/internal/kit/fault"
)

// Backup writes a consistent copy of the database to a new file while the database is in use. It is
// for SQLite only; Snapshot is for both engines.
// A failure leaves no file.
func (s *Store) Backup(ctx context.Context, path string) error {
	if s.engine != SQLite {
		return fault.New(fault.Invalid, "the database is PostgreSQL; see Snapshot")
	}
	// VACUUM INTO accepts an empty file as its target. Creating it here makes it private from the
	// start.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fault.New(fault.Conflict, "%s exists already; name a new file", path)
	}
	if err != nil {
		return fault.New(fault.Invalid, "the backup cannot be written: %v", err)
	}
	defer f.Close()
	if err := s.copyTo(ctx, path); err != nil {
		return errors.Join(fmt.Errorf("write the backup: %w", err), os.Remove(path))
	}
	// The copy was written through another descriptor. Sync flushes the file, whoever wrote it.
	return f.Sync()
}

// copyTo copies the database into the empty file at path.
func (s *Store) copyTo(ctx context.Context, path string) error {
	// Use a separate connection. It reads a snapshot, so no writer has to wait for it.
	// VACUUM INTO writes a new database without the free pages of the old one.
	db, err := sql.Open("sqlite", sqliteDSN(s.path, []string{"busy_timeout(10000)"}))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, `VACUUM INTO $1`, path)
	return err
}

// Restore puts a backup into a folder that has no database yet, after checking that the backup is
// intact.
// Older tables are brought up to date by the next Open.
func Restore(ctx context.Context, backup, dir string) error {
	target := filepath.Join(dir, File)
	if _, err := os.Stat(target); err == nil {
		return fmt.Errorf("%s holds a database already; restore into an empty folder with --data", dir)
	}
	// SQLite would replay a leftover write-ahead log into the restored database.
	if _, err := os.Stat(target + "-wal"); err == nil {
		return fmt.Errorf("%s holds leftovers of another database; move %s away, or restore into an empty folder with --data", dir, File+"-wal")
	}
	// Copy to a temporary name, check the copy, and rename, so that a failure leaves no database
	// behind.
	aside := target + ".restoring"
	defer os.Remove(aside)
	if err := copyFile(backup, aside); err != nil {
		return err
	}
	if err := checkFile(ctx, aside); err != nil {
		return err
	}
	return os.Rename(aside, target)
}

// copyFile copies a file to a private file and flushes it to disk.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("copy the backup: %w", err)
	}
	return errors.Join(out.Sync(), out.Close())
}

// checkFile returns an error if the file is not an intact database of this program.
func checkFile(ctx context.Context, path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	db, err := sql.Open("sqlite", backupDSN(path)) // the check changes nothing
	if err != nil {
		return err
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check`).Scan(&verdict); err != nil || verdict != "ok" {
		return errors.New("the backup is damaged, or is not a backup of sluice")
	}
	// A sound database without our tables is not a backup, either.
	var accounts int
	if err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM accounts`).Scan(&accounts); err != nil {
		return errors.New("the file is not a backup of sluice")
	}
	return nil
}
