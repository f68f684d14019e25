package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// What POST /v1/route says is what happens. It calls nobody and costs one request.
func TestRoute(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	key := n.OwnerKey()
	conversation := `{"role":"user","content":"Call the echo tool with message \"x\""}`
	const echo = `,"tools":[{"type":"function","function":{"name":"echo","parameters":{"type":"object","properties":{"message":{"type":"string"}}}}}]`
	for _, tt := range []struct{ messages, more string }{
		{`{"role":"user","content":"Hello"}`, ""},
		{`{"role":"user","content":"Write a Python function that sorts a list."}`, ""},
		{`{"role":"user","content":"Hello"}`, `,"max_tokens":40000`},
		{conversation, echo},
		{conversation + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"echo","arguments":"{\"message\":\"x\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"x"}`, echo},
	} {
		body := fmt.Sprintf(`{"model":"service/auto","messages":[%s]%s}`, tt.messages, tt.more)
		before := n.get("/v1/account", key).body
		r := n.request("POST", "/v1/route", key, body)
		if after := n.get("/v1/account", key).body; used(before, after) != 1 {
			t.Errorf("asking for the route of %s did not use one request: %s, then %s", body, before, after)
		}
		var route struct {
			Model, Reason string
			Sticky        bool
			Candidates    []struct{ Model string }
		}
		if err := json.Unmarshal([]byte(r.body), &route); err != nil || r.status != 200 || route.Reason == "" || len(route.Candidates) == 0 {
			t.Fatalf("the route of %s = %d %s", body, r.status, r.body)
		}
		reply := n.request("POST", "/v1/chat/completions", key, body)
		if reply.status != 200 || reply.header.Get("X-Sluice-Model") != route.Model || reply.header.Get("X-Sluice-Route-Reason") != route.Reason {
			t.Errorf("%s was answered %d by %q because %q; the route said %q because %q", body, reply.status,
				reply.header.Get("X-Sluice-Model"), reply.header.Get("X-Sluice-Route-Reason"), route.Model, route.Reason)
		}
		if follows := strings.Contains(tt.messages, "assistant"); route.Sticky != follows {
			t.Errorf("the route of %s is sticky: %t", body, route.Sticky)
		}
	}
}

// A request that is refused before anybody looks at the limits says nothing about them.
func TestRefusedRoute(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	r := n.request("POST", "/v1/route", n.OwnerKey(), `{"model":"none","messages":[{"role":"user","content":"?"}]}`)
	if limit := r.header.Get("X-Ratelimit-Limit-Requests"); r.status != 400 || limit != "" {
		t.Errorf("the route of an unknown model = %d with a limit of %q, want 400 without one", r.status, limit)
	}
}

// used is how many requests were used between two looks at the account; -1: nobody can tell.
func used(before, after string) int {
	left := func(s string) (v struct {
		Remaining struct {
			Requests *struct{ Left int }
		}
	},
	) {
		_ = json.Unmarshal([]byte(s), &v)
		return v
	}
	x, y := left(before).Remaining.Requests, left(after).Remaining.Requests
	if x == nil || y == nil {
		return -1
	}
	return x.Left - y.Left
}

// The page about routing shows what the router chose for the account, and nothing of calls that named their model.
func TestRoutingPage(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	ana.wants(ana.get("/dashboard/activity/routing"), "the page before any call", 200, "No request in the last 30 days")
	r := ana.wants(ana.post("/dashboard/plan/subscribe", "plan", "basic"), "subscribe", 303, "/pay")
	_, payment, _ := strings.Cut(r.header.Get("Location"), "payment=")
	ana.wants(ana.post("/dashboard/plan/pay", "payment", payment, "card", "4242424242424242"), "pay", 303, "/plan")
	n.request("POST", "/v1/chat/completions", ana.key, `{"model":"sandbox/small","messages":[{"role":"user","content":"Hello"}]}`)
	ana.wants(ana.get("/dashboard/activity/routing"), "the page after a call that named its model", 200, "No request in the last 30 days")
	answered := n.request("POST", "/v1/chat/completions", ana.key, `{"model":"service/auto","messages":[{"role":"user","content":"Hello"}]}`).header.Get("X-Sluice-Model")
	if answered == "" {
		t.Fatal("service/auto was answered by nobody")
	}
	eventually(t, "the page to show the call", func() bool {
		body := ana.get("/dashboard/activity/routing").body
		return strings.Contains(body, answered) && strings.Contains(body, "100%")
	})
	// The list says why the router chose the model, as the page of the request does.
	body := ana.get("/dashboard/activity/routing").body
	why, id := between(body, `<td class="text muted">`, `</td>`), between(body, `<a href="/dashboard/activity/requests/`, `"`)
	if page := ana.get("/dashboard/activity/requests/" + id).body; why == "" || !strings.Contains(page, "<dd>"+why+"</dd>") {
		t.Errorf("the newest decision has the reason %q, want that on its page", why)
	}
}
