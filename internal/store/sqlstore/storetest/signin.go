package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore/alltest"
)

// logins checks that a password and a second factor are stored independently, and that a code works
// once, even if several requests bring it at the same time.
func logins(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a := create(t, s, 1)
	check := func(what string, want signin.Login) {
		t.Helper()
		want.AccountID = a.ID
		if got, err := s.FindLogin(ctx, a.ID); err != nil || got != want {
			t.Errorf("FindLogin after %s = %+v, %v, want %+v", what, got, err, want)
		}
	}
	// An account without a login is found as the zero Login, not as an error.
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
	// An older code than the last one is refused as well: somebody may have watched both.
	if fresh, err := s.UseTOTP(ctx, a.ID, 6); err != nil || fresh {
		t.Errorf("UseTOTP of an older code = %t, %v, want false", fresh, err)
	}
	must(t, s.EraseLogin(ctx, a.ID))
	check("EraseLogin", signin.Login{})
}

// session returns a session whose token is derived from its id.
func session(id, accountID string, seen time.Time) *signin.Session {
	n := &signin.Session{ID: id, AccountID: accountID, CreatedAt: base, SeenAt: seen, ExpiresAt: base.Add(time.Hour), Remote: "192.0.2.1", Agent: "Test/1", Via: signin.EnterPassword}
	copy(n.Token[:], id)
	return n
}

// sessions checks how sessions are found, extended, listed, closed and limited. Everything that looks
// at the token of another account must fail.
func sessions(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a, other := create(t, s, 1), create(t, s, 2)
	one, two, theirs := session("ses_1", a.ID, base), session("ses_2", a.ID, base.Add(time.Minute)), session("ses_3", other.ID, base)
	for _, n := range []*signin.Session{one, two, theirs} {
		must(t, s.OpenSession(ctx, n, 10))
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
	// A visit extends the session beyond the time at which it would have expired.
	later := base.Add(30 * time.Minute)
	must(t, s.SeeSession(ctx, one.ID, later, later.Add(time.Hour)))
	if got, err := s.FindSession(ctx, one.Token, one.ExpiresAt); err != nil || got.SeenAt != later {
		t.Errorf("FindSession after a visit = %+v, %v, want it to last", got, err)
	}

	must(t, s.ProveSession(ctx, one.ID, later))
	if got, err := s.FindSession(ctx, one.Token, base); err != nil || got.ProvedAt != later {
		t.Errorf("FindSession after ProveSession = %+v, %v, want %v", got, err, later)
	}

	// A proof holds in its session alone, and no longer than the password.
	must(t, s.HoldProof(ctx, one.ID, later))
	if got, err := s.FindSession(ctx, one.Token, base); err != nil || got.OwnerAt != later {
		t.Errorf("FindSession after HoldProof = %+v, %v, want %v", got, err, later)
	}
	if got, err := s.FindSession(ctx, two.Token, base); err != nil || !got.OwnerAt.IsZero() {
		t.Errorf("FindSession of another session after HoldProof = %+v, %v, want no proof", got, err)
	}

	// The id of a session is not secret, so the account must be compared.
	must(t, s.CloseSession(ctx, a.ID, theirs.ID))
	if _, err := s.FindSession(ctx, theirs.Token, base); err != nil {
		t.Errorf("a session was closed by another account: %v", err)
	}
	// A new password ends every session but the one in which it was set.
	must(t, s.SetPassword(ctx, a.ID, "p", one.ID))
	if got, err := s.FindSession(ctx, one.Token, base); err != nil || !got.OwnerAt.IsZero() {
		t.Errorf("FindSession of the session that set the password = %+v, %v, want it open and without a proof", got, err)
	}
	if _, err := s.FindSession(ctx, two.Token, base); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("FindSession after another's SetPassword = %v, want unauthenticated", err)
	}
	must(t, s.CloseSession(ctx, a.ID, one.ID))
	if _, err := s.FindSession(ctx, one.Token, base); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("FindSession of a closed one = %v, want unauthenticated", err)
	}
	for i := range 4 { // the three used last stay, and the new one in any case
		must(t, s.OpenSession(ctx, session(fmt.Sprint("ses_many_", i), a.ID, base.Add(-time.Duration(i)*time.Minute)), 3))
	}
	list, err = s.Sessions(ctx, a.ID, base)
	if err != nil || len(list) != 4 || list[0].ID != "ses_many_0" || list[3].ID != "ses_many_3" {
		t.Errorf("Sessions of an account that opened too many = %v, %v, want three and the new one", list, err)
	}
	// The next one closes those not used for longest, until three are left.
	must(t, s.OpenSession(ctx, session("ses_new", a.ID, base.Add(time.Minute)), 3))
	if list, err = s.Sessions(ctx, a.ID, base); err != nil || len(list) != 3 || list[0].ID != "ses_new" {
		t.Errorf("Sessions after one more = %v, %v, want the last three", list, err)
	}
	must(t, s.DropSignins(ctx, theirs.ExpiresAt))
	if _, err := s.FindSession(ctx, theirs.Token, base); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("FindSession of a dropped one = %v, want unauthenticated", err)
	}
}

// links checks that a link works once, until it expires, and not after the password has changed: the
// owner who changes a password wants everybody else out.
func links(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a := create(t, s, 1)
	newLink := func(name string, p signin.Purpose, accountID string) *signin.Link {
		l := &signin.Link{Purpose: p, AccountID: accountID, Email: name + "@example.com", ExpiresAt: base.Add(time.Hour)}
		copy(l.Token[:], name)
		if kept, err := s.KeepLink(ctx, l, base, signin.Room{}); err != nil || !kept {
			t.Fatalf("KeepLink = %t, %v", kept, err)
		}
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
	// Everything that could give access to an account ends with its password, and with EndAccess.
	for name, end := range map[string]func(keep string) error{
		"SetPassword": func(keep string) error { return s.SetPassword(ctx, a.ID, "p", keep) },
		"EndAccess":   func(keep string) error { return s.EndAccess(ctx, a.ID, keep) },
	} {
		mine, other := session("ses_mine"+name, a.ID, base), session("ses_other"+name, a.ID, base)
		must(t, s.OpenSession(ctx, mine, 10))
		must(t, s.OpenSession(ctx, other, 10))
		var pending []*signin.Link
		for _, p := range []signin.Purpose{signin.Reset, signin.Email, signin.Code, signin.SignIn, signin.Device} {
			pending = append(pending, newLink(name+" "+string(p), p, a.ID))
		}
		must(t, end(mine.ID))
		for _, l := range pending {
			if _, err := s.FindLink(ctx, l.Token, base); !fault.Is(err, fault.NotFound) {
				t.Errorf("FindLink of %s after %s = %v, want not found", l.Purpose, name, err)
			}
		}
		if list, err := s.Sessions(ctx, a.ID, base); err != nil || len(list) != 1 || list[0].ID != mine.ID {
			t.Errorf("Sessions after %s = %v, %v, want the one that was kept", name, list, err)
		}
	}
	// Cleaning up deletes by the time that a link expires, not by its use.
	late := newLink("late", signin.Email, a.ID)
	must(t, s.DropSignins(ctx, late.ExpiresAt))
	if _, err := s.FindLink(ctx, late.Token, base); !fault.Is(err, fault.NotFound) {
		t.Errorf("FindLink of a dropped one = %v, want not found", err)
	}
	// Erasing a login deletes its links too.
	for i := range 3 {
		newLink(fmt.Sprint("more", i), signin.SignIn, a.ID)
	}
	must(t, s.EraseLogin(ctx, a.ID))
	if _, err := s.FindLink(ctx, signin.Hash{'m', 'o', 'r', 'e', '0'}, base); !fault.Is(err, fault.NotFound) {
		t.Errorf("FindLink after EraseLogin = %v, want not found", err)
	}
}

// linksBounded checks that the links that strangers can have stored are limited, and do not
// displace those that others are waiting for.
func linksBounded(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	n := 0
	keep := func(email string, life time.Duration, room signin.Room) (signin.Hash, bool) {
		n++
		l := &signin.Link{Purpose: signin.SignUp, Email: email, ExpiresAt: base.Add(life)}
		copy(l.Token[:], fmt.Sprint("bounded", n))
		kept, err := s.KeepLink(ctx, l, base, room)
		if err != nil {
			t.Fatalf("KeepLink = %v", err)
		}
		return l.Token, kept
	}
	there := func(token signin.Hash) bool {
		_, err := s.FindLink(ctx, token, base)
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatalf("FindLink = %v", err)
		}
		return err == nil
	}
	if token, kept := keep("expired@example.com", 0, signin.Room{}); kept || there(token) {
		t.Errorf("a link that has expired: kept %t, found %t", kept, there(token))
	}
	// Recent bounds the mails of one hour. What is beyond it is not kept.
	recent := signin.Room{Recent: 2, Since: base.Add(30 * time.Minute)}
	old, _ := keep("ana@example.com", 20*time.Minute, recent)
	first, _ := keep("ana@example.com", time.Hour, recent)
	second, kept := keep("ana@example.com", time.Hour, recent)
	if !kept {
		t.Error("the second recent link was not kept, want it: the first of all is not recent")
	}
	third, kept := keep("ana@example.com", time.Hour, recent)
	if kept || there(third) || !there(old) || !there(first) || !there(second) {
		t.Errorf("the third recent link: kept %t, found %t, want only the earlier ones", kept, there(third))
	}
	if _, kept := keep("bob@example.com", time.Hour, recent); !kept {
		t.Error("another address has no room, want it counted by itself")
	}
	// PerAddress and InAll bound the space. The oldest make room, and the new one is always kept.
	if token, kept := keep("ana@example.com", 2*time.Hour, signin.Room{PerAddress: 2}); !kept || !there(token) || there(old) {
		t.Error("beyond the bound of an address the oldest link was kept")
	}
	for i := range 5 {
		token, kept := keep(fmt.Sprint("p", i, "@example.com"), 3*time.Hour, signin.Room{InAll: 3})
		if !kept || !there(token) {
			t.Errorf("KeepLink %d with the bound of all = %t", i, kept)
		}
	}
	if there(first) || there(second) {
		t.Error("beyond the bound of all the oldest links were kept")
	}
}

// linksInParallel checks that requests at the same moment, on several nodes, do not get more links to an
// address than one after the other would.
func linksInParallel(t *testing.T, open func() *alltest.Store) {
	stores, ctx := []*alltest.Store{open(), open()}, t.Context()
	var kept atomic.Int64
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			l := &signin.Link{Purpose: signin.Reset, Email: "ana@example.com", ExpiresAt: base.Add(time.Hour)}
			copy(l.Token[:], fmt.Sprint("parallel", i))
			ok, err := stores[i%2].KeepLink(ctx, l, base, signin.Room{Recent: 5, Since: base, PerAddress: 20})
			if err != nil {
				t.Errorf("KeepLink = %v", err)
			}
			if ok {
				kept.Add(1)
			}
		})
	}
	wg.Wait()
	if kept.Load() != 5 {
		t.Errorf("%d links were kept, want 5", kept.Load())
	}
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
