package video

import (
	"context"
	"errors"
	"time"

	"sluice/internal/usage"
)

// ExpiryStore finds and deletes jobs whose time is over.
type ExpiryStore interface {
	// ExpiredVideos returns at most most jobs that expired before now.
	ExpiredVideos(ctx context.Context, now time.Time, most int) ([]Job, error)
	// DeleteVideo deletes a job.
	DeleteVideo(ctx context.Context, id string) error
}

// sweep removes what has expired, now and then: files first, then their jobs.
func (l *Line) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := l.sweepOnce(ctx, time.Now()); err != nil && ctx.Err() == nil {
			l.log.Warn("expired videos could not be removed", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (l *Line) sweepOnce(ctx context.Context, now time.Time) error {
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
		if len(jobs) < sweepAtOnce {
			return nil
		}
	}
}

// expire forgets a finished job with all its files; one that is not finished fails, and is kept for as
// long as any other that did.
func (l *Line) expire(ctx context.Context, j *Job, now time.Time) error {
	if !j.Status.Final() {
		_, err := l.change(ctx, j.ID, func(j *Job, s *Settings) error {
			if j.Status.Final() {
				return errFinal
			}
			j.Reason = Expired
			j.finish(Failed, now, s.Keep)
			return nil
		})
		if errors.Is(err, errFinal) || errors.Is(err, ErrGone) {
			return nil // it ended in this moment
		}
		return err
	}
	for attempt := 1; attempt <= j.Attempts; attempt++ {
		if err := l.files.Delete(ctx, j.file(attempt)); err != nil {
			return err
		}
	}
	return l.expired.DeleteVideo(ctx, j.ID)
}

// unsettled is a change that leads to no settlement.
func unsettled(rule func(*Job) error) func(*Job) (*usage.Settlement, error) {
	return func(j *Job) (*usage.Settlement, error) { return nil, rule(j) }
}
