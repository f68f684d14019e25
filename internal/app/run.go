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
	"sluice/internal/sqlstore"
)

// Run serves until ctx ends, then stops gracefully: no new work, and what runs gets the configured time to finish. It
// closes the App.
func (a *App) Run(ctx context.Context) error {
	listeners := a.frontListeners()
	servers := []*http.Server{httpapi.NewServer(a.local.Watch(a.api), listeners[0]), httpapi.NewServer(admin.Handler(a.backend()), listeners[1])}
	if a.metricsListener != nil {
		servers = append(servers, httpapi.NewServer(a.metricsHandler(), listeners[2]))
	}
	failed := make(chan error, len(servers))
	var serving sync.WaitGroup
	for i, s := range servers {
		serving.Go(func() {
			if err := s.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
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

// jobs returns what runs beside the servers, each until its context ends.
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
	if store.Engine() == sqlstore.Postgres { // a SQLite database has no other node
		jobs = append(jobs, func(ctx context.Context) { index.Follow(ctx, store, a.followFrom, a.log) })
	}
	return jobs
}

// stop refuses new work and waits for what runs, at most for the configured time.
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

// giveBack returns memory that only the start needed: mostly the buffers that migrations are read with, which leave
// their pool at the second collection.
func giveBack(context.Context) {
	runtime.GC()
	debug.FreeOSMemory()
}

func (a *App) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.Handler())
	mux.Handle("/", a.api.Nothing())
	return mux
}

// backend returns what the admin operations work on.
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
