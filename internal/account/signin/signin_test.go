package signin_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"sluice/internal/account"
	"sluice/internal/account/mail"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
)

const password = "correct horse battery"

// bench is a service with everything that it needs.
type bench struct {
	*signin.Service
	dir      string
	store    *alltest.Store
	accounts *account.Accounts
	settings signin.Settings
	now      time.Time

	mu     sync.Mutex
	posted []mail.Message
}

func (b *bench) Post(m mail.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.posted = append(b.posted, m)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, s := newStore(t)
	b := benchOn(s, nil)
	b.dir = dir
	return b
}

// newStore opens a new database for the test.
func newStore(t *testing.T) (dir string, s *alltest.Store) {
	t.Helper()
	dir = t.TempDir()
	s, err := alltest.Open(t.Context(), "sqlite", dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return dir, s
}

// benchOn returns a service on a database that others use as well. With tries nil it counts in memory.
func benchOn(s *alltest.Store, tries signin.Tries) *bench {
	b := &bench{store: s, settings: signin.Settings{Origin: "https://x.example", Open: true}, now: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)}
	b.accounts = account.New(s, nil)
	b.Service = signin.New(s, b.accounts, b, func() signin.Settings { return b.settings }, &signin.Options{Now: func() time.Time { return b.now }, Tries: tries})
	return b
}

var here = signin.Visit{Remote: "192.0.2.7", Agent: "Test/1"}

var linkIn = regexp.MustCompile(`https://x\.example/link/(\w+)\?token=(\w+)`)

// mailed removes the last mail, which must be to the address, and returns the link in it.
func (b *bench) mailed(t *testing.T, to string) (purpose, token string) {
	t.Helper()
	if len(b.posted) == 0 {
		t.Fatalf("no mail went to %s", to)
	}
	m := b.posted[len(b.posted)-1]
	b.posted = b.posted[:len(b.posted)-1]
	if m.To != to {
		t.Fatalf("the mail went to %s, want %s", m.To, to)
	}
	if found := linkIn.FindStringSubmatch(m.Text); found != nil {
		return found[1], found[2]
	}
	return "", ""
}

// join opens an account by signing up.
func (b *bench) join(t *testing.T, email string) *signin.Welcome {
	t.Helper()
	if err := b.SignUp(t.Context(), email, "", here); err != nil {
		t.Fatalf("SignUp(%s) = %v", email, err)
	}
	_, token := b.mailed(t, email)
	made, err := b.Join(t.Context(), signin.SignUp, token, password, here)
	if err != nil {
		t.Fatalf("Join = %v", err)
	}
	return made
}

// owner returns the person who has just joined, with the proof that their changes need.
func (b *bench) owner(t *testing.T, made *signin.Welcome) signin.Owner {
	t.Helper()
	s, err := b.Session(t.Context(), made.Session)
	if err != nil {
		t.Fatal(err)
	}
	return signin.Owner{Account: made.Account, Session: s, Visit: here, Password: password}
}

func TestSignUp(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	if err := b.SignUp(ctx, " Ana@Example.com ", "", here); err != nil {
		t.Fatalf("SignUp = %v", err)
	}
	if _, err := b.accounts.Find(ctx, "ana@example.com"); !fault.Is(err, fault.NotFound) {
		t.Errorf("an account was opened before its address was confirmed: %v", err)
	}
	purpose, token := b.mailed(t, "ana@example.com")
	if purpose != "signup" {
		t.Fatalf("the link is for %q, want signup", purpose)
	}
	if _, err := b.SignInByLink(ctx, token, here); !fault.Is(err, fault.NotFound) {
		t.Errorf("SignInByLink with a sign-up link = %v, want not found", err)
	}
	made, err := b.Join(ctx, signin.SignUp, token, password, here)
	if err != nil || made.Account.Plan != account.None || !account.Wellformed("service", made.MasterKey) {
		t.Fatalf("Join = %+v, %v, want an account without a plan, and its key", made, err)
	}
	if _, err := b.Join(ctx, signin.SignUp, token, password, here); !fault.Is(err, fault.NotFound) {
		t.Errorf("Join twice = %v, want not found", err)
	}
	s, err := b.Session(ctx, made.Session)
	if err != nil || s.AccountID != made.Account.ID || s.Remote != here.Remote {
		t.Errorf("Session = %+v, %v", s, err)
	}
	entry, err := b.SignIn(ctx, "ANA@example.com", password, here)
	if err != nil || entry.Session == "" || entry.Session == made.Session {
		t.Errorf("SignIn = %+v, %v, want a session of its own", entry, err)
	}

	if err := b.SignUp(ctx, "bob@example.com", "", here); err != nil {
		t.Fatal(err)
	}
	_, token = b.mailed(t, "bob@example.com")
	b.settings = signin.Settings{}
	if _, err := b.Join(ctx, signin.SignUp, token, password, here); !fault.Is(err, fault.Forbidden) {
		t.Errorf("Join after sign-up was closed = %v, want a refusal", err)
	}
	if err := b.SignUp(ctx, "bob@example.com", "", here); !fault.Is(err, fault.Forbidden) {
		t.Errorf("SignUp where it is closed = %v, want a refusal", err)
	}
}

// Mail names the service, and a notice says when something was changed and in which browser.
func TestMailSaysWhere(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	b.settings.Brand = "Tidewater"
	o := b.owner(t, b.join(t, "ana@example.com"))
	o.Visit.Agent = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
	if err := b.ChangePassword(ctx, o, "another long password"); err != nil {
		t.Fatal(err)
	}
	if err := b.RequestReset(ctx, "ana@example.com", here); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ subject, says string }{
		{"[Tidewater] Your password was changed", "When: 1 May 2026 09:00 UTC\nBrowser: Firefox on Linux\n"},
		{"Reset the password of your Tidewater account", "the password of your Tidewater account. To set"},
	} {
		if i >= len(b.posted) || b.posted[i].Subject != want.subject || !strings.Contains(b.posted[i].Text, want.says) {
			t.Errorf("mailed %+v, want %q with %q as mail %d", b.posted, want.subject, want.says, i)
		}
	}
}

func TestPasswordsRefused(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	if err := b.SignUp(ctx, "someone.like.me@example.com", "", here); err != nil {
		t.Fatal(err)
	}
	_, token := b.mailed(t, "someone.like.me@example.com")
	for name, p := range map[string]string{
		"short": "123456789", "long": strings.Repeat("ab", 101), "repeated": "aaaaaaaaaaaa", "the address": "someone.like.me@example.com", "its name": "Someone.Like.Me", "empty": "",
	} {
		if _, err := b.Join(ctx, signin.SignUp, token, p, here); !fault.Is(err, fault.Invalid) {
			t.Errorf("Join with a password that is %s = %v, want invalid", name, err)
		}
	}
	if _, err := b.Join(ctx, signin.SignUp, token, password, here); err != nil {
		t.Errorf("Join afterwards = %v, want the link still good", err)
	}
}

// Somebody who does not own an address learns nothing from the replies: only the mail to its owner differs.
func TestNobodyLearnsWhoHasAnAccount(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	b.join(t, "ana@example.com")

	known, unknown := b.SignUp(ctx, "ana@example.com", "", here), b.SignUp(ctx, "bob@example.com", "", here)
	if known != nil || unknown != nil {
		t.Errorf("SignUp of a taken and a free address = %v, %v, want the same", known, unknown)
	}
	if m := b.posted[0]; m.To != "ana@example.com" || strings.Contains(m.Text, "/link/") {
		t.Errorf("the owner of a taken address was sent %+v, want words and no link", m)
	}
	b.posted = nil
	known, unknown = b.RequestReset(ctx, "ana@example.com", here), b.RequestReset(ctx, "carol@example.com", here)
	if known != nil || unknown != nil {
		t.Errorf("RequestReset of a taken and a free address = %v, %v, want the same", known, unknown)
	}
	if len(b.posted) != 1 || b.posted[0].To != "ana@example.com" {
		t.Errorf("RequestReset mailed %+v, want the owner alone", b.posted)
	}
	_, known = b.SignIn(ctx, "ana@example.com", "wrong password", here)
	_, unknown = b.SignIn(ctx, "carol@example.com", "wrong password", here)
	if known == nil || unknown == nil || known.Error() != unknown.Error() {
		t.Errorf("SignIn of a taken and a free address = %v, %v, want the same refusal", known, unknown)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	made := b.join(t, "ana@example.com")
	if err := b.RequestReset(ctx, "ana@example.com", here); err != nil {
		t.Fatal(err)
	}
	_, token := b.mailed(t, "ana@example.com")
	reset := func(token, password string) error {
		_, err := b.ResetPassword(ctx, token, password, here)
		return err
	}
	if err := reset(token, "short"); !fault.Is(err, fault.Invalid) {
		t.Errorf("ResetPassword to a short one = %v, want invalid", err)
	}
	if err := reset(token, "another long password"); err != nil {
		t.Fatalf("ResetPassword = %v, want the link still good", err)
	}
	if err := reset(token, "yet another password"); !fault.Is(err, fault.NotFound) {
		t.Errorf("ResetPassword twice = %v, want not found", err)
	}
	if _, err := b.Session(ctx, made.Session); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a session outlived the reset: %v", err)
	}
	if _, err := b.SignIn(ctx, "ana@example.com", password, here); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("SignIn with the old password = %v, want unauthenticated", err)
	}
	if _, err := b.SignIn(ctx, "ana@example.com", "another long password", here); err != nil {
		t.Errorf("SignIn with the new password = %v", err)
	}

	if err := b.RequestReset(ctx, "ana@example.com", here); err != nil {
		t.Fatal(err)
	}
	_, token = b.mailed(t, "ana@example.com")
	b.now = b.now.Add(time.Hour)
	if err := reset(token, "a password too late"); !fault.Is(err, fault.NotFound) {
		t.Errorf("ResetPassword after an hour = %v, want not found", err)
	}
}

func TestGuessing(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	b.join(t, "ana@example.com")
	guess := func(email string, from string) error {
		_, err := b.SignIn(ctx, email, "not the password", signin.Visit{Remote: from})
		return err
	}
	for _, email := range []string{"ana@example.com", "nobody@example.com"} {
		for i := range 10 {
			if err := guess(email, "192.0.2.1"); !fault.Is(err, fault.Unauthenticated) {
				t.Fatalf("guess %d at %s = %v, want unauthenticated", i, email, err)
			}
		}
		if err := guess(email, "192.0.2.1"); !fault.Is(err, fault.RateLimited) {
			t.Errorf("guess 11 at %s = %v, want too many", email, err)
		}
	}
	if _, err := b.SignIn(ctx, "ana@example.com", password, signin.Visit{Remote: "192.0.2.1"}); !fault.Is(err, fault.RateLimited) {
		t.Errorf("the right password after too many = %v, want too many", err)
	}
	if _, err := b.SignIn(ctx, "ana@example.com", password, signin.Visit{Remote: "198.51.100.1"}); err != nil {
		t.Errorf("the owner elsewhere was kept out by the guesses: %v", err)
	}
	// All addresses of an IPv6 network are one place.
	for i := range 11 {
		err := guess("other@example.com", fmt.Sprintf("2001:db8:1:2::%x", i))
		if want := map[bool]fault.Kind{true: fault.RateLimited, false: fault.Unauthenticated}[i == 10]; !fault.Is(err, want) {
			t.Errorf("guess %d from one network = %v, want %s", i, err, want)
		}
	}
	if err := guess("other@example.com", "2001:db8:1:3::1"); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a guess from another network = %v, want unauthenticated", err)
	}
	b.now = b.now.Add(15 * time.Minute)
	if _, err := b.SignIn(ctx, "ana@example.com", password, signin.Visit{Remote: "192.0.2.1"}); err != nil {
		t.Errorf("SignIn a quarter of an hour later = %v", err)
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	made := b.join(t, "ana@example.com")
	began := b.now
	for range 9 { // seen every ten days
		b.now = b.now.AddDate(0, 0, 10)
		if _, err := b.Session(ctx, made.Session); (err == nil) != (b.now.Sub(began) < 90*24*time.Hour) {
			t.Fatalf("Session after %v = %v, want it to end after 90 days", b.now.Sub(began), err)
		}
	}
	b.now = began
	other := b.join(t, "bob@example.com")
	b.now = b.now.AddDate(0, 0, 14)
	if _, err := b.Session(ctx, other.Session); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Session after 14 idle days = %v, want unauthenticated", err)
	}
	if _, err := b.Session(ctx, "guess"); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Session of a guess = %v, want unauthenticated", err)
	}
}

func TestSecondFactor(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	made := b.join(t, "ana@example.com")
	a, me := made.Account, b.owner(t, made)
	enrolment, err := b.Enrol(ctx, me, "service")
	if err != nil || !strings.HasPrefix(enrolment.QR, "data:image/png;base64,") {
		t.Fatalf("Enrol = %+v, %v", enrolment, err)
	}
	code := func() string {
		c, err := totp.GenerateCode(enrolment.Secret, b.now)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if entry, err := b.SignIn(ctx, a.Email, password, here); err != nil || entry.Session == "" {
		t.Errorf("SignIn before the factor is on = %+v, %v, want a session", entry, err)
	}
	if _, err := b.Activate(ctx, me, "000000"); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Activate with a wrong code = %v, want unauthenticated", err)
	}
	if _, err := b.Activate(ctx, me, code()); err != nil {
		t.Fatalf("Activate = %v", err)
	}
	entry, err := b.SignIn(ctx, a.Email, password, here)
	if err != nil || entry.Session != "" || entry.Code == "" {
		t.Fatalf("SignIn = %+v, %v, want the need for a code", entry, err)
	}
	if _, err := b.Finish(ctx, entry.Code, code(), here); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Finish with a code that was used = %v, want unauthenticated", err)
	}
	b.now = b.now.Add(30 * time.Second)
	good := code()
	if _, err := b.Finish(ctx, entry.Code, " "+good[:3]+" "+good[3:], here); err != nil {
		t.Errorf("Finish = %v", err)
	}
	if _, err := b.Finish(ctx, entry.Code, good, here); err == nil {
		t.Error("Finish twice = nil, want a refusal")
	}
	entry, _ = b.SignIn(ctx, a.Email, password, here)
	refusals := 0
	for range 12 {
		if _, err := b.Finish(ctx, entry.Code, "123456", here); fault.Is(err, fault.RateLimited) {
			refusals++
		}
	}
	if refusals != 2 {
		t.Errorf("%d of 12 guesses were too many, want 2", refusals)
	}
	b.now = b.now.Add(20 * time.Minute)
	me.Code, me.Password = code(), "wrong"
	if err := b.RemoveTOTP(ctx, me); !fault.Is(err, fault.Invalid) {
		t.Errorf("RemoveTOTP with a wrong password = %v, want invalid", err)
	}
	me.Code, me.Password = "", password
	if err := b.RemoveTOTP(ctx, me); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("RemoveTOTP without a code = %v, want unauthenticated", err)
	}
	me.Code = code()
	if err := b.RemoveTOTP(ctx, me); err != nil {
		t.Errorf("RemoveTOTP = %v", err)
	}
	if entry, err := b.SignIn(ctx, a.Email, password, here); err != nil || entry.Session == "" {
		t.Errorf("SignIn after RemoveTOTP = %+v, %v, want a session", entry, err)
	}
}

func TestOwnerChanges(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	made := b.join(t, "ana@example.com")
	a := made.Account
	b.join(t, "bob@example.com")
	me := b.owner(t, made)
	me.Password = "wrong"
	if err := b.ChangePassword(ctx, me, "a new password"); !fault.Is(err, fault.Invalid) {
		t.Errorf("ChangePassword with a wrong one = %v, want invalid", err)
	}
	me.Password = password
	if err := b.ChangePassword(ctx, me, "a new password"); err != nil {
		t.Errorf("ChangePassword = %v", err)
	}
	if _, err := b.Session(ctx, made.Session); err != nil {
		t.Errorf("the session that changed the password ended: %v", err)
	}
	b.mailed(t, a.Email) // the owner gets a mail
	b.posted = nil
	me.Password = "a new password"
	if err := b.RequestEmail(ctx, me, "bob@example.com"); err != nil {
		t.Errorf("RequestEmail of a taken address = %v, want nil as for a free one", err)
	}
	if _, token := b.mailed(t, "bob@example.com"); token != "" {
		t.Error("the owner of a taken address was sent a link")
	}
	if err := b.RequestEmail(ctx, me, "Ana@New.example"); err != nil {
		t.Fatal(err)
	}
	_, token := b.mailed(t, "ana@new.example")
	after, err := b.ConfirmEmail(ctx, token, me.Session)
	if err != nil || after.Email != "ana@new.example" {
		t.Fatalf("ConfirmEmail = %+v, %v", after, err)
	}
	b.mailed(t, "ana@example.com") // the old address is told
	if _, err := b.Session(ctx, made.Session); err != nil {
		t.Errorf("the session that confirmed the address ended: %v", err)
	}
	if _, err := b.SignIn(ctx, "ana@new.example", "a new password", here); err != nil {
		t.Errorf("SignIn with the new address = %v", err)
	}
}

func TestSignInLink(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	if _, _, err := b.accounts.Create(ctx, "t", "owner@localhost", account.Scale, true); err != nil {
		t.Fatal(err)
	}
	url, err := b.SignInLink(ctx, "Owner@localhost")
	found := linkIn.FindStringSubmatch(url)
	if err != nil || found == nil || found[1] != "signin" {
		t.Fatalf("SignInLink = %q, %v", url, err)
	}
	if _, err := b.SignInByLink(ctx, found[2], here); err != nil {
		t.Errorf("SignInByLink = %v", err)
	}
	if _, err := b.SignInByLink(ctx, found[2], here); !fault.Is(err, fault.NotFound) {
		t.Errorf("SignInByLink twice = %v, want not found", err)
	}

	b.settings.Open = false // invite
	url, err = b.SignInLink(ctx, "new@example.com")
	if found = linkIn.FindStringSubmatch(url); err != nil || found == nil || found[1] != "invite" {
		t.Fatalf("SignInLink of a stranger = %q, %v, want an invitation", url, err)
	}
	made, err := b.Join(ctx, signin.Invite, found[2], password, here)
	if err != nil || made.Account.Email != "new@example.com" {
		t.Errorf("Join = %+v, %v", made, err)
	}
	b.settings.Closed = true
	if url, err := b.SignInLink(ctx, "other@example.com"); !fault.Is(err, fault.NotFound) {
		t.Errorf("SignInLink of a stranger where sign-up is closed = %q, %v, want not found", url, err)
	}
}

// rows counts the rows of a table, which no method of the store does.
func (b *bench) rows(ctx context.Context, table string) (n int, err error) {
	db, err := sql.Open("sqlite", filepath.Join(b.dir, sqlstore.File)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n)
	return n, err
}
