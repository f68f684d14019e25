package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// books is a store of usage with fixed answers.
type books struct {
	rows    []usage.Row
	recent  []usage.Settlement
	err     error
	queries []usage.Query
}

func (b *books) UsageBy(_ context.Context, q usage.Query) ([]usage.Row, error) {
	b.queries = append(b.queries, q)
	return b.rows, b.err
}

func (b *books) RecentSettlements(_ context.Context, _ string, _ usage.Point, _ int) ([]usage.Settlement, error) {
	if b.recent == nil && b.err == nil {
		panic("the books are on fire")
	}
	return b.recent, b.err
}

// newServer returns a server over a handler that stands for the HTTP API.
func newServer(t *testing.T, api http.HandlerFunc, b UsageReader, opts *Options) *Server {
	t.Helper()
	c, err := catalog.New([]catalog.Model{{ID: "m/one", Plan: account.Free, Provider: "gone"}, {ID: "service/auto", Plan: account.Basic, Router: true}})
	if err != nil {
		t.Fatal(err)
	}
	routes := routing.New(c, nil, nil)
	if opts == nil {
		opts = &Options{}
	}
	opts.Log = slog.New(slog.DiscardHandler)
	return New(Sources{
		API: func(depth int) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Depth", fmt.Sprint(depth))
				api(w, r)
			})
		},
		Usage: b, Models: func() (*catalog.Catalog, *routing.Routes) { return c, routes },
	}, opts)
}

// listen serves s on this machine; the key is the account's id.
func listen(t *testing.T, s *Server) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := auth.Caller{Account: &account.Account{ID: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = s.Serve(w, r, body, caller, 1)
		}
		if err != nil {
			http.Error(w, err.Error(), fault.From(err).Kind.Status())
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// connect returns a session of the official client. An empty version means the newest protocol
// version.
func connect(t *testing.T, url, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	transport := &http.Transport{}
	s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: withKey{transport, "acct_1"}}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("Connect = %v", err)
	}
	t.Cleanup(func() {
		_ = s.Close() // some tests close it themselves
		transport.CloseIdleConnections()
	})
	return s
}

type withKey struct {
	next http.RoundTripper
	key  string
}

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return k.next.RoundTrip(r)
}

const whole = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m/one","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`

// said is the text of a result.
func said(r *mcp.CallToolResult) string {
	if len(r.Content) != 1 {
		return ""
	}
	text, _ := r.Content[0].(*mcp.TextContent)
	return text.Text
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every tool has schemas of objects and says what it does to the world.
func TestTools(t *testing.T) {
	t.Parallel()
	s := connect(t, listen(t, newServer(t, nil, &books{}, nil)), "2025-06-18", nil)
	got := map[string]string{}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatalf("ListTools = %v", err)
	}
	for _, tool := range list.Tools {
		for name, schema := range map[string]any{"input": tool.InputSchema, "output": tool.OutputSchema} {
			if m, ok := schema.(map[string]any); !ok || m["type"] != "object" || len(m["properties"].(map[string]any)) == 0 {
				t.Errorf("%s: the %s schema = %v, want one of an object", tool.Name, name, schema)
			}
		}
		if tool.Description == "" || tool.Title == "" {
			t.Errorf("%s has the title %q and the description %q, want both", tool.Name, tool.Title, tool.Description)
		}
		got[tool.Name] = encode(t, tool.Annotations)
	}
	readOnly := `{"destructiveHint":false,"idempotentHint":true,"openWorldHint":false,"readOnlyHint":true}`
	want := map[string]string{
		"chat_completion": `{"destructiveHint":false,"idempotentHint":false,"openWorldHint":true,"readOnlyHint":false}`,
		"list_models":     readOnly, "model_analytics": readOnly,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ListTools: -want +got\n%s", diff)
	}
}

// A tool's call is a request to the API with the caller's key.
func TestCalls(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		for _, tt := range []struct {
			tool, arguments string
			method, target  string
			body            string
		}{
			{"chat_completion", `{"model":"m/one","stream":true,"stream_options":{},"messages":[]}`, "POST", "/v1/chat/completions", `{"model":"m/one","messages":[]}`},
			{"chat_completion", `{}`, "POST", "/v1/chat/completions", `{}`},
			{"chat_completion", `null`, "POST", "/v1/chat/completions", `{}`},
			{"list_models", `{}`, "GET", "/v1/models", ""},
			{"list_models", `{"verbose":true}`, "GET", "/v1/models?format=verbose", ""},
		} {
			t.Run(version+" "+tt.tool, func(t *testing.T) {
				t.Parallel()
				var seen []string
				s := connect(t, listen(t, newServer(t, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					seen = append(seen, r.Method, r.RequestURI, r.Header.Get("Authorization"), string(body), w.Header().Get("Depth"))
					_, _ = io.WriteString(w, whole)
				}, &books{}, nil)), version, nil)
				got, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool, Arguments: json.RawMessage(tt.arguments)})
				if err != nil || got.IsError || said(got) != whole || encode(t, got.StructuredContent) != encode(t, json.RawMessage(sorted(t, whole))) {
					t.Errorf("CallTool(%s) = %s, %v, want the API's answer", tt.tool, encode(t, got), err)
				}
				if diff := cmp.Diff([]string{tt.method, tt.target, "Bearer acct_1", tt.body, "1"}, seen); diff != "" {
					t.Errorf("CallTool(%s) asked: -want +got\n%s", tt.tool, diff)
				}
			})
		}
	}
}

// sorted is the object with its members in order.
func sorted(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return encode(t, v)
}

// An error of the API becomes an error of the tool, with the same message.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, tool, arguments string
		api                   http.HandlerFunc
		want, meta            string
	}{
		{
			"limited", "chat_completion", `{}`,
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After-Ms", "1500")
				w.WriteHeader(429)
				_, _ = io.WriteString(w, `{"error":{"message":"Wait a moment.","type":"rate_limit_error","code":429}}`)
			},
			"Wait a moment.", `{"error":{"code":429,"message":"Wait a moment.","type":"rate_limit_error"},"retry_after_ms":1500}`,
		},
		{
			"cut", "list_models", `{}`, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"The reply broke off.", `{"error":{"code":503,"message":"The reply broke off.","type":"service_unavailable"}}`,
		},
		{
			"arguments", "chat_completion", `[]`, nil,
			"The arguments do not fit the tool's input schema.", `{"error":{"code":400,"message":"The arguments do not fit the tool's input schema.","type":"invalid_request_error"}}`,
		},
		{
			"window", "model_analytics", `{"window":"2h"}`, nil,
			`window must be "1h", "6h", "24h", "7d" or "30d".`, `{"error":{"code":400,"message":"window must be \"1h\", \"6h\", \"24h\", \"7d\" or \"30d\".","param":"window","type":"invalid_request_error"}}`,
		},
		{
			"books", "model_analytics", `{}`, nil,
			"The database is away.", `{"error":{"code":503,"message":"The database is away.","type":"service_unavailable"}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := connect(t, listen(t, newServer(t, tt.api, &books{err: fault.New(fault.Unavailable, "The database is away.")}, nil)), "2025-06-18", nil)
			got, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool, Arguments: json.RawMessage(tt.arguments)})
			if err != nil || !got.IsError || said(got) != tt.want || got.StructuredContent != nil || encode(t, got.Meta) != tt.meta {
				t.Errorf("CallTool(%s) = %s, %v, want the error %q with %s", tt.tool, encode(t, got), err, tt.want, tt.meta)
			}
		})
	}
}

// A panic is an error of the one call.
func TestPanic(t *testing.T) {
	t.Parallel()
	s := connect(t, listen(t, newServer(t, func(http.ResponseWriter, *http.Request) { panic("on fire") }, &books{}, nil)), "2025-06-18", nil)
	for _, tool := range []string{"model_analytics", "list_models"} {
		got, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(`{}`)})
		if err == nil || !strings.Contains(err.Error(), "Something went wrong on our side.") {
			t.Errorf("CallTool(%s) = %v, %v, want an error that tells nothing", tool, got, err)
		}
	}
}

// A body that is not an MCP message is refused in the API's own format. Messages of older versions
// are accepted.
func TestMessages(t *testing.T) {
	t.Parallel()
	url := listen(t, newServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, whole) }, &books{}, nil))
	for _, tt := range []struct {
		body, version, accept string
		status                int
		want                  string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "", "", 200, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "", "text/event-stream", 200, "event: message\ndata: " + `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`, "2025-03-26", "", 400, "Send them one by one."},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", "", 202, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}}}`, "2026-07-28", "", 200, `"resultType":"complete"`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "2020-01-01", "", 400, "This is not an MCP request that can be answered: Bad Request: Unsupported protocol version"},
		{`{"jsonrpc":"2.0"`, "", "", 400, "This is not an MCP request that can be answered: it is malformed JSON."},
		{``, "", "", 400, "This is not an MCP request that can be answered: it is malformed JSON."},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer acct_1")
		r.Header.Set("Mcp-Method", "subscriptions/listen")
		if tt.version != "" {
			r.Header.Set("Mcp-Protocol-Version", tt.version)
		}
		if tt.accept != "" {
			r.Header.Set("Accept", tt.accept)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || !strings.Contains(string(got), tt.want) {
			t.Errorf("POST %s (%s) = %d %s, want %d %s", tt.body, tt.version, resp.StatusCode, got, tt.status, tt.want)
		}
	}
}

// A call ends when its client hangs up, cancels it, or ends its session; also if another node is told.
func TestCancel(t *testing.T) {
	t.Parallel()
	type ways struct {
		cancel context.CancelFunc
		post   func(key, session, body string)
		delete func(key, session string)
	}
	const canceled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`
	for name, end := range map[string]func(w ways){
		"hang up": func(w ways) { w.cancel() },
		"notification": func(w ways) {
			w.post("acct_2", "s", fmt.Sprintf(canceled, `"a"`)) // these three mean other calls
			w.post("acct_1", "t", fmt.Sprintf(canceled, `"a"`))
			w.post("acct_1", "s", fmt.Sprintf(canceled, `7`))
			w.post("acct_1", "s", fmt.Sprintf(canceled, `"a"`))
		},
		"end of the session": func(w ways) { w.delete("acct_2", "s"); w.delete("acct_1", "s") },
	} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, elsewhere %t", name, elsewhere), func(t *testing.T) {
				t.Parallel()
				begun, ended := make(chan struct{}), make(chan struct{})
				server := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
					close(begun)
					<-r.Context().Done()
					close(ended)
				}, &books{}, nil)
				url := listen(t, server)
				told := url // where the messages arrive that end the call
				if elsewhere {
					told = listen(t, newServer(t, nil, &books{}, &Options{Tell: func(_ context.Context, payload string) error {
						server.Told(payload)
						return nil
					}}))
				}
				client := &http.Client{Transport: &http.Transport{}}
				t.Cleanup(client.CloseIdleConnections)
				send := func(ctx context.Context, url, method, key, session, body string) {
					r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					r.Header.Set("Authorization", "Bearer "+key)
					r.Header.Set("Mcp-Session-Id", session)
					if resp, err := client.Do(r); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var calling sync.WaitGroup
				calling.Go(func() {
					send(ctx, url, http.MethodPost, "acct_1", "s", `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"chat_completion","arguments":{}}}`)
				})
				<-begun
				end(ways{
					cancel: cancel,
					post:   func(key, session, body string) { send(t.Context(), told, http.MethodPost, key, session, body) },
					delete: func(key, session string) { send(t.Context(), told, http.MethodDelete, key, session, "") },
				})
				<-ended
				calling.Wait()
				server.calls.mu.Lock()
				defer server.calls.mu.Unlock()
				if name != "hang up" && len(server.calls.running) != 0 {
					t.Errorf("%d calls are still known, want none", len(server.calls.running))
				}
			})
		}
	}
}

// Other nodes are told of what does not run here, with the account, and of nothing else.
func TestTell(t *testing.T) {
	t.Parallel()
	var told []string
	s := newServer(t, nil, &books{}, &Options{Tell: func(_ context.Context, payload string) error {
		told = append(told, payload)
		return errors.New("nobody listens") // which is only logged
	}})
	here := call{"acct_1", "s", "1"}
	ctx, end := s.calls.begin(t.Context(), here)
	defer end()
	s.cancel(t.Context(), here)
	s.cancel(t.Context(), call{"acct_1", "", "1"})
	s.cancel(t.Context(), call{"acct_1", "s", ""})
	if len(told) != 0 || ctx.Err() == nil {
		t.Errorf("told %q of a call that runs here and of calls without a name, want nothing; %v", told, ctx.Err())
	}
	s.cancel(t.Context(), call{"acct_1", "s", `"x"`})
	s.end(t.Context(), "acct_2", "t")
	want := []string{`{"account":"acct_1","session":"s","id":"\"x\""}`, `{"account":"acct_2","session":"t"}`}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	for _, odd := range []string{"", "x", "{}", "[1]", `{"account":1}`} {
		s.Told(odd)
	}
}

// Messages that name another call do not end this one.
func TestCancelOthers(t *testing.T) {
	t.Parallel()
	c := calls{running: map[call]*context.CancelFunc{}}
	mine := call{"acct_1", "s", "1"}
	ctx, end := c.begin(t.Context(), mine)
	defer end()
	nameless, endNameless := c.begin(t.Context(), call{"acct_1", "", "1"})
	defer endNameless()
	for _, other := range []call{{"acct_2", "s", "1"}, {"acct_1", "t", "1"}, {"acct_1", "s", "2"}, {"acct_1", "", "1"}} {
		c.cancel(other)
		if other.session != mine.session || other.account != mine.account {
			c.end(other.account, other.session)
		}
	}
	if ctx.Err() != nil || nameless.Err() != nil {
		t.Errorf("cancel of other calls ended this one: %v, %v", ctx.Err(), nameless.Err())
	}
	c.cancel(mine)
	if ctx.Err() == nil {
		t.Error("cancel did not end the call")
	}
}
