package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/upstream/continuation"
)

// states checks that states can be found until they expire, that a later one replaces an earlier
// one of the same id, and that the oldest are deleted when a limit is exceeded. Ids and states are
// arbitrary bytes, so some here are not valid UTF-8.
func states(t *testing.T, open func() *alltest.Store) {
	s := open()
	id, other := []byte("id \x00\xff"), []byte("other")
	expires := base.Add(time.Hour)
	find := func(s *alltest.Store, id []byte, now time.Time, want []byte) {
		t.Helper()
		got, err := s.FindState(t.Context(), id, now)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("FindState(%q) = %x, %v, want %x", id, got, err, want)
		}
	}
	find(s, id, base, nil)
	many := continuation.Bound{Entries: 1000, Bytes: 1000}
	keep := func(account string, id, sealed []byte, expires time.Time, most continuation.Bound) {
		t.Helper()
		if err := s.KeepState(t.Context(), &continuation.State{ID: id, AccountID: account, Sealed: sealed, ExpiresAt: expires}, most); err != nil {
			t.Fatal(err)
		}
	}
	// The second one replaces the first.
	for _, sealed := range [][]byte{{1}, {0, 2, 0xff}} {
		keep("a", id, sealed, expires, many)
	}
	keep("a", other, []byte{3}, expires.Add(time.Minute), many)
	// Another process finds it too: the next turn of a conversation may reach any node.
	find(open(), id, base, []byte{0, 2, 0xff})
	find(s, id, expires.Add(-time.Millisecond), []byte{0, 2, 0xff})
	find(s, id, expires, nil)
	for _, tt := range []struct {
		now  time.Time
		want int
	}{{base, 0}, {expires, 1}, {expires, 0}, {expires.Add(time.Hour), 1}} {
		if n, err := s.DropStates(t.Context(), tt.now, 10); n != tt.want || err != nil {
			t.Errorf("DropStates(%v) = %d, %v, want %d", tt.now, n, err, tt.want)
		}
	}
	find(s, other, base, nil)

	// Within an account, the oldest are deleted: by number, by bytes, and when one alone exceeds
	// the limit.
	name := func(i int) []byte { return fmt.Append(nil, "state ", i) }
	has := func(want string) {
		t.Helper()
		got := ""
		for i := range 10 {
			if sealed, err := s.FindState(t.Context(), name(i), base); err != nil {
				t.Fatal(err)
			} else if sealed != nil {
				got += fmt.Sprint(i)
			}
		}
		if got != want {
			t.Errorf("the states %q are kept, want %q", got, want)
		}
	}
	at := func(i int) time.Time { return expires.Add(time.Duration(i) * time.Second) }
	// The state of another account stays throughout.
	keep("b", name(9), make([]byte, 50), at(9), many)
	for i := range 5 {
		keep("a", name(i), make([]byte, 10), at(i), continuation.Bound{Entries: 3, Bytes: 1000})
	}
	has("2349")
	keep("a", name(3), make([]byte, 20), at(6), continuation.Bound{Entries: 3, Bytes: 40}) // in place of itself
	has("2349")
	keep("a", name(5), make([]byte, 10), at(5), continuation.Bound{Entries: 3, Bytes: 35})
	has("359")
	keep("a", name(6), make([]byte, 36), at(7), continuation.Bound{Entries: 3, Bytes: 35})
	has("69")
	// The oldest of all accounts are deleted when the total exceeds its limit.
	keep("c", name(0), make([]byte, 10), at(0), many)
	keep("c", name(1), make([]byte, 10), at(1), many)
	for _, tt := range []struct {
		most int64
		want int
		has  string
	}{{106, 0, "0169"}, {105, 1, "169"}, {95, 1, "69"}, {85, 1, "9"}, {0, 1, ""}, {0, 0, ""}} {
		if n, err := s.TrimStates(t.Context(), tt.most, 1); n != tt.want || err != nil {
			t.Errorf("TrimStates(%d) = %d, %v, want %d", tt.most, n, err, tt.want)
		}
		has(tt.has)
	}
	usedStates(t, s)
}

// usedStates checks that states of a conversation are found together, that their time can be renewed, and that those which
// were not used for the longest time are deleted first, whenever they expire.
func usedStates(t *testing.T, s *alltest.Store) {
	t.Helper()
	ids := [][]byte{[]byte("x \xff"), []byte("y"), []byte("z"), []byte("missing")}
	at := func(i int) time.Time { return base.Add(time.Duration(i) * time.Minute) }
	keep := func(i int, expires time.Time, most continuation.Bound) {
		t.Helper()
		st := &continuation.State{ID: ids[i], AccountID: "u", Sealed: []byte{byte(i)}, UsedAt: at(i), ExpiresAt: expires}
		if err := s.KeepState(t.Context(), st, most); err != nil {
			t.Fatal(err)
		}
	}
	has := func(now time.Time, want string) {
		t.Helper()
		found, err := s.FindStates(t.Context(), ids, now)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, st := range found {
			got = append(got, fmt.Sprintf("%x=%x until %s", st.ID, st.Sealed, st.ExpiresAt.UTC().Format("15:04")))
		}
		slices.Sort(got)
		if strings.Join(got, ", ") != want {
			t.Errorf("FindStates = %q, want %q", got, want)
		}
	}
	most := continuation.Bound{Entries: 2, Bytes: 1000}
	until := func(i int) string { return at(i).UTC().Format("15:04") }
	keep(0, at(100), most)
	keep(1, at(10), most)
	has(base, "7820ff=00 until "+until(100)+", 79=01 until "+until(10))
	has(at(10), "7820ff=00 until "+until(100))
	if err := s.RenewStates(t.Context(), [][]byte{ids[0], ids[3]}, at(5), at(200)); err != nil {
		t.Fatal(err)
	}
	has(base, "7820ff=00 until "+until(200)+", 79=01 until "+until(10))
	keep(2, at(9), most) // y goes, though z expires before it
	has(base, "7820ff=00 until "+until(200)+", 7a=02 until "+until(9))
	if n, err := s.DropStates(t.Context(), at(1000), 10); err != nil || n != 2 {
		t.Errorf("DropStates = %d, %v, want 2", n, err)
	}
}
