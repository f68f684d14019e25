package usage

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// windowSpan is how long a call counts against the rate limits, from its start.
	windowSpan = time.Minute
	// noteFrom is the percentage of the journal's bound from which the backlog is worth a note.
	noteFrom = 10

	dropEvery  = time.Hour
	dropAtOnce = 1000 // settlements; a larger transaction would hold up the committer

	// lastPatience is how long Run waits at the end for calls that were cut short and must still be settled.
	lastPatience = 2 * time.Second
)

// Archive is the database behind the books.
type Archive interface {
	Store
	Reader
	Auditor
	// DropSettlements deletes at most so many settlements from before a day and returns how many it deleted. The
	// sums stay.
	DropSettlements(ctx context.Context, before time.Time, most int) (int64, error)
	// Backup writes a consistent copy of the database to a new file.
	Backup(ctx context.Context, path string) error
}

// Reader looks usage up.
type Reader interface {
	// UsageByDay returns an account's sums by day, key and model, from a day on.
	UsageByDay(ctx context.Context, accountID string, from time.Time) ([]Row, error)
	// UsageBy returns an account's sums by day, model or key.
	UsageBy(ctx context.Context, q Query) ([]Row, error)
	// RecentSettlements returns an account's last calls before a point, newest first.
	RecentSettlements(ctx context.Context, accountID string, before Point, limit int) ([]Settlement, error)
}

// BooksOptions are the choices of NewBooks; the zero value is the default.
type BooksOptions struct {
	SyncEach bool         // see JournalOptions
	Log      *slog.Logger // default: nothing is logged
	// Recorded is called with each settlement after Record has written it. It takes a copy: a pointer would move every
	// settlement to the heap.
	Recorded func(Settlement)
	// Running returns how many calls have not been settled yet. Run waits for them at the end.
	Running func() int64
	// KeepDays returns for how many days settlements are kept; 0: for ever.
	KeepDays func() int
}

// Books are the accounts of what calls consumed: a journal on the local disk, which takes every settlement at once,
// and a database, which receives them from there.
type Books struct {
	dir     string
	archive Archive
	opts    BooksOptions

	// mu guards opening. The fields below it do not change after Open has returned, so a server, which opens its books
	// before it serves, reads them without the lock.
	mu        sync.Mutex
	journal   *Journal
	committer *Committer
}

// NewBooks returns books whose journal is in the folder dir. The journal is opened by Open, or by the first method
// that reads it: most offline commands never need it.
func NewBooks(dir string, archive Archive, opts *BooksOptions) *Books {
	b := &Books{dir: dir, archive: archive}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Log == nil {
		b.opts.Log = slog.New(slog.DiscardHandler)
	}
	return b
}

// Open opens the journal unless it is open. Ready, Record, Backlog and Run need an open journal.
func (b *Books) Open() (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.journal != nil {
		return nil
	}
	if b.journal, err = OpenJournal(b.dir, &JournalOptions{SyncEach: b.opts.SyncEach}); err != nil {
		return err
	}
	b.committer = NewCommitter(b.journal, b.archive, b.opts.Log)
	return nil
}

// Close closes the journal if it is open.
func (b *Books) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.journal == nil {
		return nil
	}
	return b.journal.Close()
}

// Ready reports whether a call that starts now can be settled: the error says why not.
func (b *Books) Ready() error { return b.journal.Ready() }

// Record writes a settlement to the journal. Ready has made sure of room when the call was admitted. If the
// settlement cannot be written all the same, the journal retries as long as the process lives, and the log has it.
func (b *Books) Record(s Settlement) {
	if err := b.journal.Append(&s); err != nil {
		b.opts.Log.Error("a settlement could not be written to the journal", "error", err.Error(), "settlement", fmt.Sprintf("%+v", s))
	}
	if b.opts.Recorded != nil {
		b.opts.Recorded(s)
	}
}

// Flush moves everything that is in the journal now to the database.
func (b *Books) Flush(ctx context.Context) error {
	if err := b.Open(); err != nil {
		return err
	}
	return b.committer.Flush(ctx)
}

// Held returns the settlements since a time that the journal still holds, oldest first. Some of them are in the
// database, too: a segment of the journal is deleted as a whole.
func (b *Books) Held(since time.Time) ([]Settlement, error) {
	if err := b.Open(); err != nil {
		return nil, err
	}
	return b.journal.Since(since)
}

// LastMinute returns what still counts against the rate limits: the settlements in the journal, and others that
// were never in it. See the function LastMinute.
func (b *Books) LastMinute(now time.Time, others ...Settlement) ([]Settlement, error) {
	held, err := b.Held(now.Add(-windowSpan))
	if err != nil {
		return nil, err
	}
	return LastMinute(append(held, others...), now), nil
}

// LastMinute returns the settlements of calls that started within the last minute and consumed something, oldest
// first. They still count against the rate limits. Settlements from the future, which a clock that was set back
// leaves behind, do not: nobody can tell when they are a minute old.
func LastMinute(all []Settlement, now time.Time) []Settlement {
	recent := slices.DeleteFunc(all, func(s Settlement) bool {
		return s.RequestMilli == 0 && s.Tokens.Total() == 0 || !s.At.After(now.Add(-windowSpan)) || s.At.After(now)
	})
	slices.SortStableFunc(recent, func(x, y Settlement) int { return x.At.Compare(y.At) })
	return recent
}

// Backlog returns how much waits for the database.
func (b *Books) Backlog() Backlog { return b.journal.Backlog() }

// BacklogNote says that settlements pile up, long before the journal reaches its bound. It is empty otherwise.
func (b *Books) BacklogNote() string {
	n := b.Backlog()
	if n.Bytes*100 < n.Most*noteFrom {
		return ""
	}
	return fmt.Sprintf("%d settlements wait for the database: %d of %d MiB", n.Records, n.Bytes>>20, n.Most>>20)
}

// Run syncs the journal, moves settlements to the database and deletes old ones until ctx ends. It then waits a
// little for calls that still run, because they must be settled, too.
func (b *Books) Run(ctx context.Context) {
	ending := ctx
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var working sync.WaitGroup
	working.Go(func() {
		<-ending.Done()
		for patience := lastPatience; b.opts.Running != nil && b.opts.Running() > 0 && patience > 0; patience -= time.Millisecond {
			<-time.After(time.Millisecond)
		}
		stop()
	})
	working.Go(func() { b.committer.Run(ctx) })
	working.Go(func() { b.dropOld(ctx) })
	reported := time.Time{}
	b.journal.Run(ctx, func(err error) {
		if time.Since(reported) > remindEvery {
			reported = time.Now()
			b.opts.Log.Error("the journal has trouble", "error", err.Error())
		}
	})
	working.Wait()
}

// dropOld deletes the settlements that are older than KeepDays, a few at a time, so that nobody waits for it.
func (b *Books) dropOld(ctx context.Context) {
	tick := time.NewTicker(dropEvery)
	defer tick.Stop()
	for {
		if note := b.BacklogNote(); note != "" {
			b.opts.Log.Warn("accounting is behind", "note", note)
		}
		if err := b.dropBefore(ctx, time.Now()); err != nil && ctx.Err() == nil {
			b.opts.Log.Warn("old settlements could not be deleted", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (b *Books) dropBefore(ctx context.Context, now time.Time) error {
	if b.opts.KeepDays == nil || b.opts.KeepDays() <= 0 {
		return nil
	}
	before := DayOf(now).AddDate(0, 0, -b.opts.KeepDays())
	for ctx.Err() == nil {
		n, err := b.archive.DropSettlements(ctx, before, dropAtOnce)
		if err != nil || n < dropAtOnce {
			return err
		}
	}
	return nil
}

// UsageByDay returns an account's sums from a day on, including what is still in the journal.
func (b *Books) UsageByDay(ctx context.Context, accountID string, from time.Time) ([]Row, error) {
	if err := b.Flush(ctx); err != nil {
		return nil, err
	}
	return b.archive.UsageByDay(ctx, accountID, from)
}

// Backup writes a consistent copy of everything, the journal included, to a new file.
func (b *Books) Backup(ctx context.Context, path string) error {
	if err := b.Flush(ctx); err != nil {
		return err
	}
	return b.archive.Backup(ctx, path)
}

// flushPatience is how long a page waits for the journal. After that it shows what the database has.
const flushPatience = 100 * time.Millisecond

// View reads the books for pages: it includes the calls of the last second unless the database is busy.
type View struct{ books *Books }

// View returns a view of the books.
func (b *Books) View() View { return View{b} }

func (v View) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	_ = v.books.Flush(ctx) // the next page has what is missing from this one
}

// UsageBy returns an account's sums by day, model or key.
func (v View) UsageBy(ctx context.Context, q Query) ([]Row, error) {
	v.flush(ctx)
	return v.books.archive.UsageBy(ctx, q)
}

// RecentSettlements returns an account's last calls before a point, newest first.
func (v View) RecentSettlements(ctx context.Context, accountID string, before Point, limit int) ([]Settlement, error) {
	v.flush(ctx)
	return v.books.archive.RecentSettlements(ctx, accountID, before, limit)
}

// UsageByDay returns an account's sums by day, key and model, from a day on, without what is still in the journal.
func (v View) UsageByDay(ctx context.Context, accountID string, from time.Time) ([]Row, error) {
	return v.books.archive.UsageByDay(ctx, accountID, from)
}
