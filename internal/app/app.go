// Package app wires Sluice together: it opens what a configuration names, in order, and closes it in
// the opposite one.
//
// It is the only package that knows the configuration and every capability. The program and the
// end-to-end tests start the same App.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/abuse"
	"sluice/internal/account"
	"sluice/internal/admin"
	"sluice/internal/admission"
	"sluice/internal/auth"
	"sluice/internal/billing"
	"sluice/internal/billing/stripe"
	"sluice/internal/buildinfo"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/continuation"
	"sluice/internal/datadir"
	"sluice/internal/discovery"
	"sluice/internal/doctor"
	"sluice/internal/httpapi"
	"sluice/internal/idempotency"
	"sluice/internal/inference"
	"sluice/internal/mail"
	"sluice/internal/notice"
	"sluice/internal/pulse"
	"sluice/internal/signin"
	"sluice/internal/sqlstore"
	"sluice/internal/telemetry"
	"sluice/internal/video"
)

// defaultMetricsListen is the address that may be busy: nobody asked for it.
const defaultMetricsListen = "127.0.0.1:9090"

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Log is where the server writes; default slog.Default().
	Log *slog.Logger
	// Level, where given, is set to the configured level at each reload.
	Level *slog.LevelVar
	// Load reads the configuration again for a reload; nil: there is none.
	Load func() (*config.Config, error)
	// Servers are the model servers that are looked for on this machine; nil: all that discovery knows.
	Servers []discovery.Server
	// Idempotency says how long replies are kept and waited for; for tests.
	Idempotency *idempotency.Options
	// Patience is how long a call looks for an upstream that answers; for tests. Default 30 seconds.
	Patience time.Duration
	// Renderer makes videos in the place of the built-in one; for tests.
	Renderer video.Renderer
}

// App is one running Sluice.
type App struct {
	log     *slog.Logger
	level   *slog.LevelVar
	started time.Time
	metrics *telemetry.Metrics

	facts    *facts
	pulse    *pulse.Pulse
	ledger   *admission.Memory
	abuse    *abuse.Control
	settings atomic.Pointer[settings]
	cert     atomic.Pointer[tls.Certificate]
	api      *httpapi.API
	local    *httpapi.Local
	tools    *remoteTools
	videos   *video.Line
	renderer video.Renderer // in the place of the built-in one; nil: none

	listener        net.Listener
	adminListener   net.Listener
	metricsListener net.Listener

	outbox  *mail.Outbox
	desk    *signin.Desk
	notices *notice.Board
	billing *billing.Billing
	stripe  *stripe.Processor // nil: another processor, or none

	ownerKey   string
	ownerLink  string
	followFrom int64 // number of the audit entry up to which the index is complete

	reloadMu sync.Mutex
	load     func() (*config.Config, error)
	seen     [3]fileState       // the files as they were when the App was made
	servers  []discovery.Server // what is looked for on this machine
}

// New opens everything the configuration names; on an empty data folder it creates the owner. The
// port is taken before that, so that a busy one does not cost the only showing of the owner's key.
func New(ctx context.Context, cfg *config.Config, opts *Options) (_ *App, err error) {
	if opts == nil {
		opts = &Options{}
	}
	a := &App{
		log: opts.Log, level: opts.Level, load: opts.Load, seen: watched(cfg), started: time.Now(),
		metrics: telemetry.NewMetrics(buildinfo.Version), pulse: pulse.New(), ledger: admission.NewMemory(nil), renderer: opts.Renderer, servers: discovery.Servers(),
	}
	if opts.Servers != nil {
		a.servers = opts.Servers
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	if a.level != nil {
		a.level.Set(logLevel(cfg.Log.Level))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	s, err := newSettings(cfg, nil)
	if err != nil {
		return nil, err
	}
	if err := s.connect(nil, a.pulse); err != nil {
		return nil, err
	}
	if err := a.loadCertificate(cfg); err != nil {
		return nil, err
	}
	if a.facts, err = openFacts(ctx, cfg); err != nil {
		if errors.Is(err, datadir.ErrLocked) {
			err = fmt.Errorf("%w; stop it first, or give this one another folder with --data", err)
		}
		return nil, err
	}
	if cfg.Secret == "" && a.facts.store.Engine() == sqlstore.Postgres {
		a.log.Warn("SLUICE_SECRET is not set, so secret.key in the data folder is used; other nodes on this database need the same: set SLUICE_SECRET to what it holds on all of them, or copy it into each data folder")
	}
	if err := a.listen(cfg); err != nil {
		return nil, err
	}
	// Read first: what another node changes while we load is then seen twice, not missed.
	if a.followFrom, err = a.facts.store.LastChange(ctx); err != nil {
		return nil, err
	}
	if err := a.facts.load(ctx); err != nil {
		return nil, err
	}
	if a.ownerKey, err = a.facts.createOwner(ctx); err != nil {
		return nil, err
	}
	if err := s.join(ctx, a.facts.store, nil); err != nil {
		return nil, err
	}
	s.route(nil, a.log)
	s.describe(a.origin(cfg), nil)
	a.settings.Store(s)
	a.watchLocal()
	if err := a.openPages(cfg); err != nil {
		return nil, err
	}
	a.openBilling(cfg)
	if a.ownerKey != "" {
		if a.ownerLink, err = a.desk.SignInLink(ctx, account.OwnerEmail); err != nil {
			return nil, err
		}
	}
	if err := a.facts.openJournal(cfg, a.log); err != nil {
		return nil, err
	}
	videos, err := a.facts.recentVideos(ctx, time.Now().Add(-windowSpan))
	if err != nil {
		return nil, err
	}
	if err := a.restoreWindows(videos); err != nil {
		return nil, err
	}
	if err := a.watchScores(ctx); err != nil {
		return nil, err
	}
	gate := admission.New(a.ledger, &books{a})
	if err := a.openVideos(ctx, gate, s); err != nil {
		return nil, err
	}
	replies := &idempotency.Options{}
	if opts.Idempotency != nil {
		*replies = *opts.Idempotency
	}
	replies.Key = a.facts.store.Key()
	nested := func(depth int) http.Handler { return a.api.Nested(depth) }
	a.tools = newRemoteTools(cfg, a.Origin()+"/mcp", nested)
	line := inference.New(gate, a.pulse, &inference.Options{States: continuation.New(a.facts.store, &continuation.Options{Key: a.facts.store.Key()}), Tools: a.tools.loop, Patience: opts.Patience})
	a.api = httpapi.New(auth.New(a.facts.index, cfg.Brand), line, s.http(), &httpapi.Options{
		Log: a.log, Metrics: a.metrics, Ledger: a.ledger, Abuse: a.abuse, Replies: idempotency.New(a.facts.store, a.log, replies), Videos: a.videos,
		Changes: a.facts.store.CatalogChanges,
		Pages:   a.addWebhook(a.pages(cfg)), MCP: a.newMCPServer(nested).Serve,
		Checks: []httpapi.Check{
			{Name: "database", Run: a.facts.store.Ping},
			{Name: "journal", Run: func(context.Context) error { return a.facts.journal.Ready() }, Note: a.backlogNote},
		},
	})
	a.metrics.Gauge("sluice_accounts", "Accounts known to this process.", func() float64 { return float64(a.facts.index.Accounts()) })
	a.metrics.Gauge("sluice_calls_running", "Model calls under way now.", func() float64 { return float64(a.ledger.Running()) })
	a.metrics.Upstreams(func() []telemetry.Upstream { return a.settings.Load().gauges() })
	a.metrics.Gauge("sluice_request_bodies_bytes", "Bytes of request bodies held now.", func() float64 { return float64(a.api.BodiesInFlight()) })
	a.metrics.Gauge("sluice_journal_records", "Settlements that wait for the database.", func() float64 { return float64(a.facts.journal.Backlog().Records) })
	a.metrics.Gauge("sluice_journal_bytes", "Bytes of settlements that wait for the database.", func() float64 { return float64(a.facts.journal.Backlog().Bytes) })
	for _, w := range cfg.Warnings() {
		a.log.Warn("configuration", "warning", w)
	}
	a.announce(nil, s.catalog)
	return a, nil
}

// Addr is the address the API is served on.
func (a *App) Addr() string { return a.listener.Addr().String() }

// MetricsAddr is the address the metrics are served on; empty where they are off.
func (a *App) MetricsAddr() string {
	if a.metricsListener == nil {
		return ""
	}
	return a.metricsListener.Addr().String()
}

// OwnerKey is the master key of the owner account, if this start created it.
func (a *App) OwnerKey() string { return a.ownerKey }

// OwnerLink is a link that signs the owner in once, if this start created the account.
func (a *App) OwnerLink() string { return a.ownerLink }

// Run serves until ctx ends, then stops gracefully: no new work, and what runs gets the configured
// time to finish. It closes the App.
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
	working.Go(func() { a.pulse.Run(background) })
	working.Go(func() { a.watch(background) })
	working.Go(func() { a.keepBooks(background) })
	working.Go(func() { a.abuse.Run(background) })
	working.Go(func() { a.recordKeyUse(background) })
	working.Go(func() { a.outbox.Run(background) })
	working.Go(func() { a.billing.Run(background) })
	working.Go(func() { a.videos.Run(background) })
	working.Go(giveBack)
	working.Go(func() { a.dropExpired(background) })
	working.Go(func() { a.discover(background) })
	if a.facts.store.Engine() == sqlstore.Postgres {
		working.Go(func() { a.follow(background) })
	}

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	}
	a.api.Drain()
	grace := a.settings.Load().config.ShutdownGrace
	a.log.Info("stopping", "grace", grace.String())
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	var stopping sync.WaitGroup
	for _, s := range servers {
		stopping.Go(func() {
			if s.Shutdown(stop) != nil {
				_ = s.Close() // the grace time is over
			}
		})
	}
	stopping.Wait()
	serving.Wait()
	stopBackground()
	working.Wait()
	return errors.Join(err, a.close())
}

// Abandon closes an App that was never run.
func (a *App) Abandon() error { return a.close() }

func (a *App) listen(cfg *config.Config) (err error) {
	if a.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with --listen or the field listen", cfg.Listen, doctor.Cause(err))
	}
	if a.adminListener, err = admin.Listen(a.facts.dir.Path()); err != nil {
		return err
	}
	if cfg.MetricsListen == "" {
		return nil
	}
	a.metricsListener, err = net.Listen("tcp", cfg.MetricsListen)
	if err != nil && cfg.MetricsListen == defaultMetricsListen {
		a.log.Warn("metrics are off: the default address is busy", "address", cfg.MetricsListen)
		return nil
	}
	if err != nil {
		return fmt.Errorf("listen for metrics on %s: %w; choose another address in metrics_listen, or leave it empty", cfg.MetricsListen, doctor.Cause(err))
	}
	return nil
}

func (a *App) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.Handler())
	mux.Handle("/", a.api.Nothing())
	return mux
}

func (a *App) backend() *admin.Backend {
	return &admin.Backend{
		Accounts: a.facts.accounts,
		Plans:    func() account.Plans { return a.settings.Load().plans },
		Catalog:  func() *catalog.Catalog { return a.settings.Load().catalog },
		Books:    a.facts,
		Scores:   &scores{a.facts, a.abuse},
		Desk:     a.desk,
		Billing:  a.billing,
		Standing: func() []admin.ModelStanding { return standing(a.settings.Load()) },
		Refresh:  func(ctx context.Context) error { return a.lookAround(ctx, true) },
		Status:   a.status,
		Reload:   func(context.Context) error { return a.Reload() },
	}
}

func (a *App) status(ctx context.Context) admin.Status {
	s := a.settings.Load()
	st := admin.Status{
		Version: buildinfo.Version, PID: os.Getpid(), StartedAt: a.started.UTC(), Listen: a.Addr(), Config: s.config.File(),
		Database: string(a.facts.store.Engine()), Accounts: a.facts.index.Accounts(), Models: len(s.catalog.Models()), Targets: s.routes.Standings(time.Now()),
	}
	if err := a.facts.store.Ping(ctx); err != nil {
		st.DBError = err.Error()
	}
	return st
}

// giveBack returns what the start needed and the running does not: mostly the buffers that migrations
// are read with, which leave their pool at the second collection.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}

// close undoes New, last things first.
func (a *App) close() error {
	var errs []error
	for _, l := range []net.Listener{a.metricsListener, a.adminListener, a.listener} {
		if l != nil {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	if s := a.settings.Load(); s != nil {
		s.disconnect(nil)
	}
	if a.tools != nil {
		a.tools.close()
	}
	if a.facts != nil {
		_ = os.Remove(a.facts.dir.Join(admin.Socket)) // a leftover is removed by the next start
		errs = append(errs, a.facts.close())
	}
	return errors.Join(errs...)
}
