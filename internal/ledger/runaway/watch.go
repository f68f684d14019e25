package runaway

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/price"
)

const (
	// LookEvery is how often what was seen is looked at.
	LookEvery = 5 * time.Second
	// patience is how long a look at one signal may take.
	patience = 10 * time.Second
	// tellEvery is how often people are told of a signal of a key, unless somebody has resumed the key since.
	tellEvery = time.Hour
)

// Store is what a Watch reads and keeps.
type Store interface {
	// Spent returns what the calls of a key cost that began since a time.
	Spent(ctx context.Context, accountID, keyID string, since time.Time) (price.Nano, error)
	// Past returns what a key and all keys of its account have spent in the hours from a time until another one.
	Past(ctx context.Context, accountID, keyID string, from, until time.Time) (key, all Past, err error)
	// NoteAlarm notes an alarm with the event that tells of it, unless one of its signal and key was noted after a time; one of a pause
	// is also noted after one that was none. It reports whether it did.
	NoteAlarm(ctx context.Context, a *Alarm, since time.Time) (bool, error)
}

// Accounts pauses keys; *account.Accounts does.
type Accounts interface {
	PauseKey(ctx context.Context, actor, ref string, p account.PausedKey) (*account.Account, error)
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Tell tells the owner of an account of an alarm. Default: events alone do.
	Tell func(ctx context.Context, a *Alarm)
	// Nodes returns how many servers there are. Default: this one alone.
	Nodes func() int
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Log gets what went wrong. Default: no log.
	Log *slog.Logger
}

// actor is who pauses keys, for the audit log.
const actor = "runaway watch"

// Watch is what a server knows of calls that may be those of a program that runs away. It is safe for concurrent use.
type Watch struct {
	store    Store
	accounts Accounts
	find     func(id string) *account.Account
	opts     Options
	seed     maphash.Seed
	parts    [shards]part
	looking  health.Trouble

	mu   sync.Mutex
	seen map[spot]sighting
}

// New returns a Watch. find returns the current state of an account, or nil if there is none. Opts may be nil.
func New(store Store, accounts Accounts, find func(id string) *account.Account, opts *Options) *Watch {
	w := &Watch{store: store, accounts: accounts, find: find, seed: maphash.MakeSeed(), seen: map[spot]sighting{}}
	if opts != nil {
		w.opts = *opts
	}
	if w.opts.Tell == nil {
		w.opts.Tell = func(context.Context, *Alarm) {}
	}
	if w.opts.Nodes == nil {
		w.opts.Nodes = func() int { return 1 }
	}
	if w.opts.Now == nil {
		w.opts.Now = time.Now
	}
	if w.opts.Log == nil {
		w.opts.Log = slog.New(slog.DiscardHandler)
	}
	return w
}

// Run looks at what was seen until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for range pace.Every(ctx, LookEvery) {
		w.Look(ctx)
	}
}

// Look tells of what was seen since the last look, and pauses keys. What fails is looked at again.
func (w *Watch) Look(ctx context.Context) {
	w.mu.Lock()
	seen := w.seen
	w.seen = map[spot]sighting{}
	w.mu.Unlock()
	if len(seen) == 0 {
		return
	}
	var failed error
	for at, s := range seen {
		if err := w.examine(ctx, at, s); err != nil {
			failed = err
			w.keep(at, s)
		}
	}
	switch {
	case failed == nil:
		w.looking.Works(w.opts.Log, "programs that run away are looked at again")
	case ctx.Err() == nil:
		w.looking.Failed(w.opts.Log, "programs that seem to run away could not be looked at", failed)
	}
}

// keep keeps what was seen for the next look, unless it was seen again.
func (w *Watch) keep(at spot, s sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := w.seen[at]; !again && len(w.seen) < mostSeen {
		w.seen[at] = s
	}
}

// examine looks at what was seen of a key.
func (w *Watch) examine(ctx context.Context, at spot, s sighting) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := w.find(at.accountID)
	if a == nil {
		return nil
	}
	key, action, resumed := a.Key(at.keyID), a.Runaway.Action(), a.Runaway.ResumedAt(at.keyID)
	if key == nil || action == account.Off || a.Runaway.Pause(at.keyID) != nil || !s.at.After(resumed) {
		return nil
	}
	if at.signal == SpendRate {
		var err error
		if s.seen, err = w.spending(ctx, a, at.keyID, resumed); err != nil || s.seen == "" {
			return err
		}
	}
	alarm := &Alarm{AccountID: a.ID, Key: *key, Signal: at.signal, Seen: s.seen, At: s.at, Paused: action == account.Pause}
	since := s.at.Add(-tellEvery)
	if resumed.After(since) {
		since = resumed
	}
	first, err := w.store.NoteAlarm(ctx, alarm, since)
	if err != nil {
		return err
	}
	if alarm.Paused {
		_, err = w.accounts.PauseKey(ctx, actor, a.ID, account.PausedKey{KeyID: key.ID, At: s.at, Signal: string(at.signal), Seen: s.seen})
	}
	if first { // also if the key could not be paused: the next look does it
		w.opts.Tell(ctx, alarm)
	}
	return err
}

// spending returns what is seen of what a key spends on all servers; empty: it is no signal.
func (w *Watch) spending(ctx context.Context, a *account.Account, keyID string, resumed time.Time) (string, error) {
	now := w.opts.Now()
	busiest, known := w.believed(keyID, now)
	if !known {
		// Not the hours that the span is in: a key is not usual because it has just begun.
		key, all, err := w.store.Past(ctx, a.ID, keyID, now.Add(-past).Truncate(time.Hour), now.Add(-span).Truncate(time.Hour))
		if err != nil {
			return "", err
		}
		busiest = usual(key, all, now)
		w.learn(keyID, busiest, now)
	}
	since := now.Add(-span)
	if resumed.After(since) {
		since = resumed.Add(time.Millisecond) // what runs at the instant is no reason to pause again
	}
	spent, err := w.store.Spent(ctx, a.ID, keyID, since)
	if err != nil {
		return "", err
	}
	return spends(spent, busiest, a.Runaway.Times()), nil
}
