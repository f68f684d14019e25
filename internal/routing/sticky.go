package routing

import (
	"hash/maphash"
	"sync"
	"time"

	"sluice/internal/chat"
)

const (
	stickFor  = time.Hour // after the conversation's last request
	mostStuck = 100_000   // conversations in memory
	seenOf    = 1 << 10   // bytes of each message that go into a key
)

// conversations remembers the model of each conversation. Callers send the whole conversation with every
// turn and no id, so a conversation is recognized by its beginning. Two conversations that begin alike
// share an entry, which only means that they share a model.
//
// There are two generations: when recent is full it becomes older, and the previous older is dropped as a
// whole. That bounds the memory without a list in order of use.
type conversations struct {
	seed maphash.Seed

	mu     sync.Mutex
	recent map[uint64]stuck
	older  map[uint64]stuck // nil at first
}

// stuck is the model of one conversation.
type stuck struct {
	model string    // its id: the model itself may be replaced by a reload
	until time.Time // when the entry expires
}

func newConversations() *conversations {
	return &conversations{seed: maphash.MakeSeed(), recent: map[uint64]stuck{}}
}

// key returns a hash of the account and of every message up to and including the first of the user. These
// stay the same in later turns.
func (c *conversations) key(accountID string, req *chat.Request) uint64 {
	// A random seed for each process: nobody can find two conversations with the same key on purpose.
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

// follows reports whether the request continues a conversation: it contains an earlier answer.
func follows(req *chat.Request) bool {
	for i := range req.Messages {
		if req.Messages[i].Role == chat.RoleAssistant {
			return true
		}
	}
	return false
}

// recall returns the id of the conversation's model; empty: there is none, or its entry has expired.
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

// remember stores the model of a conversation and renews its time.
func (c *conversations) remember(key uint64, model string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A conversation that goes on moves to the new generation; one that does not is dropped with the old.
	if len(c.recent) >= mostStuck/2 {
		c.older, c.recent = c.recent, map[uint64]stuck{}
	}
	c.recent[key] = stuck{model, now.Add(stickFor)}
}
