package support

import (
	"regexp"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/ticket"
)

func TestHappened(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, detail, plan string
		text, id           string
	}{
		{"ledger.renewed", "until 15 Dec 2026 21:19 UTC", "scale", "Scale until 15 Dec 2026", ""},
		{"ledger.charged", "", "scale", "for Scale", ""},
		{"ledger.credit_used", "$5.00, $0.00 are left", "scale", "$5.00, $0.00 left", ""},
		{"ledger.payment_failed", "The card expired.", "basic", "Basic: The card expired.", ""},
		{"ledger.chose_free", "", "free", "Free", ""},
		{"account.set_plan", "free to basic", "", "Free to Basic", ""},
		{"account.create", "plan none, staff false", "", "No plan", ""},
		{"account.create", "plan free, staff true", "", "Free, staff", ""},
		{"key.create", "key_x5Vi (staging): 5 requests a minute", "", "staging: 5 requests a minute", "key_x5Vi"},
		{"budget.create", `bud_tp "customer support"`, "", "customer support", "bud_tp"},
		{"webhook.create", "whk_6GX at example.com", "", "example.com", "whk_6GX"},
		{"account.set_limits", "5 requests a minute", "", "5 requests a minute", ""},
	} {
		text, id := happened(&admin.Happening{Name: tt.name, Text: tt.detail, Plan: tt.plan})
		if text != tt.text || id != tt.id {
			t.Errorf("happened(%s %q) = %q, %q, want %q, %q", tt.name, tt.detail, text, id, tt.text, tt.id)
		}
	}
}

// What a decision about a ticket does to the account is no decision of its own.
func TestDecisionsOf(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	list := []account.Entry{
		{Action: "matter.restore", Actor: "staff:ines", At: at.Add(time.Second)},
		{Action: "keys.restore", Actor: "staff:ines", At: at},
		{Action: "billing.credit", Actor: "staff:ines", At: at},
		{Action: "keys.restore", Actor: "staff:ines", At: at.AddDate(0, 0, -3)},
	}
	if got := decisionsOf(list); len(got) != 3 || got[0].Action != "matter.restore" || got[1].Action != "billing.credit" || !got[2].At.Before(at) {
		t.Errorf("decisionsOf = %+v, want the decision about the ticket, the credit, and the decision of another day", got)
	}
}

// How long a ticket waits is a stretch of time, and when it was closed is a moment.
func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]string{0: "1 minute", 36 * time.Minute: "36 minutes", 3 * time.Hour: "3 hours", 80 * 24 * time.Hour: "80 days"} {
		waits := queueView{View: string(ticket.Waiting), Now: now}
		if got := waits.since(&ticket.Ticket{Since: now.Add(-ago)}); got != want {
			t.Errorf("a ticket since %s waits for %q, want %q", ago, got, want)
		}
	}
	closed := queueView{View: string(ticket.Done), Now: now}
	if got := closed.since(&ticket.Ticket{Since: now.Add(-3 * time.Hour)}); got != "3 hours ago" {
		t.Errorf("a ticket was closed %q, want 3 hours ago", got)
	}
}

func TestStaffTitle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ticket ticket.Ticket
		want   string
	}{
		{ticket.Ticket{Kind: ticket.Payment, Cause: "1", Subject: "Your payment failed"}, "Payment failed"},
		{ticket.Ticket{Kind: ticket.Payment, Subject: "Your payment failed"}, "Your payment failed"}, // a person has written it
		{ticket.Ticket{Kind: ticket.Inquiry, Cause: "1", Subject: "A question"}, "A question"},
	} {
		if got := staffTitle(&tt.ticket); got != tt.want {
			t.Errorf("staffTitle(%+v) = %q, want %q", tt.ticket, got, tt.want)
		}
	}
}

// What an order would refuse is refused by a browser at the field, and the rest is not.
func TestTypedAs(t *testing.T) {
	t.Parallel()
	for kind, texts := range map[string]map[string]bool{
		"amount": {"12": true, " $12.50 ": true, "-3": true, "twelve": false, "": false, "1.5": false},
		"limit":  {"": true, "1,000": true, "unlimited": true, "many": false, "-1": false},
	} {
		for text, want := range texts {
			if got := patternOf(t, field{kind: kind}).MatchString(text); got != want {
				t.Errorf("the pattern of %s takes %q: %t, want %t", kind, text, got, want)
			}
		}
	}
}

// patternOf returns what a browser takes in a field.
func patternOf(t *testing.T, f field) *regexp.Regexp {
	t.Helper()
	p, err := regexp.Compile("^(?:" + f.typedAs()["pattern"].(string) + ")$")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
