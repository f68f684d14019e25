package video

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/usage"
	"sluice/internal/video/blob"
)

const (
	// maxAttempts is how often a job may be claimed before it fails.
	maxAttempts = 5
	// idleEvery is how often Run looks for work that nobody announced, such as jobs of other nodes.
	idleEvery = time.Second
	// beatEvery is how often a claim is renewed, unless the lease is very short.
	beatEvery  = time.Second
	retryAfter = 2 * time.Second // multiplied by the number of attempts
	sweepEvery = time.Minute
	// sweepAtOnce is the number of expired jobs that are read at once.
	sweepAtOnce = 100
	// staleAfter is how long an unfinished file must have been untouched to conclude that its
	// writer is dead.
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
	// WaitingVideos returns how many jobs wait to be claimed, on all nodes, and when the oldest of them was
	// created.
	WaitingVideos(ctx context.Context, now time.Time) (waiting int, oldest time.Time, err error)
}

// Run renders jobs until ctx ends. Jobs that are being rendered at that time return to the queue.
//
// One goroutine claims, and each job has a goroutine of its own. A change of Settings.Workers
// takes effect at the next claim; jobs that run are not stopped.
func (l *Line) Run(ctx context.Context) {
	var working sync.WaitGroup
	working.Go(func() { l.sweep(ctx) })
	defer working.Wait()
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	// ended receives one value for each job that has ended. Only this goroutine changes running.
	ended := make(chan struct{})
	released := false
	running := 0
	var trouble health.Trouble
	for {
		var err error
		// Until it succeeds, no job is claimed: otherwise the release would end our own new claims.
		if !released {
			// No other process has this node's name, so these claims belong to a process that has
			// died.
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
		if err != nil && ctx.Err() == nil {
			trouble.Failed(l.log, "video jobs are waiting: the database does not answer", err)
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

// claim claims the job whose turn it is, or returns nil if none is waiting.
func (l *Line) claim(ctx context.Context) (*Job, error) {
	s, now := l.settings.Load(), time.Now()
	// The lease counts from before the call, so that we never believe in it for longer than the
	// store does.
	return l.queue.ClaimVideo(ctx, now, func(j *Job) {
		j.Status, j.Node, j.Until = Running, l.node, now.Add(s.Lease)
		j.Attempts++
		if j.StartedAt.IsZero() {
			j.StartedAt = now
		}
		if j.Upstream == "" { // else it continues with the engine that it was started with
			j.Renderer, j.Credential = s.Engine.Name, s.Engine.Credential
		}
	})
}

// work renders a claimed job and stores the outcome.
//
// The context of the rendering has a cause that says why it ended: the job took too long
// (errOverdue), the caller canceled it (ErrCancelled), the claim was lost (errLost), or the process
// stops. In the middle two cases the job is no longer ours to change.
func (l *Line) work(ctx context.Context, j *Job) {
	s := l.settings.Load()
	ctx, late := context.WithDeadlineCause(ctx, j.ExpiresAt, errOverdue)
	defer late()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	l.track(j.ID, stop)
	defer l.track(j.ID, nil)

	// Progress goes from the renderer to the store through this value; see beat.
	var progress atomic.Int64
	progress.Store(int64(j.Progress))
	var beating sync.WaitGroup
	beating.Go(func() { l.beat(ctx, stop, j, &progress, s.Lease) })
	err := l.render(ctx, j, s, &progress)
	reason := context.Cause(ctx) // nil if nothing ended it early
	stop(nil)
	beating.Wait()
	switch {
	case err == nil, errors.Is(reason, errLost), errors.Is(reason, ErrCancelled):
	case errors.Is(reason, errOverdue):
		l.fail(j, Expired, err)
	// The process stops.
	case reason != nil:
		l.release(j, 0, errStopping)
	default:
		l.failed(j, err)
	}
}

// render writes the file and finishes the job.
// Each attempt writes a file of its own name, so a writer that has lost its claim cannot overwrite
// the file of its successor.
func (l *Line) render(ctx context.Context, j *Job, s *Settings, progress *atomic.Int64) error {
	// Delete what earlier attempts have left. Their writers are dead, or have lost their claim and
	// cannot finish the job any more.
	for attempt := 1; attempt < j.Attempts; attempt++ {
		if err := l.files.Delete(ctx, j.file(attempt)); err != nil {
			return err
		}
	}
	if j.Attempts > maxAttempts {
		return Refuse(Interrupted, "%d attempts", j.Attempts-1)
	}
	// A vendor's job can only be polled with the credential that created it.
	engine := s.engineOf(j.Credential)
	if engine == nil {
		return Refuse(Provider, "the job was begun at %s with a credential that is no longer configured", j.Renderer)
	}
	if err := s.affords(j, engine); err != nil {
		return err
	}
	info, err := l.files.Put(ctx, j.file(j.Attempts), func(w io.Writer) error {
		return engine.Renderer.Render(ctx, &bounded{w, s.FileBytes}, &Task{
			Prompt: j.Prompt, Width: j.Width, Height: j.Height, Seconds: j.Seconds, Upstream: j.Upstream,
			Begun: func(ctx context.Context, upstream string) error { return l.begun(ctx, j, upstream) },
			// 100 is reserved for a job whose file is stored.
			Progress: func(percent int) { progress.Store(int64(min(max(percent, 0), 99))) },
		})
	})
	if err != nil {
		return err
	}
	return l.succeed(ctx, j, info, s.Lease)
}

// succeed finishes a job whose file is stored. It ignores the end of ctx, because the work is done.
func (l *Line) succeed(ctx context.Context, j *Job, info blob.Info, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	// The id is made once, so that a repeated try can recognize its own success.
	generation := newID("gen_")
	err := l.retry(ctx, func() error {
		_, err := l.change(ctx, j.ID, func(now *Job, s *Settings) error {
			if now.Generation == generation {
				return nil // an earlier try was stored, but its reply got lost
			}
			if err := now.held(j); err != nil {
				return err
			}
			now.Progress, now.Generation, now.Size, now.SHA256 = 100, generation, info.Size, info.SHA256
			now.finish(Succeeded, time.Now(), s.Keep)
			return nil
		})
		return err
	})
	if given(err) {
		_ = l.files.Delete(ctx, j.file(j.Attempts)) // if that fails, it is deleted with the job
	}
	return err
}

// given reports whether err says that the job now belongs to another node or to nobody.
func given(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, ErrCancelled) || errors.Is(err, ErrGone)
}

// held returns why the claim with which the worker got c no longer stands, or nil if it does. Each claim increments
// Attempts, so an old claim of the same node does not count.
func (j *Job) held(c *Job) error {
	switch {
	case j.Status == Running && j.Node == c.Node && j.Attempts == c.Attempts:
		return nil
	case j.Status == Cancelled:
		return ErrCancelled
	}
	return errLost
}

// engineOf returns the engine with the given credential, or nil if it is no longer configured.
func (s *Settings) engineOf(credential string) *Engine {
	for i := range s.Engines {
		if s.Engines[i].Credential == credential {
			return &s.Engines[i]
		}
	}
	return nil
}

// begun stores the id that a job has at its vendor. It keeps trying for as long as the claim lasts
// without being renewed, because a lost id means a video that is paid for and never fetched.
func (l *Line) begun(ctx context.Context, j *Job, upstream string) error {
	ctx, cancel := context.WithTimeout(ctx, l.settings.Load().Lease)
	defer cancel()
	err := l.insist(ctx, j, func(now *Job, _ *Settings) { now.Upstream = upstream })
	if err != nil {
		l.log.Error("the id of a video job at its provider could not be stored", "job", j.ID, "renderer", j.Renderer, "upstream", upstream, "error", err.Error())
		return err
	}
	j.Upstream = upstream
	return nil
}

// changeHeld changes a job if the claim with which the worker got it still stands.
func (l *Line) changeHeld(ctx context.Context, j *Job, rule func(*Job, *Settings)) error {
	_, err := l.change(ctx, j.ID, func(now *Job, s *Settings) error {
		if err := now.held(j); err != nil {
			return err
		}
		rule(now, s)
		return nil
	})
	return err
}

// insist is changeHeld, retried while the database does not answer, until ctx ends.
func (l *Line) insist(ctx context.Context, j *Job, rule func(*Job, *Settings)) error {
	return l.retry(ctx, func() error { return l.changeHeld(ctx, j, rule) })
}

// retry retries a change of a claimed job while the database does not answer, until ctx ends.
func (l *Line) retry(ctx context.Context, change func() error) error {
	// Wait longer after each failure, up to a second.
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := change()
		if err == nil || given(err) || pace.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// beat renews the claim and stores the job's progress until ctx ends. If the claim is lost or the
// job was canceled, it stops the work.
// A renewal that merely fails is tried again at the next beat, for as long as the lease lasts.
func (l *Line) beat(ctx context.Context, stop context.CancelCauseFunc, j *Job, progress *atomic.Int64, lease time.Duration) {
	// A third of the lease leaves room for two failed renewals.
	until := j.Until
	for range pace.Every(ctx, min(beatEvery, lease/3)) {
		// The new lease counts from before the call, so that we never believe in it for longer than
		// the store does.
		next := time.Now().Add(lease)
		// Once the claim has lapsed, renewing it makes no sense.
		patient, cancel := context.WithDeadline(ctx, until)
		err := l.changeHeld(patient, j, func(now *Job, _ *Settings) {
			now.Until, now.Progress = next, int(progress.Load())
		})
		cancel()
		switch {
		case err == nil:
			until = next
		case errors.Is(err, ErrCancelled):
			stop(ErrCancelled)
			return
		// If the store did not answer until the lease ended, another node may have claimed the job.
		case errors.Is(err, errLost), errors.Is(err, ErrGone), !time.Now().Before(until):
			stop(errLost)
			return
		}
	}
}

// failed decides what follows a failure: the end of the job, or another attempt.
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
		// The vendor had accepted the job, so the failure is attributed to it.
		if j.Upstream != "" {
			reason = Provider
		}
		l.fail(j, reason, err)
	default:
		l.release(j, time.Duration(j.Attempts)*retryAfter, err)
	}
}

// lastPatience bounds how long storing the outcome of a job may take after its work has ended.
const lastPatience = 5 * time.Second

// fail finishes a claimed job without a video. It uses a context of its own, because that of the
// work has ended.
func (l *Line) fail(j *Job, reason Reason, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), lastPatience)
	defer cancel()
	// The vendor's words go to the log only. The caller sees the reason.
	l.log.Warn("a video job failed", "job", j.ID, "reason", string(reason), "renderer", j.Renderer, "error", cause.Error())
	err := l.insist(ctx, j, func(now *Job, s *Settings) {
		now.Reason = reason
		now.finish(Failed, time.Now(), s.Keep)
	})
	l.report(j, err)
}

// release returns a claimed job to the queue, to be claimed after wait. If the process is stopping,
// the attempt does not count.
func (l *Line) release(j *Job, wait time.Duration, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), lastPatience)
	defer cancel()
	err := l.insist(ctx, j, func(now *Job, _ *Settings) {
		// A queued job is not claimed before Until, which delays the next attempt.
		now.Status, now.Node, now.Until = Queued, "", time.Now().Add(wait)
		if errors.Is(cause, errStopping) {
			now.Attempts--
		}
	})
	l.report(j, err)
	if !errors.Is(cause, errStopping) {
		l.log.Warn("a video job is retried", "job", j.ID, "attempt", j.Attempts, "in", wait.String(), "error", cause.Error())
	}
}

// report logs that the outcome of a job could not be stored. The claim then lapses, and the next
// worker finds an outcome.
func (l *Line) report(j *Job, err error) {
	if err != nil && !given(err) {
		l.log.Warn("the outcome of a video job could not be stored; the job will be retried", "job", j.ID, "error", err.Error())
	}
}

// Running returns how many jobs this process is rendering.
func (l *Line) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running)
}

// track remembers how to stop the work on a job. A nil stop means that the work has ended.
func (l *Line) track(id string, stop context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stop == nil {
		delete(l.running, id)
	} else {
		l.running[id] = stop
	}
}
