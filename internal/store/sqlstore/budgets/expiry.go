package budgets

import (
	"context"
	"slices"
	"time"

	"sluice/internal/ledger/budget"
	"sluice/internal/store/sqlstore"
)

const (
	// keepSpent is how long what was spent in a period is kept: longer than any window, and than a year.
	keepSpent = 400 * 24 * time.Hour
	// keepSessions is how long a session is remembered that nobody continues. After that its budget is whole again.
	keepSessions = 90 * 24 * time.Hour
)

// Expiring returns what expires. The time is that of the database: with the clock of one server, a grant that another one uses
// could look abandoned.
func (s *Store) Expiring() []sqlstore.Expiring {
	return []sqlstore.Expiring{
		{What: "abandoned grants of budgets", Drop: s.dropGrants, AtOnce: sqlstore.DropSmall},
		{What: "spent parts of budgets", Drop: s.dropSpent, AtOnce: sqlstore.DropSmall},
		{What: "marks of budgets", Drop: s.dropMarks, AtOnce: sqlstore.DropSmall},
		{What: "alarms of programs that run away", Drop: s.dropAlarms, AtOnce: sqlstore.DropSmall},
		{What: "budgets of sessions", Drop: s.dropSessions, AtOnce: sqlstore.DropSmall},
		{What: "counts of deleted budgets", Drop: s.dropDeleted, AtOnce: sqlstore.DropSmall},
	}
}

// dropGrants deletes grants that nobody has confirmed for long: those of servers, those of which nothing is left, and those of videos
// that do not exist, because whoever made the grant died before it made the video. What a video holds stays until it has ended,
// however long it takes.
func (s *Store) dropGrants(ctx context.Context, _ time.Time, most int) (int, error) {
	return s.db.Prune(ctx, `DELETE FROM budget_grants WHERE (count, period, holder) IN
		(SELECT count, period, holder FROM budget_grants g WHERE touched_at < `+s.db.Clock()+` - $1 AND (substr(holder, 1, 5) = 'node/' OR granted <= spent
			OR substr(holder, 1, 4) = '`+budget.JobPrefix+`' AND NOT EXISTS (SELECT 1 FROM video_jobs v WHERE v.id = substr(g.holder, 5) AND v.status IN ('queued', 'running')))
			ORDER BY touched_at LIMIT $2`+s.db.SkipLocked()+`)`, budget.Abandoned, most)
}

// dropSpent deletes what was spent in periods that are over for long. Period 0 has no end.
func (s *Store) dropSpent(ctx context.Context, _ time.Time, most int) (int, error) {
	return s.db.Prune(ctx, `DELETE FROM budget_spent WHERE (count, period) IN
		(SELECT count, period FROM budget_spent WHERE period > 0 AND period < `+s.db.Clock()+` - $1 ORDER BY period LIMIT $2`+s.db.SkipLocked()+`)`, keepSpent, most)
}

// dropSessions deletes all there is of sessions that have ended. A count with a slash is that of a session.
func (s *Store) dropSessions(ctx context.Context, _ time.Time, most int) (int, error) {
	return s.dropCounts(ctx, `c.count LIKE '%/%'`, keepSessions, most)
}

// dropDeleted deletes all there is of budgets that were deleted long ago: else those without an end would stay for ever.
func (s *Store) dropDeleted(ctx context.Context, _ time.Time, most int) (int, error) {
	return s.dropCounts(ctx, `c.count NOT LIKE '%/%' AND NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = c.account_id AND a.budgets LIKE '%"' || c.count || '"%')`, keepSpent, most)
}

// dropCounts deletes all there is of counts that nobody has used for long.
func (s *Store) dropCounts(ctx context.Context, which string, after time.Duration, most int) (int, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (int, error) {
		counts, err := sqlstore.All(tx, sqlstore.Column[string], `SELECT c.count FROM budget_counts c
			WHERE c.touched_at < `+s.db.Clock()+` - $1 AND `+which+` ORDER BY c.touched_at LIMIT $2`+s.db.SkipLocked(), after, most)
		if err != nil {
			return 0, err
		}
		slices.Sort(counts) // the order in which others lock grants
		for _, table := range []string{"budget_spent", "budget_grants", "budget_marks", "budget_counts"} {
			if err := tx.ExecEach(len(counts), func(i int) []any { return []any{counts[i]} }, `DELETE FROM `+table+` WHERE count = $1`); err != nil {
				return 0, err
			}
		}
		return len(counts), nil
	})
}
