// Package continuation keeps what a later turn of a conversation needs and standard fields cannot
// carry: hidden tool steps, a vendor's signatures, which key holds a thread.
//
// A state is kept under the id of a tool call, which every client sends back with the call's result, or under that of the
// message that a thread goes on from. So it survives clients that drop fields they do not know, restarts, and a change of
// node. Where a turn has no tool calls, it is kept under a hash of the conversation up to there. It is encrypted under that
// id and the service's own key, bound to its account, and expires after an hour, or, if every later turn needs it, 30 days
// after its last use. The id alone
// cannot decrypt it: ids are made of request ids, which are in the log. What an account may keep is
// bounded. The states that were not used for the longest time are deleted first, and a conversation without its state
// continues.
package continuation

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sluice/internal/kit/seal"
)

const (
	// keepFor is how long a state is kept: long enough for a person to approve a tool call.
	keepFor = time.Hour
	// keepLong is how long a state that every later turn needs is kept after its last use. A use within renewEvery of
	// another is not written down.
	keepLong   = 30 * 24 * time.Hour
	renewEvery = 24 * time.Hour
	// MaxState is the largest state in bytes.
	MaxState = 4 << 20
	// MaxAll is the number of bytes of the states of all accounts together.
	MaxAll = 4 << 30

	// What one Memory returns at most. A request may name the same state thousands of times, and each time
	// costs a query and a decryption.
	maxRecalls  = 4096
	maxRecalled = 32 << 20 // bytes
	// recallAtOnce is the number of states that one query of RecallAll asks for.
	recallAtOnce = 256

	// The states of all accounts are compared with MaxAll only after each trimEvery bytes, since that takes
	// a sum over all of them. Then the oldest are deleted, trimAtOnce in one transaction.
	trimEvery  = MaxAll / 64
	trimAtOnce = 64
)

// MaxAccount returns the bound of one account's states.
func MaxAccount() Bound { return Bound{Entries: 20_000, Bytes: 64 << 20} }

// Bound is the largest number of states, and of their bytes.
type Bound struct{ Entries, Bytes int64 }

// State is one encrypted state, as it is stored.
type State struct {
	ID        []byte // a hash of the account and the tool call's id; the id itself is not stored
	AccountID string // against whose bound it counts: the account, or its turns
	Sealed    []byte
	UsedAt    time.Time // when it was kept, or recalled last
	ExpiresAt time.Time
}

// Store keeps encrypted states.
type Store interface {
	// KeepState stores a state and replaces one that has its id. It deletes the account's states that were not used for
	// the longest time if they would exceed the bound.
	KeepState(ctx context.Context, s *State, most Bound) error
	// FindState returns the encrypted state with the id, if it has not expired; nil: there is none.
	FindState(ctx context.Context, id []byte, now time.Time) ([]byte, error)
	// FindStates returns those of the states with the ids that have not expired, in any order. Of a state it sets the ID,
	// what is sealed, and when it expires.
	FindStates(ctx context.Context, ids [][]byte, now time.Time) ([]State, error)
	// RenewStates notes that the states with the ids are used now, and when they expire.
	RenewStates(ctx context.Context, ids [][]byte, now, expires time.Time) error
	// TrimStates deletes up to atOnce of the least recently used states of all accounts if they take more than most
	// bytes together. It returns the number of states that it deleted.
	TrimStates(ctx context.Context, most int64, atOnce int) (int, error)
}

// States keeps the states of all accounts. It is safe for concurrent use.
type States struct {
	store Store
	key   seal.Key
	now   func() time.Time
	fresh atomic.Int64 // bytes kept since the last comparison with MaxAll
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	Key seal.Key         // the service's own; zero: states are encrypted under their ids alone
	Now func() time.Time // default time.Now
}

// New returns States on the store.
func New(store Store, opts *Options) *States {
	k := &States{store: store, now: time.Now}
	if opts == nil {
		return k
	}
	k.key = opts.Key
	if opts.Now != nil {
		k.now = opts.Now
	}
	return k
}

// For returns the memory of one account, for one turn of a model.
func (k *States) For(accountID string) *Memory { return &Memory{states: k, accountID: accountID} }

// Memory is what is kept for one account, as one turn of a model sees it. A nil Memory keeps nothing and
// has nothing.
type Memory struct {
	states    *States
	accountID string
	recalls   atomic.Int64 // calls of Recall so far
	recalled  atomic.Int64 // bytes that they returned
}

// Keep stores the state of a tool call and replaces an earlier one. The state is durable when Keep returns.
func (m *Memory) Keep(ctx context.Context, callID string, state []byte) error {
	if m == nil {
		return nil
	}
	return m.keep(ctx, callID, m.accountID, state, keepFor)
}

// KeepLong is Keep for a state that every later turn of the conversation needs. Nearly every reply may leave one, so they
// have a bound of their own, and do not displace the others.
func (m *Memory) KeepLong(ctx context.Context, id string, state []byte) error {
	if m == nil {
		return nil
	}
	return m.keep(ctx, id, m.accountID+turnShelf, state, keepLong)
}

// turnShelf follows the account's id where the states of KeepLong are counted.
const turnShelf = "/turns"

// keep stores a state for a time. It counts against the bound of the shelf.
func (m *Memory) keep(ctx context.Context, callID, shelf string, state []byte, lasts time.Duration) error {
	if len(state) > MaxState {
		return fmt.Errorf("keeping the state of a tool call: it has %d bytes and may have %d", len(state), MaxState)
	}
	box := m.box(callID)
	id := box.ID()
	now := m.states.now()
	sealed := &State{ID: id[:], AccountID: shelf, Sealed: box.Seal(state), UsedAt: now, ExpiresAt: now.Add(lasts)}
	err := m.states.store.KeepState(ctx, sealed, MaxAccount())
	if err == nil && m.states.fresh.Add(int64(len(sealed.Sealed))) > trimEvery {
		m.states.fresh.Store(0)
		err = m.states.trim(ctx)
	}
	if err != nil {
		return fmt.Errorf("keeping the state of a tool call: %w", err)
	}
	return nil
}

// trim deletes the oldest states of all accounts until together they are within MaxAll. It deletes a few at
// a time, so that no transaction is long.
func (k *States) trim(ctx context.Context) error {
	for {
		if n, err := k.store.TrimStates(ctx, MaxAll, trimAtOnce); err != nil || n == 0 {
			return err
		}
	}
}

// Recall returns the state of a tool call. It reports false if there is none, or if this Memory has already
// returned as much as it may. Callers continue without the state in both cases.
func (m *Memory) Recall(ctx context.Context, callID string) ([]byte, bool, error) {
	if m == nil {
		return nil, false, nil
	}
	if m.recalls.Add(1) > maxRecalls || m.recalled.Load() > maxRecalled-MaxState {
		return nil, false, nil
	}
	box := m.box(callID)
	id := box.ID()
	sealed, err := m.states.store.FindState(ctx, id[:], m.states.now())
	if err != nil {
		return nil, false, fmt.Errorf("recalling the state of a tool call: %w", err)
	}
	if sealed == nil {
		return nil, false, nil
	}
	m.recalled.Add(int64(len(sealed)))
	state, err := box.Open(sealed)
	if err != nil {
		return nil, false, fmt.Errorf("recalling the state of a tool call: %w", err)
	}
	return state, true, nil
}

// RecallAll returns the states that KeepLong has stored under the ids, by id, and renews their time. Those at the end of
// the list come first where this Memory may not return all of them. An error is returned with what was found before it.
func (m *Memory) RecallAll(ctx context.Context, ids []string) (map[string][]byte, error) {
	if m == nil || len(ids) == 0 {
		return nil, nil
	}
	found := map[string][]byte{}
	for len(ids) > 0 {
		some := ids[max(0, len(ids)-recallAtOnce):]
		ids = ids[:len(ids)-len(some)]
		if m.recalls.Add(int64(len(some))) > maxRecalls || m.recalled.Load() > maxRecalled-MaxState {
			break
		}
		if err := m.recallSome(ctx, some, found); err != nil {
			return found, fmt.Errorf("recalling the states of a conversation: %w", err)
		}
	}
	return found, nil
}

// recallSome adds the states under the ids to found, with one query.
func (m *Memory) recallSome(ctx context.Context, ids []string, found map[string][]byte) error {
	names, sealed := make(map[string]string, len(ids)), make([][]byte, 0, len(ids))
	for _, id := range ids {
		name := m.box(id).ID()
		names[string(name[:])], sealed = id, append(sealed, name[:])
	}
	now := m.states.now()
	states, err := m.states.store.FindStates(ctx, sealed, now)
	if err != nil {
		return err
	}
	var old [][]byte
	for i := range states {
		s := &states[i]
		id := names[string(s.ID)]
		state, err := m.box(id).Open(s.Sealed)
		if err != nil {
			return err
		}
		m.recalled.Add(int64(len(state)))
		found[id] = state
		if s.ExpiresAt.Before(now.Add(keepLong - renewEvery)) {
			old = append(old, s.ID)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return m.states.store.RenewStates(ctx, old, now, now.Add(keepLong))
}

// box returns the box in which the state of a tool call, or of a turn, is encrypted. Only the same account and the same
// id open it.
func (m *Memory) box(callID string) seal.Box {
	return m.states.key.Box("continuation", m.accountID, callID)
}
