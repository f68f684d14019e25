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

// bounded is an upstream that speaks chat completions, Responses and embeddings, and tells what it was asked.
func bounded(t *testing.T) (url string, asked chan map[string]any) {
	t.Helper()
	asked = make(chan map[string]any, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var all map[string]any
		if err := json.Unmarshal(body, &all); err != nil {
			t.Errorf("the upstream gets %s", body)
		}
		asked <- all
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/responses"):
			fmt.Fprint(w, `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"i","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}],"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15}}`)
		case strings.HasSuffix(r.URL.Path, "/embeddings"):
			fmt.Fprint(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,2]}],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}`)
		default:
			fmt.Fprint(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// max_cost bounds the reply by what the call may cost: the upstream is told a bound that the caller has not set. Below what any
// reply costs the call is refused with the cheapest model that would do, and nobody is asked.
func TestMaxCost(t *testing.T) {
	t.Parallel()
	upstream, asked := bounded(t)
	n := newSite(t, fmt.Sprintf(`
public_url: https://ai.example.com
providers:
  - {name: chat, kind: openai, base_url: %[1]q}
  - {name: responses, kind: openai, base_url: %[1]q, api: responses}
models:
  - {id: dear, provider: chat, plan: free, context_length: 100000, max_output: 10000, pricing: {input: 1, output: 100}}
  - {id: spoken, provider: responses, plan: free, context_length: 100000, max_output: 10000, pricing: {input: 1, output: 100}}
  - {id: cheap, provider: chat, plan: free, context_length: 100000, max_output: 10000, pricing: {input: 0.001, output: 0.01}}
  - {id: unknown, provider: chat, plan: free, context_length: 100000, max_output: 10000}
  - {id: vec, kind: embedding, provider: chat, plan: free, context_length: 8192, pricing: {input: 1000}}
sandbox: false
`, upstream)).start(t)
	a := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "scale"})
	doors := map[string]string{
		"/v1/chat/completions": `{"model":%q,%s"messages":[{"role":"user","content":"Hi"}]}`,
		"/v1/responses":        `{"model":%q,%s"input":"Hi"}`,
		"/v1/messages":         `{"model":%q,%s"max_tokens":9000,"messages":[{"role":"user","content":"Hi"}]}`,
	}
	for path, body := range doors {
		for _, model := range []string{"dear", "spoken"} {
			for _, tt := range []struct {
				more    string
				header  []string
				clamped bool
			}{
				{``, nil, false},
				{`"max_cost":5,"budget":{"clamp":true},`, nil, false},
				{`"max_cost":0.1,`, nil, true},
				{``, []string{"X-Sluice-Max-Cost", "0.1"}, true},
				{`"max_cost":5,`, []string{"X-Sluice-Max-Cost", "1e-1"}, true},
				{`"max_cost":0.1,`, []string{"X-Sluice-Max-Cost", "5"}, true},
			} {
				r := n.answered(n.asking(a.MasterKey, path, fmt.Sprintf(body, model, tt.more), tt.header...))
				told, ok := strings.CutPrefix(r.header.Get("X-Sluice-Clamped"), "max_tokens=")
				if r.status != 200 || ok != tt.clamped {
					t.Errorf("%s of %s with %s %q = %d, clamped %q: %s", path, model, tt.more, tt.header, r.status, told, r.body)
					continue
				}
				got := <-asked
				name := map[string]string{"dear": "max_tokens", "spoken": "max_output_tokens"}[model]
				most, _ := got[name].(float64)
				// A tenth of a dollar pays for nearly 1000 tokens of a reply.
				if tt.clamped && (most < 900 || most >= 1000 || fmt.Sprint(most) != told) {
					t.Errorf("%s of %s with %s %q: the upstream gets %v, and the caller is told %q", path, model, tt.more, tt.header, got, told)
				}
				for _, ours := range []string{"max_cost", "budget"} {
					if _, has := got[ours]; has {
						t.Errorf("%s: the upstream of %s gets %v", path, model, got)
					}
				}
			}
		}
		r := n.request("POST", path, a.MasterKey, fmt.Sprintf(body, "dear", `"max_cost":0.001,`))
		n.refusedBudget(t, path, r, `"cheap" would cost at most $0.0`, `"scope":{"request":true}`)
		r = n.request("POST", path, a.MasterKey, fmt.Sprintf(body, "dear", `"max_cost":0,`))
		n.refusedBudget(t, path, r, "Set a smaller max_tokens or a larger max_cost.", `"amount":"0.00"`)
		r = n.request("POST", path, a.MasterKey, fmt.Sprintf(body, "unknown", `"max_cost":1,`))
		n.refusedBudget(t, path, r, "has no price", `"amount":null`)
		for _, bad := range []string{"", "a", "-1", "0x1", "1e400", "NaN", "1000001", "1, 1"} {
			r := n.answered(n.asking(a.MasterKey, path, fmt.Sprintf(body, "dear", ""), "X-Sluice-Max-Cost", bad))
			if r.status != 400 || !strings.Contains(strings.ReplaceAll(r.body, "cost: must", "cost must"), "x-sluice-max-cost must be a number of dollars") {
				t.Errorf("%s with x-sluice-max-cost %q = %d %s, want 400", path, bad, r.status, r.body)
			}
		}
	}
	const vectors = `{"model":"vec","max_cost":%s,"budget":{"clamp":true},"input":"Hi"}`
	if r := n.request("POST", "/v1/embeddings", a.MasterKey, fmt.Sprintf(vectors, "1")); r.status != 200 {
		t.Errorf("embeddings = %d %s", r.status, r.body)
	} else if got := <-asked; got["max_cost"] != nil || got["budget"] != nil {
		t.Errorf("the upstream gets %v", got)
	}
	n.refusedBudget(t, "embeddings", n.request("POST", "/v1/embeddings", a.MasterKey, fmt.Sprintf(vectors, "0.0001")), "max_cost is $0.0001", `"scope":{"request":true}`)
	if r := n.request("POST", "/v1/route", a.MasterKey, fmt.Sprintf(doors["/v1/chat/completions"], "dear", `"max_cost":1,"budget":{"clamp":true},`)); r.status != 200 {
		t.Errorf("/v1/route = %d %s", r.status, r.body)
	}
	select {
	case got := <-asked:
		t.Errorf("the upstream was asked for a call that was refused: %v", got)
	default:
	}
	eventually(t, "refused calls to be listed with their reason", func() bool {
		list := n.get("/v1/requests?outcome=refused", a.MasterKey).body
		return strings.Contains(list, "budget_exceeded") && strings.Contains(list, "max_cost is $0.001")
	})
}

// refusedBudget checks the whole reply to a call that may cost too much.
func (n *node) refusedBudget(t *testing.T, what string, r reply, words ...string) {
	t.Helper()
	var got struct {
		Error struct {
			Type    string
			Budget  json.RawMessage
			Details struct{ Budget json.RawMessage }
		}
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatalf("%s = %s: %v", what, r.body, err)
	}
	kind, budget := "budget_exceeded", got.Error.Budget
	if what == "/v1/messages" {
		kind, budget = "billing_error", got.Error.Details.Budget
	}
	h := r.header
	if r.status != http.StatusPaymentRequired || got.Error.Type != kind || budget == nil || h.Get("X-Should-Retry") != "false" || h.Get("Retry-After") != "" || h.Get("Retry-After-Ms") != "" || h.Get("X-Ratelimit-Limit-Requests") == "" {
		t.Errorf("%s = %d %v %s, want a 402 of type %s that is not retried", what, r.status, h, r.body, kind)
	}
	text := strings.ReplaceAll(r.body, `\"`, `"`)
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s = %s, want %s", what, r.body, w)
		}
	}
	if strings.Contains(r.body, "/dashboard/budgets") {
		t.Errorf("%s = %s: max_cost is no budget that the owner could raise", what, r.body)
	}
}
