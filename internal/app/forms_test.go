package app_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/account/billing"
	"sluice/internal/operate/admin"
)

// The address of a form answers to a browser that opens it: with its page. Whoever sends a form about something that is gone
// is told so.
func TestFormsAnswerToReaders(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	for _, path := range privateForms {
		r := ana.get(path)
		if r.status != 200 && r.status != 303 && !strings.HasPrefix(path, "/dashboard/plan/") { // a form about a payment is one
			t.Errorf("GET %s = %d, want its page", path, r.status)
		}
		// On the account page it is the dialog: /dashboard/account?totp for /dashboard/account/totp/enrol.
		if to := strings.Replace(r.header.Get("Location"), "?", "/", 1); r.status == 303 && !strings.HasPrefix(path, to) {
			t.Errorf("GET %s leads to %s, want its page", path, r.header.Get("Location"))
		}
	}
	ana.leads(ana.post("/dashboard/keys/key_x/delete"), "deleting a key that is gone", "no longer exists")
	ana.leads(ana.post("/dashboard/account/sessions/ses_x/close"), "closing a session that is gone", "was signed out")
	ana.wants(ana.get("/signout"), "GET /signout", 303, "/dashboard")
}

// Whoever was signed out in the middle of something comes back to it, and to nothing else.
func TestSignedOutInTheMiddle(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	n.exec("DELETE FROM sessions")
	r := ana.wants(ana.get("/dashboard/keys?new"), "a page", 303, "/signin?next=%2Fdashboard%2Fkeys%3Fnew")
	ana.wants(ana.get(r.header.Get("Location")), "the sign-in", 200, "Your session has ended")
	ana.wants(ana.post("/signin", "email", ana.email, "password", pagePassword, "next", "/dashboard/keys?new"), "signing in", 303, "/dashboard/keys?new")
	n.exec("DELETE FROM sessions")
	r = ana.wants(ana.post("/dashboard/keys/key_x/delete"), "a form", 303, "/signin?next=%2Fdashboard%2Fkeys")
	if to := r.header.Get("Location"); to != "/signin?next=%2Fdashboard%2Fkeys" {
		t.Errorf("a form leads to %s, want its page", to)
	}
	for from, want := range map[string]string{
		"http://" + n.Addr() + "/dashboard/usage?model=x": "/signin?next=%2Fdashboard%2Fusage%3Fmodel%3Dx",
		"https://evil.example//x":                         "/signin", "//evil.example": "/signin", "": "/signin",
	} {
		req, err := http.NewRequest("GET", "http://"+n.Addr()+"/dashboard/minute", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("HX-Request", "true")
		req.Header.Set("HX-Current-URL", from)
		resp, err := n.person().client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("HX-Redirect"); resp.StatusCode != 401 || got != want {
			t.Errorf("a part of %q = %d to %q, want 401 to %q", from, resp.StatusCode, got, want)
		}
	}
	for _, next := range []string{"https://evil.example", "//evil.example", "/dashboard//evil.example", "/dashboardx", "/dashboard\\evil", "javascript:alert(1)", "/signout"} {
		ana.wants(ana.post("/signin", "email", ana.email, "password", pagePassword, "next", next), "signing in to "+next, 303, "/dashboard")
		if to := ana.post("/signin", "email", ana.email, "password", pagePassword, "next", next).header.Get("Location"); to != "/dashboard" {
			t.Errorf("next=%s leads to %s, want /dashboard", url.QueryEscape(next), to)
		}
	}
}

// buys subscribes somebody to a plan with a card of the test processor.
func (p *person) buys(plan, card string) {
	p.n.t.Helper()
	r := p.wants(p.post("/dashboard/plan/subscribe", "plan", plan), "subscribe", 303, "/pay")
	payment := regexp.MustCompile(`payment=(pay_\w+)`).FindStringSubmatch(r.header.Get("Location"))[1]
	p.wants(p.post("/dashboard/plan/pay", "payment", payment, "card", card), "pay", 303, "/plan")
}

// A form that is refused has written nothing: support is not asked twice, and the ledger holds no request that nobody reads.
func TestRefusedDowngradeWritesNothing(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	ana.buys("premium", "4242424242424242")
	requests := func() (found int) {
		for _, e := range must[admin.Billing](n, "billing.show", admin.Target{Ref: ana.email}).Ledger {
			if e.What == billing.DowngradeRequested {
				found++
			}
		}
		return found
	}
	for _, plan := range []string{"none", "free", "premium", "scale"} { // what "sluice billing downgrade" refuses
		ana.wants(ana.post("/dashboard/plan/downgrade", "plan", plan), "asking for "+plan, 400, "not a paid plan below")
	}
	if page := ana.get("/dashboard/plan").body; !strings.Contains(page, "?lower=basic") || strings.Contains(page, "?lower=free") {
		t.Error("the page does not offer Basic, or offers Free, which support cannot set")
	}
	if strings.Contains(ana.get("/dashboard/plan?lower=free").body, "<dialog open") {
		t.Error("there is a dialog for Free, which support cannot set")
	}
	if got := requests(); got != 0 {
		t.Errorf("refused forms made %d entries in the ledger, want none", got)
	}
	for range 20 {
		ana.wants(ana.post("/dashboard/messages", "kind", "other", "subject", "s", "text", "t"), "a conversation", 303, "")
	}
	ana.wants(ana.post("/dashboard/plan/downgrade", "plan", "basic"), "a downgrade with too many conversations", 429, "open conversations")
	if got := requests(); got != 0 {
		t.Errorf("a form that was refused made %d entries in the ledger, want none", got)
	}
}

// Forms that change something have a rate: whoever sends them by a program writes no more than a person would.
func TestFormsAreCounted(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	id := keyID.FindStringSubmatch(ana.shown("/dashboard/keys", "name", "laptop"))[1]
	last := ""
	for i := 1; ; i++ {
		name := fmt.Sprint("name ", i)
		r := ana.post("/dashboard/keys/"+id, "name", name)
		if r.status == 429 {
			if r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "Try again in") {
				t.Errorf("the form beyond the rate = %v %s, want a time to wait", r.header, r.body)
			}
			break
		}
		ana.wants(r, "a new name", 303, "")
		if last = name; i > 1000 {
			t.Fatal("1,000 names in a row were taken, want an end")
		}
	}
	if page := ana.get("/dashboard/keys").body; !strings.Contains(page, ">"+last+"<") && !strings.Contains(page, last) {
		t.Errorf("the key is not called %q, which was the last name that was taken", last)
	}
	for _, path := range privateForms { // one rate for all of them
		ana.wants(ana.post(path, "name", "x"), "POST "+path+" beyond the rate", 429, "Try again in")
	}
	ana.wants(ana.get("/dashboard/keys"), "a page", 200, "")
	ana.wants(ana.post("/signout"), "signing out", 303, "")
	bob.wants(bob.post("/dashboard/keys", "name", "x"), "a form of somebody else", 303, "")

	// Forms that lead to a payment have a lower one.
	for i := 1; ; i++ {
		r := bob.post("/dashboard/plan/subscribe", "plan", "basic")
		if r.status == 429 {
			break
		}
		if bob.wants(r, "subscribe", 303, "/pay"); i > 50 {
			t.Fatal("50 payments in a row were begun, want an end")
		}
	}
	bob.wants(bob.post("/dashboard/keys", "name", "y"), "another form", 303, "")
}

// Closing an account and opening another one with the same address, or moving it to another address, sheds nothing that
// stands against it.
func TestNothingIsShedByClosing(t *testing.T) {
	t.Parallel()
	n := newSite(t, "plans: {free: {monthly_units: 1}}\n").start(t)
	for state, against := range map[string]func(p *person){
		"terminated": func(p *person) {
			must[admin.Account](n, "account.terminate", admin.Target{Actor: "t", Ref: p.email, Reason: "resale"})
		},
		"suspended": func(p *person) {
			must[admin.Account](n, "account.suspend", admin.Target{Actor: "t", Ref: p.email, Reason: "resale"})
		},
		"deactivated": func(p *person) {
			p.wants(p.post("/dashboard/plan/subscribe", "plan", "free"), "Free", 303, "")
			n.request("POST", "/v1/chat/completions", p.key, `{"model":"sandbox/small","messages":[{"role":"user","content":"hi"}]}`)
			eventually(t, "the deactivation", func() bool { return n.get("/v1/models", p.key).status == 401 })
		},
		"overdue": func(p *person) {
			p.buys("basic", "4000000000000341") // the first payment passes, the next one fails
			show := must[admin.Billing](n, "billing.show", admin.Target{Ref: p.email})
			show = must[admin.Billing](n, "billing.advance", admin.Move{Actor: "t", Ref: p.email, To: show.PeriodEnd.Add(time.Hour)})
			if show.Status != billing.PastDue {
				t.Fatalf("the subscription is %s, want past_due", show.Status)
			}
		},
		"stopped": func(p *person) {
			p.buys("basic", "4242424242424242")
			n.exec("UPDATE billing_accounts SET stopped_at = 1, stopped_why = 'twice' WHERE account_id = '" + must[admin.Account](n, "account.show", admin.Target{Ref: p.email}).ID + "'")
		},
	} {
		p := n.join(state + "@example.com")
		against(p)
		id := must[admin.Account](n, "account.show", admin.Target{Ref: p.email}).ID
		p.wants(p.post("/dashboard/account/close", "email", p.email, "current", pagePassword), "closing an account that is "+state, 409, "")
		if got := must[admin.Account](n, "account.show", admin.Target{Ref: id}); got.Email != p.email {
			t.Errorf("%s: the account has the address %s, want its own", state, got.Email)
		}
		if state == "overdue" || state == "stopped" {
			if got := must[admin.Billing](n, "billing.show", admin.Target{Ref: id}); got.Plan != "basic" {
				t.Errorf("%s: the plan is %s, want it untouched", state, got.Plan)
			}
			continue // the address may change: what is owed stays with the account
		}
		p.wants(p.post("/dashboard/account/email", "email", "new-"+p.email, "current", pagePassword), "another address of an account that is "+state, 409, "")
	}

	// A link to another address that was mailed before does not help.
	late := n.join("late@example.com")
	late.wants(late.post("/dashboard/account/email", "email", "later@example.com", "current", pagePassword), "asking for another address", 303, "")
	path, token := n.linkTo("later@example.com")
	must[admin.Account](n, "account.suspend", admin.Target{Actor: "t", Ref: late.email, Reason: "resale"})
	late.wants(late.post(path, "token", token), "following the link", 409, "")
	must[admin.Account](n, "account.show", admin.Target{Ref: late.email})
}
