package app_test

import (
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
)

// The queue of the console: an account that was driven to 100 is in it with its pictures, and of two members who decide
// at once the second sees what has changed.
func TestQueue(t *testing.T) {
	t.Parallel()
	n := newSite(t, "plans: {none: {monthly_units: 10, requests_per_minute: unlimited}}\n").start(t)
	ana := n.join("ana@example.com")
	eve, _ := n.staffMember("eve@example.com")
	max, _ := n.staffMember("max@example.com")
	eve.wants(eve.get("/support/queue"), "an empty queue", 200, "No tickets are waiting.")
	for i := range 10 {
		if r := n.request("POST", chatPath, ana.key, tinyCall); r.status != 200 {
			t.Fatalf("call %d = %d %s", i, r.status, r.body)
		}
	}
	eventually(t, "the account in the queue", func() bool { return strings.Contains(eve.get("/support/queue").body, "Keys switched off</a>") })
	r := eve.wants(eve.get("/support/queue?kind=deactivated&assignee=-"), "the queue", 200, ana.email)
	path := "/support/queue/mat_" + between(r.body, `href="/support/queue/mat_`, `"`)
	eventually(t, "the calls in the evidence", func() bool { return strings.Contains(eve.get(path).body, "sandbox/tiny") })
	r = eve.wants(eve.get(path), "the ticket", 200, "Abuse score this month")
	for _, want := range []string{`<svg class="line"`, "<polyline points=", "Requests by hour", "Keys, last 7 days", "Networks, last 24 hours", "127.0.0.0/24", "Pauses between calls", "the month&#39;s units of the none plan are used up"} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the ticket does not show %q", want)
		}
	}
	version := between(r.body, `name="version" value="`, `"`)
	eve.wants(eve.post(path+"/nonsense", "version", version), "a step that is none", 404, "no such page")
	eve.wants(eve.post(path+"/answer", "text", "x"), "a form without a version", 400, "incomplete")
	eve.wants(eve.post(path+"/assign", "version", version, "to", "staff:eve@example.com"), "taking it", 303, path)
	eve.wants(eve.get("/support/queue?assignee=staff:eve@example.com"), "the member's own", 200, ana.email)
	late := max.wants(max.post(path+"/decide", "version", version, "decision", "suspend", "reason", "abuse", "text", "Bye."), "a decision on an old page", 409, "assigned to staff:eve@example.com")
	if !strings.Contains(late.body, `value="abuse"`) || !strings.Contains(late.body, "Bye.</textarea>") {
		t.Error("what the second member typed is lost")
	}
	version = between(late.body, `name="version" value="`, `"`)
	eve.wants(eve.post(path+"/decide", "version", version, "decision", "restore", "reason", "", "text", "x"), "a decision without a reason", 400, "needs a reason")
	eve.wants(eve.post(path+"/decide", "version", version, "decision", "restore", "reason", "a test", "text", "Your keys work again."), "the decision", 303, path)
	if r := n.request("POST", chatPath, ana.key, tinyCall); r.status != 200 {
		t.Errorf("a call after the restore = %d %s", r.status, r.body)
	}
	ana.wants(ana.get("/dashboard/messages"), "the customer's messages", 200, "Your keys are switched off")
	eve.wants(eve.get("/support/queue?view=closed"), "what is closed", 200, path)
	r = eve.get(path)
	eve.wants(eve.post(path+"/reopen", "version", between(r.body, `name="version" value="`, `"`)), "reopening", 303, path)
	r = eve.get(path)
	eve.wants(eve.post(path+"/snooze", "version", between(r.body, `name="version" value="`, `"`), "days", "3"), "snoozing", 303, path)
	eve.wants(eve.get("/support/queue?view=snoozed"), "what is snoozed", 200, path)
	log := must[admin.List[account.Entry]](n, "account.history", admin.AccountPage{Ref: ana.email}).Data
	if log[0].Action != "matter.snooze" || log[0].Actor != "staff:eve@example.com" {
		t.Errorf("the last entry of the audit log is %+v", log[0])
	}
	own := ana.wants(ana.get("/dashboard/account/log"), "the customer's log", 200, "Support restored all keys").body
	if strings.Contains(own, "snooze") || strings.Contains(own, "assign") {
		t.Error("the customer's log has what support arranges for itself")
	}
	eve.wants(eve.get("/support/queue?view=nonsense"), "a list that is none", 400, "there is no list")
}
