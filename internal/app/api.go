package app

import (
	"context"
	"net/http"

	"sluice/internal/auth"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/continuation"
	"sluice/internal/httpapi"
	"sluice/internal/idempotency"
	"sluice/internal/inference"
	"sluice/internal/mcpclient"
	"sluice/internal/mcpserver"
	"sluice/internal/netguard"
	"sluice/internal/routing"
	"sluice/internal/toolloop"
)

// openAPI opens the front door: the API, the pages beside it and the MCP server, which calls the API in process.
func (a *App) openAPI(_ context.Context, cfg *config.Config) error {
	store := a.facts.store
	replies := &idempotency.Options{}
	if a.opts.Idempotency != nil {
		*replies = *a.opts.Idempotency
	}
	replies.Key = store.Key()
	nested := func(depth int) http.Handler { return a.api.Nested(depth) }
	a.tools = newRemoteTools(cfg, a.Origin()+"/mcp", nested)
	line := inference.New(a.gate, a.pulse, &inference.Options{
		States: continuation.New(store, &continuation.Options{Key: store.Key()}), Tools: a.tools.loop, Patience: a.opts.Patience,
	})
	a.api = httpapi.New(auth.New(a.facts.index, cfg.Brand), line, a.settings.Load().HTTP(), &httpapi.Options{
		Log: a.log, Metrics: a.metrics, Ledger: a.ledger, Abuse: a.abuse, Replies: idempotency.New(store, a.log, replies), Videos: a.videos,
		Changes: store.CatalogChanges,
		Pages:   a.pages(cfg), MCP: a.newMCPServer(nested).Serve,
		Checks: []httpapi.Check{
			{Name: "database", Run: store.Ping},
			{Name: "journal", Run: func(context.Context) error { return a.books.Ready() }, Note: a.books.BacklogNote},
		},
	})
	return nil
}

// remoteTools reaches the MCP servers that callers name.
type remoteTools struct {
	guard  *netguard.Guard
	client *mcpclient.Client
	loop   *toolloop.Loop
}

// newRemoteTools returns tools that serve local, the address of our own MCP server, in process.
func newRemoteTools(c *config.Config, local string, serve func(depth int) http.Handler) *remoteTools {
	t := &remoteTools{guard: netguard.New(&netguard.Options{Allow: c.MCP.AllowHosts})}
	t.client = mcpclient.New(t.guard, &mcpclient.Options{CallTimeout: c.MCP.CallTimeout, MaxResult: c.MCP.MaxResult, LocalURL: local, Local: serve})
	t.loop = toolloop.New(t.client, &toolloop.Options{MaxServers: c.MCP.MaxServers, MaxTools: c.MCP.MaxTools, MaxRounds: c.MCP.MaxRounds})
	return t
}

// close waits some seconds at most for sessions to be closed.
func (t *remoteTools) close() {
	t.client.Close()
	t.guard.Close()
}

// newMCPServer returns the service as tools for agents. Api serves its requests.
func (a *App) newMCPServer(api func(depth int) http.Handler) *mcpserver.Server {
	title := "" // its own
	if brand := a.settings.Load().Config.Brand; brand != "service" {
		title = brand
	}
	return mcpserver.New(mcpserver.Sources{API: api, Usage: a.books.View(), Models: func() (*catalog.Catalog, *routing.Routes) {
		s := a.settings.Load()
		return s.Catalog, s.Routes
	}}, &mcpserver.Options{Log: a.log, Title: title})
}
