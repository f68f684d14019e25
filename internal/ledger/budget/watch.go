package budget

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/health"
	"sluice/internal/ledger/price"
)

const (
	// LookEvery is how often a Watch looks.
	LookEvery = 15 * time.Second
	// overlap is how far the looks reach back into each other: what was stored late, by servers whose clocks differ, is still seen.
	overlap = 2 * time.Minute
	// usesAtOnce is how many counts are read at once.
	usesAtOnce = 200
	// lettersPerHour is how many letters the sessions of one budget cause in an hour; there can be any number of sessions.
	lettersPerHour = 10
	// sessionMarksPerHour is how many marks that sessions of one budget have passed webhooks are told of in an hour. A caller can begin
	// a session with each call, and pass ten marks of fifty budgets with it; the events of all accounts wait in one line.
	sessionMarksPerHour = 1000
)

// Use is when a count was last used.
type Use struct {
	Count, AccountID string
	At               time.Time
}

// Passed is a mark that the spending of a count has passed.
type Passed struct {
	Due
	AccountID     string
	Period        int64
	Percent       int
	Amount, Spent price.Nano
	At            time.Time
	// From and Until are the start and the end of the period. Both are zero for windows that roll or never end.
	From, Until time.Time
}

// Title says what was passed, in one line.
func (p *Passed) Title() string {
	if p.Session != "" {
		return fmt.Sprintf("%s%s%s%d%% of the budget %q", titleSession, p.Session, titleUsed, p.Percent, p.Name)
	}
	return fmt.Sprintf("%d%% of the budget %q is spent", p.Percent, p.Name)
}

// The words of a title before a session and after it.
const titleSession, titleUsed = "Session ", " has used "

// SessionOf returns the session and the name of the budget that a title is about, which Title has written. It returns false if the
// title is about no session.
func SessionOf(title string) (session, name string, ok bool) {
	rest, ok := strings.CutPrefix(title, titleSession)
	if !ok {
		return "", "", false
	}
	if session, rest, ok = strings.Cut(rest, titleUsed); !ok {
		return "", "", false
	}
	_, quoted, _ := strings.Cut(rest, " of the budget ")
	name, err := strconv.Unquote(quoted)
	return session, name, err == nil
}

// WatchStore is what a Watch reads and keeps.
type WatchStore interface {
	// Looked returns when somebody last looked, and SetLooked notes it.
	Looked(ctx context.Context) (time.Time, error)
	SetLooked(ctx context.Context, at time.Time) error
	// Used returns counts that were used after another one and until a time, in the order of their use and their names.
	Used(ctx context.Context, after Use, until time.Time, most int) ([]Use, error)
	// Figures is as that of Store.
	Figures(ctx context.Context, asks []Ask) ([]Figures, error)
	// Told returns the marks of which people were told.
	Told(ctx context.Context, keys []Key) (map[Key][]Told, error)
	// NewestPart returns when the newest part of a window that rolls began, and what it had spent before that, of the parts that
	// began less than a span earlier.
	NewestPart(ctx context.Context, count string, span time.Duration) (part time.Time, before price.Nano, err error)
	// Pass notes that marks of a count were passed, with the events that tell of it, and that others hold no longer. It returns
	// those of which nobody else was faster.
	Pass(ctx context.Context, key Key, over []Told, passed []Passed) ([]Passed, error)
}

// WatchOptions are the choices of NewWatch; the zero value is the default.
type WatchOptions struct {
	// Tell tells the owner of an account that a mark was passed. Default: events alone do.
	Tell func(ctx context.Context, p *Passed)
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Log gets what went wrong. Default: no log.
	Log *slog.Logger
}

// Watch looks at what was spent, and tells people how much of their budgets that is. It is not for concurrent use. Several servers
// may look after each other, or even at the same time: what was told is in the database.
type Watch struct {
	store    WatchStore
	accounts func(id string) *account.Account
	opts     WatchOptions
	looking  health.Trouble

	// letters and marks count those about sessions since hour, by budget.
	letters, marks map[string]int
	hour           time.Time
}

// NewWatch returns a Watch. accounts returns the current state of an account, or nil if there is none. Opts may be nil.
func NewWatch(store WatchStore, accounts func(id string) *account.Account, opts *WatchOptions) *Watch {
	w := &Watch{store: store, accounts: accounts, letters: map[string]int{}, marks: map[string]int{}}
	if opts != nil {
		w.opts = *opts
	}
	if w.opts.Tell == nil {
		w.opts.Tell = func(context.Context, *Passed) {}
	}
	if w.opts.Now == nil {
		w.opts.Now = time.Now
	}
	if w.opts.Log == nil {
		w.opts.Log = slog.New(slog.DiscardHandler)
	}
	return w
}

// Look looks at the counts that were used since the last look. If it fails, the next look begins where this one has.
func (w *Watch) Look(ctx context.Context) {
	switch err := w.look(ctx); {
	case err == nil:
		w.looking.Works(w.opts.Log, "the marks of budgets are looked at again")
	case ctx.Err() == nil:
		w.looking.Failed(w.opts.Log, "the marks of budgets could not be looked at", err)
	}
}

func (w *Watch) look(ctx context.Context) error {
	now := w.opts.Now().UTC().Truncate(time.Millisecond) // which is what is stored
	looked, err := w.store.Looked(ctx)
	if err != nil {
		return err
	}
	from := looked
	if !from.IsZero() {
		from = from.Add(-overlap)
	}
	used := 0
	for after, more := (Use{At: from}), true; more; {
		uses, err := w.store.Used(ctx, after, now.Add(overlap), usesAtOnce)
		if err == nil {
			err = w.examine(ctx, uses, from, now)
		}
		if err != nil {
			return err
		}
		used += len(uses)
		if more = len(uses) == usesAtOnce; more {
			after = uses[len(uses)-1]
		}
	}
	if used == 0 {
		return nil // a later look from the same time finds the same
	}
	return w.store.SetLooked(ctx, now)
}

// sight is a count in a period that a look is about.
type sight struct {
	Due
	use    Use
	ask    Ask
	at     time.Time // in the period
	period int64
}

// examine looks at counts.
func (w *Watch) examine(ctx context.Context, uses []Use, from, now time.Time) error {
	var sights []sight
	for _, u := range uses {
		sights = append(sights, w.sights(u, from, now)...)
	}
	if len(sights) == 0 {
		return nil
	}
	asks, keys := make([]Ask, len(sights)), make([]Key, len(sights))
	for i := range sights {
		asks[i], keys[i] = sights[i].ask, sights[i].ask.Key
	}
	figures, err := w.store.Figures(ctx, asks)
	if err != nil {
		return err
	}
	told, err := w.store.Told(ctx, keys)
	if err != nil {
		return err
	}
	for i := range sights {
		if err := w.compare(ctx, &sights[i], &figures[i], told[keys[i]], now); err != nil {
			return err
		}
	}
	return nil
}

// sights returns what to look at: the period of a count in which the time since the last look began, and the one of now. A call
// that was stored after the end of its period counts for that one.
func (w *Watch) sights(u Use, from, now time.Time) (all []sight) {
	a := w.accounts(u.AccountID)
	if a == nil {
		return nil
	}
	id, session, _ := strings.Cut(u.Count, "/")
	b := a.Budget(id)
	if b == nil {
		return nil
	}
	for _, at := range []time.Time{from, now} {
		period, since := PeriodOf(b, at)
		if at == from && (from.IsZero() || period <= 0) {
			continue // all that counts of windows that roll or never end counts now
		}
		if len(all) > 0 && all[0].period == period {
			continue
		}
		all = append(all, sight{
			Due: Due{Budget: b, Session: session}, use: u, at: at, period: period,
			ask: Ask{Grant: Grant{Key: Key{u.Count, period}}, Since: since, Amount: price.Nano(b.Amount)},
		})
	}
	return all
}

// compare tells of the marks of a count that were passed.
func (w *Watch) compare(ctx context.Context, s *sight, f *Figures, told []Told, now time.Time) error {
	level := Level{Amount: f.Amount, Spent: f.Spent}
	if s.Window.Rolls() && len(told) > 0 {
		var err error
		// A part counts as long as any of it is in the window.
		if level.Part, level.Before, err = w.store.NewestPart(ctx, s.use.Count, s.Window.Span()+time.Duration(-s.period)*time.Millisecond); err != nil {
			return err
		}
	}
	due, over := Reached(Marks(s.Budget), told, level)
	if s.Session != "" {
		w.turn(now)
		if w.marks[s.ID] >= sessionMarksPerHour {
			return nil
		}
		w.marks[s.ID] += len(due)
	}
	if len(due) == 0 && len(over) == 0 {
		return nil
	}
	passed := make([]Passed, len(due))
	for i, percent := range due {
		passed[i] = Passed{Due: s.Due, AccountID: s.use.AccountID, Period: s.period, Percent: percent, Amount: f.Amount, Spent: f.Spent, At: now}
		passed[i].From, passed[i].Until = s.Budget.Period(s.at)
	}
	first, err := w.store.Pass(ctx, s.ask.Key, over, passed)
	if err != nil || len(first) == 0 {
		return err
	}
	// One letter is enough for a call that has passed several marks.
	if last := &first[len(first)-1]; w.mayWrite(last, now) {
		w.opts.Tell(ctx, last)
	}
	return nil
}

// turn begins to count anew in each hour.
func (w *Watch) turn(now time.Time) {
	if hour := now.Truncate(time.Hour); !hour.Equal(w.hour) {
		clear(w.letters)
		clear(w.marks)
		w.hour = hour
	}
}

// mayWrite reports whether a letter about a mark may be sent.
func (w *Watch) mayWrite(p *Passed, now time.Time) bool {
	if p.Session == "" {
		return true
	}
	w.turn(now)
	w.letters[p.ID]++
	return w.letters[p.ID] <= lettersPerHour
}
