package provider

import (
	"context"
	"sync"
)

// callContext is the context of one call that package plainhttp makes: that of the caller, and the pulse may cancel it. A context of
// package context does the same for a dozen allocations more. Here package plainhttp registers the one function that
// ends the call, and nothing else is needed unless a connection has to be made.
//
// It is a usual context with three states: nothing registered, one hook, or, if somebody asks for
// Done or registers a second function, a full context after that.
type callContext struct {
	context.Context // the caller's

	mu    sync.Mutex
	cause error       // why it was canceled; nil if the caller alone may have done so
	hook  func()      // called when it is canceled; nil: there is none, or it was called
	leave func() bool // removes the hook from the caller's context; nil: it is not there
	hooks int         // how many were registered: the function that removes one must not remove a later one
	// full is a usual context for whoever needs one, and nil before.
	full   context.Context //nolint:containedctx // a part of this one
	cancel context.CancelCauseFunc
}

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whole().Done()
}

// whole returns the usual context. The caller holds mu.
func (c *callContext) whole() context.Context {
	if c.full == nil {
		if c.full, c.cancel = context.WithCancelCause(c.Context); c.cause != nil {
			c.cancel(c.cause)
		}
	}
	return c.full
}

// Err implements context.Context.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return context.Canceled
	}
	return c.Context.Err()
}

// AfterFunc is context.AfterFunc for this context; see plainhttp. Package context calls it, too, for a context that is made
// from this one, and calls the function that it returns twice if that context's deadline passes before it is canceled: a
// connection that cannot be made in time is such a case.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil || c.leave != nil {
		return context.AfterFunc(c.whole(), f)
	}
	c.hook = f
	if caller, ok := c.Context.(interface{ AfterFunc(f func()) func() bool }); ok {
		c.leave = caller.AfterFunc(f)
	} else {
		c.leave = context.AfterFunc(c.Context, f)
	}
	c.hooks++
	number := c.hooks
	return func() bool { return c.forget(number) }
}

// forget removes the hook with that number. It reports false if the hook was called or removed before.
func (c *callContext) forget(number int) bool {
	c.mu.Lock()
	leave, waiting := c.leave, c.hook != nil
	if leave == nil || number != c.hooks {
		c.mu.Unlock()
		return false
	}
	c.hook, c.leave = nil, nil
	c.mu.Unlock()
	return leave() && waiting
}

// end cancels the context; the first cause counts. A nil cause stands for context.Canceled.
// The lock is released first: hook and cancel run code of others.
func (c *callContext) end(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	hook, cancel := c.hook, c.cancel
	c.hook = nil
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
	if hook != nil {
		go hook() // closing a connection with TLS may take a while, and the pulse must not wait
	}
}

// why returns the cause of the cancellation, or nil if there was none.
func (c *callContext) why() error {
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	if cause != nil {
		return cause
	}
	return context.Cause(c.Context)
}
