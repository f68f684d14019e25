package video

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"sluice/internal/kit/pace"
)

// Vendor is a service that makes videos as jobs of its own. It must be safe for concurrent use.
type Vendor interface {
	// Begin submits a task and returns the id that the job has at the vendor.
	Begin(ctx context.Context, t *Task) (upstream string, err error)
	// Look returns the state of a job. A job that has failed is a *Refusal.
	Look(ctx context.Context, upstream string) (Sight, error)
	// Fetch writes the file of a finished job to w.
	Fetch(ctx context.Context, s Sight, w io.Writer) error
	// Drop tells the vendor that a job is no longer wanted.
	Drop(ctx context.Context, upstream string) error
}

// Sight is the state of a vendor's job.
type Sight struct {
	Done     bool
	Progress int    // percent, if the vendor says
	File     string // what Fetch needs to find the file, once the job is done
}

const (
	// defaultPause is the first pause between two polls. The pause grows by half each time.
	defaultPause = 2 * time.Second
	// slowest is the longest pause between two polls, as a multiple of the first one.
	slowest = 8
	// maxTrouble is how many polls in a row may fail before the attempt is given up. The next
	// attempt continues the same job.
	maxTrouble = 10
	// beginTries is how often a task is submitted if the vendor certainly did not accept it.
	beginTries = 3
	// dropPatience bounds the call that tells the vendor to drop a job.
	dropPatience = 10 * time.Second
)

// Remote returns a Renderer that uses a vendor. The first pause between two polls is given by tests; 0: the default.
func Remote(v Vendor, pause time.Duration) Renderer {
	return &remote{vendor: v, pause: cmp.Or(pause, defaultPause)}
}

// remote implements Renderer with a vendor's jobs.
type remote struct {
	vendor Vendor
	pause  time.Duration
}

// Render implements Renderer. It submits the task unless an earlier attempt has done so, polls
// until the job is done, and fetches the file.
func (r *remote) Render(ctx context.Context, w io.Writer, t *Task) error {
	err := r.begin(ctx, t)
	if err == nil {
		var sight Sight
		if sight, err = r.await(ctx, t); err == nil {
			err = r.vendor.Fetch(ctx, sight, w)
		}
	}
	// A job is dropped only if the caller canceled it. If this process stops, another attempt
	// continues it.
	if t.Upstream != "" && (errors.Is(err, ErrCancelled) || errors.Is(context.Cause(ctx), ErrCancelled)) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropPatience)
		defer cancel()
		_ = r.vendor.Drop(last, t.Upstream) // if that fails, the job ends on its own
	}
	return err
}

// Fit implements Fitted.
func (r *remote) Fit(t *Task) (width, height, seconds int) {
	if f, ok := r.vendor.(Fitted); ok {
		return f.Fit(t)
	}
	return t.Width, t.Height, t.Seconds
}

// begin submits the task and stores its id at once, because from then on the video has to be paid
// for. It does not stop halfway when ctx ends, and it submits again only what the vendor certainly
// did not accept.
func (r *remote) begin(ctx context.Context, t *Task) error {
	if t.Upstream != "" {
		return nil
	}
	for try := 1; ; try++ {
		upstream, err := r.vendor.Begin(context.WithoutCancel(ctx), t)
		if err == nil {
			t.Upstream = upstream
			return t.Begun(context.WithoutCancel(ctx), upstream)
		}
		answer, answered := errors.AsType[*Answer](err)
		_, refused := errors.AsType[*Refusal](err)
		switch {
		// The vendor said no for good.
		case refused:
			return err
		// Nothing was accepted, so try again below.
		case !taken(err):
		case answered && answer.Status/100 == 4: // probably our key: nothing was started
			return err
		default:
			return Refuse(Provider, "it is not known whether the provider accepted the job: %w", err)
		}
		if try == beginTries {
			return err
		}
		pause := time.Duration(try) * r.pause
		if answered {
			pause = answer.wait(pause)
		}
		if err := pace.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// taken reports whether a failed request may have had an effect. It cannot have if the vendor was
// busy or the connection was never made.
func taken(err error) bool {
	if answer, ok := errors.AsType[*Answer](err); ok {
		return !answer.Busy()
	}
	op, ok := errors.AsType[*net.OpError](err)
	return !ok || op.Op != "dial"
}

// await polls the job, less and less often, until it is done.
func (r *remote) await(ctx context.Context, t *Task) (Sight, error) {
	wait, trouble := r.pause, 0
	for {
		sight, err := r.vendor.Look(ctx, t.Upstream)
		pause := wait
		switch _, refused := errors.AsType[*Refusal](err); {
		case err == nil && sight.Done:
			return sight, nil
		case refused, ctx.Err() != nil:
			return Sight{}, err
		// Look failed. The job itself may be fine, so keep polling.
		case err != nil:
			if trouble++; trouble == maxTrouble {
				return Sight{}, fmt.Errorf("the provider was polled %d times: %w", trouble, err)
			}
			if answer, ok := errors.AsType[*Answer](err); ok {
				pause = answer.wait(wait)
			}
		default:
			trouble = 0
			t.Progress(sight.Progress)
		}
		if err := pace.Sleep(ctx, pause); err != nil {
			return Sight{}, err
		}
		wait = min(wait*3/2, slowest*r.pause)
	}
}
