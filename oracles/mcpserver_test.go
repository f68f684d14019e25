package oracles

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mcpNode finds Node, and the tools for MCP servers.
func mcpNode(t *testing.T) string {
	t.Helper()
	program, err := node()
	if err != nil {
		t.Skipf("needs Node: %v", err)
	}
	for _, name := range []string{"@modelcontextprotocol/conformance", "@modelcontextprotocol/inspector"} {
		if _, err := os.Stat(filepath.Join("node", "node_modules", filepath.FromSlash(name))); err != nil {
			t.Skipf("needs Node: the package %s is not installed; run npm install --no-save in oracles/node", name)
		}
	}
	return program
}

// mcpTool runs a program of the packages, below oracles/node, and returns what it prints.
func mcpTool(t *testing.T, program, script string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{filepath.Join("node_modules", "@modelcontextprotocol", filepath.FromSlash(script))}, args...)...)
	cmd.Dir, cmd.Env = "node", append(os.Environ(), "HOME="+t.TempDir())
	cmd.WaitDelay = 5 * time.Second
	var errText bytes.Buffer
	cmd.Stderr = &errText
	out, err := cmd.Output()
	if err != nil {
		out = append(out, errText.Bytes()...)
	}
	return out, err
}

// suiteTools are tools that the conformance suite calls on every server, as calls of ours.
var suiteTools = map[string]string{
	"test_simple_text":        `{"model":"sandbox/small","messages":[{"role":"user","content":"Hello"}]}`,
	"test_error_handling":     `{"model":"sandbox/small","messages":[]}`,
	"test_tool_with_progress": `{"model":"sandbox/small","messages":[{"role":"user","content":"[[sandbox:tokens=30]] [[sandbox:chunk_delay=20ms]]"}]}`,
}

// suiteDoor is the MCP server for the conformance suite, which knows of no keys: requests get one here.
// Calls of the suite's tools become calls of ours; all else passes as it is.
func suiteDoor(t *testing.T, g *gateway) string {
	t.Helper()
	target, err := url.Parse(strings.TrimSuffix(g.url, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+g.owner)
	}}
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var call struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Method  string          `json:"method"`
			Params  struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
				Meta      json.RawMessage `json:"_meta,omitempty"`
			} `json:"params"`
		}
		if json.Unmarshal(body, &call) == nil && suiteTools[call.Params.Name] != "" {
			call.Params.Name, call.Params.Arguments = "chat_completion", json.RawMessage(suiteTools[call.Params.Name])
			if body, err = json.Marshal(call); err != nil {
				t.Error(err)
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { door.CloseClientConnections(); door.Close() })
	return door.URL + "/mcp"
}

// TestMCPServerConformance runs the official suite against our MCP server. Exactly the scenarios in
// node/conformance.yaml may fail, and must.
func TestMCPServerConformance(t *testing.T) {
	t.Parallel()
	program := mcpNode(t)
	if _, err := os.ReadFile(filepath.Join("node", "conformance.yaml")); err != nil { // so that the go command knows when a cached result is out of date
		t.Fatal(err)
	}
	out, err := mcpTool(t, program, "conformance/dist/index.js", "server", "--url", suiteDoor(t, startGateway(t, "")), "--suite", "all",
		"--expected-failures", "conformance.yaml", "--output-dir", t.TempDir())
	_, summary, _ := strings.Cut(string(out), "=== SUMMARY ===")
	if err != nil {
		t.Fatalf("conformance = %v\n%s", err, summary)
	}
	for _, name := range []string{
		"server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress",
		"server-sse-multiple-streams", "dns-rebinding-protection", "logging-set-level", "resources-list", "prompts-list",
	} {
		if !strings.Contains(summary, "✓ "+name+": ") || strings.Contains(summary, "✓ "+name+": 0 passed") {
			t.Errorf("%s did not pass\n%s", name, summary)
		}
	}
}

// TestInspector uses our MCP server with the command line of the MCP inspector.
func TestInspector(t *testing.T) {
	t.Parallel()
	program := mcpNode(t)
	g := startGateway(t, "")
	for _, tt := range []struct {
		name, key string
		args      []string
		want      []string
		fails     bool
	}{
		{"list", g.owner, []string{"--method", "tools/list", "--strict"}, []string{`"chat_completion"`, `"list_models"`, `"model_analytics"`, `"outputSchema"`, `"readOnlyHint"`}, false},
		{"models", g.owner, []string{"--method", "tools/call", "--tool-name", "list_models"}, []string{`"structuredContent"`, `"service/auto"`}, false},
		{
			"chat", g.owner,
			[]string{"--method", "tools/call", "--tool-name", "chat_completion", "--tool-arg", "model=sandbox/small", `messages=[{"role":"user","content":"Hello"}]`},
			[]string{`"chat.completion"`, `"finish_reason": "stop"`},
			false,
		},
		{"suspended", g.suspended(t), []string{"--method", "tools/list"}, []string{"This account is suspended."}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{strings.TrimSuffix(g.url, "/v1") + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + tt.key}, tt.args...)
			out, err := mcpTool(t, program, "inspector/clients/cli/build/index.js", args...)
			if (err != nil) != tt.fails {
				t.Errorf("inspector %q = %v\n%s", tt.args, err, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("inspector %q = %s, want %s in it", tt.args, out, want)
				}
			}
		})
	}
}
