package demo

import (
	"context"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/feedback"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/steering"
	"sluice/internal/operate/ticket"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

// staffName is how the audit log names the member of staff.
const staffName = "staff:" + helpdesk + domain

// ribbon is what every page says.
const ribbon = "Demonstration: all data is made up."

// plan says what happens beside the calls.
func (h *history) plan() {
	h.at(18, 10.5, h.upgrade)
	h.at(6, 9.2, func(ctx context.Context) error {
		return h.billing.SetDetails(ctx, h.members[engineering].account.ID, billing.Details{
			Name: company, Address: "12 Harbour Lane\nPort Tidewater", Country: "GB", TaxID: "XX 123 456 789", Email: "books" + domain,
		})
	})
	h.at(7, 11, func(ctx context.Context) error {
		_, err := h.hooks.Create(ctx, "owner", h.members[engineering].account.ID, h.origin+hookPath, nil)
		return err
	})
	h.threads()
	h.outage()
	h.runaway()
	h.when(h.end.Add(-time.Second), h.announce)
	h.when(h.end.Add(-time.Second), h.testHook)
}

// testHook sends a test to the webhook. It arrives when the server runs.
func (h *history) testHook(ctx context.Context) error {
	id := h.members[engineering].account.ID
	list, _, err := h.hooks.List(ctx, id)
	if err != nil || len(list) == 0 {
		return err
	}
	_, err = h.hooks.Test(ctx, id, list[0].ID)
	return err
}

// makeGood credits the engineers for the outage, and tells them.
func (h *history) makeGood(ctx context.Context) error {
	id := h.members[engineering].account.ID
	if err := h.billing.Credit(ctx, staffName, id, 5_00, "the outage of "+outageProvider); err != nil {
		return err
	}
	h.letters.Support(ctx, id, "You have a credit of $5.00", "For the outage at Anthropic this afternoon. It comes off your next renewal.")
	return nil
}

// upgrade moves the engineers to a larger plan.
func (h *history) upgrade(ctx context.Context) error {
	id := h.members[engineering].account.ID
	offer, err := h.billing.Quote(ctx, id, account.Scale)
	if err != nil {
		return err
	}
	_, err = h.billing.Upgrade(ctx, "owner", id, offer)
	return err
}

// say is one message of a thread, and how long after the one before it came.
type say struct {
	after time.Duration
	from  ticket.Side
	text  string
}

// thread is a conversation of an account with support.
type thread struct {
	who     string
	kind    ticket.Kind
	subject string
	day     int
	hour    float64
	says    []say
	closes  bool
}

// threads are the conversations of the history.
func (h *history) threads() {
	for _, t := range []thread{
		{care, ticket.Billing, "Our company name on invoices", 9, 9.4, []say{
			{0, ticket.Customer, "Hello, our bookkeeper needs the company's name and tax number on the invoices. Where can I enter them?"},
			{42 * time.Minute, ticket.Support, "Hello Lena, on the page Plan, under “On your invoices”. Earlier invoices have the new details as well."},
			{25 * time.Minute, ticket.Customer, "Found it. Thank you!"},
		}, true},
		{data, ticket.Downgrade, "From Premium to Basic", -4, 15.1, []say{
			{0, ticket.Customer, "The notebooks need less than we thought. Can you put us on Basic from the next period?"},
		}, false},
		{engineering, ticket.Other, "A second budget for the staging key", -2, 10.2, []say{
			{0, ticket.Customer, "Can the staging key have a limit in units a month as well, so that a test that loops does not use up our plan?"},
			{95 * time.Minute, ticket.Support, "Yes. Open Keys, choose Edit beside the key, and set units a month under Limits. 2,000 is a good start: your tests used 1,100 last month."},
		}, false},
	} {
		h.talk(t)
	}
}

// talk adds the moments of a conversation.
func (h *history) talk(t thread) {
	var opened *ticket.Ticket
	at := h.from.Truncate(24*time.Hour).AddDate(0, 0, t.day)
	if t.day < 0 {
		at = h.end.Truncate(24*time.Hour).AddDate(0, 0, t.day)
	}
	at = at.Add(time.Duration(t.hour * float64(time.Hour)))
	for i, s := range t.says {
		at = at.Add(s.after)
		h.when(at, func(ctx context.Context) (err error) {
			who := h.members[t.who].account
			switch {
			case i == 0:
				opened, err = h.office.Begin(ctx, who, t.kind, t.subject, s.text)
				if err == nil && t.kind == ticket.Downgrade {
					err = h.billing.RequestDowngrade(ctx, "owner", who.ID, account.Basic, s.text)
				}
			case s.from == ticket.Support:
				_, err = h.office.Answer(ctx, ticket.Act{Actor: staffName, ID: opened.ID}, s.text)
			default:
				_, err = h.office.Reply(ctx, who.ID, opened.ID, s.text)
			}
			if err == nil && t.closes && i == len(t.says)-1 {
				_, err = h.office.Close(ctx, ticket.Act{Actor: staffName, ID: opened.ID}, "answered")
			}
			return err
		})
	}
}

// outage is the afternoon on which a provider was down: an alert when it began and one when it was over, and a thread.
func (h *history) outage() {
	from, until := outage(h.end)
	sight := alert.DownUpstreams([]routing.TargetHealth{
		{Provider: outageProvider, Upstream: sonnet, Down: true}, {Provider: outageProvider, Upstream: haiku, Down: true},
	})[0]
	condition := alert.NewCondition(&sight, from)
	report := func(at time.Time, holding ...alert.Condition) {
		h.when(at, func(ctx context.Context) error {
			return h.conds.ReportConditions(ctx, "tidewater-1", at, at.Add(-time.Hour), holding)
		})
	}
	h.tell(from, until)
	report(from.Add(20*time.Second), condition)
	report(until)
	h.when(until.Add(95*time.Minute), h.makeGood)
	day := int(from.Truncate(24*time.Hour).Sub(h.end.Truncate(24*time.Hour)) / (24 * time.Hour))
	h.talk(thread{engineering, ticket.Other, "Claude Haiku answers 503", day, 14, []say{
		{0, ticket.Customer, "Since about 13:40 every call of claude-haiku-5-5 from the support bot fails with 503. Sonnet works, but is slower than usual. Is something wrong?"},
		{9 * time.Minute, ticket.Support, "Anthropic is down. Sonnet is served by Bedrock meanwhile, which is why it still answers. Haiku has no second provider; gpt-6-luna costs the same and works."},
		{4 * time.Minute, ticket.Customer, "We have switched the bot to gpt-6-luna. Thanks for the quick answer."},
		{64 * time.Minute, ticket.Support, "Anthropic is up again since 15:04. You can switch back. Calls that failed were not counted."},
	}, true})
}

// tell writes about the outage on the status page, and about maintenance that is planned.
func (h *history) tell(from, until time.Time) {
	var id string
	h.when(from.Add(6*time.Minute), func(ctx context.Context) error {
		i, err := h.bulletin.Open(ctx, staffName, incident.Incident{
			Title: "Requests to Claude Haiku fail", Severity: incident.Major, Components: []incident.Component{incident.API}, Models: []string{haiku, sonnet}, From: from,
		}, "Since 13:40 UTC every call of Claude Haiku fails with 503. Claude Sonnet answers, but more slowly than usual. We are finding out why.", false)
		id = i.ID
		return err
	})
	for _, u := range []struct {
		at     time.Time
		status incident.Status
		text   string
	}{
		{from.Add(21 * time.Minute), incident.Identified, "Anthropic refuses connections. Calls of Claude Sonnet go to Amazon Bedrock, so they pass. Claude Haiku has no second provider: gpt-6-luna costs the same and works.\n\nThe next update comes when Anthropic answers again, at the latest in an hour."},
		{until.Add(2 * time.Minute), incident.Monitoring, "Anthropic accepts connections again, and calls of both models pass. We are watching."},
		{until.Add(32 * time.Minute), incident.Resolved, "All calls have passed for half an hour. Calls that failed were not counted."},
	} {
		h.when(u.at, func(ctx context.Context) error {
			_, err := h.bulletin.Update(ctx, staffName, id, u.status, u.text, false)
			return err
		})
	}
	h.when(until.Add(20*time.Hour), func(ctx context.Context) error {
		postmortem := "Anthropic lost a data centre for 83 minutes. Claude Sonnet was served by Amazon Bedrock meanwhile; Claude Haiku had only one provider, so all of its calls failed.\n\nWe have asked for access to Claude Haiku at Amazon Bedrock, so that both models have two providers from next week on."
		_, err := h.bulletin.Edit(ctx, staffName, id, incident.Edit{Postmortem: &postmortem})
		return err
	})
	h.when(h.end.Add(-26*time.Hour), func(ctx context.Context) error {
		begins := h.end.Truncate(24 * time.Hour).Add(70 * time.Hour)
		_, err := h.bulletin.Open(ctx, staffName, incident.Incident{
			Kind: incident.Maintenance, Title: "The database moves to larger servers", Components: []incident.Component{incident.Dashboard}, From: begins, Until: begins.Add(time.Hour),
		}, "The dashboard may be slow, and changes of keys and plans may fail for some minutes. Calls of models pass as usual.", false)
		return err
	})
}

// runaway is the loop that used up the month of the intern, whose keys are off since.
func (h *history) runaway() {
	began := h.end.Add(-runawayAgo)
	for _, e := range []struct {
		call, score int
		kind        abuse.Kind
		why         string
	}{
		{195, 50, abuse.Warning, "the score has reached 50"},
		{240, 61, abuse.Review, "the score rose by 55 within 24 hours"},
		{295, 75, abuse.Warning, "the score has reached 75"},
		{355, 90, abuse.Inquiry, "the score has reached 90"},
		{runawayCalls, 100, abuse.Deactivated, "the score has reached 100"},
	} {
		h.when(began.Add(time.Duration(e.call)*runawayPause), func(ctx context.Context) error {
			id := h.members[intern].account.ID
			event := abuse.Event{At: h.clock, AccountID: id, Kind: e.kind, Plan: account.Free, Tier: account.Free, Score: e.score, Why: e.why, Actor: "abuse control"}
			if err := h.calls.RecordAbuseEvents(ctx, []abuse.Event{event}); err != nil {
				return err
			}
			h.letters.Abuse(ctx, &event)
			if e.kind != abuse.Deactivated {
				return nil
			}
			_, err := h.accounts.Deactivate(ctx, "abuse control", id, e.why)
			return err
		})
	}
	h.when(began.Add(runawayCalls*runawayPause+50*time.Minute), func(ctx context.Context) error {
		_, err := h.office.Begin(ctx, h.members[intern].account, ticket.Restore, "My script ran in a loop",
			"I am sorry: a retry without a pause ran while I was at lunch. It is fixed, and it now stops after three attempts. Could you switch my key on again?")
		return err
	})
}

// announce puts the ribbon on the pages, plans a maintenance, and makes a token for a program of the operator.
func (h *history) announce(ctx context.Context) error {
	for _, o := range []steering.Order{
		{Kind: steering.Announcement, Text: ribbon, Actor: staffName},
		{Kind: steering.Maintenance, Models: []string{embed}, Text: "The index is being rebuilt.", Reason: "new dimensions", From: h.end.Add(30 * time.Hour), Until: h.end.Add(31 * time.Hour), Actor: staffName},
	} {
		if _, err := h.helm.Give(ctx, o); err != nil {
			return err
		}
	}
	if _, _, err := h.roster.NewToken(ctx, staffName, helpdesk+domain, "monthly report", []string{string(admin.AccountsRead), string(admin.BillingRead)}, 90); err != nil {
		return err
	}
	_, err := h.accounts.Record(ctx, staffName, h.members[mobile].account.ID, "account.note", "Omar will send a new card on Friday.")
	return err
}

// vote casts votes on some of the calls that the router has sent on, and counts how they ended.
func (h *history) vote(ctx context.Context, t *traffic, all []usage.Settlement) error {
	counts := map[feedback.Count]int64{}
	for i := range all {
		s := &all[i]
		if s.ModelAsked != router || h.end.Sub(s.At) > 6*24*time.Hour {
			continue
		}
		counts[feedback.Count{AccountID: s.AccountID, Model: s.ModelUsed, Task: catalog.Chat}]++
		if t.rng.IntN(12) > 0 {
			continue
		}
		v := feedback.Vote{AccountID: s.AccountID, RequestID: s.ID, At: s.At.Add(time.Minute), Model: s.ModelUsed, Task: catalog.Chat, Good: t.rng.IntN(8) > 0}
		if err := h.service.CastVote(ctx, v, feedback.WeekOf(v.At)); err != nil {
			return err
		}
	}
	var list []feedback.Count
	for c, n := range counts {
		c.Calls = n
		list = append(list, c)
	}
	return h.service.AddCounts(ctx, list, feedback.WeekOf(h.end))
}

// health adds up how healthy models and providers were on each day, as a server does from minute to minute.
func (h *history) health(ctx context.Context, t *traffic, all []usage.Settlement) error {
	to := h.end.Add(-overviewSpan).Truncate(time.Minute)
	spans := map[overview.Subject]map[int64]overview.Span{}
	add := func(kind, name string, at time.Time, change func(*overview.Span)) {
		subject := overview.Subject{Kind: kind, Name: name}
		if spans[subject] == nil {
			spans[subject] = map[int64]overview.Span{}
		}
		span := spans[subject][at.Unix()/86400]
		change(&span)
		spans[subject][at.Unix()/86400] = span
	}
	for i := range all {
		s := &all[i]
		add(overview.ModelKind, s.ModelUsed, s.At, func(span *overview.Span) { span.Settled(s) })
		for _, a := range s.Trace.Attempts {
			add(overview.UpstreamKind, a.Provider, s.At, func(span *overview.Span) {
				if span.Calls++; a.Outcome != usage.Answered {
					span.Failed++
				}
			})
		}
	}
	for at := h.from; at.Before(to); at = at.Add(time.Minute) {
		t.look(at, add)
	}
	return h.service.AddDays(ctx, h.from.Unix()/86400, func(time.Time) ([]overview.HealthDay, time.Time) {
		var list []overview.HealthDay
		for subject, ofDays := range spans {
			for day, span := range ofDays {
				list = append(list, overview.HealthDay{Subject: subject, Day: day, Span: span})
			}
		}
		return list, to
	})
}

// look counts a look at the health of all models and providers in a minute.
func (t *traffic) look(at time.Time, add func(kind, name string, at time.Time, change func(*overview.Span))) {
	down := !at.Before(t.downFrom) && at.Before(t.downUntil)
	for _, name := range providers() {
		add(overview.UpstreamKind, name, at, func(span *overview.Span) {
			if span.Looks++; down && name == outageProvider {
				span.Down++
			}
		})
	}
	for _, m := range t.catalog.Models() {
		if m.Router {
			continue
		}
		add(overview.ModelKind, m.ID, at, func(span *overview.Span) {
			places := m.Places()
			switch span.Looks++; {
			case !down || places[0].Provider != outageProvider:
			case len(places) > 1:
				span.Degraded++
			default:
				span.Down++
			}
		})
	}
}
