package app_test

import (
	"regexp"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/ticket"
)

// ticketPath matches the path of a conversation.
var ticketPath = regexp.MustCompile(`/dashboard/messages/mat_\w+`)

// noticePath matches the path of a notice.
var noticePath = regexp.MustCompile(`/dashboard/messages/note_\w+`)

// tinyCall is a call that costs one unit.
const tinyCall = `{"model":"sandbox/tiny","messages":[{"role":"user","content":"hi"}]}`

// An account is driven to 100 by real calls and is in the queue. Its owner writes, staff answers and restores it, and
// its key works again. Everything is in the audit log.
func TestTickets(t *testing.T) {
	t.Parallel()
	n := newSite(t, "plans: {none: {monthly_units: 10, requests_per_minute: unlimited}}\nsupport: {email: help@example.com, url: \"https://help.example.com\"}\n").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	for i := range 10 {
		if r := n.request("POST", chatPath, ana.key, tinyCall); r.status != 200 {
			t.Fatalf("call %d = %d %s", i, r.status, r.body)
		}
	}
	if r := n.request("POST", chatPath, ana.key, tinyCall); r.status != 401 || !strings.Contains(r.body, "key_deactivated") || !strings.Contains(r.body, "Support: help@example.com or https://help.example.com") {
		t.Fatalf("a call at 100 = %d %s", r.status, r.body)
	}
	eventually(t, "the mail to the customer", func() bool {
		return strings.Contains(n.log.String(), `/dashboard/messages\nSupport: help@example.com or https://help.example.com`)
	})
	queue := func(view string) []ticket.Ticket {
		t.Helper()
		return must[admin.List[ticket.Ticket]](n, "matter.list", admin.TicketQuery{View: view}).Data
	}
	var off ticket.Ticket
	eventually(t, "the account in the queue", func() bool {
		for _, m := range queue("waiting") {
			if m.Kind == "deactivated" && m.Email == ana.email {
				off = m
			}
		}
		return off.ID != ""
	})
	// The customer writes, although the keys are off, and nobody else reads it.
	ana.wants(ana.get("/dashboard"), "any page while the keys are off", 200, `href="/dashboard/messages/new?kind=restore"`)
	ana.wants(ana.get("/dashboard/messages/new?kind=restore"), "the form", 200, "help@example.com")
	ana.wants(ana.post("/dashboard/messages", "kind", "restore", "subject", "", "text", "x"), "no subject", 400, "Write a subject")
	r := ana.wants(ana.post("/dashboard/messages", "kind", "restore", "subject", "Please restore me", "text", "It was\na test."), "a message", 303, "mat_")
	path := ticketPath.FindString(r.header.Get("Location"))
	ana.wants(ana.get(path), "the conversation", 200, "waiting for support")
	eventually(t, "the mail to staff", func() bool {
		return strings.Contains(n.log.String(), `"subject":"[Restore my keys] Please restore me"`)
	})
	bob.wants(bob.get(path), "another's conversation", 404, "no such conversation")
	bob.wants(bob.post(path+"/answer", "text", "x"), "an answer to another's", 404, "no such conversation")
	bob.wants(bob.get("/dashboard/messages/"+off.ID), "another's ticket", 404, "no such conversation")
	ana.wants(ana.get("/dashboard/messages/"+off.ID), "a ticket of support alone", 404, "no such conversation")

	// Support answers, and one of two members decides.
	id := path[strings.LastIndex(path, "/")+1:]
	got := must[admin.TicketThread](n, "matter.answer", admin.TicketStep{Actor: "staff:eve", ID: id, Text: "What for?"})
	if len(got.Thread) != 2 || got.Waits != "customer" || got.Assignee != "staff:eve" {
		t.Errorf("matter.answer = %+v", got)
	}
	eventually(t, "the mail to the customer", func() bool { return strings.Contains(n.log.String(), "What for?") })
	ana.wants(ana.get("/dashboard/messages"), "the messages", 200, `<span class="sr">(new)</span>`)
	ana.wants(ana.get(path), "the answer", 200, "What for?")
	ana.wants(ana.post(path+"/answer", "text", "For a bot."), "the customer's answer", 303, path)
	seen := must[admin.TicketThread](n, "matter.show", admin.TicketRef{ID: id})
	step := admin.TicketStep{Actor: "staff:eve", ID: id, Version: seen.Version, Decision: "restore", Reason: "it was a test", Text: "Your keys work again."}
	got = must[admin.TicketThread](n, "matter.decide", step)
	if got.State != "closed" || len(got.Thread) != 4 {
		t.Errorf("matter.decide = %+v", got)
	}
	if r := n.request("POST", chatPath, ana.key, tinyCall); r.status != 200 {
		t.Errorf("a call after the restore = %d %s", r.status, r.body)
	}
	second := step
	second.Actor, second.Decision, second.Reason = "staff:max", "suspend", "abuse"
	err := n.call("matter.decide", second, &admin.TicketThread{})
	if err == nil || !strings.Contains(err.Error(), "has changed since you opened it: it is closed, assigned to staff:eve") {
		t.Errorf("the second decision = %v", err)
	}
	if r := n.request("POST", chatPath, ana.key, tinyCall); r.status != 200 {
		t.Errorf("a call after the second decision = %d %s", r.status, r.body)
	}
	for _, m := range queue("waiting") {
		if m.ID == off.ID {
			t.Errorf("%+v still waits although the keys work", m)
		}
	}
	log := must[admin.List[account.Entry]](n, "account.history", admin.AccountPage{Ref: ana.email}).Data
	var actions []string
	for _, e := range log {
		actions = append(actions, e.Action)
	}
	for _, want := range []string{"matter.open", "matter.answer", "matter.restore", "keys.restore", "keys.deactivate"} {
		if !strings.Contains(strings.Join(actions, " "), want) {
			t.Errorf("the audit log has no %s: %v", want, actions)
		}
	}

	// A suspension holds for the next request, and the pages still work.
	m := must[admin.TicketThread](n, "matter.open", admin.NewTicket{Actor: "staff:eve", Ref: bob.email, Kind: "other", Subject: "Hello", Text: "Please stop."})
	must[admin.TicketThread](n, "matter.decide", admin.TicketStep{Actor: "staff:eve", ID: m.ID, Decision: "suspend", Reason: "resells", Text: "Your account is suspended."})
	if r := n.request("POST", chatPath, bob.key, tinyCall); r.status != 423 {
		t.Errorf("a call of a suspended account = %d %s", r.status, r.body)
	}
	bob.wants(bob.post("/dashboard/messages/"+m.ID+"/answer", "text", "Sorry."), "an answer of a suspended customer", 303, m.ID)
	if got := must[admin.TicketThread](n, "matter.show", admin.TicketRef{ID: m.ID}); got.State != "open" || got.Waits != "support" {
		t.Errorf("the ticket after the customer's answer = %+v", got)
	}
	must[admin.TicketThread](n, "matter.decide", admin.TicketStep{Actor: "staff:eve", ID: m.ID, Decision: "restore", Reason: "promised", Text: "Welcome back."})
	if r := n.request("POST", chatPath, bob.key, tinyCall); r.status != 200 {
		t.Errorf("a call after the restore = %d %s", r.status, r.body)
	}
	if body := bob.get("/dashboard/account.json").body; !strings.Contains(body, `"text": "Sorry."`) || strings.Contains(body, "What for?") {
		t.Errorf("the export does not have the conversation, or another's:\n%s", body)
	}
}
