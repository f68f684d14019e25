package installation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/calls"
	"sluice/internal/video"
	"sluice/internal/video/blob"
)

// Checked is what Check found in a backup.
type Checked struct {
	Manifest *Manifest       `json:"manifest,omitempty"` // nil if the backup is a single file
	Rows     int64           `json:"rows"`
	Journal  *usage.Replayed `json:"journal,omitempty"`
	Videos   int             `json:"videos"` // that are there
	// Problems are what is wrong; a backup that has any is not restored. At most mostProblems are listed.
	Problems []string `json:"problems"`
	// Notes are what to know before a restore.
	Notes []string `json:"notes"`
}

// mostProblems bounds the list of problems.
const mostProblems = 100

// problem adds a problem.
func (c *Checked) problem(format string, args ...any) {
	if len(c.Problems) < mostProblems {
		c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
	}
}

// Check reads a whole backup, compares it with what its manifest says, and changes nothing.
func (r *Restore) Check(ctx context.Context) (*Checked, error) {
	b, err := openBackup(r.From)
	if err != nil {
		return nil, err
	}
	return r.check(ctx, b)
}

// check is Check for a backup that was opened. What is wrong with the backup becomes a problem;
// only what keeps it from being read at all is an error.
func (r *Restore) check(ctx context.Context, b *backup) (*Checked, error) {
	c := &Checked{Manifest: b.manifest, Problems: []string{}, Notes: []string{}}
	if b.manifest != nil {
		r.Report.begin("checking the files of the backup")
		c.files(b)
	}
	if len(c.Problems) > 0 {
		return c, nil // the rest would only repeat it
	}
	r.Report.begin("checking the database")
	store, err := sqlstore.OpenBackup(ctx, b.database)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	for _, step := range []func() error{
		func() error { return c.tables(ctx, store, b.manifest, r.Report) },
		func() error { return c.journal(ctx, store, b) },
		func() error { return c.videos(ctx, store, b, r) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	note, err := r.secretNote(ctx, store)
	if note != "" {
		c.Notes = append(c.Notes, note)
	}
	return c, err
}

// files compares the files with the checksums in the manifest.
func (c *Checked) files(b *backup) {
	for _, f := range b.manifest.Files {
		size, sum, err := sumFile(filepath.Join(b.folder, filepath.FromSlash(f.Name)))
		switch {
		case err != nil:
			c.problem("%s cannot be read: %v", f.Name, err)
		case size != f.Size:
			c.problem("%s has %d bytes, and had %d when the backup was made", f.Name, size, f.Size)
		case sum != f.SHA256:
			c.problem("%s is not what it was when the backup was made: its checksum differs", f.Name)
		}
	}
}

// tables compares every table with the manifest.
func (c *Checked) tables(ctx context.Context, store *sqlstore.Store, m *Manifest, report Report) error {
	in, err := store.Inspect(ctx)
	if err != nil {
		return err
	}
	if in.Version > in.Known {
		c.problem("the database is at version %d and this program knows versions up to %d: use a newer sluice", in.Version, in.Known)
		return nil
	}
	all, err := store.Digests(ctx, report.of("reading every row"))
	if err != nil {
		return err
	}
	for i, t := range all {
		c.Rows += t.Rows
		if m != nil && (i >= len(m.Tables) || m.Tables[i] != t) {
			c.problem("the table %s is not what the manifest says", t.Table)
		}
	}
	if m != nil && len(m.Tables) != len(all) {
		c.problem("the manifest has %d tables, and the database %d", len(m.Tables), len(all))
	}
	return nil
}

// journal reads the journal.
// A dry run reads every record and writes nothing.
func (c *Checked) journal(ctx context.Context, store *sqlstore.Store, b *backup) error {
	if b.manifest == nil || b.manifest.Journal.Files == 0 {
		return nil
	}
	replayed, err := usage.Replay(ctx, filepath.Join(b.folder, JournalFolder), calls.New(store), &usage.ReplayOptions{Dry: true, KnownOnly: true})
	if err != nil {
		return err
	}
	c.Journal = &replayed
	if len(replayed.Damaged) > 0 || replayed.Records != b.manifest.Journal.Records {
		c.problem("the journal has %d records and %d damaged files, and had %d records when the backup was made", replayed.Records, len(replayed.Damaged), b.manifest.Journal.Records)
	}
	return nil
}

// videos looks for the file of every video: in the backup if it has them, or else where the configuration says.
//
// Only what is worse than when the backup was made is a problem: a file that was missing then cannot be recovered now.
func (c *Checked) videos(ctx context.Context, store *sqlstore.Store, b *backup, r *Restore) error {
	count, _, err := countVideos(ctx, store)
	if err != nil || count == 0 {
		return err
	}
	copied := b.manifest != nil && b.manifest.Videos.Copied
	where, from := "the backup", source(folderFiles(filepath.Join(b.folder, filesFolder)))
	if !copied {
		where = "the storage of the configuration"
		if from, err = r.Videos(); err != nil {
			return err
		}
	}
	wrong := &MovedFiles{}
	done := int64(0)
	err = eachVideo(ctx, store, func(j *video.Job) error {
		r.Report.of("checking videos")(sqlstore.Progress{Table: "videos", Rows: done, Of: int64(count), AllRows: done, AllOf: int64(count)})
		done++
		return wrong.verify(ctx, from, j, copied)
	})
	if err != nil {
		return err
	}
	c.Videos = count - wrong.MissingCount - len(wrong.Damaged)
	known := &MovedFiles{} // what was wrong when the backup was made
	if copied && b.manifest.Videos.Copy != nil {
		known = b.manifest.Videos.Copy
	}
	if n := wrong.MissingCount; n > known.MissingCount {
		c.problem("the files of %d videos are not in %s, such as that of %s", n, where, wrong.Missing[0])
	} else if n > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("The files of %d videos were missing already when the backup was made.", n))
	}
	if n := len(wrong.Damaged); n > len(known.Damaged) {
		c.problem("the files of %d videos in %s are not what was stored, such as that of %s", n, where, wrong.Damaged[0])
	} else if n > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("The files of %d videos were damaged already when the backup was made.", n))
	}
	return nil
}

// verify looks at the file of one video. Where it would be read over the network, its size is enough: a file appears
// there as a whole or not at all.
func (f *MovedFiles) verify(ctx context.Context, from source, j *video.Job, whole bool) error {
	ctx, cancel := context.WithTimeout(ctx, filePatience)
	defer cancel()
	in, err := from.Open(ctx, j.File())
	if errors.Is(err, blob.ErrNotExist) {
		f.missing(j)
		return nil
	}
	if err != nil {
		return fmt.Errorf("the file of video %s: %w", j.ID, err)
	}
	defer in.Close()
	h := sha256.New()
	size := int64(0)
	if whole {
		size, err = io.Copy(h, in)
	} else {
		size, err = in.Seek(0, io.SeekEnd)
	}
	if errors.Is(err, blob.ErrNotExist) { // an object store notices only now
		f.missing(j)
		return nil
	}
	if err != nil {
		return fmt.Errorf("the file of video %s: %w", j.ID, err)
	}
	if size != j.Size || whole && hex.EncodeToString(h.Sum(nil)) != j.SHA256 {
		if len(f.Damaged) < mostNamed {
			f.Damaged = append(f.Damaged, j.ID)
		}
	}
	return nil
}

// missing counts a video without a file.
func (f *MovedFiles) missing(j *video.Job) {
	if f.MissingCount++; len(f.Missing) < mostNamed {
		f.Missing = append(f.Missing, j.ID)
	}
}
