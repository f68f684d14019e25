package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/incident"
)

var (
	incidentPath = regexp.MustCompile(`/support/incidents/inc_\w+`)
	statusLink   = regexp.MustCompile(`http://[^/ ]+(/status/(?:confirm|unsubscribe)\?token=[\w.-]+)`)
)

// mailed returns the texts of the mails to an address, as the log has them without a mail server.
func (n *node) mailed(to string) (list []string) {
	for line := range strings.Lines(n.log.String()) {
		var entry struct{ To, Subject, Text string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.To == to {
			list = append(list, entry.Subject+"\n"+entry.Text)
		}
	}
	return list
}

// mailTo waits for a mail to an address that holds a text, and returns the link in it.
func (n *node) mailTo(to, text string) (link string) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("a mail to %s with %q", to, text), func() bool {
		for _, m := range n.mailed(to) {
			if found := statusLink.FindStringSubmatch(m); found != nil && strings.Contains(m, text) {
				link = found[1]
				return true
			}
		}
		return false
	})
	return link
}

// Staff writes about an incident in the console: what everybody sees follows each step, and nobody is told what staff
// keeps for itself.
func TestIncidentFromBeginningToEnd(t *testing.T) {
	t.Parallel()
	n := newSite(t, "discover: false\n").start(t)
	stranger := n.person()
	staff, _ := n.staffMember("ops@example.com")
	staff.wants(staff.get("/support/incidents"), "the list", 200, "No incidents yet")
	form := []string{"kind", "incident", "title", "Calls of <small> fail", "text", "We look into it.\r\n\r\nMore at noon.", "severity", "major", "components", "api"}
	staff.wants(staff.post("/support/incidents", append(form, "models", "sandbox/nothing")...), "a model that is not there", 404, `value="sandbox/nothing"`)
	staff.wants(staff.post("/support/incidents", "kind", "incident", "title", "kept", "severity", "major"), "no text", 400, `value="kept"`)
	staff.wants(staff.post("/support/incidents", append(form, "from", "yesterday")...), "no time", 400, "Pick a day and a time")
	made := staff.wants(staff.post("/support/incidents", append(form, "models", "sandbox/small")...), "an incident", 303, "/support/incidents/inc_")
	own := incidentPath.FindString(made.header.Get("Location"))
	public := strings.Replace(own, "/support/", "/status/", 1)

	stranger.wants(stranger.get("/status"), "the status", 200, "Calls of &lt;small&gt; fail")
	stranger.wants(stranger.get("/status"), "the verdict", 200, "We are working on an incident")
	stranger.wants(stranger.get(public), "the page of the incident", 200, "More at noon.")
	for _, path := range []string{"/signin", "/models"} {
		stranger.wants(stranger.get(path), "the banner on "+path, 200, `Investigating: Calls of &lt;small&gt; fail</span></span> <a href="`+public+`">`)
	}
	stranger.wants(stranger.get("/status.json"), "the status as JSON", 200, `"severity":"major","status":"investigating"`)
	stranger.wants(stranger.get("/status.atom"), "the feed", 200, "<title>Investigating: Calls of &lt;small&gt; fail</title>")

	staff.wants(staff.get(own), "the page of the console", 200, " · ops@example.com")
	staff.wants(staff.post(own+"/updates", "status", "monitoring", "text", " "), "an empty update", 400, "A text is needed")
	staff.wants(staff.post(own+"/updates", "status", "dancing", "text", "x"), "no status", 400, "is not a status")
	staff.wants(staff.post(own+"/updates", "status", "monitoring", "text", "It works again."), "an update", 303, own)
	first := regexp.MustCompile(`name="update" value="(upd_\w+)"`).FindStringSubmatch(staff.get(own).body)[1]
	staff.wants(staff.post(own, "update", first, "text", "We looked into it."), "a correction of an update", 303, own)
	staff.wants(staff.post(own+"/updates", "status", "resolved", "text", "It is over."), "the end", 303, own)
	staff.wants(staff.post(own, "title", "Calls failed", "components", "api", "models", "sandbox/small, sandbox/tiny", "severity", "minor", "postmortem", "https://example.com/why"), "a correction", 303, own)
	page := stranger.wants(stranger.get(public), "the page after it", 200, "We looked into it.").body
	for _, want := range []string{"Calls failed", "It works again.", "It is over.", "Resolved", "sandbox/tiny", `href="https://example.com/why"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page after it does not show %q", want)
		}
	}
	stranger.wants(stranger.get("/status"), "the status after it", 200, "All systems operational")
	stranger.wants(stranger.get("/status/history"), "the history", 200, "Calls failed")
	if body := stranger.get("/signin").body; strings.Contains(body, public) {
		t.Error("the banner stays when the incident is over")
	}
	for _, path := range []string{"/status", public, "/status.json", "/status.atom", "/status/history"} {
		if body := stranger.get(path).body; strings.Contains(body, "ops@example.com") {
			t.Errorf("%s says who has written it", path)
		}
	}
	log := must[admin.List[struct {
		Action, Actor string
	}]](n, "steering.history", admin.Cursor{})
	if len(log.Data) != 5 || log.Data[4].Action != "incident.open" || log.Data[0].Actor != "staff:ops@example.com" {
		t.Errorf("the audit log = %+v", log.Data)
	}
	staff.wants(staff.post(own+"/delete", "reason", "a drill"), "the removal", 303, "/support/incidents")
	if r := stranger.get(public); r.status != 404 {
		t.Errorf("the page of what is removed = %d, want 404", r.status)
	}
}

// Planned maintenance is announced, and has a banner from its beginning on.
func TestPlannedMaintenance(t *testing.T) {
	t.Parallel()
	n := newSite(t, "discover: false\n").start(t)
	stranger := n.person()
	staff, _ := n.staffMember("ops@example.com")
	at := func(d time.Duration) string { return time.Now().UTC().Add(d).Format("2006-01-02T15:04") }
	staff.wants(staff.post("/support/incidents", "kind", "maintenance", "title", "New disks", "text", "Slow.", "from", at(2*time.Hour), "until", at(time.Hour)), "an end before the beginning", 400, "The end is not after the beginning")
	made := staff.wants(staff.post("/support/incidents", "kind", "maintenance", "title", "New disks", "text", "Slow.", "components", "dashboard", "from", at(time.Hour), "until", at(2*time.Hour)), "a plan", 303, "/support/incidents/")
	stranger.wants(stranger.get("/status"), "the plan", 200, "New disks")
	stranger.wants(stranger.get("/status"), "the verdict", 200, "All systems operational")
	if strings.Contains(stranger.get("/signin").body, "New disks") {
		t.Error("there is a banner before it begins")
	}
	own := incidentPath.FindString(made.header.Get("Location"))
	staff.wants(staff.post(own+"/updates", "status", "in_progress", "text", "We begin."), "the beginning", 303, own)
	stranger.wants(stranger.get("/status"), "the verdict", 200, "Maintenance is in progress")
	stranger.wants(stranger.get("/signin"), "the banner", 200, "In progress: New disks")
}

// Somebody subscribes by mail, gets each update once, and unsubscribes with the link of any mail. Nobody else finds out.
func TestStatusByMail(t *testing.T) {
	t.Parallel()
	n := newSite(t, "discover: false\n").start(t)
	p := n.person()
	const ana, eve = "ana@example.com", "eve@example.com"
	p.wants(p.post("/status/subscribe", "email", "no address"), "no address", 400, "is not an e-mail address")
	asked := p.wants(p.post("/status/subscribe", "email", ana), "an address", 200, "Check the inbox of "+ana).body
	confirm := n.mailTo(ana, "To confirm,")
	p.wants(p.get(confirm), "the link", 200, ana)
	if n := must[admin.Subscribers](n, "incident.subscribers", admin.Empty{}).Mail; n != 0 {
		t.Errorf("looking at the link has subscribed %d", n)
	}
	_, token, _ := strings.Cut(confirm, "token=")
	p.wants(p.post("/status/confirm", "token", token), "the confirmation", 200, "You are subscribed")
	p.wants(p.post("/status/confirm", "token", token+"x"), "a link that is not ours", 404, "no longer works")
	if again := p.post("/status/subscribe", "email", ana).body; again != asked {
		t.Error("the page tells who has subscribed")
	}

	i := must[incident.Incident](n, "incident.open", admin.NewIncident{Actor: "t", Title: "Slow replies", Text: "We look."})
	unsubscribe := n.mailTo(ana, "Investigating: Slow replies\n\nWe look.")
	must[incident.Incident](n, "incident.update", admin.IncidentUpdate{Actor: "t", ID: i.ID, Text: "Psst.", Quiet: true})
	must[incident.Incident](n, "incident.update", admin.IncidentUpdate{Actor: "t", ID: i.ID, Text: "Over.", Status: incident.Resolved})
	n.mailTo(ana, "Resolved: Slow replies\n\nOver.")
	about := 0
	for _, m := range n.mailed(ana) {
		if strings.Contains(m, "Psst.") {
			t.Error("an update that is quiet was sent")
		}
		if strings.Contains(m, "Slow replies") {
			about++
		}
	}
	if about != 2 {
		t.Errorf("%d mails about the incident, want one for each of two updates", about)
	}

	p.wants(p.get(unsubscribe), "the link to unsubscribe", 200, "Unsubscribe")
	p.wants(p.get(unsubscribe+"x"), "a link that is not ours", 404, "This link is incomplete")
	// As mail programs do it (RFC 8058): without cookies, and with a body that is no form of ours.
	r, err := http.Post(n.scheme+n.Addr()+unsubscribe, "multipart/form-data; boundary=x", strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x--\r\n"))
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("one click = %v, %v", r, err)
	}
	r.Body.Close()
	must[incident.Incident](n, "incident.open", admin.NewIncident{Actor: "t", Title: "Another one", Text: "x"})
	p.wants(p.post("/status/subscribe", "email", eve), "another address", 200, "Check the inbox of "+eve)
	n.mailTo(eve, "To confirm,") // posted later
	for _, to := range []string{ana, eve} {
		for _, m := range n.mailed(to) {
			if strings.Contains(m, "Another one") {
				t.Errorf("%s gets mail without a subscription", to)
			}
		}
	}
}

// Customers' webhooks get the events of incidents that they ask for.
func TestIncidentWebhooks(t *testing.T) {
	t.Parallel()
	m, n := newMailbox(t), newSite(t, "discover: false\nalerts: {allow_hosts: [127.0.0.1]}\nsignup: open\n").start(t)
	ana := n.join("ana@example.com")
	ana.leads(ana.post("/dashboard/webhooks", "url", m.URL, "types", string(alert.IncidentResolved)), "POST /dashboard/webhooks", "whsec_")
	i := must[incident.Incident](n, "incident.open", admin.NewIncident{Actor: "t", Title: "Slow replies", Text: "We look.", Models: []string{"sandbox/small"}})
	must[incident.Incident](n, "incident.update", admin.IncidentUpdate{Actor: "t", ID: i.ID, Text: "Over.", Status: incident.Resolved})
	eventually(t, "the webhook", func() bool { return len(m.got("incident.resolved")) == 1 })
	if len(m.got("incident.opened")) != 0 {
		t.Error("the webhook gets events that it does not want")
	}
}

// What one node is told, the other shows soon, and a subscriber gets it once.
func TestIncidentOverNodes(t *testing.T) {
	t.Parallel()
	one, two, _ := twoNodes(t)
	const ana = "ana@example.com"
	p := one.person()
	p.wants(p.post("/status/subscribe", "email", ana), "an address", 200, "Check the inbox")
	_, token, _ := strings.Cut(one.mailTo(ana, "To confirm,"), "token=")
	other := two.person()
	other.wants(other.post("/status/confirm", "token", token), "the confirmation at the other node", 200, "You are subscribed")
	i := must[incident.Incident](one, "incident.open", admin.NewIncident{Actor: "t", Title: "Slow replies", Text: "We look."})
	for _, n := range []*node{one, two} {
		eventually(t, "the incident on both nodes", func() bool { return strings.Contains(n.look("/status", "text/html").body, "Slow replies") })
	}
	must[incident.Incident](two, "incident.update", admin.IncidentUpdate{Actor: "t", ID: i.ID, Text: "Over.", Status: incident.Resolved})
	eventually(t, "the end on the first node", func() bool { return !strings.Contains(one.look("/signin", "text/html").body, "Slow replies") })
	sent := func() int {
		about := 0
		for _, m := range append(one.mailed(ana), two.mailed(ana)...) {
			if strings.Contains(m, "Slow replies") {
				about++
			}
		}
		return about
	}
	eventually(t, "both mails", func() bool { return sent() >= 2 })
	if got := sent(); got != 2 {
		t.Errorf("%d mails, want 2", got)
	}
}

// statusTries are the bounds of the status page.
var statusTries = map[string]try{
	"title of an incident":                   triedBy("operate/incident", "TestRefused", "400"),
	"text of an update about an incident":    triedBy("operate/incident", "TestRefused", "400"),
	"postmortem of an incident":              triedBy("operate/incident", "TestBounds", "400"),
	"updates of an incident":                 triedBy("operate/incident", "TestBounds", "409"),
	"models that an incident names":          triedBy("operate/incident", "TestRefused", "400"),
	"incidents that have not ended":          triedBy("operate/incident", "TestBounds", "409"),
	"updates in the feed":                    triedBy("web/front", "TestFeedIsBounded", "the latest are there"),
	"addresses that subscribe to the status": triedBy("operate/incident", "TestMostSubscribers", "409"),
	"forms to subscribe from one place in an hour": func(t *testing.T, s *stage, b bound) {
		n := newSite(t, "discover: false\n").start(t)
		p := n.person()
		for i := range b.n + 1 {
			want := 200
			if i == b.n {
				want = b.status(t)
			}
			if r := p.post("/status/subscribe", "email", fmt.Sprintf("a%d@example.com", i)); r.status != want {
				t.Fatalf("form %d = %d, want %d", i+1, r.status, want)
			}
		}
	},
}

// An address gets few mails that ask it to confirm, whoever asks, and who asks does not see that.
func TestConfirmationsAreBounded(t *testing.T) {
	t.Parallel()
	n := newSite(t, "discover: false\n").start(t)
	p := n.person()
	const ana, bob = "ana@example.com", "bob@example.com"
	for range 6 {
		p.wants(p.post("/status/subscribe", "email", ana), "an address", 200, "Check the inbox of "+ana)
	}
	p.wants(p.post("/status/subscribe", "email", bob), "another address", 200, "Check the inbox of "+bob)
	n.mailTo(bob, "To confirm,")
	eventually(t, "the mails", func() bool { return len(n.mailed(ana)) >= 3 })
	if got := len(n.mailed(ana)); got != 3 {
		t.Errorf("%d mails to one address, want 3", got)
	}
}

// The admin API has the same operations, with the scopes of steering.
func TestIncidentsOfTheAdminAPI(t *testing.T) {
	t.Parallel()
	n := newSite(t, "discover: false\n").start(t)
	boss, _ := n.staffMember("boss@example.com")
	reads, writes := n.staffToken(boss.email, admin.OperationsRead), n.staffToken(boss.email, admin.OperationsRead, admin.OperationsWrite)
	const open = `{"title":"Slow replies","text":"We look.","components":["api"]}`
	if r := n.bearer("POST", "/admin/v1/incidents", reads, open); r.status != 403 {
		t.Errorf("POST with a token that reads = %d %s", r.status, r.body)
	}
	r := n.bearer("POST", "/admin/v1/incidents", writes, open)
	var i incident.Incident
	if err := json.Unmarshal([]byte(r.body), &i); err != nil || r.status != 200 || i.Updates[0].Actor == "" {
		t.Fatalf("POST = %d %s", r.status, r.body)
	}
	for _, step := range [][3]string{
		{"POST", "/admin/v1/incidents/" + i.ID + "/updates", `{"text":"Over.","status":"resolved"}`},
		{"POST", "/admin/v1/incidents/" + i.ID, `{"postmortem":"A disk was full."}`},
		{"GET", "/admin/v1/incidents/" + i.ID, ""},
		{"GET", "/admin/v1/incidents?limit=1", ""},
	} {
		if r := n.bearer(step[0], step[1], writes, step[2]); r.status != 200 || !strings.Contains(r.body, "Over.") {
			t.Errorf("%s %s = %d %s", step[0], step[1], r.status, r.body)
		}
	}
	if r := n.bearer("GET", "/admin/v1/incidents/subscribers", reads, ""); r.status != 200 || r.body != "{\"mail\":0}\n" {
		t.Errorf("GET subscribers = %d %s", r.status, r.body)
	}
	if r := n.bearer("DELETE", "/admin/v1/incidents/"+i.ID, writes, `{"reason":"a drill"}`); r.status != 200 {
		t.Errorf("DELETE = %d %s", r.status, r.body)
	}
	if err := n.call("incident.show", admin.IncidentRef{ID: i.ID}, &i); !fault.Is(err, fault.NotFound) {
		t.Errorf("incident.show of what is deleted = %v", err)
	}
	if got := n.look("/status.json?"+url.Values{"x": {"y"}}.Encode(), "*/*"); got.status != 200 || !strings.Contains(got.body, `"incidents":[]`) {
		t.Errorf("/status.json = %d %s", got.status, got.body)
	}
}
