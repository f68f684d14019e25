package ticket_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/mail"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/ticket"
	"sluice/internal/store/sqlstore/alltest"
)

type box []mail.Message

func (b *box) Post(m mail.Message) { *b = append(*b, m) }

// scene is an office with an account, a clock that only the test moves, and the mail that was sent.
type scene struct {
	*ticket.Office
	t     *testing.T
	store *alltest.Store
	now   time.Time
	box   box
	ana   *account.Account
}

func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	s, err := alltest.Open(t.Context(), "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	a, _, err := account.New(s, nil).Create(t.Context(), "t", "ana@example.com", account.Basic, false)
	if err != nil {
		t.Fatal(err)
	}
	c := &scene{t: t, store: s, now: time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC), ana: a}
	c.Office = ticket.NewOffice(s, &c.box, func() ticket.Settings { return ticket.Settings{Origin: "https://x.example", Staff: "help@example.com"} }, nil)
	c.SetClock(func() time.Time { return c.now })
	return c
}

func (c *scene) begin(subject string) *ticket.Ticket {
	c.t.Helper()
	m, err := c.Begin(c.t.Context(), c.ana, ticket.Other, subject, "hello")
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

func TestBegin(t *testing.T) {
	c := newScene(t)
	ctx := t.Context()
	for _, tt := range []struct {
		kind          ticket.Kind
		subject, text string
		param         string
	}{
		{"", "s", "t", "kind"},
		{ticket.Deactivated, "s", "t", "kind"},
		{ticket.Other, " ", "t", "subject"},
		{ticket.Other, strings.Repeat("x", ticket.MostSubject+1), "t", "subject"},
		{ticket.Other, "s", "\n ", "text"},
		{ticket.Other, "s", strings.Repeat("x", ticket.MostText+1), "text"},
	} {
		if _, err := c.Begin(ctx, c.ana, tt.kind, tt.subject, tt.text); !fault.Is(err, fault.Invalid) || fault.From(err).Param != tt.param {
			t.Errorf("Begin(%q, %.5q, %.5q) = %v, want invalid at %s", tt.kind, tt.subject, tt.text, err, tt.param)
		}
	}
	m, err := c.Begin(ctx, c.ana, ticket.Restore, " a\nb\x00 ", " x\r\ny\x00\xff ")
	if err != nil {
		t.Fatal(err)
	}
	got, messages, err := c.Thread(ctx, c.ana.ID, m.ID)
	if err != nil || got.Subject != "a b" || len(messages) != 1 || messages[0].Text != "x\ny\uFFFD" || got.Waits != ticket.Support {
		t.Errorf("Thread = %+v, %+v, %v", got, messages, err)
	}
	if len(c.box) != 1 || c.box[0].To != "help@example.com" || !strings.Contains(c.box[0].Text, "ana@example.com") || !strings.Contains(c.box[0].Text, "https://x.example/support/queue/"+m.ID) {
		t.Errorf("mailed %+v, want a mail to staff", c.box)
	}
	if _, _, err := c.Thread(ctx, "acct_other", m.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Thread of another account = %v, want not found", err)
	}
}

func TestBounds(t *testing.T) {
	c := newScene(t)
	ctx := t.Context()
	// 20 are open at once.
	var all []*ticket.Ticket
	for i := range 20 {
		all = append(all, c.begin(fmt.Sprint(i)))
	}
	if _, err := c.Begin(ctx, c.ana, ticket.Other, "s", "t"); !fault.Is(err, fault.RateLimited) {
		t.Errorf("the 21st open conversation = %v, want a refusal", err)
	}
	closeAll := func() {
		t.Helper()
		for _, m := range all {
			if _, err := c.Close(ctx, ticket.Act{Actor: "eve", ID: m.ID}, ""); err != nil {
				t.Fatal(err)
			}
		}
		all = nil
	}
	first := all[0]
	// A closed one does not open again beyond the bound.
	if _, err := c.Close(ctx, ticket.Act{Actor: "eve", ID: first.ID}, "done"); err != nil {
		t.Fatal(err)
	}
	all = append(all, c.begin("again"))
	if _, err := c.Reply(ctx, c.ana.ID, first.ID, "more"); !fault.Is(err, fault.RateLimited) {
		t.Errorf("a reply that opens the 21st = %v, want a refusal", err)
	}
	closeAll()
	// 50 within 24 hours.
	for n := 21; n < 50; n++ {
		if len(all) == 19 {
			closeAll()
		}
		all = append(all, c.begin(fmt.Sprint(n)))
	}
	closeAll()
	if _, err := c.Begin(ctx, c.ana, ticket.Other, "s", "t"); !fault.Is(err, fault.RateLimited) {
		t.Errorf("the 51st conversation of a day = %v, want a refusal", err)
	}
	c.now = c.now.Add(25 * time.Hour)
	m := c.begin("the next day")
	// 200 messages within 24 hours, and 400 in a thread.
	for n := 1; n < ticket.MostMessages; n++ {
		if n%200 == 0 {
			if _, err := c.Reply(ctx, c.ana.ID, m.ID, "x"); !fault.Is(err, fault.RateLimited) {
				t.Errorf("message %d = %v, want a refusal", n, err)
			}
			c.now = c.now.Add(25 * time.Hour)
		}
		if _, err := c.Reply(ctx, c.ana.ID, m.ID, "x"); err != nil {
			t.Fatalf("message %d = %v", n, err)
		}
	}
	c.now = c.now.Add(25 * time.Hour)
	if _, err := c.Reply(ctx, c.ana.ID, m.ID, "x"); !fault.Is(err, fault.Conflict) {
		t.Errorf("message 401 = %v, want a refusal", err)
	}
	if _, err := c.Answer(ctx, ticket.Act{Actor: "eve", ID: m.ID}, "x"); !fault.Is(err, fault.Conflict) {
		t.Errorf("message 401 of support = %v, want a refusal", err)
	}
}

// TestMail checks that staff gets a mail about a thread every 15 minutes at most, and the customer one for each answer.
func TestMail(t *testing.T) {
	c := newScene(t)
	ctx := t.Context()
	m := c.begin("s")
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{{time.Minute, 0}, {13 * time.Minute, 0}, {time.Minute, 1}, {time.Minute, 0}, {14 * time.Minute, 1}} {
		c.now, c.box = c.now.Add(tt.after), nil
		if _, err := c.Reply(ctx, c.ana.ID, m.ID, "more"); err != nil {
			t.Fatal(err)
		}
		if len(c.box) != tt.want {
			t.Errorf("%s later: %d mails to staff, want %d", tt.after, len(c.box), tt.want)
		}
	}
	for range 2 {
		c.box = nil
		if _, err := c.Answer(ctx, ticket.Act{Actor: "eve", ID: m.ID}, "an answer"); err != nil {
			t.Fatal(err)
		}
		if len(c.box) != 1 || c.box[0].To != c.ana.Email || !strings.Contains(c.box[0].Text, "https://x.example/dashboard/messages/"+m.ID) {
			t.Errorf("mailed %+v, want the answer", c.box)
		}
	}
}

// TestStates walks a ticket through what staff and the customer can do with it.
func TestStates(t *testing.T) {
	c := newScene(t)
	ctx := t.Context()
	m := c.begin("s")
	act := func() ticket.Act { return ticket.Act{Actor: "eve", ID: m.ID, Version: m.Version} }
	check := func(what string, got *ticket.Ticket, err error, state ticket.State, waits ticket.Side, who string) {
		t.Helper()
		if err != nil || got.State != state || got.Waits != waits || got.Assignee != who {
			t.Fatalf("%s = %+v, %v, want %s, for %s, of %q", what, got, err, state, waits, who)
		}
		if got.Version <= m.Version {
			t.Errorf("%s made version %d of %d", what, got.Version, m.Version)
		}
		m = got
		c.now = c.now.Add(time.Minute)
	}
	old := act()
	got, err := c.Assign(ctx, act(), "max")
	check("Assign", got, err, ticket.Open, ticket.Support, "max")
	if _, err := c.Assign(ctx, old, "eve"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "assigned to max") {
		t.Errorf("Assign with an old version = %v, want what changed", err)
	}
	got, err = c.Assign(ctx, act(), "")
	check("Assign to nobody", got, err, ticket.Open, ticket.Support, "")
	got, err = c.Answer(ctx, act(), "an answer")
	check("Answer", got, err, ticket.Open, ticket.Customer, "eve")
	if n, err := c.Unread(ctx, c.ana.ID); err != nil || n != 1 {
		t.Errorf("Unread = %d, %v", n, err)
	}
	if err := c.ReadAll(ctx, c.ana.ID); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Unread(ctx, c.ana.ID); err != nil || n != 0 {
		t.Errorf("Unread after ReadAll = %d, %v, want 0", n, err)
	}
	got, err = c.Snooze(ctx, act(), c.now.Add(time.Hour))
	check("Snooze", got, err, ticket.Snoozed, ticket.Customer, "eve")
	for _, until := range []time.Time{c.now, c.now.AddDate(2, 0, 0)} {
		if _, err := c.Snooze(ctx, act(), until); !fault.Is(err, fault.Invalid) {
			t.Errorf("Snooze until %s = %v, want invalid", until, err)
		}
	}
	since := m.Since
	got, err = c.Reply(ctx, c.ana.ID, m.ID, "more")
	check("Reply", got, err, ticket.Open, ticket.Support, "eve")
	if !m.Since.After(since) || m.Unread {
		t.Errorf("after the reply %+v, want it to wait from now on", m)
	}
	// Who waits does not lose the place in the queue by a snooze that is taken back.
	waits := m.Since
	got, err = c.Snooze(ctx, act(), c.now.Add(time.Hour))
	check("Snooze", got, err, ticket.Snoozed, ticket.Support, "eve")
	got, err = c.Reopen(ctx, act())
	check("Reopen of a snoozed ticket", got, err, ticket.Open, ticket.Support, "eve")
	if !m.Since.Equal(waits) {
		t.Errorf("after the snooze was taken back it waits since %s, want %s", m.Since, waits)
	}
	got, err = c.Close(ctx, act(), "solved")
	check("Close", got, err, ticket.Closed, ticket.Support, "eve")
	if _, err := c.Snooze(ctx, act(), c.now.Add(time.Hour)); !fault.Is(err, fault.Conflict) {
		t.Errorf("Snooze of a closed ticket = %v", err)
	}
	got, err = c.Reopen(ctx, act())
	check("Reopen", got, err, ticket.Open, ticket.Support, "eve")
	got, err = c.Decide(ctx, act(), ticket.Decision{Action: "matter.warn", Text: "Please stop.", Close: true, Reason: "resells"})
	check("Decide", got, err, ticket.Closed, ticket.Customer, "eve")
	got, err = c.Take(ctx, act())
	check("Take", got, err, ticket.Closed, ticket.Customer, "eve")
	log, err := c.store.AuditLog(ctx, c.ana.ID, 0, 99)
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, e := range log {
		actions = append([]string{e.Action}, actions...)
	}
	want := "account.create matter.open matter.assign matter.assign matter.answer matter.snooze matter.snooze matter.reopen matter.close matter.reopen matter.warn"
	if got := strings.Join(actions, " "); got != want {
		t.Errorf("the audit log has %s, want %s", got, want)
	}
	if log[0].Reason != "resells" || !strings.HasPrefix(log[0].Detail, m.ID) || log[0].Actor != "eve" {
		t.Errorf("the last entry is %+v", log[0])
	}
}

func TestQueue(t *testing.T) {
	c := newScene(t)
	ctx := t.Context()
	for i := range 5 {
		c.begin(fmt.Sprint(i))
		c.now = c.now.Add(time.Minute)
	}
	var got []string
	after := ticket.Place{}
	for {
		list, next, err := c.Queue(ctx, ticket.Query{After: after, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			got = append(got, list[i].Subject)
		}
		// The cursor survives its text.
		if after, err = ticket.ParsePlace(next.String()); err != nil || after != next {
			t.Fatalf("ParsePlace(%q) = %v, %v", next, after, err)
		}
		if next == (ticket.Place{}) {
			break
		}
	}
	if text := strings.Join(got, " "); text != "0 1 2 3 4" {
		t.Errorf("the queue is %s, want all, oldest first", text)
	}
	for _, q := range []ticket.Query{{View: "all"}, {Kind: "x"}} {
		if _, _, err := c.Queue(ctx, q); !fault.Is(err, fault.Invalid) {
			t.Errorf("Queue(%+v) = %v, want invalid", q, err)
		}
	}
	for _, text := range []string{"x", "1", "1.", ".x", "x.y"} {
		if _, err := ticket.ParsePlace(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("ParsePlace(%q) = %v, want invalid", text, err)
		}
	}
	if counts, err := c.Counts(ctx); err != nil || counts[ticket.Waiting] != 5 {
		t.Errorf("Counts = %v, %v", counts, err)
	}
	if err := c.Gather(ctx); err != nil {
		t.Error(err)
	}
}

// noting is a store that notes the bounds that it is given.
type noting struct {
	ticket.Store
	keep, limit int
}

func (n *noting) OpenTicket(_ context.Context, _ *ticket.Ticket, _ ticket.Message, _ account.Entry, keep int, _ func(ticket.Holding) error) error {
	n.keep = keep
	return nil
}

func (n *noting) TicketQueue(_ context.Context, q ticket.Query) ([]ticket.Ticket, error) {
	n.limit = q.Limit
	return make([]ticket.Ticket, q.Limit), nil
}

// TestKept checks the bounds that the store applies; storetest checks that it does.
func TestKept(t *testing.T) {
	t.Parallel()
	s := &noting{}
	o := ticket.NewOffice(s, nil, func() ticket.Settings { return ticket.Settings{} }, nil)
	if _, err := o.Begin(t.Context(), &account.Account{}, ticket.Other, "s", "t"); err != nil || s.keep != 2000 {
		t.Errorf("Begin = %v, keeps %d, want 2000", err, s.keep)
	}
	if list, _, err := o.Queue(t.Context(), ticket.Query{Limit: 9999}); err != nil || len(list) != 200 {
		t.Errorf("Queue = %d tickets, %v, want 200", len(list), err)
	}
}
