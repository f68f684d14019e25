package mcpclient

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/kit/buildinfo"
)

// session is an initialized connection to a server.
type session struct {
	*mcp.ClientSession
	wire *wire
	end  context.CancelFunc // cancels everything the session still does
}

// initialized is the newest protocol version that starts with an initialize request, as nearly
// every server expects. Trying the later handshake first would cost all of them a round trip.
const initialized = "2025-11-25"

// hinted is the first protocol version whose lists say for how long they may be cached.
const hinted = "2026-07-28"

// hints reports whether the session's protocol version is one with such lists.
func (s *session) hints() bool {
	agreed := s.InitializeResult()
	return agreed != nil && agreed.ProtocolVersion >= hinted
}

// connect makes a session over streamable HTTP, or else over HTTP+SSE.
func (s *Server) connect(ctx context.Context) (*session, error) {
	made, err := s.attempt(ctx, func(c *http.Client) mcp.Transport { return s.streamable(c) }, initialized)
	if spoken(err) != nil { // it speaks MCP but does not know initialize: a later version
		made, err = s.attempt(ctx, func(c *http.Client) mcp.Transport { return s.streamable(c) }, "")
	}
	var refused *Failure
	if s.local != nil || !errors.As(err, &refused) || !mayBeOlder(refused.Status) || ctx.Err() != nil {
		return made, err
	}
	older, olderErr := s.attempt(ctx, func(c *http.Client) mcp.Transport {
		return &mcp.SSEClientTransport{Endpoint: s.url.String(), HTTPClient: c}
	}, initialized)
	if olderErr != nil {
		return nil, err // report the error of the newer transport
	}
	return older, nil
}

// mayBeOlder reports whether a server that refuses a POST with this status may speak HTTP+SSE
// instead: the status says that nothing there accepts a POST.
func mayBeOlder(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// streamable returns the transport for streamable HTTP. The standing stream for messages that
// nobody asked for is disabled, because nothing here reads them; retries are left to the caller.
func (s *Server) streamable(c *http.Client) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: s.url.String(), HTTPClient: c, DisableStandaloneSSE: true, MaxRetries: -1}
}

// attempt makes a session over one transport. The session outlives ctx, which only limits the time
// to make it: life takes over its values, and ctx cancels life until unbind is called.
func (s *Server) attempt(ctx context.Context, transport func(*http.Client) mcp.Transport, version string) (*session, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	unbind := context.AfterFunc(ctx, end)
	w := newWire(life, s)
	client := &http.Client{}
	if s.local != nil {
		w.next = &inProcess{handler: s.local, header: s.header, serving: &s.client.parting}
	} else {
		client = s.client.guard.Client(s.url, s.header)
		w.next = client.Transport
	}
	client.Transport = w
	// No capability is offered, so the server's requests for sampling, elicitation or roots are
	// refused.
	m := mcp.NewClient(&mcp.Implementation{Name: "sluice", Version: buildinfo.Version()}, &mcp.ClientOptions{
		Logger: slog.New(slog.DiscardHandler), Capabilities: &mcp.ClientCapabilities{}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	made, err := m.Connect(life, transport(client), &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err == nil && !unbind() { // ctx ended at the last moment, and life with it
		s.client.part(&session{made, w, end})
		return nil, ended(ctx)
	}
	if err != nil {
		end()
		return nil, w.explain(ctx, err)
	}
	return &session{made, w, end}, nil
}

// partingTime is how long closing a session may take.
const partingTime = 5 * time.Second

// close tells the server that the session is over and cancels whatever the session still does.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	// Cancel everything when the time is up, even if Close below still waits for the server.
	defer context.AfterFunc(ctx, s.end)()
	s.wire.settle(ctx)
	_ = s.ClientSession.Close() // nobody is left who could act on an error
	s.end()
}
