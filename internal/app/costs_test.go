package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
)

// costly is an upstream that does what the last word of a prompt's first line says.
func costly(t *testing.T) (url string, reached chan string) {
	t.Helper()
	reached = make(chan string, 100)
	chunk := func(w http.ResponseWriter, choices string) {
		fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":%s}\n\n", choices)
		w.(http.Flusher).Flush()
	}
	whole := func(w http.ResponseWriter, choices string, prompt, completion int) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":%s,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, choices, prompt, completion, prompt+completion)
	}
	choice := func(i int, message, finish string) string {
		return fmt.Sprintf(`{"index":%d,"message":{"role":"assistant",%s},"finish_reason":%q}`, i, message, finish)
	}
	const hi = `[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, rest, _ := strings.Cut(string(body), "please ")
		do, _, _ := strings.Cut(rest, ".")
		switch do {
		case "answer":
			whole(w, "["+choice(0, `"content":"hi"`, "stop")+"]", 1000, 50)
		case "answer four times":
			var all []string
			for i := range 4 {
				all = append(all, choice(i, `"content":"hi"`, "stop"))
			}
			whole(w, "["+strings.Join(all, ",")+"]", 1000, 200)
		case "echo":
			if strings.Contains(string(body), `"role":"tool"`) {
				whole(w, "["+choice(0, `"content":"hi"`, "stop")+"]", 1000, 50)
				return
			}
			whole(w, "["+choice(0, `"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"t__echo","arguments":"{\"message\":\"x\"}"}}]`, "tool_calls")+"]", 1000, 50)
		case "refuse":
			http.Error(w, `{"error":{"message":"No."}}`, http.StatusBadRequest)
		case "fail":
			http.Error(w, `{"error":{"message":"Oh no."}}`, http.StatusInternalServerError)
		case "break off":
			w.Header().Set("Content-Type", "text/event-stream")
			chunk(w, hi)
			panic(http.ErrAbortHandler)
		case "begin":
			w.Header().Set("Content-Type", "text/event-stream")
			chunk(w, hi)
			fallthrough
		case "wait":
			reached <- do
			<-r.Context().Done()
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL + "/v1", reached
}

// What each outcome costs: in the minute's windows, in the settlement, and in the windows again after a
// restart (docs/accounting.md, "What costs what").
func TestWhatCostsWhat(t *testing.T) {
	t.Parallel()
	upstream, reached := costly(t)
	tools, _ := toolServer(t)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		reached <- "discovery"
		<-r.Context().Done()
	}))
	t.Cleanup(func() { silent.CloseClientConnections(); silent.Close() })
	site := newSite(t, fmt.Sprintf(`
mcp: {allow_hosts: [127.0.0.1]}
video: {workers: 1}
providers:
  - {name: good, kind: openai, base_url: %q}
  - {name: bad, kind: openai, base_url: %q}
models:
  - {id: good, provider: good, plan: free, context_length: 100000, max_output: 1000, tool_calling: true, request_multiplier: 1.5, unit_cost: 2.5}
  - {id: bad, provider: bad, plan: free, context_length: 100000, max_output: 1000, request_multiplier: 1.5, unit_cost: 2.5}
`, upstream, upstream))
	site.patience = 1 // nobody is asked twice
	n := site.start(t)

	const text = 1000 // words of every prompt, each a token
	ask := func(do, more string) string {
		model := "good"
		if do == "fail" {
			model = "bad"
		}
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"please %s.%s"}]%s}`, model, do, strings.Repeat(" word", text), more)
	}
	server := func(url string) string {
		return fmt.Sprintf(`,"tools":[{"type":"mcp","server_label":"t","server_url":%q}]`, url)
	}
	const stream = `,"stream":true`
	post := func(path, idem, body string, status int) func(string) {
		return func(key string) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.scheme+n.Addr()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+key)
			if idem != "" {
				req.Header.Set("Idempotency-Key", idem)
			}
			resp, err := n.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			reply, err := io.ReadAll(resp.Body)
			if resp.StatusCode != status {
				t.Errorf("POST %s %.80s = %d %.300s, %v, want %d", path, body, resp.StatusCode, reply, err, status)
			}
		}
	}
	chat := func(body string, status int) func(string) { return post(chatPath, "", body, status) }
	// hangUp leaves as soon as somebody was reached, or something has come.
	hangUp := func(body string, when string) func(string) {
		return func(key string) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			go func() {
				if got := <-reached; got != when {
					t.Errorf("%q was reached, want %q", got, when)
				}
				if when != "begin" {
					leave()
				}
			}()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.scheme+n.Addr()+chatPath, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+key)
			if resp, err := n.client.Do(req); err == nil {
				_, _ = resp.Body.Read(make([]byte, 1))
				leave()
				resp.Body.Close()
			}
		}
	}
	var running, waiting string // ids of video jobs
	var filming string          // the key that owns the running one
	film := func(id *string, size int) func(string) {
		return func(key string) {
			*id = readVideo(t, n.request("POST", videoJobs, key, fmt.Sprintf(`{"prompt":"slow","width":%d,"height":%d,"n_seconds":20}`, size, size))).ID
		}
	}
	type cost struct{ requests, tokens, units int64 }
	const prompt = -1 // by our own count: about the text
	tests := []struct {
		name    string
		do      []func(key string)
		window  cost // units are not in it
		settled cost
		ends    string
	}{
		{"refused before anything left", []func(string){chat(ask("answer", `,"temperature":9`), 400)}, cost{}, cost{}, ""},
		{"too many tool servers", []func(string){chat(ask("answer", `,"tools":[`+strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"type":"mcp","server_url":%q},`, tools), 9), ",")+"]"), 400)}, cost{}, cost{}, ""},
		{"n with tool servers", []func(string){chat(ask("answer", `,"n":2`+server(tools)), 400)}, cost{}, cost{}, "failed"},
		{"discovery failed", []func(string){chat(ask("answer", server("http://127.0.0.1:1/")), 400)}, cost{1500, 0, 0}, cost{1500, 0, 0}, "failed"},
		{"upstream 4xx", []func(string){chat(ask("refuse", ""), 400)}, cost{1500, prompt, 0}, cost{1500, prompt, 0}, "failed"},
		{"upstream 5xx before content", []func(string){chat(ask("fail", ""), 503)}, cost{}, cost{}, "failed"},
		{"cut after content", []func(string){chat(ask("break off", stream), 200)}, cost{1500, prompt, 0}, cost{1500, prompt, 2500}, "cut"},
		{"hang-up before the prompt left", []func(string){hangUp(ask("answer", stream+server(silent.URL)), "discovery")}, cost{1500, 0, 0}, cost{1500, 0, 0}, "hang_up"},
		{"hang-up before the first token", []func(string){hangUp(ask("wait", stream), "wait")}, cost{1500, prompt, 0}, cost{1500, prompt, 2500}, "hang_up"},
		{"hang-up mid-stream", []func(string){hangUp(ask("begin", stream), "begin")}, cost{1500, prompt, 0}, cost{1500, prompt, 2500}, "hang_up"},
		{"hang-up with n = 4", []func(string){hangUp(ask("wait", stream+`,"n":4`), "wait")}, cost{1500, prompt, 0}, cost{1500, prompt, 10_000}, "hang_up"},
		{"complete", []func(string){chat(ask("answer", ""), 200)}, cost{1500, 1050, 0}, cost{1500, 1050, 2500}, "complete"},
		{"n = 4", []func(string){chat(ask("answer four times", `,"n":4`), 200)}, cost{1500, 1200, 0}, cost{1500, 1200, 10_000}, "complete"},
		{"n = 4 of an upstream that gives one", []func(string){chat(ask("answer", `,"n":4`), 400)}, cost{1500, 1050, 0}, cost{1500, 1050, 2500}, "cut"},
		{"two MCP turns", []func(string){chat(ask("echo", server(tools)), 200)}, cost{1500, 2100, 0}, cost{1500, 2100, 5000}, "complete"},
		{"idempotent repeat", []func(string){post(chatPath, "k", ask("answer", ""), 200), post(chatPath, "k", ask("answer", ""), 200)}, cost{2500, 1050, 0}, cost{1500, 1050, 2500}, "complete"},
		{"route", []func(string){post("/v1/route", "", ask("answer", ""), 200)}, cost{1000, 0, 0}, cost{}, ""},
		{"route refused", []func(string){post("/v1/route", "", ask("answer", `,"temperature":9`), 400)}, cost{}, cost{}, ""},
		{"video created", []func(string){film(&running, 1920)}, cost{2000, 0, 0}, cost{}, ""},
		{"video cancelled before it ran", []func(string){film(&waiting, 720), func(key string) { n.request("DELETE", videoJobs+"/"+waiting, key, "") }}, cost{1500, 0, 0}, cost{1500, 0, 0}, "hang_up"},
	}
	same := func(got, want int64) bool {
		return got == want || want == prompt && got > text && got < text+50
	}
	inWindow := func(what, id string, want cost) {
		t.Helper()
		requests, tokens := n.Used(id)
		if !same(requests, want.requests) || !same(tokens, want.tokens) {
			t.Errorf("%s: the windows hold %d thousandths and %d tokens, want %+v", what, requests, tokens, want)
		}
	}
	// What a window holds can be seen for a minute. Outcomes are tried in groups that take less than that, with the
	// restart; a group that took too long is tried again in smaller ones, each time with new accounts.
	const visible = 50 * time.Second
	accounts := 0
	type tried struct {
		outcome int
		id      string
	}
	var group []tried
	for size, next := len(tests), 0; next < len(tests); {
		began := time.Now()
		group = group[:0]
		for i := next; i < min(next+size, len(tests)) && time.Since(began) < visible/2; i++ {
			tt := tests[i]
			accounts++
			made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: fmt.Sprintf("a%d@example.com", accounts), Plan: "premium"})
			group = append(group, tried{i, made.ID})
			for _, do := range tt.do {
				do(made.MasterKey)
			}
			var all []usage.Settlement
			eventually(t, tt.name+" being settled", func() (ok bool) {
				var err error
				all, err = n.SettledFor(t.Context(), made.ID)
				return err == nil && (len(all) > 0 || tt.ends == "") && n.Running() == 0
			})
			if tt.ends == "" {
				all = nil
			} else if len(all) != 1 || string(all[0].End) != tt.ends || !same(all[0].RequestMilli, tt.settled.requests) || !same(int64(all[0].Tokens.Total()), tt.settled.tokens) || all[0].UnitMilli != tt.settled.units {
				t.Errorf("%s: settled %+v, want one that is %s with %+v", tt.name, all, tt.ends, tt.settled)
			}
			if time.Since(began) < visible {
				inWindow(tt.name, made.ID, tt.window)
			}
			if tt.name == "video created" {
				filming = made.MasterKey
			}
		}
		n.stop()
		n = site.start(t)
		if time.Since(began) > visible {
			if size == 1 {
				t.Fatalf("%s and a restart take longer than the minute that a window shows", tests[next].name)
			}
			size = max(1, len(group)/2)
			continue
		}
		for _, g := range group {
			tt := tests[g.outcome]
			want := tt.settled
			if strings.HasPrefix(tt.name, "video") {
				want = tt.window // a job counts from its creation
			}
			inWindow(tt.name+", after a restart", g.id, want)
		}
		next += len(group)
	}
	n.request("DELETE", videoJobs+"/"+running, filming, "")
}
