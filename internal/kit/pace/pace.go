// Package pace waits: once, or again and again at the pace of a ticker, until a context ends.
//
// A loop that does something from time to time is a for statement over Every, AtOnce or Woken, so that its body may
// return and break as usual. What waits for something else as well has a select of its own.
package pace

import (
	"context"
	"iter"
	"time"
)

// Every yields after each d until ctx ends. If the body of the loop takes longer than d, ticks are left out.
func Every(ctx context.Context, d time.Duration) iter.Seq[bool] { return Woken(ctx, d, nil) }

// AtOnce is Every, but yields at once for the first time.
func AtOnce(ctx context.Context, d time.Duration) iter.Seq[bool] {
	return func(yield func(bool) bool) {
		if ctx.Err() == nil && yield(false) {
			Every(ctx, d)(yield)
		}
	}
}

// Woken is Every, but also yields when wake has something; the value says which of both it was.
func Woken(ctx context.Context, d time.Duration, wake <-chan struct{}) iter.Seq[bool] {
	return func(yield func(woken bool) bool) {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			woken := false
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-wake:
				woken = true
			}
			if !yield(woken) {
				return
			}
		}
	}
}

// Wake makes a loop over Woken run once more: it puts a token into wake, which has room for one, unless there is one.
func Wake(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it will
	}
}

// Sleep waits for d. It returns the cause if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
