package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/pace"
)

const (
	// MaxPayload is the size of the largest message in bytes. PostgreSQL carries 8,000, and a few go with it.
	MaxPayload = 7000
	// publishing is how many messages a node sends at a time. PostgreSQL commits notifications one after the
	// other, for all clients, and a burst must not take the connections that heartbeats need.
	publishing = 2
	// The pauses between attempts to connect.
	firstPause, lastPause = 200 * time.Millisecond, 5 * time.Second
)

// BusStore carries messages between nodes.
type BusStore interface {
	// Notify sends a message to everybody who listens.
	Notify(ctx context.Context, message string) error
	// Listen calls ready when it listens, and then got for each message, until the connection breaks or ctx
	// ends. It notices a connection that is frozen within seconds.
	Listen(ctx context.Context, ready func(), got func(message string)) error
}

// bus hands messages to subscribers. A message is the life of its sender, its topic and its payload, with a
// space between.
type bus struct {
	store     BusStore
	life      string
	log       *slog.Logger
	connected atomic.Bool
	slots     chan struct{} // one for each message that is being sent

	mu          sync.RWMutex
	subscribers map[string][]subscriber
}

type subscriber struct {
	got    func(payload string)
	missed func()
}

func (b *bus) init(store BusStore, life string, log *slog.Logger) {
	b.store, b.life, b.log = store, life, log
	b.slots = make(chan struct{}, publishing)
	b.subscribers = map[string][]subscriber{}
}

// Publish sends a message of at most MaxPayload bytes of text to all other nodes. It returns when the database
// has it. Nodes that are not connected at that moment miss it. A cluster of one has nobody to tell.
func (c *Cluster) Publish(ctx context.Context, topic, payload string) error {
	if c.store == nil {
		return nil
	}
	if len(payload) > MaxPayload {
		return fmt.Errorf("a message on %s has %d bytes, and the limit is %d", topic, len(payload), MaxPayload)
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	select {
	case c.bus.slots <- struct{}{}:
		defer func() { <-c.bus.slots }()
	case <-ctx.Done():
		return fmt.Errorf("send a message on %s: %w", topic, ctx.Err())
	}
	if err := c.bus.store.Notify(ctx, c.bus.life+" "+topic+" "+payload); err != nil {
		return fmt.Errorf("send a message on %s: %w", topic, err)
	}
	return nil
}

// Subscribe calls got with the messages of other nodes on a topic, one after the other, while Run runs. Missed
// is called when messages may have been missed: each time that this node begins to listen, after its start and
// after an interruption. It may be nil. Both must be quick: all messages wait for them. A topic has no spaces.
func (c *Cluster) Subscribe(topic string, got func(payload string), missed func()) {
	if c.store == nil {
		return
	}
	c.bus.mu.Lock()
	defer c.bus.mu.Unlock()
	c.bus.subscribers[topic] = append(c.bus.subscribers[topic], subscriber{got, missed})
}

// Connected reports whether messages of other nodes arrive. In a cluster of one there are none to miss.
func (c *Cluster) Connected() bool { return c.store == nil || c.bus.connected.Load() }

// Run receives messages until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	if c.store == nil {
		return
	}
	pause := firstPause
	healthy := true
	for {
		var since time.Time // when the connection was made
		err := c.bus.store.Listen(ctx, func() {
			if since = time.Now(); !healthy {
				healthy = true
				c.bus.log.Info("messages of other servers arrive again")
			}
			c.bus.tellMissed() // first: whoever sees that messages arrive may rely on it
			c.bus.connected.Store(true)
		}, c.bus.receive)
		c.bus.connected.Store(false)
		// A connection that is ended as soon as it is made must not be made without a pause.
		if !since.IsZero() && time.Since(since) > lastPause {
			pause = firstPause
		}
		if ctx.Err() != nil {
			return
		}
		if healthy {
			healthy = false
			c.bus.log.Warn("messages of other servers do not arrive", "error", fmt.Sprint(err))
		}
		if pace.Sleep(ctx, pause/2+rand.N(pause)) != nil { // not all nodes at once
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// receive hands a message to its subscribers, unless this node sent it.
func (b *bus) receive(message string) {
	life, rest, _ := strings.Cut(message, " ")
	topic, payload, ok := strings.Cut(rest, " ")
	if !ok || life == b.life {
		return
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.subscribers[topic] {
		s.got(payload)
	}
}

func (b *bus) tellMissed() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, subscribers := range b.subscribers {
		for _, s := range subscribers {
			if s.missed != nil {
				s.missed()
			}
		}
	}
}
