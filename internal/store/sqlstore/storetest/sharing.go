package storetest

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/internal/account/sharing"
	"sluice/internal/store/sqlstore/alltest"
)

// shares checks that shared conversations are found on every node until they expire, that only their account lists and
// deletes them, and that an account cannot exceed its bound, whatever nodes it uses.
func shares(t *testing.T, open func() *alltest.Store) {
	s, other := open(), open()
	id := func(i int) []byte { return fmt.Appendf(nil, "share \x00\xff%d", i) }
	most := sharing.Bound{Entries: 3, Bytes: 100}
	keep := func(account string, i, size int, now time.Time, want bool) {
		t.Helper()
		r := &sharing.Record{ID: id(i), AccountID: account, CreatedAt: now.Add(time.Duration(i) * time.Second), ExpiresAt: base.Add(time.Duration(i) * time.Hour), Head: []byte{byte(i)}, Sealed: bytes.Repeat([]byte{byte(i)}, size-1)}
		if got, err := s.KeepShare(t.Context(), r, most, now); got != want || err != nil {
			t.Errorf("KeepShare(%s, %d) = %t, %v, want %t", account, i, got, err, want)
		}
	}
	has := func(account string, now time.Time, want string) {
		t.Helper()
		list, err := other.ListShares(t.Context(), account, now)
		got := ""
		for _, r := range list {
			got += fmt.Sprint(r.Head[0])
			if r.AccountID != account || r.Sealed != nil || !bytes.Equal(r.ID, id(int(r.Head[0]))) {
				t.Errorf("ListShares has %+v", r)
			}
		}
		if err != nil || got != want {
			t.Errorf("ListShares(%s) = %s, %v, want %s", account, got, err, want)
		}
	}
	keep("a", 1, 10, base, true)
	keep("a", 2, 20, base, true)
	keep("b", 4, 100, base, true)
	keep("b", 5, 1, base, false) // bytes
	keep("a", 3, 30, base, true)
	keep("a", 6, 1, base, false) // entries
	has("a", base, "321")
	has("b", base, "4")
	has("c", base, "")

	found, err := other.FindShare(t.Context(), id(2), base)
	if err != nil || found == nil || found.AccountID != "a" || !found.ExpiresAt.Equal(base.Add(2*time.Hour)) || !bytes.Equal(found.Sealed, bytes.Repeat([]byte{2}, 19)) {
		t.Errorf("FindShare = %+v, %v", found, err)
	}
	if owner, err := other.ShareOwner(t.Context(), id(2), base); owner != "a" || err != nil {
		t.Errorf("ShareOwner = %q, %v, want a", owner, err)
	}
	for _, tt := range []struct {
		i   int
		now time.Time
	}{{9, base}, {2, base.Add(2 * time.Hour)}} {
		if r, err := other.FindShare(t.Context(), id(tt.i), tt.now); r != nil || err != nil {
			t.Errorf("FindShare(%d) = %+v, %v, want nothing", tt.i, r, err)
		}
		if owner, err := other.ShareOwner(t.Context(), id(tt.i), tt.now); owner != "" || err != nil {
			t.Errorf("ShareOwner(%d) = %q, %v, want nobody", tt.i, owner, err)
		}
	}
	has("a", base.Add(2*time.Hour), "3")

	// What has expired makes room before the sweep, and is counted once.
	keep("a", 7, 10, base.Add(time.Hour), true)
	keep("a", 8, 1, base.Add(time.Hour), false)
	has("a", base, "732")

	// Only its account deletes a share.
	for _, tt := range []struct {
		account string
		i       int
		want    bool
	}{{"b", 2, false}, {"a", 2, true}, {"a", 2, false}, {"c", 9, false}} {
		if got, err := s.DropShare(t.Context(), tt.account, id(tt.i)); got != tt.want || err != nil {
			t.Errorf("DropShare(%s, %d) = %t, %v, want %t", tt.account, tt.i, got, err, tt.want)
		}
	}
	has("a", base, "73")

	// The sweep deletes what has expired, in small steps, and gives its room back.
	for i, want := range []int{1, 1, 0} {
		if n, err := other.DropShares(t.Context(), base.Add(4*time.Hour), 1); n != want || err != nil {
			t.Errorf("DropShares %d = %d, %v, want %d", i, n, err, want)
		}
	}
	has("a", base, "7")
	has("b", base, "")
	keep("b", 9, 100, base.Add(4*time.Hour), true)

	if err := s.ForgetShares(t.Context(), "b"); err != nil {
		t.Errorf("ForgetShares = %v", err)
	}
	has("b", base, "")
	has("a", base, "7")

	// Many at once do not exceed the bound.
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			on := s
			if i%2 == 0 {
				on = other
			}
			r := &sharing.Record{ID: id(100 + i), AccountID: "d", CreatedAt: base, ExpiresAt: base.Add(time.Hour), Head: []byte{byte(i)}, Sealed: []byte{1}}
			if _, err := on.KeepShare(t.Context(), r, most, base); err != nil {
				t.Errorf("KeepShare at once = %v", err)
			}
		})
	}
	all.Wait()
	if list, err := s.ListShares(t.Context(), "d", base); len(list) != 3 || err != nil {
		t.Errorf("%d were kept at once, %v, want 3", len(list), err)
	}
}
