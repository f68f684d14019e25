// Package continuation keeps what a later turn of a conversation needs and standard fields cannot
// carry: hidden tool steps, a vendor's signatures.
//
// A state is kept under the id of a tool call, which every client sends back with the call's result;
// so it survives clients that drop what they do not know, restarts, and a change of node. It is sealed
// under that id and the service's own key, bound to its account, and gone after an hour. The id alone does
// not open it: ids are made of request ids, which are in the log. What an account may keep is bounded: its
// oldest states go first, and a conversation whose state is gone continues without it.
package continuation

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sluice/internal/seal"
)

const (
	keepFor = time.Hour
	// MaxState bounds one state.
	MaxState = 4 << 20
	// MaxAll bounds the bytes of the states of all accounts together.
	MaxAll = 4 << 30

	// What one Memory returns in its life, which is that of a model's turn: a request may name the same
	// state again and again.
	maxRecalls  = 4096
	maxRecalled = 32 << 20 // bytes

	// After so many bytes the states of all accounts are held against their bound, and so many of the
	// oldest are deleted at a time.
	trimEvery  = MaxAll / 64
	trimAtOnce = 64
)

// MaxAccount bounds the states of one account.
func MaxAccount() Bound { return Bound{Entries: 20_000, Bytes: 64 << 20} }

// Bound is how many states there may be, and how many bytes they may take.
type Bound struct{ Entries, Bytes int64 }

// State is what is stored.
type State struct {
	ID        []byte // a hash of the account and the tool call's id
	AccountID string
	Sealed    []byte
	ExpiresAt time.Time
}

// Store keeps sealed states.
type Store interface {
	// KeepState stores, in place of what was there under the id. The account's oldest states are deleted
	// where they would exceed the bound.
	KeepState(ctx context.Context, s *State, most Bound) error
	// FindState returns what is sealed under the id and has not expired; nil: nothing.
	FindState(ctx context.Context, id []byte, now time.Time) ([]byte, error)
	// TrimStates deletes up to atOnce of the oldest states of all accounts, if all of them take more than
	// most bytes, and returns how many.
	TrimStates(ctx context.Context, most int64, atOnce int) (int, error)
}

// Keeper keeps the states of all accounts.
type Keeper struct {
	store Store
	key   seal.Key
	now   func() time.Time
	fresh atomic.Int64 // bytes kept since all were last held against their bound
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	Key seal.Key         // the service's own; zero: states are sealed under their ids alone
	Now func() time.Time // default time.Now
}

// New returns a keeper on the store.
func New(store Store, opts *Options) *Keeper {
	k := &Keeper{store: store, now: time.Now}
	if opts == nil {
		return k
	}
	k.key = opts.Key
	if opts.Now != nil {
		k.now = opts.Now
	}
	return k
}

// For is what is kept for one account.
func (k *Keeper) For(accountID string) *Memory { return &Memory{keeper: k, accountID: accountID} }

// Memory is what is kept for one account, as one turn of a model sees it. A nil Memory keeps nothing.
type Memory struct {
	keeper    *Keeper
	accountID string
	recalls   atomic.Int64
	recalled  atomic.Int64 // bytes
}

// Keep stores the state of a tool call; it is durable when Keep returns. A state that is there
// already is replaced.
func (m *Memory) Keep(ctx context.Context, callID string, state []byte) error {
	if m == nil {
		return nil
	}
	if len(state) > MaxState {
		return fmt.Errorf("keeping the state of a tool call: it has %d bytes and may have %d", len(state), MaxState)
	}
	box := m.box(callID)
	id := box.ID()
	sealed := &State{ID: id[:], AccountID: m.accountID, Sealed: box.Seal(state), ExpiresAt: m.keeper.now().Add(keepFor)}
	err := m.keeper.store.KeepState(ctx, sealed, MaxAccount())
	if err == nil && m.keeper.fresh.Add(int64(len(sealed.Sealed))) > trimEvery {
		m.keeper.fresh.Store(0)
		err = m.keeper.trim(ctx)
	}
	if err != nil {
		return fmt.Errorf("keeping the state of a tool call: %w", err)
	}
	return nil
}

// trim deletes the oldest states of all accounts until they are within their bound.
func (k *Keeper) trim(ctx context.Context) error {
	for {
		if n, err := k.store.TrimStates(ctx, MaxAll, trimAtOnce); err != nil || n == 0 {
			return err
		}
	}
}

// Recall returns the state of a tool call, or false where there is none. A turn that has recalled as much
// as it may gets no more.
func (m *Memory) Recall(ctx context.Context, callID string) ([]byte, bool, error) {
	if m == nil {
		return nil, false, nil
	}
	if m.recalls.Add(1) > maxRecalls || m.recalled.Load() > maxRecalled-MaxState {
		return nil, false, nil
	}
	box := m.box(callID)
	id := box.ID()
	sealed, err := m.keeper.store.FindState(ctx, id[:], m.keeper.now())
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

func (m *Memory) box(callID string) seal.Box {
	return m.keeper.key.Box("continuation", m.accountID, callID)
}
