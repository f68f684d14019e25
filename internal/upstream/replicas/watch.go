package replicas

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/routing"
)

const (
	// askEvery is how often servers are asked for their metrics, and askPatience how long they may take to answer: less, so
	// that one that hangs does not hold up the others.
	askEvery    = 3 * time.Second
	askPatience = 2 * time.Second
	// fresh is how long figures count after their server has stopped answering.
	fresh = 10 * time.Second
	// rareEvery is how often a server without metrics is asked.
	rareEvery = time.Minute
)

// watch is what is known of the servers that are asked.
type watch struct {
	log  *slog.Logger
	seen map[[2]string]*asked // by provider and name
}

// asked is what asking one server came to.
type asked struct {
	next    time.Time // when to ask again; zero: at the next turn
	trouble health.Trouble
}

// Watch asks the replicas that routes lead to for their metrics, until ctx ends, and reports what they say to the routes.
// current returns the routes in force, and log may be nil.
func Watch(ctx context.Context, current func() *routing.Routes, log *slog.Logger) {
	if log == nil {
		log = slog.Default()
	}
	w := &watch{log: log, seen: map[[2]string]*asked{}}
	for range pace.AtOnce(ctx, askEvery) {
		w.ask(ctx, current().Replicas())
	}
}

// ask asks all replicas at the same time.
func (w *watch) ask(ctx context.Context, list []routing.Replica) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var all sync.WaitGroup
	was := w.seen
	w.seen = make(map[[2]string]*asked, len(list)) // without those that are gone
	now := time.Now()
	for i := range list {
		r := &list[i]
		at := [2]string{r.Provider, r.Name}
		a := was[at]
		if a == nil {
			a = &asked{}
		}
		w.seen[at] = a
		if server, ok := r.Adapter.(provider.Measured); ok && !now.Before(a.next) {
			all.Go(func() { w.one(ctx, a, r, server) })
		}
	}
	all.Wait()
}

// one asks one replica.
func (w *watch) one(ctx context.Context, a *asked, r *routing.Replica, server provider.Measured) {
	own := r.Running()
	var figures *routing.Figures
	err := server.Metrics(ctx, func(text io.Reader) (err error) {
		figures, err = read(text)
		return err
	})
	now := time.Now()
	switch {
	case err == nil:
		figures.At = now
		a.next = time.Time{}
		a.trouble.Works(w.log, "a replica reports its load again: "+r.Name)
		r.Report(figures, own)
		return
	case errors.Is(ctx.Err(), context.Canceled): // the process stops
		return
	case hasNone(err):
		a.next = now.Add(rareEvery - askEvery/2) // many servers have no metrics: nothing is wrong
		r.Report(nil, own)
		return
	default:
		a.trouble.Failed(w.log, "the metrics of a replica cannot be read; its load is estimated", err, "provider", r.Provider, "replica", r.Name)
	}
	if had := r.Figures(); had != nil && now.Sub(had.At) >= fresh {
		r.Report(nil, own)
	}
}

// hasNone reports whether an error means that the server has no metrics.
func hasNone(err error) bool {
	refusal, refused := errors.AsType[*provider.Refusal](err)
	return errors.Is(err, errNone) || refused && refusal.Status != http.StatusTooManyRequests && refusal.Status < 500 || refused && refusal.Status == http.StatusNotImplemented
}
