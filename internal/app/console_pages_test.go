package app_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/steering"
)

var (
	olderLink = regexp.MustCompile(`href="(/support/accounts/[^"]*after=[^"]*)">Show older`)
	noteText  = regexp.MustCompile(`<span>note (\d+)</span>`)
	entryName = regexp.MustCompile(`(?s)<li[^>]*>.*?<strong>([^<]*)</strong>`)
)

// The timeline of an account has what happened in every part of the service, newest first, each entry once, page by page.
func TestTimeline(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	boss, _ := n.staffMember("boss@example.com")
	ana := n.join("ana@example.com")
	id := must[admin.Account](n, "account.show", admin.Target{Ref: ana.email}).ID
	for i := range 60 {
		must[admin.Account](n, "account.note", admin.Note{Actor: "t", Ref: id, Note: fmt.Sprint("note ", i)})
	}
	ana.buys("basic", "4242424242424242")
	boss.wants(boss.acts(id, "suspend", "reason", "a test"), "suspend", 303, "")
	boss.wants(boss.acts(id, "unsuspend", "reason", "it was one"), "unsuspend", 303, "")
	boss.wants(boss.acts(id, "limits", "rpm", "7", "reason", "a test"), "limits", 303, "")
	ana.wants(ana.post("/dashboard/messages", "kind", "other", "subject", "How?", "text", "Hello"), "a message", 303, "")
	must[admin.NewKey](n, "key.create", admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: id, Name: "robot"}})

	// Page by page, every note is there once and in order.
	var notes []string
	pages, path := 0, "/support/accounts/"+id
	for ; path != "" && pages < 20; pages++ {
		body := boss.wants(boss.get(strings.ReplaceAll(path, "&amp;", "&")), "a page of the timeline", 200, `<ol class="timeline">`).body
		for _, m := range noteText.FindAllStringSubmatch(body, -1) {
			notes = append(notes, m[1])
		}
		path = ""
		if m := olderLink.FindStringSubmatch(body); m != nil {
			path = strings.TrimSuffix(m[1], "#timeline")
		}
	}
	want := make([]string, 60)
	for i := range want {
		want[i] = fmt.Sprint(59 - i)
	}
	if !slices.Equal(notes, want) || pages != 8 {
		t.Errorf("the timeline has the notes %v on %d pages, want 60 of them on 8, newest first", notes, pages)
	}

	// Each kind has its own, and nothing of the others.
	for kind, want := range map[string][]string{
		"plan": {"Payment", "Subscription started"}, "tickets": {"Ticket opened by the customer"}, "keys": {"Key created"},
		"access": {"Suspension lifted", "Account suspended", "Signed up"}, "limits": {"Limits overridden"},
	} {
		body := boss.wants(boss.get("/support/accounts/"+id+"?kind="+kind), "the kind "+kind, 200, `aria-current="page"`).body
		var got []string
		for _, m := range entryName.FindAllStringSubmatch(between(body, `<ol class="timeline">`, `</ol>`), -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the timeline of the kind %s has %q, want %q", kind, got, want)
		}
	}
	boss.wants(boss.get("/support/accounts/"+id+"?kind=messages"), "what the customer was told", 200, "Your account is restored")
	boss.wants(boss.get("/support/accounts/"+id+"?kind=usage"), "a kind without entries", 200, "Nothing of this kind")
	boss.wants(boss.get("/support/accounts/"+id+"?kind=nonsense"), "a kind that is none", 400, "has no kind")
	for _, after := range []string{"x", "1~2", "-1~0~0~~", "0~0~0~x~", strings.Repeat("1", 400)} {
		boss.wants(boss.get("/support/accounts/"+id+"?after="+after), "the cursor "+after[:min(9, len(after))], 400, "not a cursor")
	}
}

// Tickets are assigned, snoozed and closed in the list of the queue, which is then shown again with its filters, and what was
// closed can be put back there.
func TestQueueSteps(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	eve, _ := n.staffMember("eve@example.com")
	max, _ := n.staffMember("max@example.com")
	for _, subject := range []string{"First", "Second"} {
		ana.wants(ana.post("/dashboard/messages", "kind", "other", "subject", subject, "text", "Hello"), "a message", 303, "")
	}
	const list = "/support/queue?kind=other&view=waiting"
	// row returns the path and the version of a ticket in the list.
	row := func(p *person, subject string) (path string, form []string) {
		body := p.wants(p.get(list), "the queue", 200, subject).body
		part := between(body[:strings.Index(body, ">"+subject+"</a>")+1]+"\x00", "<tr data-row", "\x00")
		if i := strings.LastIndex(part, "<tr data-row"); i >= 0 {
			part = part[i:]
		}
		path = "/support/queue/mat_" + between(part, `href="/support/queue/mat_`, `"`)
		rest := body[strings.Index(body, ">"+subject+"</a>"):]
		return path, []string{"version", between(rest, `name="version" value="`, `"`), "back", strings.ReplaceAll(between(rest, `name="back" value="`, `"`), "&amp;", "&")}
	}
	path, form := row(eve, "First")
	_, late := row(max, "First")
	r := eve.wants(eve.post(path+"/assign", append(form, "to", "staff:eve@example.com")...), "assigning", 303, "")
	if got := r.header.Get("Location"); got != list {
		t.Errorf("after assigning the member is sent to %q, want %q", got, list)
	}
	// Another member acts on what has changed.
	max.wants(max.post(path+"/close", late...), "closing an old state", 409, "assigned to staff:eve@example.com")

	_, form = row(eve, "First")
	r = eve.wants(eve.post(path+"/close", form...), "closing", 303, "")
	page := eve.wants(eve.get(r.header.Get("Location")), "the queue after closing", 200, "“First” is closed").body
	if strings.Contains(page, ">First</a>") || !strings.Contains(page, ">Second</a>") {
		t.Error("the list has the closed ticket, or lacks the other one")
	}
	eve.wants(eve.post(path+"/reopen", "version", between(page, `name="version" value="`, `"`), "back", list), "undoing it", 303, "")
	row(eve, "First")

	// Snoozed until a moment, which is in UTC.
	_, form = row(eve, "First")
	until := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Minute)
	eve.wants(eve.post(path+"/snooze", append(form, "until", "tomorrow")...), "snoozing until nothing", 400, "Pick a day and a time")
	r = eve.wants(eve.post(path+"/snooze", append(form, "until", until.Format("2006-01-02T15:04"))...), "snoozing", 303, "")
	eve.wants(eve.get(r.header.Get("Location")), "the queue after snoozing", 200, until.Format(time.RFC3339))
	eve.wants(eve.get("/support/queue?view=waiting&done=mat_nothing"), "the note of no ticket", 404, "")
	// Nobody is sent to another page.
	_, form = row(eve, "Second")
	path, _ = row(eve, "Second")
	form[3] = "//evil.example/queue"
	r = eve.wants(eve.post(path+"/assign", append(form, "to", "staff:eve@example.com")...), "another place to return to", 303, "")
	if got := r.header.Get("Location"); !strings.HasPrefix(got, "/support/queue") {
		t.Errorf("the member is sent to %q", got)
	}
}

// The page of a ticket has what a decision needs, and every action of the account, which leads back to the ticket.
func TestTicketPage(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	eve, _ := n.staffMember("eve@example.com")
	id := must[admin.Account](n, "account.show", admin.Target{Ref: ana.email}).ID
	ana.buys("premium", "4242424242424242")
	n.request("POST", chatPath, ana.key, `{"model":"sandbox/tiny"}`) // refused
	eve.wants(eve.acts(id, "note", "note", "an agency"), "a note", 303, "")
	ana.wants(ana.post("/dashboard/messages", "kind", "restore", "subject", "Keys", "text", "Please"), "a message", 303, "")
	ana.wants(ana.post("/dashboard/messages", "kind", "other", "subject", "Later", "text", "Hello"), "another message", 303, "")
	queue := eve.wants(eve.get("/support/queue?kind=restore"), "the queue", 200, ">Keys</a>").body
	path := "/support/queue/mat_" + between(queue, `href="/support/queue/mat_`, `"`)
	eventually(t, "the refused call", func() bool { return strings.Contains(eve.get(path).body, "400: 1") })
	page := eve.get(path).body
	for _, want := range []string{
		"Please", "$25.00", "last $25.00 on", "Earlier decisions", "an agency", "1 of 2", `aria-label="Next ticket"`,
		"Suspend ana@example.com: every request with its 1 key is refused", "Requests by hour", "data-says=\"Refund ${cents|…} of {payment} to ana@example.com.\"",
		`aria-keyshortcuts="a"`, `aria-keyshortcuts="s"`, `aria-keyshortcuts="e"`, `aria-keyshortcuts="j"`, `aria-keyshortcuts="?"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of the ticket does not have %q", want)
		}
	}
	if strings.Contains(page, `value="restore" id="step-restore"`) {
		t.Error("keys that are on can be restored")
	}
	version := fmt.Sprint(must[admin.Account](n, "account.show", admin.Target{Ref: id}).Version)
	r := eve.wants(eve.post("/support/accounts/"+id+"/actions/credit", "version", version, "cents", "5", "reason", "sorry", "back", path), "a credit", 303, "")
	if got := r.header.Get("Location"); got != path {
		t.Errorf("after the credit the member is sent to %q, want %q", got, path)
	}
	page = eve.wants(eve.get(path), "the ticket after the credit", 200, "Credit changed").body
	if strings.Contains(page, "Next ticket</a>") {
		t.Error("a ticket that waits for an answer leads away from it")
	}
	eve.wants(eve.post(path+"/close", "version", between(page, `name="version" value="`, `"`)), "closing it", 303, path)
	eve.wants(eve.get(path), "the closed ticket", 200, "This ticket is closed.")
	eve.wants(eve.get(path), "the way to the next one", 200, "Next ticket</a>")
}

// A whole provider is drained by one form, which says before what share of which models it has and what remains.
func TestDrainProvider(t *testing.T) {
	t.Parallel()
	n := newSite(t, "discover: false\n").start(t)
	key := n.OwnerKey()
	p, _ := n.staffMember("ops@example.com")
	if r := n.ask(key, "sandbox/small"); r.status != 200 {
		t.Fatalf("a call = %d %s", r.status, r.body)
	}
	page := p.wants(p.get("/support/upstreams"), "the page", 200, "Drain sandbox").body
	if !strings.Contains(page, `href="/support/upstreams?drain=sandbox"`) {
		t.Error("the page has no button for the whole provider")
	}
	page = p.wants(p.get("/support/upstreams?drain=sandbox"), "the dialog", 200, "No new calls go to sandbox (").body
	if strings.Count(page, "nothing: calls are refused with 503") < 2 || !strings.Contains(page, "sandbox/small") {
		t.Error("the dialog does not say that nothing remains for the models")
	}
	one := p.wants(p.get("/support/upstreams?drain=sandbox&upstream=tiny"), "the dialog of one target", 200, "No new calls go to 1 target of sandbox").body
	if dialog := between(one, "<dialog open", "</dialog>"); !strings.Contains(dialog, "sandbox/tiny") || strings.Contains(dialog, "sandbox/small") {
		t.Errorf("the dialog of one target = %s, want its model alone", dialog)
	}
	p.wants(p.get("/support/upstreams?drain=nobody"), "the dialog of nothing", 404, "no model is served by")

	until := time.Now().UTC().Add(2 * time.Hour).Truncate(time.Minute)
	p.wants(p.post("/support/upstreams/drain", "provider", "sandbox", "reason", "", "until", until.Format("2006-01-02T15:04")), "a drain without a reason", 400, `value="`+until.Format("2006-01-02T15:04")+`"`)
	p.wants(p.post("/support/upstreams/drain", "provider", "sandbox", "reason", "an incident", "until", until.Format(time.RFC3339)), "the drain", 303, "/support/upstreams")
	if r := n.ask(key, "sandbox/small"); r.status != 503 {
		t.Errorf("a call while the provider is drained = %d %s, want 503", r.status, r.body)
	}
	orders := must[admin.List[steering.Order]](n, "upstream.drains", admin.Cursor{}).Data
	if len(orders) != 1 || orders[0].Target != (steering.Target{Provider: "sandbox"}) || !orders[0].Until.Equal(until) {
		t.Errorf("the orders = %+v, want sandbox until %s", orders, until)
	}
	page = p.wants(p.get("/support/upstreams"), "the page after it", 200, "Drained now").body
	if !strings.Contains(page, `aria-label="Enable sandbox"`) || strings.Contains(page, `>Drain sandbox</a>`) {
		t.Error("the page does not offer to enable the provider, or offers to drain it again")
	}
	p.wants(p.post("/support/upstreams/enable", "provider", "sandbox"), "the undo", 303, "/support/upstreams")
	if r := n.ask(key, "sandbox/small"); r.status != 200 {
		t.Errorf("a call after it = %d %s, want 200", r.status, r.body)
	}
	log := must[admin.List[account.Entry]](n, "steering.history", admin.Cursor{}).Data
	if len(log) < 2 || log[0].Action != "upstream.enable" || log[1].Action != "upstream.drain" || log[1].Reason != "an incident" {
		t.Errorf("the audit log = %+v", log)
	}
	p.wants(p.get("/support/upstreams?move=sandbox/tiny"), "the dialog of a move", 200, "Move sandbox/tiny")
}
