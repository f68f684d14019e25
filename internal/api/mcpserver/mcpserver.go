// Package mcpserver offers the service as an MCP server: the HTTP API as tools for agents.
//
// A tool call becomes a request to that API with the caller's own key, so the same checks, limits,
// accounting and errors apply as for any other call. Requests arrive here after authentication.
// Nothing is kept between them: a session id only serves to cancel the calls that run under it, and
// any node can answer any request. A node that is asked to cancel a call that it does not run tells
// the others.
package mcpserver

import (
	"bytes"
	"cmp"
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

	"sluice/internal/account/auth"
	"sluice/internal/api/httpserver"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

// Sources is what the tools are built on.
type Sources struct {
	// API returns the handler for requests of calls that are nested this deep in calls of this
	// server.
	API func(depth int) http.Handler
	// Usage reads what accounts have used.
	Usage UsageReader
	// Models returns the current catalog and how its models are reached.
	Models func() (*catalog.Catalog, *routing.Routes)
}

// UsageReader reads the usage of accounts.
type UsageReader interface {
	UsageBy(ctx context.Context, q usage.Query) ([]usage.Row, error)
	RecentSettlements(ctx context.Context, accountID string, before usage.Point, limit int) ([]usage.Settlement, error)
}

// Options are the optional settings of New. The zero value is the default.
type Options struct {
	Log   *slog.Logger     // default slog.Default()
	Title string           // the service's name; default "Sluice"
	Now   func() time.Time // default time.Now
	// Tell passes what is to be canceled to the other nodes, which hand it to Told. It must return
	// within seconds. Default: there are none.
	Tell func(ctx context.Context, payload string) error
}

// Server answers MCP requests. It is safe for concurrent use.
type Server struct {
	Sources
	log   *slog.Logger
	now   func() time.Time
	title string
	calls calls
	// others passes a message to the other nodes; nil if there are none.
	others func(ctx context.Context, payload string) error

	// whole answers with one JSON message, streamed with an event stream.
	whole, streamed http.Handler
}

// New returns a server. A nil opts means the defaults.
func New(sources Sources, opts *Options) *Server {
	if opts == nil {
		opts = &Options{}
	}
	s := &Server{
		Sources: sources, log: cmp.Or(opts.Log, slog.Default()), now: opts.Now, title: cmp.Or(opts.Title, "Sluice"), others: opts.Tell,
		calls: calls{running: map[call]*context.CancelFunc{}},
	}
	if s.now == nil {
		s.now = time.Now
	}
	// One MCP server serves all requests; see visitKey. The body is bounded before Serve is called.
	tools := s.tools()
	handler := func(whole bool) http.Handler {
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: whole, PropagateRequestCancellation: true, MaxRequestBodyBytes: -1,
			DisableLocalhostProtection: true, // the front end has already checked Host and Origin
		})
	}
	s.whole, s.streamed = handler(true), handler(false)
	return s
}

// sessionHeader carries the session id. We make it up at the start and accept any value afterwards:
// it grants nothing, since every request brings its key.
const sessionHeader = "Mcp-Session-Id"

// Serve answers a POST or DELETE of the caller. Body is the request's body, which has already been
// read. Depth is how many calls of this server the request is nested in. If Serve returns an error,
// nothing has been written, and the caller of Serve writes the error reply.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, body []byte, caller auth.Caller, depth int) error {
	session := r.Header.Get(sessionHeader)
	if r.Method == http.MethodDelete {
		// A client deletes its session when it ends. Cancel what still runs under it.
		s.end(r.Context(), caller.Account.ID, session)
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
		// The client sends this id with all of its later requests.
		w.Header().Set(sessionHeader, rand.Text())
	case "notifications/cancelled":
		// The account is part of the name, so nobody can cancel the calls of others.
		s.cancel(r.Context(), call{caller.Account.ID, session, string(m.requestID)})
	case "tools/call":
		var end func()
		// From here on, the call can be canceled by its id.
		v.life, end = s.calls.begin(r.Context(), call{caller.Account.ID, session, string(m.id)})
		defer end()
	}
	// Stream if the client wants progress and can read a stream, or if it accepts nothing else.
	handler := s.whole
	if m.progress && accepts(r, "text/event-stream") || !accepts(r, "application/json") {
		handler = s.streamed
		// nginx would otherwise buffer the stream and defeat its purpose.
		w.Header().Set("X-Accel-Buffering", "no")
	}
	reply := &httpserver.Held{ResponseWriter: w, PlainOnly: true}
	handler.ServeHTTP(reply, v.plain(m.envelope))
	return refusal(reply)
}

// accepts reports whether the client accepts a reply of the given media type. A missing header
// accepts any.
func accepts(r *http.Request, kind string) bool {
	accept := strings.Join(r.Header["Accept"], ",")
	main, _, _ := strings.Cut(kind, "/")
	return accept == "" || strings.Contains(accept, kind) || strings.Contains(accept, main+"/*") || strings.Contains(accept, "*/*")
}

// visit is one request and its caller.
type visit struct {
	server  *Server
	request *http.Request
	caller  auth.Caller
	depth   int
	// arguments are the arguments of the tool that is called, or nil. The SDK does not see them;
	// see readMessage.
	arguments json.RawMessage
	life      context.Context // ends when the client leaves or cancels its call
}

// visitKey is the context key of the visit. The SDK passes only headers and context values of a
// request on to tools. The alternative, an SDK server for each request, would cost 0.7 MB and a
// millisecond each time.
type visitKey struct{}

// plain returns the request in the form that the SDK requires: it insists on headers that we do not
// need.
func (v *visit) plain(body []byte) *http.Request {
	// The SDK reads the envelope, not the body: the arguments are replaced by {}.
	// Its context never ends: the SDK would answer nothing then, although the caller of a server that is stopping
	// can still be told. The guard ends the work on it, see life.
	r := v.request.Clone(context.WithValue(context.WithoutCancel(v.request.Context()), visitKey{}, v))
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}

// tools builds the SDK's server with all tools. Every tool finds its visit in the context.
func (s *Server) tools() *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "sluice", Title: s.title, Version: buildinfo.Version()}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	// add registers a tool whose function is a method of visit.
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

// guard is middleware that cancels a call when its client leaves, whatever the protocol version,
// and turns a panic into an error.
func (s *Server) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		// The context is detached from the request's; life restores the link. The cause tells a client that has
		// left from a server that is stopping.
		life := ctx.Value(visitKey{}).(*visit).life
		defer context.AfterFunc(life, func() { cancel(context.Cause(life)) })()
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("panic", "mcp_method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fault.From(nil).Message}
			}
		}()
		return next(ctx, method, req)
	}
}

// refusal returns the SDK's own error reply as a fault, or nil if there is none. A 5xx of the SDK is a bug
// and is reported as one.
func refusal(r *httpserver.Held) error {
	text := strings.TrimSpace(r.Text.String())
	switch {
	case r.Status == 0:
		return nil
	case r.Status >= 500:
		return errors.New("mcp: " + text)
	}
	return fault.New(fault.Invalid, "This is not an MCP request that can be answered: %s.", strings.TrimSuffix(text, "."))
}
