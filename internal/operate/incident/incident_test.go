package incident

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/mail"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
	"sluice/internal/operate/alert"
)

// memory is a store without a database, which several bulletins may share.
type memory struct {
	mu      sync.Mutex
	list    []Incident
	version int64
	log     []account.Entry
	events  []alert.Event
	away    error
}

func (m *memory) ChangeIncident(_ context.Context, id string, now time.Time, change func(*Incident, int) (Change, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.IndexFunc(m.list, func(i Incident) bool { return i.ID == id })
	var have *Incident
	if at >= 0 {
		have = m.list[at].clone()
	}
	open := 0
	for i := range m.list {
		if m.list[i].Until.IsZero() || m.list[i].Until.After(now) {
			open++
		}
	}
	c, err := change(have, open)
	if err = cmp.Or(m.away, err); err != nil {
		return err
	}
	if at >= 0 {
		m.list = slices.Delete(m.list, at, at+1)
	}
	if c.Next != nil {
		m.list = append(m.list, *c.Next)
	}
	m.version++
	m.log, m.events = append(m.log, c.Entry), append(m.events, c.Events...)
	return nil
}

func (m *memory) Incidents(_ context.Context, q Query) (list []Incident, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range m.list {
		if (q.ID == "" || q.ID == i.ID) && (i.Until.IsZero() || i.Until.After(q.EndedAfter)) {
			list = append(list, i)
		}
	}
	return list[:min(len(list), q.Limit)], m.away
}

func (m *memory) IncidentsVersion(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version, m.away
}

var base = time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)

// newBulletin returns a bulletin with a clock that tests set.
func newBulletin(store Store) (*Bulletin, *time.Time) {
	now := base
	return New(store, &Options{Now: func() time.Time { return now }, Origin: func() string { return "https://x.example" }}), &now
}

// The way of an incident: what each step leaves in it, in the audit log, and for those who subscribe.
func TestIncident(t *testing.T) {
	t.Parallel()
	m := &memory{}
	b, now := newBulletin(m)
	ctx := t.Context()
	i, err := b.Open(ctx, "staff:a", Incident{Title: " Calls fail ", Models: []string{"lab/a"}}, "We look.\r\n\r\nMore soon.\x00", false)
	if err != nil || i.Kind != Outage || i.Severity != Minor || i.Status != Investigating || i.Title != "Calls fail" || !i.From.Equal(base) || i.Updates[0].Text != "We look.\n\nMore soon." {
		t.Fatalf("Open = %+v, %v", i, err)
	}
	if len(b.Current()) != 1 || !i.Running(*now) || i.Tone(*now) != "warn" || i.Banner(*now) != "Investigating: Calls fail" {
		t.Errorf("while it lasts: %+v", b.Current())
	}
	*now = base.Add(time.Hour)
	if i, err = b.Update(ctx, "staff:b", i.ID, Monitoring, "It works.", true); err != nil || i.Status != Monitoring || len(i.Updates) != 2 || i.Updates[1].Actor != "staff:b" {
		t.Errorf("Update = %+v, %v", i, err)
	}
	if i, err = b.Update(ctx, "staff:b", i.ID, "", "Still works.", false); err != nil || i.Status != Monitoring {
		t.Errorf("Update without a status = %+v, %v", i, err)
	}
	*now = base.Add(2 * time.Hour)
	i, err = b.Update(ctx, "staff:b", i.ID, Resolved, "Over.", false)
	if err != nil || !i.Over(*now) || i.Running(*now) || !i.Until.Equal(*now) || i.Tone(*now) != "good" {
		t.Errorf("Update to resolved = %+v, %v", i, err)
	}
	if _, err := b.Edit(ctx, "staff:b", i.ID, Edit{Until: &time.Time{}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an incident that is over without an end = %v", err)
	}
	if i, err = b.Update(ctx, "staff:b", i.ID, Investigating, "Again.", false); err != nil || !i.Until.IsZero() || i.Over(*now) {
		t.Errorf("an incident that is open again = %+v, %v", i, err)
	}
	title, postmortem, first := "Calls failed", "https://x.example/p", i.Updates[0].ID
	if i, err = b.Edit(ctx, "staff:c", i.ID, Edit{Title: &title, Postmortem: &postmortem, Update: first, Text: "We looked."}); err != nil ||
		i.Title != title || i.Postmortem != postmortem || i.Updates[0].Text != "We looked." || i.Updates[0].EditedAt.IsZero() || !i.Updates[1].EditedAt.IsZero() {
		t.Errorf("Edit = %+v, %v", i, err)
	}
	if _, err := b.Delete(ctx, "staff:c", i.ID, "a mistake"); err != nil || len(b.Current()) != 0 {
		t.Errorf("Delete = %v, and %d remain", err, len(b.Current()))
	}
	if _, err := b.Update(ctx, "staff:c", i.ID, Resolved, "x", false); !fault.Is(err, fault.NotFound) {
		t.Errorf("Update of what is deleted = %v, want not found", err)
	}
	var types, actions []string
	for _, e := range m.events {
		types = append(types, string(e.Type))
		if e.AccountID != alert.Everybody || !strings.Contains(string(e.Body), `"url":"https://x.example/status/incidents/inc_`) || strings.Contains(string(e.Body), "staff:") {
			t.Errorf("event = %+v", e)
		}
	}
	for _, e := range m.log {
		actions = append(actions, e.Action)
	}
	if got := strings.Join(types, " "); got != "incident.opened incident.updated incident.resolved incident.updated" {
		t.Errorf("events = %s", got)
	}
	if got := strings.Join(actions, " "); got != "incident.open incident.update incident.update incident.update incident.update incident.edit incident.delete" {
		t.Errorf("audit log = %s", got)
	}
	if m.log[6].Reason != "a mistake" || m.log[6].Actor != "staff:c" {
		t.Errorf("the entry of the end = %+v", m.log[6])
	}
}

// Planned work begins and ends by the clock, or earlier by hand.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	b, now := newBulletin(&memory{})
	plan := Incident{Kind: Maintenance, Title: "Work", From: base.Add(time.Hour), Until: base.Add(2 * time.Hour)}
	i, err := b.Open(t.Context(), "t", plan, "Slow.", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		after time.Duration
		want  Status
	}{{0, Scheduled}, {time.Hour - 1, Scheduled}, {time.Hour, InProgress}, {2*time.Hour - 1, InProgress}, {2 * time.Hour, Completed}} {
		if got := i.At(base.Add(tt.after)); got != tt.want {
			t.Errorf("At(%s) = %s, want %s", tt.after, got, tt.want)
		}
	}
	if i, err = b.Update(t.Context(), "t", i.ID, InProgress, "We begin early.", false); err != nil || !i.From.Equal(base) || !i.Running(*now) || i.Tone(*now) != "info" {
		t.Errorf("work that begins early = %+v, %v", i, err)
	}
	*now = base.Add(time.Minute)
	if i, err = b.Update(t.Context(), "t", i.ID, Completed, "Done.", false); err != nil || !i.Until.Equal(*now) || !i.Over(*now) {
		t.Errorf("work that ends early = %+v, %v", i, err)
	}
	off, err := b.Open(t.Context(), "t", plan, "Slow.", false)
	if err == nil {
		off, err = b.Update(t.Context(), "t", off.ID, Completed, "Called off.", false)
	}
	if err != nil || !off.Over(*now) || !off.From.Before(off.Until) {
		t.Errorf("work that is called off = %+v, %v", off, err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("x", n) }
	many := make([]string, MaxModels+1)
	for i := range many {
		many[i] = fmt.Sprint("m", i)
	}
	later := base.Add(time.Hour)
	for _, tt := range []struct {
		in          Incident
		text, param string
	}{
		{Incident{}, "x", "title"},
		{Incident{Title: long(MaxTitle + 1)}, "x", "title"},
		{Incident{Title: "a\nb"}, "x", "title"},
		{Incident{Title: "t"}, " ", "text"},
		{Incident{Title: "t"}, long(MaxText + 1), "text"},
		{Incident{Title: "t", Severity: "awful"}, "x", "severity"},
		{Incident{Title: "t", Status: Scheduled}, "x", "status"},
		{Incident{Title: "t", Kind: "party", Status: Resolved}, "x", "kind"},
		{Incident{Title: "t", Kind: Maintenance, Severity: Minor}, "x", "severity"},
		{Incident{Title: "t", Components: []Component{"roof"}}, "x", "components"},
		{Incident{Title: "t", Models: many}, "x", "models"},
		{Incident{Title: "t", Models: []string{long(MaxName + 1)}}, "x", "models"},
		{Incident{Title: "t", From: later}, "x", "from"},
		{Incident{Title: "t", From: base.Add(-MaxBehind - time.Hour)}, "x", "from"},
		{Incident{Title: "t", Kind: Maintenance, From: base.Add(MaxAhead + time.Hour)}, "x", "from"},
		{Incident{Title: "t", Kind: Maintenance, From: later, Until: later}, "x", "until"},
		{Incident{Title: "t", Kind: Maintenance, From: later, Until: base.Add(MaxAhead + time.Hour)}, "x", "until"},
	} {
		b, _ := newBulletin(&memory{})
		if _, err := b.Open(t.Context(), "t", tt.in, tt.text, false); !fault.Is(err, fault.Invalid) || fault.From(err).Param != tt.param {
			t.Errorf("Open(%+v, %.10q) = %v about %q, want one about %s", tt.in, tt.text, err, fault.From(err).Param, tt.param)
		}
		if len(b.Current()) != 0 {
			t.Errorf("Open(%+v) left something behind", tt.in)
		}
	}
	for _, in := range []Incident{{Title: strings.Repeat("ä", MaxTitle), Models: many[:MaxModels]}, {Title: "t", Kind: Maintenance, From: later, Until: base.Add(MaxAhead)}} {
		b, _ := newBulletin(&memory{})
		if _, err := b.Open(t.Context(), "t", in, strings.Repeat("ß", MaxText), false); err != nil {
			t.Errorf("Open at the bounds = %v", err)
		}
	}
}

// There are only so many open incidents, and updates of each.
func TestBounds(t *testing.T) {
	t.Parallel()
	b, _ := newBulletin(&memory{})
	var last Incident
	var err error
	for range MaxOpen {
		if last, err = b.Open(t.Context(), "t", Incident{Title: "t"}, "x", true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Open(t.Context(), "t", Incident{Title: "t"}, "x", true); !fault.Is(err, fault.Conflict) {
		t.Errorf("Open of one too many = %v, want a conflict", err)
	}
	for range MaxUpdates - 1 {
		if last, err = b.Update(t.Context(), "t", last.ID, "", "x", true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Update(t.Context(), "t", last.ID, Resolved, "x", true); !fault.Is(err, fault.Conflict) {
		t.Errorf("Update of one too many = %v, want a conflict", err)
	}
	text := strings.Repeat("x", MaxPostmortem)
	if _, err := b.Edit(t.Context(), "t", last.ID, Edit{Postmortem: &text}); err != nil {
		t.Errorf("a postmortem at the bound = %v", err)
	}
	text += "x"
	if _, err := b.Edit(t.Context(), "t", last.ID, Edit{Postmortem: &text}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a postmortem beyond the bound = %v", err)
	}
}

// A bulletin follows what another one changes, within a second also if nobody tells it. While the database is away, it
// shows what it knows.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		one, two := New(m, nil), New(m, &Options{Shared: true})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go two.Run(ctx)
		synctest.Wait()
		if _, err := one.Open(ctx, "t", Incident{Title: "t"}, "x", true); err != nil {
			t.Fatal(err)
		}
		two.Nudge()
		synctest.Wait()
		if len(two.Current()) != 1 {
			t.Error("a bulletin that was told does not know of an incident")
		}
		if _, err := one.Open(ctx, "t", Incident{Title: "u"}, "x", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery + time.Millisecond)
		synctest.Wait()
		if len(two.Current()) != 2 {
			t.Error("a bulletin that nobody told does not know of an incident after a second")
		}
		m.mu.Lock()
		m.away, m.version = errors.New("away"), 9
		m.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(two.Current()) != 2 {
			t.Error("incidents are forgotten while the database is away")
		}
	})
}

// list keeps subscribers, and is full at a number.
type list struct {
	have map[string]alert.Endpoint
}

func (l *list) AddSubscriber(_ context.Context, e *alert.Endpoint, most int) error {
	if _, known := l.have[e.ID]; !known && len(l.have) >= most {
		return fault.New(fault.Conflict, "full")
	}
	l.have[e.ID] = *e
	return nil
}

func (l *list) DropSubscriber(_ context.Context, id string) error {
	delete(l.have, id)
	return nil
}

func (l *list) CountSubscribers(context.Context) (int, error) { return len(l.have), nil }

// post keeps mail, and counts attempts: the first few of an address get mail.
type post struct {
	sent []mail.Message
	by   map[string]int
}

func (p *post) Post(m mail.Message) { p.sent = append(p.sent, m) }

func (p *post) CountSubscription(_ context.Context, _ signin.Visit, address string) (bool, error) {
	p.by[address]++
	return p.by[address] <= 2, nil
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	l, p, key := &list{map[string]alert.Endpoint{}}, &post{by: map[string]int{}}, seal.NewKey()
	s := NewSubscribers(l, p, p, func() Settings { return Settings{Origin: "https://x.example", Brand: "Example", Key: key} })
	now := base
	s.now = func() time.Time { return now }
	ctx := t.Context()
	if err := s.Ask(ctx, signin.Visit{}, "not an address"); !fault.Is(err, fault.Invalid) || fault.From(err).Param != "email" {
		t.Errorf("Ask of no address = %v", err)
	}
	token := func() string {
		t.Helper()
		_, rest, ok := strings.Cut(p.sent[len(p.sent)-1].Text, "https://x.example/status/confirm?token=")
		if !ok {
			t.Fatalf("the mail has no link: %+v", p.sent)
		}
		token, _, _ := strings.Cut(rest, "\n")
		return token
	}
	if err := s.Ask(ctx, signin.Visit{}, " Ana@Example.com "); err != nil || len(p.sent) != 1 || p.sent[0].To != "ana@example.com" || len(l.have) != 0 {
		t.Fatalf("Ask = %v, mail %+v, list %v", err, p.sent, l.have)
	}
	first := token()
	if strings.Contains(first, "ana") {
		t.Error("the link shows the address")
	}
	for _, bad := range []string{"", "x", first + "A", first[:len(first)-2]} {
		if err := s.Confirm(ctx, bad); !fault.Is(err, fault.NotFound) || len(l.have) != 0 {
			t.Errorf("Confirm(%q) = %v", bad, err)
		}
	}
	for range 2 { // the second time changes nothing
		if err := s.Confirm(ctx, first); err != nil || len(l.have) != 1 {
			t.Fatalf("Confirm = %v, %d subscribers", err, len(l.have))
		}
	}
	// Whoever asks again learns nothing, neither about the list nor about the mails that were sent.
	for n := range 3 {
		if err := s.Ask(ctx, signin.Visit{}, "ana@example.com"); err != nil || len(p.sent) != 2 {
			t.Errorf("Ask again, %d = %v with %d mails, want no error and 2 mails", n, err, len(p.sent))
		}
	}
	now = base.Add(confirmFor)
	if err := s.Confirm(ctx, first); !fault.Is(err, fault.NotFound) {
		t.Errorf("Confirm after a day = %v, want not found", err)
	}

	var e alert.Endpoint
	for _, e = range l.have {
	}
	if e.AccountID != alert.Everybody || e.Kind != alert.Mail || !e.Wants(alert.IncidentUpdated) || e.Wants(alert.VideoFailed) {
		t.Errorf("the endpoint = %+v", e)
	}
	i := Incident{ID: "inc_1", Kind: Outage, Title: "Calls fail", Severity: Major, Components: []Component{API}, Models: []string{"lab/a"}, From: base}
	u := Update{ID: "upd_1", At: base, Status: Identified, Text: "We know.", Actor: "staff:secret"}
	ev := i.event(alert.IncidentUpdated, &u, "https://x.example")
	m := s.Letter(&e, &alert.Delivery{Title: ev.Title, Body: ev.Body})
	for _, want := range []string{"Identified: Calls fail\n\nWe know.\n", "Affected: API, lab/a\n", "Since: 19 Nov 2026 12:00 UTC\n", "https://x.example/status/incidents/inc_1\n", m.Unsubscribe + "\n"} {
		if !strings.Contains(m.Text, want) {
			t.Errorf("the mail does not say %q:\n%s", want, m.Text)
		}
	}
	if m.To != "ana@example.com" || m.Subject != "[Example] Identified: Calls fail" || strings.Contains(m.Text, "secret") {
		t.Errorf("the mail = %+v", m)
	}
	leaving, ok := strings.CutPrefix(m.Unsubscribe, "https://x.example/status/unsubscribe?token=")
	if !ok {
		t.Fatalf("the link = %q", m.Unsubscribe)
	}
	for _, bad := range []string{"", e.ID, e.ID + ".", leaving[:len(leaving)-1], "sub_x" + leaving[len(e.ID):]} {
		if err := s.Leave(ctx, bad); !fault.Is(err, fault.NotFound) || len(l.have) != 1 {
			t.Errorf("Leave(%q) = %v", bad, err)
		}
	}
	for range 2 {
		if err := s.Leave(ctx, leaving); err != nil || len(l.have) != 0 {
			t.Errorf("Leave = %v, %d subscribers", err, len(l.have))
		}
	}
}

// A full list takes nobody else.
func TestMostSubscribers(t *testing.T) {
	t.Parallel()
	l, key := &list{map[string]alert.Endpoint{}}, seal.NewKey()
	s := NewSubscribers(l, nil, nil, func() Settings { return Settings{Key: key} })
	for n := range MaxSubscribers + 1 {
		err := s.Confirm(t.Context(), s.confirmation(fmt.Sprintf("a%d@example.com", n)))
		if full := n >= MaxSubscribers; full != fault.Is(err, fault.Conflict) || !full && err != nil {
			t.Fatalf("Confirm of address %d = %v", n, err)
		}
	}
}
