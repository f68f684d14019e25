// Package continuation keeps what a later turn of a conversation needs and standard fields cannot
// carry: hidden tool steps, a vendor's signatures.
//
// A state is kept under the id of a tool call, which every client sends back with the call's result;
// so it survives clients that drop what they do not know, restarts, and a change of node. It is sealed
// under that id and the service's own key, bound to its account, and gone after an hour. The id alone does
// not open it: ids are made of request ids, which are in the log.
package continuation

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/seal"
)

const (
	keepFor = time.Hour
	// MaxState bounds one state.
	MaxState = 4 << 20
)

// Store keeps sealed states.
type Store interface {
	// KeepState stores, in place of what was there under the id.
	KeepState(ctx context.Context, id, sealed []byte, expires time.Time) error
	// FindState returns what is sealed under the id and has not expired; nil: nothing.
	FindState(ctx context.Context, id []byte, now time.Time) ([]byte, error)
}

// Keeper keeps the states of all accounts.
type Keeper struct {
	store Store
	key   seal.Key
	now   func() time.Time
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

// Memory is what is kept for one account. A nil Memory keeps nothing.
type Memory struct {
	keeper    *Keeper
	accountID string
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
	if err := m.keeper.store.KeepState(ctx, id[:], box.Seal(state), m.keeper.now().Add(keepFor)); err != nil {
		return fmt.Errorf("keeping the state of a tool call: %w", err)
	}
	return nil
}

// Recall returns the state of a tool call, or false where there is none.
func (m *Memory) Recall(ctx context.Context, callID string) ([]byte, bool, error) {
	if m == nil {
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
	state, err := box.Open(sealed)
	if err != nil {
		return nil, false, fmt.Errorf("recalling the state of a tool call: %w", err)
	}
	return state, true, nil
}

func (m *Memory) box(callID string) seal.Box {
	return m.keeper.key.Box("continuation", m.accountID, callID)
}
