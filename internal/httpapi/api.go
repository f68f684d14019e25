// Package httpapi is the front door: the HTTP API under /v1 and the few pages beside it.
//
// Every request passes the same chain, written out in routes.go in the order it runs; a handler
// parses, calls one thing and encodes. Whatever goes wrong on the way is a returned error, and one
// place, errors.go, turns it into the error object. Decisions are made in the packages called.
package httpapi

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"sluice/api"
	"sluice/internal/abuse"
	"sluice/internal/account"
	"sluice/internal/admission"
	"sluice/internal/auth"
	"sluice/internal/catalog"
	"sluice/internal/idempotency"
	"sluice/internal/inference"
	"sluice/internal/routing"
	"sluice/internal/telemetry"
	"sluice/internal/video"
)

const (
	maxBody           = 32 << 20  // bytes of one request
	maxBodies         = 512 << 20 // bytes of all requests being read or answered
	maxAccountBodies  = 64 << 20  // bytes of one account's
	maxStrangerBodies = 32 << 20  // bytes of all requests without an account, such as forms
	maxAddressBodies  = 4 << 20   // bytes of those from one address
	bodyPatience      = 30 * time.Second
	bodyTotal         = 10 * time.Minute
	checksPatience    = 3 * time.Second
)

// Options are what New needs beside the callers' keys.
type Options struct {
	Log     *slog.Logger       // default: slog.Default()
	Metrics *telemetry.Metrics // default: a fresh one that nobody reads
	// Ledger and Abuse are what GET /v1/account tells of.
	Ledger admission.Ledger
	Abuse  *abuse.Control
	// Replies are what requests with an Idempotency-Key repeat; nil: the header means nothing.
	Replies *idempotency.Replies
	// Changes reads up to most entries of the log of catalog changes after the one with this number; known is
	// whether there is such an entry.
	Changes func(ctx context.Context, after int64, most int) (changes []catalog.Change, known bool, err error)
	// Videos is the way of video jobs; nil only where none are asked for.
	Videos *video.Line
	// MCP answers requests to our own MCP server; nil: there is none. Depth is how many of its own calls a
	// request is nested in.
	MCP func(w http.ResponseWriter, r *http.Request, body []byte, caller auth.Caller, depth int) error
	// Checks are what /readyz asks, in order.
	Checks []Check
	// Pages are answered by handlers of their own, by their patterns; they see the client's address as the
	// request's.
	Pages map[string]http.Handler
	// MaxBody and MaxBodies bound one body and all bodies in flight; for tests. Default 32 and 512 MiB.
	MaxBody, MaxBodies int64
}

// Check is one condition of being ready.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
	// Note says what to look at though the check passes; nil or empty: nothing.
	Note func() string
}

// Settings is what a reload may change.
type Settings struct {
	Catalog        *catalog.Catalog
	Routes         *routing.Routes
	Scorer         routing.Scorer // what the router chooses by; nil: its own estimate
	Plans          account.Plans
	CORSOrigins    []string
	TrustedProxies []netip.Prefix
	// PublicURL is the origin by which callers know the service; empty: only this machine's own names.
	PublicURL string
	// Description is what /openapi.json and /docs tell; nil: that of a fresh installation.
	Description *api.Description
}

// API answers HTTP requests.
type API struct {
	auth    *auth.Authenticator
	line    *inference.Line
	log     *slog.Logger
	metrics *telemetry.Metrics
	ledger  admission.Ledger
	abuse   *abuse.Control
	replies *idempotency.Replies
	videos  *video.Line
	changes func(ctx context.Context, after int64, most int) ([]catalog.Change, bool, error)
	mcp     func(w http.ResponseWriter, r *http.Request, body []byte, caller auth.Caller, depth int) error
	checks  []Check
	pages   map[string]http.Handler
	bodies  bodies

	settings atomic.Pointer[Settings]
	draining atomic.Bool
	serve    handler
	// serveInside is serve without what a request passes once.
	serveInside handler
}

// New returns the API with its first settings.
func New(a *auth.Authenticator, line *inference.Line, s Settings, opts *Options) *API {
	if opts == nil {
		opts = &Options{}
	}
	made := &API{auth: a, line: line, log: opts.Log, metrics: opts.Metrics, ledger: opts.Ledger, abuse: opts.Abuse, replies: opts.Replies, videos: opts.Videos, changes: opts.Changes, mcp: opts.MCP, checks: opts.Checks, pages: opts.Pages}
	made.bodies.maxOne, made.bodies.maxAll = cmp.Or(opts.MaxBody, maxBody), cmp.Or(opts.MaxBodies, maxBodies)
	made.bodies.maxAccount, made.bodies.maxStrangers, made.bodies.maxStranger = maxAccountBodies, maxStrangerBodies, maxAddressBodies
	made.bodies.patience, made.bodies.total, made.bodies.seed = bodyPatience, bodyTotal, maphash.MakeSeed()
	if made.log == nil {
		made.log = slog.Default()
	}
	if made.metrics == nil {
		made.metrics = telemetry.NewMetrics("")
	}
	made.Apply(s)
	made.serve = made.assemble()
	return made
}

// Apply makes the settings those of every request that arrives from now on.
func (a *API) Apply(s Settings) {
	if s.Description == nil {
		s.Description = api.Describe(api.Defaults())
	}
	a.settings.Store(&s)
}

// Drain makes /readyz answer that no new work should come here.
func (a *API) Drain() { a.draining.Store(true) }

// BodiesInFlight is how many bytes of request bodies are held now.
func (a *API) BodiesInFlight() int64 { return a.bodies.held.Load() }

// Exchange is the ResponseWriter that a page is given by an API. No other type implements it.
type Exchange interface {
	http.ResponseWriter
	begunExchange() *exchange
}

// ServeAs answers a request under /v1 on behalf of a page whose visitor has proved by a session who they are. W is
// what the page was given, so that the log has one event for both. Everything but the key is as for any other caller.
func (a *API) ServeAs(caller auth.Caller, w Exchange, r *http.Request) {
	x := w.begunExchange()
	x.caller = caller
	_ = a.serveInside(x, r) // the chain answers its own errors
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.serveAt(0, w, r) }

// Nested answers requests in process that are nested so deep in calls of our own MCP server.
func (a *API) Nested(depth int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serveAt(depth, w, r) })
}

func (a *API) serveAt(depth int, w http.ResponseWriter, r *http.Request) {
	x := &exchange{ResponseWriter: w, settings: a.settings.Load(), depth: depth, http2: r.ProtoMajor == 2}
	a.bodies.expect(x, r)
	defer x.body.release()
	_ = a.serve(x, r) // the chain answers its own errors
}
