// Package mcpserver is the service as an MCP server: what the HTTP API does, as tools for agents.
//
// A call of a tool becomes a request to that API with the caller's own key, so that checks, limits,
// books and errors are those of any other call. Requests come here once the door has found the caller.
// Nothing is kept between them: a session's name serves to cancel what runs under it, and any node
// answers any request.
package mcpserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/auth"
	"sluice/internal/buildinfo"
	"sluice/internal/catalog"
	"sluice/internal/fault"
	"sluice/internal/routing"
	"sluice/internal/usage"
)

// Sources is what the tools stand on.
type Sources struct {
	// API serves requests of calls that are nested so deep in calls of this server.
	API func(depth int) http.Handler
	// Usage is the books.
	Usage Books
	// Models is what is on offer, and how it is reached.
	Models func() (*catalog.Catalog, *routing.Routes)
}

// Books is what accounts have used.
type Books interface {
	UsageBy(ctx context.Context, q usage.Query) ([]usage.Row, error)
	RecentSettlements(ctx context.Context, accountID string, before usage.Point, limit int) ([]usage.Settlement, error)
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	Log   *slog.Logger     // default slog.Default()
	Title string           // what the service is called; default "Sluice"
	Now   func() time.Time // default time.Now
}

// Server answers MCP requests.
type Server struct {
	Sources
	log   *slog.Logger
	now   func() time.Time
	title string
	calls calls

	whole, streamed http.Handler // answer by one JSON message, and by a stream of events
}

// New returns a server over the sources.
func New(sources Sources, opts *Options) *Server {
	s := &Server{Sources: sources, log: slog.Default(), now: time.Now, title: "Sluice", calls: calls{running: map[call]*context.CancelFunc{}}}
	if opts != nil && opts.Log != nil {
		s.log = opts.Log
	}
	if opts != nil && opts.Now != nil {
		s.now = opts.Now
	}
	if opts != nil && opts.Title != "" {
		s.title = opts.Title
	}
	tools := s.tools()
	handler := func(whole bool) http.Handler {
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: whole, PropagateRequestCancellation: true, MaxRequestBodyBytes: -1,
			DisableLocalhostProtection: true, // the door has looked at Host and Origin
		})
	}
	s.whole, s.streamed = handler(true), handler(false)
	return s
}

// sessionHeader names a session. A name is made up at its beginning and believed ever after: it opens
// nothing, since every request brings its key.
const sessionHeader = "Mcp-Session-Id"

// Serve answers a POST or DELETE of the caller. Body is that of the request, which has been read. Depth is
// how many calls of this server the request is nested in. A returned fault means that nothing has been
// written.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, body []byte, caller auth.Caller, depth int) error {
	session := r.Header.Get(sessionHeader)
	if r.Method == http.MethodDelete {
		s.calls.end(caller.Account.ID, session)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	m, err := readMessage(body)
	if err != nil {
		return err
	}
	v := &visit{server: s, request: r, caller: caller, depth: depth, arguments: m.arguments, life: r.Context()}
	switch m.method {
	case "initialize":
		w.Header().Set(sessionHeader, rand.Text())
	case "notifications/cancelled":
		s.calls.cancel(call{caller.Account.ID, session, string(m.requestID)})
	case "tools/call":
		var end func()
		v.life, end = s.calls.begin(r.Context(), call{caller.Account.ID, session, string(m.id)})
		defer end()
	}
	handler := s.whole
	if m.progress && accepts(r, "text/event-stream") || !accepts(r, "application/json") {
		handler = s.streamed
		w.Header().Set("X-Accel-Buffering", "no")
	}
	reply := &reply{ResponseWriter: w}
	handler.ServeHTTP(reply, v.plain(m.envelope))
	return reply.refusal()
}

// accepts reports whether the client takes a reply of the kind. One that does not say takes any.
func accepts(r *http.Request, kind string) bool {
	accept := strings.Join(r.Header["Accept"], ",")
	main, _, _ := strings.Cut(kind, "/")
	return accept == "" || strings.Contains(accept, kind) || strings.Contains(accept, main+"/*") || strings.Contains(accept, "*/*")
}

// visit is one request and who makes it.
type visit struct {
	server  *Server
	request *http.Request
	caller  auth.Caller
	depth   int
	// arguments are those of the tool that is called, which the SDK does not get to see; nil: none.
	arguments json.RawMessage
	life      context.Context // ends when the client leaves or cancels its call
}

// visitKey finds a visit in a context: of all that a request brings, the SDK hands its headers and its
// context's values on to tools. A server of its own for every request would cost 0.7 MB and a
// millisecond each time.
type visitKey struct{}

// plain is the request as the SDK wants it: it insists on headers that we can do without.
func (v *visit) plain(body []byte) *http.Request {
	r := v.request.Clone(context.WithValue(v.request.Context(), visitKey{}, v))
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}

// tools makes the MCP server that the SDK knows.
func (s *Server) tools() *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "sluice", Title: s.title, Version: buildinfo.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	add := func(t *mcp.Tool, call func(*visit, context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)) {
		m.AddTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return call(ctx.Value(visitKey{}).(*visit), ctx, req)
		})
	}
	add(chatCompletion, (*visit).complete)
	add(listModels, (*visit).list)
	add(modelAnalytics, (*visit).analyze)
	m.AddReceivingMiddleware(s.guard)
	return m
}

// guard ends a call when its client goes, whatever the protocol's version, and makes a panic an error.
func (s *Server) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(ctx.Value(visitKey{}).(*visit).life, cancel)()
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("panic", "mcp_method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fault.From(nil).Message}
			}
		}()
		return next(ctx, method, req)
	}
}

// reply holds back the SDK's own refusals, which are plain text, so that they are told like all others.
type reply struct {
	http.ResponseWriter
	status int // of a refusal
	text   strings.Builder
}

// WriteHeader passes on all but plain refusals.
func (r *reply) WriteHeader(status int) {
	if status >= 400 && strings.HasPrefix(r.Header().Get("Content-Type"), "text/plain") {
		r.status = status
		return
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write passes on all but the text of a refusal.
func (r *reply) Write(p []byte) (int, error) {
	if r.status != 0 {
		return r.text.Write(p)
	}
	return r.ResponseWriter.Write(p)
}

// Flush sends what has been written on its way.
func (r *reply) Flush() {
	if f, ok := r.ResponseWriter.(http.Flusher); ok && r.status == 0 {
		f.Flush()
	}
}

// refusal is what was held back; nil: nothing.
func (r *reply) refusal() error {
	text := strings.TrimSpace(r.text.String())
	switch {
	case r.status == 0:
		return nil
	case r.status >= 500:
		return errors.New("mcp: " + text)
	}
	return fault.New(fault.Invalid, "This is not an MCP request that can be answered: %s.", strings.TrimSuffix(text, "."))
}
