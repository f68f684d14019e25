package app_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/store/sqlstore"
)

// signInAs signs somebody in to an account in a browser of their own.
func (n *node) signInAs(email, password string) *person {
	n.t.Helper()
	p := n.person()
	p.email = email
	p.wants(p.post("/signin", "email", email, "password", password), "POST /signin", 303, "/dashboard")
	return p
}

// isSignedIn reports whether the dashboard opens.
func (p *person) isSignedIn() bool { return p.get("/dashboard").status == 200 }

// A thief who knows the password asks for a change of the address. The owner resets the password, and with it
// everything that the thief has.
func TestThiefLosesPendingChange(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	thief := n.signInAs(ana.email, pagePassword)
	thief.wants(thief.post("/dashboard/account/email", "email", "thief@example.com", "current", pagePassword), "the thief's change of address", 303, "/account")
	_, change := n.linkTo("thief@example.com")

	owner := n.person()
	owner.leads(owner.post("/reset", "email", ana.email), "POST /reset", "Check your e-mail")
	path, token := n.linkTo(ana.email)
	owner.wants(owner.get(path+"?token="+token), "GET "+path, 200, ana.email)
	if r := owner.post(path, "token", token, "password", "the owner's new password"); r.status != 303 {
		t.Fatalf("POST %s = %d %s", path, r.status, r.body)
	}
	if thief.isSignedIn() || ana.isSignedIn() {
		t.Error("a session outlived the reset")
	}
	thief.wants(thief.post("/link/email", "token", change), "the thief's link after the reset", 404, "")
	n.signInAs(ana.email, "the owner's new password")
}

// A stranger signs up with somebody else's address and a password of their own. The owner opens the account and
// chooses another one; the stranger's opens nothing.
func TestStrangersPasswordIsNotKept(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	mallory, bob := n.person(), n.person()
	mallory.leads(mallory.post("/signup", "email", "bob@example.com", "password", "mallory's password"), "POST /signup", "Check your e-mail")
	path, token := n.linkTo("bob@example.com")
	bob.leads(bob.post(path, "token", token, "password", "bob's own password"), "POST "+path, "Welcome")
	mallory.wants(mallory.post("/signin", "email", "bob@example.com", "password", "mallory's password"), "the stranger's password", 401, "")
	n.signInAs("bob@example.com", "bob's own password")
}

// The identity provider stands for the password, not for the code.
func TestProviderAsksForTheCode(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	n := newSite(t, fmt.Sprintf("signup: open\noidc: {issuer: %q, name: Example, client_id: client, client_secret: secret}\n", issuer)).start(t)
	eva := n.join("eva@example.com")
	secret := eva.enrol()
	eva.wants(eva.post("/dashboard/account/totp", "code", codeAt(t, secret, time.Now())), "the first code", 303, "/account")

	p := n.person()
	p.leads(p.get(p.leave(issuer, "eva@example.com")), "the way back", "Two-step sign-in")
	if p.isSignedIn() {
		t.Fatal("the provider let somebody in without the code")
	}
	p.wants(p.post("/signin/code", "code", "000000"), "a wrong code", 401, "code is wrong")
	p.wants(p.post("/signin/code", "code", codeAt(t, secret, time.Now().Add(30*time.Second))), "the code", 303, "/dashboard")
	if !p.isSignedIn() {
		t.Error("the code did not let its owner in")
	}
}

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}

// Whoever finds an open session of an account without a password cannot make the account theirs.
func TestOldSessionProvesNothing(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	n := newSite(t, fmt.Sprintf("signup: open\noidc: {issuer: %q, name: Example, client_id: client, client_secret: secret}\n", issuer)).start(t)
	eva := n.person()
	eva.leads(eva.get(eva.leave(issuer, "eva@example.com")), "the way back", "Welcome")

	db, err := sql.Open("sqlite", filepath.Join(n.site.data(), sqlstore.File)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE sessions SET created_at = created_at - 3600000"); err != nil {
		t.Fatal(err)
	}
	for _, form := range [][]string{
		{"/dashboard/account/email", "email", "thief@example.com"},
		{"/dashboard/account/password", "password", "the thief's password"},
		{"/dashboard/account/totp/enrol"},
		{"/dashboard/account/totp/remove"},
		{"/dashboard/account/close", "email", "eva@example.com"},
	} {
		eva.wants(eva.post(form[0], form[1:]...), "POST "+form[0]+" in an old session", 403, "Sign in again")
	}
	if !eva.isSignedIn() {
		t.Error("the refusals ended the session")
	}
	// A new session does.
	eva = n.person()
	eva.wants(eva.get(eva.leave(issuer, "eva@example.com")), "the way back again", 303, "/dashboard")
	eva.wants(eva.post("/dashboard/account/password", "password", "eva's own password"), "the first password", 303, "/account")
	eva.wants(eva.post("/dashboard/account/email", "email", "eva@new.example"), "a change without the password", 400, "current password is wrong")
}

// With two steps on, the password alone changes nothing; and signing out everywhere ends what is pending.
func TestChangesNeedTheCode(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	other := n.signInAs(ana.email, pagePassword)
	secret := ana.enrol()
	ana.wants(ana.post("/dashboard/account/totp", "code", codeAt(t, secret, time.Now())), "the first code", 303, "/account")
	if other.isSignedIn() {
		t.Error("a session that was opened without a code outlived turning two steps on")
	}
	recovery := regexp.MustCompile(`\b([a-z2-7]{4}-){3}[a-z2-7]{4}\b`).FindString(ana.get("/dashboard/account").body)
	// In a session that has proved nothing.
	ana.post("/signout")
	ana.wants(ana.post("/signin", "email", ana.email, "password", pagePassword), "the password", 303, "/signin/code")
	ana.wants(ana.post("/signin/code", "code", codeAt(t, secret, time.Now().Add(30*time.Second))), "the code", 303, "/dashboard")
	ana.wants(ana.get("/dashboard/account?email"), "the dialog", 200, `name="proof"`)
	for _, form := range [][]string{
		{"/dashboard/account/email", "email", "new@example.com"},
		{"/dashboard/account/password", "password", "another long password"},
		{"/dashboard/account/totp/remove"},
		{"/dashboard/account/close", "email", ana.email},
	} {
		ana.wants(ana.post(form[0], append(form[1:], "current", pagePassword)...), "POST "+form[0]+" without a code", 401, "code is wrong")
	}
	ana.wants(ana.post("/dashboard/account/email", "email", "new@example.com", "current", pagePassword, "proof", recovery), "with a code", 303, "/account")
	_, change := n.linkTo("new@example.com")
	ana.wants(ana.post("/dashboard/account/sessions/close"), "signing out everywhere else", 303, "/account")
	ana.wants(ana.post("/link/email", "token", change), "the link that was pending", 404, "")
	if !ana.isSignedIn() {
		t.Error("signing out everywhere else ended this session")
	}
}

// Strangers from many places use up what an address may be sent. Its owner is not told to wait.
func TestOwnerIsNotBlocked(t *testing.T) {
	t.Parallel()
	n := newSite(t, "signup: open\ntrusted_proxies: [127.0.0.1/32]\n").start(t)
	ana := n.join("ana@example.com")
	from := func(i int) *person {
		p := n.person()
		p.client.Transport = forwarded{p.client.Transport, fmt.Sprintf("198.51.100.%d", i)}
		return p
	}
	for i := range 12 {
		p := from(i)
		p.leads(p.post("/reset", "email", ana.email), "POST /reset", "Check your e-mail")
	}
	path, token := n.linkTo(ana.email)
	owner := from(100)
	owner.leads(owner.post("/reset", "email", ana.email), "the owner's own", "Check your e-mail")
	owner.wants(owner.post(path, "token", token, "password", "another long password"), "a link of that hour", 303, "/dashboard")
	if !owner.isSignedIn() {
		t.Error("a reset let nobody in")
	}
	if sent := strings.Count(n.log.String(), `"subject":"Reset the password of your `); sent > 5 {
		t.Errorf("%d mails were sent to one address in an hour, want at most 5", sent)
	}
}

// forwarded is a proxy that says where its visitors come from.
type forwarded struct {
	http.RoundTripper
	remote string
}

func (f forwarded) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Forwarded-For", f.remote)
	return f.RoundTripper.RoundTrip(r)
}

// What no address can be is refused before anything else, and shown to nobody again.
func TestFieldsAreBounded(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	p := n.person()
	long := strings.Repeat("a", 20_000)
	for _, path := range []string{"/signin", "/signup", "/reset"} {
		r := p.wants(p.post(path, "email", long+"@example.com", "password", pagePassword, "next", "/dashboard/"+long), "POST "+path, 400, "at most 254 characters")
		if strings.Contains(r.body, long[:300]) {
			t.Errorf("POST %s shows the long text again", path)
		}
	}
	p.wants(p.post("/signin", "email", "ana@example.com", "password", long), "a long password", 401, "wrong")
	p.wants(p.post("/signin/code", "code", long), "a long code", 303, "/signin")
	p.wants(p.post("/link/signup", "token", long, "password", long), "a long token", 404, "")
	p.wants(p.get("/link/device?token="+strings.Repeat("A", 52)), "a purpose without a page", 404, "no such page")
	// A session that somebody planted is not taken over by a sign-in.
	ana := n.join("ana@example.com")
	planted := n.person()
	planted.client.Jar.SetCookies(&url.URL{Scheme: "http", Host: n.Addr()}, []*http.Cookie{{Name: "sluice_session", Value: strings.Repeat("B", 52)}})
	planted.wants(planted.post("/signin", "email", ana.email, "password", pagePassword), "POST /signin", 303, "/dashboard")
	for _, c := range planted.client.Jar.Cookies(&url.URL{Scheme: "http", Host: n.Addr()}) {
		if c.Name == "sluice_session" && c.Value == strings.Repeat("B", 52) {
			t.Error("the planted session was kept")
		}
	}
}
