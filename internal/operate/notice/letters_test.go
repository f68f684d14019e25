package notice_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/budget"
	"sluice/internal/operate/notice"
	"sluice/internal/store/sqlstore/alltest"
)

func TestLetters(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := alltest.Open(ctx, "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, _, err := account.New(s, nil).Create(ctx, "t", "ana@example.com", account.Basic, false)
	if err != nil {
		t.Fatal(err)
	}
	var posted box
	notices := notice.New(s, &posted, func() string { return "https://x.example" }, nil)
	letters := notice.NewLetters(notices, func(id string) *account.Account {
		if id == a.ID {
			return a
		}
		return nil
	}, slog.New(slog.DiscardHandler))
	suspended := *a
	suspended.Suspended = &account.Mark{Reason: "spam"}
	deactivated := *a
	deactivated.Deactivated = &account.Mark{Reason: "score"}
	event := func(kind abuse.Kind) func() {
		return func() {
			letters.Abuse(ctx, &abuse.Event{AccountID: a.ID, Kind: kind, Plan: account.Basic, Tier: account.Free, Score: 75})
		}
	}
	paid := func(what billing.What) func() {
		return func() {
			letters.Payment(ctx, a, billing.Entry{AccountID: a.ID, What: what, Plan: account.Basic, Detail: "The card expired."})
		}
	}
	spent := func(percent int, hard bool, window account.Window, session string, until time.Time) func() {
		return func() {
			b := &account.Budget{ID: "bud_1", Name: "team", Window: window, Hard: hard}
			letters.Budget(ctx, &budget.Passed{Due: budget.Due{Budget: b, Session: session}, AccountID: a.ID, Percent: percent, Amount: 5e9, Spent: 4e9, Until: until})
		}
	}
	midnight := time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		send    func()
		subject string // empty: nobody is told
		says    string
	}{
		{"suspended", func() { letters.Changed(a, &suspended) }, "Your account is suspended", "Reason: spam."},
		{"open again", func() { letters.Changed(&suspended, a) }, "Your account is restored", "Your keys work as before."},
		{"nothing changed", func() { letters.Changed(a, a) }, "", ""},
		{"not known before", func() { letters.Changed(nil, &suspended) }, "", ""},
		{"warning", event(abuse.Warning), "75% of your monthly allowance is used", "You have used 75% of what the Basic plan allows for free-tier models this month."},
		{"inquiry", event(abuse.Inquiry), "A question about your usage", "Please tell us"},
		{"deactivated", event(abuse.Deactivated), "Your keys are switched off", "contact support"},
		{"restored", func() { letters.Changed(&deactivated, a) }, "Your keys work again", "starts again from zero"},
		{"forgiven", event(abuse.Restored), "", ""}, // the change of the account tells it
		{"told by staff", func() { letters.Support(ctx, a.ID, "Your limits have changed", "They are higher.") }, "Your limits have changed", "They are higher."},
		{"review", event(abuse.Review), "", ""},
		{"renewal failed", paid(billing.RenewalFailed), "Your payment failed", "The renewal of your Basic plan could not be charged: The card expired. We will try again within a few days"},
		{"lapsed", paid(billing.Lapsed), "Your Basic plan has ended", "Subscribe again at https://x.example/dashboard/plan"},
		{"revoked", paid(billing.Revoked), "Your Basic plan has ended", "Your bank has reversed the payment"},
		{"disputed", paid(billing.Disputed), "", ""},
		{"a budget that warns", spent(80, false, account.Daily, "", midnight), `80% of the budget "team" is spent`, "$4.00 of $5.00 is spent. This budget only warns you, so calls continue."},
		{"most of a hard budget", spent(80, true, account.Total, "s1", time.Time{}), `Session s1 has used 80% of the budget "team"`, "more than what is left is refused until you raise it."},
		{"all of a day's budget", spent(100, true, account.Daily, "", midnight), `100% of the budget "team" is spent`, "are refused until it starts again on 19 Nov 2026 00:00 UTC, or until you raise it."},
		{"all of a window that rolls", spent(100, true, account.Rolling24, "", time.Time{}), `100% of the budget "team" is spent`, "are refused until earlier calls leave its window, or until you raise it."},
		{"nobody", func() { letters.Abuse(ctx, &abuse.Event{AccountID: "acct_none", Kind: abuse.Warning}) }, "", ""},
	} {
		posted = nil
		tt.send()
		switch {
		case tt.subject == "" && len(posted) == 0:
		case len(posted) != 1 || posted[0].To != a.Email || posted[0].Subject != tt.subject || !strings.Contains(posted[0].Text, tt.says):
			t.Errorf("%s: mailed %+v, want %q with %q", tt.name, posted, tt.subject, tt.says)
		}
	}
}
