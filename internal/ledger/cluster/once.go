package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/internal/kit/pace"
)

const (
	// lease is how long a job stays with a node that has died.
	lease = 15 * time.Second
	// renewEvery is how often a node that works renews its lease, and giveUp how long after the last renewal it
	// stops working: well before the lease ends, so that the work has ended when another node begins.
	renewEvery = lease / 5
	giveUp     = lease * 2 / 3
	// lookEvery is how often a node at least looks whether a job has come free. A node that stops hands its
	// jobs over, and says so to nobody.
	lookEvery = 10 * time.Second
	// retryEvery is the pause after an error of the database.
	retryEvery = 5 * time.Second
	// leastPause keeps nodes that wait for the same moment from asking without a break.
	leastPause = 100 * time.Millisecond
)

// JobStore holds a row for each job that runs on one node at a time.
type JobStore interface {
	// ClaimJob gives a job that is due, and that nobody holds, to the holder until the lease ends. If it cannot
	// be had, it returns how long that is so, as far as is known.
	ClaimJob(ctx context.Context, job, holder string, lease time.Duration) (claimed bool, wait time.Duration, err error)
	// RenewJob extends the lease. It reports false if the holder has lost the job.
	RenewJob(ctx context.Context, job, holder string, lease time.Duration) (bool, error)
	// EndJob gives a job back. It is due again so long after its beginning; at once if every is 0. It does
	// nothing if the holder has lost the job.
	EndJob(ctx context.Context, job, holder string, every time.Duration) error
}

// Every returns what runs work once in every period on one of the nodes, until its context ends. All nodes run
// the result; the name tells jobs apart. The first period begins at once, unless another node has worked in it.
//
// The context of the work ends if the node loses the job: it could not reach the database for ten seconds, and
// another node may begin after fifteen. A process that is frozen by its machine cannot notice that in time, so
// the steps of the work must be transactions that tolerate another node's in between.
func (c *Cluster) Every(name string, every time.Duration, work func(context.Context)) func(context.Context) {
	if c.store == nil {
		return func(ctx context.Context) { alone(ctx, every, work) }
	}
	return func(ctx context.Context) {
		for wait := time.Duration(0); pace.Sleep(ctx, wait) == nil; {
			wait = c.turn(ctx, name, every, work)
		}
	}
}

// alone runs work at once and in every period.
func alone(ctx context.Context, every time.Duration, work func(context.Context)) {
	for range pace.AtOnce(ctx, every) {
		work(ctx)
	}
}

// turn works if the job can be had, and returns when to ask again.
func (c *Cluster) turn(ctx context.Context, name string, every time.Duration, work func(context.Context)) time.Duration {
	asking, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	sent := time.Now()
	claimed, wait, err := c.store.ClaimJob(asking, name, c.me.Life, lease)
	if err != nil {
		return retryEvery // the heartbeat reports that the database is away
	}
	if !claimed {
		return max(leastPause, min(wait, lookEvery, every))
	}
	began := time.Now() // not before the database's beginning, after which the job is due
	if !c.hold(ctx, name, sent, work) {
		every = 0 // not done: another node should do it, or this one again
	}
	// Also when the process stops: the others should not have to wait for the end of the lease.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if err := c.store.EndJob(ending, name, c.me.Life, every); err != nil && ctx.Err() == nil {
		c.log.Warn("work could not be marked as done; it will be repeated", "work", name, "error", err.Error())
	}
	// Nobody can have it before it is due, so there is no need to ask until then.
	return max(leastPause, min(time.Until(began.Add(every)), lookEvery))
}

// errTaken ends the context of work whose lease was lost.
var errTaken = errors.New("another node may do this work now")

// hold works while the lease holds, and reports whether the work came to its end. sent is when the claim was
// sent; the lease counts from a later moment.
func (c *Cluster) hold(ctx context.Context, name string, sent time.Time, work func(context.Context)) bool {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(time.Until(sent.Add(giveUp)), func() { cancel(errTaken) })
	defer late.Stop()
	var renewing sync.WaitGroup
	renewing.Go(func() { c.renew(ctx, name, late, cancel) })
	work(ctx)
	done := ctx.Err() == nil
	if errors.Is(context.Cause(ctx), errTaken) {
		c.log.Warn("work was stopped, because this server could not report in time that it was still doing it", "work", name)
	}
	cancel(nil)
	renewing.Wait()
	return done
}

// renew extends the lease until ctx ends, or ends it if the job was lost.
func (c *Cluster) renew(ctx context.Context, name string, late *time.Timer, cancel context.CancelCauseFunc) {
	for range pace.Every(ctx, renewEvery) {
		asking, stop := context.WithTimeout(ctx, deadline)
		sent := time.Now()
		held, err := c.store.RenewJob(asking, name, c.me.Life, lease)
		stop()
		switch {
		case err != nil: // late ends the work if this lasts
		case !held:
			cancel(errTaken)
			return
		// If Stop reports false, late has fired and the work is over.
		case late.Stop():
			late.Reset(time.Until(sent.Add(giveUp)))
		}
	}
}
