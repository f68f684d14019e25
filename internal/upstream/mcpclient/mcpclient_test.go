package mcpclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/testkit/porttest"
	"sluice/internal/upstream/mcpclient"
)

// Both transports discover and call, and the caller's headers are on every request.
func TestTransports(t *testing.T) {
	t.Parallel()
	good := newServer(25)
	for name, h := range map[string]http.Handler{
		"streamable": streamable(good),
		"json":       mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return good }, &mcp.StreamableHTTPOptions{JSONResponse: true}),
		"stateless":  mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return good }, &mcp.StreamableHTTPOptions{Stateless: true}),
		"sse":        mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return good }, nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := serve(t, h)
			c := newClient(t, nil)
			s := server(t, c, at.URL, map[string]string{"authorization": "Bearer theirs", "X-Team": "blue"})
			tools, err := s.Tools(t.Context())
			if err != nil || len(tools) != 26 || tools[0].Name != "echo" || !bytes.Contains(tools[0].Schema, []byte(`"message"`)) {
				t.Fatalf("Tools = %s, %v, want echo and 25 more", names(tools), err)
			}
			for message, want := range map[string]mcpclient.Result{"hi": {Text: "Echo: hi"}, "fail": {Text: "the echo broke", IsError: true}} {
				got, err := s.Call(t.Context(), "echo", json.RawMessage(`{"message":"`+message+`"}`))
				if err != nil || got.Text != want.Text || got.IsError != want.IsError {
					t.Errorf("Call(echo, %s) = %+v, %v, want %+v", message, got, err, want)
				}
			}
			if _, err := s.Call(t.Context(), "nothing", json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), "nothing") {
				t.Errorf("Call(nothing) = %v, want a failure that names the tool", err)
			}
			s.Close()
			c.Close()
			for _, r := range at.requests("") {
				if r.Header.Get("Authorization") != "Bearer theirs" || r.Header.Get("X-Team") != "blue" {
					t.Errorf("%s %s came with %v, want the caller's headers", r.Method, r.URL, r.Header)
				}
				if agent := r.UserAgent(); !strings.HasPrefix(agent, "sluice/") {
					t.Errorf("%s %s came from %q, want our name", r.Method, r.URL, agent)
				}
			}
			if name == "streamable" || name == "json" {
				if n := len(at.requests(http.MethodDelete)); n != 1 {
					t.Errorf("%d sessions were deleted, want 1", n)
				}
			}
		})
	}
}

// Every way in which a server can fail ends with a reason, and in time.
func TestFailures(t *testing.T) {
	t.Parallel()
	text := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	giant := strings.Repeat("x", 3<<20)
	gone, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gone.Release)
	for name, test := range map[string]struct {
		at   string // empty: the handler's
		h    http.Handler
		want string // of Tools; empty: they are listed, and the call fails
		call string
	}{
		"unreachable":         {at: "http://" + gone.Addr(), want: "it cannot be reached"},
		"private":             {at: "http://127.0.0.9:1/", want: "its address is not a public one"},
		"not MCP":             {h: text(200, "text/html", "<html>"), want: "it does not answer like an MCP server"},
		"not JSON":            {h: text(200, "application/json", "hello"), want: "it does not answer like an MCP server"},
		"empty":               {h: text(200, "", ""), want: "it does not answer like an MCP server"},
		"unauthorized":        {h: text(401, "application/json", `{}`), want: "it answered with status 401; check the headers that are sent to it"},
		"not found":           {h: text(404, "text/plain", "no"), want: "it answered with status 404"},
		"broken":              {h: text(500, "text/plain", "oh"), want: "it answered with status 500"},
		"giant refusal":       {h: text(400, "text/plain", giant), want: "it sent more than 1048576 bytes at once"},
		"slow to connect":     {h: script{"initialize": hang}, want: "it took longer than 0.5 s"},
		"slow to list":        {h: script{"tools/list": hang}, want: "it took longer than 0.5 s"},
		"endless redirects":   {h: http.RedirectHandler("/", http.StatusTemporaryRedirect), want: "it answered with status 307"},
		"lists an error":      {h: script{"tools/list": rpcError("no\ntools today")}, want: "it answered with an error: no tools today"},
		"pages without end":   {h: script{"tools/list": pages(nil)}, want: "its list of tools does not end after 32 pages"},
		"tools without end":   {h: script{"tools/list": pages(bytes.Repeat([]byte(`{"name":"t","inputSchema":{}},`), 400))}, want: "it lists more than 1024 tools"},
		"giant list":          {h: script{"tools/list": result(`{"tools":[{"name":"t","description":"` + giant + `","inputSchema":{}}]}`)}, want: "it sent more than 1048576 bytes at once"},
		"giant result":        {h: script{"tools/call": result(`{"content":[{"type":"text","text":"` + giant + `"}]}`)}, call: "it sent more than 1048576 bytes at once"},
		"giant event":         {h: script{"tools/call": event("data: " + giant + "\n\n")}, call: "it sent more than 1048576 bytes at once"},
		"events without end":  {h: script{"tools/call": flood(notification)}, call: "it sent more than 10000 events"},
		"bytes without end":   {h: script{"tools/call": flood(wordy)}, call: "it sent more than 1048576 bytes at once"},
		"slow":                {h: script{"tools/call": hang}, call: "it took longer than 0.5 s"},
		"slow events":         {h: script{"tools/call": drip}, call: "it took longer than 0.5 s"},
		"dies":                {h: script{"tools/call": die}, call: "it cannot be reached"},
		"dies in its answer":  {h: script{"tools/call": dieInside}, call: "it cannot be reached"},
		"ends without answer": {h: script{"tools/call": event(": nothing\n\n")}, call: "it does not answer like an MCP server"},
		"session lost":        {h: script{"tools/call": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(404) }}, call: "it answered with status 404"},
		"tool is gone":        {h: script{"tools/call": rpcError("unknown tool work")}, call: "it answered with an error: unknown tool work"},
		"asks for input":      {h: script{"tools/call": result(`{"content":[],"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object"}}}}}`)}, call: "it asks for more input, which cannot be provided here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := test.at
			if at == "" {
				at = serve(t, test.h).URL
			}
			const generous = 5 * time.Minute
			opts := &mcpclient.Options{CallTimeout: generous, DiscoveryTimeout: generous}
			switch slow := strings.HasPrefix(name, "slow"); {
			case slow && test.want == "":
				opts.CallTimeout = 500 * time.Millisecond // discovery must pass, on a busy machine, too
			case slow:
				opts.DiscoveryTimeout = 500 * time.Millisecond
			}
			c := newClient(t, opts)
			s := server(t, c, at, nil)
			tools, err := s.Tools(t.Context())
			if reason(err) != test.want {
				t.Fatalf("Tools = %s, %v, want %q", names(tools), err, test.want)
			}
			if test.want == "" {
				if got, err := s.Call(t.Context(), "work", json.RawMessage(`{}`)); reason(err) != test.call {
					t.Errorf("Call = %+v, %v, want %q", got, err, test.call)
				}
			}
			s.Close()
			c.Close()
		})
	}
}

func reason(err error) string {
	var f *mcpclient.Failure
	if errors.As(err, &f) {
		return f.Reason
	}
	if err != nil {
		return "no failure: " + err.Error()
	}
	return ""
}

type act = func(http.ResponseWriter, *http.Request, json.RawMessage)

func result(raw string) act {
	return func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { reply(w, id, raw) }
}

func rpcError(message string) act {
	return func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		quoted, _ := json.Marshal(message)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":%s}}`, id, quoted)
	}
}

// pages returns the same page again and again.
func pages(tools []byte) act {
	return func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		reply(w, id, `{"tools":[`+strings.TrimSuffix(string(tools), ",")+`],"nextCursor":"more"}`)
	}
}

func event(raw string) act {
	return func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, raw)
	}
}

const notification = `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n\n"

var wordy = strings.Replace(notification, `"x"`, `"`+strings.Repeat("x", 60<<10)+`"`, 1)

func flood(event string) act {
	return func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(w, event); err != nil {
				return
			}
		}
	}
}

// drip sends data from time to time, but never the reply.
func drip(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
	w.Header().Set("Content-Type", "text/event-stream")
	for r.Context().Err() == nil {
		fmt.Fprint(w, notification)
		w.(http.Flusher).Flush()
		select {
		case <-time.After(50 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
}

func die(http.ResponseWriter, *http.Request, json.RawMessage) { panic(http.ErrAbortHandler) }

func dieInside(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	fmt.Fprint(w, `{"jsonrpc":"2.0",`)
	panic(http.ErrAbortHandler)
}

// A server that requests a completion or user input from us is refused, and continues.
func TestRequestsOfServers(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"sampling/createMessage", "elicitation/create", "unheard/of"} {
		answers := make(chan string, 1)
		at := serve(t, script{
			"": func(w http.ResponseWriter, _ *http.Request, answer json.RawMessage) {
				answers <- string(answer)
				w.WriteHeader(http.StatusAccepted)
			},
			"tools/call": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				event(`data: {"jsonrpc":"2.0","id":"ours","method":"`+method+`","params":{"message":"Who?","messages":[],"maxTokens":5,"requestedSchema":{"type":"object"}}}`+"\n\n")(w, r, id)
				w.(http.Flusher).Flush()
				text, _ := json.Marshal(<-answers)
				fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`+"\n\n", id, text)
			},
		})
		got, err := server(t, newClient(t, nil), at.URL, nil).Call(t.Context(), "work", json.RawMessage(`{}`))
		if err != nil || !strings.Contains(got.Text, `"id":"ours"`) || !strings.Contains(got.Text, `"error"`) {
			t.Errorf("%s: Call = %+v, %v, want it refused", method, got, err)
		}
	}
}

// After a session broke, the next call makes a new one.
func TestReconnect(t *testing.T) {
	t.Parallel()
	var once sync.Once
	at := serve(t, script{"tools/call": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		once.Do(func() { die(w, r, id) })
		reply(w, id, `{"content":[{"type":"text","text":"back"}]}`)
	}})
	s := server(t, newClient(t, nil), at.URL, nil)
	if _, err := s.Call(t.Context(), "work", json.RawMessage(`{}`)); err == nil {
		t.Error("the call of a server that dies = nil, want a failure")
	}
	if got, err := s.Call(t.Context(), "work", json.RawMessage(`{}`)); err != nil || got.Text != "back" {
		t.Errorf("the next call = %+v, %v, want a result", got, err)
	}
}

// When the caller hangs up, the call ends at the server, and so does the session.
func TestHangUp(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	at := serve(t, script{"tools/call": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		close(begun)
		hang(w, r, id)
		close(ended)
	}})
	c := newClient(t, nil)
	s := server(t, c, at.URL, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	go func() { <-begun; hangUp() }()
	if _, err := s.Call(ctx, "work", json.RawMessage(`{}`)); reason(err) != "the call was canceled" {
		t.Errorf("Call = %v, want that it was ended", err)
	}
	<-ended
	s.Close()
	c.Close()
	eventually(t, "the DELETE", func() bool { return len(at.requests(http.MethodDelete)) == 1 })
}

// A tool list is cached for a while, for all callers with the same headers, until a call fails.
func TestKnownTools(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lists := 0
	at := serve(t, script{
		"tools/list": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			lists++
			reply(w, id, `{"tools":[{"name":"work","inputSchema":{}}]}`)
		},
		"tools/call": rpcError("gone"),
	})
	c := newClient(t, &mcpclient.Options{Now: func() time.Time { return now }})
	tools := func(header string, want int) {
		t.Helper()
		s := server(t, c, at.URL, map[string]string{"X-Key": header})
		if _, err := s.Tools(t.Context()); err != nil || lists != want {
			t.Errorf("Tools = %v after %d lists, want %d", err, lists, want)
		}
		s.Close()
	}
	tools("a", 1)
	tools("a", 1)
	tools("b", 2)
	now = now.Add(31 * time.Second)
	tools("a", 3)
	tools("a", 3)
	if _, err := server(t, c, at.URL, map[string]string{"X-Key": "a"}).Call(t.Context(), "work", json.RawMessage(`{}`)); err == nil {
		t.Error("Call = nil, want a failure")
	}
	tools("a", 4)
}

// Once a request has called a tool, the next one with the cached list connects while its model writes, until one calls nothing.
func TestConnectAhead(t *testing.T) {
	t.Parallel()
	var begun, sessions atomic.Int32
	at := serve(t, script{
		"initialize": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			begun.Add(1)
			script{}.initialize(w, id)
		},
		"notifications/initialized": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			sessions.Add(1)
			w.WriteHeader(http.StatusAccepted)
		},
	})
	c := newClient(t, nil)
	for i, tt := range []struct {
		call          bool
		before, after int32 // sessions until the model has written, and in all
	}{
		{false, 1, 1}, // reads the list
		{false, 1, 1}, // nobody has called anything
		{true, 1, 2},
		{true, 3, 3}, // ahead
		{false, 4, 4},
		{false, 4, 4}, // the last one has called nothing
		{true, 4, 5},
	} {
		s := server(t, c, at.URL, nil)
		if _, err := s.Tools(t.Context()); err != nil {
			t.Fatalf("request %d: Tools = %v", i, err)
		}
		eventually(t, "the session", func() bool { return sessions.Load() >= tt.before })
		if tt.call {
			if _, err := s.Call(t.Context(), "work", json.RawMessage(`{}`)); err != nil {
				t.Errorf("request %d: Call = %v", i, err)
			}
		}
		s.Close()
		c.Close() // waits for what is done in the background
		if got := begun.Load(); got != tt.after {
			t.Errorf("request %d: %d sessions were begun, want %d", i, got, tt.after)
		}
	}
}

// A request that ends while a session is made ahead leaves none behind at the server.
func TestConnectAheadEnds(t *testing.T) {
	t.Parallel()
	var begun atomic.Int32
	ended, reached := make(chan struct{}), make(chan struct{})
	at := serve(t, script{"initialize": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		if begun.Add(1) == 2 {
			close(reached)
			<-ended
		}
		script{}.initialize(w, id)
	}})
	c := newClient(t, nil)
	first := server(t, c, at.URL, nil)
	if _, err := first.Tools(t.Context()); err != nil {
		t.Fatalf("Tools = %v", err)
	}
	if _, err := first.Call(t.Context(), "work", json.RawMessage(`{}`)); err != nil {
		t.Fatalf("Call = %v", err)
	}
	first.Close()
	second := server(t, c, at.URL, nil)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := second.Tools(ctx); err != nil {
		t.Fatalf("Tools = %v", err)
	}
	<-reached
	cancel()
	second.Close()
	close(ended)
	c.Close() // waits for what is done in the background
	if n := len(at.requests(http.MethodDelete)); n != 2 {
		t.Errorf("%d of 2 sessions were closed", n)
	}
}

// A session that cannot be made ahead is made by the call.
func TestConnectAheadFails(t *testing.T) {
	t.Parallel()
	var begun atomic.Int32
	failed := make(chan struct{})
	at := serve(t, script{"initialize": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		if begun.Add(1) == 2 {
			w.WriteHeader(http.StatusInternalServerError)
			close(failed)
			return
		}
		script{}.initialize(w, id)
	}})
	c := newClient(t, nil)
	for i := range 2 {
		s := server(t, c, at.URL, nil)
		if _, err := s.Tools(t.Context()); err != nil {
			t.Fatalf("request %d: Tools = %v", i, err)
		}
		if i == 1 {
			<-failed
		}
		if got, err := s.Call(t.Context(), "work", json.RawMessage(`{}`)); err != nil || got.Text != "done" {
			t.Errorf("request %d: Call = %+v, %v, want a result", i, got, err)
		}
		s.Close()
	}
	if got := begun.Load(); got != 3 {
		t.Errorf("%d sessions were begun, want 3", got)
	}
}

// later is a script of a server that knows only the version 2026-07-28.
func later(more script) script {
	all := script{
		"initialize": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
		},
		"server/discover": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			reply(w, id, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"},"ttlMs":0,"cacheScope":"private"}`)
		},
	}
	maps.Copy(all, more)
	return all
}

// A server's hints say for how long its list is cached, and whether callers with other credentials may have it.
func TestHints(t *testing.T) {
	t.Parallel()
	const a, b = "Bearer a", "Bearer b"
	for _, tt := range []struct {
		name, hints, more string // of the only or the first page, and of the second
		after             time.Duration
		callers           []string // one after the other; after the first, time passes
		lists             int
	}{
		{"private", `"ttlMs":60000,"cacheScope":"private"`, "", 59 * time.Second, []string{a, a, a}, 1},
		{"private, over", `"ttlMs":60000,"cacheScope":"private"`, "", 61 * time.Second, []string{a, a, a}, 2},
		{"private, of another", `"ttlMs":60000,"cacheScope":"private"`, "", 0, []string{a, b, a, b}, 2},
		{"private, of nobody", `"ttlMs":60000,"cacheScope":"private"`, "", 0, []string{"", b}, 2},
		{"public", `"ttlMs":60000,"cacheScope":"public"`, "", 0, []string{a, b, ""}, 1},
		{"public, over", `"ttlMs":60000,"cacheScope":"public"`, "", 61 * time.Second, []string{a, b}, 2},
		{"no scope", `"ttlMs":60000`, "", 0, []string{a, b}, 2},
		{"an unknown scope", `"ttlMs":60000,"cacheScope":"shared"`, "", 0, []string{a, b}, 2},
		{"stale", `"ttlMs":0,"cacheScope":"public"`, "", 0, []string{a, a}, 2},
		{"negative", `"ttlMs":-1,"cacheScope":"public"`, "", 0, []string{a, a}, 2},
		{"no hint", `"other":1`, "", 0, []string{a, a}, 2},
		{"for ever", `"ttlMs":99999999999,"cacheScope":"public"`, "", 61 * time.Minute, []string{a, a}, 2},
		{"the shorter page", `"ttlMs":60000,"cacheScope":"public"`, `"ttlMs":1000,"cacheScope":"public"`, 2 * time.Second, []string{a, a}, 4},
		{"the private page", `"ttlMs":60000,"cacheScope":"public"`, `"ttlMs":60000,"cacheScope":"private"`, 0, []string{a, b, a}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			lists := 0
			at := serve(t, later(script{"tools/list": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				lists++
				hints, next := tt.hints, ""
				if tt.more != "" && lists%2 == 1 {
					next = `,"nextCursor":"2"`
				} else if tt.more != "" {
					hints = tt.more
				}
				reply(w, id, `{"resultType":"complete","tools":[{"name":"work","inputSchema":{"type":"object"}}],`+hints+next+`}`)
			}}))
			c := newClient(t, &mcpclient.Options{Now: func() time.Time { return now }})
			for i, caller := range tt.callers {
				if i == 1 {
					now = now.Add(tt.after)
				}
				headers := map[string]string{}
				if caller != "" {
					headers["Authorization"] = caller
				}
				s := server(t, c, at.URL, headers)
				if tools, err := s.Tools(t.Context()); err != nil || !strings.HasPrefix(names(tools), "work") {
					t.Fatalf("Tools = %s, %v, want work", names(tools), err)
				}
				s.Close()
			}
			if lists != tt.lists {
				t.Errorf("%d lists were read, want %d", lists, tt.lists)
			}
		})
	}
}

// A full cache of lists that last takes those that last less.
func TestFullCache(t *testing.T) {
	t.Parallel()
	lists := map[string]int{}
	at := serve(t, later(script{"tools/list": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		lists[r.Header.Get("X-Ttl")+r.Header.Get("X-Caller")]++
		reply(w, id, `{"tools":[{"name":"work","inputSchema":{"type":"object"}}],"ttlMs":`+r.Header.Get("X-Ttl")+`,"cacheScope":"public"}`)
	}}))
	c := newClient(t, nil)
	ask := func(ttl, caller string) {
		s := server(t, c, at.URL, map[string]string{"X-Ttl": ttl, "X-Caller": caller})
		defer s.Close()
		if _, err := s.Tools(t.Context()); err != nil {
			t.Fatalf("Tools = %v", err)
		}
	}
	for i := range mcpclient.MaxLists {
		ask("3600000", fmt.Sprint(i))
	}
	ask("1800000", "late")
	ask("1800000", "late")
	if n := lists["1800000late"]; n != 1 {
		t.Errorf("the list of a late caller was read %d times, want once", n)
	}
}

// Callers who send other headers than credentials share no list, even if it is for everybody: the headers may choose it.
func TestPublicListsOfOtherHeaders(t *testing.T) {
	t.Parallel()
	at := serve(t, later(script{"tools/list": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		reply(w, id, `{"tools":[{"name":"`+r.Header.Get("X-Team")+`","inputSchema":{"type":"object"}}],"ttlMs":60000,"cacheScope":"public"}`)
	}}))
	c := newClient(t, nil)
	for _, team := range []string{"blue", "red"} {
		if tools, err := server(t, c, at.URL, map[string]string{"X-Team": team}).Tools(t.Context()); err != nil || names(tools) != team {
			t.Errorf("Tools of %s = %s, %v", team, names(tools), err)
		}
	}
}

// The order of a server's list does not reach the model.
func TestOrderOfTools(t *testing.T) {
	t.Parallel()
	lists := []string{`{"name":"b"},{"name":"a"},{"name":"c"}`, `{"name":"c"},{"name":"b"},{"name":"a"}`}
	at := serve(t, script{"tools/list": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		reply(w, id, `{"tools":[`+strings.ReplaceAll(lists[len(r.Header.Get("X-List"))], "}", `,"inputSchema":{"type":"object"}}`)+`]}`)
	}})
	for _, list := range []string{"", "2"} {
		s := server(t, newClient(t, nil), at.URL, map[string]string{"X-List": list})
		if tools, err := s.Tools(t.Context()); err != nil || names(tools) != "a b c" {
			t.Errorf("Tools = %s, %v, want a b c", names(tools), err)
		}
	}
}

// A server that asks for nothing but the same call again gets it, with its state, a few times.
func TestRequestState(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, interim string
		again         int // how often the server asks for another call
		calls         int
		want          string
	}{
		{"none", "", 0, 1, "done"},
		{"once", `{"resultType":"input_required","requestState":"state %d \"x\""}`, 1, 2, "done"},
		{"seven times", `{"resultType":"input_required","requestState":"state %d \"x\""}`, 7, 8, "done"},
		{"always", `{"resultType":"input_required","requestState":"state %d \"x\""}`, 99, 8, "asked 8 times to be called again"},
		{"with no state", `{"resultType":"input_required","other":%d}`, 1, 1, "more input"},
		{"with a question", `{"resultType":"input_required","requestState":"state %d \"x\"","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}}}`, 1, 1, "more input"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				var call struct {
					Method string
					Params struct{ RequestState string }
				}
				_ = json.Unmarshal(raw, &call)
				r.Body = io.NopCloser(bytes.NewReader(raw))
				later(script{"tools/call": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
					want := ""
					if calls > 0 {
						want = fmt.Sprintf("state %d \"x\"", calls)
					}
					if call.Params.RequestState != want {
						t.Errorf("call %d came with the state %q, want %q", calls+1, call.Params.RequestState, want)
					}
					if calls++; calls <= tt.again {
						reply(w, id, fmt.Sprintf(tt.interim, calls))
						return
					}
					reply(w, id, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
				}}).ServeHTTP(w, r)
			}))
			t.Cleanup(at.Close)
			got, err := server(t, newClient(t, nil), at.URL, nil).Call(t.Context(), "work", json.RawMessage(`{}`))
			said := fmt.Sprint(err)
			if err == nil {
				said = got.Text
			}
			if !strings.Contains(said, tt.want) || calls != tt.calls {
				t.Errorf("Call = %q after %d calls, want %q after %d", said, calls, tt.want, tt.calls)
			}
		})
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]mcpclient.Result{
		`"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]`:                                                  {Text: "a\nb"},
		`"content":[],"structuredContent":{"n":1}`:                                                                           {Text: `{"n":1}`},
		`"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}`:                                         {Text: `{"n":1}`},
		`"content":[{"type":"text","text":"one"}],"structuredContent":{"n":1}`:                                               {Text: `{"n":1}`},
		`"content":[{"type":"text","text":"no such row"}],"structuredContent":{"n":1},"isError":true`:                        {Text: "no such row", IsError: true},
		`"content":[{"type":"image","mimeType":"image/png","data":"aGk="}]`:                                                  {Images: []mcpclient.Image{{MIMEType: "image/png", Data: []byte("hi")}}},
		`"content":[{"type":"audio","mimeType":"audio/wav","data":"aGk="}]`:                                                  {Text: "[audio, audio/wav, 2 bytes]"},
		`"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]`:                                                  {Text: "[resource file:///a] a"},
		`"content":[{"type":"resource","resource":{"uri":"file:///a","text":"words"}}]`:                                      {Text: "words"},
		`"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"application/zip","blob":"aGk="}}]`:          {Text: "[resource file:///a, application/zip, 2 bytes]"},
		`"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"image/gif","blob":"aGk="}}],"isError":true`: {Text: "[image file:///a]", Images: []mcpclient.Image{{MIMEType: "image/gif", Data: []byte("hi")}}, IsError: true},
	} {
		at := serve(t, script{"tools/call": result("{" + content + "}")})
		got, err := server(t, newClient(t, nil), at.URL, nil).Call(t.Context(), "work", json.RawMessage(`{}`))
		if err != nil || !cmp.Equal(*got, want) {
			t.Errorf("Call with %s = %+v, %v, want %+v", content, got, err, want)
		}
	}
}

// Our own server is served without a connection, two levels deep.
func TestInProcess(t *testing.T) {
	t.Parallel()
	var depths []int
	var mu sync.Mutex
	var seen http.Header
	s := newServer(0)
	handler := streamable(s)
	c := newClient(t, &mcpclient.Options{LocalURL: func() string { return "https://api.example.com/mcp" }, Local: func(depth int) http.Handler {
		depths = append(depths, depth)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen = r.Header.Clone()
			mu.Unlock()
			handler.ServeHTTP(w, r)
		})
	}})
	for depth := range 2 {
		own, err := c.Server("https://api.example.com/mcp", map[string]string{"Authorization": "Bearer service-x"}, depth)
		if err != nil {
			t.Fatalf("Server at depth %d = %v", depth, err)
		}
		if got, err := own.Call(t.Context(), "echo", json.RawMessage(`{"message":"in"}`)); err != nil || got.Text != "Echo: in" {
			t.Errorf("Call = %+v, %v, want the echo", got, err)
		}
		own.Close()
	}
	c.Close()
	if fmt.Sprint(depths) != "[1 2]" || seen.Get("Authorization") != "Bearer service-x" {
		t.Errorf("served at depths %v with %v, want 1 and 2 with the caller's headers", depths, seen)
	}
	if _, err := c.Server("https://api.example.com/mcp", nil, 2); reason(err) == "" {
		t.Error("Server at depth 2 = nil, want a failure")
	}
	broken := newClient(t, &mcpclient.Options{LocalURL: func() string { return "https://api.example.com/mcp" }, Local: func(int) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") })
	}})
	if _, err := server(t, broken, "https://api.example.com/mcp", nil).Tools(t.Context()); reason(err) != "it answered with status 500" {
		t.Errorf("Tools of a handler that panics = %v, want status 500", err)
	}
}

func TestToolTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 2000)
	at := serve(t, script{"tools/list": result(`{"tools":[null,{"name":"","inputSchema":{}},{"name":"a","description":"` + long + `","inputSchema":{"$schema":"x"}},` +
		`{"name":"b","title":"The B","inputSchema":{"type":"object","properties":{"x":{"description":"` + strings.Repeat("y", 40<<10) + `"}}}},{"name":"c","annotations":{"readOnlyHint":true}}]}`)})
	tools, err := server(t, newClient(t, nil), at.URL, nil).Tools(t.Context())
	if err != nil || names(tools) != "a b c" {
		t.Fatalf("Tools = %s, %v, want a b c", names(tools), err)
	}
	if tools[1].ReadOnly || !tools[2].ReadOnly {
		t.Errorf("read-only: b %t, c %t, want c alone", tools[1].ReadOnly, tools[2].ReadOnly)
	}
	const none = `{"type":"object","properties":{}}`
	if got := tools[0].Description; len(got) > 1030 || !strings.HasSuffix(got, "ä…") {
		t.Errorf("the description has %d bytes and ends in %q, want it cut", len(got), got[len(got)-6:])
	}
	if got := string(tools[0].Schema); got != `{"$schema":"x","properties":{},"type":"object"}` {
		t.Errorf("the schema of a = %s, want it completed", got)
	}
	if string(tools[1].Schema) != none || string(tools[2].Schema) != none || tools[1].Description != "The B" {
		t.Errorf("b and c = %s %q, %s, want %s", tools[1].Schema, tools[1].Description, tools[2].Schema, none)
	}
}

// An older server names the address to post to. It must not name one on another host.
func TestEndpointElsewhere(t *testing.T) {
	t.Parallel()
	canary := serve(t, script{})
	at := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		event("event: endpoint\ndata: "+canary.URL+"/message\n\n")(w, r, nil)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	if _, err := server(t, newClient(t, nil), at.URL, map[string]string{"Authorization": "Bearer theirs"}).Tools(t.Context()); reason(err) != "it answered with status 404" {
		t.Errorf("Tools = %v, want it refused", err)
	}
	if n := len(canary.requests("")); n != 0 {
		t.Errorf("%d requests went to another host, want 0", n)
	}
}

// The log text of a failure contains no address.
func TestFailureHidesAddress(t *testing.T) {
	t.Parallel()
	_, err := server(t, newClient(t, nil), "http://127.0.0.1:1/mcp?token=secret", nil).Tools(t.Context())
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Tools = %v, want a failure without the address", err)
	}
}

// hostile are small messages that would decode to large values.
var hostile = map[string]string{
	"empty objects": "{},", "empty arrays": "[],", "numbers": "0,", "texts": `"",`, "deep": `{"a":{"a":{"a":[]}}},`, "escapes": `"\\\"",`,
}

// fill repeats a piece up to a size, without its last comma.
func fill(piece string, size int) string {
	return strings.TrimSuffix(strings.Repeat(piece, size/len(piece)), ",")
}

// Oversized data is refused before it is decoded, in whatever form it comes: as a tool list, a
// result or an error, in a body or in a stream.
func TestHostileReplies(t *testing.T) {
	const size, most = 1 << 20, 32 << 20
	for name, piece := range hostile {
		junk := "[" + fill(piece, size) + "]"
		answers := map[string]func(w http.ResponseWriter, _ *http.Request, id json.RawMessage){
			"list": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				reply(w, id, `{"tools":[{"name":"work","inputSchema":{"type":"object","properties":{"a":{"enum":`+junk+`}}}}]}`)
			},
			"stream": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, ": \"\nevent: \"\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"tools\":%s}}\n\n", id, junk)
			},
			"refusal": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"no","data":%s}}`, id, junk)
			},
		}
		for how, answer := range answers {
			c := newClient(t, nil)
			s := server(t, c, serve(t, script{"tools/list": answer}).URL, nil)
			took := allocated(func() {
				if tools, err := s.Tools(t.Context()); err == nil {
					t.Errorf("%s in a %s: Tools = %d tools, want it refused", name, how, len(tools))
				}
			})
			if took > most {
				t.Errorf("%s in a %s: 1 MiB took %d MiB, want at most %d", name, how, took>>20, most>>20)
			}
			s.Close()
			c.Close()
			eventually(t, "the end of what is held", func() bool { return c.Held() == 0 })
		}
		c := newClient(t, nil)
		s := server(t, c, serve(t, script{"tools/call": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			reply(w, id, `{"content":[],"structuredContent":{"a":`+junk+`}}`)
		}}).URL, nil)
		if took := allocated(func() {
			if r, err := s.Call(t.Context(), "work", nil); reason(err) != "it sent more than 65536 JSON values at once" {
				t.Errorf("%s: Call = %t, %v, want too many values", name, r != nil, err)
			}
		}); took > most {
			t.Errorf("%s in a result: 1 MiB took %d MiB, want at most %d", name, took>>20, most>>20)
		}
		s.Close()
		c.Close()
		eventually(t, "the end of what is held", func() bool { return c.Held() == 0 })
	}
}

// allocated returns how many bytes are allocated while do runs, including those of the test's own
// servers.
// servers.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// All servers of a request share one budget for their lists, over all pages.
func TestListsShareABudget(t *testing.T) {
	page := fmt.Sprintf(`{"tools":[%s],"nextCursor":"more"}`, fill(`{"name":"work","description":"`+strings.Repeat("x", 900)+`","inputSchema":{"type":"object"}},`, 900<<10))
	address := serve(t, script{"tools/list": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { reply(w, id, page) }}).URL
	c := newClient(t, nil)
	budget := mcpclient.NewBudget()
	took := allocated(func() {
		var all sync.WaitGroup
		for range 8 {
			s := server(t, c, address, nil)
			s.Share(budget)
			all.Go(func() {
				if tools, err := s.Tools(t.Context()); !strings.Contains(reason(err), "the lists of tools of the request's servers are larger than 4 MiB") {
					t.Errorf("Tools = %d tools, %v, want the lists too large", len(tools), err)
				}
			})
		}
		all.Wait()
	})
	if took > 256<<20 {
		t.Errorf("eight servers' lists took %d MiB", took>>20)
	}
}

// The values of JSON are counted as it comes, however it is cut up.
func FuzzCounter(f *testing.F) {
	f.Add(`{"a":[1,"x,[\\\",{",{}],"b":null}`, 3)
	f.Add("data: {\"a\":[\"\\\\\",1]}\n\n: \"\ndata: [[],[]]\n\n", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		whole := mcpclient.CountValues(text)
		cut = max(0, min(cut, len(text)))
		if parts := mcpclient.CountValues(text[:cut], text[cut:]); parts != whole {
			t.Errorf("count(%q, %q) = %d, want %d", text[:cut], text[cut:], parts, whole)
		}
		var v any
		if json.Unmarshal([]byte(text), &v) == nil && values(v) > whole+1 {
			t.Errorf("count(%q) = %d, and it has %d values", text, whole, values(v))
		}
	})
}

// values returns the number of values in a decoded value, including itself.
func values(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += values(e)
		}
		if len(v) > 0 {
			n-- // the first needs no comma
		}
	case map[string]any:
		for _, e := range v {
			n += values(e)
		}
		if len(v) > 0 {
			n--
		}
	}
	return n
}

// What is read from all servers at once is bounded.
func TestMostHeld(t *testing.T) {
	t.Parallel()
	c := newClient(t, nil)
	address := serve(t, script{}).URL
	for _, tt := range []struct {
		held int64
		want string
	}{{mcpclient.MaxHeld, "too much is being read from MCP servers at the moment"}, {mcpclient.MaxHeld - 64<<10, ""}} {
		c.Hold(tt.held)
		s := server(t, c, address, nil)
		if _, err := s.Tools(t.Context()); reason(err) != tt.want {
			t.Errorf("Tools while %d bytes are held = %v, want %q", tt.held, err, tt.want)
		}
		s.Close()
		eventually(t, "the end of what is held", func() bool { return c.Held() == tt.held })
		c.Hold(-tt.held)
	}
}
