package mcpclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"sluice/internal/kit/netguard"
	"sluice/internal/upstream/mcpclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient returns a client that may connect to this machine.
func newClient(t *testing.T, opts *mcpclient.Options) *mcpclient.Client {
	t.Helper()
	g := netguard.New(&netguard.Options{Allow: []string{"127.0.0.1"}})
	c := mcpclient.New(g, opts)
	t.Cleanup(func() { c.Close(); g.Close() })
	return c
}

func server(t *testing.T, c *mcpclient.Client, address string, headers map[string]string) *mcpclient.Server {
	t.Helper()
	s, err := c.Server(address, headers, 0)
	if err != nil {
		t.Fatalf("Server(%q) = %v", address, err)
	}
	t.Cleanup(s.Close)
	return s
}

// site serves a handler and records the requests.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request // without their bodies
}

func serve(t *testing.T, h http.Handler) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Clone(context.WithoutCancel(r.Context())))
		s.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// requests returns the requests with the given method, or all for an empty method.
func (s *site) requests(method string) (all []*http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if method == "" || r.Method == method {
			all = append(all, r)
		}
	}
	return all
}

type echoInput struct {
	Message string `json:"message"`
}

// newServer returns a well-behaved server with the tool echo and the given number of other tools.
func newServer(more int) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "fake", Version: "1"}, &mcp.ServerOptions{PageSize: 10})
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Says the message again."}, func(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
		if in.Message == "fail" {
			return nil, nil, fmt.Errorf("the echo broke")
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Echo: " + in.Message}}}, nil, nil
	})
	for i := range more {
		mcp.AddTool(s, &mcp.Tool{Name: fmt.Sprintf("more_%d", i)}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
	}
	return s
}

func streamable(s *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
}

// script answers JSON-RPC methods with prepared replies, for servers that misbehave. Methods
// without a prepared reply are answered correctly.
type script map[string]func(w http.ResponseWriter, r *http.Request, id json.RawMessage)

func (s script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &call)
	switch act := s[call.Method]; {
	case act != nil && call.Method == "": // an answer to a request of the server's
		act(w, r, raw)
	case act != nil:
		act(w, r, call.ID)
	case call.Method == "initialize":
		s.initialize(w, call.ID)
	case call.Method == "tools/list":
		reply(w, call.ID, `{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}`)
	case call.Method == "tools/call":
		reply(w, call.ID, `{"content":[{"type":"text","text":"done"}]}`)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// initialize answers initialize.
func (script) initialize(w http.ResponseWriter, id json.RawMessage) {
	w.Header().Set("Mcp-Session-Id", "session-1")
	reply(w, id, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}`)
}

func reply(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// hang holds a request until the client gives up.
func hang(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() }

// eventually waits for something that happens in the background.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	const patience = time.Minute
	for deadline := time.After(patience); !ok(); {
		select {
		case <-deadline:
			t.Fatalf("%s did not happen within %v", what, patience)
		case <-time.After(time.Millisecond):
		}
	}
}

func names(tools []mcpclient.Tool) string {
	var all []string
	for _, t := range tools {
		all = append(all, t.Name)
	}
	return strings.Join(all, " ")
}
