package lane

import (
	"context"
	"sync"
)

// requestContext is the context of one request. It is canceled when the caller hangs up, when the
// handler returns, and when the server's Base is canceled. The cause is then Base's, which
// context.Cause finds through Value. Contexts are not reused: work that outlives its request may keep one.
type requestContext struct {
	context.Context // the server's Base, with the local address
	mu              sync.Mutex
	done            chan struct{} // made when somebody asks for it
	err             error
	hooks           map[*hook]struct{}
}

// hook is a function to be called when the context is canceled.
type hook struct{ call func() }

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
	h := &hook{call: f}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		go f()
		return func() bool { return false }
	}
	if r.hooks == nil {
		r.hooks = map[*hook]struct{}{}
	}
	r.hooks[h] = struct{}{}
	return func() bool { return r.forget(h) }
}

// forget removes a hook. It reports false if the hook was called or removed before.
func (r *requestContext) forget(h *hook) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.hooks[h]
	delete(r.hooks, h)
	return there
}

// cancel ends the context. It may be called more than once.
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
	hooks := r.hooks
	r.hooks = nil
	r.mu.Unlock()
	for h := range hooks {
		go h.call()
	}
}
