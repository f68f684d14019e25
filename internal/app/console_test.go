package app_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
)

// seen returns the hidden fields of the forms on an account's page: the state that a member looks at.
func (p *person) seen(id string) []string {
	p.n.t.Helper()
	body := p.wants(p.get("/support/accounts/"+id), "an account's page", 200, id).body
	return []string{"version", between(body, `name="version" value="`, `"`), "seen", between(body, `name="seen" value="`, `"`)}
}

// acts sends the form of an action for the state that the member looks at now.
func (p *person) acts(id, action string, fields ...string) reply {
	p.n.t.Helper()
	return p.post("/support/accounts/"+id+"/actions/"+action, append(p.seen(id), fields...)...)
}

// Every action of the console does what it says, needs a reason, is in the audit log, and is told to the customer where
// the page says so.
func TestConsoleActions(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	boss, _ := n.staffMember("boss@example.com")
	ana := n.join("ana@example.com")
	id := must[admin.Account](n, "account.show", admin.Target{Ref: ana.email}).ID
	models := func() int { return n.get("/v1/models", ana.key).status }
	const why = "asked by phone <7>"

	for _, tt := range []struct {
		action string
		fields []string
		entry  string // the newest in the audit log
		told   string // the title of the newest message to the customer; empty: nothing
		check  func(a admin.Account) bool
	}{
		{"plan", []string{"plan", "premium"}, "account.set_plan", "You have the Premium plan", func(a admin.Account) bool { return a.Plan == "premium" && a.Granted }},
		{"plan", []string{"plan", "basic"}, "account.set_plan", "You have the Basic plan", func(a admin.Account) bool { return a.Plan == "basic" }},
		{"limits", []string{"rpm", "7", "tpm", "unlimited"}, "account.set_limits", "Your limits have changed", func(a admin.Account) bool { return a.Limits.RequestsPerMinute == 7 && a.Overrides.Concurrent == nil }},
		{"clear-limits", nil, "account.clear_limits", "Your limits have changed", func(a admin.Account) bool { return a.Overrides.RequestsPerMinute == nil }},
		{"aliases", []string{"set", "quick = sandbox/small"}, "account.set_aliases", "", func(a admin.Account) bool { return a.Aliases["quick"] == "sandbox/small" }},
		{"deactivate", nil, "keys.deactivate", "Your keys are switched off", func(a admin.Account) bool { return a.Status == "deactivated" && models() == 401 }},
		{"restore", nil, "keys.restore", "Your keys work again", func(a admin.Account) bool { return a.Status == "active" && models() == 200 }},
		{"suspend", nil, "account.suspend", "Your account is suspended", func(a admin.Account) bool { return a.Status == "suspended" && models() == 423 }},
		{"unsuspend", nil, "account.unsuspend", "Your account is restored", func(a admin.Account) bool { return a.Status == "active" && models() == 200 }},
		{"credit", []string{"cents", "12.50"}, "billing.credit", "You have a credit of $12.50", func(admin.Account) bool {
			return must[admin.Billing](n, "billing.show", admin.Target{Ref: id}).CreditCents == 1250
		}},
		{"note", []string{"note", why}, "account.note", "", func(admin.Account) bool { return true }},
		{"sign-out", nil, "account.sign_out", "You were signed out everywhere", func(admin.Account) bool { return ana.get("/dashboard").status == 303 }},
		{"second-factor", nil, "account.reset_second_factor", "", func(admin.Account) bool {
			// Mail is sent behind the reply.
			eventually(t, "that the customer is told", func() bool { return strings.Contains(n.log.String(), "Two-step sign-in is off") })
			return true
		}},
		{"terminate", nil, "account.terminate", "Your account is suspended", func(a admin.Account) bool { return a.Status == "terminated" }},
	} {
		told := must[admin.List[admin.Message]](n, "account.messages", admin.AccountPage{Ref: id}).Data
		before := must[admin.Account](n, "account.show", admin.Target{Ref: id})
		if tt.action != "note" {
			r := boss.acts(id, tt.action, append(slices.Clone(tt.fields), "reason", "  ")...)
			if now := must[admin.Account](n, "account.show", admin.Target{Ref: id}); r.status != 400 || now.Version != before.Version {
				t.Errorf("%s without a reason = %d, and the account is at version %d, want 400 and no change", tt.action, r.status, now.Version)
			}
		}
		boss.wants(boss.acts(id, tt.action, append(tt.fields, "reason", why)...), tt.action, 303, "/support/accounts/"+id)
		after := must[admin.Account](n, "account.show", admin.Target{Ref: id})
		if !tt.check(after) || after.Version <= before.Version {
			t.Errorf("after %s the account is %+v", tt.action, after)
		}
		log := must[admin.List[account.Entry]](n, "account.history", admin.AccountPage{Ref: id}).Data
		i := slices.IndexFunc(log, func(e account.Entry) bool { return e.Reason == why || e.Detail == why })
		if log[0].Action != tt.entry || log[0].Actor != "staff:boss@example.com" || i > 1 {
			t.Errorf("the newest entries of the audit log after %s are %+v, want %s and the reason", tt.action, log[:2], tt.entry)
		}
		messages := must[admin.List[admin.Message]](n, "account.messages", admin.AccountPage{Ref: id}).Data
		if tt.told == "" && len(messages) != len(told) || tt.told != "" && (len(messages) != len(told)+1 || messages[0].Title != tt.told) {
			t.Errorf("after %s the newest of %d messages (%d before) is %+v, want %q", tt.action, len(messages), len(told), messages[:min(1, len(messages))], tt.told)
		}
	}
	page := boss.get("/support/accounts/" + id).body
	if !strings.Contains(page, "asked by phone &lt;7&gt;") || strings.Contains(page, "phone <7>") {
		t.Error("the page does not show the reason, or does not escape it")
	}
	boss.wants(boss.acts(id, "nothing", "reason", "x"), "an action that is none", 404, "")
	boss.wants(boss.post("/support/accounts/"+id+"/actions/note", "note", "x"), "a form without a version", 400, "incomplete")
	boss.wants(boss.acts(id, "credit", "cents", "1.234", "reason", "x"), "a wrong amount", 400, "12.50")
	// How staff signs in is not changed here.
	bossID := must[admin.Account](n, "account.show", admin.Target{Ref: boss.email}).ID
	boss.wants(boss.acts(bossID, "second-factor", "reason", "x"), "a member's second factor", 403, "staff")
	boss.wants(boss.get("/support/accounts/"+id+"/log"), "the audit log", 200, "account.terminate")
	for kind, terminated := range map[string]bool{"access": true, "keys": false} {
		if body := boss.wants(boss.get("/support/accounts/"+id+"/log?kind="+kind), "a part of the audit log", 200, `aria-current="page"`).body; strings.Contains(body, "account.terminate") != terminated {
			t.Errorf("the audit log of %s has the end of the account: %t, want %t", kind, !terminated, terminated)
		}
	}
	boss.wants(boss.get("/support/accounts/"+id+"/log?kind=messages"), "a part that there is not", 400, "has no kind")
	boss.wants(boss.get("/support/accounts?by=-email"), "the list in an order", 200, `<option value="-email" selected>`)
	boss.wants(boss.get("/support/accounts?q=ana@example.com"), "a search", 303, "/support/accounts/"+id)
	boss.wants(boss.get("/support/accounts?q=nobody@example.com"), "a search for nobody", 404, "nobody@example.com")
}

// A refund and a downgrade are done by staff, with the money that was really paid.
func TestConsoleMoney(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	boss, _ := n.staffMember("boss@example.com")
	ana := n.join("ana@example.com")
	id := must[admin.Account](n, "account.show", admin.Target{Ref: ana.email}).ID
	r := ana.wants(ana.post("/dashboard/plan/subscribe", "plan", "premium"), "subscribe", 303, "/pay")
	payment := regexp.MustCompile(`payment=(pay_\w+)`).FindStringSubmatch(r.header.Get("Location"))[1]
	ana.wants(ana.post("/dashboard/plan/pay", "payment", payment, "card", "4242424242424242"), "pay", 303, "/plan")

	boss.wants(boss.acts(id, "downgrade", "plan", "basic", "reason", "they asked"), "downgrade", 303, "")
	boss.wants(boss.acts(id, "refund", "payment", payment, "cents", "5", "reason", "an outage"), "refund", 303, "")
	boss.wants(boss.acts(id, "refund", "payment", payment, "cents", "500", "reason", "too much"), "a refund of more than was paid", 400, "can be given back")
	b := must[admin.Billing](n, "billing.show", admin.Target{Ref: id})
	if b.NextPlan != "basic" || len(b.Invoices) != 1 || b.Invoices[0].Refunded != 500 {
		t.Errorf("the books after a downgrade and a refund = %+v", b)
	}
	var titles []string
	for _, m := range must[admin.List[admin.Message]](n, "account.messages", admin.AccountPage{Ref: id}).Data {
		titles = append(titles, m.Title)
	}
	if !slices.Contains(titles, "A payment was refunded") || !slices.Contains(titles, "Your plan changes to Basic") {
		t.Errorf("the customer was told %q, want the refund and the downgrade", titles)
	}
}

// Of two members who act on what they both look at, one is refused and sees what the other has done. Nothing is lost
// or done twice.
func TestTwoMembers(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	first, _ := n.staffMember("first@example.com")
	second, _ := n.staffMember("second@example.com")
	ana := n.join("ana@example.com")
	id := must[admin.Account](n, "account.show", admin.Target{Ref: ana.email}).ID

	theirs := second.seen(id)
	first.wants(first.acts(id, "plan", "plan", "premium", "reason", "a good customer"), "the first member's change", 303, "")
	r := second.post("/support/accounts/"+id+"/actions/plan", append(theirs, "plan", "free", "reason", "the second opinion")...)
	second.wants(r, "the second member's change", 409, "Nothing was done")
	fresh := between(r.body, `fresh">`, `</li>`)
	if !strings.Contains(fresh, "first@example.com") || !strings.Contains(fresh, "a good customer") || strings.Count(r.body, `fresh">`) != 1 {
		t.Errorf("the second member is shown %q as new, want the first one's change", fresh)
	}
	if !strings.Contains(r.body, "the second opinion") || !strings.Contains(r.body, `value="free" selected`) {
		t.Error("what the second member typed is lost")
	}
	if a := must[admin.Account](n, "account.show", admin.Target{Ref: id}); a.Plan != "premium" {
		t.Errorf("the plan is %s, want premium: the second change was decided on an older state", a.Plan)
	}
	// The form of the new page is about what is there now.
	second.wants(second.acts(id, "plan", "plan", "free", "reason", "after a talk"), "the second member's next change", 303, "")

	// The same at the same moment, with a change of money and with a token.
	token := n.staffToken(first.email, allScopes()...)
	for round := range 5 {
		a, b := first.seen(id), second.seen(id)
		before := must[admin.Billing](n, "billing.show", admin.Target{Ref: id}).CreditCents
		status := make([]int, 3)
		var wg sync.WaitGroup
		wg.Go(func() {
			status[0] = first.post("/support/accounts/"+id+"/actions/credit", append(a, "cents", "1", "reason", "x")...).status
		})
		wg.Go(func() {
			status[1] = second.post("/support/accounts/"+id+"/actions/credit", append(b, "cents", "1", "reason", "x")...).status
		})
		wg.Go(func() {
			status[2] = n.bearer("POST", "/admin/v1/accounts/"+id+"/billing/credit", token, fmt.Sprintf(`{"cents":100,"reason":"x","version":%s}`, a[1])).status
		})
		wg.Wait()
		done := 0
		for _, s := range status {
			if s == 303 || s == 200 {
				done++
			} else if s != 409 {
				t.Errorf("round %d: a change was answered %d, want 409", round, s)
			}
		}
		after := must[admin.Billing](n, "billing.show", admin.Target{Ref: id}).CreditCents
		if done != 1 || after != before+100 {
			t.Errorf("round %d: %d of three changes were done (%v), and the credit went from %d to %d; want one", round, done, status, before, after)
		}
	}
}
