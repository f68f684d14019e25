package chat

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Bounds of one MCP tool. Without them one entry of tools could be as large as the whole body, and is
// sent to a server on every call. See docs/bounds.md#what-is-bounded.
const (
	maxServerURL    = 2048 // bytes
	maxAllowedTools = 1024
	maxHeaders      = 64
	maxHeaderValue  = 8192 // bytes
)

// mcpReader reads an MCP server (docs/api.md#mcp-tools). Messages never repeat an address or a header's value: either may
// hold a secret.
//
// It reads Values and not the scanner, because the doors of other dialects have MCP servers as
// well and give the same members under other names; see ServerTool.
type mcpReader struct {
	sub, problem string // the path, within the entry, of the first thing that is wrong, and what; empty if nothing is
}

// bad refuses the value that sub leads to. Only the first problem counts.
func (r *mcpReader) bad(sub, format string, args ...any) {
	if r.problem == "" {
		r.sub, r.problem = sub, fmt.Sprintf(format, args...)
	}
}

// is reports whether a value is of the kind that begins with c, and refuses it if not. Only texts are repeated in messages.
func (r *mcpReader) is(sub string, v Value, c byte, want string) bool {
	switch {
	case v.Kind() == c:
		return true
	case c == '"':
		r.bad(sub, "must be %s; got %s", want, describe(v.raw))
	default:
		r.bad(sub, "must be %s; got %s", want, typeName(v.Kind()))
	}
	return false
}

// boolean reads true or false.
func (r *mcpReader) boolean(sub string, v Value) bool {
	if !v.IsBool() {
		r.bad(sub, "must be a boolean; got %s", describe(v.raw))
	}
	return v.Kind() == 't'
}

// server reads the members of an entry; one that is null counts as not there. After a problem the result is incomplete.
//
// The tools of the server do not count toward the size of the prompt here: they are known only after the server has listed
// them.
func (r *mcpReader) server(member func(name string) Value) *MCP {
	m := &MCP{Never: &ToolFilter{}}
	if m.ServerURL = r.url(".server_url", member("server_url")); m.ServerURL == "" {
		r.bad(".server_url", "is required: the address of the MCP server")
	}
	if v := member("server_label"); v.Exists() && r.is(".server_label", v, '"', "a string") {
		m.ServerLabel = v.Text()
	}
	if v := member("allowed_tools"); v.Exists() {
		m.Allowed = r.allowed(".allowed_tools", v)
	}
	if v := member("require_approval"); v.Exists() {
		m.Always, m.Never = r.approval(".require_approval", v)
	}
	if v := member("headers"); v.Exists() && r.is(".headers", v, '{', "an object of strings") {
		m.Headers = r.headers(".headers", v)
	}
	if v := member("authorization"); v.Exists() {
		r.authorize(".authorization", v, m)
	}
	return m
}

// url reads server_url. It checks only the form. Whether the address may be reached is decided when the connection is
// made, because a name can resolve to another address by then.
func (r *mcpReader) url(sub string, v Value) string {
	if !v.Exists() || !r.is(sub, v, '"', "a string") {
		return ""
	}
	address := v.Text()
	switch {
	case address == "":
		r.bad(sub, "must not be empty")
	case len(address) > maxServerURL:
		r.bad(sub, "must be at most %d bytes long; got %d", maxServerURL, len(address))
	}
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		r.bad(sub, "must be an absolute URL that begins with https:// or http://")
		return ""
	case u.User != nil:
		r.bad(sub, "must not hold a user name or password; send credentials in headers")
	}
	// url.Parse accepts any digits as a port; the dialer would fail later, with a worse message.
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			r.bad(sub, "must have a port between 1 and 65535")
		}
	}
	return address
}

// authorize reads authorization, a token that the server gets as a bearer.
func (r *mcpReader) authorize(sub string, v Value, m *MCP) {
	for name := range m.Headers {
		if strings.EqualFold(name, "Authorization") {
			r.bad(sub, "and the header Authorization cannot both be given")
			return
		}
	}
	if token := r.headerValue(sub, v); token != "" {
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers["Authorization"] = "Bearer " + token
	}
}

// allowed reads allowed_tools, a list of names or a filter. An empty list allows none.
func (r *mcpReader) allowed(sub string, v Value) *ToolFilter {
	const want = "an array of strings, or an object with tool_names or read_only"
	if v.Kind() == '{' {
		return r.filter(sub, v, want)
	}
	return &ToolFilter{Names: r.names(sub, v, want)}
}

// names reads the names of tools. The result is nil only after a problem: an empty list chooses no tool.
func (r *mcpReader) names(sub string, v Value, want string) []string {
	if !r.is(sub, v, '[', want) {
		return nil
	}
	names := []string{}
	for w := v.Walk(); w.Next() && r.problem == ""; {
		at := sub + "[" + strconv.Itoa(w.Index) + "]"
		if w.Index == maxAllowedTools {
			r.bad(at, "is one too many: at most %d names are possible", maxAllowedTools)
		}
		if r.is(at, w.Value, '"', "a string") {
			names = append(names, w.Value.Text())
		}
	}
	return names
}

// filter reads a filter as OpenAI has it. One without conditions chooses all tools.
func (r *mcpReader) filter(sub string, v Value, want string) *ToolFilter {
	f := &ToolFilter{}
	if !r.is(sub, v, '{', want) {
		return f
	}
	for w := v.Walk(); w.Next(); {
		at := sub + keyPath(string(w.Key))
		switch string(w.Key) {
		case "tool_names":
			if !w.Value.Null() {
				f.Names = r.names(at, w.Value, "an array of strings")
			}
		case "read_only":
			if !w.Value.Null() {
				value := r.boolean(at, w.Value)
				f.ReadOnly = &value
			}
		default:
			// A condition that is not understood must not be left out: more tools would be chosen than the caller wants.
			r.bad(at, "is not known here; use tool_names or read_only")
		}
	}
	return f
}

// approval reads require_approval: "never", which is also the default, "always", or an object with a filter for either.
func (r *mcpReader) approval(sub string, v Value) (always, never *ToolFilter) {
	const want = `"never", "always", or an object with filters of these names`
	switch {
	case v.Kind() == '{':
		return r.approvalFilters(sub, v)
	case v.Is("never"):
		return nil, &ToolFilter{}
	case v.Is("always"):
		return &ToolFilter{}, nil
	}
	r.bad(sub, "must be %s; got %s", want, describe(v.raw))
	return nil, nil
}

// approvalFilters reads the object form of require_approval. A filter that is absent or null is
// nil.
func (r *mcpReader) approvalFilters(sub string, v Value) (always, never *ToolFilter) {
	const want = "an object with tool_names or read_only"
	for w := v.Walk(); w.Next(); {
		at := sub + keyPath(string(w.Key))
		switch name := string(w.Key); {
		case name != "always" && name != "never":
			r.bad(at, "is not known here; use always or never")
		case w.Value.Null():
		case name == "always":
			always = r.filter(at, w.Value, want)
		default:
			never = r.filter(at, w.Value, want)
		}
	}
	return always, never
}

// headers reads the headers for the MCP server, under the names that the caller wrote. It refuses headers that would let
// the caller change how we frame or route the request.
func (r *mcpReader) headers(sub string, v Value) map[string]string {
	headers := make(map[string]string)
	names := make(map[string]bool) // in lower case, because HTTP ignores case
	for w := v.Walk(); w.Next(); {
		name := string(w.Key)
		at, lower := sub+keyPath(name), strings.ToLower(name)
		switch {
		case !isHeaderName(name):
			r.bad(at, "is not a valid header name")
		case isConnectionHeader(lower):
			r.bad(at, "is set by the connection itself and cannot be given")
		case isProtocolHeader(lower):
			r.bad(at, "belongs to the MCP protocol, which sets it itself; leave it out")
		case names[lower]:
			r.bad(at, "is given twice: header names are the same in upper and lower case")
		case len(headers) == maxHeaders:
			r.bad(at, "is one too many: headers may hold at most %d", maxHeaders)
		}
		if r.problem != "" {
			return nil
		}
		names[lower] = true
		headers[name] = r.headerValue(at, w.Value)
	}
	return headers
}

// headerValue reads the value of a header. It refuses control characters: a line break would start another header.
func (r *mcpReader) headerValue(sub string, v Value) string {
	// The general message would repeat the value, which may be a secret with its quotes forgotten.
	if !v.IsText() {
		r.bad(sub, "must be a string")
		return ""
	}
	value := v.Text()
	if len(value) > maxHeaderValue {
		r.bad(sub, "must be at most %d bytes long; got %d", maxHeaderValue, len(value))
	}
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			r.bad(sub, "must not hold line breaks or other control characters")
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
