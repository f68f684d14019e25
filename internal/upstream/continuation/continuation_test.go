package continuation_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"sluice/internal/kit/seal"
	"sluice/internal/upstream/continuation"
)

// states is a store in memory.
type states struct {
	kept    map[string]box
	trimmed int
	queries int // calls of FindStates
	renewed int
	shelf   string // of the last state that was kept
	err     error
}

type box struct {
	sealed  []byte
	expires time.Time
}

func (s *states) KeepState(_ context.Context, st *continuation.State, most continuation.Bound) error {
	if most != continuation.MaxAccount() || st.AccountID == "" {
		panic("a state without an account or a bound")
	}
	s.kept[string(st.ID)], s.shelf = box{st.Sealed, st.ExpiresAt}, st.AccountID
	return s.err
}

func (s *states) TrimStates(_ context.Context, most int64, _ int) (int, error) {
	s.trimmed++
	if most != continuation.MaxAll || s.trimmed%3 == 0 { // at the third time it is enough
		return 0, s.err
	}
	return 1, s.err
}

func (s *states) FindState(_ context.Context, id []byte, now time.Time) ([]byte, error) {
	if b, ok := s.kept[string(id)]; ok && b.expires.After(now) {
		return b.sealed, s.err
	}
	return nil, s.err
}

func (s *states) FindStates(_ context.Context, ids [][]byte, now time.Time) (found []continuation.State, _ error) {
	s.queries++
	for _, id := range ids {
		if b, ok := s.kept[string(id)]; ok && b.expires.After(now) {
			found = append(found, continuation.State{ID: id, Sealed: b.sealed, ExpiresAt: b.expires})
		}
	}
	return found, s.err
}

func (s *states) RenewStates(_ context.Context, ids [][]byte, _, expires time.Time) error {
	s.renewed += len(ids)
	for _, id := range ids {
		s.kept[string(id)] = box{s.kept[string(id)].sealed, expires}
	}
	return s.err
}

// States that every later turn needs are found with one query, and live for 30 days after their last use.
func TestRecallAll(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	store := &states{kept: map[string]box{}}
	states := continuation.New(store, &continuation.Options{Now: func() time.Time { return now }})
	for _, id := range []string{"a", "b"} {
		if err := states.For("acct_1").KeepLong(t.Context(), id, []byte("of "+id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		later   time.Duration
		found   int
		renewed int
	}{{0, 2, 0}, {23 * time.Hour, 2, 0}, {2 * time.Hour, 2, 2}, {time.Hour, 2, 2}, {29 * 24 * time.Hour, 2, 4}, {30*24*time.Hour - 1, 2, 6}, {30 * 24 * time.Hour, 0, 6}} {
		now = now.Add(tt.later)
		found, err := states.For("acct_1").RecallAll(t.Context(), []string{"a", "missing", "b"})
		if err != nil || len(found) != tt.found || tt.found > 0 && (string(found["a"]) != "of a" || string(found["b"]) != "of b") {
			t.Errorf("%v later: RecallAll = %q, %v, want %d", tt.later, found, err, tt.found)
		}
		if store.renewed != tt.renewed {
			t.Errorf("%v later: %d renewed, want %d", tt.later, store.renewed, tt.renewed)
		}
	}
	if store.shelf != "acct_1/turns" {
		t.Errorf("the states count for %q, want them apart from those of the hour", store.shelf)
	}
	if store.queries != 7 {
		t.Errorf("%d queries, want one for each", store.queries)
	}
	if found, err := states.For("acct_2").RecallAll(t.Context(), []string{"a"}); len(found) != 0 || err != nil {
		t.Errorf("RecallAll of another account = %q, %v, want nothing", found, err)
	}
	var none *continuation.Memory
	if found, err := none.RecallAll(t.Context(), []string{"a"}); len(found) != 0 || err != nil {
		t.Errorf("RecallAll of no memory = %q, %v, want nothing", found, err)
	}
}

// A conversation may have more turns than one call recalls. Then the last ones are found.
func TestRecallAllIsBounded(t *testing.T) {
	t.Parallel()
	states := continuation.New(&states{kept: map[string]box{}}, nil)
	var ids []string
	for i := range 5000 {
		ids = append(ids, strconv.Itoa(i))
		if err := states.For("acct_1").KeepLong(t.Context(), ids[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	found, err := states.For("acct_1").RecallAll(t.Context(), ids)
	_, first := found[ids[5000-4096]]
	_, before := found[ids[5000-4097]]
	if err != nil || len(found) != 4096 || !first || before {
		t.Errorf("RecallAll = %d states, the first of the last 4096: %t, one before: %t, %v", len(found), first, before, err)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	store := &states{kept: map[string]box{}}
	states := continuation.New(store, &continuation.Options{Now: func() time.Time { return now }})
	mine := states.For("acct_1")
	recall := func(m *continuation.Memory, id, want string) {
		t.Helper()
		got, ok, err := m.Recall(t.Context(), id)
		if string(got) != want || ok != (want != "") || err != nil {
			t.Errorf("Recall(%q) = %q, %t, %v, want %q", id, got, ok, err, want)
		}
	}
	recall(mine, "call_1", "")
	for _, state := range []string{"first", "a signature"} {
		if err := mine.Keep(t.Context(), "call_1", []byte(state)); err != nil {
			t.Fatal(err)
		}
	}
	recall(mine, "call_1", "a signature")
	recall(mine, "call_2", "")
	recall(states.For("acct_2"), "call_1", "")
	recall(nil, "call_1", "")
	for id, b := range store.kept {
		if bytes.Contains(b.sealed, []byte("signature")) || bytes.Contains([]byte(id), []byte("call_1")) {
			t.Error("the store can read what is kept")
		}
	}
	now = now.Add(time.Hour)
	recall(mine, "call_1", "")
	now = now.Add(-time.Millisecond)
	recall(mine, "call_1", "a signature")

	if err := mine.Keep(t.Context(), "call_3", make([]byte, continuation.MaxState+1)); err == nil {
		t.Error("Keep takes a state beyond the bound")
	}
	store.err = errors.New("gone")
	if err := mine.Keep(t.Context(), "call_4", nil); !errors.Is(err, store.err) {
		t.Errorf("Keep = %v, want the store's error", err)
	}
	if _, _, err := mine.Recall(t.Context(), "call_1"); !errors.Is(err, store.err) {
		t.Errorf("Recall = %v, want the store's error", err)
	}
}

// What a turn recalls is bounded, however often a request names a state.
func TestRecallsAreBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ size, want int }{{100, 4096}, {4 << 20, 7}, {1 << 20, 28}} {
		states := continuation.New(&states{kept: map[string]box{}}, nil)
		if err := states.For("acct_1").Keep(t.Context(), "call", make([]byte, tt.size)); err != nil {
			t.Fatal(err)
		}
		m, got := states.For("acct_1"), 0
		for range 5000 {
			if _, ok, err := m.Recall(t.Context(), "call"); err != nil {
				t.Fatal(err)
			} else if ok {
				got++
			}
		}
		if got != tt.want {
			t.Errorf("a state of %d bytes was recalled %d times, want %d", tt.size, got, tt.want)
		}
	}
}

// The states of all accounts are held against their bound now and then, until they fit.
func TestTrim(t *testing.T) {
	t.Parallel()
	store := &states{kept: map[string]box{}}
	m := continuation.New(store, nil).For("acct_1")
	state := make([]byte, continuation.MaxState)
	for kept := 0; kept < continuation.MaxAll/64; kept += len(state) {
		if store.trimmed != 0 {
			t.Fatalf("trimmed after %d bytes", kept)
		}
		if err := m.Keep(t.Context(), "call", state); err != nil {
			t.Fatal(err)
		}
	}
	if store.trimmed != 3 {
		t.Errorf("trimmed %d times, want until there is nothing more to delete", store.trimmed)
	}
}

// The ids of tool calls are made of request ids, which are in the log: log and database together must not
// open a state.
func TestIDAloneDoesNotOpen(t *testing.T) {
	t.Parallel()
	store := &states{kept: map[string]box{}}
	key := seal.NewKey()
	mine := continuation.New(store, &continuation.Options{Key: key}).For("acct_1")
	if err := mine.Keep(t.Context(), "call_1", []byte("hidden")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []seal.Box{seal.New("continuation", "acct_1", "call_1"), seal.NewKey().Box("continuation", "acct_1", "call_1")} {
		for found, b := range store.kept {
			hash := id.ID()
			if string(hash[:]) == found {
				t.Error("the record is found by the id of the tool call alone")
			}
			if plain, err := id.Open(b.sealed); err == nil {
				t.Errorf("the id of the tool call alone opens %q", plain)
			}
		}
	}
	// Another node with the same key.
	if got, ok, err := continuation.New(store, &continuation.Options{Key: key}).For("acct_1").Recall(t.Context(), "call_1"); string(got) != "hidden" || !ok || err != nil {
		t.Errorf("Recall with the key = %q, %t, %v, want the state", got, ok, err)
	}
}
