package mcpserver

import (
	"context"
	"sync"
)

// call is a call of a tool, as its client names it.
type call struct{ account, session, id string }

// calls are those that run, so that a later request can cancel them: a client that gives up a call says
// so, and keeps its connection.
type calls struct {
	mu      sync.Mutex
	running map[call]*context.CancelFunc
}

// begin returns the context of a call; end it in any case. Without a session there are no names: ids of
// clients that share a key would be confused.
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
		if c.running[named] == &cancel {
			delete(c.running, named)
		}
	}
}

// cancel ends a call, if it runs here.
func (c *calls) cancel(named call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.running[named]; cancel != nil {
		(*cancel)()
	}
}

// end ends all calls of a session.
func (c *calls) end(account, session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for named, cancel := range c.running {
		if named.account == account && named.session == session {
			(*cancel)()
		}
	}
}
