// Package app wires Sluice together: it opens what a configuration names, in order, runs it, and closes it in the
// opposite order.
//
// It is the only package that knows the configuration and every capability, and it holds no rule of its own: each
// file hands a part of the configuration to the package that owns the noun. The program and the end-to-end tests
// start the same App.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/abuse"
	"sluice/internal/admin"
	"sluice/internal/admission"
	"sluice/internal/app/settings"
	"sluice/internal/billing"
	"sluice/internal/billing/stripe"
	"sluice/internal/buildinfo"
	"sluice/internal/config"
	"sluice/internal/discovery"
	"sluice/internal/doctor"
	"sluice/internal/httpapi"
	"sluice/internal/idempotency"
	"sluice/internal/mail"
	"sluice/internal/notice"
	"sluice/internal/pulse"
	"sluice/internal/signin"
	"sluice/internal/telemetry"
	"sluice/internal/usage"
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
	opts    Options
	log     *slog.Logger
	started time.Time
	metrics *telemetry.Metrics
	servers []discovery.Server // to look for on this machine

	facts   *facts
	books   *usage.Books
	pulse   *pulse.Pulse
	ledger  *admission.Memory
	gate    *admission.Gate
	abuse   *abuse.Control
	api     *httpapi.API
	local   *httpapi.Local
	tools   *remoteTools
	videos  *video.Line
	outbox  *mail.Outbox
	desk    *signin.Desk
	notices *notice.Board
	letters *notice.Letters
	billing *billing.Billing
	stripe  *stripe.Processor // nil: another processor, or none

	listener        net.Listener
	adminListener   net.Listener
	metricsListener net.Listener // nil if metrics are off
	bound           string       // the configured listen address, with the port that the system chose

	ownerKey   string // empty unless this start created the owner
	ownerLink  string
	followFrom int64 // number of the audit entry up to which the index is complete

	settings atomic.Pointer[settings.Settings]
	cert     atomic.Pointer[tls.Certificate]
	reloadMu sync.Mutex   // held by whoever replaces settings
	seen     config.Stamp // the watched files as they were when the App was made
}

// New opens everything that the configuration names. On an empty database it creates the owner. If a step fails, New
// closes what the steps before it have opened.
func New(ctx context.Context, cfg *config.Config, opts *Options) (*App, error) {
	a := newApp(cfg, opts)
	for _, step := range []func(context.Context, *config.Config) error{
		a.readSettings, // first, and without a side effect: a bad configuration changes nothing
		a.loadCertificate,
		a.openFacts, // the lock on the data folder guards everything below
		a.listen,    // before createOwner: a busy port must not cost the only showing of the owner's key
		a.loadAccounts,
		a.createOwner,
		a.openCatalog, // after listen: the description of the API has the port in it
		a.watchLocal,  // before openDesk and openBilling, which ask whether only this machine calls
		a.openDesk,    // from here on, owners are told what happens to their account
		a.openBilling,
		a.signOwnerIn,
		a.openBooks,
		a.restoreWindows, // before the first request: what the last minute used still counts
		a.resumeScores,   // after openBooks: what is still in the journal counts, too
		a.openVideos,
		a.openAPI, // last of the capabilities: it serves all of them
		a.addGauges,
		a.reportStart,
	} {
		if err := step(ctx, cfg); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	return a, nil
}

// newApp returns an App that has opened nothing.
func newApp(cfg *config.Config, opts *Options) *App {
	a := &App{
		log: slog.Default(), seen: cfg.Stamp(), started: time.Now(), servers: discovery.Servers(),
		metrics: telemetry.NewMetrics(buildinfo.Version), pulse: pulse.New(), ledger: admission.NewMemory(nil),
	}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.Servers != nil {
		a.servers = a.opts.Servers
	}
	if a.opts.Log != nil {
		a.log = a.opts.Log
	}
	return a
}

// readSettings makes the settings of the configuration and the adapters of its providers.
func (a *App) readSettings(_ context.Context, cfg *config.Config) error {
	s, err := settings.New(cfg, nil)
	if err != nil {
		return err
	}
	a.setLevel(s)
	a.settings.Store(s)
	return s.Connect(nil, a.pulse)
}

// openCatalog records the catalog and completes the settings. Nothing reads them before.
func (a *App) openCatalog(ctx context.Context, cfg *config.Config) error {
	s := a.settings.Load()
	if err := s.Join(ctx, a.facts.store, a.facts.alone(), nil); err != nil {
		return err
	}
	s.Route(nil, a.log)
	s.Describe(a.origin(cfg), nil)
	return nil
}

// listen takes the addresses and the admin socket. Connections wait there until Run accepts them.
func (a *App) listen(_ context.Context, cfg *config.Config) (err error) {
	if a.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with --listen or the field listen", cfg.Listen, doctor.Cause(err))
	}
	host, _, _ := net.SplitHostPort(cfg.Listen) // net.Listen has accepted it
	_, port, _ := net.SplitHostPort(a.Addr())
	a.bound = net.JoinHostPort(host, port)
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

// addGauges adds the metrics that are read when somebody asks for them.
func (a *App) addGauges(context.Context, *config.Config) error {
	for _, g := range []struct {
		name, help string
		read       func() int64
	}{
		{"sluice_accounts", "Accounts known to this process.", func() int64 { return int64(a.facts.index.Accounts()) }},
		{"sluice_calls_running", "Model calls under way now.", a.ledger.Running},
		{"sluice_videos_running", "Video jobs that this process works on now.", func() int64 { return int64(a.videos.Running()) }},
		{"sluice_request_bodies_bytes", "Bytes of request bodies held now.", a.api.BodiesInFlight},
		{"sluice_journal_records", "Settlements that wait for the database.", func() int64 { return a.books.Backlog().Records }},
		{"sluice_journal_bytes", "Bytes of settlements that wait for the database.", func() int64 { return a.books.Backlog().Bytes }},
	} {
		a.metrics.Gauge(g.name, g.help, func() float64 { return float64(g.read()) })
	}
	a.metrics.Upstreams(func() []telemetry.Upstream { return a.settings.Load().Routes.Gauges(time.Now()) })
	return nil
}

// reportStart logs what the operator should know about the configuration and the models.
func (a *App) reportStart(_ context.Context, cfg *config.Config) error {
	a.warn(cfg)
	discovery.Announce(nil, a.settings.Load().Catalog, a.log)
	return nil
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

// Origin is the URL where callers find the server, without a path.
func (a *App) Origin() string { return a.origin(a.settings.Load().Config) }

// origin is Origin under a configuration that may not be in force yet.
func (a *App) origin(cfg *config.Config) string { return cfg.OriginAt(a.bound) }

// OwnerKey is the master key of the owner account, if this start created it.
func (a *App) OwnerKey() string { return a.ownerKey }

// OwnerLink is a link that signs the owner in once, if this start created the account.
func (a *App) OwnerLink() string { return a.ownerLink }

// Abandon closes an App that was never run.
func (a *App) Abandon() error { return a.close() }

// close undoes New, last things first. Steps that New did not reach have left nil.
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
		s.Disconnect(nil)
	}
	if a.tools != nil {
		a.tools.close()
	}
	if a.books != nil {
		errs = append(errs, a.books.Close())
	}
	if a.facts != nil {
		_ = os.Remove(a.facts.dir.Join(admin.Socket)) // a leftover is removed by the next start
		errs = append(errs, a.facts.close())
	}
	return errors.Join(errs...)
}
