package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/account/signin"
	"sluice/internal/kit/passkey"
	"sluice/internal/kit/passkey/passkeytest"
	"sluice/internal/operate/admin"
)

// localSite is what passkeys of a server without a public URL are for.
func (p *person) localSite() passkey.Site {
	site, _ := passkey.SiteAt(p.n.scheme + p.n.Addr())
	return site
}

// asks asks for a challenge.
func (p *person) asks(path string, form ...string) signin.Ask {
	p.n.t.Helper()
	var ask signin.Ask
	r := p.wants(p.post(path, form...), "POST "+path, 200, "challenge")
	if err := json.Unmarshal([]byte(r.body), &ask); err != nil {
		p.n.t.Fatal(err)
	}
	return ask
}

// addPasskey adds a passkey on the account page.
func (p *person) addPasskey(d *passkeytest.Device, name string, proof ...string) reply {
	p.n.t.Helper()
	ask := p.asks("/dashboard/account/passkeys/ask", append([]string{"name", name}, proof...)...)
	return p.post("/dashboard/account/passkeys", "name", name, "passkey", d.Make(p.localSite(), ask.Challenge, ask.User, nil))
}

// A passkey over its whole life: added, used in both ways, exported, proof for a change, removed, and gone with support's
// help.
func TestPagesWithPasskeys(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, d := n.join("ana@example.com"), passkeytest.New(passkey.ES256)
	ana.wants(ana.post("/dashboard/account/passkeys/ask", "name", "phone", "current", "wrong password"), "asking without the password", 400, `"field":"current"`)
	ana.wants(ana.post("/dashboard/account/passkeys", "name", "phone", "passkey", "{}"), "adding nothing", 401, "not accepted")
	ana.leads(ana.addPasskey(d, "phone <1>", "current", pagePassword), "adding", "The passkey was added")
	page := ana.wants(ana.get("/dashboard/account"), "the page", 200, "phone &lt;1&gt;")
	if !strings.Contains(page.body, "Your recovery codes") {
		t.Error("the first passkey brings no recovery codes")
	}
	ana.wants(ana.get("/dashboard/account/log"), "the log", 200, "A passkey was added")
	ana.wants(ana.get("/dashboard/account.json"), "the export", 200, `"name": "phone \u003c1\u003e"`)
	ana.wants(ana.get("/dashboard/account/passkeys"), "the address of the form", 303, "/dashboard/account")

	// The second step.
	ana.post("/signout")
	ana.leads(ana.post("/signin", "email", ana.email, "password", pagePassword), "the password", "Use a passkey")
	ana.wants(ana.get("/dashboard"), "the dashboard after the first step", 303, "/signin")
	ask := ana.asks("/signin/code/ask")
	ana.wants(ana.post("/signin/code", "passkey", "{}"), "nothing as a passkey", 401, "not accepted")
	ana.wants(ana.post("/signin/code", "passkey", d.Use(ana.localSite(), ask.Challenge, nil), "next", "/dashboard/keys"), "the second step", 303, "/dashboard/keys")
	ana.wants(ana.get("/dashboard"), "the dashboard", 200, "Overview")

	// Without a password.
	ana.post("/signout")
	ana.wants(ana.get("/signin"), "the form", 200, "Sign in with a passkey")
	ask = ana.asks("/signin/passkey/ask")
	thief := n.person()
	thief.asks("/signin/passkey/ask")
	thief.wants(thief.post("/signin/passkey", "passkey", d.Use(ana.localSite(), ask.Challenge, nil)), "another browser", 401, "too long, or")
	ana.wants(ana.post("/signin/passkey", "passkey", d.Use(ana.localSite(), ask.Challenge, nil), "next", "/dashboard/plan"), "the passkey", 303, "/dashboard/plan")
	ana.wants(ana.get("/dashboard"), "the dashboard", 200, "Overview")

	// Proof, and the end.
	ana.wants(ana.post("/dashboard/account/password", "current", pagePassword, "password", "another long password"), "a change without the passkey", 401, "code is wrong")
	ask = ana.asks("/dashboard/account/passkeys/prove")
	ana.leads(ana.post("/dashboard/account/password", "current", pagePassword, "password", "another long password", "proof_key", d.Use(ana.localSite(), ask.Challenge, nil)), "a change with the passkey", "Your password was changed")
	id := between(ana.get("/dashboard/account?passkeys").body, `/dashboard/account?unkey=`, `"`)
	ana.wants(ana.get("/dashboard/account?unkey="+id), "the dialog", 200, "Remove phone &lt;1&gt;?")
	ana.wants(ana.post("/dashboard/account/passkeys/remove", "id", "unknown"), "removing an unknown one", 303, "/dashboard/account")
	ask = ana.asks("/dashboard/account/passkeys/prove")
	ana.leads(ana.post("/dashboard/account/passkeys/remove", "id", id, "current", "another long password", "proof_key", d.Use(ana.localSite(), ask.Challenge, nil)), "removing", "The passkey was removed")
	ask = ana.asks("/signin/passkey/ask")
	ana.wants(ana.post("/signin/passkey", "passkey", d.Use(ana.localSite(), ask.Challenge, nil)), "a removed passkey", 401, "not accepted")

	ana.leads(ana.addPasskey(d, "phone", "current", "another long password"), "adding it again", "The passkey was added")
	must[admin.Account](n, "account.reset-second-factor", admin.Target{Actor: "t", Ref: ana.email, Reason: "lost"})
	ana.wants(ana.post("/signin", "email", ana.email, "password", "another long password"), "the password alone", 303, "/dashboard")
	if strings.Contains(ana.get("/dashboard/account").body, "Recovery codes") {
		t.Error("support did not remove the passkey")
	}
}

// passkeyTries are the tries of the bounds of passkeys.
var passkeyTries = map[string]try{
	"passkeys of an account": func(t *testing.T, s *stage, b bound) {
		p := s.enter(t, s.account(t).Email)
		var within reply
		for i := range b.n {
			within = p.addPasskey(passkeytest.New(passkey.EdDSA), fmt.Sprint("key ", i))
		}
		b.check(t, within, 303, p.post("/dashboard/account/passkeys/ask", "name", "one more"))
	},
	"name of a passkey": func(t *testing.T, s *stage, b bound) {
		p := s.enter(t, s.account(t).Email)
		ask := func(n int64) reply {
			return p.post("/dashboard/account/passkeys/ask", "name", strings.Repeat("a", int(n)))
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"time to use a passkey that was asked for": triedBy("account/signin", "TestPasskeyUses", "401"),
	"what a browser says about a passkey":      triedBy("kit/passkey", "TestParse", "401"),
}
