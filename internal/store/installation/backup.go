package installation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/datadir"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/video"
)

// A backup is a folder:
//
//	manifest.json  what the backup holds, with checksums; written last
//	sluice.db      the database as SQLite, whichever engine it came from
//	journal/       what the journal held when the backup began
//	files/         the files of videos, if they were copied
//
// The journal is copied before the database is read. So a settlement that was recorded before the backup
// began is in one of the two, or in both: the database stores each once.
const (
	manifestFile = "manifest.json"
	filesFolder  = "files"
	// partial is the suffix of a backup that is being written. A backup has its name when it is complete.
	partial = ".partial"
	// manifestFormat is the format of the folder. A program refuses those that it does not know.
	manifestFormat = 1
	maxManifest    = 16 << 20
)

// Manifest is what a backup holds.
type Manifest struct {
	Format        int                 `json:"format"`
	MadeAt        time.Time           `json:"made_at"`
	Sluice        string              `json:"sluice"` // the version that made it
	Engine        string              `json:"engine"` // of the database that was copied
	TablesVersion int64               `json:"tables_version"`
	Tables        []sqlstore.TableSum `json:"tables"`
	Rows          int64               `json:"rows"`
	Books         sqlstore.Totals     `json:"books"`
	Journal       usage.Copied        `json:"journal"`
	Videos        BackedVideos        `json:"videos"`
	Secret        SecretPlace         `json:"secret"`
	Files         []BackedFile        `json:"files"` // of this folder, without the videos, whose checksums the database has
}

// BackedVideos is what became of the videos.
type BackedVideos struct {
	Copied bool        `json:"copied"`
	Place  string      `json:"place"` // the storage that they are in, or were
	Count  int         `json:"count"`
	Bytes  int64       `json:"bytes"`
	Copy   *MovedFiles `json:"copy,omitempty"`
}

// SecretPlace names the secret that opens what is sealed in a backup. The secret itself is never part of it.
type SecretPlace struct {
	KeyFile    string `json:"key_file,omitempty"` // empty if the secret is configured
	Configured bool   `json:"configured"`
}

// BackedFile is a file of a backup.
type BackedFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Backup copies an installation to a new folder while its servers work.
//
// The order of its steps is what makes it consistent: the journal, then the database, then the
// files of videos that this database knows.
type Backup struct {
	To       string // the folder; it must not exist
	Database string // "sqlite" or the address of a PostgreSQL
	Data     string // the data folder
	Secret   string // the configured secret; empty if it is in the key file
	Journal  Journal
	// Videos opens the storage of videos, and Place is what to call it. The files are copied if CopyVideos is set.
	// Otherwise the backup only refers to them.
	Videos     func() (Files, error)
	Place      string
	CopyVideos bool
	Report     Report
}

// Journal is the journal of a running server, or of this process if none runs.
// A server that runs is asked through its admin socket, because the journal is open in its
// process.
type Journal interface {
	// Parts settles what is in the journal, and returns its files.
	Parts(ctx context.Context) ([]usage.Part, error)
	// Read returns up to a number of bytes of a file from an offset. The error wraps fs.ErrNotExist if the file is gone.
	Read(ctx context.Context, name string, offset, most int64) ([]byte, error)
}

// copyJournal writes what the journal holds into a new folder. A file that is deleted meanwhile is left out: the
// database, which is read later, has had all of it for long.
func copyJournal(ctx context.Context, j Journal, folder string) (out usage.Copied, err error) {
	parts, err := j.Parts(ctx)
	if err != nil {
		return out, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return out, err
	}
	for _, p := range parts {
		path := filepath.Join(folder, filepath.Base(p.Name))
		err := copyPart(ctx, j, &p, path)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(path)
		} else if err == nil {
			out.Files, out.Records, out.Last = out.Files+1, out.Records+p.Records, max(out.Last, p.Last)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// copyPart writes a file of the journal.
// The journal may grow while it is read; only the bytes that Parts has named are copied.
func copyPart(ctx context.Context, j Journal, p *usage.Part, to string) (err error) {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for at := int64(0); at < p.Bytes; {
		piece, err := j.Read(ctx, p.Name, at, p.Bytes-at)
		if err != nil {
			return err
		}
		if len(piece) == 0 {
			return fmt.Errorf("%s is shorter than it was", p.Name)
		}
		if _, err := f.Write(piece); err != nil {
			return err
		}
		at += int64(len(piece))
	}
	return f.Sync()
}

// Report is called with each step as it begins, and often with how far it is. It may be nil.
type Report func(step string, p sqlstore.Progress)

// of returns what reports how far a step is.
func (r Report) of(step string) func(sqlstore.Progress) {
	if r == nil {
		return func(sqlstore.Progress) {}
	}
	return func(p sqlstore.Progress) { r(step, p) }
}

// begin reports that a step begins.
func (r Report) begin(step string) { r.of(step)(sqlstore.Progress{}) }

// Run makes the backup. It leaves nothing behind if it fails.
//
// The folder gets its final name at the very end. A folder without the suffix is therefore
// complete.
func (b *Backup) Run(ctx context.Context) (_ *Manifest, err error) {
	if _, err := os.Lstat(b.To); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s exists already; name a new folder", b.To)
	}
	folder := b.To + partial
	if err := os.Mkdir(folder, 0o700); errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists: another backup is being written there, or was interrupted; delete it, or name another folder", folder)
	} else if err != nil {
		return nil, fmt.Errorf("the backup cannot be written: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	m := &Manifest{Format: manifestFormat, MadeAt: time.Now().UTC().Truncate(time.Second), Sluice: buildinfo.Version()}
	if err := b.fill(ctx, folder, m); err != nil {
		return nil, err
	}
	if err := m.store(folder); err != nil {
		return nil, fmt.Errorf("write the backup: %w", err)
	}
	return m, os.Rename(folder, b.To)
}

// fill writes everything but the manifest.
// The manifest is filled on the way.
func (b *Backup) fill(ctx context.Context, folder string, m *Manifest) (err error) {
	b.Report.begin("settling and copying the journal")
	if m.Journal, err = copyJournal(ctx, b.Journal, filepath.Join(folder, JournalFolder)); err != nil {
		return fmt.Errorf("copy the journal: %w", err)
	}
	source, err := sqlstore.ReadDatabase(ctx, b.Database, b.Data)
	if err != nil {
		return err
	}
	m.Engine = string(source.Engine())
	copying := b.Report.of("copying the database")
	copying(sqlstore.Progress{})
	path := filepath.Join(folder, sqlstore.File)
	err = source.Snapshot(ctx, path, filepath.Join(folder, "work"), copying)
	if err := errors.Join(err, source.Close()); err != nil {
		return err
	}
	// From here on only the copy is read: it is what a restore will have.
	copied, err := sqlstore.OpenBackup(ctx, path)
	if err != nil {
		return err
	}
	defer copied.Close()
	if err := m.describe(ctx, copied, b.Report.of("reading the copy again")); err != nil {
		return err
	}
	if err := b.videos(ctx, folder, copied, &m.Videos); err != nil {
		return err
	}
	if m.Secret.Configured = b.Secret != ""; !m.Secret.Configured {
		m.Secret.KeyFile = filepath.Join(b.Data, datadir.SecretFile)
	}
	m.Files, err = listFiles(folder)
	return err
}

// describe adds what the copy of the database holds.
func (m *Manifest) describe(ctx context.Context, copied *sqlstore.Store, report func(sqlstore.Progress)) error {
	in, err := copied.Inspect(ctx)
	if err != nil {
		return err
	}
	m.TablesVersion = in.Version
	if m.Tables, err = copied.Digests(ctx, report); err != nil {
		return err
	}
	for _, t := range m.Tables {
		m.Rows += t.Rows
	}
	m.Books, err = copied.Totals(ctx)
	return err
}

// videos copies the files of the videos that the copy of the database knows, or counts them. A file is stored
// before its job is finished, so those of all jobs in the copy are there, unless they were deleted since.
func (b *Backup) videos(ctx context.Context, folder string, copied *sqlstore.Store, out *BackedVideos) (err error) {
	out.Place, out.Copied = b.Place, b.CopyVideos
	if out.Count, out.Bytes, err = countVideos(ctx, copied); err != nil || !b.CopyVideos || out.Count == 0 {
		return err
	}
	files, err := b.Videos()
	if err != nil {
		return err
	}
	out.Copy = &MovedFiles{}
	return out.Copy.all(ctx, copied, files, folderFiles(filepath.Join(folder, filesFolder)), out.Count, b.Report)
}

// all copies the file of every video that the store knows.
func (f *MovedFiles) all(ctx context.Context, store *sqlstore.Store, from source, to target, count int, report Report) error {
	done, of := int64(0), int64(count)
	return eachVideo(ctx, store, func(j *video.Job) error {
		report.of("copying files")(sqlstore.Progress{Table: "files", Rows: done, Of: of, AllRows: done, AllOf: of})
		done++
		return f.add(ctx, from, to, j)
	})
}

// listFiles returns the files of a backup with their checksums.
func listFiles(folder string) (list []BackedFile, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		switch {
		case err != nil:
			return err
		case e.IsDir() && name == filesFolder:
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		size, sum, err := sumFile(path)
		list = append(list, BackedFile{filepath.ToSlash(name), size, sum})
		return err
	})
	return list, err
}

// sumFile returns the size and the SHA-256 of a file.
func sumFile(path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return size, hex.EncodeToString(h.Sum(nil)), err
}

// store writes the manifest and flushes it.
func (m *Manifest) store(folder string) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(folder, manifestFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// readManifest reads the manifest of a backup.
// It is bounded, since a backup may come from anywhere.
func readManifest(folder string) (*Manifest, error) {
	f, err := os.Open(filepath.Join(folder, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a backup of sluice: it has no %s", folder, manifestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	m := &Manifest{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("the backup is damaged: %s: %w", manifestFile, err)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("the backup has format %d and this program knows format %d: use a newer sluice", m.Format, manifestFormat)
	}
	return m, nil
}
