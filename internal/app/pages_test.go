package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"sluice/internal/operate/admin"
)

// person is somebody with a browser of their own, which follows no redirects.
type person struct {
	n      *node
	client *http.Client
	email  string
	key    string // the master key
}

const pagePassword = "correct horse battery"

func (n *node) person() *person {
	n.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		n.t.Fatal(err)
	}
	return &person{n: n, client: &http.Client{
		Transport: n.client.Transport, Jar: jar, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// send makes a request as a browser does; site is its Sec-Fetch-Site.
func (p *person) send(method, path, site string, form url.Values) reply {
	p.n.t.Helper()
	r, err := http.NewRequest(method, p.n.scheme+p.n.Addr()+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.n.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", site)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := p.client.Do(r)
	if err != nil {
		p.n.t.Fatalf("%s %s = %v", method, path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.n.t.Fatalf("%s %s = %v", method, path, err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body)}
}

func (p *person) get(path string) reply { return p.send("GET", path, "same-origin", nil) }

// post sends a form; fields are name and value in turns.
func (p *person) post(path string, fields ...string) reply {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return p.send("POST", path, "same-origin", form)
}

// wants fails unless a reply has the status and, where given, the text.
func (p *person) wants(r reply, what string, status int, text string) reply {
	p.n.t.Helper()
	if r.status != status || !strings.Contains(r.body, text) && !strings.Contains(r.header.Get("Location"), text) {
		p.n.t.Fatalf("%s = %d %s %s, want %d with %q", what, r.status, r.header.Get("Location"), r.body, status, text)
	}
	return r
}

// leads fails unless a reply redirects to a page with the text, and returns the page.
func (p *person) leads(r reply, what, text string) reply {
	p.n.t.Helper()
	if r.status != 303 {
		p.n.t.Fatalf("%s = %d %s, want a redirect", what, r.status, r.body)
	}
	return p.wants(p.get(r.header.Get("Location")), what+", then "+r.header.Get("Location"), 200, text)
}

var (
	loggedLink = regexp.MustCompile(`"to":"([^"]+)","subject":"[^"]*","text":"[^"]*?http://[^/]+(/link/[a-z]+)\?token=(\w+)`)
	shownKey   = regexp.MustCompile(`\b[a-z]+-[0-9A-Za-z]{46}\b`)
	keyID      = regexp.MustCompile(`/keys\?delete=(key_\w+)`)
)

// linkTo waits for the newest link that was mailed to an address: in the log, since there is no mail server.
func (n *node) linkTo(email string) (path, token string) {
	n.t.Helper()
	eventually(n.t, "a link to "+email, func() bool {
		for _, m := range loggedLink.FindAllStringSubmatch(n.log.String(), -1) {
			if m[1] == email && !n.taken[m[3]] {
				path, token = m[2], m[3]
			}
		}
		return token != ""
	})
	if n.taken == nil {
		n.taken = map[string]bool{}
	}
	n.taken[token] = true
	return path, token
}

// join signs somebody up.
func (n *node) join(email string) *person {
	n.t.Helper()
	p := n.person()
	p.email = email
	p.leads(p.post("/signup", "email", email), "POST /signup", "Check your e-mail")
	path, token := n.linkTo(email)
	p.wants(p.get(path+"?token="+token), "GET "+path, 200, email)
	r := p.leads(p.post(path, "token", token, "password", pagePassword), "POST "+path, "Welcome")
	p.key = shownKey.FindString(r.body)
	if p.key == "" {
		n.t.Fatalf("the welcome of %s shows no key", email)
	}
	return p
}

// privatePages need somebody who is signed in; privateForms, too, and change something.
var (
	privatePages = []string{
		"/dashboard", "/dashboard/find", "/dashboard/find?q=key", "/dashboard/minute", "/dashboard/keys", "/dashboard/start", "/dashboard/activity", "/dashboard/activity.csv", "/dashboard/activity.json", "/dashboard/activity/days.csv", "/dashboard/activity/routing", "/dashboard/activity/whatif", "/dashboard/costs/caches", "/dashboard/budgets", "/dashboard/budgets?new", "/dashboard/sessions", "/dashboard/models", "/dashboard/models/compare?m=sandbox/small&m=sandbox/large", "/dashboard/models/sandbox/small", "/dashboard/playground", "/dashboard/playground/shares", "/dashboard/videos", "/dashboard/plan", "/dashboard/plan?cancel", "/dashboard/plan?lower=basic", "/dashboard/plan?plan=basic", "/dashboard/plan/card", "/dashboard/messages", "/dashboard/messages?show=notices", "/dashboard/messages/new", "/dashboard/webhooks", "/dashboard/webhooks?new", "/dashboard/account", "/dashboard/account?email", "/dashboard/account?details", "/dashboard/account?password", "/dashboard/account?totp", "/dashboard/account?passkeys", "/dashboard/account?passkey", "/dashboard/account?recovery", "/dashboard/account?sessions", "/dashboard/account?replies", "/dashboard/account?export", "/dashboard/account?close", "/dashboard/account/log", "/dashboard/account.json", "/dashboard/account.json?part=4",
	}
	privateForms = []string{
		"/dashboard/playground/shares/x/delete", "/dashboard/keys", "/dashboard/keys/master", "/dashboard/keys/key_x", "/dashboard/keys/key_x/delete",
		"/dashboard/budgets", "/dashboard/budgets/bud_x", "/dashboard/budgets/bud_x/delete",
		"/dashboard/plan/subscribe", "/dashboard/plan/upgrade", "/dashboard/plan/cancel", "/dashboard/plan/resume", "/dashboard/plan/keep", "/dashboard/account/details", "/dashboard/plan/overdue", "/dashboard/plan/method",
		"/dashboard/plan/downgrade", "/dashboard/plan/downgrade/withdraw", "/dashboard/plan/pay", "/dashboard/plan/card", "/dashboard/messages", "/dashboard/messages/read", "/dashboard/messages/mat_x/answer", "/dashboard/messages/mat_x/resolve", "/dashboard/webhooks", "/dashboard/webhooks/mail", "/dashboard/webhooks/whk_x/test",
		"/dashboard/webhooks/whk_x/resume", "/dashboard/webhooks/whk_x/delete", "/dashboard/webhooks/deliveries/msg_x/replay", "/dashboard/account/email",
		"/dashboard/account/password", "/dashboard/account/replies", "/dashboard/account/totp/enrol", "/dashboard/account/totp", "/dashboard/account/totp/remove", "/dashboard/account/totp/recovery",
		"/dashboard/account/passkeys", "/dashboard/account/passkeys/ask", "/dashboard/account/passkeys/prove", "/dashboard/account/passkeys/remove",
		"/dashboard/account/sessions/ses_x/close", "/dashboard/account/sessions/close", "/dashboard/account/close",
	}
)

func TestPagesKeepStrangersOut(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	p := n.person()
	for _, path := range privatePages {
		p.wants(p.get(path), "GET "+path, 303, "/signin")
	}
	for _, path := range privateForms {
		p.wants(p.post(path, "name", "x", "plan", "basic"), "POST "+path, 303, "/signin")
	}
	p.wants(p.get("/dashboard/v1/models"), "GET /dashboard/v1/models", 401, "authentication_error")
	p.wants(p.get("/"), "GET /", 200, "Get started")
	p.wants(p.get("/dashboard/none"), "GET /dashboard/none", 404, "no page at this address")
	p.wants(p.get("/signin?next=//evil.example"), "GET /signin", 200, `name="next" value="/dashboard"`)
	p.wants(p.get("/link/signin?token=guess"), "GET /link/signin", 404, "incomplete")
	p.wants(p.get("/link/signin?token="+strings.Repeat("A", 52)), "GET /link/signin", 404, "used already")
	p.wants(p.get("/link/none?token=guess"), "GET /link/none", 404, "")

	ana := n.join("ana@example.com")
	for _, path := range privatePages {
		ana.wants(ana.get(path), "GET "+path, 200, "")
	}
	ana.wants(ana.get("/dashboard/v1/models"), "GET /dashboard/v1/models", 200, "sandbox/small")
	ana.wants(ana.get("/"), "GET / signed in", 303, "/dashboard")
	ana.wants(ana.post("/signout"), "POST /signout", 303, "/signin")
	ana.wants(ana.get("/dashboard"), "GET /dashboard signed out", 303, "/signin")
	ana.wants(ana.post("/signin", "email", ana.email, "password", "wrong password", "next", "/dashboard/keys"), "a wrong password", 401, "address or the password is wrong")
	ana.wants(ana.post("/signin", "email", ana.email, "password", pagePassword, "next", "https://evil.example"), "POST /signin", 303, "/dashboard")
}

// What another site's page sends along with a visitor's cookies has no effect.
func TestPagesRefuseForgedForms(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	before := ana.get("/dashboard/account.json").body
	for _, path := range append(privateForms, "/signout", "/signin", "/signup") {
		for _, site := range []string{"cross-site", "same-site"} {
			form := url.Values{"name": {"forged"}, "plan": {"free"}, "email": {ana.email}, "password": {pagePassword}, "current": {pagePassword}}
			ana.wants(ana.send("POST", path, site, form), "POST "+path+" from elsewhere", 403, "another site")
		}
	}
	if r := ana.send("POST", "/dashboard/v1/chat/completions", "cross-site", url.Values{}); r.status != 403 {
		t.Errorf("a call to the API from elsewhere = %d, want 403", r.status)
	}
	strip := regexp.MustCompile(`"(made_at|seen_at)": "[^"]*"`)
	if after := ana.get("/dashboard/account.json").body; strip.ReplaceAllString(after, "") != strip.ReplaceAllString(before, "") {
		t.Errorf("forged forms changed the account:\n%s\n%s", before, after)
	}
}

// The forms that take an address answer the same, whoever has it.
func TestPagesTellNobodyWhoHasAnAccount(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	n.join("ana@example.com")
	for _, form := range []struct {
		path   string
		fields []string
		status int
	}{
		{"/signup", nil, 303},
		{"/signin", []string{"password", "another long password"}, 401},
		{"/reset", nil, 303},
	} {
		var answers []string
		for _, email := range []string{"ana@example.com", "bob@example.com"} {
			p := n.person()
			r := p.wants(p.post(form.path, append([]string{"email", email}, form.fields...)...), "POST "+form.path, form.status, "")
			r.header.Del("X-Request-Id")
			r.header.Del("Date")
			r.header.Del("Set-Cookie") // sealed anew each time
			if r.status == 303 {
				r.body += p.get(r.header.Get("Location")).body
			}
			answers = append(answers, strings.ReplaceAll(fmt.Sprint(r.status, r.header, r.body), email, "somebody"))
		}
		if answers[0] != answers[1] {
			t.Errorf("POST %s answers\n%s\nfor an address with an account and\n%s\nfor one without", form.path, answers[0], answers[1])
		}
	}
}

// Text from outside is text on every page, whatever it looks like.
func TestPagesEscape(t *testing.T) {
	t.Parallel()
	n := newSite(t, "plans: {none: {monthly_units: 10}}\n").start(t)
	ana := n.join("ana@example.com")
	attacks := []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'-alert(1)-'`, `javascript:alert(1)`, `{{7*7}}`, `</title><script>alert(1)</script>`}
	for i, attack := range attacks {
		if !strings.Contains(ana.shown("/dashboard/keys", "name", attack), "is ready") {
			t.Errorf("a key called %q was not made", attack)
		}
		if i == 0 {
			ana.post("/dashboard/keys", "name", strings.Repeat(attack, 40)) // refused, and shown again
		}
	}
	must[admin.Account](n, "account.suspend", admin.Target{Actor: "t", Ref: ana.email, Reason: attacks[1]})
	var bodies []string
	for _, path := range privatePages {
		bodies = append(bodies, ana.get(path).body)
	}
	for _, attack := range attacks {
		q := url.QueryEscape(attack)
		for _, path := range []string{
			"/dashboard/models?q=" + q, "/dashboard/models?m=" + q, "/models/compare?m=" + q + "&calls=" + q + "&in=1&tier=" + q, "/pricing?model=" + q + "&calls=" + q, "/dashboard/models/" + url.PathEscape(attack), "/models?q=" + q + "&kind=" + q + "&sort=" + q, "/models/" + url.PathEscape(attack), "/" + url.PathEscape(attack), "/dashboard/activity?model=" + q + "&key=" + q + "&range=" + q + "&by=" + q + "&outcome=" + q + "&show=" + q, "/dashboard/playground?model=" + q, "/signin?next=" + q + "&email=" + q,
			"/dashboard/plan?payment=" + q, "/dashboard/plan/upgrade?plan=" + q, "/dashboard/plan/pay?payment=" + q, "/link/signup?token=" + q, "/dashboard/" + url.PathEscape(attack),
		} {
			bodies = append(bodies, n.person().get(path).body, ana.get(path).body)
		}
		bodies = append(bodies,
			ana.post("/signup", "email", attack).body, ana.post("/reset", "email", attack).body,
			ana.post("/signin", "email", attack, "password", attack).body, ana.post("/dashboard/account/email", "email", attack, "current", pagePassword).body,
			ana.post("/dashboard/plan/downgrade", "plan", attack, "message", attack).body, ana.post("/dashboard/messages/mat_x/answer", "text", attack).body,
			ana.post("/dashboard/messages", "kind", attack, "subject", attack, "text", attack).body, ana.post("/dashboard/messages", "kind", "other", "subject", attack, "text", attack).body,
			ana.get("/dashboard/messages").body, ana.get("/dashboard/messages/new?kind="+q+"&subject="+q).body)
	}
	for _, body := range bodies {
		for _, bad := range []string{"<script>alert", "<img src=x", `href="javascript:`, "=alert(1)>"} {
			if i := strings.Index(body, bad); i >= 0 && strings.HasPrefix(strings.TrimSpace(strings.ToLower(body)), "<!doctype") {
				t.Fatalf("a page holds %q: …%s…", bad, body[max(0, i-100):min(len(body), i+100)])
			}
		}
	}
	if !strings.Contains(ana.get("/dashboard/keys").body, "&lt;script&gt;alert(1)&lt;/script&gt;") {
		t.Error("the name of a key is not shown as the text that it is")
	}
	ana.wants(ana.get("/dashboard/messages"), "GET /dashboard/messages", 200, "Your account is suspended")
	ana.wants(ana.post("/dashboard/v1/chat/completions"), "a call of a suspended account", 423, "account_suspended")
}

// Nobody reaches what belongs to another account.
func TestPagesKeepToTheirOwner(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	body := ana.shown("/dashboard/keys", "name", "laptop")
	key := shownKey.FindString(body)
	id := keyID.FindStringSubmatch(body)[1]
	for _, path := range []string{"/dashboard/keys/" + id, "/dashboard/keys/" + id + "/delete"} {
		bob.wants(bob.post(path, "name", "mine"), "changing another's key", 303, "/dashboard/keys")
		bob.wants(bob.get("/dashboard/keys"), "what is said then", 200, "no longer exists")
	}
	bob.wants(bob.get("/dashboard/keys?edit="+id), "a form about another's key", 303, "/dashboard/keys")
	ana.wants(ana.get("/dashboard/keys?edit="+id), "a form about one's own key", 200, `value="laptop"`)
	ana.wants(ana.get("/dashboard/keys?delete="+id), "a question about one's own key", 200, "Delete laptop?")
	if r := n.get("/v1/models", key); r.status != 200 {
		t.Errorf("the key afterwards = %d, want 200", r.status)
	}
	session := regexp.MustCompile(`"created_at"`)
	if got := len(session.FindAllString(bob.get("/dashboard/account.json").body, -1)); got == 0 {
		t.Error("the export has no times")
	}
	for _, p := range []*person{ana, bob} {
		body := p.get("/dashboard/account.json").body
		other := map[string]string{ana.email: bob.email, bob.email: ana.email}[p.email]
		if !strings.Contains(body, p.email) || strings.Contains(body, other) || shownKey.MatchString(body) || strings.Contains(body, "argon2id") {
			t.Errorf("the export of %s holds too little or too much:\n%s", p.email, body)
		}
	}
	ana.wants(ana.post("/dashboard/keys/"+id+"/delete"), "deleting one's own key", 303, "/dashboard/keys")
	if r := n.get("/v1/models", key); r.status != 401 {
		t.Errorf("the deleted key = %d, want 401", r.status)
	}
}

// shown sends a form that makes a secret, and returns the page that it leads to.
func (p *person) shown(path string, fields ...string) string {
	return p.leads(p.post(path, fields...), "POST "+path, "").body
}

// A key is shown on the page after its form, once more if that is loaded again, and nowhere else; a password nowhere at all.
func TestPagesShowSecretsOnce(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	sub := shownKey.FindString(ana.shown("/dashboard/keys", "name", "laptop"))
	if again := shownKey.FindString(ana.get("/dashboard/keys").body); again != sub {
		t.Errorf("loading the page again shows %q, want the key", again)
	}
	if third := shownKey.FindString(ana.get("/dashboard/keys").body); third != "" {
		t.Errorf("loading the page a third time shows %q, want nothing", third)
	}
	ana.post("/dashboard/keys/master")
	if elsewhere := shownKey.FindString(ana.get("/dashboard/account").body); elsewhere != "" {
		t.Errorf("another page shows %q, want nothing", elsewhere)
	}
	master := shownKey.FindString(ana.get("/dashboard/keys").body)
	if sub == "" || master == "" || master == ana.key {
		t.Fatalf("new keys = %q, %q", sub, master)
	}
	ana.get("/dashboard/keys")
	ana.post("/dashboard/account/password", "current", "wrong "+pagePassword, "password", pagePassword)
	for _, path := range privatePages {
		body := ana.get(path).body
		for _, secret := range []string{ana.key, sub, master, pagePassword} {
			if strings.Contains(body, secret) {
				t.Errorf("GET %s shows a secret", path)
			}
		}
	}
	for _, secret := range []string{ana.key, sub, master, pagePassword} {
		if strings.Contains(n.log.String(), secret) {
			t.Error("the log holds a secret")
		}
	}
	cookies := ana.client.Jar.Cookies(&url.URL{Scheme: "http", Host: n.Addr()})
	if len(cookies) == 0 || strings.Contains(n.log.String(), cookies[0].Value) {
		t.Errorf("%d cookies, or one of them is in the log", len(cookies))
	}
}

// What the service has to say is on the page and in the mail, and an inquiry can be answered.
func TestPagesTell(t *testing.T) {
	t.Parallel()
	n := newSite(t, "plans: {none: {monthly_units: 10, requests_per_minute: unlimited}}\n").start(t)
	ana := n.join("ana@example.com")
	for i := range 10 {
		if r := n.request("POST", "/v1/chat/completions", ana.key, `{"model":"sandbox/tiny","messages":[{"role":"user","content":"hi"}]}`); r.status != 200 {
			t.Fatalf("call %d = %d %s", i, r.status, r.body)
		}
	}
	for _, title := range []string{"50% of your monthly allowance is used", "A question about your usage", "Your keys are switched off"} {
		eventually(t, "the message "+title, func() bool { return strings.Contains(ana.get("/dashboard/messages").body, ">"+title+"<") })
		eventually(t, "the mail "+title, func() bool { return strings.Contains(n.log.String(), `"subject":"`+title) })
	}
	ana.wants(ana.get("/dashboard"), "any page while the keys are off", 200, "Your keys are switched off: the month")
	r := ana.get("/dashboard/messages")
	path := ticketPath.FindString(r.body)
	ana.wants(ana.get(path), "the inquiry", 200, "Please tell us")
	ana.wants(ana.post(path+"/answer", "text", "  "), "an empty answer", 400, "Write a message")
	ana.wants(ana.post(path+"/answer", "text", "for a bot"), "an answer", 303, path)
	ana.wants(ana.get(path), "the inquiry afterwards", 200, "for a bot")
	must[admin.Account](n, "key.restore", admin.Target{Actor: "t", Ref: ana.email})
	ana.wants(ana.get("/dashboard/messages"), "the messages after support restored the keys", 200, "Your keys work again")
}

// Two steps: the app's first code turns them on, and from then on the password alone opens nothing.
func TestPagesInTwoSteps(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	secret := ana.enrol()
	// A wrong code, or loading the page again, does not end the enrolment.
	for range 3 {
		if page := ana.wants(ana.post("/dashboard/account/totp", "code", "1"), "a wrong code", 401, "code is wrong"); !strings.Contains(page.body, secret) {
			t.Error("a wrong code ends the enrolment")
		}
		ana.wants(ana.get("/dashboard/account?totp"), "the page again", 200, secret)
	}
	ana.wants(ana.get("/dashboard/account/totp"), "the address of the form", 303, "/dashboard/account")
	other := n.signInAs(ana.email, pagePassword)
	if strings.Contains(other.get("/dashboard/account?totp").body, secret) {
		t.Error("another session sees the secret")
	}
	ana.wants(ana.post("/dashboard/account/totp", "code", codeAt(t, secret, time.Now())), "the first code", 303, "/account")
	page := ana.get("/dashboard/account").body
	if strings.Contains(page, secret) {
		t.Error("the secret is shown again")
	}
	codes := regexp.MustCompile(`\b([a-z2-7]{4}-){3}[a-z2-7]{4}\b`).FindAllString(page, -1)
	if len(codes) != 10 {
		t.Fatalf("the page shows %d recovery codes, want 10", len(codes))
	}
	ana.wants(ana.get("/dashboard/account"), "the page again", 200, codes[0])
	if strings.Contains(ana.get("/dashboard/account").body, codes[0]) {
		t.Error("recovery codes are shown a third time")
	}
	ana.leads(ana.post("/dashboard/account/totp/recovery"), "new codes, by the proof that enrolling needed", "You have new recovery codes")
	ana.get("/dashboard/account")
	ana.wants(ana.get("/dashboard/account/log"), "the log", 200, "The account was created")
	ana.post("/signout")
	ana.leads(ana.post("/signin", "email", ana.email, "password", pagePassword, "next", "/dashboard/keys?new"), "the password", `name="next" value="/dashboard/keys?new"`)
	ana.wants(ana.get("/dashboard"), "the dashboard after the first step", 303, "/signin")
	ana.wants(ana.post("/signin/code", "code", "000000"), "a guess", 401, "code is wrong")
	ana.wants(ana.get("/signin/code"), "the form again", 200, "Two-step sign-in")
	// A code of the next half minute is taken, so that the test need not wait for it.
	ana.wants(ana.post("/signin/code", "code", codeAt(t, secret, time.Now().Add(30*time.Second)), "next", "/dashboard/keys"), "the second step", 303, "/dashboard/keys")
	ana.wants(ana.get("/dashboard"), "the dashboard", 200, "Overview")
	n.person().wants(n.person().post("/signin/code", "code", "000000"), "a second step without a first", 303, "/signin")
}

// enrol begins to set up two steps and returns the secret.
func (p *person) enrol() string {
	p.n.t.Helper()
	secret := regexp.MustCompile(`id="totp-secret">(\w+)<`).FindStringSubmatch(p.shown("/dashboard/account/totp/enrol", "current", pagePassword))
	if secret == nil {
		p.n.t.Fatal("setting up two steps shows no secret")
	}
	return secret[1]
}

// codeAt is what an app shows at a time.
func codeAt(t *testing.T, secret string, at time.Time) string {
	t.Helper()
	c, err := totp.GenerateCode(secret, at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOwnerLink(t *testing.T) {
	t.Parallel()
	n := newSite(t, "signup: invite\n").start(t)
	p := n.person()
	use := func(link string, fields ...string) reply {
		u, err := url.Parse(link)
		if err != nil || u.Host != n.Addr() {
			t.Fatalf("link %q, want one to %s", link, n.Addr())
		}
		p.wants(p.get(u.RequestURI()), "GET "+u.Path, 200, "")
		return p.post(u.Path, append([]string{"token", u.Query().Get("token")}, fields...)...)
	}
	p.wants(use(n.OwnerLink()), "the first start's link", 303, "/dashboard")
	p.wants(p.get("/dashboard"), "GET /dashboard", 200, "Scale")
	p.wants(p.post("/signup", "email", "x@example.com"), "POST /signup", 403, "invitation")

	p = n.person()
	link := must[admin.SignInLink](n, "signin-link", admin.Target{Ref: "new@example.com"})
	p.wants(use(link.URL, "password", "short"), "an invitation with a short password", 400, "at least 10")
	p.leads(use(link.URL, "password", pagePassword), "an invitation", "Welcome")
	p.wants(p.get("/dashboard/account"), "GET /dashboard/account", 200, "new@example.com")
	if r := p.post("/link/invite", "token", "guess"); r.status != 404 {
		t.Errorf("a guessed invitation = %d, want 404", r.status)
	}
}
