package auth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
)

// database is what nodes share: accounts, and how often they were read.
type database struct {
	mu       sync.Mutex
	accounts map[string]*account.Account
	changed  []string // ids, in order
	err      error    // of every read
	frozen   bool     // reads end with their context
	polls    int
	finds    int
}

func (d *database) put(a *account.Account) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.accounts[a.ID] = a
	d.changed = append(d.changed, a.ID)
}

func (d *database) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *database) wait(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen {
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
		return ctx.Err()
	}
	return d.err
}

func (d *database) ChangedSince(ctx context.Context, seq int64) ([]string, int64, error) {
	if err := d.wait(ctx); err != nil {
		return nil, 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.polls++
	return d.changed[seq:], int64(len(d.changed)), nil
}

func (d *database) FindAccount(ctx context.Context, id string) (*account.Account, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finds++
	return d.accounts[id], nil
}

// states are an account's state before and after a change, and its keys before and after. They are made outside
// of bubbles, because a database cannot be used in one.
type states struct {
	was, is *account.Account
	old     string
	fresh   string
}

func change(t *testing.T, do func(w *world, id string) error) states {
	t.Helper()
	w := newWorld(t)
	a, key := w.create(t)
	s := states{was: a, old: key}
	if err := do(w, a.ID); err != nil {
		t.Fatal(err)
	}
	s.is = w.index.Account(a.ID)
	return s
}

func regenerated(t *testing.T) states {
	t.Helper()
	var fresh string
	s := change(t, func(w *world, id string) (err error) {
		fresh, err = w.accounts.RegenerateMaster(t.Context(), "t", id)
		return err
	})
	s.fresh = fresh
	return s
}

// follower is a node that has loaded the account as it was.
type follower struct {
	*auth.Follower
	auth  *auth.Authenticator
	db    *database
	epoch int64
	off   bool
}

func newFollower(s states, withLedger bool) *follower {
	f := &follower{db: &database{accounts: map[string]*account.Account{s.was.ID: s.was}}, epoch: 1}
	index := auth.NewIndex()
	index.Put(s.was)
	opts := &auth.FollowerOptions{Shared: true}
	if withLedger {
		opts.Epoch = func(string) (int64, bool) { return f.epoch, f.off }
	}
	f.Follower = auth.NewFollower(index, f.db, opts)
	f.auth = auth.New(index, "service", f.Follower)
	return f
}

func (f *follower) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx, 0) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func (f *follower) try(t *testing.T, key string) (auth.Caller, error) {
	t.Helper()
	return f.auth.Authenticate(t.Context(), []string{"Bearer " + key}, "192.0.2.1")
}

// A node whose ledger says another epoch reads the account before it goes on, and only once.
func TestConfirm(t *testing.T) {
	t.Parallel()
	s := regenerated(t)
	f := newFollower(s, true)
	c, err := f.try(t, s.old)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Confirm(c, 1, false); err != nil || f.db.finds != 0 {
		t.Errorf("Confirm of what holds = %v after %d reads, want nil after none", err, f.db.finds)
	}
	// An epoch that changed although nothing did, such as after Redis lost its data.
	for range 2 {
		if err := f.Confirm(c, 7, false); err != nil || f.db.finds != 1 {
			t.Errorf("Confirm in a new epoch = %v after %d reads, want nil after one", err, f.db.finds)
		}
	}
	if err := f.Confirm(c, 7, true); !fault.Is(err, fault.KeyDeactivated) {
		t.Errorf("Confirm of an account whose keys are off = %v, want key_deactivated", err)
	}

	f.db.put(s.is)
	f.db.fail(errors.New("away"))
	if err := f.Confirm(c, 8, false); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Confirm of a change that cannot be read = %v, want it unavailable", err)
	}
	f.db.fail(nil)
	for range 2 { // the second time, another request has read it
		if err := f.Confirm(c, 8, false); !errors.Is(err, auth.ErrChanged) {
			t.Errorf("Confirm of a caller whose key was regenerated = %v, want ErrChanged", err)
		}
	}
	if _, err := f.auth.Again(c); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Again = %v, want the key unknown", err)
	}
	// A caller that a session has identified stays who it is.
	if again, err := f.auth.Again(auth.Caller{Account: s.was, KeyID: "page"}); err != nil || again.Account.Version != s.is.Version {
		t.Errorf("Again of a session = %v, want the account as it is now", err)
	}
}

// A key that another node has made, or switched on again, works at once, without waiting for the next poll.
func TestRefusedKeysAreLookedFor(t *testing.T) {
	t.Parallel()
	made, suspended := regenerated(t), change(t, func(w *world, id string) error {
		return second(w.accounts.Suspend(t.Context(), "t", id, "r"))
	})
	for _, withLedger := range []bool{true, false} {
		t.Run(fmt.Sprint("ledger ", withLedger), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFollower(made, withLedger)
				f.run(t)
				f.db.put(made.is)
				start := time.Now()
				if _, err := f.try(t, made.fresh); err != nil {
					t.Errorf("a key that was just made = %v, want it known", err)
				}
				if took := time.Since(start); took > 200*time.Millisecond {
					t.Errorf("finding it took %v", took)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				was, is := *suspended.is, *suspended.was
				is.Version = was.Version + 1
				f := newFollower(states{was: &was}, withLedger)
				f.run(t)
				if _, err := f.try(t, suspended.old); !fault.Is(err, fault.Suspended) {
					t.Errorf("a suspended account = %v, want 423", err)
				}
				f.db.put(&is)
				f.epoch++
				if _, err := f.try(t, suspended.old); err != nil {
					t.Errorf("an account that is no longer suspended = %v, want it let in", err)
				}
			})
		})
	}
}

// However many unknown keys arrive, the database is asked about them a few times a second.
func TestStrangersDoNotPoll(t *testing.T) {
	t.Parallel()
	s, other := regenerated(t), regenerated(t)
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(s, false)
		f.run(t)
		start := time.Now()
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				for time.Since(start) < 5*time.Second {
					if _, err := f.try(t, other.old); !fault.Is(err, fault.Unauthenticated) {
						t.Errorf("an unknown key = %v, want 401", err)
					}
				}
			})
		}
		callers.Wait()
		if f.db.polls > 110 {
			t.Errorf("50 strangers caused %d reads in 5 seconds, want at most 20 a second", f.db.polls)
		}
	})
}

// A database whose connections are frozen delays nobody for long, and after five minutes in which nothing could
// be confirmed requests are refused.
func TestFrozenDatabase(t *testing.T) {
	t.Parallel()
	s, other := regenerated(t), regenerated(t)
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(s, false)
		f.run(t)
		time.Sleep(time.Second) // the bubble's clock
		f.db.mu.Lock()
		f.db.frozen = true
		f.db.mu.Unlock()
		time.Sleep(10 * time.Second) // the bubble's clock
		start := time.Now()
		if _, err := f.try(t, other.old); !fault.Is(err, fault.Unavailable) || time.Since(start) > 0 {
			t.Errorf("a key that another node may have made = %v after %v, want 503 at once", err, time.Since(start))
		}
		c, err := f.try(t, s.old)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Confirm(c, 0, false); err != nil {
			t.Errorf("Confirm after 10 seconds = %v, want what is known", err)
		}
		if found := f.Look(nil); found.Failed || found.Age < 9*time.Second || !strings.Contains(found.Message, "last read 1") {
			t.Errorf("Look after 10 seconds = %+v, want a remark with the age", found)
		}
		time.Sleep(5 * time.Minute) // the bubble's clock
		if err := f.Confirm(c, 0, false); !fault.Is(err, fault.Unavailable) {
			t.Errorf("Confirm after five minutes = %v, want it unavailable", err)
		}
		if err := f.Ready(); err == nil || !strings.Contains(err.Error(), "requests are refused") {
			t.Errorf("Ready after five minutes = %v, want an error", err)
		}
		if found := f.Look(nil); !found.Failed || found.Err == nil || found.Age < 5*time.Minute {
			t.Errorf("Look after five minutes = %+v, want a failure", found)
		}
		if found := f.Look(func() bool { return true }); found.Failed {
			t.Errorf("Look after five minutes with a ledger that confirms every request = %+v", found)
		}
		f.db.mu.Lock()
		f.db.frozen = false
		f.db.mu.Unlock()
		time.Sleep(2 * time.Second) // the bubble's clock
		if err := errors.Join(f.Confirm(c, 0, false), f.Ready()); err != nil {
			t.Errorf("after the database is back: %v", err)
		}
		if _, err := f.try(t, other.old); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("an unknown key after the database is back = %v, want 401", err)
		}
	})
}
