// Package videos stores video jobs.
//
// Store implements the interfaces of package video.
package videos

import (
	"context"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
	"sluice/internal/store/sqlstore/alerts"
	"sluice/internal/store/sqlstore/calls"
	"sluice/internal/video"
)

// Store is the part of a database that package video uses.
type Store struct{ db *sqlstore.Store }

// New returns the part of a database.
func New(db *sqlstore.Store) *Store { return &Store{db} }

// videoColumns are in the order of CreateVideo and scanVideo.
const videoColumns = `id, account_id, key_id, plan, tier, prompt, model, width, height, seconds, cost_milli, repeat_hash, body_hash,
	status, progress, reason, created_at, started_at, finished_at, expires_at, attempts, node, until_at, renderer, credential, upstream, generation, size, sha256, request_sha256, session, tags, budgets, most`

// CreateVideo stores a job if allow accepts it, given the account's current load. If the account
// has a job with the same Repeat already, nothing is stored, and that job is returned; otherwise
// the returned job is nil.
func (s *Store) CreateVideo(ctx context.Context, j *video.Job, allow func(video.Load) error) (*video.Job, error) {
	var first *video.Job
	err := s.db.Tx(ctx, func(tx *sqlstore.Conn) (err error) {
		// The upsert locks the account's row on PostgreSQL, so that jobs of one account are
		// admitted one after the other. On SQLite this transaction is the only writer anyway.
		tx.Do(`INSERT INTO video_turns (account_id, turn) VALUES ($1, 0)
			ON CONFLICT (account_id) DO UPDATE SET turn = video_turns.turn`, j.AccountID)
		if j.Repeat != nil {
			if first, err = findRepeat(tx, j.AccountID, j.Repeat); err != nil || first != nil {
				return err
			}
		}
		// The lock keeps the load from changing until the job is stored.
		have, err := sqlstore.One(tx, func(row sqlstore.Row, l *video.Load) error { return row.Scan(&l.Unfinished, &l.Bytes, &l.NextExpiry) }, loadQuery, j.AccountID)
		if err != nil {
			return err
		}
		if err := allow(*have); err != nil {
			return err
		}
		return tx.Exec(sqlstore.Insert("video_jobs", videoColumns+", version"),
			j.ID, j.AccountID, j.KeyID, j.Plan.String(), j.Tier.String(), j.Prompt, j.Model, j.Width, j.Height, j.Seconds, j.CostMilli, sqlstore.OrNull(j.Repeat), sqlstore.OrNull(j.Body),
			string(j.Status), j.Progress, string(j.Reason), j.CreatedAt, j.StartedAt, j.FinishedAt, j.ExpiresAt,
			j.Attempts, j.Node, j.Until, j.Renderer, j.Credential, j.Upstream, nullText(j.Generation), j.Size, j.SHA256, j.RequestSHA256, j.Session, account.TagsText(j.Tags), chargesText(j.Budgets), (*int64)(j.Most), 1)
	})
	return first, err
}

// loadQuery returns how many unfinished jobs an account has, the bytes of its finished videos, and when the next of those
// expires.
const loadQuery = `SELECT COALESCE(SUM(CASE WHEN status IN ('queued', 'running') THEN 1 ELSE 0 END), 0),
	COALESCE(SUM(size), 0), MIN(CASE WHEN size > 0 THEN expires_at END) FROM video_jobs WHERE account_id = $1`

// Secret returns the secret with the given name. If there is none, it stores fresh under that name.
func (s *Store) Secret(ctx context.Context, name string, fresh []byte) ([]byte, error) {
	return s.db.Secret(ctx, name, fresh)
}

// FindVideo returns the job with the given id or generation id, or nil if there is none.
func (s *Store) FindVideo(ctx context.Context, id string) (*video.Job, error) {
	return sqlstore.One(s.db.Read(ctx), scanVideo, `SELECT `+videoColumns+` FROM video_jobs WHERE id = $1 OR generation = $1`, id)
}

// FindRepeat returns the account's job with the given Repeat, or nil if there is none.
func (s *Store) FindRepeat(ctx context.Context, accountID string, repeat []byte) (*video.Job, error) {
	return findRepeat(s.db.Read(ctx), accountID, repeat)
}

func findRepeat(c *sqlstore.Conn, accountID string, repeat []byte) (*video.Job, error) {
	return sqlstore.One(c, scanVideo, `SELECT `+videoColumns+` FROM video_jobs WHERE account_id = $1 AND repeat_hash = $2`, accountID, repeat)
}

// Videos returns an account's jobs, newest first, starting after the job behind. A nil behind
// starts with the newest.
func (s *Store) Videos(ctx context.Context, accountID string, behind *video.Job, most int) ([]video.Job, error) {
	// The second page starts after a pair of time and id, because jobs may share a millisecond.
	if behind == nil {
		return s.queryVideos(ctx, `WHERE account_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2`, accountID, most)
	}
	return s.queryVideos(ctx, `WHERE account_id = $1 AND (created_at < $3 OR created_at = $3 AND id < $4) ORDER BY created_at DESC, id DESC LIMIT $2`,
		accountID, most, behind.CreatedAt, behind.ID)
}

// VideosSince returns all jobs created since a time, oldest first.
func (s *Store) VideosSince(ctx context.Context, since time.Time) ([]video.Job, error) {
	return s.queryVideos(ctx, `WHERE created_at >= $1 ORDER BY created_at`, since)
}

// FinishedVideos returns up to most jobs that have a file, ordered by id, starting after an id.
func (s *Store) FinishedVideos(ctx context.Context, after string, most int) ([]video.Job, error) {
	return s.queryVideos(ctx, `WHERE generation IS NOT NULL AND id > $1 ORDER BY id LIMIT $2`, after, most)
}

// ExpiredVideos returns up to most jobs that have expired, the oldest first.
func (s *Store) ExpiredVideos(ctx context.Context, now time.Time, most int) ([]video.Job, error) {
	return s.queryVideos(ctx, `WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2`, now, most)
}

// queryVideos returns the jobs that the where clause selects.
func (s *Store) queryVideos(ctx context.Context, where string, args ...any) ([]video.Job, error) {
	return sqlstore.All(s.db.Read(ctx), scanVideo, `SELECT `+videoColumns+` FROM video_jobs `+where, args...)
}

// ClaimVideo picks the job whose turn it is, applies claim to it and stores it. It returns nil if
// none is waiting. An unfinished job is waiting if its until time has passed: nobody has claimed
// it, or the claim has lapsed because its node died.
//
// Accounts take turns: each claim moves the account to the end of the queue, so an account with
// many jobs does not delay the others.
func (s *Store) ClaimVideo(ctx context.Context, now time.Time, claim func(*video.Job)) (*video.Job, error) {
	query := `SELECT ` + videoColumns + ` FROM video_jobs JOIN video_turns USING (account_id)
		WHERE status IN ('queued', 'running') AND until_at <= $1 ORDER BY turn, created_at, id LIMIT 1`
	if s.db.Engine() == sqlstore.Postgres {
		query += ` FOR UPDATE OF video_jobs SKIP LOCKED` // on SQLite this transaction is the only writer
	}
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (*video.Job, error) {
		// SKIP LOCKED leaves out jobs that another node is claiming right now.
		j, err := sqlstore.One(tx, scanVideo, query, now)
		if err != nil || j == nil {
			return nil, err
		}
		claim(j)
		updateVideo(tx, j)
		// The account that was just served goes to the end of the queue.
		return j, tx.Exec(`UPDATE video_turns SET turn = $2 WHERE account_id = $1`, j.AccountID, tx.Next("video_turns"))
	})
}

// WaitingVideos returns how many jobs wait to be claimed, and when the oldest of them was created. The time is zero
// if none waits.
func (s *Store) WaitingVideos(ctx context.Context, now time.Time) (waiting int, oldest time.Time, err error) {
	_, err = sqlstore.One(s.db.Read(ctx), func(row sqlstore.Row, _ *struct{}) error { return row.Scan(&waiting, &oldest) },
		`SELECT COUNT(*), MIN(created_at) FROM video_jobs WHERE status IN ('queued', 'running') AND until_at <= $1`, now)
	return waiting, oldest, err
}

// ChangeVideo applies a change under the row's lock and stores the settlement that change returns,
// if any, in the same transaction. An error of change rolls back and is returned as it is. A
// missing job is video.ErrGone.
func (s *Store) ChangeVideo(ctx context.Context, id string, change func(*video.Job) (*usage.Settlement, error)) (*video.Job, error) {
	var j *video.Job
	// Errors of change must not pass through unavailable, which might replace them.
	var refused error
	err := s.db.Tx(ctx, func(tx *sqlstore.Conn) (err error) {
		// The update takes the row's lock on PostgreSQL. On SQLite this transaction is the only
		// writer anyway.
		if j, err = sqlstore.One(tx, scanVideo, `UPDATE video_jobs SET version = version + 1 WHERE id = $1 RETURNING `+videoColumns, id); err != nil {
			return err
		}
		if j == nil {
			refused = video.ErrGone
			return refused
		}
		was := j.Status
		settlement, err := change(j)
		if err != nil {
			refused = err
			return err
		}
		updateVideo(tx, j)
		if j.Status != was {
			alerts.Add(tx, alert.OfVideo(j))
		}
		if settlement == nil {
			return nil
		}
		// In the same transaction: a finished job is settled, and a settled job is finished.
		return calls.Add(tx, settlement)
	})
	switch {
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, err
	}
	return j, nil
}

// ReleaseVideos ends the claims of a node and returns its running jobs to the queue.
func (s *Store) ReleaseVideos(ctx context.Context, node string) error {
	return s.db.Write(ctx).Exec(`UPDATE video_jobs SET status = 'queued', node = '', until_at = 0, version = version + 1 WHERE status = 'running' AND node = $1`, node)
}

// DeleteVideo deletes a job.
func (s *Store) DeleteVideo(ctx context.Context, id string) error {
	return s.db.Write(ctx).Exec(`DELETE FROM video_jobs WHERE id = $1`, id)
}

// changing are the columns of a job that change after its creation; they follow its id.
const changing = `id, status, progress, reason, started_at, finished_at, expires_at, attempts, node, until_at, renderer, credential, upstream, generation, size, sha256`

// updateVideo writes the columns of a job that change after its creation.
func updateVideo(tx *sqlstore.Conn, j *video.Job) {
	tx.Do(sqlstore.Update("video_jobs", changing), j.ID, string(j.Status), j.Progress, string(j.Reason), j.StartedAt, j.FinishedAt, j.ExpiresAt,
		j.Attempts, j.Node, j.Until, j.Renderer, j.Credential, j.Upstream, nullText(j.Generation), j.Size, j.SHA256)
}

// scanVideo reads a row of videoColumns.
func scanVideo(row sqlstore.Row, j *video.Job) error {
	var generation *string // NULL means that there is no video yet
	var tags, budgets string
	var most *int64
	err := row.Scan(&j.ID, &j.AccountID, &j.KeyID, accounts.Plan(&j.Plan), accounts.Plan(&j.Tier), &j.Prompt, &j.Model, &j.Width, &j.Height, &j.Seconds, &j.CostMilli, &j.Repeat, &j.Body,
		&j.Status, &j.Progress, &j.Reason, &j.CreatedAt, &j.StartedAt, &j.FinishedAt, &j.ExpiresAt,
		&j.Attempts, &j.Node, &j.Until, &j.Renderer, &j.Credential, &j.Upstream, &generation, &j.Size, &j.SHA256, &j.RequestSHA256, &j.Session, &tags, &budgets, &most)
	j.Tags = account.ParseTags(tags)
	if generation != nil {
		j.Generation = *generation
	}
	var s usage.Settlement
	s.SetDetails(budgets)
	j.Budgets, j.Most = s.Terms.Budgets, (*price.Nano)(most)
	return err
}

// chargesText returns what a job takes from budgets, for a column.
func chargesText(charges []usage.Charge) string {
	s := usage.Settlement{Terms: usage.Terms{Budgets: charges}}
	return s.Details()
}

// nullText returns v as a query parameter, with the empty string as NULL, so that a unique index
// ignores it.
func nullText(v string) any {
	if v == "" {
		return nil
	}
	return v
}
