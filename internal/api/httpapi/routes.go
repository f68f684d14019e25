package httpapi

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/line/relay"
	"sluice/internal/line/resume"
	"sluice/internal/video"
)

// handler serves a request, or returns the error to reply with.
type handler func(x *exchange, r *http.Request) error

// step wraps a handler with one step of the chain.
type step func(next handler) handler

// chain returns the steps that every request passes, the outermost first.
func (a *API) chain() []step {
	return []step{
		a.observe,      // request id and fixed headers; at the end, log event and metrics
		a.answerErrors, // turns a returned error or a panic into the error object
		a.cors,         // lets browsers call /v1; a preflight needs no key
		a.authenticate, // /v1: 401, then 423, from the headers only
	}
}

// maxEcho is how much of a caller's text a message repeats, in bytes. Paths and header values can be far longer.
const maxEcho = 100

const (
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
	// Paths of the original beside it.
	inputTokensPath = "/v1/responses/input_tokens"
	compactPath     = "/v1/responses/compact"
	embedPath       = "/v1/embeddings"
	videoJobsPath   = "/v1/video/generations/jobs"
	videosPath      = "/v1/videos"
)

// route is one operation of the API.
type route struct {
	method  string
	pattern string // for net/http.ServeMux
	handle  handler
}

// inTurn wraps the handler of a read: few of one account run at once. Streams are not wrapped: they hold little, and may
// last for long.
func (a *API) inTurn(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		if x.caller.Account == nil {
			return next(x, r)
		}
		leave, err := a.opts.Reads.Enter(r.Context(), x.caller.Account.ID)
		if err != nil && r.Context().Err() != nil {
			return relay.Ended(r.Context())
		}
		if err != nil {
			return err
		}
		defer leave()
		return next(x, r)
	}
}

// streamed are the reads that are streams: events, and files of videos.
func streamed(pattern string) bool {
	return strings.HasSuffix(pattern, "/events") || strings.HasSuffix(pattern, "/content/video") || strings.HasSuffix(pattern, "/content")
}

// Routes returns the methods and patterns of all operations, for a test that tries each of them.
func Routes() (list []string) {
	for _, rt := range new(API).routes() {
		list = append(list, rt.method+" "+rt.pattern)
	}
	return list
}

// routes returns all operations. HEAD is served wherever GET is.
func (a *API) routes() []route {
	return []route{
		{"POST", chatPath, a.createChatCompletion},
		{"GET", chatPath + "/{id}/events", a.resumeStream},
		{"DELETE", chatPath + "/{id}/events", a.endStream},
		{"POST", messagesPath, a.createMessage},
		{"POST", countTokensPath, a.countTokens},
		{"POST", responsesPath, a.createResponse},
		{"POST", inputTokensPath, a.countInput},
		{"GET", "/v1/responses/{id}", a.stored(a.showResponse)},
		{"DELETE", "/v1/responses/{id}", a.stored(a.deleteResponse)},
		{"GET", "/v1/responses/{id}/input_items", a.stored(a.listInputItems)},
		{"POST", "/v1/responses/{id}/cancel", a.stored(a.cancelResponse)},
		{"POST", embedPath, a.createEmbeddings},
		{"POST", "/v1/route", a.explainRoute},
		{"POST", "/v1/feedback", a.rateAnswer},
		{"GET", "/v1/account", a.showAccount},
		{"GET", "/v1/usage", a.showUsage},
		{"GET", "/v1/usage/explain", a.explainUsage},
		{"GET", "/v1/requests", a.listRequests},
		{"GET", "/v1/requests/{id}", a.showRequest},
		{"GET", "/v1/sessions", a.listSessions},
		{"GET", "/v1/sessions/{id}", a.showSession},
		{"GET", "/v1/receipts", a.attested(a.listReceipts)},
		{"GET", "/v1/receipts/root", a.attested(a.showRoot)},
		{"GET", "/v1/receipts/{id}", a.attested(a.showReceipt)},
		{"POST", budgetsPath, a.budgeted(a.createBudget)},
		{"POST", budgetsPath + "/resume", a.budgeted(a.resumeKey)},
		{"GET", budgetsPath, a.budgeted(a.listBudgets)},
		{"GET", "/v1/budgets/{id}", a.budgeted(a.showBudget)},
		{"PATCH", "/v1/budgets/{id}", a.budgeted(a.changeBudget)},
		{"DELETE", "/v1/budgets/{id}", a.budgeted(a.deleteBudget)},
		{"GET", "/v1/models", a.listModels},
		{"GET", "/v1/models/verbose", a.listModelsVerbose},
		{"GET", "/v1/models/{id...}", a.showModel},
		{"GET", "/v1/catalog/changes", a.listCatalogChanges},
		{"POST", videoJobsPath, a.createVideo},
		{"GET", videoJobsPath, a.listVideos},
		{"GET", "/v1/video/generations/jobs/{id}", a.showVideo},
		{"DELETE", "/v1/video/generations/jobs/{id}", a.cancelVideo},
		{"GET", "/v1/video/generations/{id}/content/video", a.downloadVideo},
		{"POST", videosPath, a.createOpenVideo},
		{"GET", videosPath, a.listOpenVideos},
		{"GET", "/v1/videos/{id}", a.showOpenVideo},
		{"DELETE", "/v1/videos/{id}", a.deleteOpenVideo},
		{"GET", "/v1/videos/{id}/content", a.downloadOpenVideo},

		{"POST", mcpPath, a.serveMCP},
		{"DELETE", mcpPath, a.serveMCP},

		{"GET", video.LinkPath + "{file}", a.followLink},
		{"GET", receiptKeysPath, a.attested(a.listReceiptKeys)},
		{"GET", "/healthz", a.healthz},
		{"GET", "/api/hello", a.hello},
		{"GET", "/readyz", a.readyz},
		{"GET", "/openapi.json", a.openAPI},
		{"GET", "/docs", a.reference},
		{"GET", "/docs/{page}", a.reference},
	}
}

// assemble builds the mux and wraps it in the chain. It also sets serveInside.
func (a *API) assemble() handler {
	mux := http.NewServeMux()
	byPattern := map[string]methods{}
	for _, rt := range a.routes() {
		if byPattern[rt.pattern] == nil {
			byPattern[rt.pattern] = methods{}
			mux.Handle(rt.pattern, byPattern[rt.pattern])
		}
		if rt.method == http.MethodGet && !streamed(rt.pattern) {
			rt.handle = a.inTurn(rt.handle)
		}
		byPattern[rt.pattern][rt.method] = rt.handle
	}
	var lost http.Handler
	for pattern, page := range a.opts.Pages {
		if pattern == NoSuchPage {
			lost = a.showPage(page)
			continue
		}
		mux.Handle(pattern, a.showPage(page))
	}
	nothing := func(w http.ResponseWriter, r *http.Request) {
		if lost != nil && isBrowsing(r) {
			lost.ServeHTTP(w, r)
			return
		}
		w.(*exchange).err = nothingAt(r)
	}
	mux.HandleFunc("/", nothing)
	// Not among the routes: whoever is not a node finds nothing here, whatever the method.
	mux.HandleFunc(resume.NodePath, func(w http.ResponseWriter, r *http.Request) {
		if !a.serveNode(w.(*exchange), r) {
			nothing(w, r)
		}
	})
	serve := func(x *exchange, r *http.Request) error {
		if r.RequestURI == "*" || path.Clean(r.URL.Path) != r.URL.Path {
			return nothingAt(r) // the mux would redirect, or reply with plain text
		}
		if err := checkText(r); err != nil {
			return err
		}
		mux.ServeHTTP(x, r)
		// The error is taken, not read: a page that calls ServeAs goes through here twice with one exchange, and an error
		// that the inner chain has answered must not be answered again.
		err := x.err
		x.err = nil
		return err
	}
	a.serveInside = a.answerErrors(a.authenticate(serve))
	for _, s := range slices.Backward(a.chain()) {
		serve = s(serve)
	}
	return serve
}

// checkText refuses a path or a query that holds what is no text. What stands in them is looked for in the database, and
// PostgreSQL fails then (docs/api.md#errors).
func checkText(r *http.Request) error {
	if !excerpt.IsText(r.URL.Path) {
		return nothingAt(r)
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	for name, values := range r.URL.Query() {
		for _, v := range append(values, name) {
			if !excerpt.IsText(v) {
				return fault.New(fault.Invalid, "The query holds a NUL character, or bytes that are not UTF-8. Send text only.").At(excerpt.Of(name, maxEcho))
			}
		}
	}
	return nil
}

// NoSuchPage is the pattern of the page that a browser gets in place of the error object.
const NoSuchPage = "404"

// isBrowsing reports whether somebody opens a path in a browser, and is not a program that calls the API.
func isBrowsing(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !isAPI(r) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// showPage passes a request to a page, which replies to everything itself, errors included.
func (a *API) showPage(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		x.event.Route = r.Pattern
		r = r.WithContext(r.Context()) // a shallow copy; Clone would copy all headers
		r.RemoteAddr = x.event.Remote
		page.ServeHTTP(x, r)
		if x.event.Status >= http.StatusBadRequest {
			x.body.Finish(r) // a form that was refused before it was read
		}
	})
}

// WithMetrics returns a handler that serves the metrics, and whether this server lives and can serve: the address of
// the API does not answer that while it refuses connections (docs/care/readiness.md#a-node-that-cannot-serve). Other
// paths get the error object of the API.
func (a *API) WithMetrics(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.Handle("GET /healthz", a)
	mux.Handle("GET /readyz", a)
	mux.Handle("/", a.Nothing())
	return mux
}

// Nothing returns a handler that replies 404 to everything, with our error object. It serves
// the remaining paths of other servers, such as the one for metrics.
func (a *API) Nothing() http.Handler {
	serve := a.observe(a.answerErrors(func(_ *exchange, r *http.Request) error { return nothingAt(r) }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = serve(a.receive(w, r), r) // the chain has replied to errors itself
	})
}

// nothingAt is the fault of a path that does not exist.
func nothingAt(r *http.Request) error {
	return fault.New(fault.NotFound, "There is nothing at %s. The API begins at /v1; its reference is at /docs.", excerpt.Of(r.URL.Path, maxEcho))
}

// methods maps the methods of one pattern to their handlers.
type methods map[string]handler

// ServeHTTP implements http.Handler for the mux. It returns the handler's error through the
// exchange.
func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := w.(*exchange)
	x.event.Route = r.Pattern
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h := m[method]; h != nil {
		x.err = h(x, r)
		return
	}
	x.err = m.refuse(x, r)
}

// refuse says which methods there are.
func (m methods) refuse(x *exchange, r *http.Request) error {
	switch {
	case r.URL.Path == responsesPath && wantsWebSocket(r):
		return noWebSocket(x)
	case r.URL.Path == compactPath && r.Method == http.MethodPost:
		return fault.New(fault.NotFound, "Conversations are not compacted here. Ask a model for a summary with POST %s, and begin a new conversation with it; or set truncation to \"auto\", which leaves out the oldest items of an input that is too long.", responsesPath)
	}
	allow := make([]string, 0, 3)
	for name := range m {
		allow = append(allow, name)
		if name == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	x.Header().Set("Allow", strings.Join(allow, ", "))
	return fault.New(fault.MethodNotAllowed, "%s is not possible on %s; use %s.", excerpt.Of(r.Method, maxEcho), excerpt.Of(r.URL.Path, maxEcho), strings.Join(allow, " or "))
}

// wantsWebSocket reports whether a client wants to speak over a WebSocket. Proxies take Upgrade away, but not the key.
func wantsWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || r.Header.Get("Sec-Websocket-Key") != ""
}

// noWebSocket answers a client that wants to speak over a WebSocket. Some fall back to HTTP at once after this status, and
// only after this one.
func noWebSocket(x *exchange) error {
	x.Header().Set("Upgrade", "websocket")
	x.Header().Set("Connection", "Upgrade")
	f := fault.New(fault.Invalid, "There are no WebSockets here. Send the request with POST %s over HTTP, with stream: true to get events.", responsesPath)
	f.Code = http.StatusUpgradeRequired
	return f
}

// isAPI reports whether the path needs a key: the versioned API and the MCP server.
func isAPI(r *http.Request) bool {
	return r.URL.Path == "/v1" || strings.HasPrefix(r.URL.Path, "/v1/") || r.URL.Path == mcpPath
}
