package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/operate/admin"
	"sluice/internal/upstream/discovery"
)

// modelServer lists models and answers chats with its own name.
func modelServer(t *testing.T, list *atomic.Pointer[[]string]) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/models") {
			var data []string
			for _, id := range *list.Load() {
				data = append(data, fmt.Sprintf(`{"id":%q,"object":"model"}`, id))
			}
			fmt.Fprintf(w, `{"object":"list","data":[%s]}`, strings.Join(data, ","))
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"I am local."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":3,"total_tokens":4}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func localServer(base string) []discovery.Server {
	return []discovery.Server{{Kind: "ollama", BaseURL: base}}
}

func models(ids ...string) *atomic.Pointer[[]string] {
	p := &atomic.Pointer[[]string]{}
	p.Store(&ids)
	return p
}

// modelStates are the models by id, as the server sees them after a look.
func (n *node) modelStates() map[string]admin.ModelState {
	n.t.Helper()
	all := map[string]admin.ModelState{}
	for _, s := range must[admin.List[admin.ModelState]](n, "models.refresh", admin.Empty{}).Data {
		all[s.ID] = s
	}
	return all
}

// A model server on this machine is found, staff may call it and nobody else, and it goes when it goes.
func TestLocalServer(t *testing.T) {
	t.Parallel()
	list := models("tiny:1b", "small:3b")
	s := newSite(t, "")
	s.servers = []discovery.Server{{Kind: "ollama", BaseURL: modelServer(t, list)}, {Kind: "lmstudio", BaseURL: "http://127.0.0.1:1/v1"}}
	n := s.start(t)
	all := n.modelStates()
	if got := all["ollama/tiny:1b"]; got.From != "this machine" || got.Access != "staff" || got.Health != "healthy" {
		t.Errorf("the found model stands as %+v", got)
	}
	chat := func(key, model string) reply {
		t.Helper()
		return n.request("POST", "/v1/chat/completions", key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Hello"}]}`, model))
	}
	if r := chat(n.OwnerKey(), "ollama/tiny:1b"); r.status != 200 || !strings.Contains(r.body, "I am local.") || !strings.Contains(r.body, `"model":"ollama/tiny:1b"`) {
		t.Errorf("the owner asks it: %d %s", r.status, r.body)
	}
	if r := chat(n.OwnerKey(), "service/auto"); r.status != 200 || !strings.Contains(r.body, "I am local.") || r.header.Get("X-Sluice-Route-Reason") == "" {
		t.Errorf("the owner asks the router: %d %s", r.status, r.body)
	}
	guest := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Email: "guest@example.com", Plan: "scale"})
	if r := chat(guest.MasterKey, "ollama/tiny:1b"); r.status != 403 || !strings.Contains(r.body, "only staff may call it") {
		t.Errorf("a guest asks it: %d %s", r.status, r.body)
	}
	if r := chat(guest.MasterKey, "service/auto"); r.status != 200 || strings.Contains(r.body, "I am local.") {
		t.Errorf("a guest asks the router: %d %s, want the sandbox", r.status, r.body)
	}
	list.Store(&[]string{"small:3b"})
	if all = n.modelStates(); all["ollama/tiny:1b"].ID != "" || all["ollama/small:3b"].ID == "" {
		t.Errorf("after one went: %v", all)
	}
	if !strings.Contains(n.log.String(), "models were found") || !strings.Contains(n.log.String(), "a discovered model is gone") {
		t.Error("the log does not tell what came and went")
	}
}

// A provider's list brings its new models into the tier that the operator set, and marks what is gone.
func TestProviderList(t *testing.T) {
	t.Parallel()
	list := models("known", "new")
	s := newSite(t, "")
	s.write(t, `discover: false
providers: [{name: lab, kind: openai, base_url: "`+modelServer(t, list)+`", discover: basic}]
models:
  - {id: mine, provider: lab, upstream: known, plan: free, context_length: 1000, max_output: 100}
`)
	n := s.start(t)
	all := n.modelStates()
	if got := all["lab/new"]; got.Access != "basic" || got.From != "provider" || got.Health != "healthy" {
		t.Errorf("the new model stands as %+v", got)
	}
	if _, twice := all["lab/known"]; twice || all["mine"].From != "configuration" {
		t.Errorf("the configured model stands as %+v, and again: %t", all["mine"], twice)
	}
	list.Store(&[]string{"new"})
	if got := n.modelStates()["mine"]; got.Health != "vanished" {
		t.Errorf("a configured model that is gone stands as %+v", got)
	}
	list.Store(&[]string{"new", "known", "newer"})
	if all = n.modelStates(); all["mine"].Health != "healthy" || all["lab/newer"].ID == "" {
		t.Errorf("after it came back: %+v", all)
	}
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	if all = n.modelStates(); all["lab/newer"].ID == "" {
		t.Error("a reload forgets what was discovered")
	}
}

// Looks follow one another. If two ran at once, the one that began first could end last and bring
// back a list that is out of date.
func TestOneLookAtATime(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := running.Add(1)
		defer running.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		for range 1000 { // gives another look the time to come in
			runtime.Gosched()
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"one","object":"model"}]}`)
	}))
	t.Cleanup(upstream.Close)
	s := newSite(t, "")
	s.write(t, `discover: false
providers: [{name: lab, kind: openai, base_url: "`+upstream.URL+`/v1", discover: basic}]
`)
	n := s.start(t)
	var looks sync.WaitGroup
	for range 16 {
		looks.Go(func() {
			if err := n.call("models.refresh", admin.Empty{}, &admin.List[admin.ModelState]{}); err != nil {
				t.Error(err)
			}
		})
	}
	looks.Wait()
	if most.Load() != 1 {
		t.Errorf("%d looks at the same time, want 1", most.Load())
	}
}
