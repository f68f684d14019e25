package app_test

import (
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore"
	"sluice/internal/web/support"
)

// staffMember signs somebody up, makes them staff and turns their second factor on. Their session has proved it.
func (n *node) staffMember(email string) (p *person, secret string) {
	n.t.Helper()
	p = n.join(email)
	must[admin.Account](n, "account.set-staff", admin.StaffFlag{Actor: "tester", Ref: email, Staff: true})
	secret = p.enrol()
	p.wants(p.post("/dashboard/account/totp", "code", codeAt(n.t, secret, time.Now())), "the first code", 303, "/account")
	return p, secret
}

// staffToken makes a token with scopes.
func (n *node) staffToken(ref string, scopes ...admin.Scope) string {
	n.t.Helper()
	return must[admin.CreatedToken](n, "staff.token-create", admin.NewToken{Actor: "tester", Ref: ref, Name: "test", Scopes: scopes, Days: 1}).Text
}

// consoleRoutes and adminRoutes return the routers' own tables: the routers are made from them and have nothing else.
func consoleRoutes() []string { return new(support.Console).Routes() }

func adminRoutes() (list []string, scopes map[string]admin.Scope) {
	scopes = map[string]admin.Scope{}
	for _, r := range admin.Routes() {
		if r.Path != "" {
			pattern := r.Method + " " + admin.Base + r.Path
			list, scopes[pattern] = append(list, pattern), r.Scope
		}
	}
	list = append(list, "GET "+admin.Base+"/openapi.json", "GET "+admin.Base+"/nothing")
	return list, scopes
}

// concrete returns the method and a path of a pattern. ref stands for every wildcard.
func concrete(pattern, ref string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	for {
		before, rest, ok := strings.Cut(path, "{")
		if !ok {
			return method, path
		}
		_, after, _ := strings.Cut(rest, "}")
		path = before + ref + after
	}
}

// exec changes the node's SQLite database behind its back.
func (n *node) exec(statement string) {
	n.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(n.site.data(), sqlstore.File)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		n.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		n.t.Fatal(err)
	}
}

// bearer sends a request with a token and without cookies.
func (n *node) bearer(method, path, token, body string) reply {
	n.t.Helper()
	r, err := http.NewRequest(method, n.scheme+n.Addr()+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := n.client.Do(r)
	if err != nil {
		n.t.Fatalf("%s %s = %v", method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(raw)}
}

// Nobody but staff gets anything from any route of the console or the admin API: not a stranger, a customer, a member
// without a second factor or with an old one, nor a token that lacks the scope, has expired or lost its member.
func TestStaffOnly(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	stranger := n.person()
	customer := n.join("customer@example.com")
	boss, secret := n.staffMember("boss@example.com")
	bare := n.join("bare@example.com") // staff without a second factor
	must[admin.Account](n, "account.set-staff", admin.StaffFlag{Actor: "tester", Ref: bare.email, Staff: true})
	old := n.person() // a session of the boss whose proof is too old
	old.leads(old.post("/signin", "email", boss.email, "password", pagePassword), "POST /signin", "Two-step sign-in")
	old.wants(old.post("/signin/code", "code", codeAt(t, secret, time.Now().Add(30*time.Second))), "the code", 303, "/dashboard")
	n.exec("UPDATE sessions SET proved_at = proved_at - 28800000 WHERE id = (SELECT id FROM sessions ORDER BY created_at DESC LIMIT 1)")
	former, _ := n.staffMember("former@example.com")
	formerToken := n.staffToken(former.email, allScopes()...)
	must[admin.Account](n, "account.set-staff", admin.StaffFlag{Actor: "tester", Ref: former.email, Staff: false})
	jailed, _ := n.staffMember("jailed@example.com")
	jailedToken := n.staffToken(jailed.email, allScopes()...)
	must[admin.Account](n, "account.suspend", admin.Target{Actor: "tester", Ref: jailed.email, Reason: "test"})
	bareToken := n.staffToken(bare.email, allScopes()...)
	expired := n.staffToken(boss.email, allScopes()...)
	n.exec("UPDATE staff_tokens SET expires_at = 1 WHERE id = (SELECT id FROM staff_tokens ORDER BY created_at DESC LIMIT 1)")
	victim := n.join("victim@example.com")
	ref := must[admin.Account](n, "account.show", admin.Target{Ref: victim.email}).ID

	// nothing fails if a reply tells something about accounts.
	nothing := func(who, method, path string, r reply, status int) {
		t.Helper()
		if r.status != status {
			t.Errorf("%s %s by %s = %d %s, want %d", method, path, who, r.status, r.body, status)
		}
		if strings.Contains(r.body, victim.email) || strings.Contains(r.body, `"data"`) || strings.Contains(r.body, `"openapi"`) {
			t.Errorf("%s %s by %s tells: %s", method, path, who, r.body)
		}
	}
	for _, pattern := range append(consoleRoutes(), "GET /support/nothing", "POST /support/accounts") {
		method, path := concrete(pattern, ref)
		for _, v := range []struct {
			who    string
			p      *person
			status int
		}{{"a stranger", stranger, 303}, {"a customer", customer, 404}, {"a member without a second factor", bare, 403}, {"a member with an old proof", old, 403}, {"a former member", former, 404}, {"a suspended member", jailed, 404}} {
			got := v.p.get(path)
			if method == "POST" {
				got = v.p.post(path, "reason", "x", "plan", "scale", "name", "x", "days", "1", "scope", "accounts:read")
			}
			want := v.status
			if pattern == "POST /support/confirm" && v.p == old {
				want = 401 // a wrong code
			}
			nothing(v.who, method, path, got, want)
			if want == 303 && !strings.HasPrefix(got.header.Get("Location"), "/signin") {
				t.Errorf("%s %s by %s leads to %s, want the sign-in page", method, path, v.who, got.header.Get("Location"))
			}
		}
	}
	routes, scopes := adminRoutes()
	for _, pattern := range routes {
		method, path := concrete(pattern, ref)
		const body = `{"reason":"x","plan":"scale","name":"x","cents":1}`
		for who, token := range map[string]string{
			"a stranger": "", "somebody with a wrong token": "staff_" + strings.Repeat("A", 52), "a customer's key": victim.key,
			"a former member's token": formerToken, "the token of a member without a second factor": bareToken, "an expired token": expired, "a suspended member's token": jailedToken,
		} {
			nothing(who, method, path, n.bearer(method, path, token, body), 401)
		}
		if scope := scopes[pattern]; scope != "" {
			var others []admin.Scope
			for _, s := range allScopes() {
				if s != scope {
					others = append(others, s)
				}
			}
			token := n.staffToken(boss.email, others...)
			nothing("a token without "+string(scope), method, path, n.bearer(method, path, token, body), 403)
			n.exec("DELETE FROM staff_tokens WHERE account_id = (SELECT id FROM accounts WHERE email = 'boss@example.com')")
		}
		// A session is not a way into the API.
		got := boss.get(path)
		if method != "GET" {
			got = boss.post(path)
		}
		nothing("a session", method, path, got, 401)
	}
	if got := must[admin.Account](n, "account.show", admin.Target{Ref: ref}); got.Version != 1 || got.Plan != "none" {
		t.Errorf("after all that the account is %+v, want it unchanged", got)
	}
	// The proof of this test: a member gets in, and a new code renews an old proof.
	boss.wants(boss.get("/support/accounts/"+ref), "an account's page", 200, victim.email)
	n.exec("UPDATE logins SET totp_step = 0")
	old.wants(old.post("/support/confirm", "code", codeAt(t, secret, time.Now()), "next", "/support/accounts"), "a new code", 303, "/support/accounts")
	old.wants(old.get("/support/accounts/"+ref), "an account's page", 200, victim.email)
}

func allScopes() (list []admin.Scope) {
	for _, s := range admin.Scopes() {
		list = append(list, s.Scope)
	}
	return list
}

// The admin API does what the socket does, in the name of the token's member, and describes itself.
func TestAdminAPI(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	boss, _ := n.staffMember("boss@example.com")
	customer := n.join("customer@example.com")
	token := n.staffToken(boss.email, allScopes()...)

	r := n.bearer("POST", "/admin/v1/accounts/customer@example.com/suspend", token, `{"reason":"terms","actor":"somebody else"}`)
	if r.status != 200 || !strings.Contains(r.body, `"status":"suspended"`) {
		t.Fatalf("suspend = %d %s", r.status, r.body)
	}
	if got := n.get("/v1/models", customer.key); got.status != 423 {
		t.Errorf("a request after the suspension = %d, want 423", got.status)
	}
	var log admin.List[account.Entry]
	r = n.bearer("GET", "/admin/v1/accounts/customer@example.com/history?limit=1", token, "")
	if err := json.Unmarshal([]byte(r.body), &log); err != nil || len(log.Data) != 1 || !strings.HasPrefix(log.Data[0].Actor, "staff:boss@example.com token tok_") || log.Data[0].Reason != "terms" || log.Next == "" {
		t.Errorf("the newest entry of the audit log = %s, want the suspension by the token's member, and a cursor", r.body)
	}
	r = n.bearer("GET", "/admin/v1/accounts/customer@example.com/history?after="+log.Next, token, "")
	if !strings.Contains(r.body, "account.create") || strings.Contains(r.body, "account.suspend") {
		t.Errorf("the next page of the audit log = %s, want what came before", r.body)
	}
	for path, body := range map[string]string{
		"/admin/v1/accounts":                               `{"email":"x@example.com","staff":true}`, // makes no staff
		"/admin/v1/signin-links":                           `{"ref":"boss@example.com"}`,             // nor takes its place
		"/admin/v1/accounts/customer@example.com/set-plan": `{"plan":"scale"}`,                       // that is no path
	} {
		if r := n.bearer("POST", path, token, body); r.status != 403 && r.status != 404 {
			t.Errorf("POST %s %s = %d %s, want a refusal", path, body, r.status, r.body)
		}
	}
	for _, name := range []string{"reasons", "Plan", "Ref", "REF"} {
		r = n.bearer("POST", "/admin/v1/accounts/customer@example.com/plan", token, `{"plan":"scale","reason":"r","`+name+`":"x"}`)
		if r.status != 400 || !strings.Contains(r.body, name) {
			t.Errorf("a field %s = %d %s, want 400 and its name", name, r.status, r.body)
		}
	}

	if strings.Contains(n.log.String(), token) {
		t.Error("the log has a staff token")
	}

	doc, err := openapi3.NewLoader().LoadFromData([]byte(n.bearer("GET", "/admin/v1/openapi.json", token, "").body))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Errorf("openapi.json is not valid: %v", err)
	}
	described := 0
	for _, item := range doc.Paths.Map() {
		described += len(item.Operations())
	}
	if _, scopes := adminRoutes(); described != len(scopes) {
		t.Errorf("openapi.json describes %d operations, want %d", described, len(scopes))
	}
}
