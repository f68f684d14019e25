package routing

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	"sluice/internal/prompt/chat"
)

const (
	stickFor  = time.Hour // after the conversation's last request
	mostStuck = 100_000   // conversations in memory
	seenOf    = 1 << 10   // bytes of each message that go into a key
)

// conversations remembers the model of each conversation on this node; see sharing for the others. Callers send the whole conversation with every
// turn and no id, so a conversation is recognized by its beginning. Two conversations that begin alike
// share an entry, which only means that they share a model.
//
// There are two generations: when recent is full it becomes older, and the previous older is dropped as a
// whole. That bounds the memory without a list in order of use.
type conversations struct {
	seed maphash.Seed

	mu     sync.Mutex
	recent map[ConversationID]stuck
	older  map[ConversationID]stuck // nil at first
}

// stuck is the model of one conversation.
type stuck struct {
	model string    // its id: the model itself may be replaced by a reload
	until time.Time // when the entry expires
}

func newConversations() *conversations {
	return &conversations{seed: maphash.MakeSeed(), recent: map[ConversationID]stuck{}}
}

// id returns a hash of the account and of the first messages, which names the conversation in this process.
func (c *conversations) id(accountID string, opening []chat.Message, on *bench) (id ConversationID) {
	// A random seed for each process: nobody can find two conversations with the same id on purpose.
	var h maphash.Hash
	h.SetSeed(c.seed)
	_, _ = h.WriteString(accountID)
	for i := range opening {
		_ = h.WriteByte(byte(opening[i].Role))
		on.text = opening[i].Content.AppendSample(on.text[:0], seenOf)
		_, _ = h.Write(on.text)
	}
	binary.LittleEndian.PutUint64(id[:], h.Sum64())
	return id
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

// recall returns the id of the conversation's model and when it was last called; empty: there is none, or its entry has
// expired.
func (c *conversations) recall(id ConversationID, now time.Time) (model string, called time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.recent[id]
	if !ok {
		s = c.older[id]
	}
	if now.After(s.until) {
		return "", time.Time{}
	}
	return s.model, s.until.Add(-stickFor)
}

// learn stores the new model of a conversation that has changed it on another node, if it is known here. Its time is not
// renewed: this node has had no request.
func (c *conversations) learn(m *Conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, generation := range []map[ConversationID]stuck{c.recent, c.older} {
		if s, known := generation[m.ID]; known {
			generation[m.ID] = stuck{m.Model, s.until}
		}
	}
}

// remember stores the model of a conversation and renews its time.
func (c *conversations) remember(id ConversationID, model string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A conversation that continues moves to the new generation; one that does not is dropped with the old.
	if len(c.recent) >= mostStuck/2 {
		c.older, c.recent = c.recent, map[ConversationID]stuck{}
	}
	c.recent[id] = stuck{model, now.Add(stickFor)}
}
