package routing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// farm is a catalog with one model at a provider with replicas, and, with a third of the weight, at another provider.
func farm(t *testing.T, old *Routes, keys ...Key) (*catalog.Model, *Routes) {
	t.Helper()
	c, err := catalog.New([]catalog.Model{{ID: "a", Plan: account.Free, Provider: "own", Targets: []catalog.Target{{Provider: "own", Upstream: "m", Weight: 3}, {Provider: "other", Upstream: "m", Weight: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	return lookup(t, c, "a"), New(c, []Provider{{Name: "own", Keys: keys}, {Name: "other", Keys: []Key{{Adapter: &nobody{"other"}}}}}, &Options{Old: old, Log: quiet})
}

// replicaKey returns a key of a replica.
func replicaKey(name string) Key { return Key{Adapter: &nobody{name}, Replica: name} }

// draws counts who gets the calls of plans that nobody ends; keep says to let them run.
func draws(t *testing.T, r *Routes, m *catalog.Model, n, tokens int, keep bool) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		p := r.Plan(m)
		p.Weigh(tokens)
		a, ok := p.Next(time.Now(), everybody)
		if !ok {
			t.Fatal("no target")
		}
		got[a.Replica]++
		if !keep {
			a.Ended(time.Now(), nil)
		}
	}
	return got
}

func TestPressure(t *testing.T) {
	t.Parallel()
	share := func(v float64) *float64 { return &v }
	vendor := &Target{load: &load{}, server: &server{}, health: &Health{}}
	vendor.health.running.Store(2)
	vendor.server.begin(vendor.load, 1)
	vendor.server.begin(vendor.load, 100_000)
	if got := vendor.pressure(); got != 2 {
		t.Errorf("pressure of two calls at a vendor = %g, want 2", got)
	}
	for _, tt := range []struct {
		name    string
		figures *Figures
		running int64 // calls of this node, of 1000 tokens
		want    float64
	}{
		{"idle", nil, 0, 0},
		{"by tokens", nil, 3, 3},
		{"by what it says", &Figures{Running: 4, Waiting: 2}, 0, 4 + 2*queued},
		{"and what began since", &Figures{Running: 4, own: 1}, 3, 6},
		{"and what ended since", &Figures{Running: 4, own: 4}, 1, 1},
		{"never less than ours", &Figures{own: 2}, 2, 2},
		{"a cache with room", &Figures{Running: 4, CacheUse: share(0.5)}, 0, 4},
		{"a tight cache", &Figures{Running: 4, CacheUse: share(0.95)}, 0, 6},
		{"a full cache", &Figures{Running: 4, CacheUse: share(1)}, 0, 8},
	} {
		target := &Target{Replica: "one", load: &load{}, server: &server{}}
		for range tt.running {
			target.server.begin(target.load, 1000)
		}
		target.server.figures.Store(tt.figures)
		if got := target.pressure(); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: pressure = %g, want %g", tt.name, got, tt.want)
		}
		for range tt.running {
			target.server.end(1000)
		}
		if target.server.running.Load() != 0 || target.server.tokens.Load() != 0 {
			t.Errorf("%s: calls count after their end", tt.name)
		}
	}
}

// Calls that run are spread evenly, and so are tokens: who has a long prompt gets fewer calls.
func TestReplicasByOutstandingTokens(t *testing.T) {
	t.Parallel()
	m, r := farm(t, nil, replicaKey("one"), replicaKey("two"), replicaKey("three"))
	got := draws(t, r, m, 400, 1000, true)
	for _, name := range []string{"one", "two", "three"} {
		if n := got[name]; n < 80 || n > 120 {
			t.Errorf("%s has %d of %d calls, want about 100: %v", name, n, 400, got)
		}
	}
	if n := got[""]; n < 60 || n > 140 {
		t.Errorf("the other provider has %d of 400 calls, want its share of about 100", n)
	}
	spread := func() (least, most int64) {
		least = math.MaxInt64
		for _, rep := range r.Replicas() {
			least, most = min(least, rep.server.tokens.Load()), max(most, rep.server.tokens.Load())
		}
		return least, most
	}
	if least, most := spread(); most-least > 15_000 {
		t.Errorf("replicas have %d to %d tokens, want nearly the same", least, most)
	}
	// One long prompt weighs as much as fifty.
	r.Replicas()[0].server.begin(r.loads["own"], 50_000)
	again := draws(t, r, m, 130, 1000, true)
	if again["one"] > again["two"]/2 {
		t.Errorf("the replica with the long prompt got %v", again)
	}
}

// A replica that says that it has a queue gets few calls, and one that is full of others' calls, too.
func TestReplicasByTheirFigures(t *testing.T) {
	t.Parallel()
	m, r := farm(t, nil, replicaKey("one"), replicaKey("two"), replicaKey("three"))
	for i, rep := range r.Replicas() {
		rep.Report([]*Figures{{Running: 8, Waiting: 40}, {Running: 2}, {Running: 2}}[i], rep.Running())
	}
	got := draws(t, r, m, 400, 1000, false)
	if got["one"] != 0 || got["two"] < 100 || got["three"] < 100 {
		t.Errorf("calls went to %v, want none to the one with a queue", got)
	}
	if n := got[""]; n < 60 || n > 140 {
		t.Errorf("the other provider has %d of 400 calls, want its share of about 100", n)
	}
	// If the others cannot be called, it is better than nothing.
	for _, target := range r.targets {
		if target.Replica != "one" {
			target.drained = func(_, _, _, replica string) bool { return replica != "one" }
		}
	}
	if got := draws(t, r, m, 10, 1000, false); got["one"] != 10 {
		t.Errorf("calls went to %v, want all to the only one", got)
	}
}

// Replicas that stay keep their health, their counts and what they said; those that come begin anew.
func TestReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	one, two, three := replicaKey("one"), replicaKey("two"), replicaKey("three")
	m, old := farm(t, nil, one, two)
	draws(t, old, m, 40, 1000, true)
	for _, rep := range old.Replicas() {
		rep.Report(&Figures{Running: 5}, rep.Running())
	}
	of := func(r *Routes, name string) (h TargetHealth) {
		for _, s := range r.Targets(time.Now()) {
			if s.Replica == name {
				h = s
			}
		}
		return h
	}
	ran := of(old, "two").Running
	p := old.Plan(m)
	if !p.Pin("own", "m", "", "two") {
		t.Fatal("there is no replica two")
	}
	for range 3 {
		a, _ := p.Next(time.Now(), everybody)
		a.Ended(time.Now(), provider.Unreachable(errors.New("gone")))
		p = old.Plan(m)
		p.Pin("own", "m", "", "two")
	}
	_, next := farm(t, old, two, three)
	if got := of(next, "two"); got.Running != ran || got.Server == nil || got.Server.Running != 5 || got.Failed != 3 || got.State != Open {
		t.Errorf("the replica that stays is %+v, want %d running, 3 failed, and its breaker open", got, ran)
	}
	if got := of(next, "three"); got.Running != 0 || got.Server != nil || got.State != Closed {
		t.Errorf("the replica that comes is %+v", got)
	}
	if got := of(next, "one"); got.Provider != "" {
		t.Errorf("the replica that went is %+v", got)
	}
	if got := len(next.Replicas()); got != 2 {
		t.Errorf("%d replicas, want 2", got)
	}
	if n := next.Tallies()["own"].Running; n != of(old, "one").Running+ran {
		t.Errorf("%d calls run at the provider, want those of the replica that went, too", n)
	}
}

// Keys and models at one replica share its server. Targets at one address do not share it with those of another.
func TestReplicasShareTheirServer(t *testing.T) {
	t.Parallel()
	keys := []Key{
		{Adapter: &nobody{"1"}, LastFour: "…1111", Replica: "one"},
		{Adapter: &nobody{"2"}, LastFour: "…2222", Replica: "one"},
		{Adapter: &nobody{"3"}, LastFour: "…1111", Replica: "two"},
		{Adapter: &nobody{"4"}, LastFour: "…2222", Replica: "two"},
	}
	m, r := farm(t, nil, keys...)
	targets := r.byModel[m].targets
	if len(targets) != 5 || targets[0].server != targets[1].server || targets[0].server == targets[2].server || targets[2].server != targets[3].server || targets[4].server == targets[0].server {
		t.Errorf("the servers of the targets are %v", targets)
	}
	if got := r.Replicas(); len(got) != 2 || got[0].Name != "one" || got[1].Name != "two" {
		t.Errorf("Replicas = %v", got)
	}
	rate := 0.25
	for _, rep := range r.Replicas() {
		rep.Report(&Figures{Running: 3, Waiting: 1, CacheUse: &rate}, 0)
	}
	draws(t, r, m, 30, 10, true)
	for _, u := range r.Gauges(time.Now()) {
		var running int64
		for _, rep := range u.Replicas {
			running += rep.Running
			if !rep.Reports || rep.Serving != 3 || rep.Waiting != 1 || rep.CacheUse != 0.25 {
				t.Errorf("the gauges of a replica are %+v", rep)
			}
		}
		if want := map[string]int{"own": 2}[u.Provider]; len(u.Replicas) != want || want > 0 && running != u.Running {
			t.Errorf("the gauges of %s are %+v, want %d replicas with all of its calls", u.Provider, u, want)
		}
	}
}

// machine is an adapter that can be connected to, or not.
type machine struct {
	nobody
	err error
}

func (a *machine) Reach(context.Context) error { return a.err }

// Each replica is connected to by itself: one that is gone does not make the others look so.
func TestReachReplicas(t *testing.T) {
	t.Parallel()
	gone := &machine{err: errors.New("refused")}
	_, r := farm(t, nil, Key{Adapter: &machine{}, Replica: "one"}, Key{Adapter: gone, Replica: "two"})
	for range 5 {
		r.reach(t.Context())
	}
	for _, h := range r.Targets(time.Now()) {
		if h.Down != (h.Replica == "two") {
			t.Errorf("%s %s is down: %t", h.Provider, h.Replica, h.Down)
		}
	}
}

func BenchmarkNextReplica(b *testing.B) {
	var keys []Key
	for i := range 8 {
		keys = append(keys, replicaKey(fmt.Sprint(i)))
	}
	c, err := catalog.New([]catalog.Model{{ID: "a", Plan: account.Free, Provider: "own", Upstream: "m"}})
	if err != nil {
		b.Fatal(err)
	}
	m, _ := c.Lookup("a")
	r := New(c, []Provider{{Name: "own", Keys: keys}}, &Options{Log: quiet})
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		p := r.Plan(m)
		p.Weigh(1000)
		a, _ := p.Next(now, everybody)
		a.Ended(now, nil)
	}
}
