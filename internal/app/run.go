package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/admin"
	"sluice/internal/buildinfo"
	"sluice/internal/catalog"
	"sluice/internal/discovery"
	"sluice/internal/httpapi"
)

// Run serves until ctx ends or a server fails. Then it stops gracefully: it accepts no new
// connections, and running requests get the configured time to finish. It closes the App.
//
// Two groups of goroutines end one after the other: the servers first, then the background jobs,
// because the last calls still need the journal, the pulse and the outbox.
func (a *App) Run(ctx context.Context) error {
	// Only the API passes Local: the other two doors are for operators.
	listeners := a.frontListeners()
	servers := []*http.Server{httpapi.NewServer(a.local.Watch(a.api), listeners[0]), httpapi.NewServer(admin.Handler(a.backend()), listeners[1])}
	if a.metricsListener != nil {
		servers = append(servers, httpapi.NewServer(a.metricsHandler(), listeners[2]))
	}
	failed := make(chan error, len(servers)) // with room for all, so that no server blocks when nobody reads
	var serving sync.WaitGroup
	for i, s := range servers {
		serving.Go(func() {
			if err := s.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx
	var working sync.WaitGroup
	for _, l := range listeners {
		working.Go(func() { l.Watch(background) })
	}
	for _, job := range a.jobs() {
		working.Go(func() { job(background) })
	}

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	}
	a.stop(context.WithoutCancel(ctx), servers)
	serving.Wait()
	stopBackground() // after the last call: some jobs finish what calls have left
	working.Wait()
	return errors.Join(err, a.close())
}

// jobs returns what runs beside the servers, each until its context ends. Every long-lived goroutine
// is started by Run or by one of these jobs, which waits for it. A job that has nothing more to do
// may return earlier.
func (a *App) jobs() []func(context.Context) {
	store, index := a.facts.store, a.facts.index
	jobs := []func(context.Context){
		a.pulse.Run,
		a.watch,
		a.books.Run,
		a.abuse.Run,
		func(ctx context.Context) { index.RecordKeyUse(ctx, store, a.log) },
		a.outbox.Run,
		a.billing.Run,
		a.videos.Run,
		giveBack,
		a.dropExpired,
		func(ctx context.Context) { discovery.Run(ctx, a.lookAround, a.log) },
	}
	if a.follower != nil {
		jobs = append(jobs, func(ctx context.Context) { a.follower.Run(ctx, a.followFrom) })
	}
	if a.redis != nil {
		jobs = append(jobs, func(ctx context.Context) { _ = a.redis.Run(ctx) }) // it never fails
	}
	return jobs
}

// stop closes the listeners and waits for running requests, at most for the configured time. Those
// that still run then are cut off. /readyz reports the stop first, so that a load balancer sends
// requests elsewhere.
func (a *App) stop(ctx context.Context, servers []*http.Server) {
	a.api.Drain()
	grace := a.settings.Load().Config.ShutdownGrace
	a.log.Info("stopping", "grace", grace.String())
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	var stopping sync.WaitGroup
	for _, s := range servers {
		stopping.Go(func() {
			if s.Shutdown(ctx) != nil {
				_ = s.Close() // the grace time is over
			}
		})
	}
	stopping.Wait()
}

// giveBack returns memory to the system that only the start needed, mostly buffers from reading the
// migrations. They are in a pool, which drops them at the second collection; FreeOSMemory is that
// one.
func giveBack(context.Context) {
	runtime.GC()
	debug.FreeOSMemory()
}

// metricsHandler serves the metrics. Other paths get the error object of the API.
func (a *App) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.Handler())
	mux.Handle("/", a.api.Nothing())
	return mux
}

// backend returns what the admin operations need. What a reload replaces is passed as a function.
func (a *App) backend() *admin.Backend {
	return &admin.Backend{
		Accounts: a.facts.accounts,
		Plans:    func() account.Plans { return a.settings.Load().Plans },
		Catalog:  func() *catalog.Catalog { return a.settings.Load().Catalog },
		Books:    a.books,
		Scores:   a.abuse,
		Desk:     a.desk,
		Billing:  a.billing,
		Standing: func() []admin.ModelStanding { return a.settings.Load().Standing() },
		Refresh:  func(ctx context.Context) error { return a.lookAround(ctx, true) },
		Status:   a.status,
		Reload:   func(context.Context) error { return a.Reload() },
	}
}

// status returns the state of the server. If the database does not answer, it says so in DBError and
// is complete otherwise: that is when an operator asks.
func (a *App) status(ctx context.Context) admin.Status {
	s := a.settings.Load()
	st := admin.Status{
		Version: buildinfo.Version, PID: os.Getpid(), StartedAt: a.started.UTC(), Listen: a.Addr(), Config: s.Config.File(),
		Database: string(a.facts.store.Engine()), Accounts: a.facts.index.Accounts(), Models: len(s.Catalog.Models()), Targets: s.Routes.Standings(time.Now()),
	}
	if err := a.facts.store.Ping(ctx); err != nil {
		st.DBError = err.Error()
	}
	return st
}
