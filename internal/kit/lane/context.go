package lane

import (
	"context"
	"sync"
)

// requestContext is the context of one request. It is canceled when the caller hangs up, when the
// handler returns, and when the server's Base is canceled. The cause is then Base's, which
// context.Cause finds through Value. Contexts are not reused: work that outlives its request may keep one.
//
// It costs less than context.WithCancel: no parent keeps a list of its children, and the channel is
// made only if somebody asks for it.
type requestContext struct {
	context.Context // the server's Base, with the local address
	mu              sync.Mutex
	done            chan struct{} // made when somebody asks for it
	err             error
	hooks           *hook // the last one; each knows its neighbors
}

// hook is a function to be called when the context is canceled. Usually there is one, for the upstream's
// connection, and a list costs less than a map.
type hook struct {
	of           *requestContext
	call         func()
	before, next *hook
	there        bool // in the list
}

// Done implements context.Context.
func (r *requestContext) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.err != nil {
			close(r.done)
		}
	}
	return r.done
}

// Err implements context.Context.
func (r *requestContext) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// AfterFunc is how package context derives contexts from one of another package without a
// goroutine. f runs in its own goroutine.
func (r *requestContext) AfterFunc(f func()) func() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		go f()
		return func() bool { return false }
	}
	h := &hook{of: r, call: f, before: r.hooks, there: true}
	if h.before != nil {
		h.before.next = h
	}
	r.hooks = h
	return h.forget
}

// forget removes a hook. It reports false if the hook was called or removed before.
func (h *hook) forget() bool {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	if !h.there {
		return false
	}
	h.there = false
	if h.before != nil {
		h.before.next = h.next
	}
	if h.next != nil {
		h.next.before = h.before
	} else {
		h.of.hooks = h.before
	}
	return true
}

// cancel ends the context. It may be called more than once.
// The hooks run in their own goroutines, as AfterFunc promises.
func (r *requestContext) cancel() {
	r.mu.Lock()
	if r.err != nil {
		r.mu.Unlock()
		return
	}
	r.err = context.Canceled
	if r.done != nil {
		close(r.done)
	}
	for h := r.hooks; h != nil; h = h.before {
		h.there = false
		go h.call()
	}
	r.hooks = nil
	r.mu.Unlock()
}
