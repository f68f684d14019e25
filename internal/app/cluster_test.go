package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/doctor"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/upstream/discovery"
)

// Two servers that divide limits: together they admit what the plan says, and they say what they do.
func TestApproximateLimits(t *testing.T) {
	t.Parallel()
	one, two, owner := twoNodes(t)
	made := must[admin.CreatedAccount](one, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"})
	two.within(made.MasterKey, 200)
	passed, began := 0, time.Now()
	for i := range 40 {
		n := []*node{one, two}[i%2]
		switch r := n.request("POST", "/v1/chat/completions", made.MasterKey, `{"model":"sandbox/small","messages":[{"role":"user","content":"Hello"}]}`); r.status {
		case 200:
			passed++
		case 429:
			if !strings.Contains(r.body, "of 10 requests a minute, this server admits 5; 5 are used") {
				t.Errorf("a refusal says %s, want the limit of the plan and this server's part of it", r.body)
			}
		default:
			t.Fatalf("POST = %d %s", r.status, r.body)
		}
	}
	if passed != 10 && time.Since(began) < time.Minute {
		t.Errorf("two nodes admitted %d calls, want 10", passed)
	}

	const note = `"name":"cluster","ok":true,"message":"limits are approximate: each of 2 servers admits its share of them"`
	for _, n := range []*node{one, two} {
		if !strings.Contains(n.log.String(), "limits are approximate") {
			t.Error("the log does not say at the start that limits are approximate")
		}
		eventually(t, "readiness", func() bool { return strings.Contains(n.get("/readyz", owner).body, note) })
		status := must[admin.Status](n, "status", admin.Empty{}).Cluster
		if status.Mode != "approximate" || len(status.Nodes) != 2 || !status.Nodes[0].Alive || !status.Nodes[1].Alive || status.Nodes[0].Me == status.Nodes[1].Me {
			t.Errorf("status = %+v, want two living nodes, one of them this one", status)
		}
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		for _, listed := range status.Nodes {
			if listed.Host != host {
				t.Errorf("the machine of node %s = %q, want %q", listed.ID, listed.Host, host)
			}
		}
		found := findings(app.Examine(t.Context(), n.site.config(t)), "cluster")
		if len(found) != 1 || found[0].State != doctor.StateWarning || !strings.Contains(found[0].Message, "limits are approximate: each of 2 servers admits its share of them; servers on this database: 2 running; ") || !strings.Contains(found[0].Message, status.Nodes[1].ID+" on "+host+" (version ") || !strings.Contains(found[0].Advice, "set redis") {
			t.Errorf("doctor = %+v, want a warning that limits are approximate", found)
		}
	}
	two.stop()
	eventually(t, "the departure", func() bool {
		return len(must[admin.Status](one, "status", admin.Empty{}).Cluster.Nodes) == 1
	})
}

// findings returns those about a subject.
func findings(all []doctor.Finding, subject string) (some []doctor.Finding) {
	for _, f := range all {
		if f.Subject == subject {
			some = append(some, f)
		}
	}
	return some
}

// A server that is alone on PostgreSQL keeps others out, and lets the next one in when it has stopped.
func TestOneServer(t *testing.T) {
	t.Parallel()
	yaml := "database: " + pgtest.URL(t) + "\nsecret: one-secret-for-all-nodes-of-this-test\n"
	one, two := newSite(t, yaml).start(t), newSite(t, yaml)
	ctx, cancel := context.WithCancel(t.Context())
	log := &lines{}
	ended := make(chan error, 1)
	go func() {
		a, err := app.New(ctx, two.config(t), &app.Options{Log: slog.New(slog.NewJSONHandler(log, nil)), Servers: []discovery.Server{}})
		if err == nil {
			err = a.Abandon()
		}
		ended <- err
	}()
	eventually(t, "the second server to wait", func() bool { return strings.Contains(log.String(), "waiting for it to stop") })
	cancel()
	if err := <-ended; err == nil {
		t.Error("New of a second server = nil, want an error")
	}
	if r := one.get("/readyz", ""); r.status != 200 {
		t.Errorf("GET /readyz = %d %s", r.status, r.body)
	}
	if found := findings(app.Examine(t.Context(), one.site.config(t)), "cluster"); len(found) != 1 || found[0].State != doctor.StateOK || !strings.Contains(found[0].Message, "1 running") {
		t.Errorf("doctor = %+v, want one server", found)
	}
	one.stop()
	two.start(t)
}

// A cancellation that reaches the node where the call does not run ends it all the same. The account is part of
// the name.
func TestCancelOnAnotherNode(t *testing.T) {
	t.Parallel()
	one, two, owner := twoNodes(t)
	stranger := must[admin.CreatedAccount](one, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "free"})
	two.within(stranger.MasterKey, 200)
	for _, n := range []*node{one, two} {
		eventually(t, "messages", func() bool { return !strings.Contains(n.get("/readyz", "").body, "do not arrive") })
	}
	post := func(n *node, method, key, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, n.scheme+n.Addr()+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return ""
		}
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Mcp-Session-Id", "session-1")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := n.client.Do(r)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
	for i, end := range []func(key string){
		func(key string) {
			post(two, "POST", key, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
		},
		func(key string) { post(two, "DELETE", key, "") },
	} {
		done := make(chan string, 1)
		go func() {
			done <- post(one, "POST", owner, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"chat_completion","arguments":{"model":"sandbox/small","messages":[{"role":"user","content":"[[sandbox:delay=60s]] Hello"}]}}}`, i))
		}()
		eventually(t, "the call", func() bool { return one.Running() == 1 })
		end(stranger.MasterKey) // means a call of another account
		if one.Running() != 1 {
			t.Error("a stranger has ended the call")
		}
		end(owner)
		if text := <-done; strings.Contains(text, "chat.completion") {
			t.Errorf("the call ended with %s, want it canceled", text)
		}
		eventually(t, "the end of the call", func() bool { return one.Running() == 0 })
	}
}
