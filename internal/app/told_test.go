package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/operate/admin"
)

// costOf returns what the usage of a reply tells, or of the last event of a stream that has one.
func costOf(t *testing.T, r reply) (cost string) {
	t.Helper()
	for line := range strings.Lines(r.body) {
		var all struct{ Usage, Response map[string]json.RawMessage }
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &all) == nil && all.Usage["cost"] != nil {
			cost = string(all.Usage["cost"])
		}
	}
	return cost
}

// What a call costs is told once it is settled, and told again by everything that repeats the reply: the repeat of its
// Idempotency-Key, and the stored response. A conversation with tools is one call.
func TestCostIsRepeated(t *testing.T) {
	t.Parallel()
	upstream, _ := costly(t)
	tools, _ := toolServer(t)
	n := newSite(t, fmt.Sprintf(`
mcp: {allow_hosts: [127.0.0.1]}
providers: [{name: good, kind: openai, base_url: %q}]
models:
  - {id: good, provider: good, plan: free, context_length: 100000, max_output: 1000, tool_calling: true, pricing: {input: 1, output: 2}}
`, upstream)).start(t)
	a := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"})
	const one = "0.0011" // 1000 tokens at 1 dollar a million and 50 at 2

	check := func(what string, r reply, header, usage string) {
		t.Helper()
		if got := r.header.Get("X-Sluice-Cost"); r.status != 200 || got != header || costOf(t, r) != usage {
			t.Errorf("%s: %d, x-sluice-cost %q and usage.cost %q, want %q and %q: %s", what, r.status, got, costOf(t, r), header, usage, r.body)
		}
	}
	body := `{"model":"good","usage":{"include":true},"messages":[{"role":"user","content":"please answer."}]}`
	check("first", n.want(a.MasterKey, "k1", body, 200, false), one, one)
	check("repeat", n.want(a.MasterKey, "k1", body, 200, true), one, one)
	check("tools", n.request("POST", chatPath, a.MasterKey, fmt.Sprintf(`{"model":"good","usage":{"include":true},"messages":[{"role":"user","content":"please echo."}],"tools":[{"type":"mcp","server_label":"t","server_url":%q}]}`, tools)), "0.0022", "0.0022")

	made := n.request("POST", "/v1/responses", a.MasterKey, `{"model":"good","usage":{"include":true},"input":"please answer."}`)
	check("response", made, one, one)
	var id struct{ ID string }
	if err := json.Unmarshal([]byte(made.body), &id); err != nil {
		t.Fatal(err)
	}
	check("stored response", n.get("/v1/responses/"+id.ID, a.MasterKey), "", one)
	n.shelve()
	if r := n.get("/v1/requests", a.MasterKey); strings.Count(r.body, `"list_price_usd":0.0011`) != 2 || strings.Count(r.body, `"list_price_usd":0.0022`) != 1 {
		t.Errorf("GET /v1/requests = %s, want two calls at %s and one at twice that", r.body, one)
	}
}

// An account whose replies show their cost need not ask for it, from the next call on. The owner and the operator can change that.
func TestCostInEveryReply(t *testing.T) {
	t.Parallel()
	upstream, _ := costly(t)
	n := newSite(t, fmt.Sprintf(`
providers: [{name: good, kind: openai, base_url: %q}]
models: [{id: good, provider: good, plan: free, context_length: 100000, max_output: 1000, pricing: {input: 1, output: 2}}]
`, upstream)).start(t)
	ana := n.join("ana@example.com")
	must[admin.Account](n, "account.set-plan", admin.Target{Actor: "t", Ref: "ana@example.com", Plan: "scale"})
	shown := func(want string) {
		t.Helper()
		for _, usage := range []string{"", `"usage":{"include":false},`} {
			r := n.request("POST", chatPath, ana.key, `{"model":"good",`+usage+`"messages":[{"role":"user","content":"please answer."}]}`)
			if got := costOf(t, r); r.status != 200 || got != want {
				t.Errorf("usage.cost = %q, want %q: %s", got, want, r.body)
			}
		}
	}
	shown("")
	ana.wants(ana.post("/dashboard/account/replies", "show_cost", "yes"), "turning it on", 303, "/account")
	shown("0.0011")
	ana.wants(ana.get("/dashboard/account?replies"), "the page", 200, `name="show_cost" value="yes" autofocus checked`)
	ana.wants(ana.get("/dashboard/account?replies"), "the page", 200, `name="receipts" value="yes" aria-describedby`)
	ana.wants(ana.get("/dashboard/account/log"), "the log", 200, "What replies say, whether requests leave receipts, or how prompts are cached, was changed")
	ana.wants(ana.post("/dashboard/account/replies", "receipts", "yes"), "turning it off, and receipts on", 303, "/account")
	ana.wants(ana.get("/dashboard/account?replies"), "the page", 200, `name="show_cost" value="yes" autofocus aria-describedby`)
	ana.wants(ana.get("/dashboard/account?replies"), "the page", 200, `name="receipts" value="yes" checked`)
	shown("")
	on := true
	if a := must[admin.Account](n, "account.set-replies", admin.NewReplies{Actor: "t", Ref: "ana@example.com", ShowCost: &on}); !a.ShowCost || !a.Receipts {
		t.Errorf("account.set-replies = %+v, want the cost shown, and receipts as they were", a)
	}
	shown("0.0011")
	if err := n.call("account.set-replies", admin.NewReplies{Actor: "t", Ref: "ana@example.com"}, &admin.Account{}); err == nil || !strings.Contains(err.Error(), "show_cost") {
		t.Errorf("account.set-replies without anything to set = %v, want it refused", err)
	}
	// Exports have the same figures, by call and by day, and nothing of what the operator pays.
	eventually(t, "the exports to have all calls", func() bool {
		all, list := strings.ReplaceAll(ana.get("/dashboard/account.json").body, " ", ""), ana.get("/dashboard/activity.csv").body
		return strings.Count(all, `"cost_usd":0.0011`) == 8 && strings.Contains(all, `"cost_usd":0.0088`) && !strings.Contains(all, "_nano") && strings.Count(list, ",0.0011,") == 8
	})
}

// No upstream gets usage, in whatever dialect the request reaches it.
func TestUsageStaysHere(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		http.Error(w, `{"error":{"message":"No."}}`, http.StatusBadRequest)
	}))
	t.Cleanup(s.Close)
	n := newSite(t, fmt.Sprintf(`
providers:
  - {name: chat, kind: openai, base_url: %[1]q}
  - {name: responses, kind: openai, base_url: %[1]q, api: responses}
  - {name: claude, kind: anthropic, base_url: %[1]q, api_keys: [k]}
models:
  - {id: chat, provider: chat, plan: free, context_length: 100000, max_output: 1000}
  - {id: responses, provider: responses, plan: free, context_length: 100000, max_output: 1000}
  - {id: claude, provider: claude, plan: free, context_length: 100000, max_output: 1000}
  - {id: vec, kind: embedding, provider: chat, plan: free, context_length: 8192}
`, s.URL)).start(t)
	a := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"})
	for path, rest := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"Hi"}]`, "/v1/responses": `"input":"Hi"`, "/v1/messages": `"max_tokens":50,"messages":[{"role":"user","content":"Hi"}]`,
		"/v1/embeddings": `"input":"Hi"`,
	} {
		for _, model := range []string{"chat", "responses", "claude", "vec"} {
			if (model == "vec") != (path == "/v1/embeddings") {
				continue
			}
			r := n.request("POST", path, a.MasterKey, fmt.Sprintf(`{"model":%q,"usage":{"include":true},%s}`, model, rest))
			if r.status != 400 || r.header.Get("X-Sluice-Dropped") != "" {
				t.Errorf("%s of %s = %d, dropped %q, want the upstream's 400: %s", path, model, r.status, r.header.Get("X-Sluice-Dropped"), r.body)
			}
			if got := <-bodies; strings.Contains(got, `"usage"`) {
				t.Errorf("%s: the upstream of %s gets %s", path, model, got)
			}
		}
	}
}
