package routing

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/kit/seal"
	"sluice/internal/prompt/chat"
)

// Why choices are shared and not computed: a choice depends on what one node knows at one moment, which is
// the health of the targets, their free places and how fast they have answered lately. So another node, or
// the same one a minute later, would often choose differently, and which model wrote the earlier answers
// cannot be seen in them. It has to be remembered, and the memory of one process is not enough where a load
// balancer sends each turn to another node.
//
// What must not happen is that a request waits for a database. So each node works with its own memory, as a
// single one does, and the database is the second place to look:
//   - Choices of admitted calls are written in the background, many in one statement. The first turn of a
//     conversation costs one hash and one entry in a map.
//   - Only a request that continues a conversation which this node does not know asks the database, for 50 ms
//     at most. Without an answer the router chooses again, which is what it would do without other nodes.
//   - A conversation that has changed its model elsewhere, because the model was out of order, is learned of
//     within a second. So is one that is not at its favourite target; see homes. No call asks for that.
const (
	lookPatience = 50 * time.Millisecond // of a request, for the model of its conversation
	looksAtOnce  = 4                     // requests that ask at the same time; others choose again
	restAfter    = time.Second           // without questions after one that was not answered

	writeAfter    = 25 * time.Millisecond // so that choices of the same moment share a statement
	writePatience = 2 * time.Second
	writeAtOnce   = 1024 // choices in one round
	// mostUnwritten bounds the choices that wait for a database that does not answer. One that finds no room
	// is not shared.
	mostUnwritten = 10_000

	movesEvery = time.Second
	movesSpan  = 10 * time.Second // what a round reads again, since transactions may end in another order
	mostMoves  = 1000
)

// ConversationID names a conversation on all nodes. It is a hash under a key of the service, so whoever reads
// the store can neither read nor guess how a conversation begins.
type ConversationID [16]byte

// Conversation is a conversation and its model.
type Conversation struct {
	ID    ConversationID
	Model string // or a home; see homes
	Moved bool   // other nodes are told at once, also if nothing is stored yet
}

// Shared keeps the models of conversations for all nodes.
type Shared interface {
	// FindConversation returns the model of a conversation; empty: there is none.
	FindConversation(ctx context.Context, id ConversationID) (model string, err error)
	// KeepConversations stores models for the time life. The ids differ and are in order. What is Moved has changed, if it
	// is not the same already.
	KeepConversations(ctx context.Context, list []Conversation, life time.Duration) error
	// MovedConversations returns up to most conversations that have changed their model within the last span.
	MovedConversations(ctx context.Context, span time.Duration, most int) ([]Conversation, error)
}

// sharing is the connection of one router's memory to those of other nodes.
type sharing struct {
	store  Shared
	secret [seal.IDSize]byte // what ids are hashed under; the same on all nodes
	log    *slog.Logger

	looks   chan struct{}  // a semaphore: one element for each request that asks the database
	rest    atomic.Int64   // until when nobody asks, Unix nanoseconds
	trouble health.Trouble // with the database
	woken   chan struct{}  // has one element if there may be something in unwritten

	mu        sync.Mutex // guards unwritten
	unwritten map[ConversationID]Conversation
}

func newSharing(store Shared, key seal.Key, log *slog.Logger) *sharing {
	return &sharing{
		store: store, secret: key.Box("conversations", "", "").ID(), log: cmp.Or(log, slog.Default()),
		looks: make(chan struct{}, looksAtOnce), woken: make(chan struct{}, 1), unwritten: map[ConversationID]Conversation{},
	}
}

// id returns the id of a conversation by its account and its first messages. It costs about two microseconds.
func (s *sharing) id(accountID string, opening []chat.Message, on *bench) ConversationID {
	h := sha256.New()
	h.Write(s.secret[:])
	h.Write([]byte(accountID))
	for i := range opening {
		h.Write([]byte{byte(opening[i].Role)})
		on.text = opening[i].Content.AppendSample(on.text[:0], seenOf)
		h.Write(on.text)
	}
	var sum [sha256.Size]byte
	return ConversationID(h.Sum(sum[:0])[:len(ConversationID{})])
}

// find returns the model that another node chose for the conversation; empty: there is none, or the database
// did not say so in time.
func (s *sharing) find(ctx context.Context, id ConversationID) string {
	if time.Now().UnixNano() < s.rest.Load() {
		return ""
	}
	select {
	case s.looks <- struct{}{}:
		defer func() { <-s.looks }()
	default: // the database is slow, or somebody invents conversations
		return ""
	}
	bounded, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	model, err := s.store.FindConversation(bounded, id)
	if err != nil && ctx.Err() == nil {
		// A database that is away would cost every such request its 50 ms, and a connection.
		s.rest.Store(time.Now().Add(restAfter).UnixNano())
		s.trouble.Failed(s.log, "the models of conversations cannot be looked up; those of other nodes may continue with another model", err)
	}
	return model
}

// put queues a conversation for the other nodes.
func (s *sharing) put(c Conversation) {
	s.mu.Lock()
	if _, waits := s.unwritten[c.ID]; waits || len(s.unwritten) < mostUnwritten {
		s.unwritten[c.ID] = c
	}
	s.mu.Unlock()
	pace.Wake(s.woken)
}

// run writes what put has queued, and calls moved for every conversation that has changed its model, until
// ctx ends.
func (s *sharing) run(ctx context.Context, moved func([]Conversation)) {
	s.learn(ctx, moved, stickFor, 10*mostMoves) // what happened before this node was there
	for woken := range pace.Woken(ctx, movesEvery, s.woken) {
		if woken {
			_ = pace.Sleep(ctx, writeAfter) // for others to come
			s.write(ctx)
			continue
		}
		s.write(ctx) // what failed before
		s.learn(ctx, moved, movesSpan, mostMoves)
	}
	s.write(context.WithoutCancel(ctx)) // the conversations continue on other nodes
}

// write stores the queued choices, and puts those of a round that fails back.
func (s *sharing) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	for {
		list := s.take()
		if len(list) == 0 {
			return
		}
		if err := s.store.KeepConversations(ctx, list, stickFor); err != nil {
			s.trouble.Failed(s.log, "the models of conversations cannot be stored; other nodes may continue them with another model", err)
			s.putBack(list)
			return // the next tick tries again
		}
	}
}

// take removes up to writeAtOnce choices from the queue and returns them in the order of their ids, so that
// two nodes that write the same ones cannot deadlock.
func (s *sharing) take() []Conversation {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Conversation
	for id, c := range s.unwritten {
		if len(list) == writeAtOnce {
			break
		}
		list = append(list, c)
		delete(s.unwritten, id)
	}
	slices.SortFunc(list, func(a, b Conversation) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return list
}

// putBack queues choices again, unless there is a newer one.
func (s *sharing) putBack(list []Conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range list {
		if _, newer := s.unwritten[c.ID]; !newer && len(s.unwritten) < mostUnwritten {
			s.unwritten[c.ID] = c
		}
	}
}

// learn passes on the conversations that have moved within the span. What this node is about to write is newer.
func (s *sharing) learn(ctx context.Context, moved func([]Conversation), span time.Duration, most int) {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	list, err := s.store.MovedConversations(ctx, span, most)
	if err != nil {
		s.trouble.Failed(s.log, "changes of conversations on other nodes cannot be read", err)
		return
	}
	s.mu.Lock()
	list = slices.DeleteFunc(list, func(c Conversation) bool { _, newer := s.unwritten[c.ID]; return newer })
	s.mu.Unlock()
	moved(list)
}
