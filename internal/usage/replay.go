package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Heir is the database that takes over the journal of a node that does not come back.
type Heir interface {
	Store
	// HasSettlements returns the ids of those settlements that are stored.
	HasSettlements(ctx context.Context, list []Settlement) (map[string]bool, error)
	// SettlementsDropped returns the day before which settlements were deleted.
	SettlementsDropped(ctx context.Context) (time.Time, error)
	// MissingAccounts returns the ids of those accounts that do not exist.
	MissingAccounts(ctx context.Context, ids []string) ([]string, error)
}

// Replayed is what Replay found in a journal, and what it made of it.
type Replayed struct {
	Files   int       `json:"files"`
	Records int64     `json:"records"`
	From    time.Time `json:"from,omitzero"` // of the oldest record
	Until   time.Time `json:"until,omitzero"`
	Present int64     `json:"already_there"`
	New     int64     `json:"new"`
	// Old records are not in the database, but it has deleted records of their time: they may have been among those,
	// and would then be counted twice.
	Old int64 `json:"left_out"`
	// Damaged are the files that hold something unreadable behind their last record.
	Damaged []string `json:"damaged,omitempty"`
	// Unknown records are of accounts that the database does not have.
	Unknown int64 `json:"unknown_accounts,omitempty"`

	opts    ReplayOptions
	missing map[string]bool // accounts
}

// ReplayOptions are the choices of Replay; the zero value is the default.
type ReplayOptions struct {
	Dry bool // write nothing
	// KnownOnly leaves out the records of accounts that the database does not have. Otherwise they are an error.
	KnownOnly bool
}

// Replay moves the journal in a folder into a database. The journal is only read, so it may lie on a disk that cannot
// be written. What the database has is left alone, so it does not matter how often a journal is replayed.
//
// Where the journal says that the database has a record, the database is asked all the same: it may have been restored
// from a backup since.
func Replay(ctx context.Context, dir string, heir Heir, opts *ReplayOptions) (Replayed, error) {
	out := Replayed{}
	if opts != nil {
		out.opts = *opts
	}
	files, err := journalFiles(dir)
	if err != nil {
		return out, err
	}
	defer closeAll(files)
	out.Files = len(files)
	if err := out.survey(ctx, files, heir); err != nil {
		return out, err
	}
	dropped, err := heir.SettlementsDropped(ctx)
	if err != nil {
		return out, err
	}
	batch := make([]Settlement, 0, batchSize)
	for _, f := range files {
		var bad error
		err := f.each(0, f.end, func(s Settlement, _ int64) bool {
			if batch = append(batch, s); len(batch) == batchSize {
				bad = out.settle(ctx, batch, heir, dropped)
				batch = batch[:0]
			}
			return bad == nil
		})
		if err := errors.Join(err, bad); err != nil {
			return out, err
		}
	}
	return out, out.settle(ctx, batch, heir, dropped)
}

// survey reads the whole journal before anything is written, and refuses one of another installation.
func (r *Replayed) survey(ctx context.Context, files []*segment, heir Heir) error {
	accounts := map[string]bool{}
	for _, f := range files {
		err := f.each(0, f.end, func(s Settlement, _ int64) bool {
			r.Records++
			accounts[s.AccountID] = true
			if r.From.IsZero() || s.At.Before(r.From) {
				r.From = s.At
			}
			if s.At.After(r.Until) {
				r.Until = s.At
			}
			return ctx.Err() == nil
		})
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		clean, err := f.restIsEmpty()
		if err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		if !clean {
			r.Damaged = append(r.Damaged, f.path)
		}
	}
	missing, err := heir.MissingAccounts(ctx, slices.Sorted(maps.Keys(accounts)))
	if err != nil || len(missing) == 0 {
		return err
	}
	if !r.opts.KnownOnly {
		return fmt.Errorf("%d of the %d accounts in this journal are not in the database, such as %s: it belongs to another installation, or the database was restored from an older backup; nothing was written, and --known-only settles the calls of the other accounts", len(missing), len(accounts), missing[0])
	}
	r.missing = map[string]bool{}
	for _, id := range missing {
		r.missing[id] = true
	}
	return nil
}

// settle stores one batch.
func (r *Replayed) settle(ctx context.Context, batch []Settlement, heir Heir, dropped time.Time) error {
	have, err := heir.HasSettlements(ctx, batch)
	if err != nil {
		return err
	}
	fresh := make([]Settlement, 0, len(batch))
	for _, s := range batch {
		switch {
		case r.missing[s.AccountID]:
			r.Unknown++
		case have[s.ID]:
			r.Present++
		case s.At.Before(dropped):
			r.Old++
		default:
			have[s.ID] = true // a second record of the same call is no second call
			fresh = append(fresh, s)
		}
	}
	r.New += int64(len(fresh))
	if r.opts.Dry || len(fresh) == 0 {
		return nil
	}
	return heir.RecordSettlements(ctx, fresh)
}

// journalFiles opens the files of a journal for reading, oldest first.
func journalFiles(dir string) (files []*segment, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	for _, e := range entries {
		number, ok := segmentNumber(e.Name())
		if !ok {
			continue
		}
		s, err := openSegment(filepath.Join(dir, e.Name()), number, os.O_RDONLY)
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		files = append(files, s)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no journal in %s: name a data folder, or the folder journal in it", dir)
	}
	slices.SortFunc(files, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	return files, nil
}

// segmentNumber reads the number in the name of a segment.
func segmentNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, ".journal")
	number, err := strconv.ParseUint(digits, 10, 63)
	return number, ok && err == nil
}

func closeAll(files []*segment) {
	for _, f := range files {
		_ = f.file.Close() // it was only read
	}
}

// restIsEmpty reports whether only zeros follow the last record, as they do unless a file is damaged.
func (s *segment) restIsEmpty() (bool, error) {
	rest := io.NewSectionReader(s.file, s.end, s.size-s.end)
	part := make([]byte, 64<<10)
	for {
		n, err := rest.Read(part)
		for _, b := range part[:n] {
			if b != 0 {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}
