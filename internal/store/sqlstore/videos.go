package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
	"sluice/internal/video"
)

// videoColumns are in the order of videoValues and scanVideo.
const videoColumns = `id, account_id, key_id, plan, tier, prompt, model, width, height, seconds, cost_milli, repeat_hash, body_hash,
	status, progress, reason, created_at, started_at, finished_at, expires_at, attempts, node, until_at, renderer, credential, upstream, generation, size, sha256`

// CreateVideo stores a job if allow accepts it, given the account's current load. If the account
// has a job with the same Repeat already, nothing is stored, and that job is returned; otherwise
// the returned job is nil.
func (s *Store) CreateVideo(ctx context.Context, j *video.Job, allow func(video.Load) error) (*video.Job, error) {
	var first *video.Job
	err := s.tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		// The upsert locks the account's row on PostgreSQL, so that jobs of one account are
		// admitted one after the other. On SQLite this transaction is the only writer anyway.
		_, err = tx.ExecContext(ctx, `INSERT INTO video_turns (account_id, turn) VALUES ($1, 0)
			ON CONFLICT (account_id) DO UPDATE SET turn = video_turns.turn`, j.AccountID)
		if err != nil {
			return err
		}
		if j.Repeat != nil {
			first, err = scanVideo(tx.QueryRowContext(ctx, `SELECT `+videoColumns+` FROM video_jobs WHERE account_id = $1 AND repeat_hash = $2`, j.AccountID, j.Repeat))
			if err != nil || first != nil {
				return err
			}
		}
		// The lock keeps the load from changing until the job is stored.
		have, err := videoLoad(ctx, tx, j.AccountID)
		if err != nil {
			return err
		}
		if err := allow(have); err != nil {
			return err
		}
		// 30 is the number of videoColumns, and one for version.
		_, err = tx.ExecContext(ctx, `INSERT INTO video_jobs (`+videoColumns+`, version) VALUES `+placeholders(1, 30), append(videoValues(j), 1)...)
		return err
	})
	return first, err
}

// videoLoad returns how many unfinished jobs the account has, the bytes of its finished videos, and
// when the next of those expires.
func videoLoad(ctx context.Context, tx *sql.Tx, accountID string) (have video.Load, err error) {
	var next sql.NullInt64
	err = tx.QueryRowContext(ctx, `SELECT COALESCE(SUM(CASE WHEN status IN ('queued', 'running') THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(size), 0), MIN(CASE WHEN size > 0 THEN expires_at END) FROM video_jobs WHERE account_id = $1`, accountID).Scan(&have.Unfinished, &have.Bytes, &next)
	have.NextExpiry = fromMillis(next.Int64)
	return have, err
}

// FindVideo returns the job with the given id or generation id, or nil if there is none.
func (s *Store) FindVideo(ctx context.Context, id string) (*video.Job, error) {
	j, err := scanVideo(s.read.QueryRowContext(ctx, `SELECT `+videoColumns+` FROM video_jobs WHERE id = $1 OR generation = $1`, id))
	return j, unavailable(err)
}

// FindRepeat returns the account's job with the given Repeat, or nil if there is none.
func (s *Store) FindRepeat(ctx context.Context, accountID string, repeat []byte) (*video.Job, error) {
	j, err := scanVideo(s.read.QueryRowContext(ctx, `SELECT `+videoColumns+` FROM video_jobs WHERE account_id = $1 AND repeat_hash = $2`, accountID, repeat))
	return j, unavailable(err)
}

// Videos returns an account's jobs, newest first, starting after the job behind. A nil behind
// starts with the newest.
func (s *Store) Videos(ctx context.Context, accountID string, behind *video.Job, most int) ([]video.Job, error) {
	// The second page starts after a pair of time and id, because jobs may share a millisecond.
	if behind == nil {
		return s.queryVideos(ctx, `WHERE account_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2`, accountID, most)
	}
	return s.queryVideos(ctx, `WHERE account_id = $1 AND (created_at < $3 OR created_at = $3 AND id < $4) ORDER BY created_at DESC, id DESC LIMIT $2`,
		accountID, most, millis(behind.CreatedAt), behind.ID)
}

// VideosSince returns all jobs created since a time, oldest first.
func (s *Store) VideosSince(ctx context.Context, since time.Time) ([]video.Job, error) {
	return s.queryVideos(ctx, `WHERE created_at >= $1 ORDER BY created_at`, millis(since))
}

// FinishedVideos returns up to most jobs that have a file, ordered by id, starting after an id.
func (s *Store) FinishedVideos(ctx context.Context, after string, most int) ([]video.Job, error) {
	return s.queryVideos(ctx, `WHERE generation IS NOT NULL AND id > $1 ORDER BY id LIMIT $2`, after, most)
}

// ExpiredVideos returns up to most jobs that have expired, the oldest first.
func (s *Store) ExpiredVideos(ctx context.Context, now time.Time, most int) ([]video.Job, error) {
	return s.queryVideos(ctx, `WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2`, millis(now), most)
}

// queryVideos returns the jobs that the where clause selects.
func (s *Store) queryVideos(ctx context.Context, where string, args ...any) ([]video.Job, error) {
	var out []video.Job
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		j, err := scanVideo(rows)
		if err != nil {
			return err
		}
		out = append(out, *j)
		return nil
	}, `SELECT `+videoColumns+` FROM video_jobs `+where, args...)
	return out, unavailable(err)
}

// ClaimVideo picks the job whose turn it is, applies claim to it and stores it. It returns nil if
// none is waiting. An unfinished job is waiting if its until time has passed: nobody has claimed
// it, or the claim has lapsed because its node died.
//
// Accounts take turns: each claim moves the account to the end of the queue, so an account with
// many jobs does not delay the others.
func (s *Store) ClaimVideo(ctx context.Context, now time.Time, claim func(*video.Job)) (*video.Job, error) {
	var j *video.Job
	query := `SELECT ` + videoColumns + ` FROM video_jobs JOIN video_turns USING (account_id)
		WHERE status IN ('queued', 'running') AND until_at <= $1 ORDER BY turn, created_at, id LIMIT 1`
	if s.engine == Postgres {
		query += ` FOR UPDATE OF video_jobs SKIP LOCKED` // on SQLite this transaction is the only writer
	}
	err := s.tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		// SKIP LOCKED leaves out jobs that another node is claiming right now.
		if j, err = scanVideo(tx.QueryRowContext(ctx, query, millis(now))); err != nil || j == nil {
			return err
		}
		claim(j)
		if err := updateVideo(ctx, tx, j); err != nil {
			return err
		}
		// The account that was just served goes to the end of the queue.
		var turn int64
		if err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'video_turns' RETURNING value`).Scan(&turn); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE video_turns SET turn = $2 WHERE account_id = $1`, j.AccountID, turn)
		return err
	})
	if err != nil {
		return nil, err
	}
	return j, nil
}

// WaitingVideos returns how many jobs wait to be claimed, and when the oldest of them was created. The time is zero
// if none waits.
func (s *Store) WaitingVideos(ctx context.Context, now time.Time) (waiting int, oldest time.Time, err error) {
	var first sql.NullInt64
	err = s.read.QueryRowContext(ctx, `SELECT COUNT(*), MIN(created_at) FROM video_jobs
		WHERE status IN ('queued', 'running') AND until_at <= $1`, millis(now)).Scan(&waiting, &first)
	if err == nil && first.Valid {
		oldest = time.UnixMilli(first.Int64).UTC()
	}
	return waiting, oldest, err
}

// ChangeVideo applies a change under the row's lock and stores the settlement that change returns,
// if any, in the same transaction. An error of change rolls back and is returned as it is. A
// missing job is video.ErrGone.
func (s *Store) ChangeVideo(ctx context.Context, id string, change func(*video.Job) (*usage.Settlement, error)) (*video.Job, error) {
	var j *video.Job
	// Errors of change must not pass through unavailable, which might replace them.
	var refused error
	err := s.tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		// The update takes the row's lock on PostgreSQL. On SQLite this transaction is the only
		// writer anyway.
		if j, err = scanVideo(tx.QueryRowContext(ctx, `UPDATE video_jobs SET version = version + 1 WHERE id = $1 RETURNING `+videoColumns, id)); err != nil {
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
		if err := updateVideo(ctx, tx, j); err != nil {
			return err
		}
		if j.Status != was {
			if err := addAlerts(ctx, tx, alert.OfVideo(j)); err != nil {
				return err
			}
		}
		if settlement == nil {
			return nil
		}
		// In the same transaction: a finished job is settled, and a settled job is finished.
		return addSettlement(ctx, tx, settlement)
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
	_, err := s.write.ExecContext(ctx, `UPDATE video_jobs SET status = 'queued', node = '', until_at = 0, version = version + 1 WHERE status = 'running' AND node = $1`, node)
	return unavailable(err)
}

// DeleteVideo deletes a job.
func (s *Store) DeleteVideo(ctx context.Context, id string) error {
	_, err := s.write.ExecContext(ctx, `DELETE FROM video_jobs WHERE id = $1`, id)
	return unavailable(err)
}

// updateVideo writes the columns of a job that change after its creation.
func updateVideo(ctx context.Context, tx *sql.Tx, j *video.Job) error {
	_, err := tx.ExecContext(ctx, `UPDATE video_jobs SET status = $2, progress = $3, reason = $4, started_at = $5, finished_at = $6, expires_at = $7,
		attempts = $8, node = $9, until_at = $10, renderer = $11, credential = $12, upstream = $13, generation = $14, size = $15, sha256 = $16 WHERE id = $1`,
		j.ID, string(j.Status), j.Progress, string(j.Reason), millis(j.StartedAt), millis(j.FinishedAt), millis(j.ExpiresAt),
		j.Attempts, j.Node, millis(j.Until), j.Renderer, j.Credential, j.Upstream, nullText(j.Generation), j.Size, j.SHA256)
	return err
}

// videoValues returns the columns of a job in the order of videoColumns.
func videoValues(j *video.Job) []any {
	return []any{
		j.ID, j.AccountID, j.KeyID, j.Plan.String(), j.Tier.String(), j.Prompt, j.Model, j.Width, j.Height, j.Seconds, j.CostMilli, nullBytes(j.Repeat), nullBytes(j.Body),
		string(j.Status), j.Progress, string(j.Reason), millis(j.CreatedAt), millis(j.StartedAt), millis(j.FinishedAt), millis(j.ExpiresAt),
		j.Attempts, j.Node, millis(j.Until), j.Renderer, j.Credential, j.Upstream, nullText(j.Generation), j.Size, j.SHA256,
	}
}

// scanVideo reads a row of videoColumns. It returns nil if there is none.
func scanVideo(row interface{ Scan(dest ...any) error }) (*video.Job, error) {
	var j video.Job
	var plan, tier, status, reason string
	var created, started, finished, expires, until int64
	var generation sql.NullString
	err := row.Scan(&j.ID, &j.AccountID, &j.KeyID, &plan, &tier, &j.Prompt, &j.Model, &j.Width, &j.Height, &j.Seconds, &j.CostMilli, &j.Repeat, &j.Body,
		&status, &j.Progress, &reason, &created, &started, &finished, &expires,
		&j.Attempts, &j.Node, &until, &j.Renderer, &j.Credential, &j.Upstream, &generation, &j.Size, &j.SHA256)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// A generation of NULL means that there is no video yet.
	j.Status, j.Reason, j.Generation = video.Status(status), video.Reason(reason), generation.String
	j.CreatedAt, j.StartedAt, j.FinishedAt = fromMillis(created), fromMillis(started), fromMillis(finished)
	j.ExpiresAt, j.Until = fromMillis(expires), fromMillis(until)
	if j.Plan, err = account.ParsePlan(plan); err != nil {
		return nil, err
	}
	j.Tier, err = account.ParsePlan(tier)
	return &j, err
}

// nullBytes returns v as a query parameter, with nil as NULL. Drivers would otherwise store an
// empty value.
func nullBytes(v []byte) any {
	if v == nil {
		return nil
	}
	return v
}

// nullText returns v as a query parameter, with the empty string as NULL, so that a unique index
// ignores it.
func nullText(v string) sql.NullString { return sql.NullString{String: v, Valid: v != ""} }
