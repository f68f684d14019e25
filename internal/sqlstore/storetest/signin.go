package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/fault"
	"sluice/internal/signin"
	"sluice/internal/sqlstore"
)

func logins(t *testing.T, open func() *sqlstore.Store) {
	s, ctx := open(), t.Context()
	a := create(t, s, 1)
	check := func(what string, want signin.Login) {
		t.Helper()
		want.AccountID = a.ID
		if got, err := s.FindLogin(ctx, a.ID); err != nil || got != want {
			t.Errorf("FindLogin after %s = %+v, %v, want %+v", what, got, err, want)
		}
	}
	check("nothing", signin.Login{})
	must(t, s.SetPassword(ctx, a.ID, "first", ""))
	must(t, s.SetTOTP(ctx, a.ID, "secret", true))
	check("SetTOTP", signin.Login{Password: "first", TOTPSecret: "secret", TOTPOn: true})
	must(t, s.SetPassword(ctx, a.ID, "second", ""))
	check("SetPassword", signin.Login{Password: "second", TOTPSecret: "secret", TOTPOn: true})

	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			fresh, err := s.UseTOTP(ctx, a.ID, 7)
			if err != nil {
				t.Errorf("UseTOTP = %v", err)
			}
			if fresh {
				taken.Add(1)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1 {
		t.Errorf("a code was taken %d times, want once", taken.Load())
	}
	if fresh, err := s.UseTOTP(ctx, a.ID, 6); err != nil || fresh {
		t.Errorf("UseTOTP of an older code = %t, %v, want false", fresh, err)
	}
	must(t, s.EraseLogin(ctx, a.ID))
	check("EraseLogin", signin.Login{})
}

func session(id, accountID string, seen time.Time) *signin.Session {
	n := &signin.Session{ID: id, AccountID: accountID, CreatedAt: base, SeenAt: seen, ExpiresAt: base.Add(time.Hour), Remote: "192.0.2.1", Agent: "Test/1"}
	copy(n.Token[:], id)
	return n
}

func sessions(t *testing.T, open func() *sqlstore.Store) {
	s, ctx := open(), t.Context()
	a, other := create(t, s, 1), create(t, s, 2)
	one, two, theirs := session("ses_1", a.ID, base), session("ses_2", a.ID, base.Add(time.Minute)), session("ses_3", other.ID, base)
	for _, n := range []*signin.Session{one, two, theirs} {
		must(t, s.OpenSession(ctx, n))
	}
	got, err := s.FindSession(ctx, one.Token, base)
	if diff := cmp.Diff(one, got); err != nil || diff != "" {
		t.Errorf("FindSession: %v, -want +got\n%s", err, diff)
	}
	list, err := s.Sessions(ctx, a.ID, base)
	if diff := cmp.Diff([]signin.Session{*two, *one}, list); err != nil || diff != "" {
		t.Errorf("Sessions: %v, -want +got\n%s", err, diff)
	}
	if _, err := s.FindSession(ctx, one.Token, one.ExpiresAt); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("FindSession of an expired one = %v, want unauthenticated", err)
	}
	later := base.Add(30 * time.Minute)
	must(t, s.SeeSession(ctx, one.ID, later, later.Add(time.Hour)))
	if got, err := s.FindSession(ctx, one.Token, one.ExpiresAt); err != nil || got.SeenAt != later {
		t.Errorf("FindSession after a visit = %+v, %v, want it to last", got, err)
	}

	must(t, s.CloseSession(ctx, a.ID, theirs.ID))
	if _, err := s.FindSession(ctx, theirs.Token, base); err != nil {
		t.Errorf("a session was closed by another account: %v", err)
	}
	must(t, s.SetPassword(ctx, a.ID, "p", one.ID))
	if _, err := s.FindSession(ctx, one.Token, base); err != nil {
		t.Errorf("SetPassword closed the session it was made in: %v", err)
	}
	if _, err := s.FindSession(ctx, two.Token, base); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("FindSession after another's SetPassword = %v, want unauthenticated", err)
	}
	must(t, s.CloseSession(ctx, a.ID, one.ID))
	if _, err := s.FindSession(ctx, one.Token, base); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("FindSession of a closed one = %v, want unauthenticated", err)
	}
	must(t, s.DropSignins(ctx, theirs.ExpiresAt))
	if _, err := s.FindSession(ctx, theirs.Token, base); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("FindSession of a dropped one = %v, want unauthenticated", err)
	}
}

func links(t *testing.T, open func() *sqlstore.Store) {
	s, ctx := open(), t.Context()
	a := create(t, s, 1)
	newLink := func(name string, p signin.Purpose, accountID string) *signin.Link {
		l := &signin.Link{Purpose: p, AccountID: accountID, Email: name + "@example.com", Password: "hash", ExpiresAt: base.Add(time.Hour)}
		copy(l.Token[:], name)
		must(t, s.KeepLink(ctx, l))
		return l
	}
	l := newLink("one", signin.SignUp, "")
	got, err := s.FindLink(ctx, l.Token, base)
	if diff := cmp.Diff(l, got); err != nil || diff != "" {
		t.Errorf("FindLink: %v, -want +got\n%s", err, diff)
	}
	if _, err := s.TakeLink(ctx, l.Token, l.ExpiresAt); !fault.Is(err, fault.NotFound) {
		t.Errorf("TakeLink of an expired one = %v, want not found", err)
	}
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := s.TakeLink(ctx, l.Token, base)
			if err == nil {
				taken.Add(1)
			} else if !fault.Is(err, fault.NotFound) {
				t.Errorf("TakeLink = %v", err)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1 {
		t.Errorf("a link was taken %d times, want once", taken.Load())
	}
	reset, email := newLink("two", signin.Reset, a.ID), newLink("three", signin.Email, a.ID)
	must(t, s.SetPassword(ctx, a.ID, "p", ""))
	if _, err := s.FindLink(ctx, reset.Token, base); !fault.Is(err, fault.NotFound) {
		t.Errorf("FindLink of a reset after SetPassword = %v, want not found", err)
	}
	if _, err := s.FindLink(ctx, email.Token, base); err != nil {
		t.Errorf("FindLink of a new address after SetPassword = %v, want it still there", err)
	}
	must(t, s.DropSignins(ctx, email.ExpiresAt))
	if _, err := s.FindLink(ctx, email.Token, base); !fault.Is(err, fault.NotFound) {
		t.Errorf("FindLink of a dropped one = %v, want not found", err)
	}
	for i := range 3 {
		newLink(fmt.Sprint("more", i), signin.SignIn, a.ID)
	}
	must(t, s.EraseLogin(ctx, a.ID))
	if _, err := s.FindLink(ctx, signin.Hash{'m', 'o', 'r', 'e', '0'}, base); !fault.Is(err, fault.NotFound) {
		t.Errorf("FindLink after EraseLogin = %v, want not found", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
