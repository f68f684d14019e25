package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/kit/telemetry"
)

const (
	// windowSpan is how long a call counts against the rate limits, from its start.
	windowSpan = time.Minute
	// noteFrom is the percentage of the journal's bound from which operators are told about the
	// backlog. By default that is about 100 MiB, half a million calls: more than a short outage of
	// the database leaves, and long before admission stops.
	noteFrom = 10

	// noteAfter is how long settlements may wait before operators are told. The committer moves them every second.
	noteAfter = 30 * time.Second

	remindAgain = time.Hour // between two reminders of a backlog
	dropAtOnce  = 1000      // settlements; a larger transaction would hold up the committer

	// lastPatience is how long Run waits at the end for calls that were cut off by the shutdown
	// and have not been settled yet.
	lastPatience = 2 * time.Second
)

// DropEvery is how often DropOld should be called.
const DropEvery = time.Hour

// Archive is the database behind the books.
type Archive interface {
	Store
	Reader
	Auditor
	// DropSettlements deletes at most most settlements from before a day and returns how many it
	// deleted. The sums stay.
	DropSettlements(ctx context.Context, before time.Time, most int) (int64, error)
}

// Reader reads what the database has. It does not see what is still in the journal.
type Reader interface {
	// UsageByDay returns an account's sums by day, key and model, starting with the day from.
	UsageByDay(ctx context.Context, accountID string, from time.Time) ([]Row, error)
	// UsageBy returns an account's sums by day, hour, model or key, as q.By says.
	UsageBy(ctx context.Context, q Query) ([]Row, error)
	// RecentSettlements returns at most limit of an account's calls before a point, newest first.
	RecentSettlements(ctx context.Context, accountID string, before Point, limit int) ([]Settlement, error)
	// RoutedCalls adds up an account's calls that asked for a model and were answered by others, by those.
	RoutedCalls(ctx context.Context, accountID, asked string, from time.Time) ([]Routed, error)
}

// BooksOptions are the choices of NewBooks; the zero value is the default.
type BooksOptions struct {
	SyncEach bool         // see JournalOptions
	Log      *slog.Logger // default: nothing is logged
	// Recorded is called with each settlement after Record has written it, by the goroutine that
	// serves the call, so it must be quick. It must not change the settlement. Default: nothing is called.
	Recorded func(*Settlement)
	// Running returns how many calls have not been settled yet. Run waits for them at the end.
	// Default: it does not wait.
	Running func() int64
	// KeepDays returns for how many days settlements are kept; 0 means for ever. It is a function
	// because a reload can change it. Default: for ever.
	KeepDays func() int
	// Notary makes receipts. Default: calls get none.
	Notary Notary
}

// Books records what calls consumed and answers questions about it. Every settlement goes to a
// journal on the local disk first and is moved to the database from there. UsageByDay, Audit and
// JournalParts flush the journal first, so that their results are complete. Pages, which must not wait,
// read through a View.
//
// Its methods may be called from several goroutines.
type Books struct {
	dir     string
	archive Archive
	opts    BooksOptions

	// mu guards opening and closing. The fields below are nil until Open and do not change after
	// it, so a server, which opens its books before it serves, reads them without the lock.
	mu        sync.Mutex
	journal   *Journal
	committer *Committer
}

// NewBooks returns books whose journal is in the folder dir, which need not exist. The journal is
// opened by Open, or by the first method that reads it, because most offline commands never need
// it. opts may be nil.
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

// Open opens the journal unless it is open. Call it before Ready, Record, Backlog and Run: these do
// not check, because two of them run in every request.
func (b *Books) Open() (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.journal != nil {
		return nil
	}
	if b.journal, err = OpenJournal(b.dir, &JournalOptions{SyncEach: b.opts.SyncEach, Damaged: b.tellDamage, Notary: b.opts.Notary}); err != nil {
		return err
	}
	b.committer = NewCommitter(b.journal, b.archive, b.opts.Log)
	return nil
}

// Close closes the journal if it is open. Run must have returned. After Close, Record can only log
// what it is given.
func (b *Books) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.journal == nil {
		return nil
	}
	return b.journal.Close()
}

// Ready returns nil if a call that starts now can be settled, and otherwise why it cannot. It takes
// no lock.
func (b *Books) Ready() error { return b.journal.Ready() }

// Look says whether calls can be settled, and how long settlements have waited for the database.
func (b *Books) Look(context.Context) health.Finding {
	f := health.Finding{Message: b.Note()}
	if err := b.Ready(); err != nil {
		f = health.Finding{Failed: true, Message: "settlements cannot be written, so calls are refused; the log says more", Err: err}
	}
	f.Age = b.Lag()
	return f
}

// AddMetrics adds the metrics of the journal.
func (b *Books) AddMetrics(m *telemetry.Metrics) {
	telemetry.Gauge(m, "sluice_journal_records", "Settlements that wait for the database.", func() int64 { return b.Backlog().Records })
	telemetry.Gauge(m, "sluice_journal_bytes", "Bytes of settlements that wait for the database.", func() int64 { return b.Backlog().Bytes })
	telemetry.Gauge(m, "sluice_journal_damage", "Reports of damage in the journal that nobody has acknowledged.", b.DamageCount)
	telemetry.Gauge(m, "sluice_journal_lag_seconds", "Seconds that settlements have been waiting for the database at most; 0 if none waits.", func() int64 { return int64(b.Lag().Seconds()) })
}

// Record writes a settlement to the journal. It returns no error, because the call is over and
// nobody could act on it: Ready has checked for room when the call was admitted. If the disk refuses
// the settlement all the same, the journal retries while the process lives. The log has it, too, in
// case the process dies first.
func (b *Books) Record(s Settlement) {
	if b.opts.Notary == nil {
		s.Receipt = nil
	} else if s.Receipt != nil {
		b.opts.Notary.State(&s)
	}
	if err := b.journal.Append(&s); err != nil {
		text, _ := json.Marshal(s) // plain fields always encode
		b.opts.Log.Error("a settlement could not be written to the journal", "error", err.Error(), "settlement", string(text))
		if s.Receipt != nil {
			s.Receipt.Unwritten = true
		}
	}
	if b.opts.Recorded != nil {
		b.opts.Recorded(&s)
	}
}

// Flush moves everything that is in the journal now to the database. It opens the journal if need
// be.
func (b *Books) Flush(ctx context.Context) error {
	if err := b.Open(); err != nil {
		return err
	}
	return b.committer.Flush(ctx)
}

// Held returns the settlements in the journal whose calls ended at or after a time, oldest first.
// Some of them are in the database, too: the journal deletes whole segments only.
func (b *Books) Held(since time.Time) ([]Settlement, error) {
	if err := b.Open(); err != nil {
		return nil, err
	}
	return b.journal.Since(since)
}

// LastMinute returns what still counts against the rate limits: settlements in the journal and
// others, which were never in it. See the function LastMinute.
func (b *Books) LastMinute(now time.Time, others ...Settlement) ([]Settlement, error) {
	held, err := b.Held(now.Add(-windowSpan))
	if err != nil {
		return nil, err
	}
	return LastMinute(append(held, others...), now), nil
}

// LastMinute returns the settlements of calls that started within the last minute and consumed
// something, oldest first. They still count against the rate limits. Settlements from the future,
// which a clock that was set back leaves behind, are left out: nobody can tell when they are a
// minute old. LastMinute overwrites all.
func LastMinute(all []Settlement, now time.Time) []Settlement {
	recent := slices.DeleteFunc(all, func(s Settlement) bool {
		return s.RequestMilli == 0 && s.Tokens.Total() == 0 || !s.At.After(now.Add(-windowSpan)) || s.At.After(now)
	})
	slices.SortStableFunc(recent, func(x, y Settlement) int { return x.At.Compare(y.At) })
	return recent
}

// Backlog returns how much waits for the database.
func (b *Books) Backlog() Backlog { return b.journal.Backlog() }

// Lag returns how long settlements have been waiting for the database at most; 0 if none waits. Sums on pages and
// the audit lack what waits.
func (b *Books) Lag() time.Duration { return b.committer.Lag(time.Now()) }

// BacklogNote returns a warning for operators if many settlements wait for the database, long
// before the journal reaches its bound, or if they wait for long. Otherwise it returns "".
func (b *Books) BacklogNote() string {
	n, lag := b.Backlog(), b.Lag()
	switch {
	case n.Bytes*100 >= n.Most*noteFrom:
		return fmt.Sprintf("%d settlements wait for the database: %d of %d MiB", n.Records, n.Bytes>>20, n.Most>>20)
	case lag >= noteAfter:
		return fmt.Sprintf("%d settlements have been waiting for the database for up to %s", n.Records, lag.Round(time.Second))
	}
	return ""
}

// tellDamage logs a damage of the journal when it is found.
func (b *Books) tellDamage(d Damage) {
	b.opts.Log.Error("the journal is damaged: "+d.Loss(), "file", d.File, "kept", d.Kept, "what", d.What, "unreadable_bytes", d.Bytes,
		"recovered", d.Recovered, "lost", d.Lost, "at_most", d.AtMost, "already_stored", d.Stored, "next", "sluice journal damage")
}

// Damage returns what is damaged in the journal and not acknowledged, oldest first. It opens the journal
// if need be.
func (b *Books) Damage() ([]Damage, error) {
	if err := b.Open(); err != nil {
		return nil, err
	}
	return b.journal.Damage(), nil
}

// DamageCount returns how many reports of damage are not acknowledged.
func (b *Books) DamageCount() int64 { return int64(len(b.journal.Damage())) }

// Acknowledge notes that somebody has read the reports of damage, and returns them.
func (b *Books) Acknowledge(by string) ([]Damage, error) {
	if err := b.Open(); err != nil {
		return nil, err
	}
	return b.journal.Acknowledge(by)
}

// DamageNote returns a warning for operators if the journal was damaged and nobody has acknowledged it.
// Otherwise it returns "".
func (b *Books) DamageNote() string {
	list := b.journal.Damage()
	if len(list) == 0 {
		return ""
	}
	all := Damage{}
	for i := range list {
		all.Lost += list[i].Lost
		all.AtMost = all.AtMost || list[i].AtMost
	}
	return fmt.Sprintf("the journal was damaged, and %s; \"sluice journal damage\" says more, until \"sluice journal acknowledge\"", all.Loss())
}

// Note returns what operators should know of the books although they work, or "".
func (b *Books) Note() string {
	notes := slices.DeleteFunc([]string{b.DamageNote(), b.BacklogNote()}, func(s string) bool { return s == "" })
	return strings.Join(notes, "; ")
}

// Run syncs the journal and moves settlements to the database until ctx ends.
// Then it waits for running calls to be settled, at most lastPatience, and moves what they left.
func (b *Books) Run(ctx context.Context) {
	// The jobs below end on a context of their own: ctx says that no new calls come, and the last
	// calls still need the journal and the committer.
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
	working.Go(func() { b.remind(ctx) })
	reported := time.Time{}
	b.journal.Run(ctx, func(err error) {
		if time.Since(reported) > remindEvery {
			reported = time.Now()
			b.opts.Log.Error("a task of the journal failed", "error", err.Error())
		}
	})
	working.Wait()
}

// remind tells the operator of a backlog and of damage, at the start and every hour.
func (b *Books) remind(ctx context.Context) {
	for range pace.AtOnce(ctx, remindAgain) {
		if note := b.BacklogNote(); note != "" {
			b.opts.Log.Warn("accounting is behind", "note", note)
		}
		if note := b.DamageNote(); note != "" {
			b.opts.Log.Warn("the journal was damaged", "note", note)
		}
	}
}

// DropOld deletes the settlements that are older than KeepDays. A failure is logged.
func (b *Books) DropOld(ctx context.Context) {
	if err := b.dropBefore(ctx, time.Now()); err != nil && ctx.Err() == nil {
		b.opts.Log.Warn("old settlements could not be deleted", "error", err.Error())
	}
}

// dropBefore deletes in small transactions, so that neither the committer nor a page waits long.
func (b *Books) dropBefore(ctx context.Context, now time.Time) error {
	if b.opts.KeepDays == nil || b.opts.KeepDays() <= 0 {
		return nil
	}
	before := DayOf(now).AddDate(0, 0, -b.opts.KeepDays())
	for ctx.Err() == nil {
		n, err := b.archive.DropSettlements(ctx, before, dropAtOnce)
		if err != nil || n < dropAtOnce { // fewer than asked for: these were the last ones
			return err
		}
	}
	return nil
}

// UsageByDay returns an account's sums by day, key and model, starting with the day from. They
// include what was in the journal.
func (b *Books) UsageByDay(ctx context.Context, accountID string, from time.Time) ([]Row, error) {
	if err := b.Flush(ctx); err != nil {
		return nil, err
	}
	return b.archive.UsageByDay(ctx, accountID, from)
}

// flushPatience is how long a page waits for Flush. After that it shows what the database has: a
// slow database must not make pages slow.
const flushPatience = 100 * time.Millisecond

// View reads the books for pages. What it returns includes the calls that have just ended, unless
// the database is busy or down.
type View struct{ books *Books }

// View returns a view of the books.
func (b *Books) View() View { return View{b} }

// Flush moves what is in the journal to the database, if that can be done quickly.
func (v View) Flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	_ = v.books.Flush(ctx) // the next page has what is missing from this one
}

// UsageBy returns an account's sums by day, hour, model or key, as q.By says.
func (v View) UsageBy(ctx context.Context, q Query) ([]Row, error) {
	v.Flush(ctx)
	return v.books.archive.UsageBy(ctx, q)
}

// RecentSettlements returns at most limit of an account's calls before a point, newest first.
func (v View) RecentSettlements(ctx context.Context, accountID string, before Point, limit int) ([]Settlement, error) {
	v.Flush(ctx)
	return v.books.archive.RecentSettlements(ctx, accountID, before, limit)
}

// RoutedCalls adds up an account's calls that asked for a model and were answered by others, by those.
func (v View) RoutedCalls(ctx context.Context, accountID, asked string, from time.Time) ([]Routed, error) {
	v.Flush(ctx)
	return v.books.archive.RoutedCalls(ctx, accountID, asked, from)
}

// UsageByDay returns an account's sums by day, key and model, starting with the day from. They do
// not include what is still in the journal.
func (v View) UsageByDay(ctx context.Context, accountID string, from time.Time) ([]Row, error) {
	return v.books.archive.UsageByDay(ctx, accountID, from)
}
