package dashboard

import (
	"testing"

	"sluice/internal/account"
	"sluice/internal/ledger/activity"
	"sluice/internal/operate/ticket"
)

// The account log has names in place of ids, and leads to what is still there.
func TestLogEntry(t *testing.T) {
	t.Parallel()
	names := &logNames{
		account: &account.Account{Keys: []account.Key{{ID: "key_1", Name: "laptop"}}, Budgets: []account.Budget{{ID: "bud_1", Name: "team"}}},
		keys:    activity.Names{"key_1": "laptop", "key_2": "old (deleted)"},
		tickets: map[string]*ticket.Ticket{"mat_1": {ID: "mat_1", Subject: "Claude answers 503"}},
	}
	for _, test := range []struct{ action, detail, about, path, text string }{
		{"account.create", "plan none, staff false", "", "", "No plan"},
		{"account.create", "plan free, staff true", "", "", "plan free, staff true"},
		{"account.set_plan", "none to premium", "", "", "No plan → Premium"},
		{"account.set_limits", "concurrent 5", "", "", "concurrent 5"},
		{"billing.upgraded", "premium to scale", "", "", "Premium → Scale"},
		{"key.create", "key_1 (laptop); tags a=b", "laptop", "/dashboard/activity?range=30d&key=key_1", "Tags a=b."},
		{"key.rename", "key_1 (desk to laptop)", "laptop", "/dashboard/activity?range=30d&key=key_1", "desk → laptop"},
		{"key.delete", "key_2 (old)", "old (deleted)", "", ""},
		{"key.pause", "key_1: the same prompt 50 times", "laptop", "/dashboard/activity?range=30d&key=key_1", "The same prompt 50 times."},
		{"key.resume", "key_9", "", "", "key_9"},
		{"budget.create", `bud_1 "team"`, "team", "/dashboard/budgets#bud_1", ""},
		{"budget.delete", `bud_2 "tests"`, "tests", "", ""},
		{"budget.watch", "alert, factor 5", "", "", "alert, factor 5"},
		{"matter.open", "mat_1, other", "Claude answers 503", "/dashboard/messages/mat_1", ""},
		{"matter.close", "mat_1, by the customer", "Claude answers 503", "/dashboard/messages/mat_1", "by the customer"},
		{"matter.open", "mat_2, other", "", "", "mat_2, other"},
		{"webhook.create", "ep_1 at example.com", "example.com", "/dashboard/webhooks#ep_1", ""},
		{"passkey.add", "phone", "", "", "phone"},
	} {
		got := names.entry(&account.Entry{Action: test.action, Detail: test.detail})
		if got.About != test.about || got.Path != test.path || got.Text != test.text {
			t.Errorf("entry(%s, %q) = %q, %q, %q, want %q, %q, %q", test.action, test.detail, got.About, got.Path, got.Text, test.about, test.path, test.text)
		}
	}
}
