package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/runaway"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/notice"
)

// dearModels is a configuration with models whose calls cost three cents, at an upstream that answers any call.
func dearModels(t *testing.T) string {
	t.Helper()
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/embeddings") {
			fmt.Fprint(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,2]}],"model":"m","usage":{"prompt_tokens":30,"total_tokens":30}}`)
			return
		}
		fmt.Fprint(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`)
	}))
	t.Cleanup(u.Close)
	return fmt.Sprintf(`
alerts: {allow_hosts: [127.0.0.1]}
signup: open
plans:
  none: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}
  scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}
providers: [{name: one, kind: openai, base_url: %q}]
models:
  - {id: lab/dear, provider: one, plan: free, context_length: 100000, max_output: 1000, pricing: {input: 1000, output: 4000}}
  - {id: lab/dearest, kind: embedding, provider: one, plan: free, context_length: 8192, pricing: {input: 100000, output: 0}}
  - {id: lab/vec, kind: embedding, provider: one, plan: free, context_length: 8192, pricing: {input: 1000, output: 0}}
`, u.URL)
}

// dear is a body for each door of dearModels.
var dear = map[string]string{
	"/v1/chat/completions":       `{"model":"lab/dear","messages":[{"role":"user","content":"again"}]}`,
	"/v1/responses":              `{"model":"lab/dear","input":"again"}`,
	"/v1/messages":               `{"model":"lab/dear","max_tokens":100,"messages":[{"role":"user","content":"again"}]}`,
	"/v1/embeddings":             `{"model":"lab/vec","input":"again"}`,
	"/v1/video/generations/jobs": `{"model":"video-default","prompt":"again","width":854,"height":480,"n_seconds":1}`,
}

// loop makes the same call again and again.
func (n *node) loop(key string, times int) {
	n.t.Helper()
	for i := range times {
		if r := n.request("POST", "/v1/chat/completions", key, dear["/v1/chat/completions"]); r.status != 200 {
			n.t.Fatalf("call %d = %d %s, want 200", i, r.status, r.body)
		}
	}
}

// watchIn returns the record in a reply, which must be a 200.
func (n *node) watchIn(r reply) (w runaway.Record) {
	n.t.Helper()
	if err := json.Unmarshal([]byte(r.body), &w); err != nil || r.status != 200 || w.Object != "budget.watch" {
		n.t.Fatalf("= %d %s, want a budget.watch", r.status, r.body)
	}
	return w
}

// A loop leads to one mail, one message and one webhook; its key is paused if its owner wants that, and passes again once somebody has
// resumed it, until the loop is seen anew.
func TestRunaway(t *testing.T) {
	t.Parallel()
	m, n := newMailbox(t), newSite(t, dearModels(t)).start(t)
	ana := n.join("ana@example.com")
	ana.leads(ana.post("/dashboard/webhooks", "url", m.URL, "types", "budget.runaway"), "POST /dashboard/webhooks", "whsec_")
	night := must[admin.NewKey](n, "key.create", admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: ana.email, Name: "loop"}})
	owner := n.Owner(ana.email)
	told := func(what string, alerts, pauses int) {
		t.Helper()
		n.LookForRunaways(t.Context())
		mails := func(text string) int {
			return strings.Count(n.log.String(), `"subject":"The key \"loop\"`+text)
		}
		eventually(t, what+": the mails and webhooks", func() bool {
			return mails(" may have a runaway program") >= alerts && mails(" is paused") >= pauses && len(m.got("budget.runaway")) >= alerts+pauses
		})
		all, err := n.Notices(owner)
		all = slices.DeleteFunc(all, func(one notice.Notice) bool { return one.Kind != notice.Budget })
		if mails(" may have a runaway program") != alerts || mails(" is paused") != pauses || len(m.got("budget.runaway")) != alerts+pauses || len(all) != alerts+pauses || err != nil {
			t.Errorf("%s: %d and %d mails, %d webhooks and %d messages, want %d and %d mails: %v", what, mails(" may have a runaway program"), mails(" is paused"), len(m.got("budget.runaway")), len(all), alerts, pauses, err)
		}
	}
	n.loop(night.Key, 19)
	told("19 times", 0, 0)
	n.loop(night.Key, 1)
	told("a loop", 1, 0)
	n.loop(night.Key, 1) // nobody has asked for a pause

	// The owner asks for a pause on the page, and the next loop is refused on all doors.
	page := ana.leads(ana.post("/dashboard/budgets/watch", "on_runaway", "pause", "factor", "7"), "the watch", "It applies from the next call on.").body
	if !strings.Contains(page, `value="pause" checked`) || !strings.Contains(page, `value="7"`) {
		t.Errorf("the page does not show the choice: %s", page)
	}
	again := must[admin.NewKey](n, "key.create", admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: ana.email, Name: "loop 2"}})
	n.loop(again.Key, 20)
	n.LookForRunaways(t.Context())
	refused := func(what string) {
		t.Helper()
		eventually(t, what+": the pause", func() bool {
			return n.request("POST", "/v1/embeddings", again.Key, dear["/v1/embeddings"]).status == 402
		})
		for path, body := range dear {
			r := n.request("POST", path, again.Key, body)
			var got struct {
				Error struct {
					Type, Message string
					Budget        map[string]any
					Details       struct{ Budget map[string]any }
				}
			}
			_ = json.Unmarshal([]byte(r.body), &got)
			kind, b := "budget_exceeded", got.Error.Budget
			if path == "/v1/messages" {
				kind, b = "billing_error", got.Error.Details.Budget
			}
			scope, _ := b["scope"].(map[string]any)
			if r.status != 402 || got.Error.Type != kind || r.header.Get("X-Should-Retry") != "false" || r.header.Get("Retry-After") != "" ||
				scope["key"] != again.ID || b["name"] != "runaway watch" || b["signal"] != "same_prompt" || b["paused_at"] == nil {
				t.Errorf("%s: %s = %d %v %s, want a 402 that names the key and is not retried", what, path, r.status, r.header, r.body)
			}
			for _, want := range []string{"The same prompt was sent 20 times within 10 minutes to the model lab/dear", "POST /v1/budgets/resume"} {
				if !strings.Contains(got.Error.Message, want) {
					t.Errorf("%s: %s says %q, want %q", what, path, got.Error.Message, want)
				}
			}
		}
	}
	refused("a loop")
	if r := n.request("POST", "/v1/messages/count_tokens", again.Key, dear["/v1/messages"]); r.status != 200 {
		t.Errorf("counting tokens with a paused key = %d %s, want 200", r.status, r.body)
	}
	n.loop(night.Key, 1) // other keys go on

	// The page shows why, and its button works twice.
	for _, want := range []string{"The key loop 2 is paused", "The same prompt was sent 20 times", `name="key" value="` + again.ID + `"`} {
		ana.wants(ana.get("/dashboard/budgets"), "the page", 200, want)
	}
	ana.leads(ana.post("/dashboard/budgets/resume", "key", again.ID), "resuming", "The key was resumed")
	ana.leads(ana.post("/dashboard/budgets/resume", "key", again.ID), "resuming again", "The key was resumed")
	ana.leads(ana.post("/dashboard/budgets/resume", "key", "key_none"), "resuming no key", "no longer exists")
	n.loop(again.Key, 15) // it would be the same signal if what was before still counted
	n.LookForRunaways(t.Context())
	n.loop(again.Key, 5)
	n.LookForRunaways(t.Context())
	refused("the loop again")

	// The master key resumes it; a sub-key must not.
	for _, c := range []struct {
		key, body string
		status    int
		says      string
	}{
		{again.Key, `{"key":"` + again.ID + `"}`, 403, "master key only"},
		{ana.key, `{}`, 400, "key is required"},
		{ana.key, `{"key":7}`, 400, "key must be a string"},
		{ana.key, `{"id":"x"}`, 400, "no member"},
		{ana.key, `{"key":"key_none"}`, 404, "no key"},
	} {
		if r := n.request("POST", "/v1/budgets/resume", c.key, c.body); r.status != c.status || !strings.Contains(r.body, c.says) {
			t.Errorf("POST /v1/budgets/resume %s = %d %s, want %d %s", c.body, r.status, r.body, c.status, c.says)
		}
	}
	if w := n.watchIn(n.request("POST", "/v1/budgets/resume", ana.key, `{"key":"`+again.ID+`"}`)); len(w.Paused) != 0 || w.OnRunaway != account.Pause || w.Factor != 7 {
		t.Errorf("the record = %+v, want a watch without a paused key", w)
	}
	n.loop(again.Key, 1)
	log := ana.get("/dashboard/account/log").body
	for _, want := range []string{"The runaway watch was changed", "A key was paused", "A key was resumed"} {
		if !strings.Contains(log, want) {
			t.Errorf("the account log has no %q", want)
		}
	}
	// What is wrong with the form stands beside its field.
	for _, form := range [][]string{{"on_runaway", "pause", "factor", "many"}, {"on_runaway", "pause", "factor", "1"}, {"on_runaway", "x", "factor", "5"}} {
		ana.wants(ana.post("/dashboard/budgets/watch", form...), "a wrong form", 400, `class="wrong"`)
	}
}

// Operators change the watch, see which keys are paused, and resume them. A key that spends far more than in its past is paused, too.
func TestRunawaySpending(t *testing.T) {
	t.Parallel()
	n := newSite(t, dearModels(t)+"public_url: https://ai.example.com\n").start(t)
	a := n.customer("ana@example.com")
	was := must[runaway.Record](n, "budget.watch", admin.WatchOrder{Actor: "t", Ref: a.ID})
	if was.OnRunaway != account.Alert || was.Factor != 5 || len(was.Paused) != 0 {
		t.Errorf("the watch of a new account = %+v, want the defaults", was)
	}
	is := must[runaway.Record](n, "budget.watch", admin.WatchOrder{Actor: "t", Ref: a.ID, OnRunaway: new(account.Pause), Factor: new(2)})
	if is.OnRunaway != account.Pause || is.Factor != 2 {
		t.Errorf("the watch = %+v, want pauses and a factor of 2", is)
	}
	for _, bad := range []admin.WatchOrder{{OnRunaway: new(account.OnRunaway("stop"))}, {Factor: new(1)}, {Factor: new(1001)}} {
		bad.Actor, bad.Ref = "t", a.ID
		if err := n.call("budget.watch", bad, nil); err == nil {
			t.Errorf("budget.watch %+v passed", bad)
		}
	}
	// Two days ago it has spent a dollar in an hour.
	key := n.Account(a.ID).Master().ID
	n.exec(fmt.Sprintf(`INSERT INTO usage_hours (account_id, start, key_id, model, requests, failed, prompt, cached, completion, reasoning, request_milli, unit_milli, cost_micro, unpriced, latency_ms, first_token_ms, first_tokens)
		VALUES ('%s', %d, '%s', 'lab/dear', 1, 0, 0, 0, 0, 0, 0, 0, 1000000, 0, 0, 0, 0)`, a.ID, time.Now().Add(-48*time.Hour).Truncate(time.Hour).UnixMilli(), key))
	if r := n.request("POST", "/v1/embeddings", a.MasterKey, `{"model":"lab/dearest","input":"three dollars"}`); r.status != 200 {
		t.Fatalf("the call = %d %s", r.status, r.body)
	}
	n.LookForRunaways(t.Context())
	eventually(t, "the pause", func() bool { return len(n.Account(a.ID).Runaway.Paused) == 1 })
	is = must[runaway.Record](n, "budget.watch", admin.WatchOrder{Actor: "t", Ref: a.ID})
	if len(is.Paused) != 1 || is.Paused[0].Key != key || is.Paused[0].Name != nil || is.Paused[0].Signal != runaway.SpendRate || !strings.Contains(is.Paused[0].Seen, "times what counts as its busiest hour") {
		t.Errorf("the watch = %+v, want the paused master key", is)
	}
	if r := n.request("POST", "/v1/embeddings", a.MasterKey, dear["/v1/embeddings"]); r.status != 402 || !strings.Contains(r.body, "https://ai.example.com/dashboard/budgets") {
		t.Errorf("a call = %d %s, want 402 with the page", r.status, r.body)
	}
	if is = must[runaway.Record](n, "budget.resume", admin.KeyToResume{Actor: "t", Ref: a.ID, Key: key}); len(is.Paused) != 0 {
		t.Errorf("the watch = %+v, want no paused key", is)
	}
	if r := n.request("POST", "/v1/embeddings", a.MasterKey, dear["/v1/embeddings"]); r.status != 200 {
		t.Errorf("a call of the resumed key = %d %s, want 200", r.status, r.body)
	}
	n.LookForRunaways(t.Context())
	if p := n.Account(a.ID).Runaway.Paused; len(p) != 0 {
		t.Errorf("paused again at once: %+v", p)
	}
}

// A pause and a resume hold on every node from the next call on.
func TestRunawayOverNodes(t *testing.T) {
	t.Parallel()
	nodes, _ := threeNodes(t, dearModels(t))
	a := nodes[0].customer("ana@example.com")
	must[runaway.Record](nodes[1], "budget.watch", admin.WatchOrder{Actor: "t", Ref: a.ID, OnRunaway: new(account.Pause)})
	everywhere := func(what string, status int) {
		t.Helper()
		for i, n := range nodes {
			if r := n.request("POST", "/v1/embeddings", a.MasterKey, dear["/v1/embeddings"]); r.status != status {
				t.Errorf("%s: a call on node %d = %d %s, want %d", what, i, r.status, r.body, status)
			}
		}
	}
	everywhere("before", 200)
	nodes[2].loop(a.MasterKey, 20)
	nodes[2].LookForRunaways(t.Context())
	eventually(t, "the pause", func() bool { return len(nodes[2].Account(a.ID).Runaway.Paused) == 1 })
	everywhere("paused by node 2", 402)
	nodes[0].watchIn(nodes[0].request("POST", "/v1/budgets/resume", a.MasterKey, `{"key":"`+nodes[0].Account(a.ID).Master().ID+`"}`))
	everywhere("resumed on node 0", 200)
}
