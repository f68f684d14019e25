package app_test

import (
	"regexp"
	"strings"
	"testing"
)

// Whoever starts with a plan on the page of prices is led to its checkout: through the form, the mail and the link in it. A
// new account is on Free until then, as its pages say.
func TestChosenPlan(t *testing.T) {
	t.Parallel()
	n := newSite(t, "signup: open\n").start(t)
	stranger := n.person()
	stranger.wants(stranger.get("/pricing"), "the prices", 200, `href="/signup?plan=premium"`)
	stranger.wants(stranger.get("/signup?plan=premium"), "the form", 200, `<input type="hidden" name="plan" value="premium">`)
	stranger.leads(stranger.post("/signup", "email", "ana@example.com", "plan", "premium"), "POST /signup", "Check your e-mail")
	path, token := n.linkTo("ana@example.com")
	if want := path + "?token=" + token + "&plan=premium"; !strings.Contains(n.log.String(), want) {
		t.Fatalf("the mail has no link to %s", want)
	}
	stranger.wants(stranger.get(path+"?token="+token+"&plan=premium"), "the link", 200, `<input type="hidden" name="plan" value="premium">`)
	r := stranger.leads(stranger.post(path, "token", token, "password", pagePassword, "plan", "premium"), "POST "+path, "Welcome")
	if form := regexp.MustCompile(`(?s)<form method="post" action="/dashboard/plan/subscribe">.*?name="plan" value="premium".*?</form>`); !form.MatchString(r.body) {
		t.Errorf("the welcome does not lead to the checkout: %s", r.body)
	}
	for page, want := range map[string]string{"/dashboard": `<span class="badge">Free`, "/dashboard/plan": `<p class="chosen">Your plan</p>`} {
		body := stranger.get(page).body
		if !strings.Contains(body, want) || strings.Contains(body, "No plan") || strings.Contains(body, "Choose Free") {
			t.Errorf("%s of a new account does not say that it is on Free", page)
		}
	}
	checkout := stranger.leads(stranger.post("/dashboard/plan/subscribe", "plan", "premium"), "the checkout", "Pay $25")
	// The API says what the contract says.
	if key := shownKey.FindString(r.body); !strings.Contains(n.get("/v1/account", key).body, `"plan":"none"`) {
		t.Errorf("GET /v1/account = %s, want the plan none", n.get("/v1/account", key).body)
	}
	payment := between(checkout.body, `name="payment" value="`, `"`)
	stranger.leads(stranger.post("/dashboard/plan/pay", "payment", payment, "card", "4242424242424242"), "the payment", "Your plan is active")
	if key := shownKey.FindString(r.body); !strings.Contains(n.get("/v1/account", key).body, `"plan":"premium"`) {
		t.Errorf("GET /v1/account after the payment = %s, want the plan premium", n.get("/v1/account", key).body)
	}
	// What nobody sells leads nowhere.
	for _, plan := range []string{"none", "free", "gold", `"><script>`} {
		if body := n.person().get("/signup?plan=" + plan).body; strings.Contains(body, `name="plan"`) {
			t.Errorf("/signup with the plan %q has a plan", plan)
		}
	}
}

// A plan that somebody with an account chooses on the page of prices opens what there is to do: a dialog, the page of the
// upgrade, or a reason why it cannot be had. An old address of an upgrade leads there, too.
func TestPlanChosenElsewhere(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	dialog := func(plan string) string {
		return between(ana.get("/dashboard/plan?plan="+plan).body, "<dialog open", "</dialog>")
	}
	if got := dialog("premium"); !strings.Contains(got, "Choose Premium?") || !strings.Contains(got, "$25 per month") || !strings.Contains(got, `name="plan" value="premium"`) {
		t.Errorf("the dialog of a plan that can be bought = %s", got)
	}
	ana.buys("premium", "4242424242424242")
	ana.wants(ana.get("/dashboard/plan?plan=scale"), "a higher plan", 303, "/dashboard/plan/upgrade?plan=scale")
	ana.wants(ana.get("/dashboard/plan?plan=premium"), "the present plan", 200, "You have Premium already.")
	ana.leads(ana.get("/dashboard/plan/upgrade?plan=premium"), "an upgrade to the present plan", "You have Premium already.")
	ana.leads(ana.get("/dashboard/plan/upgrade?plan=basic"), "an upgrade to a lower plan", "<dialog open")
	if got := dialog("basic"); !strings.Contains(got, "Downgrade to Basic") {
		t.Errorf("the dialog of a lower plan = %s", got)
	}
	if got := dialog("free"); !strings.Contains(got, "Cancel Premium on") {
		t.Errorf("the dialog of the free plan = %s", got)
	}
	ana.leads(ana.post("/dashboard/plan/downgrade", "plan", "basic"), "the request", "Downgrade to Basic, on")
	ana.wants(ana.get("/dashboard/plan?plan=basic"), "a plan that was asked for", 200, "Support has not decided yet.")
}

// Who cannot sign up is told whom to ask.
func TestClosedSignUp(t *testing.T) {
	t.Parallel()
	n := newSite(t, "signup: closed\nsupport: {email: help@example.com}\n").start(t)
	stranger := n.person()
	stranger.wants(stranger.get("/signup"), "the form", 200, `href="mailto:help@example.com">Ask for access</a>`)
	stranger.wants(stranger.get("/signin"), "the sign-in", 200, `href="mailto:help@example.com">Ask for access</a>`)
	stranger.wants(stranger.get("/"), "the first page", 200, `href="mailto:help@example.com">Ask for access</a>`)
}
