package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
)

// limited makes a sub-key with limits and returns it.
func (n *node) limited(ref, name string, l *admin.KeyLimits) admin.NewKey {
	return must[admin.NewKey](n, "key.create", admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: ref, Name: name}, Limits: l})
}

func number(n int64) *account.Limit {
	l := account.Limit(n)
	return &l
}

// Each limit of a key refuses calls in its own words, and those of other keys go on.
func TestLimitsOfKeys(t *testing.T) {
	t.Parallel()
	site := newSite(t, "trusted_proxies: [127.0.0.1]\nplans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\n")
	n := site.start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "scale"})
	chat := func(key, model, from string) reply {
		req, err := http.NewRequest("POST", "http://"+n.Addr()+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"model":%q,"max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`, model)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		if from != "" {
			req.Header.Set("X-Forwarded-For", from)
		}
		return n.answered(req)
	}
	wants := func(r reply, status int, text string) {
		t.Helper()
		if r.status != status || !strings.Contains(r.body, text) {
			t.Errorf("= %d %s, want %d with %q", r.status, r.body, status, text)
		}
	}

	began := time.Now()
	rpm := n.limited(made.ID, "two a minute", &admin.KeyLimits{RequestsPerMinute: number(2)})
	wants(chat(rpm.Key, "sandbox/small", ""), 200, "")
	r := chat(rpm.Key, "sandbox/small", "")
	wants(r, 200, "")
	if got := r.header.Get("X-Ratelimit-Remaining-Requests"); got != "0" {
		t.Errorf("requests left = %q, want those of the key, 0", got)
	}
	r = chat(rpm.Key, "sandbox/small", "")
	wants(r, 429, `The key \"two a minute\" may make 2 requests a minute; 2 are used`)
	if r.header.Get("Retry-After") == "" {
		t.Error("a refusal by a key's requests has no Retry-After")
	}
	wants(chat(made.MasterKey, "sandbox/small", ""), 200, "")

	tokens := n.limited(made.ID, "few tokens", &admin.KeyLimits{TokensPerMinute: number(1)})
	wants(chat(tokens.Key, "sandbox/small", ""), 200, "")
	wants(chat(tokens.Key, "sandbox/small", ""), 429, `The key \"few tokens\" may use 1 tokens a minute`)

	units := n.limited(made.ID, "three units", &admin.KeyLimits{UnitsPerMonth: number(3)})
	for range 3 {
		wants(chat(units.Key, "sandbox/small", ""), 200, "")
	}
	r = chat(units.Key, "sandbox/small", "")
	wants(r, 429, `The key \"three units\" may use 3 units a month; 3 are used`)
	if r.header.Get("X-Should-Retry") != "false" {
		t.Error("a refusal by a key's month may be retried")
	}
	video := n.request("POST", "/v1/video/generations/jobs", units.Key, `{"prompt":"x"}`)
	wants(video, 429, "three units")

	models := n.limited(made.ID, "small only", &admin.KeyLimits{Models: []string{"sandbox/small"}})
	wants(chat(models.Key, "sandbox/small", ""), 200, "")
	wants(chat(models.Key, "sandbox/large", ""), 403, `The key \"small only\" may not call the model \"sandbox/large\"; its models are sandbox/small.`)
	wants(chat(models.Key, "service/auto", ""), 403, "permission_error")
	// A reply that another key has got is not for a key that may not call the model.
	for _, door := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"sandbox/large","messages":[{"role":"user","content":"secret"}]}`},
		{"/v1/chat/completions", `{"model":"sandbox/large","stream":true,"messages":[{"role":"user","content":"secret"}]}`},
		{"/v1/responses", `{"model":"sandbox/large","input":"secret"}`},
		{"/v1/messages", `{"model":"sandbox/large","max_tokens":9,"messages":[{"role":"user","content":"secret"}]}`},
		{"/v1/embeddings", `{"model":"sandbox/embed","input":"secret"}`},
		{"/v1/video/generations/jobs", `{"prompt":"secret"}`},
	} {
		ask := func(key string) reply {
			req, err := http.NewRequest("POST", n.scheme+n.Addr()+door.path, strings.NewReader(door.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+key)
			req.Header.Set("Idempotency-Key", door.body)
			return n.answered(req)
		}
		if r := ask(made.MasterKey); r.status != 200 {
			t.Fatalf("%s = %d %s, want 200", door.path, r.status, r.body)
		}
		wants(ask(models.Key), 403, "permission_error")
		if r := ask(made.MasterKey); r.status != 200 || r.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s again = %d %s, want the same reply", door.path, r.status, r.body)
		}
	}

	office := n.limited(made.ID, "office", &admin.KeyLimits{Addresses: []string{"203.0.113.0/24"}})
	wants(chat(office.Key, "sandbox/small", ""), 401, "may not be used from the address 127.0.0.1")
	wants(chat(office.Key, "sandbox/small", "203.0.113.9"), 200, "")
	wants(chat(office.Key, "sandbox/small", "203.0.113.9, 198.51.100.1"), 401, "authentication_error")
	// A server of tools that is this service itself has no address, whatever headers it is given.
	nested := n.request("POST", "/v1/chat/completions", made.MasterKey, fmt.Sprintf(`{"model":"sandbox/small","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"mcp","server_url":%q,"server_label":"self","headers":{"Authorization":"Bearer %s","X-Forwarded-For":"203.0.113.9"}}]}`, n.Origin()+"/mcp", office.Key))
	wants(nested, 400, "self")

	// What was used counts after a restart.
	n.stop()
	n = site.start(t)
	if r := chat(rpm.Key, "sandbox/small", ""); time.Since(began) < time.Minute {
		wants(r, 429, "two a minute")
	}
	wants(chat(units.Key, "sandbox/small", ""), 429, "three units")
	must[admin.Key](n, "key.set-limits", admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: units.ID}, Limits: &admin.KeyLimits{UnitsPerMonth: number(4)}})
	wants(chat(units.Key, "sandbox/small", ""), 200, "")
	wants(chat(units.Key, "sandbox/small", ""), 429, "may use 4 units a month; 4 are used")
	must[admin.Key](n, "key.set-limits", admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: units.ID}})
	wants(chat(units.Key, "sandbox/small", ""), 200, "")
}

// The limits of keys hold over all nodes together, and exactly. A round in which Redis was too slow is repeated, as in
// TestLimitsOverNodes.
func TestLimitsOfKeysOverNodes(t *testing.T) {
	t.Parallel()
	nodes, _ := threeNodes(t, "plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\n")
	const rounds, calls = 5, 45
	for round := range rounds {
		made := must[admin.CreatedAccount](nodes[0], "account.create", admin.NewAccount{Actor: "t", Email: fmt.Sprintf("a%d@example.com", round), Plan: "scale"})
		keys := []admin.NewKey{
			nodes[0].limited(made.ID, "requests", &admin.KeyLimits{RequestsPerMinute: number(7)}),
			nodes[1].limited(made.ID, "units", &admin.KeyLimits{UnitsPerMonth: number(20)}),
			nodes[2].limited(made.ID, "both", &admin.KeyLimits{RequestsPerMinute: number(4), UnitsPerMonth: number(1000)}),
		}
		body := `{"model":"sandbox/small","messages":[{"role":"user","content":"hi"}]}`
		passed, other := make([]atomic.Int64, len(keys)), atomic.Int64{}
		var all sync.WaitGroup
		for k := range keys {
			for i := range calls {
				all.Go(func() {
					switch nodes[i%3].request("POST", "/v1/chat/completions", keys[k].Key, body).status {
					case 200:
						passed[k].Add(1)
					case 429:
					default:
						other.Add(1)
					}
				})
			}
		}
		all.Wait()
		got := fmt.Sprintf("%d, %d and %d calls passed, %d had another status; want 7, 20, 4 and 0", passed[0].Load(), passed[1].Load(), passed[2].Load(), other.Load())
		onShare := false
		for _, n := range nodes {
			onShare = onShare || !strings.Contains(n.scrape(), "sluice_ledger_local_calls 0\n")
		}
		switch {
		case passed[0].Load() == 7 && passed[1].Load() == 20 && passed[2].Load() == 4 && other.Load() == 0:
			return
		case !onShare:
			t.Fatal(got)
		}
		t.Log(got)
	}
	t.Errorf("the limits did not hold in any of %d rounds", rounds)
}
