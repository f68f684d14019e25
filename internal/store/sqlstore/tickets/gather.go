package tickets

import (
	"context"
	"strconv"
	"time"

	"sluice/internal/ledger/abuse"
	"sluice/internal/operate/ticket"
	"sluice/internal/store/sqlstore"
)

// climbStays is how old an event of a fast climb may be to be worth a look: older ones are from before there was a
// queue.
const climbStays = 7 * 24 * time.Hour

// raised is something that needs support.
type raised struct {
	account, cause, subject string
	kind                    ticket.Kind
	at                      time.Time
}

// GatherTickets opens tickets for what needs support, closes those whose cause is gone, and wakes snoozed ones.
func (s *Store) GatherTickets(ctx context.Context, now time.Time, most int) (more bool, err error) {
	err = s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		last, err := tx.Hold(gathered)
		if err != nil {
			return err
		}
		tx.Do(`UPDATE matters SET state = 'open', snoozed_until = 0, changed_at = $1, version = version + 1
			WHERE state = 'snoozed' AND snoozed_until <= $1`, now)
		for _, find := range []func() ([]raised, error){
			func() ([]raised, error) { return raisedByEvents(tx, last, now, most) },
			func() ([]raised, error) { return raisedByKeys(tx, most) },
			func() ([]raised, error) { return raisedByPayments(tx, now, most) },
		} {
			list, err := find()
			if err != nil {
				return err
			}
			more = more || len(list) == most
			for _, r := range list {
				raise(tx, r, now)
			}
		}
		closeSettled(tx, now)
		return nil
	})
	return more, err
}

// gathered is the counter with the number of the last event of abuse control that was looked at. Whoever holds its row
// gathers alone.
const gathered = "matter_events"

// raisedByEvents returns what new events of abuse control are reason for. Events that are none are returned without
// a kind, so that the caller sees how many were read.
func raisedByEvents(tx *sqlstore.Conn, last int64, now time.Time, most int) (list []raised, err error) {
	t := now.UTC()
	month := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	newest := last
	list, err = sqlstore.All(tx, func(row sqlstore.Row, r *raised) error {
		var seq int64
		var kind abuse.Kind
		if err := row.Scan(&seq, &r.at, &r.account, &kind); err != nil {
			return err
		}
		newest = max(newest, seq)
		r.cause = strconv.FormatInt(seq, 10)
		switch {
		case kind == abuse.Inquiry && !r.at.Before(month):
			r.kind, r.subject = ticket.PastNinety, "More than 90% of your monthly allowance is used"
		case kind == abuse.Review && now.Sub(r.at) < climbStays:
			r.kind, r.subject = ticket.Climb, "Your usage has grown fast"
		}
		return nil
	}, `SELECT seq, at, account_id, kind FROM abuse_events WHERE seq > $1 ORDER BY seq LIMIT $2`, last, most)
	if err != nil || newest == last {
		return list, err
	}
	return list, tx.SetCounter(gathered, newest)
}

// raisedByKeys returns the accounts whose keys were switched off and that have no ticket for it yet.
func raisedByKeys(tx *sqlstore.Conn, most int) ([]raised, error) {
	return sqlstore.All(tx, func(row sqlstore.Row, r *raised) error {
		r.kind, r.subject = ticket.Deactivated, "Your keys are switched off"
		err := row.Scan(&r.account, &r.at)
		r.cause = strconv.FormatInt(sqlstore.Millis(r.at), 10)
		return err
	}, `SELECT a.id, a.deactivated_at FROM accounts a WHERE a.deactivated_at IS NOT NULL AND a.terminated = 0
		AND NOT EXISTS (SELECT 1 FROM matters m WHERE m.account_id = a.id AND m.kind = 'deactivated' AND m.cause = CAST(a.deactivated_at AS TEXT) AND m.cause <> '')
		ORDER BY a.deactivated_at LIMIT $1`, most)
}

// raisedByPayments returns the accounts whose renewal fails and that have no ticket for it yet. failing_since is on
// the account's own clock, so the ticket begins now.
func raisedByPayments(tx *sqlstore.Conn, now time.Time, most int) ([]raised, error) {
	return sqlstore.All(tx, func(row sqlstore.Row, r *raised) error {
		var since int64
		err := row.Scan(&r.account, &since)
		r.kind, r.subject, r.at, r.cause = ticket.Payment, "Your payment failed", now, strconv.FormatInt(since, 10)
		return err
	}, `SELECT b.account_id, b.failing_since FROM billing_accounts b WHERE b.failed > 0 AND b.plan <> 'none'
		AND NOT EXISTS (SELECT 1 FROM matters m WHERE m.account_id = b.account_id AND m.kind = 'payment' AND m.cause = CAST(b.failing_since AS TEXT) AND m.cause <> '')
		ORDER BY b.account_id LIMIT $1`, most)
}

// raise opens a ticket, unless the account has an open one of this kind that the service opened.
func raise(tx *sqlstore.Conn, r raised, now time.Time) {
	if r.kind == "" {
		return
	}
	m := ticket.Ticket{
		ID: newTicketID(), AccountID: r.account, Kind: r.kind, Cause: r.cause, Subject: r.subject, State: ticket.Open, Waits: ticket.Support,
		OpenedAt: r.at, Since: r.at, ChangedAt: now, Version: 1,
	}
	// The kinds of one account are told apart by their cause; the score is a ticket once.
	tx.Do(`INSERT INTO matters (`+ticketColumns+`)
		SELECT CAST($1 AS TEXT), a.id, CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS TEXT), CAST($8 AS TEXT),
			CAST($9 AS BIGINT), CAST($10 AS BIGINT), CAST($11 AS BIGINT), CAST($12 AS BIGINT), CAST($13 AS INTEGER), CAST($14 AS INTEGER), CAST($15 AS BIGINT), CAST($16 AS BIGINT)
		FROM accounts a WHERE a.id = $2
		AND NOT EXISTS (SELECT 1 FROM matters m WHERE m.account_id = $2 AND m.kind = $3 AND m.messages = 0 AND m.state <> 'closed')
		ON CONFLICT DO NOTHING`, ticketValues(&m)...)
}

// closeSettled closes what the service opened and what has settled itself: the keys are on again, the payment was
// made, the month of the score is over. Where the keys are off, that is the ticket, and not the score before. Tickets
// in which somebody has written stay as they are.
func closeSettled(tx *sqlstore.Conn, now time.Time) {
	t := now.UTC()
	month := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	const closing = `UPDATE matters SET state = 'closed', snoozed_until = 0, since = $1, changed_at = $1, version = version + 1
		WHERE messages = 0 AND state <> 'closed' AND `
	for _, q := range []struct {
		where string
		args  []any
	}{
		{where: `kind = 'deactivated' AND NOT EXISTS (SELECT 1 FROM accounts a
			WHERE a.id = matters.account_id AND CAST(a.deactivated_at AS TEXT) = matters.cause AND a.terminated = 0)`},
		{where: `kind = 'payment' AND NOT EXISTS (SELECT 1 FROM billing_accounts b
			WHERE b.account_id = matters.account_id AND b.failed > 0 AND b.plan <> 'none' AND CAST(b.failing_since AS TEXT) = matters.cause)`},
		{where: `kind = 'past-90' AND since < $2`, args: []any{month}},
		{where: `kind IN ('past-90', 'climb') AND EXISTS (SELECT 1 FROM accounts a
			WHERE a.id = matters.account_id AND (a.deactivated_at IS NOT NULL OR a.terminated = 1))`},
	} {
		tx.Do(closing+q.where, append([]any{now}, q.args...)...)
	}
}

// asked is an inquiry as notices keep it.
type asked struct {
	id, account, title, body, answer string
	at, answered                     time.Time
	joined                           int
}

// JoinInquiries makes threads of inquiries that are notices.
func (s *Store) JoinInquiries(ctx context.Context, accountID string, most int) (more bool, err error) {
	err = s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		if _, err := tx.Hold(gathered); err != nil {
			return err
		}
		list, err := sqlstore.All(tx, func(row sqlstore.Row, a *asked) error {
			return row.Scan(&a.id, &a.account, &a.at, &a.title, &a.body, &a.answer, &a.answered, &a.joined)
		}, `SELECT id, account_id, at, title, body, answer, answered_at, joined FROM notices
			WHERE kind = 'inquiry' AND (joined = 0 OR (joined = 1 AND answered_at > 0)) AND ($1 = '' OR account_id = $1) ORDER BY at LIMIT $2`, accountID, most)
		if err != nil {
			return err
		}
		more = len(list) == most
		for i := range list {
			if err := joinInquiry(tx, &list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return more, err
}

// joinInquiry adds to a thread what it lacks of an inquiry: the question, the answer, or both.
func joinInquiry(tx *sqlstore.Conn, a *asked) error {
	m, err := sqlstore.One(tx, scanTicket, ticketRow+`WHERE m.account_id = $1 AND m.kind = 'inquiry' AND m.cause = $2 AND m.cause <> ''`, a.account, a.id)
	if err != nil {
		return err
	}
	if m == nil {
		m = &ticket.Ticket{
			ID: newTicketID(), AccountID: a.account, Kind: ticket.Inquiry, Cause: a.id, Subject: a.title, State: ticket.Open, Waits: ticket.Customer,
			OpenedAt: a.at, Since: a.at, ChangedAt: a.at, Messages: 1, Unread: a.answered.IsZero(), Version: 1,
		}
		insertTicket(tx, m)
		insertMessage(tx, m, ticket.Message{Number: 1, At: a.at, From: ticket.Support, Author: "abuse control", Text: a.body})
	}
	joined := 1
	if !a.answered.IsZero() {
		joined = 2
		m.Messages++
		m.Unread = false
		m.Waits, m.State, m.Since, m.ChangedAt, m.SnoozedUntil = ticket.Support, ticket.Open, a.answered, a.answered, time.Time{}
		m.Version++
		insertMessage(tx, m, ticket.Message{Number: m.Messages, At: a.answered, From: ticket.Customer, Author: "owner", Text: a.answer})
		updateTicket(tx, m)
	}
	return tx.Exec(`UPDATE notices SET joined = $2 WHERE id = $1`, a.id, joined)
}
