package app

import (
	"context"
	"net/http"
	"os"

	"sluice/internal/account/auth"
	"sluice/internal/api/httpapi"
	"sluice/internal/api/mcpserver"
	"sluice/internal/app/config"
	"sluice/internal/kit/netguard"
	"sluice/internal/kit/seal"
	"sluice/internal/kit/turnstile"
	"sluice/internal/line/idempotency"
	"sluice/internal/line/inference"
	"sluice/internal/line/resume"
	"sluice/internal/line/toolloop"
	"sluice/internal/operate/feedback"
	"sluice/internal/prompt/prefix"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/continuation"
	"sluice/internal/upstream/mcpclient"
	"sluice/internal/upstream/routing"
)

// prefixKey returns what fingerprints of prompts are made under. It is the same on all nodes.
func prefixKey(key seal.Key) *prefix.Key {
	id := key.Box("prefixes", "", "").ID()
	return prefix.NewKey(id[:])
}

// openAPI makes the API, with the pages and the MCP server beside it. It serves nobody yet: Run does.
//
// The API and MCP tools need each other: the API calls tools, and our own MCP server is a caller of
// the API. So both get a function that reads a.api when a request arrives, after openAPI has set it.
func (a *App) openAPI(_ context.Context, cfg *config.Config) error {
	store, stores := a.facts.store, &a.facts.stores
	replies := &idempotency.Options{} // a copy: the options of a test must not get the key
	if a.opts.Idempotency != nil {
		*replies = *a.opts.Idempotency
	}
	replies.Key = store.Key()
	routers := &routing.RouterOptions{Key: store.Key(), Log: a.log}
	// Other nodes can only be there with PostgreSQL. A process that is alone asks no database about them.
	if !a.facts.alone() {
		replies.Claims, replies.Node = stores.kept, a.nodeName()
		routers.Shared = stores.kept
	}
	streams := &resume.Options{Patience: cfg.Resume.Patience, MaxStream: cfg.Resume.StreamMiB << 20, MaxAccount: cfg.Resume.AccountMiB << 20, MaxAll: cfg.Resume.TotalMiB << 20}
	if a.opts.Resume != nil {
		*streams = *a.opts.Resume
	}
	if streams.Key = store.Key(); !a.facts.alone() {
		streams.Nodes = resume.Of(a.cluster)
	}
	a.streams = resume.New(streams)
	a.replies, a.router = idempotency.New(stores.kept, a.log, replies), routing.NewRouter(routers)
	a.feedback = feedback.New(stores.service, a.finder(), &feedback.Options{Log: a.log, On: func() bool { return a.settings.Load().Config.Router.Feedback }})
	// The depth of nesting is counted, so that tools which call the service again come to an end.
	nested := func(depth int) http.Handler { return a.api.Nested(depth) }
	a.tools = newRemoteTools(cfg, func() string { return a.Origin() + "/mcp" }, nested)
	// Kept replies and the states of tool calls hold parts of conversations, so both are encrypted in
	// the database.
	a.line = inference.New(a.gate, a.pulse, &inference.Options{
		States: continuation.New(stores.kept, &continuation.Options{Key: store.Key()}), Tools: a.tools.loop, Router: a.router, Closed: a.helm.Closed, Patience: a.opts.Patience, Routed: a.feedback.Settled,
		Deliver: a.notary.Deliver, Budgets: a.budgets, Runaway: a.runaway, Prefixes: prefixKey(store.Key()),
	})
	tools := a.newMCPServer(nested)
	a.cluster.Subscribe(topicMCP, tools.Told, nil)
	a.reads = turnstile.New()
	a.api = httpapi.New(auth.New(a.facts.index, cfg.Brand, a.follower), a.line, a.settings.Load().HTTP(a.Origin()), &httpapi.Options{
		Log: a.log, Metrics: a.metrics, Tracer: a.tracer, Ledger: a.ledger, Abuse: a.abuse, Replies: a.replies, Streams: a.streams, Videos: a.videos,
		Responses: a.archive,
		Changes:   stores.service.CatalogChanges,
		Reads:     a.reads,
		Pages:     a.pages(cfg), MCP: tools.Serve,
		Health: a.health, Refusals: a.refusals, Activity: a.activity(), Misses: a.misses(), Costs: a.costs(), Sessions: a.sessions(), Feedback: a.feedback,
		Receipts: a.receipts(), Budgets: a.budgetDesk(),
	})
	return nil
}

// nodeName returns what people call this node when they look at what nodes share: the machine's name.
func (a *App) nodeName() string {
	name, _ := os.Hostname() // without one, the address is still there
	return name + " " + a.bound
}

// remoteTools calls the tools of the MCP servers that callers name.
type remoteTools struct {
	guard  *netguard.Guard   // keeps connections out of the operator's network
	client *mcpclient.Client // uses the guard
	loop   *toolloop.Loop    // uses the client
}

// newRemoteTools returns tools within the bounds of the configuration. local returns the address of our
// own MCP server. Calls of it do not leave the process: serve returns the handler for a call at a
// depth of nesting.
func newRemoteTools(c *config.Config, local func() string, serve func(depth int) http.Handler) *remoteTools {
	t := &remoteTools{guard: netguard.New(&netguard.Options{Allow: c.MCP.AllowHosts})}
	t.client = mcpclient.New(t.guard, &mcpclient.Options{CallTimeout: c.MCP.CallTimeout, MaxResult: c.MCP.MaxResult, LocalURL: local, Local: serve})
	t.loop = toolloop.New(t.client, &toolloop.Options{MaxServers: c.MCP.MaxServers, MaxTools: c.MCP.MaxTools, MaxRounds: c.MCP.MaxRounds})
	return t
}

// close waits until the sessions with MCP servers are closed, a few seconds at most, and then closes
// idle connections.
func (t *remoteTools) close() {
	t.client.Close()
	t.guard.Close()
}

// newMCPServer returns the MCP server, which offers the service as tools. It sends its requests to
// the handler that api returns.
func (a *App) newMCPServer(api func(depth int) http.Handler) *mcpserver.Server {
	return mcpserver.New(mcpserver.Sources{API: api, Usage: a.books.View(), Models: func() (*catalog.Catalog, *routing.Routes) {
		s := a.settings.Load()
		return s.Catalog, s.Routes
	}}, &mcpserver.Options{Log: a.log, Title: a.begun.ChosenBrand(), Tell: a.tellNodes(topicMCP)})
}
