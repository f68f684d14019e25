package app_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/steering"
	"sluice/internal/testkit/dnstest"
	"sluice/internal/testkit/vendortest"
	"sluice/internal/upstream/routing"
)

// machine is a model server of one's own, and its address.
type machine struct {
	*vendortest.Engine
	server *httptest.Server
	name   string // host and port
	hold   atomic.Pointer[chan struct{}]
	held   chan struct{} // gets a token for each call that is held
}

// newMachine returns a server whose calls end at once, until hold has a channel, which they wait for.
func newMachine(t *testing.T, kind string) *machine {
	t.Helper()
	m := &machine{Engine: &vendortest.Engine{Kind: kind}, held: make(chan struct{}, 100)}
	m.During = func(ctx context.Context) {
		if hold := m.hold.Load(); hold != nil {
			m.held <- struct{}{}
			select {
			case <-*hold:
			case <-ctx.Done():
			}
		}
	}
	m.server = httptest.NewServer(m)
	t.Cleanup(m.server.Close)
	m.name = m.server.Listener.Addr().String()
	return m
}

// calls returns how many calls the server has answered.
func (m *machine) calls() int { return m.Figures().Calls }

// farm is a configuration with one model at replicas.
func farm(replicas ...string) string {
	return fmt.Sprintf(`metrics_listen: 127.0.0.1:0
sandbox: false
discover: false
providers: [{name: own, kind: vllm, api_keys: [first-key-1111, second-key-2222], replicas: ["%s"]}]
models: [{id: m, provider: own, upstream: m, plan: free, context_length: 10000, max_output: 100}]
plans: {premium: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}, scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}
`, strings.Join(replicas, `", "`))
}

// converse sends the first call of a conversation of its own: further calls of one would stay with its replica.
func (n *node) converse(key string) reply {
	n.t.Helper()
	return n.request("POST", "/v1/chat/completions", key, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"conversation %d"}]}`, rand.Uint64()))
}

// at returns the base URL of a machine.
func (m *machine) at() string { return m.server.URL + "/v1" }

// targets returns the targets of the server at a replica.
func (n *node) targets(replica string) (list []routing.TargetHealth) {
	n.t.Helper()
	for _, s := range must[admin.List[routing.TargetHealth]](n, "upstream.list", admin.Cursor{}).Data {
		if s.Replica == replica {
			list = append(list, s)
		}
	}
	return list
}

// reports waits until a replica has said how busy it is, as often as holds wants.
func (n *node) reports(replica string, holds func(*routing.Figures) bool) {
	n.t.Helper()
	eventually(n.t, "the load of "+replica, func() bool {
		list := n.targets(replica)
		return len(list) > 0 && list[0].Server != nil && holds(list[0].Server)
	})
}

// A model at several servers: calls are spread over them, each can be drained alone, and servers come and go without a
// running call that notices.
func TestReplicas(t *testing.T) {
	t.Parallel()
	one, two, three := newMachine(t, "vllm"), newMachine(t, "sglang"), newMachine(t, "")
	s := newSite(t, farm(one.at(), two.at()))
	n := s.start(t)
	key := n.OwnerKey()
	ask := func(times int, what string) {
		t.Helper()
		for range times {
			if r := n.converse(key); r.status != 200 {
				t.Fatalf("%s: %d %s", what, r.status, r.body)
			}
		}
	}
	for _, m := range []*machine{one, two} {
		n.reports(m.name, func(*routing.Figures) bool { return true })
	}
	ask(40, "calls at two replicas")
	if one.calls() < 5 || two.calls() < 5 || one.calls()+two.calls() != 40 {
		t.Errorf("the replicas got %d and %d calls, want both a good part of 40", one.calls(), two.calls())
	}

	// One replica is drained, with all its keys.
	if err := n.call("upstream.drain", admin.UpstreamTarget{Actor: "t", Provider: "own", Replica: "10.0.0.1:1", Reason: "r"}, &steering.Order{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("drain of an unknown replica = %v, want not found", err)
	}
	must[steering.Order](n, "upstream.drain", admin.UpstreamTarget{Actor: "t", Provider: "own", Replica: two.name, Reason: "new disks"})
	before := two.calls()
	ask(10, "calls while a replica is drained")
	if two.calls() != before {
		t.Error("the drained replica got calls")
	}
	for _, m := range []*machine{one, two} {
		list := n.targets(m.name)
		if len(list) != 2 || list[0].Drained != (m == two) || list[1].Drained != (m == two) || list[0].Key == list[1].Key {
			t.Errorf("the targets at %s are %+v", m.name, list)
		}
	}
	p, _ := n.staffMember("ops@example.com")
	form := []string{"provider", "own", "upstream", "m", "key", "…1111", "replica", one.name}
	page := p.wants(p.get("/support/upstreams"), "the page of upstreams", 200, one.name).body
	for _, want := range []string{`replica=` + url.QueryEscape(one.name), `aria-label="Drain own/m at ` + one.name, "Reports 0 running, 0 waiting, cache 0% in use", "own at " + two.name} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of upstreams does not have %s", want)
		}
	}
	p.wants(p.post("/support/upstreams/drain", append(form, "reason", "r")...), "a drain of one key there", 303, "/support/upstreams")
	ask(5, "calls with one target left")
	p.wants(p.post("/support/upstreams/enable", form...), "enable", 303, "/support/upstreams")

	// While a call runs at the first replica, it is replaced by a third one.
	hold := make(chan struct{})
	one.hold.Store(&hold)
	running := make(chan reply, 1)
	go func() { running <- n.converse(key) }()
	<-one.held
	must[steering.Order](n, "upstream.enable", admin.UpstreamTarget{Actor: "t", Provider: "own", Replica: two.name})
	answered := n.targets(two.name)[0].Answered + n.targets(two.name)[1].Answered
	s.write(t, farm(two.at(), three.at()))
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	gone := one.calls()
	ask(40, "calls after a reload")
	if one.calls() != gone || three.calls() < 5 {
		t.Errorf("after the reload the replica that is gone got %d calls and the new one %d", one.calls()-gone, three.calls())
	}
	list := n.targets(two.name)
	if len(list) != 2 || answered == 0 || list[0].Answered+list[1].Answered <= answered {
		t.Errorf("the replica that stays has %+v, want more than its %d answers of before", list, answered)
	}
	if len(n.targets(one.name)) != 0 {
		t.Error("the replica that is gone is listed")
	}
	close(hold)
	if r := <-running; r.status != 200 {
		t.Errorf("the call that ran through the reload = %d %s", r.status, r.body)
	}

	// One dies under load.
	s.write(t, farm(one.at(), two.at(), three.at()))
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var failed atomic.Int64
	for i := range 8 {
		all.Go(func() {
			for j := range 20 {
				if i == 0 && j == 5 {
					three.server.CloseClientConnections()
					three.server.Close()
				}
				if r := n.converse(key); r.status != 200 {
					failed.Add(1)
					t.Logf("a call while a replica dies = %d %s", r.status, r.body)
				}
			}
		})
	}
	all.Wait()
	if failed.Load() != 0 {
		t.Errorf("%d of 160 calls failed while one of three replicas died", failed.Load())
	}
	n.reports(one.name, func(*routing.Figures) bool { return true }) // it has been away, so it is asked anew
	resp, err := n.client.Get("http://" + n.MetricsAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text := textOf(t, resp)
	for _, want := range []string{
		`sluice_upstream_replica_reports{provider="own",replica="` + one.name + `"} 1`,
		`sluice_upstream_replica_reports{provider="own",replica="` + three.name + `"} 0`,
		`sluice_upstream_replica_server_waiting{provider="own",replica="` + two.name + `"} 0`,
		`sluice_upstream_replica_attempts_total{outcome="failed",provider="own",replica="` + three.name + `"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	if strings.Contains(n.log.String(), "first-key") {
		t.Error("the log has a key")
	}
}

// textOf reads the body of a reply.
func textOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// New conversations avoid a replica that others keep busy: only its metrics tell.
func TestReplicaWithAQueue(t *testing.T) {
	t.Parallel()
	busy, idle := newMachine(t, "llamacpp"), newMachine(t, "vllm")
	hold := make(chan struct{})
	busy.hold.Store(&hold)
	var others sync.WaitGroup
	for range 12 {
		others.Go(func() {
			resp, err := http.Post(busy.at()+"/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		})
	}
	defer func() {
		close(hold)
		others.Wait()
	}()
	<-busy.held
	n := newSite(t, farm(busy.at(), idle.at())).start(t)
	n.reports(busy.name, func(f *routing.Figures) bool { return f.Running == 4 && f.Waiting == 8 })
	n.reports(idle.name, func(*routing.Figures) bool { return true })
	key := n.OwnerKey()
	for range 30 {
		if r := n.converse(key); r.status != 200 {
			t.Fatalf("a call = %d %s", r.status, r.body)
		}
	}
	if idle.calls() != 30 {
		t.Errorf("the replica without a queue got %d of 30 calls, want all", idle.calls())
	}
}

// Replicas that a name stands for come and go with its records. A DNS that fails takes none away.
func TestReplicasByName(t *testing.T) {
	t.Parallel()
	dns := dnstest.New(t)
	one, two, three := newMachine(t, "vllm"), newMachine(t, "vllm"), newMachine(t, "vllm")
	// The machines are called localhost, because tests connect to 127.0.0.1 only and the records have their ports.
	names := map[*machine]string{}
	stands := func(machines ...*machine) {
		t.Helper()
		var records []net.SRV
		for _, m := range machines {
			u, err := url.Parse(m.server.URL)
			if err != nil {
				t.Fatal(err)
			}
			port, err := strconv.Atoi(u.Port())
			if err != nil {
				t.Fatal(err)
			}
			names[m] = net.JoinHostPort("localhost", u.Port())
			records = append(records, net.SRV{Target: "localhost.", Port: uint16(port)})
		}
		dns.SetRecords("_http._tcp.vllm.test", records...)
	}
	stands(one, two)
	s := newSite(t, farm("dnssrv+http://_http._tcp.vllm.test/v1"))
	s.resolver = dns.Resolver()
	n := s.start(t)
	key := n.OwnerKey()
	ask := func(times int) {
		t.Helper()
		for range times {
			if r := n.converse(key); r.status != 200 {
				t.Fatalf("a call = %d %s", r.status, r.body)
			}
		}
	}
	ask(30)
	if one.calls() < 3 || two.calls() < 3 || one.calls()+two.calls() != 30 {
		t.Errorf("the replicas got %d and %d calls, want both a good part of 30", one.calls(), two.calls())
	}
	stands(two, three)
	eventually(t, "the new replica", func() bool { return len(n.targets(names[three])) == 2 && len(n.targets(names[one])) == 0 })
	before := one.calls()
	ask(30)
	if one.calls() != before || three.calls() < 3 {
		t.Errorf("after the change the replica that is gone got %d calls and the new one %d", one.calls()-before, three.calls())
	}
	dns.Break(true)
	eventually(t, "a line about the DNS", func() bool { return strings.Contains(n.log.String(), "cannot be looked up") })
	ask(10)
	if got := strings.Count(n.log.String(), "cannot be looked up"); got != 1 {
		t.Errorf("the log has %d lines about the DNS, want 1", got)
	}
}

// Conversations stay with the replica that has them in its cache: of what could be read from caches, nearly all is.
func TestReplicasKeepConversations(t *testing.T) {
	t.Parallel()
	machines := []*machine{newMachine(t, "vllm"), newMachine(t, "sglang"), newMachine(t, "")}
	n := newSite(t, farm(machines[0].at(), machines[1].at(), machines[2].at())).start(t)
	key := n.OwnerKey()
	possible := 0
	for c := range 30 {
		messages := fmt.Sprintf(`{"role":"user","content":"conversation %d %s"}`, c, strings.Repeat("of many words ", 40))
		for turn := range 6 {
			r := n.request("POST", "/v1/chat/completions", key, `{"model":"m","messages":[`+messages+`]}`)
			if r.status != 200 {
				t.Fatalf("turn %d = %d %s", turn, r.status, r.body)
			}
			messages += `,{"role":"assistant","content":"Certainly."}`
			if turn < 5 {
				possible += len(messages) / 4
			}
			messages += fmt.Sprintf(`,{"role":"user","content":"turn %d %s"}`, turn, strings.Repeat("and more ", 20))
		}
	}
	cached, least := 0, 180
	for _, m := range machines {
		f := m.Figures()
		cached, least = cached+f.Cached, min(least, f.Calls)
	}
	// Blocks that are not full, and the words that a prompt has around messages, are not in the count.
	if share := float64(cached) / float64(possible); share < 0.8 {
		t.Errorf("%d of about %d tokens came from caches, a share of %.2f, want at least 0.8", cached, possible, share)
	}
	if least < 30 {
		t.Errorf("a replica has %d of 180 calls, want about a third", least)
	}
}
