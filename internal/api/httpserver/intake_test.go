package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/health"
)

// fakeLeaf is a door leaf of a test.
type fakeLeaf struct {
	isShut atomic.Bool
	moves  atomic.Int64
	stuck  atomic.Bool
}

func (l *fakeLeaf) shut() { l.isShut.Store(true); l.moves.Add(1) }

func (l *fakeLeaf) open() error {
	if l.stuck.Load() {
		return errors.New("stuck")
	}
	l.isShut.Store(false)
	l.moves.Add(1)
	return nil
}

// The door shuts at the first refused call if others are there, opens when calls have been possible for a while, does
// not flap, and never shuts out the callers of the last server.
func TestDoor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var unable, others atomic.Bool
		l := &fakeLeaf{}
		d := NewIntake(func() (health.Result, bool) { return health.Result{Name: "journal"}, unable.Load() }, others.Load, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go d.run(ctx, l)
		after := func(wait time.Duration, shut bool, what string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if l.isShut.Load() != shut {
				t.Fatalf("%s: shut is %v, want %v", what, l.isShut.Load(), shut)
			}
		}
		unable.Store(true)
		d.Nudge()
		after(time.Minute, false, "alone")
		others.Store(true)
		after(lookEvery, true, "with others, without a call")
		unable.Store(false)
		after(backAfter/2, true, "able for a moment")
		unable.Store(true)
		after(lookEvery, true, "unable again")
		unable.Store(false)
		after(backAfter-lookEvery, true, "able, and not for long enough since")
		after(3*lookEvery, false, "able")
		unable.Store(true)
		d.Nudge()
		after(0, true, "a refused call")
		others.Store(false)
		after(lookEvery, false, "the others have gone: a 503 with a reason is better than nothing")
		others.Store(true)
		after(lookEvery, true, "with others again")
		l.stuck.Store(true)
		unable.Store(false)
		after(2*backAfter, true, "a port that cannot be opened")
		l.stuck.Store(false)
		after(lookEvery, false, "and then can")
		if n := l.moves.Load(); n != 6 {
			t.Errorf("the door moved %d times, want 6", n)
		}
	})
}
