package mcpserver

import (
	"context"
	"encoding/json"
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

// cancel cancels a call if it runs in this process, and reports whether it does.
func (c *calls) cancel(named call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cancel := c.running[named]
	if cancel != nil {
		(*cancel)()
	}
	return cancel != nil
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

// ending is what nodes tell each other: that a client has given up a call, or ended a session. The
// account is the one that was authenticated where the request arrived.
type ending struct {
	Account string `json:"account"`
	Session string `json:"session"`
	ID      string `json:"id,omitempty"` // empty: all calls of the session
}

// Told cancels what another node was asked to cancel. The payload is one that the other node has
// handed to Options.Tell. Anything else is ignored.
func (s *Server) Told(payload string) {
	var e ending
	if json.Unmarshal([]byte(payload), &e) != nil {
		return
	}
	if e.ID == "" {
		s.calls.end(e.Account, e.Session)
	} else {
		s.calls.cancel(call{e.Account, e.Session, e.ID})
	}
}

// cancel cancels a call, here or wherever it runs.
func (s *Server) cancel(ctx context.Context, named call) {
	if named.id == "" || s.calls.cancel(named) {
		return
	}
	s.tell(ctx, ending{named.account, named.session, named.id})
}

// end cancels all calls of a session, here and elsewhere: a client may have several at once.
func (s *Server) end(ctx context.Context, account, session string) {
	s.calls.end(account, session)
	s.tell(ctx, ending{Account: account, Session: session})
}

// tell passes an ending on to the other nodes, if there may be any. It is all that can be done: if they
// do not hear of it, the call runs to its end, as it does for a client that says nothing.
func (s *Server) tell(ctx context.Context, e ending) {
	if s.others == nil || e.Session == "" { // calls without a session have no name
		return
	}
	payload, err := json.Marshal(e)
	if err == nil {
		err = s.others(ctx, string(payload))
	}
	if err != nil {
		s.log.Warn("a cancellation did not reach the other servers", "account", e.Account, "error", err.Error())
	}
}
