package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/finder"
)

// throughProxy asks for a completion as a proxy does that names the request and its client.
func (n *node) throughProxy(body, id, client string) reply {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.scheme+n.Addr()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.OwnerKey())
	req.Header.Set("X-Request-Id", id)
	req.Header.Set("X-Forwarded-For", client)
	resp, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
}

// The way of a request is found by all the ids that it has, with every attempt, and has nothing of what was said.
func TestRequestsAreFound(t *testing.T) {
	t.Parallel()
	one, two := newMoody(t), newMoody(t)
	one.mood.Store(int32(busy))
	n := newSite(t, fmt.Sprintf(`sandbox: false
discover: false
trusted_proxies: [127.0.0.0/8]
providers: [{name: one, kind: openai, base_url: %q}, {name: two, kind: openai, base_url: %q}]
models:
  - {id: a, provider: one, upstream: x, fallbacks: [b], plan: free, context_length: 1000, max_output: 100}
  - {id: b, provider: two, upstream: y, plan: free, context_length: 1000, max_output: 100}
`, one.URL, two.URL)).start(t)
	boss, _ := n.staffMember("boss@example.com")
	secret := `{"model":"a","messages":[{"role":"user","content":"hush, a secret"}],"max_tokens":50}`
	r := n.throughProxy(secret, "proxy-17", "203.0.113.9")
	if r.status != 200 || r.header.Get("X-Request-Id") != "proxy-17" {
		t.Fatalf("the call = %d %s with the id %q", r.status, r.body, r.header.Get("X-Request-Id"))
	}
	n.shelve()
	completion := between(r.body, `"id":"`, `"`)
	for _, id := range []string{completion, strings.TrimPrefix(completion, "chatcmpl-"), "proxy-17"} {
		found := n.found(id)
		if len(found.Settled) != 1 || len(found.Refused) != 0 {
			t.Fatalf("request.show %s = %+v, want one settled request", id, found)
		}
		s := &found.Settled[0]
		if s.Address != "203.0.113.9" || s.RequestID != "proxy-17" || s.ModelAsked != "a" || s.Model != "b" || s.Email != "owner@localhost" || s.KeyName != "master key" || s.Outcome != "complete" || s.Status != 200 {
			t.Errorf("request.show %s = %+v", id, s)
		}
		if got := fmt.Sprintf("%d %s %s %d %s %s", len(s.Attempts), s.Attempts[0].Provider, s.Attempts[0].Outcome, s.Attempts[0].Status, s.Attempts[1].Provider, s.Attempts[1].Outcome); got != "2 one refused 429 two answered" {
			t.Errorf("the attempts are %s", got)
		}
		page := boss.wants(boss.get("/support/requests?id="+id), "the request's page", 200, "203.0.113.9")
		for _, text := range []string{"owner@localhost", "a at one", "b at two", "refused", "429", "answered", "fallback for a"} {
			if !strings.Contains(page.body, text) {
				t.Errorf("the page of %s lacks %q", id, text)
			}
		}
		if strings.Contains(page.body, "hush") {
			t.Errorf("the page of %s has the prompt", id)
		}
		boss.wants(boss.get("/support/accounts?q="+id), "a search for the request", 303, "/support/requests?id=")
	}
	boss.wants(boss.get("/support/requests?id=nothing"), "an unknown request", 404, "No request with this id is known")
	boss.wants(boss.get("/support/requests"), "the finder", 200, "Find a request")
	boss.wants(boss.get("/support/requests"), "the finder before any refusal", 200, "No requests were refused in the last 30 days")
	boss.wants(boss.get("/support/requests?id="+strings.Repeat("x", finder.MaxTerm+1)), "a long id", 400, "at most")
}

// Refused calls are shown to support and to their customer, at once, and to no other customer.
func TestRefusedCallsAreShown(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	boss, _ := n.staffMember("boss@example.com")
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	must[admin.Account](n, "account.set-plan", admin.Target{Actor: "tester", Ref: ana.email, Plan: "free"})
	ids := map[int]string{}
	for _, tt := range []struct {
		status int
		body   string
	}{
		{400, `{"model":"nothing/none","messages":[{"role":"user","content":"hi"}]}`},
		{403, `{"model":"sandbox/heavy","messages":[{"role":"user","content":"hi"}]}`},
	} {
		r := n.request("POST", "/v1/chat/completions", ana.key, tt.body)
		if r.status != tt.status {
			t.Fatalf("the call = %d %s, want %d", r.status, r.body, tt.status)
		}
		ids[tt.status] = r.header.Get("X-Request-Id")
	}
	for _, id := range ids {
		n.found(id)
	}
	n.shelve()
	page := ana.wants(ana.get("/dashboard/activity"), "the activity page", 200, "403 refused")
	list := boss.wants(boss.get("/support/requests?account="+ana.email), "the list", 200, "Refused requests of")
	newest := boss.wants(boss.get("/support/requests"), "the newest of all", 200, ana.email)
	for _, status := range []int{400, 403} { // each is found by its status, and no other
		only := boss.wants(boss.get(fmt.Sprint("/support/requests?status=", status)), "the newest of one status", 200, ids[status]).body
		if strings.Contains(only, ids[403]) != (status == 403) {
			t.Errorf("of the status %d there are %q", status, only)
		}
	}
	denied := boss.wants(boss.get("/support/requests?kind=permission_error"), "the newest of one error", 200, ids[403]).body
	if strings.Contains(denied, ids[400]) {
		t.Errorf("of the error permission_error there are %q", denied)
	}
	boss.wants(boss.get("/support/requests?model=nothing"), "the newest of no model", 200, "None of the last 1,000 refused requests match")
	boss.wants(boss.get("/support/requests?status=x"), "a status that is none", 400, "whole number")
	for status, id := range ids {
		if !strings.Contains(newest.body, id) {
			t.Errorf("the call that was refused with %d is not among the newest", status)
		}
		if !strings.Contains(page.body, id) || !strings.Contains(list.body, id) {
			t.Errorf("the call that was refused with %d is missing from a page", status)
		}
		if got := n.found(id); len(got.Refused) != 1 || got.Refused[0].Status != status || got.Refused[0].Email != ana.email {
			t.Errorf("request.show = %+v, want one refused with %d", got, status)
		}
		boss.wants(boss.get("/support/requests?id="+id), "a refused request", 200, fmt.Sprint(status, " refused"))
	}
	if strings.Contains(page.body, "nothing/none") {
		t.Error("the activity page repeats a model that does not exist")
	}
	if strings.Contains(bob.wants(bob.get("/dashboard/activity"), "bob's activity page", 200, "No requests in ").body, ids[400]) {
		t.Error("bob sees a call of ana")
	}
	ana.wants(ana.get("/dashboard/account.json"), "the export", 200, ids[403])
	boss.wants(boss.get("/support/requests?account=nobody@example.com"), "nobody's", 404, "nobody@example.com")

	// The search of the console.
	boss.wants(boss.get("/support/accounts?q=ana@"), "a search that finds one", 303, "/support/accounts/acct_")
	both := boss.wants(boss.get("/support/accounts?q=b"), "a search that finds two", 200, "bob@example.com")
	if !strings.Contains(both.body, "boss@example.com") || strings.Contains(both.body, "ana@example.com") {
		t.Errorf("a search for b shows %s", both.body)
	}
	boss.wants(boss.get("/support/accounts?q="+ana.key[len(ana.key)-4:]), "a search for the last four", 303, "/support/accounts/acct_")
	boss.wants(boss.get("/support/accounts?q=nobody"), "a search that finds nothing", 404, "No account matches")
	boss.wants(boss.get("/support/accounts?q=example.com"), "a search inside addresses", 200, "ana@example.com")
}

// found waits until a request is found. The database may take a while to learn of it, and nobody waits long for
// a busy one.
func (n *node) found(id string) (requests admin.Requests) {
	n.t.Helper()
	eventually(n.t, "that request "+id+" is found", func() bool {
		return n.call("request.show", admin.RequestQuery{ID: id}, &requests) == nil
	})
	return requests
}
