package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/abuse"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/ticket"
	"sluice/internal/store/sqlstore/alltest"
)

// aTicket returns ticket number n of an account, as a customer opens it.
func aTicket(a *account.Account, n int) (*ticket.Ticket, ticket.Message) {
	at := base.Add(time.Duration(n) * time.Minute)
	return &ticket.Ticket{
		ID: fmt.Sprintf("mat_%03d", n), AccountID: a.ID, Email: a.Email, Kind: ticket.Other, Subject: "s", State: ticket.Open, Waits: ticket.Support,
		OpenedAt: at, Since: at, ChangedAt: at, Messages: 1, MailedAt: at, Version: 1,
	}, ticket.Message{Number: 1, At: at, From: ticket.Customer, Author: "owner", Text: "hello"}
}

// openTicket stores a ticket without a bound.
func openTicket(t *testing.T, s *alltest.Store, m *ticket.Ticket, first ticket.Message) {
	t.Helper()
	must(t, s.OpenTicket(t.Context(), m, first, account.Entry{}, 2000, func(ticket.Holding) error { return nil }))
}

// tickets checks that matters are opened under their bounds, changed as a whole or not at all, and listed.
func tickets(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a, other := create(t, s, 1), create(t, s, 2)
	for n := range 4 {
		owner := a
		if n == 3 {
			owner = other
		}
		m, first := aTicket(owner, n)
		openTicket(t, s, m, first)
		got, err := s.Ticket(ctx, m.ID)
		if diff := cmp.Diff(m, got); err != nil || diff != "" {
			t.Errorf("Ticket: %v, -want +got\n%s", err, diff)
		}
	}
	// The check sees what the account has, and its error leaves nothing behind.
	m, first := aTicket(a, 9)
	refusal := errors.New("no")
	err := s.OpenTicket(ctx, m, first, account.Entry{At: base, Action: "matter.open", AccountID: a.ID}, 2000, func(h ticket.Holding) error {
		if h != (ticket.Holding{Open: 3, New: 3, Written: 3}) {
			t.Errorf("the account has %+v, want 3 of everything", h)
		}
		return refusal
	})
	if _, found := s.Ticket(ctx, m.ID); !errors.Is(err, refusal) || !fault.Is(found, fault.NotFound) {
		t.Errorf("OpenTicket that is refused = %v, and then %v", err, found)
	}
	if err := s.OpenTicket(ctx, &ticket.Ticket{ID: "mat_x", AccountID: "acct_none"}, first, account.Entry{}, 9, func(ticket.Holding) error { return nil }); !fault.Is(err, fault.NotFound) {
		t.Errorf("OpenTicket for nobody = %v, want not found", err)
	}
	log, _ := s.AuditLog(ctx, a.ID, 0, 10)
	before := len(log)
	changed, err := s.ChangeTicket(ctx, "mat_000", base.Add(-time.Hour), func(c *ticket.Change) error {
		if c.Email != a.Email || c.Holding != (ticket.Holding{Open: 3, New: 3, Written: 3}) {
			t.Errorf("ChangeTicket shows %+v", c)
		}
		c.State, c.Waits, c.Assignee, c.Since, c.ChangedAt = ticket.Snoozed, ticket.Customer, "eve", base.Add(time.Hour), base.Add(time.Hour)
		c.SnoozedUntil, c.Unread, c.MailedAt, c.Version, c.Messages = base.Add(2*time.Hour), true, base.Add(time.Minute), 2, 2
		c.Say = ticket.Message{Number: 2, At: base.Add(time.Hour), From: ticket.Support, Author: "eve", Text: "hi"}
		c.Audit = account.Entry{At: base, Actor: "eve", Action: "matter.answer", AccountID: a.ID}
		return nil
	})
	must(t, err)
	got, err := s.Ticket(ctx, "mat_000")
	if diff := cmp.Diff(changed, got); err != nil || diff != "" || got.Assignee != "eve" {
		t.Errorf("Ticket after a change: %v, -want +got\n%s", err, diff)
	}
	messages, err := s.TicketMessages(ctx, "mat_000", 10)
	if err != nil || len(messages) != 2 || messages[0].Text != "hello" || messages[1].Author != "eve" || messages[1].Number != 2 {
		t.Errorf("TicketMessages = %+v, %v", messages, err)
	}
	if log, _ := s.AuditLog(ctx, a.ID, 0, 10); len(log) != before+1 || log[0].Action != "matter.answer" {
		t.Errorf("AuditLog = %+v, want the answer", log)
	}
	if _, err := s.ChangeTicket(ctx, "mat_000", base, func(c *ticket.Change) error { c.Assignee = "x"; return refusal }); !errors.Is(err, refusal) {
		t.Errorf("ChangeTicket that is refused = %v", err)
	}
	if _, err := s.ChangeTicket(ctx, "mat_none", base, func(*ticket.Change) error { return nil }); !fault.Is(err, fault.NotFound) {
		t.Errorf("ChangeTicket of none = %v, want not found", err)
	}
	// The customer's side.
	for _, tt := range []struct {
		id   string
		want int
	}{{other.ID, 1}, {a.ID, 0}} {
		must(t, s.ReadTicket(ctx, tt.id, "mat_000")) // another account's reading changes nothing
		if n, err := s.UnreadTickets(ctx, a.ID); err != nil || n != tt.want {
			t.Errorf("UnreadTickets after %s has read = %d, %v, want %d", tt.id, n, err, tt.want)
		}
	}
	list, err := s.TicketsOf(ctx, a.ID, true, ticket.Place{}, 2)
	if err != nil || names(list) != "mat_002 mat_001" {
		t.Errorf("TicketsOf = %s, %v", names(list), err)
	}
	list, err = s.TicketsOf(ctx, a.ID, true, ticket.Place{At: list[1].OpenedAt, ID: list[1].ID}, 2)
	if err != nil || names(list) != "mat_000" {
		t.Errorf("TicketsOf, second page = %s, %v", names(list), err)
	}
}

// names lists the ids of tickets.
func names(list []ticket.Ticket) (text string) {
	for i := range list {
		if i > 0 {
			text += " "
		}
		text += list[i].ID
	}
	return text
}

// ticketQueue checks the order, the pages and the filters of the queue.
func ticketQueue(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a := create(t, s, 1)
	for n := range 8 {
		m, first := aTicket(a, n)
		m.Since = base // the id decides
		switch n {
		case 4:
			m.Waits = ticket.Customer
		case 5:
			m.State, m.SnoozedUntil = ticket.Snoozed, base.Add(time.Hour)
		case 6, 7:
			m.State = ticket.Closed
		case 0:
			m.Assignee, m.Kind, m.Since = "eve", ticket.Restore, base.Add(time.Hour)
		}
		openTicket(t, s, m, first)
	}
	for _, tt := range []struct {
		q    ticket.Query
		want string
	}{
		{ticket.Query{View: ticket.Waiting, Limit: 9}, "mat_001 mat_002 mat_003 mat_000"},
		{ticket.Query{View: ticket.Waiting, Limit: 2}, "mat_001 mat_002"},
		{ticket.Query{View: ticket.Waiting, Limit: 2, After: ticket.Place{At: base, ID: "mat_002"}}, "mat_003 mat_000"},
		{ticket.Query{View: ticket.Waiting, Limit: 9, Assignee: "eve"}, "mat_000"},
		{ticket.Query{View: ticket.Waiting, Limit: 9, Assignee: ticket.Nobody}, "mat_001 mat_002 mat_003"},
		{ticket.Query{View: ticket.Waiting, Limit: 9, Kind: ticket.Restore}, "mat_000"},
		{ticket.Query{View: ticket.Answered, Limit: 9}, "mat_004"},
		{ticket.Query{View: ticket.Sleeping, Limit: 9}, "mat_005"},
		{ticket.Query{View: ticket.Done, Limit: 9}, "mat_007 mat_006"},
		{ticket.Query{View: ticket.Done, Limit: 9, After: ticket.Place{At: base, ID: "mat_007"}}, "mat_006"},
	} {
		if list, err := s.TicketQueue(ctx, tt.q); err != nil || names(list) != tt.want {
			t.Errorf("TicketQueue(%+v) = %s, %v, want %s", tt.q, names(list), err, tt.want)
		}
	}
	counts, err := s.TicketCounts(ctx)
	if diff := cmp.Diff(map[ticket.View]int{ticket.Waiting: 4, ticket.Answered: 1, ticket.Sleeping: 1}, counts); err != nil || diff != "" {
		t.Errorf("TicketCounts: %v\n%s", err, diff)
	}
	// The oldest closed ones make room, and only those.
	m, first := aTicket(a, 20)
	must(t, s.OpenTicket(ctx, m, first, account.Entry{}, 8, func(ticket.Holding) error { return nil }))
	list, err := s.TicketsOf(ctx, a.ID, true, ticket.Place{}, 99)
	if err != nil || len(list) != 8 || slices.ContainsFunc(list, func(m ticket.Ticket) bool { return m.ID == "mat_006" }) {
		t.Errorf("TicketsOf after the bound = %s, %v", names(list), err)
	}
	if left, err := s.TicketMessages(ctx, "mat_006", 9); err != nil || len(left) > 0 {
		t.Errorf("TicketMessages of a deleted ticket = %+v, %v", left, err)
	}
}

// gatherTickets checks that each cause opens one ticket, that it is closed with its cause, and that snoozed tickets wake.
func gatherTickets(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	climber, off, payer, old := create(t, s, 1), create(t, s, 2), create(t, s, 3), create(t, s, 4)
	event := func(a *account.Account, kind abuse.Kind, at time.Time) abuse.Event {
		return abuse.Event{At: at, AccountID: a.ID, Kind: kind, Plan: account.Basic, Tier: account.Free, Score: 90}
	}
	must(t, s.RecordAbuseEvents(ctx, []abuse.Event{
		event(climber, abuse.Warning, base), event(climber, abuse.Inquiry, base), event(climber, abuse.Review, base), event(climber, abuse.Review, base.Add(time.Hour)),
		event(off, abuse.Inquiry, base), event(old, abuse.Review, base.AddDate(0, 0, -20)), event(old, abuse.Inquiry, base.AddDate(0, -1, 0)),
		{At: base, AccountID: "acct_none", Kind: abuse.Review, Plan: account.Basic, Tier: account.Free},
	}))
	switchOff := func(a *account.Account, m *account.Mark) {
		t.Helper()
		_, err := s.ChangeAccount(ctx, a.ID, func(x *account.Account) (account.Entry, error) {
			x.Deactivated = m
			return account.Entry{At: base, Action: "x", AccountID: a.ID}, nil
		})
		must(t, err)
	}
	switchOff(off, &account.Mark{At: base, Reason: "r"})
	fails := func(since time.Time, n int) {
		t.Helper()
		_, err := s.ChangeBilling(ctx, payer.ID, "", func(b *billing.Record) error {
			b.Plan, b.Failed, b.FailingSince = account.Basic, n, since
			return nil
		})
		must(t, err)
	}
	fails(base, 1)
	gather := func(now time.Time) {
		t.Helper()
		for more := true; more; {
			var err error
			more, err = s.GatherTickets(ctx, now, 2)
			must(t, err)
		}
	}
	queue := func() (text string) {
		t.Helper()
		list, err := s.TicketQueue(ctx, ticket.Query{View: ticket.Waiting, Limit: 99})
		must(t, err)
		var all []string
		for _, m := range list {
			all = append(all, m.Email[:len(m.Email)-len("@example.com")]+" "+string(m.Kind))
			if m.Messages != 0 || m.Subject == "" {
				t.Errorf("the service has opened %+v", m)
			}
		}
		slices.Sort(all)
		return fmt.Sprint(all)
	}
	name := func(a *account.Account) string { return a.Email[:len(a.Email)-len("@example.com")] }
	now := base.Add(2 * time.Hour)
	want := fmt.Sprintf("[%s climb %s past-90 %s deactivated %s payment]", name(climber), name(climber), name(off), name(payer))
	for range 2 { // the second finds nothing new
		gather(now)
		if got := queue(); got != want {
			t.Errorf("gathered %s, want %s", got, want)
		}
	}
	if list, err := s.TicketsOf(ctx, climber.ID, true, ticket.Place{}, 9); err != nil || len(list) != 0 {
		t.Errorf("the customer sees %s, %v", names(list), err)
	}
	// A closed ticket stays closed while its cause lasts; another cause opens another.
	list, err := s.TicketsOf(ctx, off.ID, false, ticket.Place{}, 9)
	must(t, err)
	for _, m := range list {
		_, err := s.ChangeTicket(ctx, m.ID, base, func(c *ticket.Change) error { c.State = ticket.Closed; return nil })
		must(t, err)
	}
	fails(base.Add(time.Hour), 1)
	gather(now)
	gather(now)
	if got, want := queue(), fmt.Sprintf("[%s climb %s past-90 %s payment]", name(climber), name(climber), name(payer)); got != want {
		t.Errorf("after one was closed %s, want %s", got, want)
	}
	switchOff(off, nil)
	switchOff(off, &account.Mark{At: base.Add(time.Hour), Reason: "again"})
	fails(time.Time{}, 0)
	gather(now)
	if got, want := queue(), fmt.Sprintf("[%s climb %s past-90 %s deactivated]", name(climber), name(climber), name(off)); got != want {
		t.Errorf("after the payment %s, want %s", got, want)
	}
	// The next month ends a score; keys that are off are the ticket instead of the climb.
	switchOff(climber, &account.Mark{At: now, Reason: "r"})
	switchOff(off, nil)
	gather(base.AddDate(0, 1, 0))
	if got, want := queue(), fmt.Sprintf("[%s deactivated]", name(climber)); got != want {
		t.Errorf("after the month %s, want %s", got, want)
	}
	// A snoozed ticket wakes at its time.
	m, first := aTicket(off, 50)
	m.State, m.SnoozedUntil = ticket.Snoozed, now
	openTicket(t, s, m, first)
	for _, tt := range []struct {
		at   time.Time
		want ticket.State
	}{{now.Add(-time.Second), ticket.Snoozed}, {now, ticket.Open}} {
		gather(tt.at)
		if got, err := s.Ticket(ctx, m.ID); err != nil || got.State != tt.want {
			t.Errorf("a snoozed ticket is %+v at %s, %v, want %s", got, tt.at, err, tt.want)
		}
	}
}

// joinInquiries checks that inquiries in notices become threads, with their answers.
func joinInquiries(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a, b := create(t, s, 1), create(t, s, 2)
	ask := func(id string, to *account.Account, answer string) {
		n := notice.Notice{ID: id, AccountID: to.ID, At: base, Kind: notice.Inquiry, Title: "A question", Body: "What for?", Answer: answer}
		if answer != "" {
			n.AnsweredAt = base.Add(time.Hour)
		}
		must(t, s.AddNotice(ctx, &n))
	}
	ask("note_1", a, "")
	ask("note_2", a, "for a bot")
	ask("note_3", b, "")
	must(t, s.AddNotice(ctx, &notice.Notice{ID: "note_4", AccountID: a.ID, At: base, Kind: notice.Warning, Title: "w", Body: "w"}))
	thread := func(id string, want ...string) {
		t.Helper()
		list, err := s.TicketsOf(ctx, id, true, ticket.Place{}, 9)
		must(t, err)
		var got []string
		for i := range list {
			messages, err := s.TicketMessages(ctx, list[i].ID, 9)
			must(t, err)
			text := string(list[i].Waits)
			for j, x := range messages {
				if x.Number != j+1 {
					t.Errorf("message %d has the number %d", j+1, x.Number)
				}
				text += " " + string(x.From) + ":" + x.Text
			}
			got = append(got, text)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("threads of %s: -want +got\n%s", id, diff)
		}
	}
	join := func(id string) {
		t.Helper()
		for range 2 {
			for more := true; more; {
				var err error
				more, err = s.JoinInquiries(ctx, id, 1)
				must(t, err)
			}
		}
	}
	join(a.ID)
	thread(a.ID, "customer support:What for?", "support support:What for? customer:for a bot")
	thread(b.ID)
	join("")
	thread(b.ID, "customer support:What for?")
	// What is a thread is new once: there, until it is answered.
	told, err := s.UnreadNotices(ctx, a.ID)
	must(t, err)
	if asked, err := s.UnreadTickets(ctx, a.ID); err != nil || told != 1 || asked != 1 {
		t.Errorf("%d notices and %d threads are new, %v, want 1 and 1", told, asked, err)
	}
	list, err := s.Notices(ctx, a.ID, 9)
	if err != nil || len(list) != 3 {
		t.Fatalf("Notices = %+v, %v", list, err)
	}
	for _, n := range list {
		if n.Joined != (n.Kind == notice.Inquiry) {
			t.Errorf("the notice %s is joined: %t", n.ID, n.Joined)
		}
	}
}
