package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/line/idempotency"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/upstream/routing"
)

// life is longer than any test runs.
const life = time.Hour

// claims checks that a key has one holder at a time, that only the holder ends or renews a claim, and that
// keeping a reply ends it.
func claims(t *testing.T, open func() *alltest.Store) {
	s, other := open(), open()
	ctx, now := t.Context(), time.Now()
	claim := func(holder string, serial int64) *idempotency.Claim {
		return &idempotency.Claim{ID: []byte("id \x00\xff"), Body: []byte("body of " + holder), Holder: holder, Serial: serial}
	}
	try := func(s *alltest.Store, c *idempotency.Claim, span time.Duration, want bool) {
		t.Helper()
		if held, _, _, err := s.ClaimReply(ctx, c, now, span); err != nil || held != want {
			t.Errorf("ClaimReply(%s, %d) = %t, %v, want %t", c.Holder, c.Serial, held, err, want)
		}
	}
	seek := func(wantSealed, wantBody string) {
		t.Helper()
		for _, s := range []*alltest.Store{s, other} {
			sealed, body, err := s.SeekReply(ctx, []byte("id \x00\xff"), now)
			if err != nil || string(sealed) != wantSealed || string(body) != wantBody {
				t.Errorf("SeekReply = %q, %q, %v, want %q, %q", sealed, body, err, wantSealed, wantBody)
			}
		}
	}
	seek("", "")
	try(s, claim("a", 1), life, true)
	try(other, claim("b", 1), life, false)
	seek("", "body of a")
	try(s, claim("a", 2), life, true) // the next turn of the same process, before its last claim was dropped
	must(t, s.DropClaim(ctx, claim("a", 1)))
	must(t, s.DropClaim(ctx, claim("b", 2)))
	seek("", "body of a")
	must(t, s.DropClaim(ctx, claim("a", 2)))
	seek("", "")

	// A claim lapses; renewed, it holds again unless somebody was quicker.
	ids := [][]byte{[]byte("id \x00\xff"), []byte("none")}
	try(s, claim("a", 3), -time.Millisecond, true)
	seek("", "")
	must(t, s.RenewClaims(ctx, "a", ids, life))
	seek("", "body of a")
	must(t, s.RenewClaims(ctx, "a", ids, -time.Millisecond))
	try(other, claim("b", 3), life, true)
	must(t, s.RenewClaims(ctx, "a", ids, life))
	must(t, s.DropClaim(ctx, claim("a", 3)))
	seek("", "body of b")

	// Keeping a reply ends the claim, and nobody gets another before the reply expires.
	r := &idempotency.Record{ID: ids[0], AccountID: "acct_1", Sealed: []byte("sealed"), ExpiresAt: now.Add(life), Claim: claim("b", 3)}
	keep(t, other, r, now, roomy)
	seek("sealed", "")
	try(s, claim("a", 4), life, false)
	now = now.Add(life)
	seek("", "")
	try(s, claim("a", 4), life, true)
	// A reply that is there already ends the claim of the one that came too late.
	now = now.Add(-life)
	r.Claim = claim("a", 4)
	keep(t, s, r, now, roomy)
	seek("sealed", "")

	// Claims of dead nodes are deleted with the rest; those in force stay.
	dead, alive := claim("c", 1), claim("d", 1)
	dead.ID, alive.ID = []byte("dead"), []byte("alive")
	try(s, dead, -time.Millisecond, true)
	try(s, alive, life, true)
	s.DropExpired(ctx, func(what string, err error) { t.Errorf("DropExpired %s = %v", what, err) })
	must(t, s.RenewClaims(ctx, "c", [][]byte{dead.ID}, life))
	for _, tt := range []struct {
		*idempotency.Claim
		want string
	}{{dead, ""}, {alive, "body of d"}} {
		if _, body, err := s.SeekReply(ctx, tt.ID, now); err != nil || string(body) != tt.want {
			t.Errorf("SeekReply(%s) after DropExpired = %q, %v, want %q", tt.ID, body, err, tt.want)
		}
	}
}

// claimsInParallel checks that of many that want a key at the same time one gets it, and that whoever gets
// it after a reply was kept finds the reply.
func claimsInParallel(t *testing.T, open func() *alltest.Store) {
	stores := []*alltest.Store{open(), open()}
	ctx, now := t.Context(), time.Now()
	for round := range 3 {
		id := fmt.Appendf(nil, "round %d", round)
		var ran atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				s, c := stores[i%2], &idempotency.Claim{ID: id, Body: []byte("b"), Holder: fmt.Sprint("holder ", i), Serial: 1}
				for ctx.Err() == nil {
					held, sealed, _, err := s.ClaimReply(ctx, c, now, life)
					if err != nil {
						t.Errorf("ClaimReply = %v", err)
						return
					}
					if sealed != nil {
						if err := s.DropClaim(ctx, c); err != nil {
							t.Errorf("DropClaim = %v", err)
						}
						return
					}
					if held {
						ran.Add(1)
						r := &idempotency.Record{ID: id, AccountID: "acct_1", Sealed: []byte("s"), ExpiresAt: now.Add(life), Claim: c}
						if err := s.KeepReply(ctx, r, now, roomy); err != nil {
							t.Errorf("KeepReply = %v", err)
						}
						return
					}
				}
			})
		}
		wg.Wait()
		if ran.Load() != 1 {
			t.Errorf("round %d: the call ran %d times, want once", round, ran.Load())
		}
	}
}

// conversations checks that the models of conversations are found until their time is over, and that changes
// of the model can be asked for.
func conversations(t *testing.T, open func() *alltest.Store) {
	s, other := open(), open()
	ctx := t.Context()
	var all []routing.Conversation
	for i := range 330 { // more than one statement takes, and a rest
		all = append(all, routing.Conversation{ID: routing.ConversationID{byte(i >> 8), byte(i), 0xff}, Model: fmt.Sprint("m", i%3)})
	}
	found := func(c routing.Conversation, want string) {
		t.Helper()
		if got, err := other.FindConversation(ctx, c.ID); err != nil || got != want {
			t.Errorf("FindConversation(%x) = %q, %v, want %q", c.ID, got, err, want)
		}
	}
	moved := func(want ...routing.Conversation) {
		t.Helper()
		got, err := other.MovedConversations(ctx, life, 10)
		slices.SortFunc(got, func(a, b routing.Conversation) int { return strings.Compare(string(a.ID[:]), string(b.ID[:])) })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("MovedConversations = %v, %v, want %v", got, err, want)
		}
	}
	found(all[0], "")
	must(t, s.KeepConversations(ctx, nil, life))
	must(t, s.KeepConversations(ctx, all, life))
	for i := 0; i < len(all); i += 7 {
		found(all[i], all[i].Model)
	}
	found(all[len(all)-1], all[len(all)-1].Model)
	must(t, s.KeepConversations(ctx, all[:3], life)) // again, without a change
	moved()
	all[1].Model, all[4].Model = "x", "y"
	must(t, s.KeepConversations(ctx, all[:5], life))
	moved(all[1], all[4])
	found(all[1], "x")
	fresh := routing.Conversation{ID: routing.ConversationID{0xfe}, Model: " home 1", Moved: true} // there was nothing before
	must(t, s.KeepConversations(ctx, []routing.Conversation{fresh}, life))
	moved(all[1], all[4], routing.Conversation{ID: fresh.ID, Model: fresh.Model})
	must(t, s.KeepConversations(ctx, []routing.Conversation{fresh}, -time.Millisecond))
	if got, err := other.MovedConversations(ctx, life, 1); err != nil || len(got) != 1 {
		t.Errorf("MovedConversations, at most one = %v, %v", got, err)
	}
	if got, err := other.MovedConversations(ctx, -life, 10); err != nil || len(got) != 0 {
		t.Errorf("MovedConversations of later = %v, %v, want none", got, err)
	}
	must(t, s.KeepConversations(ctx, all[:2], -time.Millisecond))
	found(all[1], "")
	moved(all[4])
	s.DropExpired(ctx, func(what string, err error) { t.Errorf("DropExpired %s = %v", what, err) })
	found(all[2], all[2].Model)

	var wg sync.WaitGroup // nodes that store the same ones do not wait for each other for ever
	for i := range 4 {
		wg.Go(func() {
			list := slices.Clone(all[:80])
			for k := range list {
				list[k].Model = fmt.Sprint("by ", i)
			}
			if err := []*alltest.Store{s, other}[i%2].KeepConversations(ctx, list, life); err != nil {
				t.Errorf("KeepConversations = %v", err)
			}
		})
	}
	wg.Wait()
}

// attempts checks what only a database can get wrong about counting attempts; signin has the suite that its
// own counts pass, too.
func attempts(t *testing.T, open func() *alltest.Store) {
	s, other := open(), open()
	ctx := t.Context()
	attempt := func(n, most int) signin.Attempt {
		return signin.Attempt{Key: signin.Key{byte(n >> 8), byte(n)}, Limit: signin.Limit{Most: most, Span: life}}
	}
	// Many at once, over both: as many pass as the tighter limit allows, and no more count for the wider.
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			list := []signin.Attempt{attempt(1, 10), attempt(2, 15)}
			if i%3 == 0 {
				slices.Reverse(list)
			}
			wait, err := []*alltest.Store{s, other}[i%2].CountAttempts(ctx, list)
			if err != nil || wait < 0 || wait > life {
				t.Errorf("CountAttempts = %s, %v", wait, err)
			}
			if wait == 0 {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 10 {
		t.Errorf("%d attempts passed, want 10", passed.Load())
	}
	for i := range 6 {
		if wait, err := s.CountAttempts(ctx, []signin.Attempt{attempt(2, 15)}); err != nil || (wait == 0) != (i < 5) {
			t.Errorf("attempt %d at the wider limit = %s, %v, want 5 to pass", i+1, wait, err)
		}
	}
	// Rows are bounded: what has ended goes, then the least used.
	for n := range 50 {
		a := attempt(100+n, 5)
		if n%2 == 0 {
			a.Span = -time.Millisecond
		}
		for range 1 + n/40 { // the last ten are used twice
			if _, err := s.CountAttempts(ctx, []signin.Attempt{a}); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(t, s.DropAttempts(ctx, 7)) // of 2 and 25: the first two, and five that were used twice
	for n, want := range map[int]bool{1: true, 101: false, 141: true, 149: true} {
		probe := attempt(n, 2)
		if n == 1 {
			probe = attempt(n, 10)
		}
		wait, err := s.CountAttempts(ctx, []signin.Attempt{probe})
		if err != nil || (wait > 0) != want {
			t.Errorf("attempt at key %d after DropAttempts = %s, %v, want it used up: %t", n, wait, err, want)
		}
	}
}
