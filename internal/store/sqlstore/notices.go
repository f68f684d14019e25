package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"sluice/internal/operate/notice"
)

// noticeColumns are in the order of AddNotice and Notices. How much of an inquiry is in its thread is written by
// JoinInquiries alone.
const noticeColumns = `id, account_id, at, kind, title, body, read_at, answer, answered_at`

// AddNotice stores a new notice.
func (s *Store) AddNotice(ctx context.Context, n *notice.Notice) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO notices (`+noticeColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			n.ID, n.AccountID, millis(n.At), string(n.Kind), n.Title, n.Body, millis(n.ReadAt), n.Answer, millis(n.AnsweredAt))
		return err
	})
}

// Notices returns an account's latest notices, newest first.
func (s *Store) Notices(ctx context.Context, accountID string, limit int) ([]notice.Notice, error) {
	var list []notice.Notice
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var n notice.Notice
		var kind string
		var at, read, answered int64
		var joined int
		if err := rows.Scan(&n.ID, &n.AccountID, &at, &kind, &n.Title, &n.Body, &read, &n.Answer, &answered, &joined); err != nil {
			return err
		}
		n.Kind, n.At, n.ReadAt, n.AnsweredAt = notice.Kind(kind), fromMillis(at), fromMillis(read), fromMillis(answered)
		n.Joined = joined > 0
		list = append(list, n)
		return nil
	}, `SELECT `+noticeColumns+`, joined FROM notices WHERE account_id = $1 ORDER BY at DESC, id LIMIT $2`, accountID, limit)
	return list, unavailable(err)
}

// UnreadNotices returns the number of notices that an account has not read.
func (s *Store) UnreadNotices(ctx context.Context, accountID string) (n int, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM notices WHERE account_id = $1 AND read_at = 0`, accountID).Scan(&n)
	return n, unavailable(err)
}

// ReadNotices marks all notices of an account as read. The time of a notice that was read before
// stays.
func (s *Store) ReadNotices(ctx context.Context, accountID string, at time.Time) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE notices SET read_at = $2 WHERE account_id = $1 AND read_at = 0`, accountID, millis(at))
		return err
	})
}
