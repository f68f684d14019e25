package video

import (
	"context"
	"errors"
	"time"

	"sluice/internal/kit/pace"
)

// ExpiryStore finds and deletes jobs whose time is over.
type ExpiryStore interface {
	// ExpiredVideos returns at most most jobs that expired before now.
	ExpiredVideos(ctx context.Context, now time.Time, most int) ([]Job, error)
	// DeleteVideo deletes a job.
	DeleteVideo(ctx context.Context, id string) error
}

// sweep removes expired jobs and their files at regular intervals until ctx ends.
func (l *Line) sweep(ctx context.Context) {
	for range pace.AtOnce(ctx, sweepEvery) {
		if err := l.sweepOnce(ctx, time.Now()); err != nil && ctx.Err() == nil {
			l.log.Warn("expired videos could not be removed", "error", err.Error())
		}
	}
}

// sweepOnce removes unfinished files that nobody writes any more, and then all expired jobs, in
// batches.
func (l *Line) sweepOnce(ctx context.Context, now time.Time) error {
	// Unfinished files belong to no job, so they are found by age alone.
	if err := l.files.Sweep(now.Add(-staleAfter)); err != nil {
		return err
	}
	for {
		jobs, err := l.expired.ExpiredVideos(ctx, now, sweepAtOnce)
		if err != nil {
			return err
		}
		for i := range jobs {
			if err := l.expire(ctx, &jobs[i], now); err != nil {
				return err
			}
		}
		// A full batch means that there may be more.
		if len(jobs) < sweepAtOnce {
			return nil
		}
	}
}

// expire removes a finished job and all its files. A job that has not finished in time fails
// instead, and is kept for as long as any other failed job. Files are deleted first: if the process
// dies in between, the job is still there to try again.
func (l *Line) expire(ctx context.Context, j *Job, now time.Time) error {
	if !j.Status.Final() {
		_, err := l.change(ctx, j.ID, func(j *Job, s *Settings) error {
			if j.Status.Final() {
				return errFinal
			}
			// The job gets a new time to live, counted from now, so that its owner can see why it
			// failed.
			j.Reason = Expired
			j.finish(Failed, now, s.Keep)
			return nil
		})
		if errors.Is(err, errFinal) || errors.Is(err, ErrGone) {
			return nil // it has finished or was deleted in the meantime
		}
		return err
	}
	// Attempts that failed may have left files, too.
	for attempt := 1; attempt <= j.Attempts; attempt++ {
		if err := l.files.Delete(ctx, j.file(attempt)); err != nil {
			return err
		}
	}
	return l.expired.DeleteVideo(ctx, j.ID)
}
