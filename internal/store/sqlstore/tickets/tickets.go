// Package tickets stores what customers and support have to settle, and the notices that accounts get.
//
// Store implements the interfaces of packages ticket and notice.
package tickets

import (
	"context"
	"crypto/rand"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/ticket"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
)

// Store is the part of a database with the tickets and the notices.
type Store struct{ db *sqlstore.Store }

// New returns the part of a database.
func New(db *sqlstore.Store) *Store { return &Store{db} }

// ticketColumns are in the order of ticketValues and scanTicket.
const ticketColumns = `id, account_id, kind, cause, subject, state, waits, assignee, opened_at, since, changed_at, snoozed_until, messages, unread, mailed_at, version`

// ticketRow selects tickets with the present address of their account.
const ticketRow = `SELECT m.id, m.account_id, m.kind, m.cause, m.subject, m.state, m.waits, m.assignee, m.opened_at, m.since, m.changed_at,
	m.snoozed_until, m.messages, m.unread, m.mailed_at, m.version, a.email FROM matters m JOIN accounts a ON a.id = m.account_id `

// OpenTicket stores a new ticket. The account's row is locked first, so that check sees all tickets of the account.
func (s *Store) OpenTicket(ctx context.Context, m *ticket.Ticket, first ticket.Message, e account.Entry, keep int, check func(ticket.Holding) error) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		found, err := accounts.Lock(tx, m.AccountID)
		if err == nil && !found {
			err = accounts.Unknown(m.AccountID)
		}
		if err != nil {
			return err
		}
		h, err := holding(tx, m.AccountID, m.OpenedAt.Add(-24*time.Hour))
		if err != nil {
			return err
		}
		if err := check(h); err != nil {
			return err
		}
		// One fewer, to make room for the new one. Open tickets are never dropped; check bounds those.
		if err := dropTickets(tx, m.AccountID, keep-1); err != nil {
			return err
		}
		insertTicket(tx, m)
		insertMessage(tx, m, first)
		return accounts.AuditIfAny(tx, e)
	})
}

// holding counts what an account has. since is when the last 24 hours began.
func holding(tx *sqlstore.Conn, accountID string, since time.Time) (h ticket.Holding, err error) {
	_, err = sqlstore.One(tx, func(row sqlstore.Row, _ *struct{}) error { return row.Scan(&h.Open, &h.New, &h.Written) }, `SELECT
		(SELECT COUNT(*) FROM matters WHERE account_id = $1 AND state <> 'closed' AND messages > 0),
		(SELECT COUNT(*) FROM matter_messages WHERE account_id = $1 AND side = 'customer' AND at > $2 AND number = 1),
		(SELECT COUNT(*) FROM matter_messages WHERE account_id = $1 AND side = 'customer' AND at > $2)`, accountID, since)
	return h, err
}

// dropTickets deletes the oldest closed tickets of an account that has more than keep.
func dropTickets(tx *sqlstore.Conn, accountID string, keep int) error {
	n, err := sqlstore.Value[int](tx, `SELECT COUNT(*) FROM matters WHERE account_id = $1`, accountID)
	if err != nil || n <= keep {
		return err
	}
	const oldest = `(SELECT id FROM matters WHERE account_id = $1 AND state = 'closed' ORDER BY opened_at, id LIMIT $2)`
	// The same rows twice: nothing else changes the account's tickets meanwhile.
	tx.Do(`DELETE FROM matter_messages WHERE matter_id IN `+oldest, accountID, n-keep)
	return tx.Exec(`DELETE FROM matters WHERE id IN `+oldest, accountID, n-keep)
}

// insertTicket stores a ticket that has no row yet.
func insertTicket(tx *sqlstore.Conn, m *ticket.Ticket) {
	tx.Do(sqlstore.Insert("matters", ticketColumns), ticketValues(m)...)
}

// insertMessage stores a message of a ticket. The caller has given it the next number, under the lock of the ticket's row.
func insertMessage(tx *sqlstore.Conn, m *ticket.Ticket, say ticket.Message) {
	tx.Do(sqlstore.Insert("matter_messages", "matter_id, number, account_id, at, side, author, text"),
		m.ID, say.Number, m.AccountID, say.At, string(say.From), say.Author, say.Text)
}

// ChangeTicket locks a ticket, applies change to it, and stores the result.
func (s *Store) ChangeTicket(ctx context.Context, id string, since time.Time, change func(*ticket.Change) error) (*ticket.Ticket, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (*ticket.Ticket, error) {
		// The update takes the row's lock on PostgreSQL. On SQLite this transaction is the only writer anyway.
		tx.Do(`UPDATE matters SET version = version WHERE id = $1`, id)
		m, err := ticketOf(tx, id)
		if err != nil {
			return nil, err
		}
		c := ticket.Change{Ticket: *m}
		if c.Holding, err = holding(tx, m.AccountID, since); err != nil {
			return nil, err
		}
		if err := change(&c); err != nil {
			return nil, err
		}
		// A change without words, such as a new assignee, adds no message.
		if c.Say.Text != "" {
			insertMessage(tx, &c.Ticket, c.Say)
		}
		updateTicket(tx, &c.Ticket)
		return &c.Ticket, accounts.AuditIfAny(tx, c.Audit)
	})
}

// updateTicket writes what can change of a ticket.
func updateTicket(tx *sqlstore.Conn, m *ticket.Ticket) {
	tx.Do(sqlstore.Update("matters", "id, state, waits, assignee, since, changed_at, snoozed_until, messages, unread, mailed_at, version"),
		m.ID, string(m.State), string(m.Waits), m.Assignee, m.Since, m.ChangedAt, m.SnoozedUntil, m.Messages, m.Unread, m.MailedAt, m.Version)
}

// Ticket returns a ticket by its id.
func (s *Store) Ticket(ctx context.Context, id string) (*ticket.Ticket, error) {
	return ticketOf(s.db.Read(ctx), id)
}

// ticketOf is Ticket on a connection that may be inside a transaction.
func ticketOf(c *sqlstore.Conn, id string) (*ticket.Ticket, error) {
	return sqlstore.Need(c, fault.New(fault.NotFound, "There is no such conversation."), scanTicket, ticketRow+`WHERE m.id = $1`, id)
}

// TicketMessages returns the messages of a ticket, oldest first.
func (s *Store) TicketMessages(ctx context.Context, id string, limit int) ([]ticket.Message, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, m *ticket.Message) error {
		return row.Scan(&m.Number, &m.At, &m.From, &m.Author, &m.Text)
	}, `SELECT number, at, side, author, text FROM matter_messages WHERE matter_id = $1 ORDER BY number LIMIT $2`, id, limit)
}

// TicketsOf returns the tickets of an account, the last opened first.
func (s *Store) TicketsOf(ctx context.Context, accountID string, threads bool, after ticket.Place, limit int) ([]ticket.Ticket, error) {
	where, args := `WHERE m.account_id = $1 AND m.messages >= $2`, []any{accountID, 0, limit}
	// Without a message there is nothing that the customer could read.
	if threads {
		args[1] = 1
	}
	if after != (ticket.Place{}) {
		where += ` AND (m.opened_at, m.id) < ($4, $5)`
		args = append(args, after.At, after.ID)
	}
	return s.tickets(ctx, where+` ORDER BY m.opened_at DESC, m.id DESC LIMIT $3`, args...)
}

// TicketQueue returns a page of a view.
func (s *Store) TicketQueue(ctx context.Context, q ticket.Query) ([]ticket.Ticket, error) {
	where, order, beyond := ``, `m.since, m.id`, `>`
	switch q.View {
	// The longest wait comes first in every view but the closed ones, of which the newest matter most.
	case ticket.Waiting:
		where = `m.state = 'open' AND m.waits = 'support'`
	case ticket.Answered:
		where = `m.state = 'open' AND m.waits = 'customer'`
	case ticket.Sleeping:
		where = `m.state = 'snoozed'`
	default:
		where, order, beyond = `m.state = 'closed'`, `m.since DESC, m.id DESC`, `<`
	}
	args := []any{string(q.Kind), q.Assignee, ticket.Nobody, q.Limit}
	where += ` AND ($1 = '' OR m.kind = $1) AND ($2 = '' OR m.assignee = $2 OR ($2 = $3 AND m.assignee = ''))`
	if q.After != (ticket.Place{}) {
		where += ` AND (m.since, m.id) ` + beyond + ` ($5, $6)`
		args = append(args, q.After.At, q.After.ID)
	}
	return s.tickets(ctx, `WHERE `+where+` ORDER BY `+order+` LIMIT $4`, args...)
}

// tickets returns the tickets that a clause selects.
func (s *Store) tickets(ctx context.Context, clause string, args ...any) ([]ticket.Ticket, error) {
	return sqlstore.All(s.db.Read(ctx), scanTicket, ticketRow+clause, args...)
}

// TicketCounts returns how many tickets are in each view, except for those that are closed.
func (s *Store) TicketCounts(ctx context.Context) (map[ticket.View]int, error) {
	return sqlstore.Map(s.db.Read(ctx), func(row sqlstore.Row, view *ticket.View, n *int) error { return row.Scan(view, n) }, `SELECT 'waiting', COUNT(*) FROM matters WHERE state = 'open' AND waits = 'support'
		UNION ALL SELECT 'answered', COUNT(*) FROM matters WHERE state = 'open' AND waits = 'customer'
		UNION ALL SELECT 'snoozed', COUNT(*) FROM matters WHERE state = 'snoozed'`)
}

// UnreadTickets counts the threads that an account has not read to the end.
func (s *Store) UnreadTickets(ctx context.Context, accountID string) (int, error) {
	return sqlstore.Value[int](s.db.Read(ctx), `SELECT COUNT(*) FROM matters WHERE account_id = $1 AND unread = 1`, accountID)
}

// ReadTicket notes that a thread was read, or all threads of the account if id is empty. It leaves the version alone: nothing that staff decides on changes.
func (s *Store) ReadTicket(ctx context.Context, accountID, id string) error {
	return s.db.Exec(ctx, `UPDATE matters SET unread = 0 WHERE account_id = $1 AND unread = 1 AND ($2 = '' OR id = $2)`, accountID, id)
}

// ticketValues returns the columns of a ticket in the order of ticketColumns.
func ticketValues(m *ticket.Ticket) []any {
	return []any{
		m.ID, m.AccountID, string(m.Kind), m.Cause, m.Subject, string(m.State), string(m.Waits), m.Assignee, m.OpenedAt, m.Since,
		m.ChangedAt, m.SnoozedUntil, m.Messages, m.Unread, m.MailedAt, m.Version,
	}
}

// scanTicket reads a row of ticketRow.
func scanTicket(row sqlstore.Row, m *ticket.Ticket) error {
	return row.Scan(&m.ID, &m.AccountID, &m.Kind, &m.Cause, &m.Subject, &m.State, &m.Waits, &m.Assignee, &m.OpenedAt, &m.Since,
		&m.ChangedAt, &m.SnoozedUntil, &m.Messages, &m.Unread, &m.MailedAt, &m.Version, &m.Email)
}

// newTicketID returns an id for a ticket that the service opens.
func newTicketID() string { return "mat_" + rand.Text() }
