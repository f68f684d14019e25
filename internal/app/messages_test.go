package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var updateMessages = flag.Bool("update-messages", false, "write testdata/messages.txtar anew")

// double is an upstream in two dialects that answers every call with the same text and keeps what it was sent.
type double struct {
	mu     sync.Mutex
	answer string // a status, and the body behind a line break
	asked  []string
}

func (d *double) say(answer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer, d.asked = answer, nil
}

func (d *double) heard() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	said := "POST " + r.URL.Path
	if beta := r.Header.Get("Anthropic-Beta"); beta != "" {
		said += "\nanthropic-beta: " + beta
	}
	d.asked = append(d.asked, said+"\n"+string(body))
	head, text, _ := strings.Cut(d.answer, "\n")
	d.mu.Unlock()
	var status int
	fmt.Sscan(head, &status)
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(text, "data:") || strings.HasPrefix(text, "event:") {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	w.WriteHeader(status)
	if cut, ok := strings.CutSuffix(text, "CUT\n"); ok {
		_, _ = io.WriteString(w, cut)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, text)
}

// twoDialects is a configuration with two upstreams at one address: lab/m in OpenAI's dialect, lab/claude in
// Anthropic's.
func twoDialects(url string) string {
	return fmt.Sprintf(`
providers:
  - {name: lab, kind: openai, base_url: %q}
  - {name: claude, kind: anthropic, base_url: %q, api_key: k, allow: [web_search]}
models:
  - {id: lab/m, provider: lab, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}
  - {id: lab/thinks, provider: lab, plan: free, context_length: 100000, max_output: 9000, tool_calling: true, reasoning: true}
  - {id: lab/claude, provider: claude, upstream: claude-sonnet-4-5, plan: free, context_length: 100000, max_output: 9000, tool_calling: true, reasoning: true}
`, url+"/v1", url)
}

var ids = regexp.MustCompile(`[0-9a-f]{32}`)

// TestMessages plays the transcripts of testdata/messages.txtar: what a caller of the Messages API sends, what the
// upstream gets and says, and what the caller gets. Every call is settled once.
func TestMessages(t *testing.T) {
	t.Parallel()
	const file = "testdata/messages.txtar"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(data)
	cases := map[string]map[string]string{}
	var names []string
	for _, f := range archive.Files {
		name, part, _ := strings.Cut(f.Name, "/")
		if cases[name] == nil {
			cases[name] = map[string]string{}
			names = append(names, name)
		}
		cases[name][part] = string(f.Data)
	}
	up := &double{}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	n := newSite(t, twoDialects(server.URL)).start(t)
	key := n.OwnerKey()
	out := &txtar.Archive{Comment: archive.Comment}
	for _, name := range names {
		c := cases[name]
		up.say(c["says"])
		before := settled(n.App)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.scheme+n.Addr()+"/v1/messages", strings.NewReader(c["sent"]))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("Anthropic-Version", "2023-06-01")
		if strings.Contains(name, "beta") {
			req.Header.Set("Anthropic-Beta", "tomorrow-2027-01-01")
		}
		resp, err := n.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		got := fmt.Sprintf("%d %s\n%s", resp.StatusCode, resp.Header.Get("Content-Type"), ids.ReplaceAllString(string(body), "ID"))
		if dropped := resp.Header.Get("X-Sluice-Dropped"); dropped != "" {
			got = "dropped: " + dropped + "\n" + got
		}
		if !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		heard := ids.ReplaceAllString(strings.Join(slices.Compact(up.heard()), "\n"), "ID")
		if heard != "" {
			heard += "\n"
		}
		if !*updateMessages && (heard != c["up"] || got != c["got"]) {
			t.Errorf("%s: the upstream got\n%swant\n%sthe caller got\n%swant\n%s", name, heard, c["up"], got, c["got"])
		}
		called := len(up.heard()) > 0 || resp.StatusCode == http.StatusOK
		if n := settled(n.App) - before; called && n != 1 || n > 1 {
			t.Errorf("%s: %d settlements, want one for a call", name, n)
		}
		checkMessageEvents(t, name, string(body), resp.Header.Get("Content-Type"))
		out.Files = append(out.Files, txtar.File{Name: name + "/sent", Data: []byte(c["sent"])})
		if c["says"] != "" {
			out.Files = append(out.Files, txtar.File{Name: name + "/says", Data: []byte(c["says"])}, txtar.File{Name: name + "/up", Data: []byte(heard)})
		}
		out.Files = append(out.Files, txtar.File{Name: name + "/got", Data: []byte(got)})
	}
	if *updateMessages {
		if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkMessageEvents checks the rules of a stream: its events are named after their type, blocks follow one another, and
// only a complete one ends with message_stop.
func checkMessageEvents(t *testing.T, name, body, contentType string) {
	t.Helper()
	if contentType != "text/event-stream" {
		if !json.Valid([]byte(body)) {
			t.Errorf("%s: %s is not JSON", name, body)
		}
		return
	}
	open, next, ended, failed, reason := -1, 0, false, false, false
	for i, event := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var kind, data string
		lines := strings.Split(event, "\n")
		if len(lines) != 2 {
			t.Errorf("%s: event %q has %d lines, want 2", name, event, len(lines))
			continue
		}
		kind, data = strings.TrimPrefix(lines[0], "event: "), strings.TrimPrefix(lines[1], "data: ")
		var w struct {
			Type  string
			Index int
		}
		if err := json.Unmarshal([]byte(data), &w); err != nil || w.Type != kind || ended || failed {
			t.Errorf("%s: event %q: %v, or it comes after the end", name, event, err)
		}
		if (kind == "message_start") != (i == 0) {
			t.Errorf("%s: event %d is %s", name, i, kind)
		}
		switch kind {
		case "content_block_start":
			if open >= 0 || w.Index != next {
				t.Errorf("%s: block %d starts while %d is open, want %d", name, w.Index, open, next)
			}
			open, next = w.Index, next+1
		case "content_block_delta", "content_block_stop":
			if w.Index != open {
				t.Errorf("%s: %s of block %d while %d is open", name, kind, w.Index, open)
			}
			if kind == "content_block_stop" {
				open = -1
			}
		case "message_delta":
			reason = true
		case "message_stop":
			ended = true
		case "error":
			failed = true
		}
	}
	if ended == failed || ended && (open >= 0 || !reason) || failed && reason {
		t.Errorf("%s: ended %t, failed %t, open block %d, stop reason %t", name, ended, failed, open, reason)
	}
	if !bytes.HasSuffix([]byte(body), []byte("\n\n")) {
		t.Errorf("%s: the last event is not complete", name)
	}
}

// ask posts to the Messages API, with more headers.
func (n *node) askMessages(path, key, body string, header ...string) reply {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.scheme+n.Addr()+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text), resp.TLS, resp.Proto}
}

// mcp_servers are called by the service, and the caller gets the final answer, streamed or not.
func TestMessagesRemoteTools(t *testing.T) {
	t.Parallel()
	address, _ := toolServer(t)
	n := newSite(t, "mcp: {allow_hosts: [127.0.0.1]}\n").start(t)
	defer n.stop() // before the server, which holds a session of ours
	for _, stream := range []bool{false, true} {
		r := n.askMessages("/v1/messages", n.OwnerKey(), fmt.Sprintf(`{"model":"sandbox/small","max_tokens":500,"stream":%t,"messages":[{"role":"user","content":"Call the echo tool with message \"hello\""}],"mcp_servers":[{"type":"url","name":"Fake","url":%q}]}`, stream, address))
		checkMessageEvents(t, "MCP", r.body, r.header.Get("Content-Type"))
		if r.status != 200 || strings.Contains(r.body, `"type":"tool_use"`) || !strings.Contains(strings.ReplaceAll(r.body, "\"}}\n", ""), "Echo") {
			t.Errorf("stream %t: POST = %d %s, want the echo and no call", stream, r.status, r.body)
		}
		if got := r.header.Get("X-Sluice-Mcp-Calls"); !stream && got != "1" {
			t.Errorf("x-sluice-mcp-calls = %q, want 1", got)
		}
	}
	r := n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"sandbox/small","max_tokens":500,"messages":[{"role":"user","content":"x"}],"mcp_servers":[{"type":"url","name":"Far","url":"http://10.0.0.1/mcp"}]}`)
	if r.status != 400 || !strings.Contains(r.body, `"message":"mcp_servers.0: `) {
		t.Errorf("a server at a private address: %d %s, want 400 that names it", r.status, r.body)
	}
}

// A repeat with the same Idempotency-Key gets the same reply, streamed or not, and no second call is made. A stream that
// failed is not kept.
func TestMessagesIdempotency(t *testing.T) {
	t.Parallel()
	up := &double{}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	n := newSite(t, twoDialects(server.URL)).start(t)
	owner := n.OwnerKey()
	const event = "event: %[1]s\ndata: {\"type\":%[1]q%[2]s}\n\n"
	stream := "200\n" + fmt.Sprintf(event, "message_start", `,"message":{"id":"x","type":"message","role":"assistant","model":"y","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}`) +
		fmt.Sprintf(event, "content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`) + fmt.Sprintf(event, "content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"Hi"}`)
	tail := fmt.Sprintf(event, "content_block_stop", `,"index":0`) + fmt.Sprintf(event, "message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}`) + fmt.Sprintf(event, "message_stop", "")
	for _, tt := range []struct {
		name, says, body string
		replayed         bool
	}{
		{"translated", "200\n" + `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`, `{"model":"lab/m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`, true},
		{"stream", stream + tail, `{"model":"lab/claude","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"x"}]}`, true},
		{"cut", stream + "CUT\n", `{"model":"lab/claude","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"x"}]}`, false},
	} {
		// A reply is not kept while the database is slow, as on a busy machine; then another try is made.
		var got string
		for try := range 10 {
			up.say(tt.says)
			before := settled(n.App)
			key := fmt.Sprint(tt.name, try)
			first := n.askMessages("/v1/messages", owner, tt.body, "Idempotency-Key", key)
			second := n.askMessages("/v1/messages", owner, tt.body, "Idempotency-Key", key)
			replayed := second.header.Get("Idempotent-Replayed") == "true"
			calls, settlements := len(up.heard()), settled(n.App)-before
			if replayed != (first.body == second.body) || first.status != 200 || calls != int(settlements) || replayed != (calls == 1) {
				t.Errorf("%s: replayed %t, %d calls, %d settlements\n%s\n%s", tt.name, replayed, calls, settlements, first.body, second.body)
			}
			if got = fmt.Sprint(replayed); replayed || !tt.replayed {
				break
			}
		}
		if want := fmt.Sprint(tt.replayed); got != want {
			t.Errorf("%s: replayed %s, want %s", tt.name, got, want)
		}
	}
}

// Counting takes one request of the allowance, and nothing else.
func TestMessagesCount(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	key := n.OwnerKey()
	before := settled(n.App)
	left := func(r reply) (requests, tokens string) {
		return r.header.Get("X-Ratelimit-Remaining-Requests"), r.header.Get("X-Ratelimit-Remaining-Tokens")
	}
	const body = `{"model":"sandbox/heavy","messages":[{"role":"user","content":"one two three four five"}]}`
	r := n.askMessages("/v1/messages/count_tokens", key, body)
	requests, tokens := left(r)
	again := n.askMessages("/v1/messages/count_tokens", key, body)
	requestsAfter, tokensAfter := left(again)
	var a, b int
	fmt.Sscan(requests, &a)
	fmt.Sscan(requestsAfter, &b)
	if r.status != 200 || r.body != `{"input_tokens":12}` || a-b != 1 || tokens != tokensAfter || settled(n.App) != before {
		t.Errorf("count = %d %s, requests %s then %s, tokens %s then %s, %d settlements", r.status, r.body, requests, requestsAfter, tokens, tokensAfter, settled(n.App)-before)
	}
	if r := n.askMessages("/v1/messages/count_tokens", key, `{"model":"nobody","messages":[{"role":"user","content":"x"}]}`); r.status != 400 || !strings.Contains(r.body, `"message":"model: There is no model`) {
		t.Errorf("count for an unknown model = %d %s, want 400", r.status, r.body)
	}
	if r := n.askMessages("/v1/messages/count_tokens", key, `{"model":"sandbox/small","messages":[{"role":"user","content":"`+strings.Repeat("word ", 200_000)+`"}]}`); r.status != 200 {
		t.Errorf("count beyond the window = %d %s, want 200", r.status, r.body)
	}
}

// A caller that hangs up ends the call of an upstream of either dialect, and is charged once.
func TestMessagesHangUp(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		piece := `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}` + "\n\n"
		if strings.HasSuffix(r.URL.Path, "/messages") {
			piece = `data: {"type":"message_start","message":{"id":"x","model":"y","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}` + "\n\n" +
				`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}` + "\n\n"
		}
		_, _ = io.WriteString(w, piece)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		ended <- r.URL.Path
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	n := newSite(t, twoDialects(server.URL)).start(t)
	for model, path := range map[string]string{"lab/m": "/v1/chat/completions", "lab/claude": "/v1/messages"} {
		before := settled(n.App)
		ctx, hangUp := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.scheme+n.Addr()+"/v1/messages", strings.NewReader(`{"model":"`+model+`","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", n.OwnerKey())
		resp, err := n.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		seen := bufio.NewScanner(resp.Body)
		for seen.Scan() && !strings.Contains(seen.Text(), `"text":"Hi"`) {
		}
		hangUp()
		resp.Body.Close()
		if got := <-ended; got != path {
			t.Errorf("%s: the call of %s has ended, want %s", model, got, path)
		}
		eventually(t, "the call is settled", func() bool { return settled(n.App) == before+1 })
	}
}
