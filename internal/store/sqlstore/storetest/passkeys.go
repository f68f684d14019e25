package storetest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/passkey"
	"sluice/internal/store/sqlstore/alltest"
)

// passkeys checks that a passkey has one owner, that an account has a bounded number of them, that a counter only goes
// forward, and that nobody deletes those of others.
func passkeys(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a, other := create(t, s, 1), create(t, s, 2)
	made := func(id, accountID string) *signin.Passkey {
		return &signin.Passkey{Credential: passkey.Credential{ID: []byte(id), Key: []byte("key"), Algorithm: passkey.ES256, Counter: 1 << 31}, AccountID: accountID, Name: "name of " + id, CreatedAt: base}
	}
	one := made("one", a.ID)
	must(t, s.AddPasskey(ctx, one, 3))
	for _, again := range []*signin.Passkey{one, made("one", other.ID)} {
		if err := s.AddPasskey(ctx, again, 3); !fault.Is(err, fault.Conflict) {
			t.Errorf("AddPasskey of one that exists = %v, want a conflict", err)
		}
	}
	got, err := s.FindPasskey(ctx, one.ID)
	if diff := cmp.Diff(one, got); err != nil || diff != "" {
		t.Errorf("FindPasskey: %v, -want +got\n%s", err, diff)
	}
	if _, err := s.FindPasskey(ctx, []byte("on")); !fault.Is(err, fault.NotFound) {
		t.Errorf("FindPasskey of none = %v, want not found", err)
	}
	if l, err := s.FindLogin(ctx, a.ID); err != nil || l.Passkeys != 1 || !l.TwoSteps() {
		t.Errorf("FindLogin = %+v, %v, want a passkey", l, err)
	}
	var added atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			err := s.AddPasskey(ctx, made(strconv.Itoa(i), a.ID), 3)
			if err == nil {
				added.Add(1)
			} else if !fault.Is(err, fault.Conflict) {
				t.Errorf("AddPasskey = %v", err)
			}
		})
	}
	wg.Wait()
	if list, err := s.Passkeys(ctx, a.ID); err != nil || len(list) != 3 || added.Load() != 2 {
		t.Errorf("Passkeys = %d, %v, want the three that fit", len(list), err)
	}
	for _, tt := range []struct {
		counter uint32
		want    bool
	}{{1 << 31, false}, {1<<32 - 1, true}, {1<<32 - 1, false}, {0, false}} {
		if ok, err := s.UsePasskey(ctx, one.ID, tt.counter, base.Add(time.Hour)); err != nil || ok != tt.want {
			t.Errorf("UsePasskey with counter %d = %t, %v, want %t", tt.counter, ok, err, tt.want)
		}
	}
	if got, err := s.FindPasskey(ctx, one.ID); err != nil || got.UsedAt != base.Add(time.Hour) || got.Counter != 1<<32-1 {
		t.Errorf("FindPasskey after a use = %+v, %v", got, err)
	}
	still := made("still", other.ID)
	still.Counter = 0
	must(t, s.AddPasskey(ctx, still, 3))
	for range 2 { // it does not count
		if ok, err := s.UsePasskey(ctx, still.ID, 0, base); err != nil || !ok {
			t.Errorf("UsePasskey without a counter = %t, %v, want true", ok, err)
		}
	}
	if n, err := s.DeletePasskeys(ctx, other.ID, one.ID); err != nil || n != 0 {
		t.Errorf("DeletePasskeys of another's = %d, %v, want 0", n, err)
	}
	if n, err := s.DeletePasskeys(ctx, a.ID, one.ID); err != nil || n != 1 {
		t.Errorf("DeletePasskeys = %d, %v, want 1", n, err)
	}
	if n, err := s.DeletePasskeys(ctx, a.ID, nil); err != nil || n != 2 {
		t.Errorf("DeletePasskeys of all = %d, %v, want 2", n, err)
	}
	must(t, s.EraseLogin(ctx, other.ID))
	if list, err := s.Passkeys(ctx, other.ID); err != nil || len(list) != 0 {
		t.Errorf("Passkeys after EraseLogin = %v, %v, want none", list, err)
	}
}
