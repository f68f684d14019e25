package staff_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/account/staff"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore/alltest"
)

// logins says which accounts have a second factor.
type logins map[string]bool

func (l logins) Login(_ context.Context, id string) (signin.Login, error) {
	return signin.Login{AccountID: id, TOTPOn: l[id]}, nil
}

// roster is a roster with a clock, and the account of one member.
type roster struct {
	*staff.Roster
	t        *testing.T
	accounts *account.Accounts
	factors  logins
	now      time.Time
	member   *account.Account
}

func newRoster(t *testing.T) *roster {
	t.Helper()
	store, err := alltest.Open(t.Context(), "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r := &roster{t: t, factors: logins{}, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	r.accounts = account.New(store, nil)
	r.Roster = staff.New(store, r.accounts, r.factors)
	r.SetClock(func() time.Time { return r.now })
	r.member = r.account("ana@example.com", true)
	r.factors[r.member.ID] = true
	return r
}

func (r *roster) account(email string, isStaff bool) *account.Account {
	r.t.Helper()
	a, _, err := r.accounts.Create(r.t.Context(), "tester", email, account.None, isStaff)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *roster) token(scopes ...string) (*staff.Token, string) {
	r.t.Helper()
	tok, raw, err := r.NewToken(r.t.Context(), "tester", r.member.ID, "nightly", scopes, 30)
	if err != nil {
		r.t.Fatal(err)
	}
	return tok, raw
}

func TestStanding(t *testing.T) {
	t.Parallel()
	r := newRoster(t)
	customer := r.account("customer@example.com", false)
	bare := r.account("bare@example.com", true)
	suspended := *r.member
	suspended.Suspended = &account.Mark{Reason: "x"}
	session := func(id string, ago time.Duration) *signin.Session {
		return &signin.Session{AccountID: id, ProvedAt: r.now.Add(-ago)}
	}
	for _, tt := range []struct {
		what string
		a    *account.Account
		s    *signin.Session
		want staff.Access
	}{
		{"a member", r.member, session(r.member.ID, 0), staff.Member},
		{"a member after almost 8 hours", r.member, session(r.member.ID, 8*time.Hour-time.Second), staff.Member},
		{"a member after 8 hours", r.member, session(r.member.ID, 8*time.Hour), staff.Unproved},
		{"a member who never typed a code", r.member, &signin.Session{AccountID: r.member.ID}, staff.Unproved},
		{"a member without a second factor", bare, session(bare.ID, 0), staff.NoFactor},
		{"a customer", customer, session(customer.ID, 0), staff.Stranger},
		{"a suspended member", &suspended, session(r.member.ID, 0), staff.Stranger},
		{"somebody else's session", r.member, session(customer.ID, 0), staff.Stranger},
	} {
		if got, err := r.Access(t.Context(), tt.a, tt.s); err != nil || got != tt.want {
			t.Errorf("Standing of %s = %v, %v, want %v", tt.what, got, err, tt.want)
		}
	}
}

func TestNewToken(t *testing.T) {
	t.Parallel()
	r := newRoster(t)
	customer := r.account("customer@example.com", false)
	for _, tt := range []struct {
		ref, name string
		scopes    []string
		days      int
		kind      fault.Kind
		param     string
	}{
		{r.member.ID, "", []string{"a"}, 1, fault.Invalid, "name"},
		{r.member.ID, strings.Repeat("n", 101), []string{"a"}, 1, fault.Invalid, "name"},
		{r.member.ID, "a\nb", []string{"a"}, 1, fault.Invalid, "name"},
		{r.member.ID, "n", nil, 1, fault.Invalid, "scopes"},
		{r.member.ID, "n", []string{"a"}, 0, fault.Invalid, "days"},
		{r.member.ID, "n", []string{"a"}, 367, fault.Invalid, "days"},
		{customer.ID, "n", []string{"a"}, 1, fault.Conflict, ""},
		{"acct_none", "n", []string{"a"}, 1, fault.NotFound, ""},
	} {
		_, _, err := r.NewToken(t.Context(), "tester", tt.ref, tt.name, tt.scopes, tt.days)
		if !fault.Is(err, tt.kind) || fault.From(err).Param != tt.param {
			t.Errorf("NewToken(%q, %q, %q, %d) = %v, want %s at %q", tt.ref, tt.name, tt.scopes, tt.days, err, tt.kind, tt.param)
		}
	}
	tok, raw := r.token("b", "a", "b")
	if !strings.HasPrefix(raw, "staff_") || strings.Join(tok.Scopes, " ") != "a b" || !tok.Allows("a") || !tok.Allows("") || tok.Allows("c") || tok.ExpiresAt != r.now.AddDate(0, 0, 30) {
		t.Errorf("NewToken = %+v, %q", tok, raw)
	}
	log, err := r.accounts.History(t.Context(), r.member.ID, 0, 1)
	if err != nil || log[0].Action != "staff.token_create" || !strings.Contains(log[0].Detail, tok.ID) || strings.Contains(log[0].Detail, raw) {
		t.Errorf("the audit log says %+v, %v, want the token without its text", log, err)
	}
}

// TestTokensPerMember makes as many tokens as a member may have, and one more.
func TestTokensPerMember(t *testing.T) {
	t.Parallel()
	r := newRoster(t)
	for i := range 50 {
		if _, _, err := r.NewToken(t.Context(), "tester", r.member.ID, fmt.Sprint(i), []string{"a"}, 366); err != nil {
			t.Fatalf("token %d = %v", i+1, err)
		}
	}
	if _, _, err := r.NewToken(t.Context(), "tester", r.member.ID, "one more", []string{"a"}, 1); !fault.Is(err, fault.Conflict) {
		t.Errorf("the 51st token = %v, want a conflict", err)
	}
	if list, err := r.Tokens(t.Context(), r.member.Email, "", 1000); err != nil || len(list) != 50 {
		t.Errorf("Tokens = %d of them, %v, want 50", len(list), err)
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	r := newRoster(t)
	tok, raw := r.token("a")
	refused := func(what, raw string) {
		t.Helper()
		if _, _, err := r.Authenticate(t.Context(), raw); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("Authenticate with %s = %v, want unauthenticated", what, err)
		}
	}
	good := func(what string) *staff.Token {
		t.Helper()
		got, a, err := r.Authenticate(t.Context(), raw)
		if err != nil || got.ID != tok.ID || a.ID != r.member.ID {
			t.Fatalf("Authenticate %s = %+v, %+v, %v", what, got, a, err)
		}
		return got
	}
	if used := good("first").LastUsedAt; used != r.now {
		t.Errorf("the token was last used at %v, want now", used)
	}
	refused("nothing", "")
	refused("a longer text", raw+"x")
	refused("another text", "staff_"+strings.Repeat("A", 52))
	refused("a key", "service-"+strings.Repeat("A", 46))

	r.factors[r.member.ID] = false
	refused("the second factor off", raw)
	r.factors[r.member.ID] = true
	change := func(a *account.Account, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	change(r.accounts.Suspend(t.Context(), "tester", r.member.ID, "x"))
	refused("the member suspended", raw)
	change(r.accounts.Unsuspend(t.Context(), "tester", r.member.ID))
	good("after the suspension")
	change(r.accounts.SetStaff(t.Context(), "tester", r.member.ID, false))
	refused("a member who is no longer staff", raw)
	change(r.accounts.SetStaff(t.Context(), "tester", r.member.ID, true))

	r.now = r.now.AddDate(0, 0, 30)
	refused("an expired token", raw)
	r.now = r.now.AddDate(0, 0, -1)
	good("before it expires")
	if _, err := r.DeleteToken(t.Context(), "tester", "acct_other", tok.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("DeleteToken of another member's token = %v, want not found", err)
	}
	if _, err := r.DeleteToken(t.Context(), "tester", r.member.ID, tok.ID); err != nil {
		t.Fatal(err)
	}
	refused("a deleted token", raw)
}
