package provider

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A hook is called once, by whoever cancels first, and never after it was removed.
func TestCallContext(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	for _, tt := range []struct {
		name    string
		cancel  func(c *callContext, caller context.CancelCauseFunc)
		removed bool // before
		called  bool
		cause   error
	}{
		{"nobody", func(*callContext, context.CancelCauseFunc) {}, false, false, nil},
		{"the caller", func(_ *callContext, caller context.CancelCauseFunc) { caller(why) }, false, true, why},
		{"the pulse", func(c *callContext, _ context.CancelCauseFunc) { c.end(why) }, false, true, why},
		{"the end", func(c *callContext, _ context.CancelCauseFunc) { c.end(nil) }, false, true, context.Canceled},
		{"the caller, too late", func(_ *callContext, caller context.CancelCauseFunc) { caller(why) }, true, false, why},
		{"the pulse, too late", func(c *callContext, _ context.CancelCauseFunc) { c.end(why); c.end(nil) }, true, false, why},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			parent, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c := &callContext{Context: parent}
			called := make(chan struct{}, 2)
			stop := c.AfterFunc(func() { called <- struct{}{} })
			if tt.removed && !stop() {
				t.Error("stop() = false, want that nobody has called the hook")
			}
			tt.cancel(c, cancel)
			if tt.called {
				<-called
			}
			if (c.Err() != nil) != (tt.cause != nil) || !errors.Is(c.why(), tt.cause) {
				t.Errorf("Err() = %v and why() = %v, want %v", c.Err(), c.why(), tt.cause)
			}
			if !tt.removed && stop() == tt.called {
				t.Errorf("stop() = %t after %s", !tt.called, tt.name)
			}
			// Whoever needs more than a hook gets it, also afterwards.
			other, leave := context.WithCancel(c)
			defer leave()
			if tt.cause != nil {
				<-c.Done()
				<-other.Done()
			} else if other.Err() != nil {
				t.Errorf("a context of it is canceled: %v", other.Err())
			}
			if len(called) > 0 {
				t.Error("the hook was called twice, or after it was removed")
			}
			c.end(nil)
			<-other.Done()
		})
	}
}

// Package context removes what it registered twice if a deadline passes before its context is canceled, as that of a
// connection that cannot be made in time.
func TestCallContextWithDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &callContext{Context: t.Context()}
		late, cancel := context.WithTimeout(c, time.Second)
		<-late.Done()
		synctest.Wait() // removed for the first time
		called := make(chan struct{})
		stop := c.AfterFunc(func() { close(called) })
		cancel() // removed for the second time
		if !errors.Is(late.Err(), context.DeadlineExceeded) {
			t.Errorf("Err() = %v, want that the deadline has passed", late.Err())
		}
		c.end(nil) // the other hook is still there
		<-called
		if stop() {
			t.Error("stop() = true after the hook was called")
		}
	})
}
