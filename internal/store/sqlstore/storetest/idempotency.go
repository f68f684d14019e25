package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/internal/line/idempotency"
	"sluice/internal/store/sqlstore/alltest"
)

// roomy is a limit in bytes that the tests do not reach.
const roomy = 1 << 20

// newReply returns record n of an account with the given size in bytes. It expires n minutes after the
// end of the first day, so records expire in the order of n.
func newReply(account string, n, size int) *idempotency.Record {
	id := fmt.Appendf(nil, "%s %d \x00\xff", account, n)
	return &idempotency.Record{ID: id, AccountID: account, Sealed: bytes.Repeat([]byte{byte(n)}, size), ExpiresAt: base.Add(24*time.Hour + time.Duration(n)*time.Minute)}
}

// keep stores a record.
func keep(t testing.TB, s *alltest.Store, r *idempotency.Record, now time.Time, most int64) {
	t.Helper()
	if err := s.KeepReply(t.Context(), r, now, most); err != nil {
		t.Fatalf("KeepReply = %v", err)
	}
}

// kept checks whether the store has exactly this record at the time now.
func kept(t testing.TB, s *alltest.Store, r *idempotency.Record, now time.Time, want bool) {
	t.Helper()
	got, err := s.FindReply(t.Context(), r.ID, now)
	if err != nil {
		t.Fatalf("FindReply = %v", err)
	}
	if want && !bytes.Equal(got, r.Sealed) || !want && got != nil {
		t.Errorf("FindReply(%q) = %d bytes %.4x, want %t: %d bytes %.4x", r.ID, len(got), got, want, len(r.Sealed), r.Sealed)
	}
}

// replies checks that records can be found by every process until they expire (docs/api.md#idempotency).
func replies(t *testing.T, open func() *alltest.Store) {
	s := open()
	one, two, big := newReply("acct_1", 1, 100), newReply("acct_2", 1, 200), newReply("acct_1", 2, 1<<20)
	kept(t, s, one, base, false)
	for _, r := range []*idempotency.Record{one, two, big} {
		keep(t, s, r, base, 2*roomy)
	}
	for _, r := range []*idempotency.Record{one, two, big} {
		kept(t, s, r, base, true)
		kept(t, open(), r, base, true)
		kept(t, s, r, r.ExpiresAt.Add(-time.Millisecond), true)
		kept(t, s, r, r.ExpiresAt, false)
	}
	kept(t, s, newReply("acct_1", 3, 1), base, false)
}

// replyOnce checks that the first reply stays until it expires, and that then the next one replaces
// it. A caller who repeats a request must always get the same reply.
func replyOnce(t *testing.T, open func() *alltest.Store) {
	s := open()
	first, second := newReply("acct_1", 1, 100), newReply("acct_1", 1, 300)
	keep(t, s, first, base, roomy)
	keep(t, s, second, base, roomy)
	kept(t, s, first, base, true)
	second.ExpiresAt = base.Add(48 * time.Hour)
	keep(t, s, second, first.ExpiresAt, roomy)
	kept(t, s, second, first.ExpiresAt, true)
	// A replaced record no longer counts: 300 and 700 make 1000.
	other := newReply("acct_1", 2, 700)
	keep(t, s, other, first.ExpiresAt, 1000)
	kept(t, s, second, first.ExpiresAt, true)
}

// repliesGiveWay checks that an account's oldest records are deleted when its limit is exceeded,
// and no others: one account must not push out the replies of another.
func repliesGiveWay(t *testing.T, open func() *alltest.Store) {
	s := open()
	foreign := newReply("acct_2", 0, 900)
	keep(t, s, foreign, base, 1000)
	var all []*idempotency.Record
	for n := range 6 {
		all = append(all, newReply("acct_1", n, 250))
		keep(t, s, all[n], base, 1000)
	}
	for n, r := range all {
		kept(t, s, r, base, n >= 2) // four fit
	}
	// A large one makes several others give way.
	large := newReply("acct_1", 9, 600)
	keep(t, s, large, base, 1000)
	kept(t, s, all[4], base, false)
	kept(t, s, all[5], base, true)
	kept(t, s, large, base, true)
	kept(t, s, foreign, base, true)
	// The newest stays, even if it expires before the others.
	early := newReply("acct_1", -5, 200)
	keep(t, s, early, base, 1000)
	kept(t, s, early, base, true)
	kept(t, s, all[5], base, false)
}

// dropReplies checks that expired records are deleted in batches and no longer count. Small batches
// keep each transaction short.
func dropReplies(t *testing.T, open func() *alltest.Store) {
	s := open()
	var all []*idempotency.Record
	for n := range 10 {
		r := newReply(fmt.Sprint("acct_", n%3), n, 100)
		all = append(all, r)
		keep(t, s, r, base, 400)
	}
	now := all[4].ExpiresAt
	for _, want := range []int{3, 2, 0} { // five have expired, three at a time
		if n, err := s.DropReplies(t.Context(), now, 3); err != nil || n != want {
			t.Errorf("DropReplies = %d, %v, want %d", n, err, want)
		}
	}
	for n, r := range all {
		kept(t, s, r, base, n >= 5)
	}
	// Deleted records no longer count: acct_0 has 6 and 9 left, and room for 200 bytes more.
	keep(t, s, newReply("acct_0", 20, 200), now, 400)
	kept(t, s, all[6], now, true)
}

// repliesInParallel checks that concurrent keeping and dropping neither deadlock nor lose count.
func repliesInParallel(t *testing.T, open func() *alltest.Store) {
	// Two processes that write at the same time.
	s, other := open(), open()
	const most = 1000
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			store := s
			if i%2 == 0 {
				store = other
			}
			keep(t, store, newReply(fmt.Sprint("acct_", i%2), i/4, 150), base, most)
		})
		if i%8 == 0 {
			wg.Go(func() {
				if _, err := other.DropReplies(t.Context(), base.Add(24*time.Hour+5*time.Minute), 4); err != nil {
					t.Errorf("DropReplies = %v", err)
				}
			})
		}
	}
	wg.Wait()
	for {
		n, err := s.DropReplies(t.Context(), base.Add(48*time.Hour), 100)
		if err != nil {
			t.Fatalf("DropReplies = %v", err)
		}
		if n == 0 {
			break
		}
	}
	// Nothing is left, so the whole limit is available, and not more.
	for n := range 5 {
		keep(t, s, newReply("acct_0", n, 250), base, most)
	}
	for n := range 5 {
		kept(t, s, newReply("acct_0", n, 250), base, n > 0)
	}
}

// replyOfCanceled checks that nothing is stored for a caller who has left.
func replyOfCanceled(t *testing.T, open func() *alltest.Store) {
	s := open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newReply("acct_1", 1, 10)
	if err := s.KeepReply(ctx, r, base, roomy); !errors.Is(err, context.Canceled) {
		t.Errorf("KeepReply after its time = %v, want context.Canceled", err)
	}
	if _, err := s.FindReply(ctx, r.ID, base); !errors.Is(err, context.Canceled) {
		t.Errorf("FindReply after its time = %v, want context.Canceled", err)
	}
	kept(t, s, r, base, false)
}
