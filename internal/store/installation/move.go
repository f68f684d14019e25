// Package installation handles whole installations: it moves them from SQLite to PostgreSQL, writes
// backups, and restores them on either engine.
//
// An installation is a database, the journal of settlements that have not reached it, the files of
// videos, and a secret, which is never copied. Whatever is copied is read again at the end and compared.
//
// The rules of what the data means belong to other packages; how rows are copied is in sqlstore.
//
// Start reading with Move.Run, Backup.Run and Restore.Run. Each can be interrupted at any point: a
// target that is not complete is recognized by servers and by the next run.
package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/internal/api/responses"
	"sluice/internal/kit/datadir"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/calls"
	"sluice/internal/store/sqlstore/kept"
)

// lockEvery is how often a migration looks whether the server has stopped.
const lockEvery = 200 * time.Millisecond

// JournalFolder is the folder inside the data folder that holds the journal of settlements.
const JournalFolder = "journal"

// Move is a move of an installation from SQLite to PostgreSQL.
type Move struct {
	From   string // the data folder
	To     string // the address of the PostgreSQL database
	Secret string // the configured secret; empty if it is in the key file
	// Files opens the storage that videos are in and the one that they are copied to. What is on its way to an object
	// store may be put into the folder spool. Nil: the files stay where they are.
	Files func(spool string) (from, to Files, err error)
	// Live copies while a server runs, and again after it has stopped. Patience is how long to wait for that.
	Live     bool
	Patience time.Duration
	Report   Report
}

// Moved is the result of a Move.
type Moved struct {
	// Verified reports that the target was complete before, so nothing was written.
	Verified bool                  `json:"verified_only"`
	Tables   []sqlstore.Comparison `json:"tables"`
	Rows     int64                 `json:"rows"`
	Written  int64                 `json:"rows_written"` // by this run
	Erased   int64                 `json:"rows_erased"`
	Books    sqlstore.Totals       `json:"books"`
	Files    *MovedFiles           `json:"files,omitempty"` // nil: they stayed
	// Mended counts texts with characters that PostgreSQL cannot store; they were replaced.
	Mended int64 `json:"texts_mended"`
	// KeyFile is the file that holds the secret of the installation. It is empty if the secret is configured.
	KeyFile string `json:"key_file,omitempty"`
}

// Plan is what a Move would do.
type Plan struct {
	Tables  []sqlstore.Comparison  `json:"tables"` // only the figures of the source
	Rows    int64                  `json:"rows"`
	Target  sqlstore.TransferState `json:"target"`
	Running bool                   `json:"server_running"`
	Version int64                  `json:"version"` // of the source
	Known   int64                  `json:"known_version"`
	Videos  int                    `json:"videos"`
	Bytes   int64                  `json:"video_bytes"`
	KeyFile string                 `json:"key_file,omitempty"`
}

// Run moves the installation. It may be interrupted and run again.
func (m *Move) Run(ctx context.Context) (*Moved, error) {
	out, err := m.run(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, errInterrupted
	}
	return out, err
}

// run makes both passes, or the last one alone.
// The data folder stays locked until the end, so no server can write to the source during the last
// pass.
func (m *Move) run(ctx context.Context) (*Moved, error) {
	from, err := filepath.Abs(m.From)
	if err != nil {
		return nil, err
	}
	dir, err := m.lock(ctx, from)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	source, err := sqlstore.OpenSource(ctx, dir.Path())
	if err != nil {
		return nil, err
	}
	defer source.Close()
	if err := source.UnlockIn(ctx, dir, m.Secret); err != nil {
		return nil, err
	}
	if err := m.settle(ctx, dir, source); err != nil {
		return nil, err
	}
	out := &Moved{}
	if m.Secret == "" {
		out.KeyFile = dir.Join(datadir.SecretFile)
	}
	return out, m.move(ctx, source, out, true)
}

// errInterrupted says what to do after Ctrl-C. The errors of the two databases would only say that they were interrupted.
var errInterrupted = errors.New("interrupted; what was copied is kept: run the same command again to continue")

// settle moves what the journal holds to the source. After the move was finished it is left alone: a server on
// PostgreSQL may have written it.
func (m *Move) settle(ctx context.Context, dir *datadir.Dir, source *sqlstore.Store) error {
	held, err := sqlstore.Examine(ctx, source, m.To)
	if err != nil || held == sqlstore.Complete {
		return err
	}
	m.Report.begin("settling the journal")
	books := usage.NewBooks(dir.Join(JournalFolder), calls.New(source), nil)
	if err := errors.Join(books.Flush(ctx), books.Close()); err != nil {
		return fmt.Errorf("settle what is in the journal: %w", err)
	}
	return responses.Recover(ctx, responses.JournalIn(dir.Path()), kept.New(source))
}

// lock locks the data folder. While a server holds it, a live migration makes the first pass and then waits for the
// server to stop.
func (m *Move) lock(ctx context.Context, from string) (*datadir.Dir, error) {
	if _, err := os.Stat(filepath.Join(from, sqlstore.File)); err != nil { // opening would create the folder
		return nil, fmt.Errorf("there is no SQLite database in %s: name the data folder of the installation that is to be moved with --from", from)
	}
	dir, err := datadir.Open(from)
	if !errors.Is(err, datadir.ErrLocked) {
		return dir, err
	}
	if !m.Live {
		return nil, fmt.Errorf("%w; stop the server first, or add --live to copy most of it while the server runs", err)
	}
	source, err := readSource(ctx, from, m.Secret)
	if err != nil {
		return nil, err
	}
	err = m.move(ctx, source, &Moved{}, false)
	if err := errors.Join(err, source.Close()); err != nil {
		return nil, err
	}
	m.Report.begin("waiting: stop the server now; the rest is copied when it has ended")
	deadline := time.After(m.Patience)
	for {
		if dir, err := datadir.Open(from); !errors.Is(err, datadir.ErrLocked) {
			return dir, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline:
			return nil, fmt.Errorf("the server still runs after %v: the first pass is kept; stop the server and run the same command again, which copies only what has changed", m.Patience)
		case <-time.After(lockEvery):
		}
	}
}

// readSource opens the database of a running server for reading.
func readSource(ctx context.Context, from, secret string) (*sqlstore.Store, error) {
	source, err := sqlstore.ReadSource(ctx, from)
	if err != nil {
		return nil, err
	}
	secrets, err := datadir.ReadSecrets(from, secret)
	if err == nil {
		err = source.ReadKey(ctx, secrets.All()...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w; %s", err, datadir.SecretAdvice), source.Close())
	}
	return source, nil
}

// move copies everything. The last pass, for which the source is at rest, also compares both sides and finishes.
//
// Files of videos are copied in both passes, too; the second finds most of them in place.
func (m *Move) move(ctx context.Context, source *sqlstore.Store, out *Moved, last bool) (err error) {
	if _, err := sqlstore.Examine(ctx, source, m.To); err != nil {
		return err
	}
	target, err := sqlstore.OpenTarget(ctx, m.To)
	if err != nil {
		return err
	}
	defer target.Close()
	t, err := sqlstore.NewTransfer(ctx, source, target)
	if err != nil {
		return err
	}
	defer t.Close()
	held, err := t.Begin(ctx)
	if err != nil {
		return err
	}
	if out.Verified = held == sqlstore.Complete; out.Verified && !last {
		return errors.New("the move to this target was finished before; to compare the two again, stop the server that uses the data folder")
	}
	if !out.Verified {
		changes, err := t.Copy(ctx, m.Report.of("copying"))
		if err != nil {
			return fmt.Errorf("copy to PostgreSQL: %w; run the same command again to continue", err)
		}
		for _, c := range changes {
			out.Written += c.Written
			out.Erased += c.Erased
		}
	}
	if m.Files != nil {
		if out.Files, err = m.moveFiles(ctx, source); err != nil {
			return err
		}
	}
	if !last {
		return nil
	}
	out.Mended = t.Mended
	if err := m.compare(ctx, t, source, target, out); err != nil {
		return err
	}
	if err := t.Finish(ctx); err != nil {
		return fmt.Errorf("finish the copy: %w; run the same command again", err)
	}
	return nil
}

// compare checks that both sides are equal, row by row and in their sums.
func (m *Move) compare(ctx context.Context, t *sqlstore.Transfer, source, target *sqlstore.Store, out *Moved) (err error) {
	if out.Tables, err = t.Compare(ctx, m.Report.of("comparing")); err != nil {
		return err
	}
	var differ []string
	for _, c := range out.Tables {
		out.Rows += c.Rows
		if !c.Equal {
			differ = append(differ, fmt.Sprintf("%s (%d rows, then %d)", c.Table, c.Rows, c.TargetRows))
		}
	}
	out.Mended = t.Mended
	if out.Books, err = source.Totals(ctx); err != nil {
		return err
	}
	books, err := target.Totals(ctx)
	if err != nil {
		return err
	}
	if books != out.Books {
		differ = append(differ, "the sums of the books")
	}
	switch {
	case len(differ) == 0:
		return nil
	case out.Verified:
		return fmt.Errorf("the move was finished before, and the two databases are not equal any more: %s; if a server has run on PostgreSQL since, that is as it should be; nothing was written", strings.Join(differ, ", "))
	}
	return fmt.Errorf("the two databases are not equal: %s; something else writes to one of them: stop it and run the same command again", strings.Join(differ, ", "))
}

// Plan returns what Run would do. It changes nothing, and a server may be running.
// Whether a server runs is found by trying to lock the folder; the lock is released at once.
func (m *Move) Plan(ctx context.Context) (*Plan, error) {
	from, err := filepath.Abs(m.From)
	if err != nil {
		return nil, err
	}
	source, in, err := sqlstore.PeekSource(ctx, from)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	secrets, err := datadir.ReadSecrets(from, m.Secret)
	if err != nil {
		return nil, err
	}
	if in.Sealed != nil { // an older version has not sealed anything yet
		if err := source.ReadKey(ctx, secrets.All()...); err != nil {
			return nil, fmt.Errorf("%w; %s", err, datadir.SecretAdvice)
		}
	}
	p := &Plan{Version: in.Version, Known: in.Known}
	if secrets.Configured == "" {
		p.KeyFile = filepath.Join(from, datadir.SecretFile)
	}
	release, err := datadir.Hold(from)
	if p.Running = errors.Is(err, datadir.ErrLocked); err == nil {
		err = release()
	}
	if err != nil && !p.Running {
		return nil, err
	}
	if p.Tables, err = source.Sizes(ctx); err != nil {
		return nil, err
	}
	for _, t := range p.Tables {
		p.Rows += t.Rows
	}
	if p.Target, err = sqlstore.Examine(ctx, source, m.To); err != nil {
		return nil, err
	}
	if m.Files == nil {
		return p, nil
	}
	p.Videos, p.Bytes, err = countVideos(ctx, source)
	return p, err
}

// CancelMove makes an installation that was moved usable on SQLite again. It reports whether it was moved.
func CancelMove(ctx context.Context, from string) (bool, error) {
	if _, err := os.Stat(filepath.Join(from, sqlstore.File)); err != nil {
		return false, fmt.Errorf("there is no SQLite database in %s: name the data folder with --from", from)
	}
	dir, err := datadir.Open(from)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	source, err := sqlstore.OpenSource(ctx, dir.Path())
	if err != nil {
		return false, err
	}
	defer source.Close()
	return source.CancelTransfer(ctx)
}
