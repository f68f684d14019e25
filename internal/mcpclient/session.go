package mcpclient

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/buildinfo"
)

// session is a connection that the server has agreed to.
type session struct {
	*mcp.ClientSession
	wire *wire
	end  context.CancelFunc // of everything that it still does
}

// initialized is the newest protocol version that begins with initialize, as nearly every server's
// does. Asking first in the way of later versions would cost all those a round trip.
const initialized = "2025-11-25"

// connect makes a session: by streamable HTTP, or else by HTTP+SSE.
func (s *Server) connect(ctx context.Context) (*session, error) {
	made, err := s.attempt(ctx, func(c *http.Client) mcp.Transport { return s.streamable(c) }, initialized)
	if spoken(err) != nil { // it speaks MCP, but knows no initialize
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
		return nil, err // what the newer transport said counts
	}
	return older, nil
}

// mayBeOlder reports whether a server that refuses a POST so may speak HTTP+SSE: it has nothing there
// that takes one.
func mayBeOlder(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

func (s *Server) streamable(c *http.Client) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: s.url.String(), HTTPClient: c, DisableStandaloneSSE: true, MaxRetries: -1}
}

// attempt makes a session over one transport. The session outlives ctx, which bounds only its making.
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
	// No capability is offered, so requests for sampling, elicitation or roots are refused.
	m := mcp.NewClient(&mcp.Implementation{Name: "sluice", Version: buildinfo.Version}, &mcp.ClientOptions{
		Logger: slog.New(slog.DiscardHandler), Capabilities: &mcp.ClientCapabilities{}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	made, err := m.Connect(life, transport(client), &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err == nil && !unbind() { // ctx ended while it was made
		s.client.part(&session{made, w, end})
		return nil, ended(ctx)
	}
	if err != nil {
		end()
		return nil, w.explain(ctx, err)
	}
	return &session{made, w, end}, nil
}

// partingTime bounds how long a server may take to let a session go.
const partingTime = 5 * time.Second

// close tells the server that the session is over, and ends whatever it still does.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	defer context.AfterFunc(ctx, s.end)()
	s.wire.settle(ctx)
	_ = s.ClientSession.Close() // nobody is left who could do something about it
	s.end()
}
