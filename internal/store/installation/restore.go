package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/kit/datadir"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/calls"
)

// Restore puts a backup into the database and the storage of a configuration, which must not have any data yet.
//
// Everything is restored into a SQLite database beside the target first, whichever engine the
// target has. There the tables are migrated and the journal is settled, before anybody can see
// them.
type Restore struct {
	From     string // the folder of a backup, or a single file with a database, as versions up to 0.1 wrote it
	Database string // "sqlite" or the address of an empty PostgreSQL
	Data     string // the data folder
	Secret   string // the configured secret; empty if it is in the key file
	// Videos opens the storage that the files of videos belong into.
	Videos func() (Files, error)
	Report Report
}

// Restored is the result of a Restore.
type Restored struct {
	Data    string          `json:"data"`
	Engine  sqlstore.Engine `json:"engine"`
	Rows    int64           `json:"rows"`
	Books   sqlstore.Totals `json:"books"`
	Settled int64           `json:"settled_from_journal"`
	Days    int             `json:"account_days_audited"`
	Files   *MovedFiles     `json:"files,omitempty"` // nil: they were not part of the backup
	// Note says what to do before the first start; empty if nothing.
	Note string `json:"note,omitempty"`
}

// backup is a backup that was opened.
type backup struct {
	folder   string    // empty if it is a single file
	database string    // the path of the SQLite file
	manifest *Manifest // nil if it is a single file
}

// openBackup finds out what kind of backup a path is.
func openBackup(path string) (*backup, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	if !info.IsDir() {
		return &backup{database: path}, nil
	}
	m, err := readManifest(path)
	if err != nil {
		return nil, err
	}
	return &backup{folder: path, database: filepath.Join(path, sqlstore.File), manifest: m}, nil
}

// Run checks the backup and restores it. If it fails, the target is as it was, or, on PostgreSQL, is refused by
// servers until the same command has completed it.
// The folder is locked for the whole time, so that no server starts on it.
func (r *Restore) Run(ctx context.Context) (*Restored, error) {
	dir, err := datadir.Open(r.Data)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := r.refuseOccupied(dir); err != nil {
		return nil, err
	}
	b, err := openBackup(r.From)
	if err != nil {
		return nil, err
	}
	checked, err := r.check(ctx, b)
	if err != nil {
		return nil, err
	}
	if len(checked.Problems) > 0 {
		return nil, fmt.Errorf("the backup is damaged or incomplete, and nothing was restored: %s; \"sluice restore --check\" lists all of it", checked.Problems[0])
	}
	return r.run(ctx, dir, b)
}

// refuseOccupied returns an error if there is a SQLite database where one is to be put.
func (r *Restore) refuseOccupied(dir *datadir.Dir) error {
	if r.Database != "sqlite" {
		return nil // Examine looks at a PostgreSQL
	}
	// A -wal file without its database would be applied to the restored one, and damage it.
	for _, name := range []string{sqlstore.File, sqlstore.File + "-wal"} {
		if _, err := os.Lstat(dir.Join(name)); err == nil {
			return fmt.Errorf("%s holds a database already; restore into an empty folder with --data, or move %s and its -wal and -shm away", dir.Path(), sqlstore.File)
		}
	}
	return nil
}

// run restores into a folder beside the target first, which is then the target, or is copied to it.
func (r *Restore) run(ctx context.Context, dir *datadir.Dir, b *backup) (_ *Restored, err error) {
	// Inside the data folder, so that the last step is a rename on the same file system.
	stage, err := os.MkdirTemp(dir.Path(), "restoring-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	r.Report.begin("copying the database")
	if err := sqlstore.Restore(ctx, b.database, stage); err != nil {
		return nil, err
	}
	store, err := sqlstore.OpenSource(ctx, stage) // brings it up to date
	if err != nil {
		return nil, err
	}
	out := &Restored{Data: dir.Path(), Engine: sqlstore.SQLite}
	if err := errors.Join(r.complete(ctx, dir, b, store, out), store.Close()); err != nil {
		return nil, err
	}
	if out.Engine == sqlstore.SQLite {
		if err := os.Rename(filepath.Join(stage, sqlstore.File), dir.Join(sqlstore.File)); err != nil {
			return nil, err
		}
	}
	// A journal that was left in the folder was emptied into another database.
	return out, usage.Rewind(dir.Join(JournalFolder))
}

// complete settles the journal of the backup in the staged database, copies it to PostgreSQL if that is the target,
// and copies the files of videos.
//
// Records of accounts that the database of the backup does not have are left out.
func (r *Restore) complete(ctx context.Context, dir *datadir.Dir, b *backup, store *sqlstore.Store, out *Restored) (err error) {
	if b.manifest != nil && b.manifest.Journal.Files > 0 {
		r.Report.begin("settling the journal")
		replayed, err := usage.Replay(ctx, filepath.Join(b.folder, JournalFolder), calls.New(store), &usage.ReplayOptions{KnownOnly: true})
		if err != nil {
			return fmt.Errorf("settle the journal of the backup: %w", err)
		}
		out.Settled = replayed.New
	}
	if r.Database == "sqlite" {
		out.Note, err = r.secretNote(ctx, store)
	} else {
		err = r.toPostgres(ctx, dir, store, out)
	}
	if err != nil {
		return err
	}
	// The staged database is audited whatever the target is: toPostgres has compared every row.
	if err := out.audit(ctx, store); err != nil {
		return err
	}
	if b.manifest == nil || !b.manifest.Videos.Copied || b.manifest.Videos.Count == 0 {
		return nil
	}
	files, err := r.Videos()
	if err != nil {
		return err
	}
	out.Files = &MovedFiles{}
	return out.Files.all(ctx, store, folderFiles(filepath.Join(b.folder, filesFolder)), files, b.manifest.Videos.Count, r.Report)
}

// toPostgres copies the staged database. Every row is then read again on both sides and compared.
func (r *Restore) toPostgres(ctx context.Context, dir *datadir.Dir, store *sqlstore.Store, out *Restored) error {
	if err := store.UnlockIn(ctx, dir, r.Secret); err != nil {
		return err // the target is marked with what the secret opens
	}
	move, moved := &Move{To: r.Database, Report: r.Report}, &Moved{}
	if err := move.move(ctx, store, moved, true); err != nil {
		return fmt.Errorf("restore to PostgreSQL: %w", err)
	}
	out.Engine = sqlstore.Postgres
	return nil
}

// secretNote says what to do if no secret here opens the database.
func (r *Restore) secretNote(ctx context.Context, store *sqlstore.Store) (string, error) {
	sealed, err := store.Sealed(ctx)
	if err != nil || sealed == nil {
		return "", err
	}
	secrets, err := datadir.ReadSecrets(r.Data, r.Secret)
	if err != nil {
		return "", err
	}
	for _, secret := range secrets.All() {
		if sqlstore.Opens(sealed, secret) {
			return "", nil
		}
	}
	return "The secret that it is sealed under was not found. Before you start the server, " + datadir.SecretAdvice + ".", nil
}

// audit counts what was restored, and checks that the sums agree with the settlements. On PostgreSQL the rows are
// known to be those of the staged database.
func (out *Restored) audit(ctx context.Context, store *sqlstore.Store) error {
	sizes, err := store.Sizes(ctx)
	if err != nil {
		return err
	}
	for _, t := range sizes {
		out.Rows += t.Rows
	}
	if out.Books, err = store.Totals(ctx); err != nil {
		return err
	}
	differences, days, err := calls.New(store).AuditUsage(ctx)
	if err != nil {
		return err
	}
	out.Days = days
	if len(differences) > 0 {
		var what []string
		for _, d := range differences[:min(len(differences), 3)] {
			what = append(what, fmt.Sprintf("%s %s: %s", d.Day.Format("2006-01-02"), d.AccountID, d.What))
		}
		note := fmt.Sprintf("The sums of %d account days do not agree with the settlements, such as %s; they did not when the backup was made. \"sluice audit\" lists them.", len(differences), strings.Join(what, ", "))
		out.Note = strings.TrimSpace(out.Note + " " + note)
	}
	return nil
}
