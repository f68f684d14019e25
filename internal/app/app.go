// Package app wires Sluice together: it opens what a configuration names, in order, runs it, and
// stops and closes it, in order.
//
// New, Run and Reload are the life of a server. Commands that work without one are in offline.go and
// doctor.go. The program and the end-to-end tests start the same App.
//
// It is the only package that knows the configuration and every other package, and it has no rule of
// its own: each file passes a part of the configuration to the package that owns the subject. A rule
// that you are about to write here belongs there.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/account/billing"
	"sluice/internal/account/billing/stripe"
	"sluice/internal/account/mail"
	"sluice/internal/account/signin"
	"sluice/internal/account/staff"
	"sluice/internal/api/httpapi"
	"sluice/internal/api/httpserver"
	"sluice/internal/api/responses"
	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/health"
	"sluice/internal/kit/pulse"
	"sluice/internal/kit/telemetry"
	"sluice/internal/kit/turnstile"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/admission/redisledger"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/cluster"
	"sluice/internal/ledger/receipt"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/runaway"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/idempotency"
	"sluice/internal/line/inference"
	"sluice/internal/line/resume"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/feedback"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/steering"
	"sluice/internal/operate/ticket"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/discovery"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/replicas"
	"sluice/internal/upstream/routing"
	"sluice/internal/video"
)

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Log gets everything that the server logs. Default slog.Default().
	Log *slog.Logger
	// Output is what Log writes to, if it is known: /readyz, the metrics and "sluice debug" say what
	// has become of lines. May be nil.
	Output *telemetry.Log
	// Level, if not nil, is set to the configured log level at the start and at each reload. It must
	// be the level of Log for that to have an effect.
	Level *slog.LevelVar
	// Load reads the configuration again for a reload. If nil, Reload returns an error.
	Load func() (*config.Config, error)
	// Servers are the model servers to look for on this machine. Default: all that discovery knows.
	Servers []discovery.Server
	// Resolver looks up the names of replicas; for tests. Default: that of the system.
	Resolver *net.Resolver
	// Alone says that nothing else runs in the process: memory that only the start needed is returned to the system, for
	// which everything in the process is collected.
	Alone bool
	// Idempotency says how long replies are kept and waited for; for tests. New copies it.
	Idempotency *idempotency.Options
	// Resume bounds the streams that can be resumed; for tests. New copies it.
	Resume *resume.Options
	// Patience is how long a call tries to find an upstream that answers; for tests. Default 30
	// seconds.
	Patience time.Duration
	// Renderer replaces the sandbox that draws videos; for tests.
	Renderer video.Renderer
	// Budgets replaces the part of the database that has what was spent of budgets; for tests.
	Budgets budget.Store
	// Pages are served beside those of the product, by their patterns; for the demonstration.
	Pages map[string]http.Handler

	room *httpserver.Room // of Start; may be nil
}

// App is one server. New makes it, and Run or Abandon ends it. An App is not used again after that.
//
// New sets the fields one after the other, and each is nil before its step. After New they do not
// change, except settings and cert, which a reload replaces. So requests read them without a lock.
type App struct {
	opts    Options
	log     *slog.Logger
	started time.Time
	metrics *telemetry.Metrics
	tracer  *telemetry.Tracer  // nil: traces are off
	servers []discovery.Server // to look for on this machine

	facts       *facts              // data folder, database, accounts
	cluster     *cluster.Cluster    // the servers on the same database; of one with SQLite
	board       *overview.Board     // what the service did in the last hours
	reports     *overview.Reporter  // tells people of it
	record      *overview.Record    // how healthy models were in the last months
	imported    imports             // the prices that operators have imported
	helm        *steering.Helm      // what staff has decided about the running service
	bulletin    *incident.Bulletin  // what staff tells people about outages
	follower    *auth.Follower      // keeps the accounts current on a database that others change; nil on SQLite
	books       *usage.Books        // what calls consumed
	notary      *receipt.Notary     // makes the receipts of calls
	refusals    *refusal.Collector  // calls that were refused
	pulse       *pulse.Pulse        // notices silence on streams
	ways        *openai.Ways        // by which API models are asked, as their providers have told
	names       *replicas.Names     // what names of replicas stand for
	ledger      ledger              // what accounts are using now; it is made of one of the next two
	memory      *admission.Memory   // nil if nodes share a ledger
	redis       *redisledger.Ledger // nil if this node counts alone
	gate        *admission.Gate     // admits calls: takes from the ledger, settles in the books
	quota       *admission.Quota    // the units of keys with a monthly limit
	budgets     *budget.Ledger      // what accounts may spend
	runaway     *runaway.Watch      // which programs run away
	abuse       *abuse.Control
	health      *health.Checks     // whether new work should be sent here
	intake      *httpserver.Intake // keeps callers away while it should not
	line        *inference.Line
	api         *httpapi.API
	reads       *turnstile.Gate   // how many reads of one account run at once
	local       *httpserver.Local // whether only this machine has sent requests
	replies     *idempotency.Replies
	archive     *responses.Archive // stored responses
	waiting     *responses.Journal // those that are not in the database yet; nil if other nodes use it
	streams     *resume.Streams
	router      *routing.Router
	feedback    *feedback.Feedback // what callers say about answers
	tools       *remoteTools
	videos      *video.Line
	files       settings.Files // of the videos
	outbox      *mail.Outbox
	logins      *signin.Service
	roster      *staff.Roster
	notices     *notice.Notices
	letters     *notice.Letters
	tickets     *ticket.Office
	subscribers *incident.Subscribers // who gets mail about incidents
	billing     *billing.Billing
	stripe      *stripe.Processor // nil if another processor is used, or none

	alerts alerts // webhooks, and mail about what happened

	listener        net.Listener
	adminListener   net.Listener
	metricsListener net.Listener // nil if metrics are off
	bound           string       // the configured listen address, with the port that the system chose

	ownerKey   string // empty unless this start created the owner
	ownerLink  string // empty unless this start created the owner
	followFrom int64  // number of the audit entry up to which the index is complete

	hastened  chan struct{} // closed by Hasten
	undelayed atomic.Bool   // Hasten was called, or the delay of a stop is over

	settings atomic.Pointer[settings.Settings] // never nil after readSettings
	cert     atomic.Pointer[tls.Certificate]   // nil if TLS is off
	reloadMu sync.Mutex                        // held while settings are replaced, from reading the old to storing the new
	lookMu   sync.Mutex                        // held while models are looked for; taken before reloadMu
	onDisk   config.OnDisk                     // how the configuration on disk differs from the one in force
	begun    *config.Config                    // the configuration of the start
}

// New opens everything that the configuration names. On an empty database it creates the owner. New
// serves nobody yet, but it takes the addresses: connections wait until Run accepts them. If a step
// fails, New closes what the steps before it have opened. opts may be nil.
//
// The order of the steps matters. The comments say why; a step without one may move only if what it
// reads is still set before it.
func New(ctx context.Context, cfg *config.Config, opts *Options) (*App, error) {
	a := newApp(cfg, opts)
	for _, step := range []func(context.Context, *config.Config) error{
		a.readSettings,    // first, and without a side effect: a bad configuration changes nothing
		a.loadCertificate, // without a side effect, too
		a.openFacts,       // the lock on the data folder guards everything below
		a.joinCluster,     // before listen: it may wait for the server that this one replaces
		a.listen,          // before createOwner: a busy port must not cost the only display of the owner's key
		a.publishAddress,  // after listen, which knows the port
		a.openLedger,      // after joinCluster, which knows how many nodes share the limits
		a.loadAccounts,    // before createOwner, which needs to know whether there is an account
		a.followAccounts,  // after loadAccounts, and before createOwner: from here on, nodes tell each other what changes
		a.createOwner,
		a.openHelm,       // before openCatalog: staff may have moved models to other tiers
		a.openPrices,     // before openCatalog: operators may have imported prices
		a.openWays,       // after joinCluster: nodes tell each other what they learn
		a.openCatalog,    // after listen: the description of the API has the port in it
		a.watchLocal,     // before openSignIn and openBilling, which ask whether only this machine calls
		a.openSignIn,     // from here on, owners are told what happens to their account
		a.openIncidents,  // after openSignIn: subscribers get mail
		a.openBilling,    // after openSignIn: it sends letters
		a.signOwnerIn,    // after openSignIn, which makes the link
		a.openReceipts,   // before openBooks, which makes them
		a.openBoard,      // before openBooks and openVideos, which tell it of calls
		a.openBooks,      // after openFacts: the journal is in the data folder
		a.restoreWindows, // before the first request: what the last minute used still counts
		a.resumeScores,   // after openBooks: what is still in the journal counts, too
		a.openBudgets,    // after openBooks, for the same reason
		a.openAlerts,     // after openBooks: it looks at the journal
		a.openVideos,     // after openBooks: jobs are admitted by the same gate as calls
		a.watchHealth,    // after everything that it looks at
		a.openArchive,
		a.openTraces, // before openAPI, which begins them
		a.openAPI,    // after everything that it serves
		a.addMetrics, // after everything that they read
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
		log: slog.Default(), started: time.Now(), servers: discovery.Servers(), begun: cfg,
		metrics: telemetry.NewMetrics(buildinfo.Version(), buildinfo.Commit()), pulse: pulse.New(), ways: &openai.Ways{}, hastened: make(chan struct{}), imported: newImports(),
	}
	if opts != nil {
		a.opts = *opts
	}
	// Not nil but empty means none: tests must not find the model servers of the machine they run on.
	if a.opts.Servers != nil {
		a.servers = a.opts.Servers
	}
	if a.opts.Log != nil {
		a.log = a.opts.Log
	}
	a.names = replicas.NewNames(a.opts.Resolver, a.log)
	return a
}

// readSettings makes the settings and the adapters of the providers. They are not complete before
// openCatalog, which needs the database.
func (a *App) readSettings(ctx context.Context, cfg *config.Config) error {
	s, err := settings.New(cfg, nil)
	if err != nil {
		return err
	}
	a.setLevel(s)
	s.Weights.Check(a.log)
	a.settings.Store(s)
	a.names.Learn(ctx, s.Sources())
	return s.Connect(nil, a.shared())
}

// openCatalog records the catalog and completes the settings. It changes them in place, which is
// safe because nobody uses their catalog and routes yet.
func (a *App) openCatalog(ctx context.Context, cfg *config.Config) error {
	s := a.settings.Load()
	if err := s.Import(a.imported.all()); err != nil {
		return err
	}
	s.Tier(a.helm.Tiers())
	if err := s.Join(ctx, a.facts.stores.service, a.facts.alone(), nil); err != nil {
		return err
	}
	if err := a.recordPrices(ctx, s); err != nil {
		return err
	}
	s.Route(nil, a.helm.Drained, a.log)
	s.Describe(a.origin(cfg), nil)
	return nil
}

// listen starts to listen for the API, on the admin socket and for metrics.
func (a *App) listen(_ context.Context, cfg *config.Config) (err error) {
	if a.listener, err = httpserver.Listen(cfg.Listen); err != nil {
		return err
	}
	// The port may be 0, which lets the system choose one. Callers need the real one.
	host, _, _ := net.SplitHostPort(cfg.Listen) // net.Listen has accepted it
	_, port, _ := net.SplitHostPort(a.Addr())
	a.bound = net.JoinHostPort(host, port)
	if a.adminListener, err = admin.Listen(a.facts.dir.Path()); err != nil {
		return err
	}
	a.opts.room.Close() // it has had the address of the metrics
	a.metricsListener, err = httpserver.ListenMetrics(cfg.MetricsListen, cfg.MetricsOptional(), a.log)
	if a.metricsListener == nil {
		a.metrics.Off()
	}
	return err
}

// watchLocal watches for requests that do not come from this machine; see httpserver.Local.
func (a *App) watchLocal(context.Context, *config.Config) error {
	a.local = httpserver.NewLocal(a.facts.dir, func() []string { return a.settings.Load().Config.ImpliedDoors() }, a.log)
	return nil
}

// reportStart logs warnings about the configuration, and the models that were found without one.
func (a *App) reportStart(_ context.Context, cfg *config.Config) error {
	a.warn(cfg)
	discovery.Announce(nil, a.settings.Load().Catalog, a.log)
	return nil
}

// plans, catalog and videoModelID return parts of the settings in force.
func (a *App) plans() account.Plans      { return a.settings.Load().Plans }
func (a *App) seller() billing.Seller    { return a.settings.Load().Seller() }
func (a *App) catalog() *catalog.Catalog { return a.settings.Load().Catalog }
func (a *App) videoModelID() string      { return a.settings.Load().Config.Video.ModelID }

// Addr returns the address that the API listens on, as host:port.
func (a *App) Addr() string { return a.listener.Addr().String() }

// MetricsAddr returns the address that the metrics listen on, or "" if they are off.
func (a *App) MetricsAddr() string {
	if a.metricsListener == nil {
		return ""
	}
	return a.metricsListener.Addr().String()
}

// Origin returns the URL that callers use, without a path. A reload can change it.
func (a *App) Origin() string { return a.origin(a.settings.Load().Config) }

// origin is Origin for a configuration that may not be in force yet.
func (a *App) origin(cfg *config.Config) string { return cfg.OriginAt(a.bound) }

// OwnerKey returns the master key of the owner account if this start created it, or else "". The key
// cannot be shown again: only its hash is stored.
func (a *App) OwnerKey() string { return a.ownerKey }

// OwnerLink returns a link that signs the owner in once if this start created the account, or else
// "".
func (a *App) OwnerLink() string { return a.ownerLink }

// Abandon closes an App that was never run. Run closes the App itself.
func (a *App) Abandon() error { return a.close() }

// close closes what New has opened: the listeners first, so that callers are refused instead of
// waiting, and the data folder last, because its lock keeps the next process out until everything
// else is closed. It also runs after a step of New failed, so a field may be nil.
func (a *App) close() error {
	var errs []error
	for _, l := range []net.Listener{a.metricsListener, a.adminListener, a.listener} {
		// After Run, the servers have closed them already.
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
	if a.alerts.courier != nil {
		a.alerts.courier.Close()
	}
	if a.books != nil { // before the folder that its journal is in
		errs = append(errs, a.books.Close())
	}
	if a.waiting != nil { // for the same reason
		errs = append(errs, a.waiting.Close())
	}
	if a.redis != nil {
		a.redis.Close()
	}
	if a.cluster != nil { // after everything that another server must not do at the same time
		a.cluster.Leave(context.Background())
	}
	if a.facts != nil {
		_ = os.Remove(a.facts.dir.Join(admin.Socket)) // a leftover is removed by the next start
		errs = append(errs, a.facts.close())
	}
	return errors.Join(errs...)
}
