package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/incident"
	"sluice/internal/store/sqlstore/alltest"
)

// reported returns an incident that began some hours after base, and lasted for one if it is over.
func reported(id string, hours int, over bool) incident.Incident {
	i := incident.Incident{
		ID: id, Kind: incident.Outage, Title: id, Severity: incident.Minor, Components: []incident.Component{incident.API}, Models: []string{"m"},
		From: base.Add(time.Duration(hours) * time.Hour), Updates: []incident.Update{{ID: "upd_" + id, At: base, Status: incident.Investigating, Text: "t", Actor: "t"}}, ChangedAt: base,
	}
	if over {
		i.Until = i.From.Add(time.Hour)
	}
	return i
}

// putIncident stores an incident, or deletes it, with events.
func putIncident(t *testing.T, s *alltest.Store, id string, next *incident.Incident, events ...alert.Event) {
	t.Helper()
	must(t, s.ChangeIncident(t.Context(), id, base, func(*incident.Incident, int) (incident.Change, error) {
		return incident.Change{Next: next, Entry: account.Entry{At: base, Actor: "t", Action: "incident.test", Detail: id}, Events: events}, nil
	}))
}

// incidents checks that incidents are changed together with the audit log, counted, found and listed.
func incidents(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	before, err := s.IncidentsVersion(ctx)
	must(t, err)
	one, two, three := reported("inc_1", 0, true), reported("inc_2", 10, false), reported("inc_3", 10, true)
	for _, i := range []*incident.Incident{&one, &two, &three} {
		putIncident(t, s, i.ID, i)
	}
	for name, tt := range map[string]struct {
		q    incident.Query
		want []incident.Incident
	}{
		"all":          {incident.Query{Limit: 10}, []incident.Incident{three, two, one}},
		"two":          {incident.Query{Limit: 2}, []incident.Incident{three, two}},
		"after":        {incident.Query{After: "inc_2", Limit: 10}, []incident.Incident{one}},
		"by id":        {incident.Query{ID: "inc_2", Limit: 1}, []incident.Incident{two}},
		"from":         {incident.Query{From: base.Add(time.Hour), Limit: 10}, []incident.Incident{three, two}},
		"until":        {incident.Query{Until: two.From, Limit: 10}, []incident.Incident{one}},
		"ended after":  {incident.Query{EndedAfter: base.Add(5 * time.Hour), Limit: 10}, []incident.Incident{three, two}},
		"still open":   {incident.Query{EndedAfter: base.Add(50 * time.Hour), Limit: 10}, []incident.Incident{two}},
		"there is non": {incident.Query{ID: "inc_9", Limit: 1}, []incident.Incident{}},
	} {
		got, err := s.Incidents(ctx, tt.q)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("Incidents, %s: %v, -want +got\n%s", name, err, diff)
		}
	}
	refused := errors.New("refused")
	if err := s.ChangeIncident(ctx, "inc_2", base.Add(5*time.Hour), func(have *incident.Incident, open int) (incident.Change, error) {
		if diff := cmp.Diff(&two, have); diff != "" || open != 2 {
			t.Errorf("a change sees %d open incidents, want 2, and -want +got\n%s", open, diff)
		}
		return incident.Change{}, refused
	}); !errors.Is(err, refused) {
		t.Errorf("ChangeIncident = %v, want the refusal", err)
	}
	putIncident(t, s, "inc_2", nil)
	if list, err := s.Incidents(ctx, incident.Query{Limit: 10}); err != nil || len(list) != 2 {
		t.Errorf("Incidents after one is deleted = %+v, %v", list, err)
	}
	if version, err := s.IncidentsVersion(ctx); err != nil || version != before+4 {
		t.Errorf("IncidentsVersion = %d, %v, want %d", version, err, before+4)
	}
	if log, err := s.AuditLog(ctx, "", 0, 10); err != nil || len(log) != 4 || log[0].Action != "incident.test" || log[0].Detail != "inc_2" {
		t.Errorf("AuditLog = %+v, %v", log, err)
	}
}

// subscriber returns somebody who gets mail about incidents.
func subscriber(n int) *alert.Endpoint {
	return &alert.Endpoint{ID: fmt.Sprintf("sub_%04d", n), AccountID: alert.Everybody, Kind: alert.Mail, To: fmt.Sprintf("a%d@example.com", n), Types: alert.IncidentTypes(), CreatedAt: base}
}

// subscribers checks that addresses are stored once, within a bound, and deleted with what waits for them.
func subscribers(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	for _, n := range []int{1, 2, 1} {
		must(t, s.AddSubscriber(ctx, subscriber(n), 2))
	}
	if err := s.AddSubscriber(ctx, subscriber(3), 2); !fault.Is(err, fault.Conflict) {
		t.Errorf("AddSubscriber of one too many = %v, want a conflict", err)
	}
	if n, err := s.CountSubscribers(ctx); err != nil || n != 2 {
		t.Errorf("CountSubscribers = %d, %v, want 2", n, err)
	}
	if e, err := s.FindEndpoint(ctx, alert.Everybody, "sub_0001"); err != nil || cmp.Diff(subscriber(1), e) != "" {
		t.Errorf("FindEndpoint = %+v, %v", e, err)
	}
	if e, err := s.FindEndpoint(ctx, "acct_x", "sub_0001"); err != nil || e != nil {
		t.Errorf("FindEndpoint of another account = %+v, %v, want none", e, err)
	}
	i := reported("inc_1", 0, false)
	putIncident(t, s, i.ID, &i, alert.NewEvent(alert.Everybody, alert.IncidentOpened, "k", base, "t", nil))
	toAll(t, s)
	must(t, s.DropSubscriber(ctx, "sub_0001"))
	must(t, s.DropSubscriber(ctx, "sub_0001"))
	list, err := s.ClaimDeliveries(ctx, base, base.Add(time.Minute), false, 10, nil)
	if err != nil || len(list) != 1 || list[0].EndpointID != "sub_0002" || list[0].AccountID != alert.Everybody {
		t.Errorf("ClaimDeliveries = %+v, %v, want that of the one who stays", list, err)
	}
}

// toAll makes the deliveries of events for everybody, to whom they concern, and returns how many steps that took.
func toAll(t *testing.T, s *alltest.Store) (steps int) {
	t.Helper()
	for {
		n, err := s.FanOut(t.Context(), base, 100, func(e *alert.Event, endpoints []alert.Endpoint) (list []alert.Delivery) {
			for i := range endpoints {
				if x := &endpoints[i]; x.Wants(e.Type) {
					list = append(list, alert.Delivery{
						ID: "msg_" + e.ID + x.ID, EventID: e.ID, EndpointID: x.ID, AccountID: x.AccountID, Type: e.Type, Title: e.Title, Body: e.Body,
						CreatedAt: base, State: alert.Waiting, DueAt: base,
					})
				}
			}
			return list
		})
		if err != nil {
			t.Fatalf("FanOut = %v", err)
		}
		if n == 0 {
			return steps
		}
		steps++
	}
}

// toldToAll checks that an event for everybody reaches each subscriber and each webhook that wants it once, in steps that
// another process may continue.
func toldToAll(t *testing.T, open func() *alltest.Store) {
	const people = 450
	s, ctx := open(), t.Context()
	other := open()
	a := create(t, s, 1)
	wants, all, not := webhook(a, "whk_1"), webhook(a, "whk_2"), webhook(a, "whk_3")
	wants.Types, all.Types = []alert.Type{alert.IncidentOpened}, nil
	for _, e := range []*alert.Endpoint{wants, all, not} {
		must(t, s.AddEndpoint(ctx, e, 5, account.Entry{}))
	}
	for n := range people {
		must(t, s.AddSubscriber(ctx, subscriber(n), people))
	}
	i := reported("inc_1", 0, false)
	event := alert.NewEvent(alert.Everybody, alert.IncidentOpened, "k", base, "t", map[string]int{"n": 1})
	putIncident(t, s, i.ID, &i, event)
	first, err := s.FanOut(ctx, base, 100, func(*alert.Event, []alert.Endpoint) []alert.Delivery { return nil })
	if err != nil || first != 1 {
		t.Fatalf("FanOut = %d, %v, want one event", first, err)
	}
	putIncident(t, s, i.ID, &i, event) // what is there already stays where it is
	if steps := toAll(t, other); steps != 2 {
		t.Errorf("the rest took %d steps, want 2", steps)
	}
	putIncident(t, s, i.ID, &i, alert.NewEvent(alert.Everybody, alert.IncidentUpdated, "k", base, "t", nil))
	if steps := toAll(t, s); steps != 3 {
		t.Errorf("the second event took %d steps, want 3", steps)
	}
	got := map[string]int{}
	for {
		list, err := s.ClaimDeliveries(ctx, base, base.Add(time.Minute), false, 100, nil)
		must(t, err)
		if len(list) == 0 {
			break
		}
		for _, d := range list {
			got[string(d.Type)+" "+d.AccountID]++
		}
	}
	// The first step of the first event, which made no deliveries, had the first 200 endpoints in the order of their ids.
	want := map[string]int{
		"incident.opened *": people - 200, "incident.opened " + a.ID: 2,
		"incident.updated *": people, "incident.updated " + a.ID: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deliveries: -want +got\n%s", diff)
	}
	if list, err := s.Events(ctx, page); err != nil || len(list) != 0 {
		t.Errorf("Events of the operator = %+v, %v, want none", list, err)
	}
}
