package service

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/operate/feedback"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
	"sluice/internal/upstream/catalog"
)

// milliVote is what one vote or call is stored as.
const milliVote = 1000

// halved returns an expression for an amount that is halved for each week between two, which are expressions, too.
func halved(amount, from, to string) string {
	return `(` + amount + ` >> CAST(CASE WHEN ` + to + ` - ` + from + ` > 60 THEN 60 WHEN ` + to + ` < ` + from + ` THEN 0 ELSE ` + to + ` - ` + from + ` END AS INTEGER))`
}

// addFeedback adds amounts to the row of an account. A row of an earlier week is brought up to date first.
func addFeedback() string {
	return `INSERT INTO router_feedback AS old (account_id, model, task, week, good, bad, calls, troubled) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
	ON CONFLICT (account_id, model, task) DO UPDATE SET
	good = ` + halved(`old.good`, `old.week`, `excluded.week`) + ` + excluded.good,
	bad = ` + halved(`old.bad`, `old.week`, `excluded.week`) + ` + excluded.bad,
	calls = ` + halved(`old.calls`, `old.week`, `excluded.week`) + ` + excluded.calls,
	troubled = ` + halved(`old.troubled`, `old.week`, `excluded.week`) + ` + excluded.troubled,
	week = CASE WHEN excluded.week > old.week THEN excluded.week ELSE old.week END`
}

// feedbackSums adds up the rows. What an account weighs is bounded here, so no number of votes gets past it.
func feedbackSums() string {
	return fmt.Sprintf(`SELECT model, task, COUNT(*),
		SUM(CASE WHEN good + bad > %[1]d THEN good * %[1]d / (good + bad) ELSE good END),
		SUM(CASE WHEN good + bad > %[1]d THEN bad * %[1]d / (good + bad) ELSE bad END),
		SUM(CASE WHEN calls > %[2]d THEN %[2]d ELSE calls END),
		SUM(CASE WHEN calls > %[2]d THEN troubled * %[2]d / calls ELSE troubled END)
	FROM (SELECT model, task, %[3]s AS good, %[4]s AS bad, %[5]s AS calls, %[6]s AS troubled FROM router_feedback) AS now
	GROUP BY model, task ORDER BY model, task`, feedback.MostVotes*milliVote, feedback.MostCalls*milliVote,
		halved(`good`, `week`, `$1`), halved(`bad`, `week`, `$1`), halved(`calls`, `week`, `$1`), halved(`troubled`, `week`, `$1`))
}

// CastVote adds a vote, or replaces the one that the account has cast on the call.
func (s *Store) CastVote(ctx context.Context, v feedback.Vote, week int64) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Next(feedbackCounter)
		good, bad, taken := int64(0), int64(milliVote), "good"
		if v.Good {
			good, bad, taken = milliVote, 0, "bad"
		}
		fresh, err := tx.Changed(`INSERT INTO router_votes (account_id, request_id, at, model, good) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (account_id, request_id) DO NOTHING`, v.AccountID, v.RequestID, v.At, v.Model, v.Good)
		if err != nil {
			return err
		}
		if fresh == 0 {
			n, err := tx.Changed(`UPDATE router_votes SET good = $1 WHERE account_id = $2 AND request_id = $3 AND good <> $1`, v.Good, v.AccountID, v.RequestID)
			if n == 0 || err != nil {
				return err // said before
			}
		}
		if err := tx.Exec(addFeedback(), v.AccountID, v.Model, v.Task.String(), week, good, bad, 0, 0); err != nil || fresh > 0 {
			return err
		}
		return tx.Exec(fmt.Sprintf(`UPDATE router_feedback SET %[1]s = CASE WHEN %[1]s > %[2]d THEN %[1]s - %[2]d ELSE 0 END
			WHERE account_id = $1 AND model = $2 AND task = $3`, taken, milliVote), v.AccountID, v.Model, v.Task.String())
	})
}

// feedbackCounter counts changes. Its lock comes first in every transaction, so that none of them wait for each other.
const feedbackCounter = "feedback"

// AddCounts adds how calls ended.
func (s *Store) AddCounts(ctx context.Context, counts []feedback.Count, week int64) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Next(feedbackCounter)
		return tx.ExecEach(len(counts), func(i int) []any {
			c := &counts[i]
			return []any{c.AccountID, c.Model, c.Task.String(), week, 0, 0, c.Calls * milliVote, c.Troubled * milliVote}
		}, addFeedback())
	})
}

// FeedbackVersion returns a number that rises with each change.
func (s *Store) FeedbackVersion(ctx context.Context) (int64, error) {
	return s.db.Read(ctx).Counter(feedbackCounter)
}

// FeedbackSums returns what is known of each model at each kind of task.
func (s *Store) FeedbackSums(ctx context.Context, week int64) (sums []feedback.Sum, err error) {
	err = s.db.Read(ctx).Each(func(row sqlstore.Row) error {
		var sum feedback.Sum
		var task string
		if err := row.Scan(&sum.Model, &task, &sum.Accounts, &sum.Good, &sum.Bad, &sum.Calls, &sum.Troubled); err != nil {
			return err
		}
		var known bool
		if sum.Task, known = catalog.ParseTask(task); known { // a later version may have more
			sums = append(sums, sum)
		}
		return nil
	}, feedbackSums(), week)
	return sums, err
}

// ForgetFeedback deletes what is known of a model, or of all if it is empty.
func (s *Store) ForgetFeedback(ctx context.Context, model string, e account.Entry) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Next(feedbackCounter)
		for _, table := range []string{"router_feedback", "router_votes"} {
			tx.Do(`DELETE FROM `+table+` WHERE model = $1 OR $1 = ''`, model)
		}
		return accounts.Audit(tx, e)
	})
}

// dropVotes deletes up to most votes that are too old to be changed.
func (s *Store) dropVotes(ctx context.Context, now time.Time, most int) (int, error) {
	return s.db.Prune(ctx, `DELETE FROM router_votes WHERE (account_id, request_id) IN
		(SELECT account_id, request_id FROM router_votes WHERE at < $1 ORDER BY at LIMIT $2)`, now.Add(-feedback.KeepVotes), most)
}

// dropFeedback deletes up to most rows that have been halved until nothing is left.
func (s *Store) dropFeedback(ctx context.Context, now time.Time, most int) (int, error) {
	return s.db.Prune(ctx, `DELETE FROM router_feedback WHERE (account_id, model, task) IN
		(SELECT account_id, model, task FROM router_feedback WHERE week < $1 ORDER BY week LIMIT $2)`, feedback.FirstWeek(now), most)
}
