package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/video"
)

// webhook returns a customer's endpoint.
func webhook(a *account.Account, id string) *alert.Endpoint {
	return &alert.Endpoint{ID: id, AccountID: a.ID, Kind: alert.Web, To: "https://example.com/" + id, Types: []alert.Type{alert.VideoSucceeded, alert.ScoreReached}, Secret: alert.NewSecret(), CreatedAt: base}
}

// page is the first page of a list.
var page = alert.Page{Limit: 100}

// alertEndpoints checks that endpoints are kept with their secrets, bounded, and deleted with the account's login and
// by their own account only.
func alertEndpoints(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a, other := create(t, s, 1), create(t, s, 2)
	first, second := webhook(a, "whk_1"), webhook(a, "whk_2")
	second.CreatedAt = base.Add(time.Second)
	must(t, s.AddEndpoint(ctx, first, 2, entry(a.ID, "webhook.create")))
	must(t, s.AddEndpoint(ctx, second, 2, account.Entry{}))
	if err := s.AddEndpoint(ctx, webhook(a, "whk_3"), 2, account.Entry{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("AddEndpoint of one too many = %v, want a conflict", err)
	}
	if log, err := s.AuditLog(ctx, a.ID, 0, 10); err != nil || len(log) != 2 || log[0].Action != "webhook.create" {
		t.Errorf("AuditLog = %+v, %v, want the creation of one webhook", log, err)
	}
	must(t, s.StopEndpoint(ctx, a.ID, first.ID, base.Add(time.Hour), "gone"))
	first.StoppedAt, first.StoppedWhy = base.Add(time.Hour), "gone"
	list, err := s.Endpoints(ctx, a.ID)
	if diff := cmp.Diff([]alert.Endpoint{*first, *second}, list); err != nil || diff != "" {
		t.Errorf("Endpoints: %v, -want +got\n%s", err, diff)
	}
	for what, err := range map[string]error{
		"DeleteEndpoint of another's": s.DeleteEndpoint(ctx, other.ID, first.ID, account.Entry{}), "StopEndpoint of another's": s.StopEndpoint(ctx, other.ID, first.ID, base, ""),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s = %v, want not found", what, err)
		}
	}
	must(t, s.DeleteEndpoint(ctx, a.ID, first.ID, entry(a.ID, "webhook.delete")))
	must(t, s.EraseLogin(ctx, a.ID))
	if list, err := s.Endpoints(ctx, a.ID); err != nil || len(list) != 0 {
		t.Errorf("Endpoints after EraseLogin = %+v, %v, want none", list, err)
	}
}

// everywhere routes an event to all endpoints of its account, and to two of the operator.
func everywhere(e *alert.Event, endpoints []alert.Endpoint) (list []alert.Delivery) {
	names := []string{"webhook:a", "webhook:b"}
	if e.AccountID != "" {
		names = nil
		for _, x := range endpoints {
			names = append(names, x.ID)
		}
	}
	for _, name := range names {
		list = append(list, alert.Delivery{
			ID: "msg_" + e.ID + name, EventID: e.ID, EndpointID: name, AccountID: e.AccountID, Type: e.Type, Title: e.Title, Body: e.Body,
			CreatedAt: base, State: alert.Waiting, DueAt: base,
		})
	}
	return list
}

// fanOut makes deliveries of all events, and fails unless there were as many.
func fanOut(t *testing.T, s *alltest.Store, want int) {
	t.Helper()
	if n, err := s.FanOut(t.Context(), base, 100, everywhere); err != nil || n != want {
		t.Fatalf("FanOut = %d, %v, want %d", n, err, want)
	}
}

// alertDeliveries checks the way of an event: made into deliveries once, claimed by one, ended, replayed, listed in
// pages, and dropped when it is old.
func alertDeliveries(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a, other := create(t, s, 1), create(t, s, 2)
	must(t, s.AddEndpoint(ctx, webhook(a, "whk_1"), 5, account.Entry{}))
	mine := alert.NewEvent(a.ID, alert.VideoSucceeded, "k", base, "done", map[string]int{"n": 1})
	nobodys := alert.NewEvent(other.ID, alert.VideoSucceeded, "k", base, "done", nil)
	operators := alert.NewEvent("", alert.DiskFilling, "k", base, "full", nil)
	must(t, s.AddEvents(ctx, mine, nobodys, operators))
	must(t, s.AddEvents(ctx, mine, operators)) // the same again
	fanOut(t, s, 2)
	fanOut(t, s, 0)
	if list, err := s.Events(ctx, page); err != nil || cmp.Diff([]alert.Event{operators}, list) != "" {
		t.Errorf("Events = %+v, %v, want the operator's", list, err)
	}
	later := base.Add(time.Minute)
	claim := func(operator bool, without ...string) []alert.Delivery {
		t.Helper()
		list, err := s.ClaimDeliveries(ctx, base, later, operator, 10, without)
		if err != nil {
			t.Fatalf("ClaimDeliveries = %v", err)
		}
		return list
	}
	for _, without := range []string{"whk_1", a.ID} {
		if list := claim(false, "webhook:a", without); len(list) != 0 {
			t.Errorf("ClaimDeliveries without %s = %+v", without, list)
		}
	}
	list := claim(false)
	if len(list) != 1 || list[0].Body != mine.Body || list[0].EndpointID != "whk_1" || list[0].AccountID != a.ID {
		t.Fatalf("ClaimDeliveries of customers = %+v, want the one", list)
	}
	d := list[0]
	if list := claim(false); len(list) != 0 {
		t.Errorf("ClaimDeliveries of what is claimed = %+v, want none", list)
	}
	if list := claim(true); len(list) != 2 {
		t.Errorf("ClaimDeliveries of the operator = %+v, want two", list)
	}
	d.State, d.Attempts, d.DueAt, d.FinishedAt, d.Status, d.Problem = alert.Dead, 3, later, later, 500, "no"
	if err := s.Replay(ctx, a.ID, d.ID, later, base, 1); !fault.Is(err, fault.Conflict) {
		t.Errorf("Replay of what waits = %v, want a conflict", err)
	}
	must(t, s.EndAttempt(ctx, &d))
	lost := d
	lost.State, lost.Problem = alert.Delivered, ""
	must(t, s.EndAttempt(ctx, &lost)) // the outcome of an attempt that comes too late
	got, err := s.Deliveries(ctx, a.ID, "whk_1", alert.Dead, page)
	if diff := cmp.Diff([]alert.Delivery{d}, got); err != nil || diff != "" {
		t.Errorf("Deliveries: %v, -want +got\n%s", err, diff)
	}
	for what, list := range map[string][]alert.Delivery{
		"another account": deliveries(t, s, other.ID, "", ""), "another endpoint": deliveries(t, s, a.ID, "whk_2", ""), "another state": deliveries(t, s, a.ID, "", alert.Waiting),
	} {
		if len(list) != 0 {
			t.Errorf("Deliveries of %s = %+v, want none", what, list)
		}
	}
	if err := s.Replay(ctx, other.ID, d.ID, later, base, 1); !fault.Is(err, fault.NotFound) {
		t.Errorf("Replay of another's = %v, want not found", err)
	}
	must(t, s.Replay(ctx, a.ID, d.ID, later, base, 1))
	if list, err := s.ClaimDeliveries(ctx, later, later.Add(time.Minute), false, 10, nil); err != nil || len(list) != 1 || list[0].ID != d.ID || list[0].Attempts != 0 {
		t.Errorf("ClaimDeliveries after Replay = %+v, %v, want it from the beginning", list, err)
	}
	d.State = alert.Delivered
	must(t, s.EndAttempt(ctx, &d))
	if err := s.Replay(ctx, a.ID, d.ID, later, base, 1); !fault.Is(err, fault.RateLimited) {
		t.Errorf("Replay of one too many = %v, want it refused for now", err)
	}
	alertPages(t, s, a)
	failed := func(what string, err error) { t.Errorf("DropExpired of %s = %v", what, err) }
	s.DropExpired(ctx, failed) // all this was long ago
	if list := deliveries(t, s, a.ID, "", ""); len(list) != 3 {
		t.Errorf("%d deliveries are left after their time, want the three that wait", len(list))
	}
	if list, err := s.Events(ctx, page); err != nil || len(list) != 0 {
		t.Errorf("Events after their time = %+v, %v, want none", list, err)
	}
}

// alertPages checks tests, their bound, and that pages have each delivery once.
func alertPages(t *testing.T, s *alltest.Store, a *account.Account) {
	t.Helper()
	for i := range 3 {
		d := alert.Delivery{ID: fmt.Sprint("msg_test", i), EndpointID: "whk_1", AccountID: a.ID, Type: alert.Test, CreatedAt: base.Add(time.Hour), State: alert.Waiting, DueAt: base}
		must(t, s.AddTest(t.Context(), &d, base, 3))
	}
	if err := s.AddTest(t.Context(), &alert.Delivery{ID: "x", EndpointID: "whk_1", AccountID: a.ID, Type: alert.Test}, base, 3); !fault.Is(err, fault.RateLimited) {
		t.Errorf("AddTest of one too many = %v, want it refused for now", err)
	}
	var got []string
	p := alert.Page{Limit: 1}
	for {
		list, err := s.Deliveries(t.Context(), a.ID, "", "", p)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		got, p.Before = append(got, list[0].ID), list[0].ID
	}
	if len(got) != 4 || got[0] != "msg_test2" || got[2] != "msg_test0" {
		t.Errorf("pages of deliveries have %v, want four, newest first", got)
	}
	if _, err := s.Deliveries(t.Context(), a.ID, "", "", alert.Page{Before: "msg_none", Limit: 1}); !fault.Is(err, fault.NotFound) {
		t.Errorf("Deliveries after an unknown one = %v, want not found", err)
	}
}

// deliveries lists an account's deliveries.
func deliveries(t *testing.T, s *alltest.Store, accountID, endpointID string, state alert.State) []alert.Delivery {
	t.Helper()
	list, err := s.Deliveries(t.Context(), accountID, endpointID, state, page)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// alertSources checks that events are stored with what they are about: a video that is done, a score, a payment.
func alertSources(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a := create(t, s, 1)
	must(t, s.AddEndpoint(ctx, webhook(a, "whk_1"), 5, account.Entry{}))
	j := createVideo(t, s, a.ID, 1)
	for range 2 { // the second change is not the end any more
		_, err := s.ChangeVideo(ctx, j.ID, func(j *video.Job) (*usage.Settlement, error) {
			j.Status, j.FinishedAt = video.Succeeded, base
			return nil, nil
		})
		must(t, err)
	}
	must(t, s.RecordAbuseEvents(ctx, []abuse.Event{{At: base, AccountID: a.ID, Kind: abuse.Inquiry, Plan: account.Basic, Tier: account.Basic, Score: 91, Why: "w", Actor: "x"}}))
	_, err := s.ChangeBilling(ctx, a.ID, "", func(b *billing.Record) error {
		b.Entries = append(b.Entries, billing.Entry{At: base, AccountID: a.ID, What: billing.RenewalFailed}, billing.Entry{At: base, AccountID: a.ID, What: billing.Renewed})
		return nil
	})
	must(t, err)
	fanOut(t, s, 4)
	types := map[alert.Type]int{}
	for _, d := range append(deliveries(t, s, a.ID, "", ""), deliveries(t, s, "", "webhook:a", "")...) {
		types[d.Type]++
	}
	want := map[alert.Type]int{alert.VideoSucceeded: 1, alert.ScoreReached: 1, alert.AccountReview: 1, alert.PaymentFailed: 1}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("deliveries: -want +got\n%s", diff)
	}
}

// alertConditions checks that what several nodes see begins once and ends once.
func alertConditions(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	down := alert.Condition{Key: "upstream x", Since: base, Began: alert.UpstreamDown, Over: alert.UpstreamUp, Title: "down", OverTitle: "up", Data: `{"provider":"x"}`}
	at := base
	report := func(node string, holding ...alert.Condition) {
		t.Helper()
		at = at.Add(time.Second)
		must(t, s.ReportConditions(ctx, node, at, at.Add(-time.Minute), holding))
	}
	report("n1", down)
	report("n2", down)
	report("n1")
	report("n1", down)
	report("n1")
	fanOut(t, s, 1) // it still holds on n2
	report("n2")
	fanOut(t, s, 1)
	report("n1", down) // the same beginning is known
	report("n2")
	fanOut(t, s, 0)
	at = at.Add(time.Hour)
	report("n2") // n1 is dead, and with it what it saw
	list, err := s.Events(ctx, page)
	if err != nil || len(list) != 2 || list[0].Title != "up" || list[1].Title != "down" {
		t.Errorf("Events = %+v, %v, want one beginning and one end", list, err)
	}
	fanOut(t, s, 1)
}
