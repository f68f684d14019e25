package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/ledger/price"
	"sluice/internal/operate/admin"
)

// fickle is an upstream of OpenAI's dialect that does what the prompt says.
func fickle(t *testing.T) (url string, reached chan string) {
	t.Helper()
	reached = make(chan string, 100)
	const usage = `"usage":{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27}`
	whole := func(w http.ResponseWriter, message, finish string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",%s},"finish_reason":%q}],%s}`, message, finish, usage)
	}
	chunk := func(w http.ResponseWriter, rest string) {
		fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",%s}\n\n", rest)
		w.(http.Flusher).Flush()
	}
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, rest, _ := strings.Cut(string(body), "please ")
		do, _, _ := strings.Cut(rest, ".")
		stream, place := strings.Contains(string(body), `"stream":true`), strings.Split(r.URL.Path, "/")[1]
		switch {
		case place == "one" && do == "fail over":
			http.Error(w, `{"error":{"message":"Oh no."}}`, http.StatusInternalServerError)
			return
		case do == "slow down" && calls.Add(1) == 1:
			http.Error(w, `{"error":{"message":"Too many."}}`, http.StatusTooManyRequests)
			return
		case do == "refuse":
			http.Error(w, `{"error":{"message":"No."}}`, http.StatusBadRequest)
			return
		case do == "fail":
			http.Error(w, `{"error":{"message":"Oh no."}}`, http.StatusInternalServerError)
			return
		case do == "wait":
			reached <- do
			<-r.Context().Done()
			return
		case do == "call twice":
			if strings.Contains(string(body), `"role":"tool"`) {
				http.Error(w, `{"error":{"message":"Oh no."}}`, http.StatusInternalServerError)
				return
			}
			whole(w, `"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"t__echo","arguments":"{\"message\":\"x\"}"}}]`, "tool_calls")
			return
		}
		if !stream {
			whole(w, `"content":"hi"`, "stop")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		chunk(w, `"choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]`)
		switch do {
		case "break off":
			panic(http.ErrAbortHandler)
		case "begin":
			reached <- do
			<-r.Context().Done()
			return
		}
		chunk(w, `"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`)
		chunk(w, `"choices":[],`+usage)
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL, reached
}

// However calls end, nothing stays reserved, and what is left is the amount without what their settlements say.
func TestHardBudgetEnds(t *testing.T) {
	t.Parallel()
	upstream, reached := fickle(t)
	tools, _ := toolServer(t)
	n := newSite(t, unbounded+fmt.Sprintf(`
mcp: {allow_hosts: [127.0.0.1]}
providers:
  - {name: one, kind: openai, base_url: %[1]q, api_keys: [a, b]}
  - {name: two, kind: openai, base_url: %[2]q}
models:
  - {id: m, provider: one, plan: free, context_length: 10000, max_output: 100, tool_calling: true, pricing: {input: 3, output: 15}, fallbacks: [f]}
  - {id: f, provider: two, plan: free, context_length: 10000, max_output: 100, tool_calling: true, pricing: {input: 4, output: 20}}
  - {id: alone, provider: one, plan: free, context_length: 10000, max_output: 100, tool_calling: true, pricing: {input: 3, output: 15}}
sandbox: false
`, upstream+"/one", upstream+"/two")).start(t)
	defer n.stop() // before the tool server, which holds sessions of ours
	mcp := fmt.Sprintf(`,"tools":[{"type":"mcp","server_label":"t","server_url":%q}]`, tools)
	// What a call of m costs by its figures: 20 tokens of 3 dollars a million and 7 of 15; at its fallback, of 4 and 20.
	const one, fallback price.Nano = 165_000, 220_000
	for _, tt := range []struct {
		do, model, more string
		leaves          bool       // its caller does, once the upstream is reached
		status          int        // of the reply; 0: any, or none
		cost            price.Nano // -1: something, as we count it
	}{
		{"answer", "m", "", false, 200, one},
		{"answer", "m", `,"stream":true`, false, 200, one},
		{"fail over", "m", "", false, 200, fallback},
		{"fail over", "m", `,"stream":true`, false, 200, fallback},
		{"slow down", "alone", "", false, 200, one},
		{"refuse", "alone", "", false, 400, 0},
		{"refuse", "alone", `,"stream":true`, false, 400, 0},
		{"fail", "alone", "", false, 503, 0},
		{"break off", "alone", `,"stream":true`, false, 200, -1},
		{"begin", "alone", `,"stream":true`, true, 0, -1},
		{"wait", "alone", `,"stream":true`, true, 0, -1},
		{"wait", "alone", "", true, 0, -1},
		{"call twice", "alone", mcp, false, 0, -1},
	} {
		name := strings.TrimSpace(fmt.Sprintf("%s %.12s", tt.do, strings.Trim(tt.more, `,"`)))
		t.Run(name, func(t *testing.T) {
			s := n.spender(strings.Map(func(r rune) rune {
				if r >= 'a' && r <= 'z' {
					return r
				}
				return '-'
			}, name), "0")
			s.t = t
			body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"please %s."}]%s}`, tt.model, tt.do, tt.more)
			needed := s.worst(chatPath, body)
			if want := price.Nano(17 * (10_000*3 + 100*15) * 1000); tt.more == mcp && needed != want {
				t.Errorf("a conversation with tools needs %s, want 17 turns of a whole window: %s", needed, want)
			}
			s.has(needed)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			req := n.asking(s.MasterKey, chatPath, body).WithContext(ctx)
			req.Header.Del("X-Sluice-Receipt")
			if tt.leaves {
				done, seen := make(chan error, 1), make(chan struct{})
				go func() {
					resp, err := n.client.Do(req)
					if err == nil {
						if _, err = bufio.NewReader(resp.Body).ReadString('\n'); err == nil {
							close(seen)
							_, err = io.Copy(io.Discard, resp.Body)
						}
						resp.Body.Close()
					}
					done <- err
				}()
				<-reached
				if _, reserved, _ := s.stands(); reserved != needed {
					t.Errorf("while the call runs, %s are reserved, want %s", reserved, needed)
				}
				if tt.do == "begin" {
					<-seen
				}
				leave()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("the caller that left got %v", err)
				}
			} else if r := n.answered(req); tt.status != 0 && r.status != tt.status {
				t.Errorf("= %d %s, want %d", r.status, r.body, tt.status)
			}
			cost := s.balanced(name, needed)
			if tt.cost >= 0 && cost != tt.cost || tt.cost < 0 && cost <= 0 {
				t.Errorf("the call costs %s, want %s", cost, tt.cost)
			}
			s.has(cost + needed)
			if r := n.request("POST", chatPath, s.MasterKey, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"please answer."}]}`, tt.model)); tt.more != mcp && r.status != 200 {
				t.Errorf("a call after that = %d %s, want it to pass", r.status, r.body)
			}
		})
	}
}

// A price that a reload raises while calls run applies to the next ones: those that run pay what they have reserved for at most.
func TestHardBudgetReload(t *testing.T) {
	t.Parallel()
	u := newStall(t)
	u.tells(`{"prompt_tokens":8,"completion_tokens":1000,"total_tokens":1008}`, "")
	site := newSite(t, "")
	write := func(output int) {
		site.write(t, unbounded+fmt.Sprintf(`
providers: [{name: lab, kind: openai, base_url: %q}]
models: [{id: m, provider: lab, plan: free, context_length: 100000, max_output: 1000, pricing: {input: 3, output: %d}}]
sandbox: false
`, u.url, output))
	}
	write(15)
	n := site.start(t)
	door := hardDoors[0]
	s := n.spender("s", "0")
	worst := s.worst(door.path, door.body)
	amount := 3 * worst
	s.has(amount)
	open := u.shut()
	replies := make(chan reply, 2)
	for range 2 {
		go func() {
			r, err := n.do("POST", door.path, s.MasterKey, door.body)
			if err != nil {
				t.Error(err)
			}
			replies <- r
		}()
	}
	<-u.came
	<-u.came
	write(150)
	must[any](n, "reload", struct{}{})
	if at := n.refusal(door.path, n.request("POST", door.path, s.MasterKey, door.body)); at.Reserved != (2*worst).String() || n.dollars(at.Needed) != 150_024_000 {
		t.Errorf("after the reload, a call is refused by %+v", at)
	}
	open()
	for range 2 {
		if r := <-replies; r.status != 200 {
			t.Errorf("a call = %d %s", r.status, r.body)
		}
	}
	if cost := s.balanced("a reload", amount); cost != 2*worst {
		t.Errorf("the calls cost %s, want %s", cost, 2*worst)
	}
	s.has(2*worst + 150_024_000)
	if r := n.request("POST", door.path, s.MasterKey, door.body); r.status != 200 {
		t.Errorf("a call at the new price = %d %s", r.status, r.body)
	}
	if cost := s.balanced("the new price", 2*worst+150_024_000); cost != 2*worst+150_024_000 {
		t.Errorf("the calls cost %s", cost)
	}
}

// Where pages and tools call models, the same budgets count, and what they show is for people. Questions about a call cost nothing.
func TestHardBudgetElsewhere(t *testing.T) {
	t.Parallel()
	u := newStall(t)
	n := newSite(t, fmt.Sprintf(`
providers: [{name: lab, kind: openai, base_url: %q}]
models: [{id: m, provider: lab, plan: free, context_length: 100000, max_output: 1000, tool_calling: true, pricing: {input: 3, output: 15}}]
sandbox: false
`, u.url)).start(t)
	p := n.join("a@example.com")
	must[admin.Account](n, "account.set-plan", admin.Target{Actor: "t", Ref: "a@example.com", Plan: "scale"})
	b := n.recordIn(n.request("POST", "/v1/budgets", p.key, `{"name":"night shift","amount":"0","window":"day","scope":{"account":true}}`))
	const chat, want = `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`, `This call may cost up to $0.015024, and the budget "night shift" of $0.00 a day has $0.00 left`
	play := func() reply {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.scheme+n.Addr()+"/dashboard"+chatPath, strings.NewReader(chat))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		resp, err := p.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	}
	r := play()
	n.refusedBy(chatPath, r)
	if text := strings.ReplaceAll(r.body, `\"`, `"`); !strings.Contains(text, want) || !strings.Contains(text, "ask the owner of the account to raise the budget") {
		t.Errorf("the playground shows %s, want %q", r.body, want)
	}
	got := n.callTool(p.key, "chat_completion", chat)
	if !got.IsError || got.Meta.Error.Type != "budget_exceeded" || got.Meta.Error.Code != 402 || !strings.Contains(got.Content[0].Text, want) {
		t.Errorf("the MCP server's tool = %+v, want %q", got, want)
	}
	// Questions are no calls, so they are answered. The route says what the call may cost.
	for path, body := range map[string]string{
		"/v1/route": chat, "/v1/messages/count_tokens": `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`, "/v1/responses/input_tokens": `{"model":"m","input":"Hi"}`,
	} {
		if r := n.request("POST", path, p.key, body); r.status != 200 || path == "/v1/route" && !strings.Contains(r.body, "0.015024") {
			t.Errorf("%s = %d %s, want an answer", path, r.status, r.body)
		}
	}
	if len(u.came) != 0 || n.Running() != 0 {
		t.Errorf("the upstream got %d calls, and %d run", len(u.came), n.Running())
	}
	spent := func() string { return *n.recordIn(n.get("/v1/budgets/"+b.ID, p.key)).Spent }
	if got := spent(); got != "0.00" {
		t.Errorf("refused calls and questions cost %s", got)
	}
	n.recordIn(n.request("PATCH", "/v1/budgets/"+b.ID, p.key, `{"amount":"1"}`))
	if r := play(); r.status != 200 {
		t.Errorf("the playground = %d %s", r.status, r.body)
	}
	if got := n.callTool(p.key, "chat_completion", chat); got.IsError {
		t.Errorf("the MCP server's tool = %+v", got)
	}
	if got := spent(); got != "0.00021" { // 10 tokens of 3 dollars a million and 5 of 15, twice
		t.Errorf("the calls cost %s, want 0.00021", got)
	}
	n.audited("calls of pages and tools")
}

// A call that prefers a shorter reply gets as long a one as its budget pays for. The upstream is told, in its dialect, and the caller.
func TestHardBudgetClamp(t *testing.T) {
	t.Parallel()
	asked := make(chan map[string]any, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var all map[string]any
		if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
			t.Errorf("the upstream gets %v", err)
		}
		asked <- all
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/responses"):
			fmt.Fprint(w, `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"i","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}],"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15}}`)
		case strings.HasSuffix(r.URL.Path, "/messages"):
			fmt.Fprint(w, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5}}`)
		default:
			fmt.Fprint(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	n := newSite(t, unbounded+fmt.Sprintf(`
providers:
  - {name: chat, kind: openai, base_url: %[1]q}
  - {name: responses, kind: openai, base_url: %[1]q, api: responses}
  - {name: claude, kind: anthropic, base_url: %[1]q, api_keys: [k]}
models:
  - {id: chat, provider: chat, plan: free, context_length: 100000, max_output: 32000, reasoning: true, pricing: {input: 1, output: 10}}
  - {id: responses, provider: responses, plan: free, context_length: 100000, max_output: 32000, reasoning: true, pricing: {input: 1, output: 10}}
  - {id: claude, provider: claude, upstream: claude-sonnet-4-5, plan: free, context_length: 100000, max_output: 32000, reasoning: true, pricing: {input: 1, output: 10}}
sandbox: false
`, s.URL)).start(t)
	a := n.spender("a", "0")
	bodies := map[string][]string{
		"/v1/chat/completions": {
			`{"model":%q,%s"messages":[{"role":"user","content":"Hi"}]}`, `{"model":%q,%s"max_tokens":30000,"messages":[{"role":"user","content":"Hi"}]}`,
			`{"model":%q,%s"max_completion_tokens":30000,"reasoning_effort":"high","messages":[{"role":"user","content":"Hi"}]}`,
		},
		"/v1/responses": {`{"model":%q,%s"input":"Hi"}`, `{"model":%q,%s"max_output_tokens":30000,"reasoning":{"effort":"high"},"input":"Hi"}`},
		"/v1/messages": {
			`{"model":%q,%s"max_tokens":30000,"messages":[{"role":"user","content":"Hi"}]}`,
			`{"model":%q,%s"max_tokens":30000,"thinking":{"type":"enabled","budget_tokens":20000},"messages":[{"role":"user","content":"Hi"}]}`,
			`{"model":%q,%s"max_tokens":30000,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"Hi"}]}`,
		},
	}
	const clamp = `"budget":{"clamp":true},`
	var spent price.Nano
	for path, list := range bodies {
		for _, model := range []string{"chat", "responses", "claude"} {
			for _, body := range list {
				what := path + " of " + model + ": " + body
				a.has(spent + 20_000_000) // 2 cents, for nearly 2000 tokens
				if r := n.request("POST", path, a.MasterKey, fmt.Sprintf(body, model, "")); r.status != http.StatusPaymentRequired {
					t.Errorf("%s without a clamp = %d %s, want 402", what, r.status, r.body)
				}
				r := n.request("POST", path, a.MasterKey, fmt.Sprintf(body, model, clamp))
				told := r.header.Get("X-Sluice-Clamped")
				if r.status != 200 || told == "" {
					t.Fatalf("%s = %d, clamped %q: %s", what, r.status, told, r.body)
				}
				got := <-asked
				name := map[string]string{"chat": "max_tokens", "responses": "max_output_tokens", "claude": "max_tokens"}[model]
				most, _ := got[name].(float64)
				if name == "max_tokens" && most == 0 {
					most, _ = got["max_completion_tokens"].(float64)
				}
				if most < 1500 || most > 2000 || told != fmt.Sprintf("max_tokens=%v", most) {
					t.Errorf("%s: the upstream gets %v, and the caller is told %q", what, got, told)
				}
				if thinking, ok := got["thinking"].(map[string]any); ok {
					if budget, _ := thinking["budget_tokens"].(float64); budget >= most {
						t.Errorf("%s: the upstream gets a budget of %v for thinking and a bound of %v", what, budget, most)
					}
				}
				if got["budget"] != nil {
					t.Errorf("%s: the upstream gets %v", what, got)
				}
				cost, err := price.Parse(r.header.Get("X-Sluice-Cost"))
				if err != nil {
					t.Fatal(err)
				}
				spent += cost
			}
		}
		body := list[0]
		// 100 nano-dollars a token of reply less than what 16 tokens and the prompt need.
		a.has(spent + 160_000)
		a.refusal(path, n.request("POST", path, a.MasterKey, fmt.Sprintf(body, "chat", clamp)))
		for _, bad := range []string{`"budget":true,`, `"budget":{"clamp":"yes"},`, `"budget":{"clamps":true},`, `"budget":[],`, `"budget":{"clamp":1},`} {
			if r := n.request("POST", path, a.MasterKey, fmt.Sprintf(body, "chat", bad)); r.status != http.StatusBadRequest || !strings.Contains(r.body, "budget") {
				t.Errorf("%s with %s = %d %s, want a 400 at budget", path, bad, r.status, r.body)
			}
		}
	}
	a.balanced("clamped calls", spent+160_000)
	if len(asked) != 0 {
		t.Errorf("the upstream got %d calls that were refused", len(asked))
	}
}
