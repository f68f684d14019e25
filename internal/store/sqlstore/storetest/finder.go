package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/finder"
	"sluice/internal/operate/signal"
	"sluice/internal/store/sqlstore/alltest"
)

// search checks that accounts are found by address, id, last four and request, and in pages.
func search(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	var all []*account.Account
	for i, email := range []string{"ann@a.example", "anna.b@a.example", "anna@a.example", "annab@a.example", "bob@a.example", "é@a.example"} {
		a := newAccount(i)
		a.Email = email
		a.Keys[0].LastFour = fmt.Sprintf("Ab%02d", i/2)
		must(t, s.CreateAccount(ctx, a, entry(a.ID, "account.create")))
		all = append(all, a)
	}
	emails := func(list []finder.Match, err error) (out []string) {
		t.Helper()
		must(t, err)
		for _, m := range list {
			out = append(out, m.Account.Email)
		}
		return out
	}
	for _, tt := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"ann", "", 10, []string{"ann@a.example", "anna.b@a.example", "anna@a.example", "annab@a.example"}},
		{"ann", "", 2, []string{"ann@a.example", "anna.b@a.example"}},
		{"ann", "anna.b@a.example", 2, []string{"anna@a.example", "annab@a.example"}},
		{"anna@", "", 10, []string{"anna@a.example"}},
		{"anna.", "", 10, []string{"anna.b@a.example"}},
		{"é", "", 10, []string{"é@a.example"}},
		{"bob@a.example", "", 10, []string{"bob@a.example"}},
		{"bob@a.example.com", "", 10, nil},
		{"%", "", 10, nil},
	} {
		if got := emails(s.AccountsByEmail(ctx, tt.prefix, tt.after, tt.limit)); !slices.Equal(got, tt.want) {
			t.Errorf("AccountsByEmail(%q, %q, %d) = %q, want %q", tt.prefix, tt.after, tt.limit, got, tt.want)
		}
	}

	// A revoked key still leads to its account.
	change(t, s, all[4].ID, func(a *account.Account) { a.Keys = nil })
	byID := func(id string) []finder.Match {
		t.Helper()
		list, err := s.AccountsByID(ctx, id)
		must(t, err)
		return list
	}
	if list := byID(all[4].ID); len(list) != 1 || list[0].Kind != finder.ByID || list[0].Account.Email != "bob@a.example" || list[0].Key != (finder.Key{}) {
		t.Errorf("AccountsByID of an account = %+v", list)
	}
	key := all[4].Keys[0]
	if list := byID(key.ID); len(list) != 1 || list[0].Kind != finder.ByKey || list[0].Account.Email != "bob@a.example" || list[0].Key != (finder.Key{ID: key.ID, Name: key.Name, LastFour: "Ab02", Master: true, Revoked: true}) {
		t.Errorf("AccountsByID of a key = %+v", list)
	}
	if list := byID("acct_none"); list != nil {
		t.Errorf("AccountsByID of nobody = %+v", list)
	}
	if got := emails(s.AccountsByLastFour(ctx, "Ab02", "", 10)); !slices.Equal(got, []string{"bob@a.example", "é@a.example"}) {
		t.Errorf("AccountsByLastFour = %q, want two accounts", got)
	}
	if got := emails(s.AccountsByLastFour(ctx, "Ab02", key.ID, 10)); !slices.Equal(got, []string{"é@a.example"}) {
		t.Errorf("AccountsByLastFour after the first key = %q, want the second account", got)
	}
	if got := emails(s.AccountsByLastFour(ctx, "ab02", "", 10)); got != nil {
		t.Errorf("AccountsByLastFour in other letters = %q, want none", got)
	}

	// A request is found by our own id and by that of a proxy, settled or refused.
	requestTrace := &usage.Trace{RequestID: "proxy-1", Address: "192.0.2.7", Reason: "fits", Attempts: []usage.Attempt{
		{Model: "m", Provider: "p", Upstream: "u", Outcome: "refused", Status: 503, Start: time.Millisecond, End: 3 * time.Millisecond},
		{Model: "m2", Provider: "p2", Upstream: "u2", Outcome: usage.Answered, Start: 3 * time.Millisecond, End: 9 * time.Millisecond},
	}}
	own := fmt.Sprintf("%08x%024x", base.Unix(), 1)
	settled := usage.Settlement{ID: own, At: base, AccountID: all[0].ID, KeyID: "key_1", Plan: "basic", Tier: "free", Door: usage.DoorResponses, ModelAsked: "m", ModelUsed: "m2", Provider: "p2", Status: 200, End: usage.EndComplete, Latency: time.Second, Trace: requestTrace}
	plain := settled
	plain.ID, plain.Trace = "own-2", nil // as of a video: its id does not tell the second
	must(t, s.RecordSettlements(ctx, []usage.Settlement{settled, plain}))
	refused := refusal.Call{ID: "own-3", RequestID: "proxy-1", At: base.Add(time.Second), AccountID: all[1].ID, KeyID: "key_2", Status: 429, Kind: "rate_limit_error", Path: "/v1/chat/completions", Model: "m", Address: "2001:db8::1"}
	must(t, s.RecordRefusals(ctx, []refusal.Call{refused}, nil))
	for id, want := range map[string][]string{
		own: {all[0].Email}, "own-2": {all[0].Email}, "own-3": {all[1].Email}, "proxy-1": {all[1].Email, all[0].Email}, "own-4": nil, "": nil,
	} {
		if got := emails(s.AccountsByRequest(ctx, id, 10)); !slices.Equal(got, want) {
			t.Errorf("AccountsByRequest(%q) = %q, want %q", id, got, want)
		}
	}
	for id, want := range map[string][]usage.Settlement{own: {settled}, "proxy-1": {settled}, "own-2": {plain}, "own-3": nil, "": nil} {
		got, err := s.Requests(ctx, id, 10)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Requests(%q): %v, -want +got\n%s", id, err, diff)
		}
	}
	calls, err := s.CallsSince(ctx, all[0].ID, base, 10)
	want := []signal.Call{{At: base, KeyID: "key_1", Address: "192.0.2.7"}, {At: base, KeyID: "key_1"}}
	slices.SortFunc(calls, func(a, b signal.Call) int { return strings.Compare(b.Address, a.Address) }) // both have one time
	if diff := cmp.Diff(want, calls); err != nil || diff != "" {
		t.Errorf("CallsSince: %v, -want +got\n%s", err, diff)
	}
	if calls, err := s.CallsSince(ctx, all[0].ID, base.Add(time.Millisecond), 10); err != nil || calls != nil {
		t.Errorf("CallsSince a later time = %v, %v, want none", calls, err)
	}
	for id, want := range map[string][]refusal.Call{"own-3": {refused}, "proxy-1": {refused}, own: nil, "": nil} {
		got, err := s.RefusalsOf(ctx, id, 10)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("RefusalsOf(%q): %v, -want +got\n%s", id, err, diff)
		}
	}
}

// refusals checks that the newest refused calls of each account are kept, that all are counted, and that old ones
// are deleted.
func refusals(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	call := func(account string, i int) refusal.Call {
		return refusal.Call{ID: fmt.Sprintf("%05d", i), At: base.Add(time.Duration(i/2) * time.Second), AccountID: account, KeyID: "key_1", Status: 400, Kind: "invalid_request_error", Param: "model", Path: "/v1/chat/completions"}
	}
	of := func(start time.Time, status int, calls int64) refusal.Minute {
		return refusal.Minute{AccountID: "acct_1", Start: start, Status: status, Calls: calls}
	}
	var want []refusal.Call
	for part := range 3 {
		var calls []refusal.Call
		for i := range refusal.Kept / 2 {
			calls = append(calls, call("acct_1", part*refusal.Kept/2+i))
		}
		want = append(want, calls...)
		minutes := []refusal.Minute{of(base, 400, 3), of(base, 429, 1), of(base.Add(time.Hour), 400, 2)}
		must(t, s.RecordRefusals(ctx, append(calls, call("acct_2", part)), append(minutes, refusal.Minute{AccountID: "acct_2", Start: base, Status: 402, Calls: 1})))
	}
	want = want[len(want)-refusal.Kept:]
	slices.Reverse(want)
	// In pages: each continues after the last one of the page before, also where several have one time.
	var got []refusal.Call
	for before := (refusal.Point{At: base.Add(24 * time.Hour)}); ; {
		part, err := s.Refusals(ctx, "acct_1", before, 333)
		must(t, err)
		got = append(got, part...)
		if len(part) < 333 {
			break
		}
		before = refusal.Point{At: part[332].At, ID: part[332].ID}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Refusals: -want +got\n%s", diff)
	}
	if list, err := s.Refusals(ctx, "acct_2", refusal.Point{At: base.Add(24 * time.Hour)}, 10); err != nil || len(list) != 3 {
		t.Errorf("Refusals of another account = %d, %v, want 3", len(list), err)
	}
	minutes, err := s.RefusedMinutes(ctx, "acct_1", base, time.Minute)
	if diff := cmp.Diff([]refusal.Minute{of(base, 400, 9), of(base, 429, 3), of(base.Add(time.Hour), 400, 6)}, minutes); err != nil || diff != "" {
		t.Errorf("RefusedMinutes: %v, -want +got\n%s", err, diff)
	}
	day := base.Truncate(24 * time.Hour)
	minutes, err = s.RefusedMinutes(ctx, "acct_1", day, 24*time.Hour)
	if diff := cmp.Diff([]refusal.Minute{of(day, 400, 15), of(day, 429, 3)}, minutes); err != nil || diff != "" {
		t.Errorf("RefusedMinutes by day: %v, -want +got\n%s", err, diff)
	}
	// All of this is long ago.
	s.DropExpired(ctx, func(what string, err error) { t.Errorf("%s could not be deleted: %v", what, err) })
	if list, err := s.Refusals(ctx, "acct_1", refusal.Point{At: base.Add(24 * time.Hour)}, 10); err != nil || len(list) != 0 {
		t.Errorf("Refusals after DropExpired = %d, %v, want none", len(list), err)
	}
	if list, err := s.RefusedMinutes(ctx, "acct_1", base, time.Minute); err != nil || len(list) != 0 {
		t.Errorf("RefusedMinutes after DropExpired = %v, %v, want none", list, err)
	}
}
