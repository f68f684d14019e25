package mcpserver

import (
	"context"
	"sync"
)

// call identifies a tool call. The session and the id are chosen by the client.
type call struct{ account, session, id string }

// calls holds the running calls, so that a later request can cancel them. A client that gives up a
// call sends a notification for that and keeps its connection open.
type calls struct {
	// mu guards running. The values are pointers so that two calls of the same name can be told
	// apart.
	mu      sync.Mutex
	running map[call]*context.CancelFunc
}

// begin returns the context of a call and the function that ends it, which must always be called.
// Without a session the call cannot be canceled by name, because the ids of clients that share a
// key would collide.
func (c *calls) begin(ctx context.Context, named call) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	if named.session == "" {
		return ctx, cancel
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[named] = &cancel
	return ctx, func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		// Another call may have taken the same name since.
		if c.running[named] == &cancel {
			delete(c.running, named)
		}
	}
}

// cancel cancels a call if it runs in this process.
func (c *calls) cancel(named call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.running[named]; cancel != nil {
		(*cancel)()
	}
}

// end cancels all calls of a session.
func (c *calls) end(account, session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for named, cancel := range c.running {
		if named.account == account && named.session == session {
			(*cancel)()
		}
	}
}
