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

	"sluice/internal/api/httpserver"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/health"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/whatif"
	"sluice/internal/line/relay"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/finder"
	"sluice/internal/upstream/discovery"
	"sluice/internal/upstream/replicas"
	"sluice/internal/upstream/routing"
)

// Run serves until ctx ends or a server fails. Then it stops gracefully, see stop. It closes the App.
//
// The parts end one after the other: the rendering of videos, so that another node can continue it; the
// API; the admin socket, so that an operator can look at a stop that takes long; the background jobs,
// because the last calls still need the journal, the pulse and the outbox; and the metrics, which show
// all of that.
func (a *App) Run(ctx context.Context) error {
	// Only the API passes Local: the other two doors are for operators.
	listeners := a.frontListeners()
	servers := []*httpserver.Server{
		httpserver.NewServer(a.local.Watch(a.api), listeners[0], httpserver.Lane(a.settings.Load().Config.HTTP1Lane)),
		httpserver.NewServer(admin.Handler(a.backend()), listeners[1], httpserver.LaneOff),
	}
	if a.metricsListener != nil {
		servers = append(servers, httpserver.NewServer(a.api.WithMetrics(a.metrics.Handler()), listeners[2], httpserver.LaneOff))
	}
	failed := make(chan error, len(servers)) // with room for all, so that no server blocks when nobody reads
	var serving sync.WaitGroup
	for _, s := range servers {
		serving.Go(func() {
			if err := s.Serve(); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx
	var working sync.WaitGroup
	for _, s := range servers {
		working.Go(func() { s.Watch(background) })
	}
	if !a.facts.alone() {
		working.Go(func() {
			a.intake.Run(background, servers[0], a.settings.Load().Config.ClosesUnready(), a.api.EndConnections)
		})
	}
	for _, job := range a.jobs() {
		working.Go(func() { job(background) })
	}
	rendering, stopRendering := context.WithCancel(background)
	working.Go(func() { a.videos.Run(rendering) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	}
	stopRendering() // returns the jobs to the queue
	stopping := context.WithoutCancel(ctx)
	a.stop(stopping, servers[0])
	endDoors(stopping, servers[1:2])
	stopBackground() // after the last call: some jobs finish what calls have left
	working.Wait()
	endDoors(stopping, servers[2:])
	serving.Wait()
	return errors.Join(err, a.close())
}

// jobs returns what runs beside the servers, each until its context ends. Every long-lived goroutine
// is started by Run or by one of these jobs, which waits for it. A job that has nothing more to do
// may return earlier.
func (a *App) jobs() []func(context.Context) {
	keys, index := a.facts.stores.accounts, a.facts.index
	jobs := []func(context.Context){
		a.pulse.Run,
		a.watch,
		a.books.Run,
		func(ctx context.Context) { a.facts.stores.calls.Ring().Run(ctx, a.log) },
		a.refusals.Run,
		a.abuse.Run,
		a.quota.Run,
		a.keepBudgets,
		a.runaway.Run,
		func(ctx context.Context) { index.RecordKeyUse(ctx, keys, a.log) },
		a.outbox.Run,
		a.replies.Run,
		a.router.Run,
		a.feedback.Run,
		a.keepCatalogs,
		a.followPrices,
		a.billing.Watch,
		a.cluster.Run,
		a.helm.Run,
		a.bulletin.Run,
		a.ways.Run,
		a.board.Run,
		a.health.Run,
		a.alerts.watch.Run,
		func(ctx context.Context) {
			routing.Watch(ctx, func() *routing.Routes { return a.settings.Load().Routes })
		},
		func(ctx context.Context) {
			a.names.Run(ctx, func() []replicas.Source { return a.settings.Load().Sources() }, a.followReplicas)
		},
		func(ctx context.Context) {
			replicas.Watch(ctx, func() *routing.Routes { return a.settings.Load().Routes }, a.log)
		},
		func(ctx context.Context) { discovery.Run(ctx, a.lookAround, a.log) },
	}
	if a.opts.Alone {
		jobs = append(jobs, giveBack)
	}
	if a.waiting != nil {
		jobs = append(jobs, a.waiting.Run)
	}
	if a.tracer != nil {
		jobs = append(jobs, a.tracer.Run)
	}
	if a.follower != nil {
		jobs = append(jobs, func(ctx context.Context) { a.follower.Run(ctx, a.followFrom) })
	}
	if a.redis != nil {
		jobs = append(jobs, func(ctx context.Context) { _ = a.redis.Run(ctx) }) // it never fails
	}
	return append(jobs, a.onceJobs()...)
}

// stop ends the API without a caller noticing, if their calls end in time. /readyz reports it first, so
// that load balancers send requests elsewhere. For the delay, requests are still served, each reply
// ending its connection. Then there are no new connections, and running requests may finish. Those that
// still run at the end of drain_timeout, which covers all of this, are cut off, and their callers told.
func (a *App) stop(ctx context.Context, server *httpserver.Server) {
	c := a.settings.Load().Config
	ctx, cancel := context.WithTimeout(ctx, c.DrainTimeout)
	defer cancel()
	a.log.Info("stopping", "drain_timeout", c.DrainTimeout.String(), "shutdown_delay", c.ShutdownDelay.String())
	server.Drain()
	a.api.Drain()
	quiet := a.delay(ctx, c.ShutdownDelay)
	_ = server.Finish() // the listener is closed in any case
	// Proxies give up a connection that they have not used for a while. It is closed only after that.
	server.Quiet(ctx, quiet)
	server.End(ctx, relay.ErrStopping)
	a.api.Await(ctx) // before the journal stops: the last calls are settled
}

// doorPatience is how long the requests of operators may take to end at a stop.
const doorPatience = 2 * time.Second

// endDoors ends servers for operators, of which there may be none.
func endDoors(ctx context.Context, servers []*httpserver.Server) {
	ctx, cancel := context.WithTimeout(ctx, doorPatience)
	defer cancel()
	for _, s := range servers {
		if s.Shutdown(ctx) != nil {
			_ = s.Close() // the time is over
		}
	}
}

// delay waits for d, or until ctx ends or Hasten is called. It returns how long idle connections are
// left open: d, or nothing for those who are in a hurry.
func (a *App) delay(ctx context.Context, d time.Duration) time.Duration {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.hastened:
		d = 0
	case <-ctx.Done():
	}
	a.undelayed.Store(true)
	return d
}

// Hasten ends the delay of a stop, or leaves it out if the stop has not begun. It reports false if
// there is none to end any more.
func (a *App) Hasten() bool {
	if a.undelayed.Swap(true) {
		return false
	}
	close(a.hastened)
	return true
}

// giveBack returns memory to the system that only the start needed, mostly buffers from reading the
// migrations. They are in a pool, which drops them at the second collection; FreeOSMemory is that
// one.
func giveBack(context.Context) {
	runtime.GC()
	debug.FreeOSMemory()
}

// backend returns what the admin operations need.
func (a *App) backend() *admin.Backend {
	b := a.offlineBackend()
	b.Tell, b.Reports, b.Everyone = a.letters.Support, a.reports, a.facts.index.Each
	b.Refresh = func(ctx context.Context) error { return a.lookAround(ctx, true) }
	b.Status = a.status
	b.Reload = func(context.Context) ([]string, error) {
		err := a.Reload()
		return a.onDisk.Waiting(), err
	}
	b.Debug, b.Examine, b.Metrics = a.debug, a.examine, a.metrics.Handler()
	return b
}

// offlineBackend returns the part of backend that needs no running server. What a reload replaces is passed as a
// function.
func (a *App) offlineBackend() *admin.Backend {
	return &admin.Backend{
		Accounts:    a.facts.accounts,
		Plans:       a.plans,
		Catalog:     a.catalog,
		Usage:       records{a.books, a},
		WhatIf:      a.whatIf(),
		Costs:       a.costs(),
		Scores:      a.abuse,
		Logins:      a.logins,
		Staff:       a.roster,
		Alerts:      a.alerts.history,
		Messages:    a.notices,
		Helm:        a.helm,
		Incidents:   a.bulletin,
		Subscribers: a.subscribers,
		Prices:      priceBook{a},
		Feedback:    a.feedback,
		VideoModel:  a.videoModelID,
		Billing:     a.billing,
		Tickets:     a.tickets,
		Budgets:     a.budgetDesk(),
		Evidence:    a.facts.stores.calls,
		Calls:       a.facts.stores.calls,
		Versions:    knownPrices{a},
		Vendors:     func() map[string]string { return a.settings.Load().Kinds() },
		Receipts:    a.facts.stores.calls.Ring(),
		State:       func() []admin.ModelState { return a.settings.Load().Models() },
		Finder:      a.finder(),
		Misses:      a.misses(),
		Served:      a.facts.stores.calls.ServedDays,
		Refusals:    refusal.NewView(a.refusals, a.facts.stores.calls),
		Signals:     a.facts.stores.calls,

		Reconciliations: a.facts.stores.service,
	}
}

// whatIf returns what replays calls, those of the last second included.
func (a *App) whatIf() *whatif.Calculator {
	return &whatif.Calculator{Calls: a.facts.stores.calls, Flush: a.books.View().Flush, Versions: knownPrices{a}, Prices: func() whatif.Prices { return a.settings.Load().WhatIf() }}
}

// finder returns what finds accounts and requests, those of the last second included.
func (a *App) finder() *finder.Finder {
	refusals := refusal.NewView(a.refusals, a.facts.stores.calls)
	return finder.New(a.facts.stores.calls, func(ctx context.Context) {
		a.books.View().Flush(ctx)
		refusals.Flush(ctx)
	})
}

// lookPatience is how long the database may take while the state of the server is put together.
const lookPatience = 2 * time.Second

// status returns the state of the server. If the database does not answer, it says so in DBError and
// is complete otherwise: that is when an operator asks.
func (a *App) status(ctx context.Context) admin.Status {
	s := a.settings.Load()
	st := admin.Status{
		Version: buildinfo.Version(), PID: os.Getpid(), StartedAt: a.started.UTC(), Listen: a.Addr(), Origin: a.Origin(), Config: s.Config.File(),
		Database: string(a.facts.store.Engine()), Accounts: a.facts.index.Accounts(), Models: len(s.Catalog.Models()), Targets: s.Routes.Targets(time.Now()),
		Cluster: admin.ClusterOf(a.cluster),
	}
	// The one who asks is an operator: the reason, beside what everybody may read. A database that takes long to answer
	// must not keep the rest from whoever asks.
	looking, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	var found health.Finding
	var look sync.WaitGroup
	look.Go(func() { found = a.facts.store.Look(looking) })
	st.Checks, st.Ready = a.health.Report(ctx)
	look.Wait()
	if found.Err != nil {
		st.DBError = found.Err.Error()
	}
	return st
}
