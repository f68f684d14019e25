package video

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Vendor is a service that makes videos as jobs of its own.
type Vendor interface {
	// Begin submits a task, and returns the id it has over there.
	Begin(ctx context.Context, t *Task) (upstream string, err error)
	// Look asks how a job over there stands. One that came to nothing is a *Refusal.
	Look(ctx context.Context, upstream string) (Sight, error)
	// Fetch writes the file of a finished job.
	Fetch(ctx context.Context, s Sight, w io.Writer) error
	// Drop tells the vendor that nobody wants a job any more.
	Drop(ctx context.Context, upstream string) error
}

// Sight is how a vendor's job stands.
type Sight struct {
	Done     bool
	Progress int    // percent, where the vendor tells
	File     string // what Fetch asks for, once it is done
}

const (
	defaultPause = 2 * time.Second
	// slowest is how often a job is looked at in the end, as a multiple of the first pause.
	slowest = 8
	// How often in a row a vendor may be out of reach before the attempt is given up; the next one goes on.
	maxTrouble   = 10
	beginTries   = 3
	dropPatience = 10 * time.Second
)

// RemoteOptions are the choices of Remote; the zero value is the default.
type RemoteOptions struct {
	// Pause is how long to wait before a job is looked at again, at first. Default two seconds.
	Pause time.Duration
}

// Remote is the renderer that a vendor is.
func Remote(v Vendor, opts *RemoteOptions) Renderer {
	r := &remote{vendor: v, pause: defaultPause}
	if opts != nil && opts.Pause > 0 {
		r.pause = opts.Pause
	}
	return r
}

type remote struct {
	vendor Vendor
	pause  time.Duration
}

// Render implements Renderer: it submits the task unless an earlier attempt did, polls, and fetches.
func (r *remote) Render(ctx context.Context, w io.Writer, t *Task) error {
	err := r.begin(ctx, t)
	if err == nil {
		var sight Sight
		if sight, err = r.await(ctx, t); err == nil {
			err = r.vendor.Fetch(ctx, sight, w)
		}
	}
	if t.Upstream != "" && (errors.Is(err, ErrCancelled) || errors.Is(context.Cause(ctx), ErrCancelled)) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropPatience)
		defer cancel()
		_ = r.vendor.Drop(last, t.Upstream) // else it ends by itself
	}
	return err
}

// begin submits the task and keeps its id at once: from then on the video is paid for. It does not break
// off in the middle, and sends again only what surely was not taken.
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
		case refused:
			return err
		case !taken(err):
		case answered && answer.Status/100 == 4: // our key, most likely: nothing was begun
			return err
		default:
			return Refuse(Provider, "it is not known whether the provider took the job: %w", err)
		}
		if try == beginTries {
			return err
		}
		pause := time.Duration(try) * r.pause
		if answered {
			pause = answer.wait(pause)
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// taken reports whether a request that failed may have had an effect.
func taken(err error) bool {
	if answer, ok := errors.AsType[*Answer](err); ok {
		return !answer.Busy()
	}
	op, ok := errors.AsType[*net.OpError](err)
	return !ok || op.Op != "dial"
}

// await polls, less and less often, until the job is done.
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
		case err != nil:
			if trouble++; trouble == maxTrouble {
				return Sight{}, fmt.Errorf("the provider was asked %d times: %w", trouble, err)
			}
			if answer, ok := errors.AsType[*Answer](err); ok {
				pause = answer.wait(wait)
			}
		default:
			trouble = 0
			t.Progress(sight.Progress)
		}
		if err := rest(ctx, pause); err != nil {
			return Sight{}, err
		}
		wait = min(wait*3/2, slowest*r.pause)
	}
}

// rest waits, unless ctx ends first.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
