package app

import (
	"net/http"

	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/mcpclient"
	"sluice/internal/mcpserver"
	"sluice/internal/netguard"
	"sluice/internal/routing"
	"sluice/internal/toolloop"
)

// remoteTools is what reaches the MCP servers that callers name.
type remoteTools struct {
	guard  *netguard.Guard
	client *mcpclient.Client
	loop   *toolloop.Loop
}

// newRemoteTools serves local, the address of our own MCP server, in process.
func newRemoteTools(c *config.Config, local string, serve func(depth int) http.Handler) *remoteTools {
	t := &remoteTools{guard: netguard.New(&netguard.Options{Allow: c.MCP.AllowHosts})}
	t.client = mcpclient.New(t.guard, &mcpclient.Options{CallTimeout: c.MCP.CallTimeout, MaxResult: c.MCP.MaxResult, LocalURL: local, Local: serve})
	t.loop = toolloop.New(t.client, &toolloop.Options{MaxServers: c.MCP.MaxServers, MaxTools: c.MCP.MaxTools, MaxRounds: c.MCP.MaxRounds})
	return t
}

// close waits for sessions to be closed, some seconds at most.
func (t *remoteTools) close() {
	t.client.Close()
	t.guard.Close()
}

// newMCPServer is the service as tools for agents; api serves its requests.
func (a *App) newMCPServer(api func(depth int) http.Handler) *mcpserver.Server {
	title := "" // its own
	if brand := a.settings.Load().config.Brand; brand != "service" {
		title = brand
	}
	return mcpserver.New(mcpserver.Sources{API: api, Usage: pageBooks{a.facts}, Models: func() (*catalog.Catalog, *routing.Routes) {
		s := a.settings.Load()
		return s.catalog, s.routes
	}}, &mcpserver.Options{Log: a.log, Title: title})
}
