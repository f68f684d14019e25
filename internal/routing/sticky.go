package routing

import (
	"hash/maphash"
	"sync"
	"time"

	"sluice/internal/chat"
)

const (
	stickFor  = time.Hour
	mostStuck = 100_000
	seenOf    = 1 << 10 // bytes of a message that tell conversations apart
)

// conversations remembers which model a conversation was given to. A conversation is known by how it
// began, since callers send all of it with every turn.
type conversations struct {
	seed maphash.Seed

	mu     sync.Mutex
	recent map[uint64]stuck // of the last while
	older  map[uint64]stuck // of the while before, to be forgotten as a whole
}

type stuck struct {
	model string
	until time.Time
}

func newConversations() *conversations {
	return &conversations{seed: maphash.MakeSeed(), recent: map[uint64]stuck{}}
}

// key is how the conversation began: its account, and every message up to the first of the user.
func (c *conversations) key(accountID string, req *chat.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	_, _ = h.WriteString(accountID)
	for i := range req.Messages {
		m := &req.Messages[i]
		_ = h.WriteByte(byte(m.Role))
		_, _ = h.Write(m.Content.Sample(seenOf))
		if m.Role == chat.RoleUser {
			break
		}
	}
	return h.Sum64()
}

// follows reports whether the request goes on with a conversation.
func follows(req *chat.Request) bool {
	for i := range req.Messages {
		if req.Messages[i].Role == chat.RoleAssistant {
			return true
		}
	}
	return false
}

// recall returns the id of the conversation's model; empty: it has none.
func (c *conversations) recall(key uint64, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.recent[key]
	if !ok {
		s = c.older[key]
	}
	if now.After(s.until) {
		return ""
	}
	return s.model
}

func (c *conversations) remember(key uint64, model string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) >= mostStuck/2 {
		c.older, c.recent = c.recent, map[uint64]stuck{}
	}
	c.recent[key] = stuck{model, now.Add(stickFor)}
}
