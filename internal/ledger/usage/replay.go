package usage

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
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
	// Damaged are the files in or before which something is unreadable or missing; the rest of them counts.
	Damaged []string `json:"damaged,omitempty"`
	// Lost is how many records are missing there, or how many at most.
	Lost   int64 `json:"lost,omitempty"`
	AtMost bool  `json:"at_most,omitempty"`
	// Unknown records are of accounts that the database does not have.
	Unknown int64 `json:"unknown_accounts,omitempty"`

	opts    ReplayOptions
	room    []byte          // for the content of a file
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
	files, err := segmentsIn(dir, os.O_RDONLY)
	switch {
	case err != nil:
		return out, fmt.Errorf("read the journal: %w", err)
	case len(files) == 0:
		return out, fmt.Errorf("there is no journal in %s: name a data folder, or the folder journal in it", dir)
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
		_, err := out.each(f, link{}, func(s Settlement) (err error) {
			if batch = append(batch, s); len(batch) == batchSize {
				err = out.settle(ctx, batch, heir, dropped)
				batch = batch[:0]
			}
			return err
		})
		if err != nil {
			return out, err
		}
	}
	return out, out.settle(ctx, batch, heir, dropped)
}

// each calls work with every settlement of a file that can be read, and returns what was found in it.
func (r *Replayed) each(f *segment, after link, work func(Settlement) error) (survey, error) {
	var err error
	if r.room, err = f.content(r.room); err != nil {
		return survey{}, fmt.Errorf("read the journal: %w", err)
	}
	known := texts{}
	found := scan(r.room, f.old, after, floorless, func(fr *frame, _ int64, _ bool) {
		if err != nil || fr.kind != kindSettlement {
			return
		}
		var s Settlement
		if s, err = parseRecord(fr.raw, known); err != nil {
			err = fmt.Errorf("read the journal: %s: %w", f.path, err)
			return
		}
		err = work(s)
	})
	return found, err
}

// survey reads the whole journal before anything is written, and refuses one of another installation.
func (r *Replayed) survey(ctx context.Context, files []*segment, heir Heir) error {
	accounts := map[string]bool{}
	var last link
	for _, f := range files {
		found, err := r.each(f, last, func(s Settlement) error {
			r.Records++
			accounts[s.AccountID] = true
			if r.From.IsZero() || s.At.Before(r.From) {
				r.From = s.At
			}
			if s.At.After(r.Until) {
				r.Until = s.At
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		if len(found.gaps) > 0 {
			r.Damaged = append(r.Damaged, f.path)
		}
		var d Damage
		for i := range found.gaps {
			d.add(&found.gaps[i], f.old, 0, 0)
		}
		r.Lost, r.AtMost = r.Lost+d.Lost, r.AtMost || d.AtMost
		if !f.old {
			last = found.last
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
