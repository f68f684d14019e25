package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// The address of a form, opened from the history, leads to its page. A form that has succeeded leads to where its message
// is in view, and forms ask with what they are about to do.
func TestPagesLeadBack(t *testing.T) {
	t.Parallel()
	n := newSite(t, "signup: open\n").start(t)
	ana := n.join("ana@example.com")
	eve, _ := n.staffMember("eve@example.com")
	for path, want := range map[string]string{
		"/dashboard/plan/pay":             "/dashboard/plan",
		"/dashboard/plan/pay?payment=pay": "/dashboard/plan",
		"/dashboard/plan/subscribe":       "/dashboard/plan",
		"/dashboard/plan/cancel":          "/dashboard/plan",
		"/dashboard/plan/keep":            "/dashboard/plan",
		"/dashboard/account/details":      "/dashboard/account?details",
		"/dashboard/account/totp/enrol":   "/dashboard/account?totp",
		"/dashboard/account/replies":      "/dashboard/account?replies",
		"/dashboard/keys/x/delete":        "/dashboard/keys",
	} {
		if r := ana.get(path); r.status != http.StatusSeeOther || r.header.Get("Location") != want {
			t.Errorf("GET %s = %d to %q, want a redirect to %s", path, r.status, r.header.Get("Location"), want)
		}
	}
	for path, want := range map[string]string{
		"/support/upstreams/drain":           "/support/upstreams",
		"/support/models/move":               "/support/upstreams",
		"/support/maintenance":               "/support/announcements",
		"/support/maintenance/x/end":         "/support/announcements",
		"/support/accounts/x/actions/refund": "/support/accounts/x",
		"/support/queue/m/close":             "/support/queue/m",
		"/support/alerts/test":               "/support/alerts",
		"/support/incidents/inc_x/updates":   "/support/incidents/inc_x",
		"/support/incidents/inc_x/delete":    "/support/incidents/inc_x",
		"/support/tokens/x/delete":           "/support/tokens",
	} {
		if r := eve.get(path); r.status != http.StatusSeeOther || r.header.Get("Location") != want {
			t.Errorf("GET %s = %d to %q, want a redirect to %s", path, r.status, r.header.Get("Location"), want)
		}
		if r := ana.get(path); r.status != http.StatusNotFound {
			t.Errorf("GET %s as a customer = %d, want 404", path, r.status)
		}
	}
	if r := ana.post("/dashboard/account/details", "name", "Ana"); r.header.Get("Location") != "/dashboard/account" {
		t.Errorf("saving details leads to %q, want the top of the page, where the message is", r.header.Get("Location"))
	}
	ana.wants(ana.get("/dashboard/account"), "the message", 200, `class="note toast`)
	eve.wants(eve.get("/support/announcements?new=maintenance"), "the maintenance", 200, `data-confirm="Refuse calls to {models|all models and videos}?"`)
	account := eve.get("/support/accounts?q=" + ana.email)
	_, id, _ := strings.Cut(account.body+account.header.Get("Location"), "/support/accounts/")
	id, _, _ = strings.Cut(id, `"`)
	eve.wants(eve.get("/support/accounts/"+id), "the account", 200, `data-confirm="Terminate the account of ana@example.com for good?"`)
	eve.wants(eve.get("/support/accounts/"+id), "the account", 200, `data-confirm="Change the credit of ana@example.com by ${cents|…}; it is $0.00 now?"`)
	if body := ana.get("/dashboard/activity").body; !strings.Contains(body, `class="card choose" autocomplete="off"`) {
		t.Error("a browser restores the filters of Activity after Back")
	}
}
