package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/api/responses"
	"sluice/internal/store/sqlstore/alltest"
)

// keptResponses checks that responses can be found on every node until they expire, with those before them, that only
// their account can delete them, and that the oldest go when a bound is exceeded.
func keptResponses(t *testing.T, open func() *alltest.Store) {
	s, other := open(), open()
	name := func(i int) []byte { return fmt.Appendf(nil, "response \x00\xff%d", i) }
	many := responses.Bound{Entries: 1000, Bytes: 1000}
	keep := func(account string, i, previous, size int, most responses.Bound) {
		t.Helper()
		r := &responses.Record{ID: name(i), AccountID: account, Previous: []byte{}, Sealed: bytes.Repeat([]byte{byte(i)}, size), ExpiresAt: base.Add(time.Duration(i) * time.Minute)}
		if previous > 0 {
			r.Previous = name(previous)
		}
		if err := s.KeepResponses(t.Context(), []*responses.Record{r}, most); err != nil {
			t.Fatalf("KeepResponses = %v", err)
		}
	}
	has := func(now time.Time, want string) {
		t.Helper()
		var ids [][]byte
		for i := range 10 {
			ids = append(ids, name(i))
		}
		found, err := other.FindResponses(t.Context(), ids, now)
		got := ""
		for i, sealed := range found {
			if sealed != nil {
				got += fmt.Sprint(i)
			}
			if sealed != nil && (len(sealed) == 0 || sealed[0] != byte(i)) {
				t.Errorf("response %d = %x", i, sealed)
			}
		}
		if err != nil || got != want {
			t.Errorf("FindResponses = %s, %v, want %s", got, err, want)
		}
		sizes, err := other.SizeResponses(t.Context(), ids, now)
		for i, n := range sizes {
			if n != int64(len(found[i])) {
				t.Errorf("SizeResponses = %d, want as many bytes as FindResponses returns", sizes)
			}
		}
		if err != nil || len(sizes) != len(ids) {
			t.Errorf("SizeResponses = %d, %v, want a size for each id", sizes, err)
		}
	}
	follow := func(i int, now time.Time, most int, want string) {
		t.Helper()
		links, err := other.FollowResponses(t.Context(), name(i), now, most)
		got := ""
		for _, l := range links {
			got += fmt.Sprintf("%c:%d ", l.ID[len(l.ID)-1], l.Size)
		}
		if err != nil || got != want {
			t.Errorf("FollowResponses(%d) = %q, %v, want %q", i, got, err, want)
		}
	}
	keep("a", 1, 0, 10, many)
	keep("a", 2, 1, 20, many)
	keep("a", 3, 2, 30, many)
	keep("b", 4, 0, 40, many)
	keep("a", 3, 2, 31, many) // replaces the other
	has(base, "1234")
	has(base.Add(2*time.Minute), "34")
	follow(3, base, 10, "3:31 2:20 1:10 ")
	follow(3, base, 2, "3:31 2:20 ")
	follow(3, base.Add(time.Minute), 10, "3:31 2:20 ")
	follow(9, base, 10, "")

	// Several at once, of several accounts, one of them for the second time.
	var some []*responses.Record
	for i, account := range []string{"z", "y", "z", "y", "z"} {
		some = append(some, &responses.Record{ID: fmt.Append(nil, "many ", i), AccountID: account, Previous: []byte{}, Sealed: make([]byte, i+1), ExpiresAt: base.Add(time.Hour)})
	}
	for _, batch := range [][]*responses.Record{some[:4], some[3:], {some[0], some[0]}} {
		if err := s.KeepResponses(t.Context(), batch, many); err != nil {
			t.Errorf("KeepResponses of %d = %v", len(batch), err)
		}
	}
	// Two of them fit beside the 9 bytes that account z has: sums that were too high would let the first one go.
	for i := range 2 {
		r := &responses.Record{ID: fmt.Append(nil, "more ", i), AccountID: "z", Previous: []byte{}, Sealed: make([]byte, 5), ExpiresAt: base.Add(2 * time.Hour)}
		if err := s.KeepResponses(t.Context(), []*responses.Record{r}, responses.Bound{Entries: 5, Bytes: 19}); err != nil {
			t.Errorf("KeepResponses = %v", err)
		}
	}
	if links, err := other.FollowResponses(t.Context(), some[0].ID, base, 1); len(links) != 1 || err != nil {
		t.Errorf("FollowResponses = %v, %v, want the first response of a batch", links, err)
	}
	for _, account := range []string{"y", "z"} {
		if err := s.ForgetResponses(t.Context(), account); err != nil {
			t.Errorf("ForgetResponses = %v", err)
		}
	}

	// Only its account deletes a response.
	for _, tt := range []struct {
		account string
		i       int
		want    bool
	}{{"b", 2, false}, {"a", 2, true}, {"a", 2, false}, {"c", 9, false}} {
		if got, err := s.DropResponse(t.Context(), tt.account, name(tt.i)); got != tt.want || err != nil {
			t.Errorf("DropResponse(%s, %d) = %t, %v, want %t", tt.account, tt.i, got, err, tt.want)
		}
	}
	has(base, "134")
	follow(3, base, 10, "3:31 ")

	// The oldest go: by number, by bytes, and the new one stays even if it alone is too large. Account a has 41 bytes now.
	keep("a", 5, 0, 9, responses.Bound{Entries: 3, Bytes: 1000})
	has(base, "1345")
	keep("a", 6, 0, 10, responses.Bound{Entries: 3, Bytes: 1000})
	has(base, "3456")
	keep("a", 7, 0, 1, responses.Bound{Entries: 100, Bytes: 50})
	has(base, "4567")
	keep("a", 8, 0, 100, responses.Bound{Entries: 100, Bytes: 50})
	has(base, "48")

	// All of an account go when it is closed, and nothing of another.
	keep("c", 1, 0, 10, many)
	keep("c", 2, 1, 10, many)
	if err := s.ForgetResponses(t.Context(), "c"); err != nil {
		t.Errorf("ForgetResponses = %v", err)
	}
	has(base, "48")

	// What has expired is deleted, a few at a time.
	keep("a", 9, 0, 1, many)
	for _, tt := range []struct {
		now  time.Time
		want int
	}{{base, 0}, {base.Add(9 * time.Minute), 2}, {base.Add(9 * time.Minute), 1}, {base.Add(time.Hour), 0}} {
		if n, err := s.DropResponses(t.Context(), tt.now, 2); n != tt.want || err != nil {
			t.Errorf("DropResponses(%v) = %d, %v, want %d", tt.now, n, err, tt.want)
		}
	}
	has(base, "")
}

// responsesInParallel checks that the sums of an account hold whatever runs at the same time: once all is deleted, a
// response that fits the bound alone stays.
func responsesInParallel(t *testing.T, open func() *alltest.Store) {
	stores := []*alltest.Store{open(), open()}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			s := stores[n%2]
			for i := range 10 {
				id := fmt.Appendf(nil, "%d %d", n, i)
				r := &responses.Record{ID: id, AccountID: "a", Previous: []byte{}, Sealed: make([]byte, 10), ExpiresAt: base.Add(time.Minute)}
				if err := s.KeepResponses(t.Context(), []*responses.Record{r}, responses.Bound{Entries: 40, Bytes: 1 << 20}); err != nil {
					t.Errorf("KeepResponses = %v", err)
				}
				if i%3 == 0 {
					if _, err := s.DropResponse(t.Context(), "a", id); err != nil {
						t.Errorf("DropResponse = %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	left := 0
	for n := 1; n > 0; {
		var err error
		if n, err = stores[0].DropResponses(t.Context(), base.Add(time.Hour), 7); err != nil {
			t.Fatalf("DropResponses = %v", err)
		}
		left += n
	}
	if left == 0 || left > 40 {
		t.Errorf("%d responses were left, want at most 40", left)
	}
	// Sums that were too high would delete the first of these.
	for i := range 2 {
		r := &responses.Record{ID: fmt.Append(nil, i), AccountID: "a", Previous: []byte{}, Sealed: make([]byte, 10), ExpiresAt: base.Add(2 * time.Hour)}
		if err := stores[1].KeepResponses(t.Context(), []*responses.Record{r}, responses.Bound{Entries: 2, Bytes: 20}); err != nil {
			t.Fatalf("KeepResponses = %v", err)
		}
	}
	found, err := stores[0].FindResponses(t.Context(), [][]byte{[]byte("0"), []byte("1")}, base)
	if err != nil || found[0] == nil || found[1] == nil {
		t.Errorf("FindResponses = %v, %v, want both", found, err)
	}
}

// movedResponses checks that responses and the marks of their journals are stored together, or neither, whatever is stored
// already.
func movedResponses(t *testing.T, open func() *alltest.Store) {
	s := open()
	most := responses.Bound{Entries: 3, Bytes: 1000}
	move := func(ctx context.Context, number uint64, ids ...string) error {
		var all []*responses.Record
		for i, id := range ids {
			all = append(all, &responses.Record{ID: []byte(id), AccountID: "a", Previous: []byte{}, Sealed: []byte(id), ExpiresAt: base.Add(time.Duration(int(number)*10+i) * time.Minute)})
		}
		return s.MoveResponses(ctx, all, most, []responses.Mark{{Journal: "one", Number: number}, {Journal: "two", Number: 2 * number}})
	}
	check := func(number uint64, want ...string) {
		t.Helper()
		marks, err := s.ResponseMarks(t.Context())
		slices.SortFunc(marks, func(a, b responses.Mark) int { return strings.Compare(a.Journal, b.Journal) })
		if err != nil || !slices.Equal(marks, []responses.Mark{{Journal: "one", Number: number}, {Journal: "two", Number: 2 * number}}) {
			t.Errorf("ResponseMarks = %v, %v, want %d and twice as much", marks, err, number)
		}
		var ids [][]byte
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			ids = append(ids, []byte(id))
		}
		found, err := s.FindResponses(t.Context(), ids, base)
		var got []string
		for _, sealed := range found {
			if sealed != nil {
				got = append(got, string(sealed))
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("after %d there are %q, %v, want %q", number, got, err, want)
		}
	}
	for _, tt := range []struct {
		number uint64
		ids    []string
		want   []string
	}{
		{1, []string{"1", "2"}, []string{"1", "2"}},
		{2, []string{"2", "3"}, []string{"1", "2", "3"}}, // one of them again
		{3, []string{"4"}, []string{"2", "3", "4"}},      // beyond the bound
		{4, nil, []string{"2", "3", "4"}},
	} {
		if err := move(t.Context(), tt.number, tt.ids...); err != nil {
			t.Fatalf("MoveResponses(%q) = %v", tt.ids, err)
		}
		check(tt.number, tt.want...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := move(ctx, 5, "5"); err == nil {
		t.Error("MoveResponses of a caller that has left = nil")
	}
	check(4, "2", "3", "4")
	if err := s.DropResponseMarks(t.Context(), []string{"two"}); err != nil {
		t.Errorf("DropResponseMarks = %v", err)
	}
	if marks, err := s.ResponseMarks(t.Context()); err != nil || len(marks) != 1 || marks[0].Journal != "two" {
		t.Errorf("ResponseMarks = %v, %v, want that of two", marks, err)
	}
	if err := s.DropResponseMarks(t.Context(), nil); err != nil {
		t.Errorf("DropResponseMarks of all = %v", err)
	}
	if marks, err := s.ResponseMarks(t.Context()); err != nil || len(marks) != 0 {
		t.Errorf("ResponseMarks = %v, %v, want none", marks, err)
	}
}
