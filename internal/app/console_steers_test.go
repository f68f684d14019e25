package app_test

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	maintenanceEnd  = regexp.MustCompile(`/support/maintenance/ord_\w+/end`)
	announcementEnd = regexp.MustCompile(`/support/announcements/ord_\w+/end`)
)

// Staff steers the service on the pages of the console: what the forms say holds for the next request, what is wrong in
// them is told, and who did what is in the audit log.
func TestConsoleSteers(t *testing.T) {
	t.Parallel()
	n := newSite(t, "discover: false\n").start(t)
	key := n.OwnerKey()
	p, _ := n.staffMember("ops@example.com")
	p.wants(p.get("/support"), "the console", 303, "/support/overview")

	// Who loads the service is there as soon as calls are settled.
	if r := n.ask(key, "sandbox/small"); r.status != 200 {
		t.Fatalf("a call = %d %s", r.status, r.body)
	}
	n.Settlements()
	p.wants(p.get("/support/overview"), "the overview", 200, "Busiest accounts")
	p.wants(p.get("/support/overview/live"), "its live part", 200, "owner@localhost</a>")
	p.wants(p.get("/support/overview"), "the overview without tickets", 200, "Nobody waits")
	p.wants(p.get("/support/overview"), "the overview without streams", 200, "No open streams in the last hour.")
	p.wants(p.get("/support/servers"), "the page of servers", 200, `<span class="badge good">ready</span>`)
	ana := n.join("ana@example.com")
	ana.wants(ana.post("/dashboard/messages", "kind", "other", "subject", "How?", "text", "Hello"), "a message", 303, "")
	p.wants(p.get("/support/overview/live"), "the overview with a ticket", 200, "The longest for")

	// Drain and enable.
	p.wants(p.get("/support/upstreams"), "the page of upstreams", 200, `aria-label="Drain sandbox/small"`)
	drain := []string{"provider", "sandbox", "upstream", "small", "key", ""}
	p.wants(p.post("/support/upstreams/drain", drain...), "a drain without a reason", 400, "A reason is needed")
	p.wants(p.post("/support/upstreams/drain", append(drain, "reason", "r", "until", "x")...), "a drain until x", 400, "Pick a day and a time")
	p.wants(p.post("/support/upstreams/drain", append(drain, "reason", "their <incident>")...), "a drain", 303, "/support/upstreams")
	if r := n.ask(key, "sandbox/small"); r.status != 503 {
		t.Errorf("a drained model = %d %s, want 503", r.status, r.body)
	}
	page := p.wants(p.get("/support/upstreams"), "the page after a drain", 200, "their &lt;incident&gt;").body
	if !strings.Contains(page, "<td>ops@example.com</td>") || !strings.Contains(page, `title="upstream.drain"`) {
		t.Error("the page does not say who has drained")
	}
	p.wants(p.post("/support/upstreams/enable", drain...), "enable", 303, "/support/upstreams")
	if r := n.ask(key, "sandbox/small"); r.status != 200 {
		t.Errorf("a model that is enabled again = %d %s", r.status, r.body)
	}

	// Tiers.
	p.wants(p.post("/support/models/move", "model", "sandbox/tiny", "plan", "premium", "from", time.Now().UTC().AddDate(0, 0, 7).Format("2006-01-02T15:04"), "reason", "r"), "a move", 303, "/support/upstreams")
	if body := n.get("/v1/models/sandbox%2Ftiny", key).body; !strings.Contains(body, `"upcoming":{"plan":"premium"`) {
		t.Errorf("the model with an announced move = %s", body)
	}
	p.wants(p.post("/support/models/move-back", "model", "sandbox/tiny"), "back", 303, "/support/upstreams")
	p.wants(p.post("/support/models/move-back", "model", "sandbox/tiny"), "back again", 404, "has its configured tier")

	// Maintenance and announcements.
	p.wants(p.post("/support/maintenance", "models", "sandbox/nothing", "reason", "kept"), "maintenance of nothing", 404, `value="kept"`)
	p.wants(p.post("/support/maintenance", "from", "tomorrow", "reason", "r"), "maintenance from no time", 400, "Pick a day and a time")
	p.wants(p.post("/support/maintenance", "models", "sandbox/small, sandbox/tiny", "text", "New hardware.", "until", time.Now().UTC().Add(30*time.Minute).Format("2006-01-02T15:04"), "reason", "r"), "maintenance", 303, "/support/announcements")
	if r := n.ask(key, "sandbox/tiny"); r.status != 503 || !strings.Contains(r.body, "New hardware.") {
		t.Errorf("a model under maintenance = %d %s, want 503", r.status, r.body)
	}
	page = p.wants(p.get("/support/announcements"), "the page of announcements", 200, "sandbox/small, sandbox/tiny are unavailable until").body
	p.wants(p.post(maintenanceEnd.FindString(page)), "the end of maintenance", 303, "/support/announcements")
	if r := n.ask(key, "sandbox/tiny"); r.status != 200 {
		t.Errorf("a model after maintenance = %d %s", r.status, r.body)
	}
	p.wants(p.post("/support/announcements", "text", " ", "tone", "bad"), "an empty announcement", 400, "An announcement needs a text")
	p.wants(p.post("/support/announcements", "text", "Hello <all>", "tone", "bad"), "an announcement", 303, "/support/announcements")
	if page := n.get("/signin", "").body; !strings.Contains(between(page, `<div class="note told bad" role="status">`, `</div>`), `Hello &lt;all&gt;</span>`) {
		t.Errorf("the sign-in page without the announcement: %s", page)
	}
	page = p.get("/support/announcements").body
	p.wants(p.post(announcementEnd.FindString(page)), "the end of the announcement", 303, "/support/announcements")
	p.wants(p.post(announcementEnd.FindString(page)), "its end again", 404, "that has not ended")
}
