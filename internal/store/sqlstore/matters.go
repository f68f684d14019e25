package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/matter"
)

// matterColumns are in the order of matterValues and scanMatter.
const matterColumns = `id, account_id, kind, cause, subject, state, waits, assignee, opened_at, since, changed_at, snoozed_until, messages, unread, mailed_at, version`

// matterRow selects matters with the present address of their account.
const matterRow = `SELECT m.id, m.account_id, m.kind, m.cause, m.subject, m.state, m.waits, m.assignee, m.opened_at, m.since, m.changed_at,
	m.snoozed_until, m.messages, m.unread, m.mailed_at, m.version, a.email FROM matters m JOIN accounts a ON a.id = m.account_id `

// OpenMatter stores a new matter. The account's row is locked first, so that check sees all matters of the account.
func (s *Store) OpenMatter(ctx context.Context, m *matter.Matter, first matter.Message, e account.Entry, keep int, check func(matter.Holding) error) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE accounts SET version = version WHERE id = $1`, m.AccountID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return notFound(errors.Join(err, sql.ErrNoRows), m.AccountID)
		}
		h, err := holding(ctx, tx, m.AccountID, m.OpenedAt.Add(-24*time.Hour))
		if err != nil {
			return err
		}
		if err := check(h); err != nil {
			return err
		}
		if err := dropMatters(ctx, tx, m.AccountID, keep-1); err != nil {
			return err
		}
		if err := insertMatter(ctx, tx, m); err != nil {
			return err
		}
		if err := insertMessage(ctx, tx, m, first); err != nil || e.Action == "" {
			return err
		}
		return appendAudit(ctx, tx, e)
	})
}

// holding counts what an account has. since is when the last 24 hours began.
func holding(ctx context.Context, tx *sql.Tx, accountID string, since time.Time) (h matter.Holding, err error) {
	err = tx.QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM matters WHERE account_id = $1 AND state <> 'closed' AND messages > 0),
		(SELECT COUNT(*) FROM matter_messages WHERE account_id = $1 AND side = 'customer' AND at > $2 AND number = 1),
		(SELECT COUNT(*) FROM matter_messages WHERE account_id = $1 AND side = 'customer' AND at > $2)`,
		accountID, millis(since)).Scan(&h.Open, &h.New, &h.Written)
	return h, err
}

// dropMatters deletes the oldest closed matters of an account that has more than keep.
func dropMatters(ctx context.Context, tx *sql.Tx, accountID string, keep int) error {
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM matters WHERE account_id = $1`, accountID).Scan(&n); err != nil || n <= keep {
		return err
	}
	const oldest = `(SELECT id FROM matters WHERE account_id = $1 AND state = 'closed' ORDER BY opened_at, id LIMIT $2)`
	// The same rows twice: nothing else changes the account's matters meanwhile.
	if _, err := tx.ExecContext(ctx, `DELETE FROM matter_messages WHERE matter_id IN `+oldest, accountID, n-keep); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM matters WHERE id IN `+oldest, accountID, n-keep)
	return err
}

func insertMatter(ctx context.Context, tx *sql.Tx, m *matter.Matter) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO matters (`+matterColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`, matterValues(m)...)
	return err
}

func insertMessage(ctx context.Context, tx *sql.Tx, m *matter.Matter, say matter.Message) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO matter_messages (matter_id, number, account_id, at, side, author, text) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		m.ID, say.Number, m.AccountID, millis(say.At), string(say.From), say.Author, say.Text)
	return err
}

// ChangeMatter locks a matter, applies change to it, and stores the result.
func (s *Store) ChangeMatter(ctx context.Context, id string, since time.Time, change func(*matter.Change) error) (*matter.Matter, error) {
	var c matter.Change
	err := s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// The update takes the row's lock on PostgreSQL. On SQLite this transaction is the only writer anyway.
		if _, err := tx.ExecContext(ctx, `UPDATE matters SET version = version WHERE id = $1`, id); err != nil {
			return err
		}
		m, err := scanMatter(tx.QueryRowContext(ctx, matterRow+`WHERE m.id = $1`, id))
		if err != nil {
			return noMatter(err)
		}
		c = matter.Change{Matter: *m}
		if c.Holding, err = holding(ctx, tx, m.AccountID, since); err != nil {
			return err
		}
		if err := change(&c); err != nil {
			return err
		}
		if c.Say.Text != "" {
			if err := insertMessage(ctx, tx, &c.Matter, c.Say); err != nil {
				return err
			}
		}
		if err := updateMatter(ctx, tx, &c.Matter); err != nil || c.Audit.Action == "" {
			return err
		}
		return appendAudit(ctx, tx, c.Audit)
	})
	if err != nil {
		return nil, err
	}
	return &c.Matter, nil
}

// updateMatter writes what can change of a matter.
func updateMatter(ctx context.Context, tx *sql.Tx, m *matter.Matter) error {
	_, err := tx.ExecContext(ctx, `UPDATE matters SET state = $2, waits = $3, assignee = $4, since = $5, changed_at = $6,
		snoozed_until = $7, messages = $8, unread = $9, mailed_at = $10, version = $11 WHERE id = $1`,
		m.ID, string(m.State), string(m.Waits), m.Assignee, millis(m.Since), millis(m.ChangedAt),
		millis(m.SnoozedUntil), m.Messages, yesNo(m.Unread), millis(m.MailedAt), m.Version)
	return err
}

// Matter returns a matter by its id.
func (s *Store) Matter(ctx context.Context, id string) (*matter.Matter, error) {
	m, err := scanMatter(s.read.QueryRowContext(ctx, matterRow+`WHERE m.id = $1`, id))
	if err != nil {
		return nil, noMatter(err)
	}
	return m, nil
}

// MatterMessages returns the messages of a matter, oldest first.
func (s *Store) MatterMessages(ctx context.Context, id string, limit int) ([]matter.Message, error) {
	var list []matter.Message
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var m matter.Message
		var at int64
		var side string
		if err := rows.Scan(&m.Number, &at, &side, &m.Author, &m.Text); err != nil {
			return err
		}
		m.At, m.From = fromMillis(at), matter.Side(side)
		list = append(list, m)
		return nil
	}, `SELECT number, at, side, author, text FROM matter_messages WHERE matter_id = $1 ORDER BY number LIMIT $2`, id, limit)
	return list, unavailable(err)
}

// MattersOf returns the matters of an account, the last opened first.
func (s *Store) MattersOf(ctx context.Context, accountID string, threads bool, after matter.Place, limit int) ([]matter.Matter, error) {
	where, args := `WHERE m.account_id = $1 AND m.messages >= $2`, []any{accountID, 0, limit}
	if threads {
		args[1] = 1
	}
	if after != (matter.Place{}) {
		where += ` AND (m.opened_at, m.id) < ($4, $5)`
		args = append(args, millis(after.At), after.ID)
	}
	return s.matters(ctx, where+` ORDER BY m.opened_at DESC, m.id DESC LIMIT $3`, args...)
}

// MatterQueue returns a page of a view.
func (s *Store) MatterQueue(ctx context.Context, q matter.Query) ([]matter.Matter, error) {
	where, order, beyond := ``, `m.since, m.id`, `>`
	switch q.View {
	case matter.Waiting:
		where = `m.state = 'open' AND m.waits = 'support'`
	case matter.Answered:
		where = `m.state = 'open' AND m.waits = 'customer'`
	case matter.Sleeping:
		where = `m.state = 'snoozed'`
	default:
		where, order, beyond = `m.state = 'closed'`, `m.since DESC, m.id DESC`, `<`
	}
	args := []any{string(q.Kind), q.Assignee, matter.Nobody, q.Limit}
	where += ` AND ($1 = '' OR m.kind = $1) AND ($2 = '' OR m.assignee = $2 OR ($2 = $3 AND m.assignee = ''))`
	if q.After != (matter.Place{}) {
		where += ` AND (m.since, m.id) ` + beyond + ` ($5, $6)`
		args = append(args, millis(q.After.At), q.After.ID)
	}
	return s.matters(ctx, `WHERE `+where+` ORDER BY `+order+` LIMIT $4`, args...)
}

// matters returns the matters that a clause selects.
func (s *Store) matters(ctx context.Context, clause string, args ...any) ([]matter.Matter, error) {
	var list []matter.Matter
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		m, err := scanMatter(rows)
		if err != nil {
			return err
		}
		list = append(list, *m)
		return nil
	}, matterRow+clause, args...)
	return list, unavailable(err)
}

// MatterCounts returns how many matters are in each view, except for those that are closed.
func (s *Store) MatterCounts(ctx context.Context) (map[matter.View]int, error) {
	counts := map[matter.View]int{}
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var view string
		var n int
		if err := rows.Scan(&view, &n); err != nil {
			return err
		}
		counts[matter.View(view)] = n
		return nil
	}, `SELECT 'waiting', COUNT(*) FROM matters WHERE state = 'open' AND waits = 'support'
		UNION ALL SELECT 'answered', COUNT(*) FROM matters WHERE state = 'open' AND waits = 'customer'
		UNION ALL SELECT 'snoozed', COUNT(*) FROM matters WHERE state = 'snoozed'`)
	return counts, unavailable(err)
}

// UnreadMatters counts the threads that an account has not read to the end.
func (s *Store) UnreadMatters(ctx context.Context, accountID string) (n int, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM matters WHERE account_id = $1 AND unread = 1`, accountID).Scan(&n)
	return n, unavailable(err)
}

// ReadMatter notes that a thread was read. It leaves the version alone: nothing that staff decides on changes.
func (s *Store) ReadMatter(ctx context.Context, accountID, id string) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE matters SET unread = 0 WHERE id = $1 AND account_id = $2`, id, accountID)
		return err
	})
}

// matterValues returns the columns of a matter in the order of matterColumns.
func matterValues(m *matter.Matter) []any {
	return []any{
		m.ID, m.AccountID, string(m.Kind), m.Cause, m.Subject, string(m.State), string(m.Waits), m.Assignee, millis(m.OpenedAt), millis(m.Since),
		millis(m.ChangedAt), millis(m.SnoozedUntil), m.Messages, yesNo(m.Unread), millis(m.MailedAt), m.Version,
	}
}

// scanMatter reads a row of matterRow.
func scanMatter(row interface{ Scan(...any) error }) (*matter.Matter, error) {
	var m matter.Matter
	var kind, state, waits string
	var opened, since, changed, snoozed, mailed int64
	var unread int
	err := row.Scan(&m.ID, &m.AccountID, &kind, &m.Cause, &m.Subject, &state, &waits, &m.Assignee, &opened, &since,
		&changed, &snoozed, &m.Messages, &unread, &mailed, &m.Version, &m.Email)
	if err != nil {
		return nil, err
	}
	m.Kind, m.State, m.Waits, m.Unread = matter.Kind(kind), matter.State(state), matter.Side(waits), unread == 1
	m.OpenedAt, m.Since, m.ChangedAt, m.SnoozedUntil, m.MailedAt = fromMillis(opened), fromMillis(since), fromMillis(changed), fromMillis(snoozed), fromMillis(mailed)
	return &m, nil
}

// noMatter turns sql.ErrNoRows into a fault.
func noMatter(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.New(fault.NotFound, "There is no such conversation.")
	}
	return unavailable(err)
}

// newMatterID returns an id for a matter that the service opens.
func newMatterID() string { return "mat_" + rand.Text() }
