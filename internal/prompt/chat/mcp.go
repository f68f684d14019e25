package chat

import (
	"net/url"
	"strconv"
	"strings"
)

// Bounds of one MCP tool. Without them one entry of tools could be as large as the whole body, and is
// sent to a server on every call. See docs/security.md#what-is-bounded.
const (
	maxServerURL    = 2048 // bytes
	maxAllowedTools = 1024
	maxHeaders      = 64
	maxHeaderValue  = 8192 // bytes
)

// mcpPlaces are the places of the members of an MCP tool. They are read once the type is known; the
// zero place is a member that the caller did not send.
type mcpPlaces struct {
	url, label, allowed, approval, headers, authorization place
}

// mcp reads the members of an MCP tool (docs/api.md#mcp-tools). Messages never repeat an address or a header's
// value: either may hold a secret. After a problem the result is incomplete; the caller checks failed.
//
// The tools of the server do not count toward the size of the prompt here: they are known only after the
// server has listed them.
func (p *parser) mcp(at mcpPlaces) *MCP {
	// The members were skipped while the type was not known; now each is revisited.
	m := &MCP{Never: &ToolFilter{}}
	end := p.pos
	if p.revisit(at.url) {
		m.ServerURL = p.serverURL()
		p.resume(end)
	}
	if m.ServerURL == "" {
		p.bad(".server_url", "is required: the address of the MCP server")
	}
	if p.revisit(at.label) {
		if !p.null() {
			if t, ok := p.text("a string"); ok {
				m.ServerLabel = p.unquoted(t)
			}
		}
		p.resume(end)
	}
	if p.revisit(at.allowed) {
		m.Allowed = p.allowedTools()
		p.resume(end)
	}
	if p.revisit(at.approval) {
		m.Always, m.Never = p.approval()
		p.resume(end)
	}
	if p.revisit(at.headers) {
		m.Headers = p.headers()
		p.resume(end)
	}
	if p.revisit(at.authorization) {
		m.authorize(p)
		p.resume(end)
	}
	return m
}

// serverURL reads server_url. It returns an empty string for null and after a problem. It checks only
// the form. Whether the address may be reached is decided when the connection is made, because a name
// can resolve to another address by then.
func (p *parser) serverURL() string {
	address := p.requiredText()
	if address == "" {
		return ""
	}
	if len(address) > maxServerURL {
		p.bad("", "must be at most %d bytes long; got %d", maxServerURL, len(address))
		return ""
	}
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		p.bad("", "must be an absolute URL that begins with https:// or http://")
		return ""
	case u.User != nil:
		p.bad("", "must not hold a user name or password; send credentials in headers")
		return ""
	}
	// url.Parse accepts any digits as a port; the dialer would fail later, with a worse message.
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			p.bad("", "must have a port between 1 and 65535")
			return ""
		}
	}
	return address
}

// authorize reads authorization, a token that the server gets as a bearer.
func (m *MCP) authorize(p *parser) {
	if p.null() {
		return
	}
	for name := range m.Headers {
		if strings.EqualFold(name, "Authorization") {
			p.skip()
			p.bad("", "and the header Authorization cannot both be given")
			return
		}
	}
	if token := p.headerValue(); token != "" {
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers["Authorization"] = "Bearer " + token
	}
}

// allowedTools reads allowed_tools, a list of names or a filter. For null it returns nil, which allows all tools; for
// an empty array a filter that allows none.
func (p *parser) allowedTools() *ToolFilter {
	const want = "an array of strings, or an object with tool_names or read_only"
	switch {
	case p.null():
		return nil
	case p.peek() == '{':
		return p.toolFilter(want)
	}
	return &ToolFilter{Names: p.toolNames(want)}
}

// toolNames reads the names of tools. The result is nil only after a problem: an empty list chooses no tool.
func (p *parser) toolNames(want string) []string {
	if !p.array(want) {
		return nil
	}
	names := []string{}
	for p.element() {
		if p.index() == maxAllowedTools {
			p.bad("", "is one too many: at most %d names are possible", maxAllowedTools)
			return nil
		}
		if t, ok := p.text("a string"); ok {
			names = append(names, p.unquoted(t))
		}
	}
	return names
}

// toolFilter reads a filter as OpenAI has it. One without conditions chooses all tools.
func (p *parser) toolFilter(want string) *ToolFilter {
	f := &ToolFilter{}
	if !p.object(want) {
		return f
	}
	for p.member() {
		switch string(p.key) {
		case "tool_names":
			if !p.null() {
				f.Names = p.toolNames("an array of strings")
			}
		case "read_only":
			if !p.null() {
				value := p.boolean()
				f.ReadOnly = &value
			}
		default:
			// A condition that is not understood must not be left out: more tools would be chosen than the caller wants.
			p.skip()
			p.bad("", "is not known here; use tool_names or read_only")
		}
	}
	return f
}

// approval reads require_approval: "never", which is also the default, "always", or an object with a filter for either.
func (p *parser) approval() (always, never *ToolFilter) {
	const want = `"never", "always", or an object with filters of these names`
	if p.null() {
		return nil, &ToolFilter{}
	}
	if p.peek() == '{' {
		return p.approvalFilters(want)
	}
	t, ok := p.text(want)
	if !ok {
		return nil, nil
	}
	switch string(p.word(t)) {
	case "never":
		return nil, &ToolFilter{}
	case "always":
		return &ToolFilter{}, nil
	}
	p.bad("", "must be "+want+"; got %s", describe(p.body[t.from:t.to]))
	return nil, nil
}

func (p *parser) approvalFilters(want string) (always, never *ToolFilter) {
	if !p.object(want) {
		return nil, nil
	}
	for p.member() {
		const filter = "an object with tool_names or read_only"
		switch {
		case string(p.key) == "always" && !p.null():
			always = p.toolFilter(filter)
		case string(p.key) == "never" && !p.null():
			never = p.toolFilter(filter)
		case string(p.key) != "always" && string(p.key) != "never":
			p.skip()
			p.bad("", "is not known here; use always or never")
		}
	}
	return always, never
}

// headers reads the headers for the MCP server, under the names that the caller wrote. It refuses
// headers that would let the caller change how we frame or route the request. It returns nil for null
// and after a problem.
func (p *parser) headers() map[string]string {
	if p.null() || !p.object("an object of strings") {
		return nil
	}
	headers := make(map[string]string)
	names := make(map[string]bool) // in lower case, because HTTP ignores case
	for p.member() {
		name := string(p.key)
		lower := strings.ToLower(name)
		switch {
		case !isHeaderName(name):
			p.bad("", "is not a valid header name")
		case isConnectionHeader(lower):
			p.bad("", "is set by the connection itself and cannot be given")
		case isProtocolHeader(lower):
			p.bad("", "belongs to the MCP protocol, which sets it itself; leave it out")
		case names[lower]:
			p.bad("", "is given twice: header names are the same in upper and lower case")
		case len(headers) == maxHeaders:
			p.bad("", "is one too many: headers may hold at most %d", maxHeaders)
		}
		if p.failed() {
			return nil
		}
		names[lower] = true
		headers[name] = p.headerValue()
	}
	return headers
}

// headerValue reads the value of a header. It refuses control characters: a line break would start
// another header.
func (p *parser) headerValue() string {
	// The general message would repeat the value, which may be a secret with its quotes forgotten.
	if p.peek() != '"' {
		p.skip()
		p.bad("", "must be a string")
		return ""
	}
	t, ok := p.quoted()
	if !ok {
		return ""
	}
	value := p.unquoted(t)
	if len(value) > maxHeaderValue {
		p.bad("", "must be at most %d bytes long; got %d", maxHeaderValue, len(value))
		return ""
	}
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			p.bad("", "must not hold line breaks or other control characters")
			return ""
		}
	}
	return value
}

// isHeaderName reports whether name is a token as HTTP defines it (RFC 9110, section 5.6.2).
func isHeaderName(name string) bool {
	for _, c := range []byte(name) {
		if !isWord(c) && strings.IndexByte("!#$%&'*+-.^`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// isConnectionHeader reports whether a header, in lower case, is about the connection or the framing
// of the body. Those are ours to set: a second Content-Length or Transfer-Encoding would let a caller
// smuggle a request of their own to the tool server, and Host would change which site is asked.
func isConnectionHeader(name string) bool {
	switch name {
	case "connection", "content-encoding", "content-length", "expect", "host", "http2-settings", "keep-alive",
		"proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
		"transfer-encoding", "upgrade":
		return true
	}
	return false
}

// isProtocolHeader reports whether a header, in lower case, ties requests to an MCP session. Other
// headers that the protocol sets, such as Accept, need no check: ours replace the caller's.
func isProtocolHeader(name string) bool {
	return name == "last-event-id" || strings.HasPrefix(name, "mcp-")
}
