package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/kit/telemetry"
)

const (
	followEvery = 500 * time.Millisecond // how often the changes of other nodes are read
	followGap   = 50 * time.Millisecond  // the shortest time between two reads that somebody waits for
	readTimeout = time.Second            // how long one read may take
	// trustFor is how long a node goes by what it knows while neither the ledger nor the database can say
	// whether that still holds.
	trustFor = 5 * time.Minute
	// staleAfter is how old what the index knows may be before operators are told.
	staleAfter = 5 * time.Second
	// unrevoked is the epoch of an account of which the shared ledger knows no change.
	unrevoked = 1
)

// ErrChanged means that the account of a request has changed since the request was authenticated. Whoever
// gets it asks Authenticator.Again for the account as it is now, and decides again.
var ErrChanged = errors.New("the account has changed")

// Changes reads the audit log. Every change of an account has an entry there, and the entries are
// numbered in the order of commit: whoever has seen a number has missed no entry before it.
type Changes interface {
	// ChangedSince returns the ids of the accounts that have entries after the number seq, and the
	// newest number.
	ChangedSince(ctx context.Context, seq int64) (ids []string, newest int64, err error)
	FindAccount(ctx context.Context, ref string) (*account.Account, error)
}

// FollowerOptions are the choices of NewFollower; the zero value is the default.
type FollowerOptions struct {
	// Epoch returns the epoch of an account, and whether abuse control has just switched its keys off,
	// from a ledger that all nodes share; see admission.Headroom. 0 means that the ledger cannot say. Nil:
	// there is no such ledger.
	Epoch func(accountID string) (epoch int64, deactivated bool)
	// Shared says that other nodes serve the same accounts. Then a key that is not known is looked for
	// among the latest changes before it is refused, and the index is trusted for a limited time while
	// nothing can confirm it; see trustFor.
	Shared bool
	// Revoke and Publish tell other nodes that an account has changed; see Announce. Revoke tells those that reach the
	// shared ledger, and Publish sends a message. Nil: there is no such way.
	Revoke, Publish func(ctx context.Context, accountID string) error
	// Log gets a line when changes stop arriving and when they arrive again. Default: no log.
	Log *slog.Logger
}

// Follower keeps an index true on a database that other nodes change, too.
//
// There are three ways in which it learns of a change, each for the case that the one before fails. A ledger
// that all nodes share gives each account an epoch, which changes before a change is confirmed: Confirm
// compares it in every request, so a node that asks the ledger never acts on what was revoked. Nudge makes
// it read changes at once, when a message says that there are some. And Run reads them twice a second.
type Follower struct {
	index *Index
	store Changes
	opts  FollowerOptions

	wake   chan struct{} // of size 1; makes Run read at once
	synced atomic.Int64  // when the last successful read began, in nanoseconds since started
	failed atomic.Bool   // the last read failed

	started time.Time
	reads   singleflight.Group // of single accounts, by id and epoch

	mu      sync.Mutex
	waiting chan struct{} // closed after the next read that has not begun yet; nil: nobody waits for it
}

// NewFollower returns a follower of an index that is complete up to now. Opts may be nil.
func NewFollower(index *Index, store Changes, opts *FollowerOptions) *Follower {
	f := &Follower{index: index, store: store, wake: make(chan struct{}, 1), started: time.Now()}
	if opts != nil {
		f.opts = *opts
	}
	if f.opts.Log == nil {
		f.opts.Log = slog.New(slog.DiscardHandler)
	}
	return f
}

// Run puts the changes that other processes make into the index, until ctx ends. seen is the number of an
// audit entry up to which the index is complete. While the database is down, the index keeps its last
// state, and Run catches up afterwards.
func (f *Follower) Run(ctx context.Context, seen int64) {
	for range pace.Woken(ctx, followEvery, f.wake) {
		seen = f.read(ctx, seen)
		// A stranger with made-up keys must not make the database busy.
		if pace.Sleep(ctx, followGap) != nil {
			return
		}
	}
}

// read reads changes once, within its time, and releases those who waited for it. It returns the number up
// to which the index is complete.
func (f *Follower) read(ctx context.Context, seen int64) int64 {
	f.mu.Lock()
	waiting := f.waiting
	f.waiting = nil
	f.mu.Unlock()
	if waiting != nil {
		defer close(waiting)
	}
	began := time.Since(f.started)
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	next, err := f.index.followOnce(reading, f.store, seen)
	if ctx.Err() != nil {
		return seen
	}
	if err == nil {
		f.synced.Store(int64(began))
	}
	if was := f.failed.Swap(err != nil); was != (err != nil) { // log only when it changes
		if was {
			f.opts.Log.Info("changes made by other nodes arrive again")
		} else {
			f.opts.Log.Warn("changes made by other nodes do not arrive", "error", err.Error())
		}
	}
	return next
}

// Nudge makes Run read changes at once.
func (f *Follower) Nudge() { pace.Wake(f.wake) }

// Topic is that of the messages between nodes about changed accounts.
const Topic = "accounts"

// Announce tells other nodes that an account has changed, before the change is confirmed: through the shared ledger, so
// that every node that reaches it reads the account before its next decision, and by a message, for those that do not.
// Nodes that get neither read the changes twice a second.
func (f *Follower) Announce(accountID string) {
	for _, way := range []struct {
		tell    func(context.Context, string) error
		warning string
	}{
		{f.opts.Revoke, "Redis could not be told that an account has changed; other nodes read it from the database"},
		{f.opts.Publish, "other nodes could not be told that an account has changed; they notice within a second"},
	} {
		if way.tell == nil {
			continue
		}
		if err := way.tell(context.Background(), accountID); err != nil {
			f.opts.Log.Warn(way.warning, "account_id", accountID, "error", err.Error())
		}
	}
}

// AddMetrics adds the metric of the age.
func (f *Follower) AddMetrics(m *telemetry.Metrics) {
	telemetry.Gauge(m, "sluice_accounts_age_seconds", "Seconds since the changes of accounts by other processes were read.", func() int64 { return int64(f.Age().Seconds()) })
}

// Age returns how old what the index knows may be, as far as the database was asked.
func (f *Follower) Age() time.Duration {
	return time.Since(f.started) - time.Duration(f.synced.Load())
}

// Ready returns an error if the database has not been read for so long that requests are refused unless the
// shared ledger confirms them.
func (f *Follower) Ready() error {
	if age := f.Age(); f.opts.Shared && age > trustFor {
		return fmt.Errorf("changes by other nodes were last read %s ago, so requests are refused", age.Round(time.Second))
	}
	return nil
}

// Look says how old what the index knows is. Current reports whether the shared ledger confirms it in every request;
// nil means that there is none.
func (f *Follower) Look(current func() bool) (found health.Finding) {
	found.Age = f.Age()
	if current != nil && current() {
		return found // the epochs say what has changed
	}
	if err := f.Ready(); err != nil {
		found.Failed, found.Err, found.Message = true, err, err.Error()
	} else if found.Age > staleAfter {
		found.Message = fmt.Sprintf("changes by other nodes were last read %s ago", found.Age.Round(time.Second))
	}
	return found
}

// sync waits until the changes that are committed now are in the index, and reports whether they are. It does not wait
// for a database that does not answer.
func (f *Follower) sync(ctx context.Context) bool {
	if f.failed.Load() {
		return false
	}
	f.mu.Lock()
	if f.waiting == nil {
		f.waiting = make(chan struct{})
	}
	waiting := f.waiting
	f.mu.Unlock()
	f.Nudge()
	timer := time.NewTimer(2 * readTimeout) // Run may be in the middle of a read
	defer timer.Stop()
	select {
	case <-waiting:
		return !f.failed.Load()
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Confirm returns nil if what the caller was authenticated by still holds in an epoch. It returns ErrChanged
// if not, a fault of kind KeyDeactivated if abuse control has just switched the account's keys off, and one
// of kind Unavailable if nobody can say. It reads the account again if the epoch is another than that of
// what the index knows.
func (f *Follower) Confirm(c Caller, epoch int64, deactivated bool) error {
	h := c.holder
	if h == nil { // identified by a session
		if h = f.index.holder(c.Account.ID); h == nil {
			return ErrChanged
		}
	}
	switch {
	case deactivated:
		return keysOff()
	case epoch == 0:
		if f.Ready() != nil {
			return fault.New(fault.Unavailable, "Whether this key is still valid cannot be checked at the moment. Try again shortly.").After(5 * time.Second)
		}
	case h.epoch.Load() == epoch:
	case epoch == unrevoked && h.epoch.CompareAndSwap(0, unrevoked):
		// The first request of the account on this node. What was loaded at the start holds.
	default:
		if err := f.reread(c.Account.ID, h, epoch); err != nil {
			return err
		}
	}
	// Another request may have put a newer state into the index since this one was authenticated.
	if now := f.index.current(h.number).account; now != c.Account && (now.Version != c.Account.Version || (now.Deactivated == nil) != (c.Account.Deactivated == nil)) {
		return ErrChanged
	}
	return nil
}

// reread reads an account whose epoch has changed. Requests that find out at the same time share one read.
func (f *Follower) reread(accountID string, h *holder, epoch int64) error {
	_, err, _ := f.reads.Do(accountID+"/"+time.Duration(epoch).String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		a, err := f.store.FindAccount(ctx, accountID)
		if err != nil {
			return nil, err
		}
		f.index.Put(a)
		h.epoch.Store(epoch)
		return nil, nil
	})
	if err != nil {
		return fault.New(fault.Unavailable, "This account was changed, and the change cannot be read at the moment. Try again shortly.").After(time.Second).Because(err)
	}
	return nil
}

// followOnce reads the changes after the entry seen. It returns the number up to which the index is
// complete then. After an error that is still seen: the next try reads all of them again, and Put
// ignores those that have arrived.
func (ix *Index) followOnce(ctx context.Context, store Changes, seen int64) (int64, error) {
	ids, newest, err := store.ChangedSince(ctx, seen)
	if err != nil {
		return seen, err
	}
	for _, id := range ids {
		changed, err := store.FindAccount(ctx, id)
		if err != nil {
			return seen, err
		}
		ix.Put(changed)
	}
	return newest, nil
}

// refresh makes the index current about a caller that is refused, and reports whether it is. The holder of c is nil if
// its key is not known at all.
func (f *Follower) refresh(ctx context.Context, c Caller) bool {
	if !f.opts.Shared {
		return true
	}
	if c.holder != nil && f.opts.Epoch != nil {
		if epoch, deactivated := f.opts.Epoch(c.Account.ID); epoch != 0 {
			_ = f.Confirm(c, epoch, deactivated) // reads the account again if it has changed
			return true
		}
	}
	return f.sync(ctx)
}
