package tickets

import (
	"context"
	"math"
	"time"

	"sluice/internal/operate/notice"
	"sluice/internal/store/sqlstore"
)

// noticeColumns are in the order of AddNotice and Notices. How much of an inquiry is in its thread is written by
// JoinInquiries alone.
const noticeColumns = `id, account_id, at, kind, title, body, read_at, answer, answered_at`

// noticeRow selects what scanNotice reads.
const noticeRow = `SELECT ` + noticeColumns + `, CASE WHEN joined > 0 THEN 1 ELSE 0 END FROM notices `

// AddNotice stores a new notice.
func (s *Store) AddNotice(ctx context.Context, n *notice.Notice) error {
	return s.db.Exec(ctx, sqlstore.Insert("notices", noticeColumns), n.ID, n.AccountID, n.At, string(n.Kind), n.Title, n.Body, n.ReadAt, n.Answer, n.AnsweredAt)
}

// Notices returns an account's latest notices, newest first.
func (s *Store) Notices(ctx context.Context, accountID string, limit int) ([]notice.Notice, error) {
	return s.OlderNotices(ctx, accountID, time.Time{}, "", limit)
}

// OlderNotices returns those after the one of a time and an id. The zero time is the beginning.
func (s *Store) OlderNotices(ctx context.Context, accountID string, at time.Time, id string, limit int) ([]notice.Notice, error) {
	if at.IsZero() {
		at = time.UnixMilli(math.MaxInt64 >> 20)
	}
	return sqlstore.All(s.db.Read(ctx), scanNotice, noticeRow+`WHERE account_id = $1 AND (at < $3 OR at = $3 AND id > $4) ORDER BY at DESC, id LIMIT $2`, accountID, limit, at, id)
}

// Notice returns a notice of an account, or nil if it has none with this id.
func (s *Store) Notice(ctx context.Context, accountID, id string) (*notice.Notice, error) {
	return sqlstore.One(s.db.Read(ctx), scanNotice, noticeRow+`WHERE account_id = $1 AND id = $2`, accountID, id)
}

// scanNotice reads a row of noticeRow.
func scanNotice(row sqlstore.Row, n *notice.Notice) error {
	return row.Scan(&n.ID, &n.AccountID, &n.At, &n.Kind, &n.Title, &n.Body, &n.ReadAt, &n.Answer, &n.AnsweredAt, &n.Joined)
}

// UnreadNotices returns the number of notices that an account has not read. An inquiry that is a thread is counted there.
func (s *Store) UnreadNotices(ctx context.Context, accountID string) (int, error) {
	return sqlstore.Value[int](s.db.Read(ctx), `SELECT COUNT(*) FROM notices WHERE account_id = $1 AND read_at = 0 AND joined = 0`, accountID)
}

// ReadNotices marks a notice of an account as read, or all of them if id is empty. The time of a notice that was read
// before stays.
func (s *Store) ReadNotices(ctx context.Context, accountID, id string, at time.Time) error {
	return s.db.Exec(ctx, `UPDATE notices SET read_at = $2 WHERE account_id = $1 AND read_at = 0 AND ($3 = '' OR id = $3)`, accountID, at, id)
}
