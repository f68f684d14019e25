// Package httpapi serves the HTTP API under /v1 and the few pages beside it.
//
// Every request passes the same chain of steps, listed in routes.go in the order in which they
// run. A handler parses the request, calls one package and encodes the result. Everything that
// goes wrong is a returned error, and one place, errors.go, turns it into the error object.
// Decisions are made in the packages that are called.
package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"sluice/api"
	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/api/httpserver"
	"sluice/internal/api/responses"
	"sluice/internal/kit/health"
	"sluice/internal/kit/telemetry"
	"sluice/internal/kit/turnstile"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/costs"
	"sluice/internal/ledger/misses"
	"sluice/internal/ledger/receipt"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/session"
	"sluice/internal/line/idempotency"
	"sluice/internal/line/inference"
	"sluice/internal/line/resume"
	"sluice/internal/operate/feedback"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
	"sluice/internal/video"
)

// Options holds the optional parts of New.
type Options struct {
	// Log is where requests are logged. The default is slog.Default().
	Log *slog.Logger
	// Metrics counts requests. The default is one that nobody reads.
	Metrics *telemetry.Metrics
	// Tracer traces requests under /v1 and /mcp. If nil, nothing is traced.
	Tracer *telemetry.Tracer
	// Ledger and Abuse are read by GET /v1/account. Ledger also provides the rate-limit
	// headers of errors.
	Ledger admission.Ledger
	Abuse  *abuse.Control
	// Replies stores replies to requests with an Idempotency-Key. If nil, the header is
	// ignored.
	Replies *idempotency.Replies
	// Streams keeps streams that can be resumed. If nil, none can be.
	Streams *resume.Streams
	// Responses keeps responses. If nil, none are kept.
	Responses *responses.Archive
	// Changes reads up to most catalog changes after the one with number after. known reports
	// whether that number exists; 0 always does.
	Changes func(ctx context.Context, after int64, most int) (changes []catalog.Change, known bool, err error)
	// Videos runs video jobs. It may be nil only if no request uses them.
	Videos *video.Line
	// MCP serves requests to our own MCP server; nil means that there is none. depth is the
	// number of our own MCP calls that the request is nested in, which stops endless
	// recursion.
	MCP func(w http.ResponseWriter, r *http.Request, body []byte, caller auth.Caller, depth int) error
	// Health is asked by /readyz. The default is one without checks.
	Health *health.Checks
	// Feedback takes what callers say about answers, if the settings say so. If nil, nobody can.
	Feedback *feedback.Feedback
	// Activity is read by GET /v1/usage and GET /v1/requests. It may be nil only if no request uses them.
	Activity *activity.Log
	// Sessions is read by GET /v1/sessions, and by GET /v1/usage by tag. It may be nil only if no request uses them.
	Sessions *session.Log
	// Misses is read by GET /v1/requests/{id}. It may be nil only if no request uses it.
	Misses *misses.Log
	// Costs is read by GET /v1/usage/explain. It may be nil only if no request uses it.
	Costs *costs.Costs
	// Budgets reads and changes budgets. If nil, there is nothing at their paths.
	Budgets *budget.Desk
	// Receipts reads receipts. If nil, calls get none.
	Receipts *receipt.Log
	// Reads bounds how many reads of one account run at once. If nil, nothing does.
	Reads *turnstile.Gate
	// Refusals remembers calls that were refused. If nil, they are not remembered.
	Refusals *refusal.Collector
	// Pages maps patterns to handlers that reply to everything themselves. They see the
	// client's address as the request's RemoteAddr, also behind a trusted proxy.
	Pages map[string]http.Handler
}

// Settings holds what a reload of the configuration may change. A request uses the settings
// that were current when it arrived, until its end.
type Settings struct {
	Catalog *catalog.Catalog
	Routes  *routing.Routes
	// Scorer rates models for the router. If nil, the router uses its own estimate.
	Scorer routing.Scorer
	// Weights are what the router has learned. If nil, it goes by estimates alone.
	Weights *routing.Weights
	// Feedback says that callers may rate answers, and that the router learns from it.
	Feedback       bool
	feedback       *feedback.Feedback // set by Apply; nil: off
	Plans          account.Plans
	CORSOrigins    []string
	TrustedProxies []netip.Prefix
	// PublicURL is the origin under which callers know the service. If empty, only names of
	// this machine are accepted where it matters; see checkSource.
	PublicURL string
	// Origin begins links to the pages: PublicURL, or else the address of this server.
	Origin string
	// Support is how callers reach support, for errors that tell them to. May be empty.
	Support string
	// Description is shown by /openapi.json and /docs. If nil, it describes a fresh
	// installation.
	Description *api.Description
}

// API is the http.Handler of the whole service. It is safe for concurrent use.
type API struct {
	auth   *auth.Authenticator
	line   *inference.Line
	opts   Options // with its defaults
	bodies *httpserver.Bodies

	settings atomic.Pointer[Settings]
	draining atomic.Bool
	closing  atomic.Bool  // each reply ends its connection
	running  atomic.Int64 // requests, for Await
	serve    handler
	// serveInside is serve without the steps that a request passes only once: a page has
	// passed them already when it calls ServeAs.
	serveInside handler
}

// New returns an API with its first settings. opts may be nil.
func New(a *auth.Authenticator, line *inference.Line, s Settings, opts *Options) *API {
	made := &API{auth: a, line: line, bodies: httpserver.NewBodies()}
	if opts != nil {
		made.opts = *opts
	}
	made.opts.Log = cmp.Or(made.opts.Log, slog.Default())
	if made.opts.Health == nil {
		made.opts.Health = health.New(made.opts.Log)
	}
	if made.opts.Metrics == nil {
		made.opts.Metrics = telemetry.NewMetrics("", "")
	}
	made.Apply(s)
	made.serve = made.assemble()
	return made
}

// Apply replaces the settings. Requests that are running keep the old ones.
func (a *API) Apply(s Settings) {
	if s.Description == nil {
		s.Description = api.Describe(api.Defaults())
	}
	if s.Feedback {
		s.feedback = a.opts.Feedback
	}
	a.settings.Store(&s)
}

// Drain makes /readyz report that no new work should be sent here. Requests are still served, and
// each reply ends its connection, so that the next request of the same caller can go elsewhere.
func (a *API) Drain() {
	a.draining.Store(true)
	a.closing.Store(true)
}

// EndConnections makes each reply end its connection, or no longer, so that the next request of the same caller can
// go to another server. After Drain it stays so.
func (a *API) EndConnections(on bool) { a.closing.Store(on || a.draining.Load()) }

// BodiesInFlight returns how many bytes of request bodies are held in memory.
func (a *API) BodiesInFlight() int64 { return a.bodies.Held() }

// Exchange is the ResponseWriter that a page is given by an API. No other type implements it.
type Exchange interface {
	http.ResponseWriter
	// Fail makes the API reply with the error object once the page has returned. Nothing may have been sent.
	Fail(err error)
	begunExchange() *exchange
}

// ServeAs serves a request under /v1 for a page. The visitor's session has identified the
// caller, so no key is needed; everything else is as for any other caller. w must be the
// ResponseWriter that the page was called with: both share one log event.
func (a *API) ServeAs(caller auth.Caller, w Exchange, r *http.Request) {
	x := w.begunExchange()
	x.caller, x.body.Account, x.measured = caller, caller.Account.ID, true
	if isMessages(r) {
		x.Header()["Request-Id"] = x.Header()["X-Request-Id"]
	}
	_ = a.serveInside(x, r) // the chain has replied to errors itself
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.serveAt(0, w, r) }

// Nested returns a handler for requests made in process by our own MCP server, at the given
// depth.
func (a *API) Nested(depth int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serveAt(depth, w, r) })
}

// serveAt serves a request at an MCP nesting depth. The settings are loaded once here, so that
// a reload does not change them in the middle of a request.
func (a *API) serveAt(depth int, w http.ResponseWriter, r *http.Request) {
	x := a.receive(w, r)
	x.depth = depth
	a.running.Add(1)
	defer a.running.Add(-1)
	defer x.body.Release()
	_ = a.serve(x, r) // the chain has replied to errors itself
}

// receive returns the exchange of a request, whose body is under the limits from here on.
func (a *API) receive(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, settings: a.settings.Load(), http2: r.ProtoMajor == 2}
	if httpserver.HasBody(r) {
		x.event.Start = time.Now()
		a.bodies.Expect(&x.body, w, r, x.event.Start)
	}
	return x
}

// Await waits until no request is running, for httpserver.LastWords at most. After the server's end, requests may
// still be settling: a server that closes connections does not wait for their handlers.
func (a *API) Await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpserver.LastWords)
	defer cancel()
	httpserver.Until(ctx, func() bool { return a.running.Load() == 0 })
}

// Hold returns how a reply to an account is charged to the account's share of the memory for bodies; see
// httpserver.Bodies.
func (a *API) Hold(accountID string) (take responses.Take, release func()) {
	return a.bodies.Hold(accountID)
}
