package app_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/operate/admin"
)

// The key has none of the marks that keys of well-known vendors have.
const (
	canaryKey  = "Canary77UpstreamKeyThatNobodyMaySee4242"
	canaryPart = "UpstreamKeyThatNobody"
)

// leaky is an upstream that fails in every way it can, and says its caller's key each time. The way is the
// first part of the path.
func leaky(w http.ResponseWriter, r *http.Request) {
	key := cmp.Or(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"))
	way, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.Header().Set("X-Key", key)
	w.Header().Set("X-Request-Id", key)
	stream := func(events ...string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}
	const content = `{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}`
	failure := fmt.Sprintf(`{"error":{"message":"The key %s is not good","type":"%s","code":"%s","param":"%s","details":{"%s":"%s"}}}`, key, key, key, key, key, key)
	var status int
	switch {
	case way == "page":
		w.WriteHeader(502)
		fmt.Fprintf(w, "<html>%s</html>", key)
	case way == "redirect":
		http.Redirect(w, r, "http://127.0.0.1:1/?key="+key, http.StatusFound)
	case way == "whole":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, failure)
	case way == "event":
		stream(failure)
	case way == "typed":
		stream(`{"type":"error","error":{"type":"overloaded_error","code":500,"status":"INTERNAL","message":"` + key + `"}}`)
	case way == "late":
		stream(content, failure)
	case way == "choice":
		stream(`{"choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"message":"` + key + `"}}]}`)
	case way == "finish":
		stream(`{"choices":[{"index":0,"delta":{},"finish_reason":"error: ` + key + `"}]}`)
	case way == "garbled":
		stream(`{"choices":[` + key)
	case way == "cut":
		stream(content)
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			fmt.Fprint(conn, key)
			conn.Close()
		}
	case way == "broken":
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n", key)
			conn.Close()
		}
	default:
		if _, err := fmt.Sscan(way, &status); err != nil {
			status = 500
		}
		w.Header().Set("Retry-After", "40")
		w.WriteHeader(status)
		fmt.Fprint(w, failure)
	}
}

// TestUpstreamKeysStayInside: whatever an upstream does with its key, nobody reads it: not callers, not the
// log, the metrics, the pages or operators.
func TestUpstreamKeysStayInside(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(leaky))
	t.Cleanup(upstream.Close)
	ways := []string{
		"400", "401", "402", "403", "404", "408", "413", "422", "429", "500", "503", "529",
		"page", "redirect", "whole", "event", "typed", "late", "choice", "finish", "garbled", "cut", "broken", "unreachable",
	}
	yaml := "plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\nmetrics_listen: 127.0.0.1:0\nlog: {level: debug}\nproviders:\n"
	models := "models:\n"
	var ids []string
	for _, kind := range []string{"openai", "anthropic", "gemini"} {
		for _, way := range ways {
			address := upstream.URL
			if way == "unreachable" {
				address = "http://" + closedPort(t)
			}
			id, fallbacks := kind+"-"+way, "[openai-page]"
			if id == "openai-page" {
				fallbacks = "[]"
			}
			ids = append(ids, id)
			yaml += fmt.Sprintf("  - {name: p-%s, kind: %s, base_url: %q, api_keys: [%s]}\n", id, kind, address+"/"+way, canaryKey)
			models += fmt.Sprintf("  - {id: %s, provider: p-%s, plan: free, context_length: 1000, max_output: 100, fallbacks: %s}\n", id, id, fallbacks)
		}
	}
	site := newSite(t, yaml+models)
	site.patience = time.Second
	n := site.start(t)
	clean := func(where, text string) {
		if strings.Contains(text, canaryPart) {
			t.Errorf("%s shows the upstream's key: %s", where, text)
		}
	}
	var all sync.WaitGroup
	for _, id := range ids {
		for _, stream := range []bool{true, false} {
			all.Go(func() {
				for range 3 { // until breakers are open, too
					r, err := n.do("POST", "/v1/chat/completions", n.OwnerKey(), fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"Hello"}]}`, id, stream))
					if err != nil {
						t.Errorf("%s: %v", id, err)
					}
					if r.status == 200 && !strings.HasSuffix(id, "-late") && !strings.HasSuffix(id, "-cut") {
						t.Errorf("%s = %d %s, want a failure", id, r.status, r.body)
					}
					clean("a reply to "+id, fmt.Sprint(r.header, r.body))
				}
			})
		}
	}
	for _, id := range ids {
		all.Go(func() {
			for _, door := range []string{"responses", "messages"} {
				path, body := dialectCall(door, "", "Hello")
				r, err := n.do("POST", path, n.OwnerKey(), strings.Replace(body, "m/", id, 1))
				if err != nil {
					t.Errorf("%s of %s: %v", door, id, err)
				}
				clean(door+" of "+id, fmt.Sprint(r.header, r.body))
			}
		})
	}
	all.Wait()
	clean("the metrics", n.scrape())
	for _, path := range []string{"/v1/models?format=verbose", "/v1/models/openai-401", "/v1/account", "/readyz", "/healthz", "/openapi.json", "/", "/docs"} {
		r := n.get(path, n.OwnerKey())
		clean(path, fmt.Sprint(r.header, r.body))
	}
	for operation, in := range map[string]any{"status": admin.Empty{}, "models": admin.ModelQuery{Verbose: true}, "account.list": admin.Cursor{}} {
		clean("the operation "+operation, string(must[json.RawMessage](n, operation, in)))
	}
	findings, err := json.Marshal(app.Examine(t.Context(), site.config(t)))
	if err != nil {
		t.Fatal(err)
	}
	clean("the doctor", string(findings))
	if !strings.Contains(string(findings), "…4242") {
		t.Errorf("the doctor does not say which key it means: %s", findings)
	}
	log := n.log.String()
	clean("the log", log)
	for _, want := range []string{"an upstream is paused for a while", "the upstream answered 401"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q", want)
		}
	}
}
