package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// backUp writes a consistent copy of a SQLite database to a new file while the database is in use.
func (s *Store) backUp(ctx context.Context, path string) error {
	// VACUUM INTO accepts an empty file as its target. Creating it here makes it private from the
	// start.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	// Use a separate connection. It reads a snapshot, so no writer has to wait for it.
	// VACUUM INTO writes a new database without the free pages of the old one.
	db, err := sql.Open("sqlite", sqliteDSN(s.path, []string{"busy_timeout(10000)"}))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err = db.ExecContext(ctx, `VACUUM INTO $1`, path); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	// The copy was written through another descriptor. Sync flushes the file, whoever wrote it.
	return f.Sync()
}

// Restore puts a backup into a folder that has no database yet, and checks that it is intact. If it is not, the caller
// deletes the folder.
// Older tables are brought up to date by the next Open.
func Restore(ctx context.Context, backup, dir string) error {
	target := filepath.Join(dir, File)
	if err := copyFile(backup, target); err != nil {
		return err
	}
	return checkFile(ctx, target)
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
