package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolServer is an MCP server with the tool echo on this machine; reached counts its requests.
func toolServer(t *testing.T) (address string, reached *atomic.Int64) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "fake", Version: "1"}, nil)
	type input struct {
		Message string `json:"message"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Echo: " + in.Message}}}, nil, nil
	})
	reached = &atomic.Int64{}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		for session := range s.Sessions() { // of a client that was cut off before it could end it
			_ = session.Close()
		}
	})
	return server.URL, reached
}

const echoRequest = `{"model":"sandbox/small","messages":[{"role":"user","content":"Call the echo tool with message \"hello\""}],"tools":[{"type":"mcp","server_label":"Fake","server_url":%q}]}`

// What the operator allows is reached, and its tools are used.
func TestRemoteTools(t *testing.T) {
	t.Parallel()
	address, _ := toolServer(t)
	n := newSite(t, "mcp: {allow_hosts: [127.0.0.1]}\n").start(t)
	defer n.stop() // before the server, which holds a session of ours
	r := n.request("POST", "/v1/chat/completions", n.OwnerKey(), fmt.Sprintf(echoRequest, address))
	var reply struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if err := json.Unmarshal([]byte(r.body), &reply); err != nil || r.status != 200 || !strings.Contains(reply.Choices[0].Message.Content, "Echo: hello") {
		t.Errorf("POST = %d %s, want the echo", r.status, r.body)
	}
	if got := r.header.Get("X-Sluice-Mcp-Calls"); got != "1" {
		t.Errorf("x-sluice-mcp-calls = %q, want 1", got)
	}
}

// What nobody allowed is refused before a connection is made.
func TestRemoteToolsRefused(t *testing.T) {
	t.Parallel()
	address, reached := toolServer(t)
	n := newSite(t, "mcp: {allow_hosts: [tools.internal]}\n").start(t)
	r := n.request("POST", "/v1/chat/completions", n.OwnerKey(), fmt.Sprintf(echoRequest, address))
	if r.status != 400 || !strings.Contains(r.body, `The MCP server \"Fake\" cannot be used: its address is not a public one.`) || !strings.Contains(r.body, `"param":"tools[0].server_url"`) {
		t.Errorf("POST = %d %s, want a 400 that names the server", r.status, r.body)
	}
	if got := r.header.Get("X-Ratelimit-Remaining-Requests"); got == "" || reached.Load() != 0 {
		t.Errorf("%q requests remain, and the server was reached %d times, want 0", got, reached.Load())
	}
}
