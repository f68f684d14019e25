package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account/staff"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore/alltest"
)

// staffToken returns a token whose hash is derived from its id.
func staffToken(id, accountID string) *staff.Token {
	t := &staff.Token{ID: id, AccountID: accountID, Name: "nightly", LastFour: "wxyz", Scopes: []string{"accounts:read", "billing:read"}, CreatedAt: base, ExpiresAt: base.Add(time.Hour)}
	copy(t.Hash[:], id)
	return t
}

// staffTokens checks how tokens are found, listed, used, deleted and limited.
func staffTokens(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a, other := create(t, s, 1), create(t, s, 2)
	one, two, theirs := staffToken("tok_1", a.ID), staffToken("tok_2", a.ID), staffToken("tok_3", other.ID)
	for _, n := range []*staff.Token{one, two, theirs} {
		must(t, s.AddStaffToken(ctx, n, base, 10))
	}
	got, err := s.FindStaffToken(ctx, one.Hash, base)
	if diff := cmp.Diff(one, got); err != nil || diff != "" {
		t.Errorf("FindStaffToken: %v, -want +got\n%s", err, diff)
	}
	if _, err := s.FindStaffToken(ctx, one.Hash, one.ExpiresAt); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("FindStaffToken of an expired one = %v, want unauthenticated", err)
	}
	for _, tt := range []struct {
		account, after string
		limit          int
		want           []staff.Token
	}{
		{a.ID, "", 10, []staff.Token{*one, *two}},
		{a.ID, "tok_1", 10, []staff.Token{*two}},
		{a.ID, "", 1, []staff.Token{*one}},
		{"", "tok_1", 10, []staff.Token{*two, *theirs}},
	} {
		list, err := s.StaffTokens(ctx, tt.account, tt.after, tt.limit)
		if diff := cmp.Diff(tt.want, list); err != nil || diff != "" {
			t.Errorf("StaffTokens(%q, %q, %d): %v, -want +got\n%s", tt.account, tt.after, tt.limit, err, diff)
		}
	}
	later := base.Add(time.Minute)
	must(t, s.UseStaffToken(ctx, one.ID, later))
	must(t, s.UseStaffToken(ctx, one.ID, base)) // an older use does not replace it
	if got, err := s.FindStaffToken(ctx, one.Hash, base); err != nil || got.LastUsedAt != later {
		t.Errorf("FindStaffToken after its use = %+v, %v, want %v", got, err, later)
	}
	// A member deletes only their own.
	if _, err := s.DeleteStaffToken(ctx, a.ID, theirs.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("DeleteStaffToken of another account's = %v, want not found", err)
	}
	if gone, err := s.DeleteStaffToken(ctx, "", theirs.ID); err != nil || gone.AccountID != other.ID {
		t.Errorf("DeleteStaffToken = %+v, %v, want the token", gone, err)
	}
	if _, err := s.FindStaffToken(ctx, theirs.Hash, base); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("FindStaffToken of a deleted one = %v, want unauthenticated", err)
	}
	// No more than most, whoever is quicker. Those that have expired make room.
	var kept atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			err := s.AddStaffToken(ctx, staffToken(fmt.Sprint("tok_many_", i), a.ID), base, 5)
			if err == nil {
				kept.Add(1)
			} else if !fault.Is(err, fault.Conflict) {
				t.Errorf("AddStaffToken beyond the bound = %v, want a conflict", err)
			}
		})
	}
	wg.Wait()
	if kept.Load() != 3 {
		t.Errorf("%d tokens were added to two, want 3", kept.Load())
	}
	fresh := staffToken("tok_new", a.ID)
	fresh.ExpiresAt = base.Add(3 * time.Hour)
	must(t, s.AddStaffToken(ctx, fresh, base.Add(2*time.Hour), 5))
	if list, err := s.StaffTokens(ctx, a.ID, "", 10); err != nil || len(list) != 1 {
		t.Errorf("StaffTokens after all others expired = %v, %v, want the new one", list, err)
	}
	must(t, s.EraseLogin(ctx, a.ID))
	if list, err := s.StaffTokens(ctx, a.ID, "", 10); err != nil || len(list) != 0 {
		t.Errorf("StaffTokens after EraseLogin = %v, %v, want none", list, err)
	}
}
