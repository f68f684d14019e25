package admin_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
)

// The list of accounts has every account once, page by page, in each order and with each filter.
func TestAccountBrowse(t *testing.T) {
	t.Parallel()
	b, store := newBackend(t)
	b.Evidence = store
	var all []*account.Account
	b.Everyone = func(yield func(*account.Account)) {
		for _, a := range all {
			yield(a)
		}
	}
	for i, plan := range []account.Plan{account.Free, account.Scale, account.Free, account.Basic, account.Free} {
		now := started.Add(time.Duration(i%3) * time.Hour) // some were created at once
		a, _, err := account.New(store, &account.Options{Now: func() time.Time { return now }}).Create(t.Context(), "t", fmt.Sprintf("%c@example.com", "dbeac"[i]), plan, false)
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			if a, err = account.New(store, nil).Suspend(t.Context(), "t", a.ID, "abuse"); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, a)
	}
	service := admin.NewService(b, nil, slog.New(slog.DiscardHandler))
	browse := func(in admin.AccountQuery) (emails string, err error) {
		for in.Limit = 2; ; {
			page, err := admin.Ops().AccountBrowse.Run(t.Context(), service, admin.Caller{}, in)
			if err != nil {
				return emails, err
			}
			for _, a := range page.Data {
				emails += a.Email[:1]
			}
			if page.Next == "" {
				if page.Count != len(emails) {
					t.Errorf("%+v counts %d accounts, want %d", in, page.Count, len(emails))
				}
				return emails, nil
			}
			in.After = page.Next
		}
	}
	for _, tt := range []struct {
		in   admin.AccountQuery
		want string
	}{
		{admin.AccountQuery{By: "email"}, "abcde"},
		{admin.AccountQuery{By: "email", Reverse: true}, "edcba"},
		{admin.AccountQuery{By: "plan"}, "cdeab"},
		{admin.AccountQuery{By: "email", Plan: "free"}, "cde"},
		{admin.AccountQuery{By: "email", Plan: "free", Status: "active"}, "cd"},
		{admin.AccountQuery{Status: "suspended"}, "e"},
		{admin.AccountQuery{Status: "terminated"}, ""},
	} {
		if got, err := browse(tt.in); got != tt.want || err != nil {
			t.Errorf("the accounts of %+v = %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
	newest, err := browse(admin.AccountQuery{})
	if err != nil || newest[0] != 'e' || !slices.Contains([]string{"bc", "cb"}, newest[1:3]) {
		t.Errorf("the newest accounts = %q, %v, want e first, and then b and c", newest, err)
	}
	call := usage.Settlement{ID: "1", At: time.Now(), AccountID: all[3].ID, KeyID: "key_1", Plan: "basic", Tier: "free", ModelAsked: "m", ModelUsed: "m", Provider: "p", RequestMilli: 1000, Status: 200, End: usage.EndComplete}
	if err := store.RecordSettlements(t.Context(), []usage.Settlement{call}); err != nil {
		t.Fatal(err)
	}
	page, err := admin.Ops().AccountBrowse.Run(t.Context(), service, admin.Caller{}, admin.AccountQuery{})
	if err != nil || len(page.Usage) != 1 || page.Usage[all[3].ID].Requests != 1 {
		t.Errorf("the usage of the accounts = %+v, %v, want one request of %s", page.Usage, err, all[3].ID)
	}
	if got, err := browse(admin.AccountQuery{By: "requests"}); err != nil || len(got) != 5 || got[0] != 'a' {
		t.Errorf("the accounts by requests = %q, %v, want the one with a request first, and all others", got, err)
	}
	if got, err := browse(admin.AccountQuery{By: "cost", Reverse: true}); err != nil || len(got) != 5 {
		t.Errorf("the accounts by cost = %q, %v, want all", got, err)
	}
	for _, in := range []admin.AccountQuery{{By: "colour"}, {Plan: "gold"}, {Status: "sad"}} {
		if _, err := browse(in); !fault.Is(err, fault.Invalid) {
			t.Errorf("the accounts of %+v = %v, want them refused", in, err)
		}
	}
	all = slices.Repeat(all[:1], 50_001)
	if _, err := browse(admin.AccountQuery{By: "cost"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("50,001 accounts by their cost = %v, want it refused", err)
	}
}
