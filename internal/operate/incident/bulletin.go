package incident

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"sluice/internal/account"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/operate/alert"
)

const (
	// lookEvery is how often a node asks whether others have changed something.
	lookEvery = time.Second
	// readPatience is how long a read may take; what is known is shown meanwhile.
	readPatience = 5 * time.Second
	// Recent is how long the incidents of now include those that have ended.
	Recent = 14 * 24 * time.Hour
	// maxNow is how many incidents of now there are at most.
	maxNow = 100
	// MaxListed is how many incidents one read of the history returns.
	MaxListed = 200
)

// Store keeps incidents and the audit log.
type Store interface {
	// ChangeIncident calls change with the incident that has the id, nil if none has, and with the number of those that
	// have not ended by now. It stores what change returns, with the audit entry and the events, in one transaction that no
	// other change is part of. It changes nothing if change returns an error.
	ChangeIncident(ctx context.Context, id string, now time.Time, change func(have *Incident, open int) (Change, error)) error
	// Incidents returns incidents, those that began last first.
	Incidents(ctx context.Context, q Query) ([]Incident, error)
	// IncidentsVersion returns the number of the last change.
	IncidentsVersion(ctx context.Context) (int64, error)
}

// Change is what a change does. If Next is nil, the incident is deleted.
type Change struct {
	Next   *Incident
	Entry  account.Entry
	Events []alert.Event
}

// Query chooses incidents. Fields that are zero leave nothing out.
type Query struct {
	ID string
	// After is the id of the last incident of the page before.
	After string
	// From and Until bound when they began, and EndedAfter when they ended, if they did.
	From, Until, EndedAfter time.Time
	Limit                   int
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Shared says that other processes may change incidents in the same database: Run then asks for changes.
	Shared bool
	// Tell makes other nodes read incidents at once; nil: there is nobody to tell.
	Tell func(ctx context.Context) error
	// Origin returns the URL of the service without a path, for what is sent. Default: none.
	Origin func() string
	Now    func() time.Time // default time.Now
	Log    *slog.Logger     // default slog.Default()
}

// Bulletin changes incidents, and has those of now. It is safe for concurrent use.
type Bulletin struct {
	store   Store
	opts    Options
	current atomic.Pointer[[]Incident] // never nil
	wake    chan struct{}              // makes Run read at once; holds at most one token

	mu      sync.Mutex // held while incidents are read and taken over
	version int64      // of current; -1 before the first read

	reading health.Trouble
}

// New returns a Bulletin without incidents; Read reads them. Opts may be nil.
func New(store Store, opts *Options) *Bulletin {
	b := &Bulletin{store: store, wake: make(chan struct{}, 1), version: -1}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Now == nil {
		b.opts.Now = time.Now
	}
	if b.opts.Log == nil {
		b.opts.Log = slog.Default()
	}
	if b.opts.Origin == nil {
		b.opts.Origin = func() string { return "" }
	}
	b.current.Store(&[]Incident{})
	return b
}

// now returns the time as it is stored.
func (b *Bulletin) now() time.Time { return b.opts.Now().UTC().Truncate(time.Millisecond) }

// Current returns the incidents that have not ended, and those that have in the last two weeks, the latest first. The
// caller must not change them.
func (b *Bulletin) Current() []Incident { return *b.current.Load() }

// Open makes an incident with its first text. A Status, From or Severity that is empty stands for the usual one. Unless
// quiet, those who subscribe are told.
func (b *Bulletin) Open(ctx context.Context, actor string, i Incident, text string, quiet bool) (Incident, error) {
	now := b.now()
	if i.Kind == "" {
		i.Kind = Outage
	}
	if i.Kind == Outage && i.Severity == "" {
		i.Severity = Minor
	}
	if i.From.IsZero() {
		i.From = now
	}
	i.Updates = nil
	i.ID = newID("inc_")
	if i.Status == "" {
		i.Status = Statuses(i.Kind)[0]
	}
	text = plain(text)
	return b.put(ctx, i.ID, func(_ *Incident, open int) (Change, error) {
		if open >= MaxOpen {
			return Change{}, fault.New(fault.Conflict, "there are %d incidents that have not ended, which is the limit; resolve one first", open)
		}
		return b.next(&i, now, actor, "incident.open", alert.IncidentOpened, text, quiet)
	})
}

// Update adds a text to an incident and, unless status is empty, gives it another status. It resolves the incident if the
// status is the last one. Unless quiet, those who subscribe are told.
func (b *Bulletin) Update(ctx context.Context, actor, id string, status Status, text string, quiet bool) (Incident, error) {
	now := b.now()
	text = plain(text)
	return b.change(ctx, id, func(have *Incident) (Change, error) {
		i := have.clone()
		if len(i.Updates) >= MaxUpdates {
			return Change{}, fault.New(fault.Conflict, "the incident has %d updates, which is the limit; open another one", len(i.Updates))
		}
		if status == "" {
			status = i.At(now)
		}
		i.Status = status
		return b.next(i, now, actor, "incident.update", alert.IncidentUpdated, text, quiet)
	})
}

// next returns the change that adds an update with the incident's status.
func (b *Bulletin) next(i *Incident, now time.Time, actor, action string, event alert.Type, text string, quiet bool) (Change, error) {
	if !slices.Contains(Statuses(i.Kind), i.Status) {
		return Change{}, fault.New(fault.Invalid, "%q is not a status of %s; use one of %v", excerpt.Of(string(i.Status), MaxName), i.Kind, Statuses(i.Kind)).At("status")
	}
	if err := checkText(text); err != nil {
		return Change{}, err
	}
	switch {
	case i.Status.ends():
		if i.Until.IsZero() || i.Until.After(now) {
			i.Until = now
		}
		if !i.From.Before(i.Until) { // planned work that was called off, or an incident that is told of when it is over
			i.From = i.Until.Add(-time.Millisecond)
		}
		event = alert.IncidentResolved
	case i.Kind == Outage:
		i.Until = time.Time{} // it is open again
	case i.Status == InProgress && i.From.After(now): // it begins earlier than planned
		i.From = now
	}
	if err := i.check(now); err != nil {
		return Change{}, err
	}
	u := Update{ID: newID("upd_"), At: now, Status: i.Status, Text: text, Actor: actor}
	i.Updates = append(i.Updates, u)
	i.ChangedAt = now
	c := Change{Next: i, Entry: account.Entry{At: now, Actor: actor, Action: action, Detail: i.detail()}}
	if !quiet {
		c.Events = []alert.Event{i.event(event, &u, b.opts.Origin())}
	}
	return c, nil
}

// Edit is what Bulletin.Edit changes. What is nil stays as it is.
type Edit struct {
	Title, Postmortem *string
	Severity          *Severity
	Components        *[]Component
	Models            *[]string
	From, Until       *time.Time
	// Update is the id of an update whose text changes to Text.
	Update, Text string
}

// Edit corrects an incident. Nobody is told.
func (b *Bulletin) Edit(ctx context.Context, actor, id string, e Edit) (Incident, error) {
	now := b.now()
	return b.change(ctx, id, func(have *Incident) (Change, error) {
		i := have.clone()
		set(&i.Title, e.Title)
		set(&i.Postmortem, e.Postmortem)
		set(&i.Severity, e.Severity)
		set(&i.Components, e.Components)
		set(&i.Models, e.Models)
		set(&i.From, e.From)
		set(&i.Until, e.Until)
		if e.Update != "" {
			n := slices.IndexFunc(i.Updates, func(u Update) bool { return u.ID == e.Update })
			if n < 0 {
				return Change{}, fault.New(fault.NotFound, "the incident has no update %q", excerpt.Of(e.Update, MaxName)).At("update")
			}
			text := plain(e.Text)
			if err := checkText(text); err != nil {
				return Change{}, err
			}
			i.Updates[n].Text, i.Updates[n].EditedAt = text, now
		}
		if err := i.check(now); err != nil {
			return Change{}, err
		}
		i.ChangedAt = now
		return Change{Next: i, Entry: account.Entry{At: now, Actor: actor, Action: "incident.edit", Detail: i.detail()}}, nil
	})
}

// set changes a field, unless the value is nil.
func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// Delete removes an incident that was opened by mistake, and returns it. What was sent about it cannot be taken back.
func (b *Bulletin) Delete(ctx context.Context, actor, id, reason string) (deleted Incident, err error) {
	if n := utf8.RuneCountInString(reason); n > MaxText {
		return deleted, fault.New(fault.Invalid, "the reason has %d characters, and the limit is %d", n, MaxText).At("reason")
	}
	now := b.now()
	_, err = b.change(ctx, id, func(have *Incident) (Change, error) {
		deleted = *have
		return Change{Entry: account.Entry{At: now, Actor: actor, Action: "incident.delete", Detail: have.detail(), Reason: plain(reason)}}, nil
	})
	return deleted, err
}

// change changes an incident that is there.
func (b *Bulletin) change(ctx context.Context, id string, change func(have *Incident) (Change, error)) (Incident, error) {
	return b.put(ctx, id, func(have *Incident, _ int) (Change, error) {
		if have == nil {
			return Change{}, missing(id)
		}
		return change(have)
	})
}

// put changes an incident, or makes one, in the store, here, and on the other nodes.
func (b *Bulletin) put(ctx context.Context, id string, change func(have *Incident, open int) (Change, error)) (changed Incident, err error) {
	err = b.store.ChangeIncident(ctx, id, b.now(), func(have *Incident, open int) (Change, error) {
		c, err := change(have, open)
		if err == nil && c.Next != nil {
			changed = *c.Next
		}
		return c, err
	})
	if err != nil {
		return changed, err
	}
	if err := b.Read(ctx); err != nil {
		return changed, fault.New(fault.Unavailable, "the change is stored, but this server could not read it again yet; it follows within seconds").Because(err)
	}
	if b.opts.Tell != nil {
		if err := b.opts.Tell(ctx); err != nil {
			b.opts.Log.Warn("other nodes could not be told of a change of an incident; they notice within a second", "error", err.Error())
		}
	}
	return changed, nil
}

// missing is the fault of an id that no incident has.
func missing(id string) error {
	return fault.New(fault.NotFound, "there is no incident %q", excerpt.Of(id, MaxName))
}

// Find returns an incident by its id.
func (b *Bulletin) Find(ctx context.Context, id string) (*Incident, error) {
	list, err := b.store.Incidents(ctx, Query{ID: id, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, missing(id)
	}
	return &list[0], nil
}

// List returns incidents of any time, those that began last first.
func (b *Bulletin) List(ctx context.Context, q Query) ([]Incident, error) {
	return b.store.Incidents(ctx, q)
}

// Read reads the incidents of now from the store.
func (b *Bulletin) Read(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	// The version is read first: a change in between is then read twice and not missed.
	version, err := b.store.IncidentsVersion(ctx)
	if err != nil {
		return err
	}
	list, err := b.store.Incidents(ctx, Query{EndedAfter: b.now().Add(-Recent), Limit: maxNow})
	if err != nil {
		return err
	}
	b.version = version
	b.current.Store(&list)
	return nil
}

// Nudge makes Run read the incidents at once.
func (b *Bulletin) Nudge() { pace.Wake(b.wake) }

// Run follows the changes that other nodes make, until ctx ends. While the database is away, what is known is shown.
func (b *Bulletin) Run(ctx context.Context) {
	for range pace.Woken(ctx, lookEvery, b.wake) {
		if !b.opts.Shared {
			continue
		}
		err := b.readNew(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.reading.Failed(b.opts.Log, "the incidents could not be read; those that are known are shown", err)
		} else {
			b.reading.Works(b.opts.Log, "the incidents are read again")
		}
	}
}

// readNew reads the incidents if there has been a change.
func (b *Bulletin) readNew(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	version, err := b.store.IncidentsVersion(asking)
	if err != nil {
		return err
	}
	b.mu.Lock()
	known := b.version
	b.mu.Unlock()
	if version == known {
		return nil
	}
	return b.Read(ctx)
}

// newID returns an id with a prefix.
func newID(prefix string) string {
	var b [8]byte
	rand.Read(b[:]) // crypto/rand never fails
	return prefix + hex.EncodeToString(b[:])
}
