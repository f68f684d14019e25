package config

import (
	"strings"
	"time"
)

func (r *record) checkMCP(m MCP) {
	for i, host := range m.AllowHosts {
		if path := index("mcp.allow_hosts", i); host == "" || strings.ContainsAny(host, "/@?#* \t\n") {
			r.fail(path, "%s is not a host; write a name or an address alone, such as tools.example.com", r.shown(path, host))
		}
	}
	for _, bound := range []struct {
		path              string
		value, least, top int
	}{
		{"mcp.max_servers", m.MaxServers, 1, 8},
		{"mcp.max_tools", m.MaxTools, 1, 128},
		{"mcp.max_rounds", m.MaxRounds, 1, 100},
		{"mcp.max_result", m.MaxResult, 1 << 10, 16 << 20},
	} {
		r.failIf(bound.value < bound.least || bound.value > bound.top, bound.path, "must be between %d and %d; got %d", bound.least, bound.top, bound.value)
	}
	r.failIf(m.CallTimeout < time.Second || m.CallTimeout > 10*time.Minute, "mcp.call_timeout", "must be between 1s and 10m; got %s", m.CallTimeout)
}
