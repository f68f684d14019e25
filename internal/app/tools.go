package app

import (
	"sluice/internal/config"
	"sluice/internal/mcpclient"
	"sluice/internal/netguard"
	"sluice/internal/toolloop"
)

// remoteTools is what reaches the MCP servers that callers name.
type remoteTools struct {
	guard  *netguard.Guard
	client *mcpclient.Client
	loop   *toolloop.Loop
}

func newRemoteTools(c *config.Config) *remoteTools {
	t := &remoteTools{guard: netguard.New(&netguard.Options{Allow: c.MCP.AllowHosts})}
	t.client = mcpclient.New(t.guard, &mcpclient.Options{CallTimeout: c.MCP.CallTimeout, MaxResult: c.MCP.MaxResult})
	t.loop = toolloop.New(t.client, &toolloop.Options{MaxServers: c.MCP.MaxServers, MaxTools: c.MCP.MaxTools, MaxRounds: c.MCP.MaxRounds})
	return t
}

// close waits for sessions to be closed, some seconds at most.
func (t *remoteTools) close() {
	t.client.Close()
	t.guard.Close()
}
