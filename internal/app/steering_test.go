package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/steering"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/upstream/routing"
)

const greeting = `{"model":%q,"messages":[{"role":"user","content":"hi"}]}`

func (n *node) ask(key, model string) reply {
	n.t.Helper()
	return n.request("POST", "/v1/chat/completions", key, fmt.Sprintf(greeting, model))
}

// A drained target gets no call, not even from a request that has begun, and is used again once it is enabled. A restart
// does not forget it.
func TestDrain(t *testing.T) {
	t.Parallel()
	// The first upstream holds its first call until the test has drained it, and then fails it.
	held, release := make(chan struct{}), make(chan struct{})
	calls := 0
	one := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls++; calls > 1 {
			t.Error("the drained upstream was called again")
		}
		close(held)
		<-release
		http.Error(w, `{"error":{"message":"no"}}`, http.StatusInternalServerError)
	}))
	defer one.Close()
	two := newMoody(t)
	s := newSite(t, fmt.Sprintf(`sandbox: false
discover: false
providers: [{name: one, kind: openai, base_url: %q}, {name: two, kind: openai, base_url: %q}]
models:
  - {id: a, targets: [{provider: one, upstream: x, weight: 1}], fallbacks: [b], plan: free, context_length: 1000, max_output: 100}
  - {id: b, provider: two, upstream: y, plan: free, context_length: 1000, max_output: 100}
`, one.URL, two.URL))
	n := s.start(t)
	key := n.OwnerKey()
	got := make(chan reply, 1)
	go func() { got <- n.ask(key, "a") }()
	<-held
	if err := n.call("upstream.drain", admin.UpstreamTarget{Actor: "t", Provider: "nobody", Reason: "r"}, &steering.Order{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("drain of an unknown upstream = %v, want not found", err)
	}
	must[steering.Order](n, "upstream.drain", admin.UpstreamTarget{Actor: "t", Provider: "one", Reason: "their incident"})
	if all := must[admin.List[routing.TargetHealth]](n, "upstream.list", admin.Cursor{}).Data; len(all) != 2 || !all[0].Drained || all[0].Running != 1 || all[1].Drained {
		t.Errorf("upstream.list = %+v", all)
	}
	close(release)
	if r := <-got; r.status != 200 || r.header.Get("X-Sluice-Model") != "b" {
		t.Errorf("the request that had begun = %d %s, want an answer of b", r.status, r.body)
	}
	if r := n.ask(key, "a"); r.status != 200 || r.header.Get("X-Sluice-Model") != "b" {
		t.Errorf("a new request = %d %s, want an answer of b", r.status, r.body)
	}
	n.stop()
	n = s.start(t)
	if r := n.ask(key, "a"); r.status != 200 || r.header.Get("X-Sluice-Model") != "b" {
		t.Errorf("a request after a restart = %d %s, want an answer of b", r.status, r.body)
	}
	must[steering.Order](n, "upstream.drain", admin.UpstreamTarget{Actor: "t", Provider: "two", Upstream: "y", Reason: "r"})
	if r := n.ask(key, "a"); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("a request with all drained = %d %s, want 503 with Retry-After", r.status, r.body)
	}
	must[steering.Order](n, "upstream.enable", admin.UpstreamTarget{Actor: "t", Provider: "two", Upstream: "y"})
	if r := n.ask(key, "b"); r.status != 200 {
		t.Errorf("a request for what is enabled again = %d %s", r.status, r.body)
	}
	log := must[admin.List[account.Entry]](n, "steering.history", admin.Cursor{}).Data
	if len(log) != 3 || log[0].Action != "upstream.enable" || log[2].Detail != "one" || log[2].Reason != "their incident" {
		t.Errorf("steering.history = %+v", log)
	}
}

// A model under maintenance answers 503 with Retry-After, after the limits and for free; the router and fallbacks pass it
// over; the pages tell of it.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	two := newMoody(t)
	n := newSite(t, fmt.Sprintf(`discover: false
providers: [{name: two, kind: openai, base_url: %q}]
models:
  - {id: a, provider: two, upstream: x, fallbacks: [b], plan: free, context_length: 1000, max_output: 100}
  - {id: b, provider: two, upstream: y, plan: free, context_length: 1000, max_output: 100}
`, two.URL)).start(t)
	key := n.OwnerKey()
	remaining := n.ask(key, "a").header.Get("X-Ratelimit-Remaining-Requests")
	closed := must[steering.Order](n, "maintenance.start", admin.NewMaintenance{Actor: "t", Models: []string{"a"}, Text: "More capacity.", Until: time.Now().Add(59 * time.Second), Reason: "r"})
	r := n.ask(key, "a")
	after, _ := strconv.Atoi(r.header.Get("Retry-After"))
	var told struct {
		Error struct{ Message, Type string }
	}
	_ = json.Unmarshal([]byte(r.body), &told)
	if r.status != 503 || after < 1 || after > 59 || told.Error.Type != "service_unavailable" || !strings.HasPrefix(told.Error.Message, `The model "a" is under maintenance until `) || !strings.HasSuffix(told.Error.Message, "UTC. More capacity.") {
		t.Errorf("a call under maintenance = %d %v %s", r.status, r.header, r.body)
	}
	if got := r.header.Get("X-Ratelimit-Remaining-Requests"); got != remaining {
		t.Errorf("a call under maintenance leaves %s requests of %s, want it free", got, remaining)
	}
	if r := n.ask(key, "service/auto"); r.status != 200 || r.header.Get("X-Sluice-Model") != "b" {
		t.Errorf("the router under maintenance of a = %d %s by %s, want b", r.status, r.body, r.header.Get("X-Sluice-Model"))
	}
	if r := n.request("POST", "/v1/route", key, fmt.Sprintf(greeting, "service/auto")); !strings.Contains(r.body, "is under maintenance") {
		t.Errorf("POST /v1/route = %s, want it to say why a is not chosen", r.body)
	}
	if page := n.get("/signin", "").body; !strings.Contains(page, "Maintenance: a is unavailable until ") {
		t.Errorf("the sign-in page does not tell of the maintenance: %s", page)
	}
	must[steering.Order](n, "maintenance.end", admin.EndedOrder{Actor: "t", ID: closed.ID})
	if r := n.ask(key, "a"); r.status != 200 {
		t.Errorf("a call after maintenance = %d %s", r.status, r.body)
	}

	// For everything.
	must[steering.Order](n, "maintenance.start", admin.NewMaintenance{Actor: "t", Reason: "r"})
	for _, model := range []string{"a", "service/auto", "sandbox/small"} {
		if r := n.ask(key, model); r.status != 503 || r.header.Get("Retry-After") != "60" {
			t.Errorf("%s while all is closed = %d %s, want 503", model, r.status, r.body)
		}
	}
	if r := n.request("POST", "/v1/video/generations/jobs", key, `{"prompt":"p"}`); r.status != 503 || r.header.Get("Retry-After") != "60" {
		t.Errorf("a video while all is closed = %d %s, want 503", r.status, r.body)
	}
	if r := n.get("/v1/models", key); r.status != 200 {
		t.Errorf("GET /v1/models while all is closed = %d, want 200", r.status)
	}
	if r := n.ask(key, "unknown"); r.status != 400 {
		t.Errorf("an unknown model while all is closed = %d, want 400", r.status)
	}
}

// A move is announced in the model and in the log of changes, takes effect at its time, holds after a restart and a reload,
// and ends when the model is moved back.
func TestMoveModel(t *testing.T) {
	t.Parallel()
	const lab = `sandbox: false
discover: false
providers: [{name: lab, kind: openai, base_url: "http://127.0.0.1:1/v1"}]
models: [{id: a, provider: lab, plan: free, context_length: 1000, max_output: 100}]
`
	s := newSite(t, lab)
	n := s.start(t)
	key := n.OwnerKey()
	cursor := *n.changes(key, "").Next
	news := func(want string) {
		t.Helper()
		list := n.changes(key, "?since="+cursor)
		if got := list.told(); got != want {
			t.Errorf("changes = %q, want %q", got, want)
		}
		cursor = *list.Next
	}
	if err := n.call("models.move", admin.ModelMove{Actor: "t", Model: "service/auto", Plan: "free", Reason: "r"}, &steering.Order{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("moving the router = %v, want it refused", err)
	}
	at := time.Now().Add(time.Hour)
	must[steering.Order](n, "models.move", admin.ModelMove{Actor: "t", Model: "a", Plan: "premium", From: at, Reason: "r"})
	news("changed a free free")
	if body, want := n.get("/v1/models/a", key).body, fmt.Sprintf(`"upcoming":{"plan":"premium","from":%d}`, at.Unix()); !strings.Contains(body, want) || !strings.Contains(body, `"plan":"free","request`) {
		t.Errorf("the model before its move = %s, want %s", body, want)
	}
	must[steering.Order](n, "models.move", admin.ModelMove{Actor: "t", Model: "a", Plan: "premium", Reason: "r"})
	news("changed a free premium")
	n.stop()
	n = s.start(t)
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	news("")
	if body := n.get("/v1/models/a", key).body; !strings.Contains(body, `"plan":"premium"`) || strings.Contains(body, "upcoming") {
		t.Errorf("the model after a restart and a reload = %s, want it at premium", body)
	}
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"})
	if r := n.ask(made.MasterKey, "a"); r.status != 403 {
		t.Errorf("a call on Basic of a model that was moved to premium = %d %s, want 403", r.status, r.body)
	}
	must[steering.Order](n, "models.move-back", admin.ModelMove{Actor: "t", Model: "a"})
	news("changed a premium free")
}

// What one node is told, all nodes do within seconds.
func TestSteeringOverNodes(t *testing.T) {
	t.Parallel()
	yaml := "discover: false\ndatabase: " + pgtest.URL(t) + "\nsecret: one-secret-for-all-nodes-of-this-test\ncluster: approximate\n" +
		"plans: {scale: {requests_per_minute: unlimited, tokens_per_minute: unlimited, concurrent: unlimited}}\n" // a node that has just joined admits little
	one := newSite(t, yaml).start(t)
	key := one.OwnerKey()
	two := newSite(t, yaml).start(t)
	two.within(key, 200)
	must[steering.Order](one, "upstream.drain", admin.UpstreamTarget{Actor: "t", Provider: "sandbox", Upstream: "small", Reason: "r"})
	must[steering.Order](one, "models.move", admin.ModelMove{Actor: "t", Model: "sandbox/tiny", Plan: "premium", Reason: "r"})
	post := must[steering.Order](one, "announcement.post", admin.NewAnnouncement{Actor: "t", Text: "Hello all"})
	// The last one first: asking for it costs nothing.
	eventually(t, "the orders on the other node", func() bool { return strings.Contains(two.get("/signin", "").body, "Hello all") })
	eventually(t, "the drained model on the other node", func() bool { return two.ask(key, "sandbox/small").status == 503 })
	eventually(t, "the moved model on the other node", func() bool {
		return strings.Contains(two.get("/v1/models/sandbox%2Ftiny", key).body, `"plan":"premium"`)
	})
	must[steering.Order](two, "announcement.end", admin.EndedOrder{Actor: "t", ID: post.ID})
	must[steering.Order](two, "upstream.enable", admin.UpstreamTarget{Actor: "t", Provider: "sandbox", Upstream: "small"})
	eventually(t, "their end on the first node", func() bool {
		return len(must[admin.List[steering.Order]](one, "upstream.drains", admin.Cursor{}).Data) == 0 && !strings.Contains(one.get("/signin", "").body, "Hello all")
	})
	if r := one.ask(key, "sandbox/small"); r.status != 200 {
		t.Errorf("a model whose drain was ended on the other node = %d %s, want 200", r.status, r.body)
	}
	// The move is one change, whichever node recorded it.
	moved := 0
	for _, c := range one.changes(key, "").Data {
		if c.Type == "changed" && c.Model == "sandbox/tiny" {
			moved++
		}
	}
	if moved != 1 {
		t.Errorf("the move is %d changes, want 1", moved)
	}
}
