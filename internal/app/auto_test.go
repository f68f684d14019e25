package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sluice/internal/account"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/testkit/pgtest"
)

// foundry is Azure with a model that takes tools only by Responses, under the name of a GPT-6 and under one that nobody knows.
type foundry struct {
	mu      sync.Mutex
	asked   []string // the APIs of the calls
	closing bool     // chat completions are a 400 that says nothing of another API
}

func (f *foundry) taken() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := strings.Join(f.asked, " ")
	f.asked = nil
	return asked
}

func (f *foundry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var body struct {
		Model  string
		Stream bool
		Tools  []any
		Effort string `json:"reasoning_effort"`
	}
	_ = json.Unmarshal(raw, &body)
	api := strings.TrimPrefix(r.URL.Path, "/openai/v1/")
	f.mu.Lock()
	f.asked = append(f.asked, api)
	closing := f.closing
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case api == "chat/completions" && closing:
		http.Error(w, `{"error":{"message":"Not today.","type":"invalid_request_error","param":null,"code":null}}`, http.StatusBadRequest)
	case api == "chat/completions" && len(body.Tools) > 0 && body.Effort != "none":
		http.Error(w, `{"error":{"message":"Function tools with reasoning_effort are not supported for `+body.Model+` in /v1/chat/completions. Please use /v1/responses instead.","type":"invalid_request_error","param":"reasoning_effort","code":null}}`, http.StatusBadRequest)
	case api == "chat/completions":
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],"usage":{"prompt_tokens":40,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":25}}}`)
	case api == "responses" && body.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"type":"response.created","response":{"id":"resp_up","object":"response","status":"in_progress","model":"x","output":[]}}`+"\n\n"+
			`data: {"type":"response.output_item.added","output_index":0,"item":{"id":"fc_1","type":"function_call","status":"in_progress","call_id":"call_1","name":"f","arguments":""}}`+"\n\n"+
			`data: {"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc_1","delta":"{}"}`+"\n\n"+
			`data: {"type":"response.output_item.done","output_index":0,"item":{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"f","arguments":"{}"}}`+"\n\n"+
			`data: {"type":"response.completed","response":`+calledResponse+`}`+"\n\n")
	case api == "responses":
		_, _ = io.WriteString(w, calledResponse)
	default:
		http.Error(w, `{"error":{"message":"Resource not found","code":"404"}}`, http.StatusNotFound)
	}
}

const calledResponse = `{"id":"resp_up","object":"response","created_at":1,"status":"completed","model":"x","output":[{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"f","arguments":"{}"}],` +
	`"usage":{"input_tokens":40,"input_tokens_details":{"cached_tokens":10,"cache_write_tokens":25},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":45}}`

// atFoundry returns the configuration of a site with the models of a foundry.
func atFoundry(t *testing.T, f *foundry) string {
	t.Helper()
	up := httptest.NewServer(f)
	t.Cleanup(up.Close)
	return fmt.Sprintf(`
providers: [{name: azure, kind: azure, base_url: %q, api_key: k}]
models:
- {id: lab/six, provider: azure, upstream: gpt-6-sol, plan: free, context_length: 8192, max_output: 100, tool_calling: true, reasoning: true}
- {id: lab/tomorrow, provider: azure, upstream: tomorrow, plan: free, context_length: 8192, max_output: 100, tool_calling: true, reasoning: true}
`, up.URL)
}

// A model that takes tools only by Responses is asked so, whatever door its caller uses. What it wrote to its cache is told and
// settled.
func TestAuto(t *testing.T) {
	t.Parallel()
	f := &foundry{}
	n := newSite(t, atFoundry(t, f)).start(t)
	key := n.OwnerKey()
	const tools = `"tools":[{"type":"function","function":{"name":"f"}}]`
	for _, tt := range []struct{ path, body, api, want string }{
		{"/v1/chat/completions", `{"model":"lab/six","messages":[{"role":"user","content":"Hi"}],` + tools + `,"reasoning_effort":"high"}`, "responses", `"finish_reason":"tool_calls"`},
		{"/v1/chat/completions", `{"model":"lab/six","messages":[{"role":"user","content":"Hi"}],` + tools + `}`, "responses", `"prompt_tokens":40,"completion_tokens":5,"total_tokens":45,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":25},"completion_tokens_details":{"reasoning_tokens":3}`},
		{"/v1/chat/completions", `{"model":"lab/six","messages":[{"role":"user","content":"Hi"}],"stream":true,` + tools + `}`, "responses", `"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]`},
		{"/v1/chat/completions", `{"model":"lab/six","messages":[{"role":"user","content":"Hi"}]}`, "chat/completions", `"cache_write_tokens":25`},
		{"/v1/messages", `{"model":"lab/six","max_tokens":50,"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`, "responses", `"stop_reason":"tool_use"`},
		{"/v1/responses", `{"model":"lab/six","input":"Hi","store":false}`, "responses", `"call_id":"call_1"`},
		{"/v1/chat/completions", `{"model":"lab/tomorrow","messages":[{"role":"user","content":"Hi"}],` + tools + `}`, "chat/completions responses", `"finish_reason":"tool_calls"`},
		{"/v1/chat/completions", `{"model":"lab/tomorrow","messages":[{"role":"user","content":"Hi"}],"stream":true,` + tools + `}`, "responses", `"finish_reason":"tool_calls"`},
	} {
		r := n.request("POST", tt.path, key, tt.body)
		if asked := f.taken(); r.status != 200 || asked != tt.api || !strings.Contains(r.body, tt.want) {
			t.Errorf("POST %s %s = %d %s by %s; want %s and %s", tt.path, tt.body, r.status, r.body, asked, tt.api, tt.want)
		}
	}
	owner := must[admin.Account](n, "account.show", admin.Target{Ref: account.OwnerEmail})
	var all []usage.Settlement
	eventually(t, "the calls being settled", func() bool {
		var err error
		all, err = n.SettledFor(t.Context(), owner.ID)
		return err == nil && len(all) == 8
	})
	for i := range all {
		if u := all[i].Tokens; u.CacheWrite != 25 || u.Prompt != 30 || u.Cached != 10 {
			t.Errorf("settled %+v, want 25 tokens written of 30 in the prompt", u)
		}
	}
	if r := n.get("/v1/requests?limit=1", key); !strings.Contains(r.body, `"cached_tokens":10,"cache_write_tokens":25,`) {
		t.Errorf("GET /v1/requests = %s, want what was written", r.body)
	}
	// The next process knows it from the start.
	n.stop()
	n = n.site.start(t)
	if r := n.request("POST", "/v1/chat/completions", key, `{"model":"lab/tomorrow","messages":[{"role":"user","content":"Hi"}],`+tools+`}`); r.status != 200 || f.taken() != "responses" {
		t.Errorf("after a restart = %d %s, want a call by Responses at once", r.status, r.body)
	}
}

// What one node has learned of a model, another one knows.
func TestAutoOverNodes(t *testing.T) {
	t.Parallel()
	f := &foundry{}
	yaml := "discover: false\ndatabase: " + pgtest.URL(t) + "\n" + oneSecret + "cluster: approximate\n" +
		"plans: {scale: {requests_per_minute: unlimited, tokens_per_minute: unlimited, concurrent: unlimited}}\n" + atFoundry(t, f)
	one := newSite(t, yaml).start(t)
	key := one.OwnerKey()
	two := newSite(t, yaml).start(t)
	two.within(key, 200)
	const body = `{"model":"lab/tomorrow","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f"}}]}`
	if r := one.request("POST", "/v1/chat/completions", key, body); r.status != 200 || f.taken() != "chat/completions responses" {
		t.Fatalf("the first call = %d %s", r.status, r.body)
	}
	f.mu.Lock()
	f.closing = true // nobody can learn it from the upstream any more
	f.mu.Unlock()
	eventually(t, "the other node to know it", func() bool {
		return two.request("POST", "/v1/chat/completions", key, body).status == 200
	})
}
