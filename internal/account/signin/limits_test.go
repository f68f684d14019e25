package signin

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
)

// However many people sign in at once, only a few passwords are hashed at a time, because each takes a lot of
// memory. Whoever waits too long gets a 503 that says when to retry.
func TestHashesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(nil)
		var running, done, busy atomic.Int64
		release := make(chan struct{})
		for range 20 {
			go func() {
				err := l.hashing(t.Context(), func() {
					running.Add(1)
					<-release
				})
				switch {
				case err == nil:
					done.Add(1)
				case fault.Is(err, fault.Unavailable) && fault.From(err).RetryAfter > 0:
					busy.Add(1)
				default:
					t.Errorf("hashing = %v, want unavailable and when to retry", err)
				}
			}()
		}
		synctest.Wait()
		if running.Load() != hashesAtOnce {
			t.Errorf("%d passwords are hashed at once, want %d", running.Load(), hashesAtOnce)
		}
		time.Sleep(hashPatience)
		synctest.Wait()
		if busy.Load() != 20-hashesAtOnce {
			t.Errorf("%d were told to come back, want %d", busy.Load(), 20-hashesAtOnce)
		}
		close(release)
		synctest.Wait()
		if done.Load() != hashesAtOnce || len(l.hashes) != 0 {
			t.Errorf("%d were hashed and %d places are taken, want %d and none", done.Load(), len(l.hashes), hashesAtOnce)
		}
	})
}

// Keys have a fixed size, their number is bounded, and they expire.
func TestLimitsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryTries(time.Now)
		m.mostOf = 500
		l, ctx := newLimits(m), t.Context()
		guess := Attempt{keyOf("guess", "ana@example.com"), Limit{5, time.Hour}}
		for range 5 {
			if err := l.try(ctx, guess); err != nil {
				t.Fatal(err)
			}
		}
		// A flood of other keys does not grow without bound, locks nobody out, and does not reset the count.
		for i := range 5000 {
			if err := l.try(ctx, Attempt{keyOf("guess", strings.Repeat("x", 1<<10), fmt.Sprint(i)), Limit{5, time.Hour}}); err != nil {
				t.Fatalf("key %d = %v, want everybody new let in", i, err)
			}
		}
		if len(m.tries) > 500 {
			t.Errorf("%d keys are kept, want at most 500", len(m.tries))
		}
		err := l.try(ctx, guess)
		if !fault.Is(err, fault.RateLimited) || fault.From(err).RetryAfter != time.Hour {
			t.Errorf("the sixth guess after a flood = %v, want too many", err)
		}
		time.Sleep(time.Hour)
		if err := l.try(ctx, guess); err != nil || len(m.tries) != 1 {
			t.Errorf("an hour later: %v and %d keys, want the guess let in and the old keys gone", err, len(m.tries))
		}
	})
	if keyOf("k", "a", "b") == keyOf("k", "ab", "") || keyOf("k", "a") == keyOf("ka") {
		t.Error("different parts have the same key")
	}
}

func TestNetworksAreCounted(t *testing.T) {
	t.Parallel()
	l := newLimits(newMemoryTries(time.Now))
	refused := 0
	for i := range 1000 { // as many networks as one holder of a /48 wants
		if l.try(t.Context(), fromHost("mail", Visit{Remote: fmt.Sprintf("2001:db8:1:%x::1", i)}, Limit{20, time.Hour})...) != nil {
			refused++
		}
	}
	if refused != 1000-20*networkWide {
		t.Errorf("%d attempts of 1000 networks in one were refused, want %d", refused, 1000-20*networkWide)
	}
	for _, remote := range []string{"192.0.2.1", "::ffff:192.0.2.1", "not an address", ""} {
		if got := len(fromHost("mail", Visit{Remote: remote}, Limit{1, time.Hour})); got != 1 {
			t.Errorf("an attempt from %q counts %d times, want once", remote, got)
		}
	}
}
