package app_test

import (
	"strings"
	"testing"

	"sluice/internal/operate/admin"
)

// Each thing on the account page is a row, and its address opens its dialog, without scripts.
func TestAccountDialogs(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	page := ana.get("/dashboard/account").body
	if strings.Contains(page, "<dialog open") || strings.Contains(page, `type="password"`) {
		t.Error("the page opens with a dialog, or with a field for a password")
	}
	for name, want := range map[string]string{
		"email": "New e-mail", "details": "Billing e-mail", "password": "New password", "totp": "Set up", "passkeys": "Add a passkey", "passkey": "Create passkey",
		"sessions": "this browser", "replies": "Show the cost in every reply", "export": "Download", "close": "Close account",
	} {
		if name != "passkey" && !strings.Contains(page, `href="/dashboard/account?`+name+`"`) {
			t.Errorf("the page has no link to the dialog %s", name)
		}
		dialog := between(ana.get("/dashboard/account?"+name).body, "<dialog open", "</dialog>")
		if !strings.Contains(dialog, want) {
			t.Errorf("the dialog %s has no %q: %s", name, want, dialog)
		}
	}
	ana.wants(ana.get("/dashboard/account?unkey=gone"), "a passkey that is gone", 303, "/dashboard/account")
	// What is wrong is shown in the dialog, with what was typed.
	r := ana.wants(ana.post("/dashboard/account/email", "email", "no address", "current", pagePassword), "a wrong address", 400, "not an e-mail address")
	if dialog := between(r.body, "<dialog open", "</dialog>"); !strings.Contains(dialog, `value="no address"`) {
		t.Errorf("the dialog does not have what was typed: %s", dialog)
	}
}

// One proof holds for the changes of ten minutes in its session, and the page says so. It ends with the password, and with
// the session.
func TestOneProof(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	other := n.signInAs(ana.email, pagePassword)
	asks := func(p *person) bool {
		t.Helper()
		return strings.Contains(p.get("/dashboard/account?email").body, `name="current"`)
	}
	if !asks(ana) {
		t.Error("a new session asks for no proof")
	}
	ana.wants(ana.post("/dashboard/account/email", "email", "new@example.com"), "a change without proof", 400, "current password is wrong")
	ana.wants(ana.post("/dashboard/account/email", "email", "new@example.com", "current", pagePassword), "a change with proof", 303, "/dashboard/account")
	if asks(ana) {
		t.Error("the next dialog asks again")
	}
	ana.wants(ana.get("/dashboard/account"), "the page", 200, "You confirmed your identity")
	ana.wants(ana.get("/dashboard/account/log"), "the log", 200, "You confirmed your identity")
	ana.wants(ana.post("/dashboard/account/totp/enrol"), "another change", 303, "/dashboard/account?totp")
	if !asks(other) {
		t.Error("the proof holds in another session")
	}
	// Ten minutes later.
	n.exec("UPDATE sessions SET owner_at = owner_at - 600000")
	if !asks(ana) {
		t.Error("the proof holds for longer than ten minutes")
	}
	ana.wants(ana.post("/dashboard/account/password", "current", pagePassword, "password", "another long password"), "another password", 303, "/dashboard/account")
	if !asks(ana) {
		t.Error("the proof outlives the password")
	}
	ana.wants(ana.post("/dashboard/account/email", "email", "new@example.com", "current", "another long password"), "proof again", 303, "/dashboard/account")
	ana.post("/signout")
	ana.wants(ana.post("/signin", "email", ana.email, "password", "another long password"), "signing in", 303, "/dashboard")
	if !asks(ana) {
		t.Error("the proof outlives the session")
	}
}

// A lower plan is asked of support: the contract allows no other way. Until support has decided, the request can be
// withdrawn, and until the period ends, a decision can be taken back.
func TestDowngradeIsTakenBack(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	ana.buys("scale", "4242424242424242")
	dialog := between(ana.get("/dashboard/plan?lower=basic").body, "<dialog open", "</dialog>")
	for _, want := range []string{"Downgrade to Basic", "$10.00 per month instead of $75.00", "Keep Scale", "Request Basic"} {
		if !strings.Contains(dialog, want) {
			t.Errorf("the dialog has no %q: %s", want, dialog)
		}
	}
	ana.leads(ana.post("/dashboard/plan/downgrade", "plan", "basic", "message", "too much"), "the request", "Downgrade to Basic, on")
	if page := ana.get("/dashboard/plan").body; strings.Contains(page, "?lower=") || strings.Contains(page, "Changes") {
		t.Error("the page offers a second request, or says that the plan changes")
	}
	ana.leads(ana.post("/dashboard/plan/downgrade/withdraw"), "taking the request back", "?lower=premium")
	ana.wants(ana.get("/dashboard/messages"), "the conversation", 200, "closed")
	ana.wants(ana.post("/dashboard/plan/downgrade/withdraw"), "taking back nothing", 303, "/dashboard/plan")

	must[admin.Billing](n, "billing.downgrade", admin.Target{Actor: "t", Ref: ana.email, Plan: "basic"})
	ana.wants(ana.get("/dashboard/plan"), "the plan", 200, "To Basic on")
	page := ana.leads(ana.post("/dashboard/plan/keep"), "keeping the plan", "Your plan stays as it is")
	if !strings.Contains(page.body, "Renews") || strings.Contains(page.body, "To Basic on") {
		t.Errorf("after taking it back the plan is %s", between(page.body, `<ul class="settings">`, "</ul>"))
	}
	// The question before a cancellation names the plan, the day and the amount, and each button what it does.
	dialog = between(ana.get("/dashboard/plan?cancel").body, "<dialog open", "</dialog>")
	for _, want := range []string{"Cancel Scale on ", "$75.00 is not charged", ">Keep Scale<", ">Cancel Scale<"} {
		if !strings.Contains(dialog, want) {
			t.Errorf("the question has no %q: %s", want, dialog)
		}
	}
	ana.leads(ana.post("/dashboard/plan/cancel"), "cancelling", "ends soon")
}

// Messages are one inbox: conversations and notices by time, and each part alone. A customer closes a conversation, which a
// message opens again; another account's is not there.
func TestInbox(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	ana.wants(ana.get("/dashboard/messages"), "an empty inbox", 200, "No messages yet")
	wrong := ana.wants(ana.post("/dashboard/messages", "kind", "other", "subject", " ", "text", " "), "an empty message", 400, "Write a subject")
	if !strings.Contains(wrong.body, "Write a message of 1 to") {
		t.Error("the second mistake is not shown")
	}
	ana.wants(ana.post("/dashboard/messages", "kind", "billing", "subject", "My invoice", "text", "Where is it?"), "a question", 303, "/dashboard/messages/")
	must[admin.Account](n, "account.suspend", admin.Target{Actor: "t", Ref: ana.email, Reason: "terms"})
	// A look at the list marks nothing as read, which opening a notice does.
	unread := func() bool {
		tab := between(ana.get("/dashboard/messages").body, `href="/dashboard/messages?show=notices"`, `</a>`)
		return strings.Contains(tab, `<span class="badge accent">1<`)
	}
	eventually(t, "the notice", unread)
	told := noticePath.FindString(ana.get("/dashboard/messages").body)
	if ana.send("HEAD", told, "same-origin", nil); !unread() {
		t.Error("a notice is read before it is opened")
	}
	bob.wants(bob.get(told), "another's notice", 404, "no such notice")
	if ana.wants(ana.get(told), "the notice", 200, "terms"); unread() {
		t.Error("a notice is new after it was opened")
	}
	must[admin.Account](n, "account.unsuspend", admin.Target{Actor: "t", Ref: ana.email})
	eventually(t, "another notice", unread)
	if ana.leads(ana.post("/dashboard/messages/read"), "marking all", "All messages are marked as read."); unread() {
		t.Error("a notice is new after all were marked as read")
	}
	for show, has := range map[string][2]bool{"": {true, true}, "?show=conversations": {true, false}, "?show=notices": {false, true}, "?show=x": {true, true}} {
		body := between(ana.get("/dashboard/messages"+show).body, `<ul class="inbox">`, `</ul>`)
		if got := [2]bool{strings.Contains(body, "My invoice"), noticePath.MatchString(body)}; got != has {
			t.Errorf("the inbox %q has a conversation and a notice: %v, want %v", show, got, has)
		}
	}
	path := ticketPath.FindString(ana.get("/dashboard/messages").body)
	bob.wants(bob.post(path+"/resolve"), "closing another's", 404, "no such conversation")
	ana.wants(ana.get(path), "the conversation", 200, "waiting for support")
	ana.leads(ana.post(path+"/resolve"), "closing it", "The conversation was closed.")
	ana.wants(ana.get(path), "the closed one", 200, "Write again")
	ana.wants(ana.post(path+"/answer", "text", "one more thing"), "writing again", 303, path)
	ana.wants(ana.get(path), "the conversation", 200, "waiting for support")
}

// A form with several mistakes shows each at its field.
func TestEveryMistakeAtOnce(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	for _, tt := range []struct {
		path   string
		fields []string
		want   []string
	}{
		{"/dashboard/keys", []string{"name", " ", "requests_per_minute", "many", "addresses", "nowhere", "expires_at", "soon", "session_cap", "x"}, []string{"w-name", "w-requests_per_minute", "w-addresses", "w-expires_at", "w-session_cap"}},
		{"/dashboard/budgets", []string{"name", "", "amount", "x", "window", "day", "timezone", "Nowhere", "marks", "200", "scope", "account"}, []string{"w-name", "w-amount", "w-timezone", "w-marks"}},
		{"/dashboard/webhooks", []string{"url", ""}, []string{"w-url", "w-types"}},
		{"/dashboard/account/details", []string{"name", strings.Repeat("x", 200), "tax_id", strings.Repeat("x", 200), "country", "XX", "email", "x"}, []string{"w-name", "w-tax_id", "w-country", "w-email"}},
	} {
		body := ana.wants(ana.post(tt.path, tt.fields...), "POST "+tt.path, 400, "").body
		for _, id := range tt.want {
			if !strings.Contains(body, `id="`+id+`"`) {
				t.Errorf("POST %s does not show %s", tt.path, id)
			}
		}
	}
}
