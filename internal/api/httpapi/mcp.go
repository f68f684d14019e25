package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// mcpPath is the path of our own MCP server.
const mcpPath = "/mcp"

// maxMCPBody limits a message. Only the arguments of a tool may be that large; see package
// mcpserver.
const maxMCPBody = 8 << 20

// mcpCopies is how often a message is charged to its account: while it is decoded, the arguments of the tool are a
// second copy of it.
const mcpCopies = 2

// serveMCP serves POST and DELETE /mcp. The caller has been authenticated; the message itself
// is left to package mcpserver.
func (a *API) serveMCP(x *exchange, r *http.Request) error {
	if a.opts.MCP == nil {
		return nothingAt(r)
	}
	x.mcp = true
	if err := x.checkSource(r); err != nil {
		return err
	}
	r = r.Clone(r.Context())
	r.RemoteAddr = x.event.Remote
	if r.Method != http.MethodPost {
		return a.opts.MCP(x, r, nil, x.caller, x.depth)
	}
	body, release, err := a.readBody(x, r, maxMCPBody, mcpCopies)
	if err != nil {
		return err
	}
	defer release()
	return a.opts.MCP(x, r, body, x.caller, x.depth)
}

// checkSource refuses requests that a web page may have sent from somebody's browser without
// their knowledge: requests from an origin that is not allowed, and requests that reach this
// machine under a foreign name (DNS rebinding). The MCP specification requires both checks.
func (x *exchange) checkSource(r *http.Request) error {
	s := x.settings
	if origin := r.Header.Get("Origin"); origin != "" && !slices.Contains(s.CORSOrigins, "*") && !slices.Contains(s.CORSOrigins, origin) && origin != s.PublicURL {
		return fault.New(fault.Forbidden, "Requests from pages of %s are not accepted. The operator can allow them with cors_origins.", excerpt.Of(origin, maxEcho))
	}
	_, host, _ := strings.Cut(s.PublicURL, "://")
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok && isLoopback(local.String()) && !isLoopback(r.Host) && r.Host != host {
		return fault.New(fault.Forbidden, "This server does not answer for the host %q. The operator can name its address with public_url.", excerpt.Of(r.Host, maxEcho))
	}
	return nil
}

// isLoopback reports whether a host, with or without a port, is this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
