package oracles

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"

	"sluice/internal/testkit/porttest"
)

// everything is the reference MCP server, which has one of everything, behind a door that notes who
// comes.
type everything struct {
	url  string // of its MCP endpoint, through the door
	mu   sync.Mutex
	seen []*http.Request
}

// startEverything runs the server with a transport, "streamableHttp" or "sse".
func startEverything(t *testing.T, transport string) *everything {
	t.Helper()
	program, err := node()
	if err != nil {
		t.Skipf("needs Node: %v", err)
	}
	path := map[string]string{"streamableHttp": "/mcp", "sse": "/sse"}[transport]
	for range 3 { // somebody else may take the port before the server does
		if port, ok := runEverything(t, program, transport); ok {
			e := &everything{}
			target, _ := url.Parse("http://127.0.0.1:" + port)
			proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
			door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				e.mu.Lock()
				e.seen = append(e.seen, r.Clone(context.WithoutCancel(r.Context())))
				e.mu.Unlock()
				proxy.ServeHTTP(w, r)
			}))
			t.Cleanup(func() { door.CloseClientConnections(); door.Close() })
			e.url = door.URL + path
			return e
		}
	}
	t.Fatal("the MCP server did not start")
	return nil
}

// runEverything starts the server on a free port and waits until it listens.
func runEverything(t *testing.T, program, transport string) (port string, ok bool) {
	t.Helper()
	// A port that is only found to be free may be somebody else's when the server wants it, and then the wait
	// below would find that one.
	held, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(held.Release)
	port = strconv.Itoa(held.Number)
	cmd := exec.Command(program, filepath.Join("node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"), transport)
	cmd.Dir, cmd.Env = "node", append(os.Environ(), "PORT="+port)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		select {
		case <-ended:
			t.Logf("the MCP server ended:\n%s", out.Bytes())
			return "", false
		case <-time.After(20 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			conn.Close()
			return port, true
		}
	}
	return "", false
}

// requests are those that came with the method; "" for all.
func (e *everything) requests(method string) (all []*http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.seen {
		if method == "" || r.Method == method {
			all = append(all, r)
		}
	}
	return all
}

// tool is the server as an entry of tools, with further members.
func (e *everything) tool(label string, more map[string]any) openai.ChatCompletionToolUnionParam {
	entry := map[string]any{"type": "mcp", "server_url": e.url, "server_label": label}
	for name, value := range more {
		entry[name] = value
	}
	raw, _ := json.Marshal(entry)
	return param.Override[openai.ChatCompletionToolUnionParam](json.RawMessage(raw))
}

const allowLocal = "mcp: {allow_hosts: [127.0.0.1]}\n"

// TestMCP has models use the tools of the reference server over both transports, streamed and not.
func TestMCP(t *testing.T) {
	t.Parallel()
	modern, older := startEverything(t, "streamableHttp"), startEverything(t, "sse")
	g := startGateway(t, allowLocal)
	one := modern.tool("One", map[string]any{"headers": map[string]string{"X-Team": "blue"}})
	two := older.tool("Two", map[string]any{"headers": map[string]string{"X-Team": "red"}})
	for _, tt := range []struct {
		name, text string
		tools      []openai.ChatCompletionToolUnionParam
		choice     string
		want       []string
	}{
		{"streamable", `Call the echo tool with message "hello"`, tools(one), "", []string{"one__echo", "Echo: hello"}},
		{"sse", `Call the echo tool with message "hello"`, tools(two), "", []string{"two__echo", "Echo: hello"}},
		{"numbers", "Use the get-sum tool with a 2 and b 3", tools(one), "", []string{"The sum of 2 and 3 is 5"}},
		{"two servers", `[[sandbox:call=one__echo {"message":"x"}]][[sandbox:call=two__get-sum {"a":1,"b":2}]]`, tools(one, two), "", []string{"Echo: x", "The sum of 1 and 2 is 3"}},
		{"structured", `[[sandbox:call=get-structured-content {"location":"Chicago"}]]`, tools(two), "", []string{"Light rain", "temperature 36"}},
		{"image", "[[sandbox:call=get-tiny-image]]", tools(one), "", []string{"an image of", "which the model cannot see"}},
		{"resource", `[[sandbox:call=get-resource-links {"count":2}]]`, tools(one), "", []string{"[resource demo://"}},
		{"a tool that fails", `[[sandbox:call=get-sum {"a":"x","b":1}]]`, tools(one), "", []string{"Error: "}},
		{"forced", `Please say "hi"`, tools(one), "echo", []string{"Echo: hi"}},
		{"none", `Call the echo tool with message "hello"`, tools(one), "none", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, g, g.owner)
			p := params(small, tt.text)
			p.Tools, p.ToolChoice = tt.tools, choice(tt.choice)
			whole, err := c.Chat.Completions.New(soon(t), p)
			if err != nil {
				t.Fatalf("New = %v", err)
			}
			got := whole.Choices[0]
			for _, want := range tt.want {
				if !strings.Contains(got.Message.Content, want) {
					t.Errorf("New = %q, want %q in it", got.Message.Content, want)
				}
			}
			if got.FinishReason != "stop" || len(got.Message.ToolCalls) != 0 || tt.want == nil && strings.Contains(got.Message.Content, "Echo:") {
				t.Errorf("New = %s, want a final answer", whole.RawJSON())
			}
			s := follow(t, c, withUsage(p))
			if s.err != nil || s.content != got.Message.Content || s.finish != "stop" || s.Usage.TotalTokens != whole.Usage.TotalTokens {
				t.Errorf("streamed: %q, %s, %d tokens, %v, want the same: %q, %d tokens", s.content, s.finish, s.Usage.TotalTokens, s.err, got.Message.Content, whole.Usage.TotalTokens)
			}
		})
	}
	t.Cleanup(func() {
		for team, e := range map[string]*everything{"blue": modern, "red": older} {
			if len(e.requests("")) == 0 {
				t.Errorf("nobody came with the header of team %s", team)
			}
			for _, r := range e.requests("") {
				if r.Header.Get("X-Team") != team || r.Header.Get("Authorization") != "" {
					t.Errorf("%s %s came with %v, want the caller's header and no key of ours", r.Method, r.URL.Path, r.Header)
				}
			}
		}
	})
}

func tools(all ...openai.ChatCompletionToolUnionParam) []openai.ChatCompletionToolUnionParam {
	return all
}

// TestMCPFilter offers the model only what allowed_tools names.
func TestMCPFilter(t *testing.T) {
	t.Parallel()
	e := startEverything(t, "streamableHttp")
	g := startGateway(t, allowLocal)
	c := newClient(t, g, g.owner)
	p := params(small, "[[sandbox:call=get-sum {\"a\":1,\"b\":2}]]")
	p.Tools = tools(e.tool("one", map[string]any{"allowed_tools": []string{"echo", "unheard"}}))
	reply, err := c.Chat.Completions.New(soon(t), p)
	if err != nil || strings.Contains(reply.Choices[0].Message.Content, "sum of") || len(reply.Choices[0].Message.ToolCalls) > 0 {
		t.Errorf("New = %v, %v, want an answer without the tool, which is not there", reply, err)
	}
	p = params(small, `[[sandbox:call=echo {"message":"x"}]]`)
	p.Tools = tools(e.tool("one", map[string]any{"allowed_tools": map[string]any{"tool_names": []string{"echo"}}}))
	reply, err = c.Chat.Completions.New(soon(t), p)
	if err != nil || !strings.Contains(reply.Choices[0].Message.Content, "Echo: x") {
		t.Errorf("New = %v, want the echo", err)
	}
}

// TestMCPMixed has a turn with tools of both kinds, and a restart before its second request; then a
// tool that waits for approval.
func TestMCPMixed(t *testing.T) {
	t.Parallel()
	e := startEverything(t, "streamableHttp")
	dir := t.TempDir()
	g, stop := startGatewayIn(t, dir, allowLocal)
	owner := g.owner
	restart := func() *client {
		stop()
		g, stop = startGatewayIn(t, dir, allowLocal)
		return newClient(t, g, owner)
	}
	c := newClient(t, g, owner)
	weather := cityTool("get_weather", "Get the weather")

	p := params(small, `[[sandbox:call=echo {"message":"kept"}]][[sandbox:call=get_weather {"city":"Paris"}]]`)
	p.Tools = tools(e.tool("one", nil), weather)
	first, err := c.Chat.Completions.New(soon(t), p)
	if err != nil || told(first.Choices[0].Message.ToolCalls) != `get_weather {"city":"Paris"}` || first.Choices[0].FinishReason != "tool_calls" {
		t.Fatalf("New = %v, %v, want the call of the function alone", first, err)
	}
	p.Messages = append(p.Messages, first.Choices[0].Message.ToParam(), openai.ToolMessage("18 degrees", first.Choices[0].Message.ToolCalls[0].ID))
	c = restart()
	for range 2 { // streamed and not
		second, err := c.Chat.Completions.New(soon(t), p)
		if err != nil {
			t.Fatalf("New = %v", err)
		}
		got := second.Choices[0].Message.Content
		if !strings.Contains(got, "Echo: kept") || !strings.Contains(got, "18 degrees") {
			t.Errorf("the follow-up = %q, want both results", got)
		}
		if s := follow(t, c, p); s.err != nil || s.content != got {
			t.Errorf("streamed: %q, %v, want %q", s.content, s.err, got)
		}
	}

	for decision, want := range map[string]string{`{"approve":true}`: "Echo: careful", `{"approve":false}`: "not approved", "never mind": "never mind"} {
		p := params(small, `[[sandbox:call=echo {"message":"careful"}]]`)
		p.Tools = tools(e.tool("one", map[string]any{"require_approval": "always"}))
		s := follow(t, c, p)
		if s.err != nil || s.finish != "tool_calls" || len(s.Choices[0].Message.ToolCalls) != 1 || s.Choices[0].Message.ToolCalls[0].Function.Name != "one__echo" {
			t.Fatalf("streamed: %+v, %v, want the call handed out", s.Choices, s.err)
		}
		p.Messages = append(p.Messages, s.Choices[0].Message.ToParam(), openai.ToolMessage(decision, s.Choices[0].Message.ToolCalls[0].ID))
		c = restart()
		reply, err := c.Chat.Completions.New(soon(t), p)
		if err != nil || !strings.Contains(reply.Choices[0].Message.Content, want) {
			t.Errorf("after %s: %v, %v, want %q", decision, reply, err, want)
		}
	}
	stop()
	opened := 0
	for _, r := range e.requests(http.MethodPost) {
		if r.Header.Get("Mcp-Session-Id") == "" {
			opened++
		}
	}
	if closed := len(e.requests(http.MethodDelete)); closed != opened || opened == 0 {
		t.Errorf("%d sessions were opened and %d closed, want all", opened, closed)
	}
}

// TestMCPAccounting holds headers and records against what was called.
func TestMCPAccounting(t *testing.T) {
	t.Parallel()
	e := startEverything(t, "streamableHttp")
	g := startGateway(t, allowLocal)
	body := func(stream bool) string {
		return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"[[sandbox:call=echo {\"message\":\"a\"}]][[sandbox:call=get-sum {\"a\":1,\"b\":1}]]"}],"tools":[{"type":"mcp","server_url":%q}]}`, small, stream, e.url)
	}
	for _, stream := range []bool{false, true} {
		req, err := http.NewRequestWithContext(soon(t), http.MethodPost, g.url+"/chat/completions", strings.NewReader(body(stream)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+g.owner)
		resp, err := (&http.Client{Transport: newClient(t, g, "").transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		_, _ = text.ReadFrom(resp.Body)
		resp.Body.Close()
		got := resp.Header
		if stream {
			got = resp.Trailer
		}
		if resp.StatusCode != 200 || got.Get("X-Sluice-Mcp-Calls") != "2" {
			t.Errorf("stream %t: %d, headers %v, trailers %v, want two calls counted\n%s", stream, resp.StatusCode, resp.Header, resp.Trailer, text.Bytes())
		}
	}
}
