package video

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/blob"
	"sluice/internal/usage"
)

const (
	maxAttempts = 5
	idleEvery   = time.Second
	beatEvery   = time.Second
	retryAfter  = 2 * time.Second // grows with the attempts
	sweepEvery  = time.Minute
	warnEvery   = time.Minute // about the same trouble
	sweepAtOnce = 100
	// staleAfter is how long nobody has written to a file whose writer must be dead.
	staleAfter = time.Hour
)

// QueueStore hands out jobs to those who work on them. Each method is one transaction.
type QueueStore interface {
	// ClaimVideo applies claim to the job whose turn it is and stores it, or returns nil if none waits. A job waits if
	// it is queued or its claim has lapsed. It is the turn of the account that has waited longest since its last one.
	ClaimVideo(ctx context.Context, now time.Time, claim func(*Job)) (*Job, error)
	// ChangeVideo applies change to a job under the lock of its row, and stores the job and the settlement, if it
	// is not nil. If change returns an error, nothing is stored and ChangeVideo returns that error. If there is no
	// such job, it returns ErrGone.
	ChangeVideo(ctx context.Context, id string, change func(*Job) (*usage.Settlement, error)) (*Job, error)
	// ReleaseVideos ends the claims of a node.
	ReleaseVideos(ctx context.Context, node string) error
}

// Run makes videos until ctx ends. Work that is under way then goes back into the queue.
func (l *Line) Run(ctx context.Context) {
	var working sync.WaitGroup
	working.Go(func() { l.sweep(ctx) })
	defer working.Wait()
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	ended := make(chan struct{})
	released := false
	running := 0
	warned := time.Time{}
	for {
		var err error
		if !released {
			// Nobody else has this node's name while we live, so its claims are those of the dead.
			err = l.queue.ReleaseVideos(ctx, l.node)
			released = err == nil
		}
		for released && running < l.settings.Load().Workers && ctx.Err() == nil {
			var j *Job
			if j, err = l.claim(ctx); j == nil {
				break
			}
			running++
			working.Go(func() {
				l.work(ctx, j)
				ended <- struct{}{}
			})
		}
		if err != nil && ctx.Err() == nil && time.Since(warned) >= warnEvery {
			warned = time.Now()
			l.log.Warn("video jobs wait: the database does not answer", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			for ; running > 0; running-- {
				<-ended
			}
			return
		case <-ended:
			running--
		case <-l.wake:
		case <-tick.C:
		}
	}
}

// claim takes the job whose turn it is; nil: none waits.
func (l *Line) claim(ctx context.Context) (*Job, error) {
	s, now := l.settings.Load(), time.Now()
	return l.queue.ClaimVideo(ctx, now, func(j *Job) {
		j.Status, j.Node, j.Until = Running, l.node, now.Add(s.Lease)
		j.Attempts++
		if j.StartedAt.IsZero() {
			j.StartedAt = now
		}
		if j.Upstream == "" { // else it goes on with what it began with
			j.Renderer, j.Credential = s.Engine.Name, s.Engine.Credential
		}
	})
}

// work makes the video of a claimed job, whatever comes of it.
func (l *Line) work(ctx context.Context, j *Job) {
	s := l.settings.Load()
	ctx, late := context.WithDeadlineCause(ctx, j.ExpiresAt, errOverdue)
	defer late()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	l.track(j.ID, stop)
	defer l.track(j.ID, nil)

	var progress atomic.Int64
	progress.Store(int64(j.Progress))
	var beating sync.WaitGroup
	beating.Go(func() { l.beat(ctx, stop, j, &progress, s.Lease) })
	err := l.render(ctx, j, s, &progress)
	reason := context.Cause(ctx) // nil: nobody wanted it to end
	stop(nil)
	beating.Wait()
	switch {
	case err == nil, errors.Is(reason, errLost), errors.Is(reason, ErrCancelled):
	case errors.Is(reason, errOverdue):
		l.fail(j, Expired, err)
	case reason != nil:
		l.release(j, 0, errStopping)
	default:
		l.failed(j, err)
	}
}

// render writes the file and finishes the job.
func (l *Line) render(ctx context.Context, j *Job, s *Settings, progress *atomic.Int64) error {
	// What earlier attempts left goes first: their writers are dead, or find themselves without a file.
	for attempt := 1; attempt < j.Attempts; attempt++ {
		if err := l.files.Delete(ctx, j.file(attempt)); err != nil {
			return err
		}
	}
	if j.Attempts > maxAttempts {
		return Refuse(Interrupted, "%d attempts", j.Attempts-1)
	}
	engine := s.engineOf(j.Credential)
	if engine == nil {
		return Refuse(Provider, "the job was begun at %s with a credential that is no longer configured", j.Renderer)
	}
	info, err := l.files.Put(ctx, j.file(j.Attempts), func(w io.Writer) error {
		return engine.Renderer.Render(ctx, &bounded{w, s.FileBytes}, &Task{
			Prompt: j.Prompt, Width: j.Width, Height: j.Height, Seconds: j.Seconds, Upstream: j.Upstream,
			Begun:    func(ctx context.Context, upstream string) error { return l.begun(ctx, j, upstream) },
			Progress: func(percent int) { progress.Store(int64(min(max(percent, 0), 99))) },
		})
	})
	if err != nil {
		return err
	}
	return l.succeed(ctx, j, info, s.Lease)
}

// succeed finishes a job whose file is there. It no longer minds that its work should end: it is done.
func (l *Line) succeed(ctx context.Context, j *Job, info blob.Info, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	generation := newID("gen_")
	_, err := l.insist(ctx, j, func(now *Job, s *Settings) error {
		if now.Generation == generation {
			return nil // stored, and only its answer was lost
		}
		if err := now.held(j); err != nil {
			return err
		}
		now.Progress, now.Generation, now.Size, now.SHA256 = 100, generation, info.Size, info.SHA256
		now.finish(Succeeded, time.Now(), s.Keep)
		return nil
	})
	if given(err) {
		_ = l.files.Delete(ctx, j.file(j.Attempts)) // else it goes when the job does
	}
	return err
}

// given reports whether a job is known to be another's by now, or nobody's.
func given(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, ErrCancelled) || errors.Is(err, ErrGone)
}

// held says why a claim on the job no longer stands.
func (j *Job) held(c *Job) error {
	switch {
	case j.heldBy(c):
		return nil
	case j.Status == Cancelled:
		return ErrCancelled
	}
	return errLost
}

// engineOf is the one with a credential; nil: there is none any more.
func (s *Settings) engineOf(credential string) *Engine {
	for i := range s.Engines {
		if s.Engines[i].Credential == credential {
			return &s.Engines[i]
		}
	}
	return nil
}

// begun keeps the id that a job has at its renderer's. It tries for as long as the claim stands without a
// sign of life.
func (l *Line) begun(ctx context.Context, j *Job, upstream string) error {
	ctx, cancel := context.WithTimeout(ctx, l.settings.Load().Lease)
	defer cancel()
	_, err := l.insist(ctx, j, func(now *Job, _ *Settings) error {
		if err := now.held(j); err != nil {
			return err
		}
		now.Upstream = upstream
		return nil
	})
	if err != nil {
		l.log.Error("the id of a video job at its provider could not be stored", "job", j.ID, "renderer", j.Renderer, "upstream", upstream, "error", err.Error())
		return err
	}
	j.Upstream = upstream
	return nil
}

// insist changes a claimed job, again and again while the database is away and the claim may stand.
func (l *Line) insist(ctx context.Context, j *Job, rule func(*Job, *Settings) error) (*Job, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		now, err := l.change(ctx, j.ID, rule)
		if err == nil || given(err) {
			return now, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

// beat keeps the claim alive and the job's progress known, until ctx ends. When the claim is lost it says so.
func (l *Line) beat(ctx context.Context, stop context.CancelCauseFunc, j *Job, progress *atomic.Int64, lease time.Duration) {
	tick := time.NewTicker(min(beatEvery, lease/3))
	defer tick.Stop()
	until := j.Until
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next := time.Now().Add(lease)
		patient, cancel := context.WithDeadline(ctx, until)
		_, err := l.queue.ChangeVideo(patient, j.ID, unsettled(func(now *Job) error {
			if err := now.held(j); err != nil {
				return err
			}
			now.Until, now.Progress = next, int(progress.Load())
			return nil
		}))
		cancel()
		switch {
		case err == nil:
			until = next
		case errors.Is(err, ErrCancelled):
			stop(ErrCancelled)
			return
		case errors.Is(err, errLost), errors.Is(err, ErrGone), !time.Now().Before(until):
			stop(errLost)
			return
		}
	}
}

// failed decides what follows a failure: the end, or another attempt.
func (l *Line) failed(j *Job, err error) {
	refusal, final := errors.AsType[*Refusal](err)
	switch {
	case given(err):
	case final:
		l.fail(j, refusal.Reason, err)
	case errors.Is(err, errTooLarge):
		l.fail(j, TooLarge, err)
	case j.Attempts >= maxAttempts:
		reason := Internal
		if j.Upstream != "" {
			reason = Provider
		}
		l.fail(j, reason, err)
	default:
		l.release(j, time.Duration(j.Attempts)*retryAfter, err)
	}
}

// lastPatience is how long the outcome of a job may take to be stored once its work has ended.
const lastPatience = 5 * time.Second

// fail ends a claimed job without a video.
func (l *Line) fail(j *Job, reason Reason, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), lastPatience)
	defer cancel()
	l.log.Warn("a video job failed", "job", j.ID, "reason", string(reason), "renderer", j.Renderer, "error", cause.Error())
	_, err := l.insist(ctx, j, func(now *Job, s *Settings) error {
		if err := now.held(j); err != nil {
			return err
		}
		now.Reason = reason
		now.finish(Failed, time.Now(), s.Keep)
		return nil
	})
	l.report(j, err)
}

// release puts a claimed job back into the queue. Where we stop, the attempt does not count.
func (l *Line) release(j *Job, wait time.Duration, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), lastPatience)
	defer cancel()
	_, err := l.insist(ctx, j, func(now *Job, _ *Settings) error {
		if err := now.held(j); err != nil {
			return err
		}
		now.Status, now.Node, now.Until = Queued, "", time.Now().Add(wait)
		if errors.Is(cause, errStopping) {
			now.Attempts--
		}
		return nil
	})
	l.report(j, err)
	if !errors.Is(cause, errStopping) {
		l.log.Warn("a video job is tried again", "job", j.ID, "attempt", j.Attempts, "in", wait.String(), "error", cause.Error())
	}
}

// report logs that a job's outcome could not be stored; whoever claims it next finds one.
func (l *Line) report(j *Job, err error) {
	if err != nil && !given(err) {
		l.log.Warn("the outcome of a video job could not be stored; it will be taken up again", "job", j.ID, "error", err.Error())
	}
}

// Running is how many jobs are at work here.
func (l *Line) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running)
}

// track remembers how to end the work on a job; nil: it has ended.
func (l *Line) track(id string, stop context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stop == nil {
		delete(l.running, id)
	} else {
		l.running[id] = stop
	}
}
