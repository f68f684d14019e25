package routing

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// nobody is an adapter that is never asked.
type nobody struct{ name string }

func (*nobody) Open(context.Context, *provider.Call) (provider.Stream, error) { panic("not asked") }

var quiet = slog.New(slog.DiscardHandler)

// site is a catalog of three models, a (at one, two and, without weight, spare), b (at two) and c (at
// one), where b and c stand in for a.
func site(t *testing.T, old *Routes, change func([]Provider)) (*catalog.Catalog, *Routes) {
	t.Helper()
	c, err := catalog.New([]catalog.Model{
		{
			ID: "a", Plan: account.Free, Provider: "one", Fallbacks: []string{"b", "c", "gone"},
			Targets: []catalog.Target{{Provider: "one", Upstream: "a1", Weight: 3}, {Provider: "two", Upstream: "a2", Weight: 1}, {Provider: "spare", Upstream: "a3"}, {Provider: "absent", Weight: 9}},
		},
		{ID: "b", Plan: account.Free, Provider: "two", Upstream: "b2"},
		{ID: "c", Plan: account.Premium, Provider: "one", Upstream: "c1"},
		{ID: "lost", Plan: account.Free, Provider: "absent"},
	})
	if err != nil {
		t.Fatal(err)
	}
	providers := []Provider{
		{Name: "one", Keys: []Key{{Adapter: &nobody{"one"}, LastFour: "…1111"}, {Adapter: &nobody{"one again"}, LastFour: "…2222"}}},
		{Name: "two", Keys: []Key{{Adapter: &nobody{"two"}}}, FirstContent: time.Second},
		{Name: "spare", Keys: []Key{{Adapter: &nobody{"spare"}}}},
	}
	if change != nil {
		change(providers)
	}
	return c, New(c, providers, &Options{Old: old, Log: quiet})
}

func lookup(t *testing.T, c *catalog.Catalog, id string) *catalog.Model {
	t.Helper()
	m, ok := c.Lookup(id)
	if !ok {
		t.Fatalf("there is no model %s", id)
	}
	return m
}

func everybody(*catalog.Model) bool { return true }

// asked is who a plan asks in a round in which all fail, by what they are called and their key.
func asked(p *Plan, now time.Time, fits func(*catalog.Model) bool) (names []string) {
	for {
		a, ok := p.Next(now, fits)
		if !ok {
			return names
		}
		names = append(names, a.Upstream+a.LastFour)
		a.Ended(now, nil)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	rest := func(upstreams ...string) func(*Routes) {
		return func(r *Routes) {
			for _, t := range r.targets {
				if slices.Contains(upstreams, t.Upstream+t.LastFour) {
					p, _ := t.health.begin(epoch, wanted)
					t.health.end(p, refused, epoch, 0)
				}
			}
		}
	}
	// ill makes targets seem ill by failures.
	ill := func(upstreams ...string) func(*Routes) {
		return func(r *Routes) {
			for _, t := range r.targets {
				for slices.Contains(upstreams, t.Upstream+t.LastFour) && !t.health.open {
					p, _ := t.health.begin(epoch, wanted)
					t.health.end(p, bad, epoch, 0)
				}
			}
		}
	}
	// flaky is ill for targets that answered a moment ago.
	flaky := func(upstreams ...string) func(*Routes) {
		return func(r *Routes) {
			for _, t := range r.targets {
				if slices.Contains(upstreams, t.Upstream+t.LastFour) {
					p, _ := t.health.begin(epoch, wanted)
					t.health.answered(&p, epoch, time.Second)
					t.health.end(p, good, epoch, 0)
				}
			}
			ill(upstreams...)(r)
		}
	}
	for name, tt := range map[string]struct {
		model   string
		prepare func(*Routes)
		fits    func(*catalog.Model) bool
		want    string // in any order up to a bar
	}{
		"all are well":                {"a", nil, everybody, "a1…1111 a1…2222 a2 | a3 | b2 | c1…1111 c1…2222"},
		"one key rests":               {"a", rest("a1…1111"), everybody, "a1…2222 a2 | a3 | b2 | c1…1111 c1…2222"},
		"those with weight rest":      {"a", rest("a1…1111", "a1…2222", "a2"), everybody, "a3 | b2 | c1…1111 c1…2222"},
		"a stand-in does not fit":     {"a", nil, func(m *catalog.Model) bool { return m.ID != "b" }, "a1…1111 a1…2222 a2 | a3 | c1…1111 c1…2222"},
		"a stand-in rests":            {"a", rest("b2"), everybody, "a1…1111 a1…2222 a2 | a3 | c1…1111 c1…2222"},
		"one seems ill":               {"a", ill("a2"), everybody, "a1…1111 a1…2222 | a3 | b2 | c1…1111 c1…2222"},
		"a stand-in seems ill":        {"a", ill("a2", "b2"), everybody, "a1…1111 a1…2222 | a3 | c1…1111 c1…2222"},
		"one fails, but lives":        {"a", flaky("a2"), everybody, "a1…1111 a1…2222 | a3 | b2 | c1…1111 c1…2222 | a2"},
		"a stand-in, too":             {"a", flaky("a2", "b2"), everybody, "a1…1111 a1…2222 | a3 | c1…1111 c1…2222 | a2 | b2"},
		"one target seems ill":        {"b", ill("b2"), everybody, ""},
		"one target fails, but lives": {"b", flaky("b2"), everybody, "b2"},
		"one target":                  {"b", nil, everybody, "b2"},
		"the only target rests":       {"b", rest("b2"), everybody, ""},
		"a model's own health":        {"c", rest("a1…1111"), everybody, "c1…1111 c1…2222"},
		"a provider that is absent":   {"lost", nil, everybody, ""},
	} {
		c, r := site(t, nil, nil)
		if tt.prepare != nil {
			tt.prepare(r)
		}
		p := r.Plan(lookup(t, c, tt.model))
		got := asked(&p, epoch, tt.fits)
		for group := range strings.SplitSeq(tt.want, "|") {
			want := strings.Fields(group)
			n := min(len(want), len(got))
			if part := slices.Sorted(slices.Values(got[:n])); !slices.Equal(part, want) {
				t.Errorf("%s: asked %v, want %v in its place", name, got, want)
				break
			}
			got = got[n:]
		}
		if len(got) > 0 {
			t.Errorf("%s: also asked %v", name, got)
		}
	}
}

// TestWeights: targets are drawn in proportion, and keys share the weight of their target.
func TestWeights(t *testing.T) {
	t.Parallel()
	c, r := site(t, nil, nil)
	const draws = 20_000
	got := map[string]float64{}
	for range draws {
		p := r.Plan(lookup(t, c, "a"))
		a, _ := p.Next(epoch, everybody)
		got[a.Upstream+a.LastFour]++
		a.Ended(epoch, nil)
	}
	for name, share := range map[string]float64{"a1…1111": 3. / 8, "a1…2222": 3. / 8, "a2": 1. / 4, "a3": 0} {
		if math.Abs(got[name]/draws-share) > 0.02 {
			t.Errorf("%s was drawn %v times of %d, want a share of %v", name, got[name], draws, share)
		}
	}
}

// TestRounds: a request goes round three times, pausing longer each time, and not before somebody may be
// asked who is worth waiting for.
func TestRounds(t *testing.T) {
	t.Parallel()
	c, r := site(t, nil, nil)
	p, now := r.Plan(lookup(t, c, "b")), epoch
	for _, most := range []time.Duration{firstPause, 2 * firstPause, 0} {
		if got := asked(&p, now, everybody); len(got) != 1 {
			t.Errorf("asked %v, want one", got)
		}
		d, ok := p.Again(now)
		if ok != (most > 0) || d < most/2 || d > most {
			t.Errorf("Again = %v, %t, want about %v", d, ok, most)
		}
	}
	if got := asked(&p, now, everybody); len(got) != 0 {
		t.Errorf("asked %v a fourth time", got)
	}

	p = r.Plan(lookup(t, c, "b"))
	a, _ := p.Next(now, everybody)
	a.Ended(now, provider.Refused(429, http.Header{"Retry-After": {"9"}}, nil))
	if d, ok := p.Again(now); !ok || d < 9*time.Second || d > 9*time.Second+firstPause {
		t.Errorf("Again = %v, %t, want what the upstream asked for", d, ok)
	}
	// Others do not wait: they are refused, and told when somebody may try again.
	other := r.Plan(lookup(t, c, "b"))
	if _, ok := other.Next(now.Add(time.Second), everybody); ok {
		t.Error("another request was let through before the time that the upstream asked for")
	}
	if d, ok := other.Again(now.Add(time.Second)); ok || d != 8*time.Second {
		t.Errorf("Again = %v, %t, want to be refused for 8s", d, ok)
	}
	// While one finds out, nobody else calls. Who was told to wait goes on waiting, the others are refused.
	now = now.Add(9 * time.Second)
	third := r.Plan(lookup(t, c, "b"))
	if a, _ = third.Next(now, everybody); a.Target == nil {
		t.Fatal("nobody was let through")
	}
	other = r.Plan(lookup(t, c, "b"))
	for range 10 {
		_, mine := p.Next(now, everybody)
		if _, ok := other.Next(now, everybody); ok || mine {
			t.Fatal("two were let through")
		}
		if d, ok := p.Again(now); !ok || d > longestPause {
			t.Fatalf("Again = %v, %t while it is being found out", d, ok)
		}
		if d, ok := other.Again(now); ok || d != 0 {
			t.Fatalf("Again = %v, %t for a request that was not told to wait", d, ok)
		}
	}
	a.Answered(now)
	if a, ok := other.Next(now, everybody); !ok {
		t.Error("nobody may be asked although all is well again")
	} else {
		a.Ended(now, provider.Refused(401, nil, nil))
	}
	if d, ok := other.Again(now); ok {
		t.Errorf("Again = %v for a key that is not good, want no waiting", d)
	}

	// Who was given up is not asked again.
	p = r.Plan(lookup(t, c, "a"))
	for range 2 {
		a, _ = p.Next(now, everybody)
		a.Ended(now, nil)
		p.GiveUp()
	}
	first := len(asked(&p, now, everybody))
	if _, ok := p.Again(now); !ok || first != 4 || len(asked(&p, now, everybody)) != 4 {
		t.Errorf("asked %d of four who are left", first)
	}

	// Who rests is not waited for by a request that it has told nothing, though the others are used up.
	c, r = site(t, nil, nil)
	for _, target := range r.targets {
		if target.Upstream == "a3" {
			permit, _ := target.health.begin(now, wanted)
			target.health.end(permit, refused, now, 5*time.Second)
		}
	}
	p = r.Plan(lookup(t, c, "a"))
	for i := range tries {
		asked(&p, now, everybody)
		if d, ok := p.Again(now); ok != (i < tries-1) || !ok && d != 5*time.Second {
			t.Errorf("Again = %v, %t after round %d", d, ok, i)
		}
	}
	for _, p := range []Plan{{}, r.Plan(lookup(t, c, "lost"))} {
		if d, ok := p.Again(now); ok {
			t.Errorf("Again = %v without a target", d)
		}
	}
}

// TestCaps: a provider is asked up to its bound, whatever the model and the key.
func TestCaps(t *testing.T) {
	t.Parallel()
	c, r := site(t, nil, func(p []Provider) { p[0].MaxConcurrent = 2 })
	var running []Attempt
	for range 2 {
		p := r.Plan(lookup(t, c, "c"))
		a, ok := p.Next(epoch, everybody)
		if !ok {
			t.Fatal("Next = false below the bound")
		}
		running = append(running, a)
	}
	p := r.Plan(lookup(t, c, "c"))
	if _, ok := p.Next(epoch, everybody); ok {
		t.Fatal("Next = true at the bound")
	}
	for range 10 { // waits for a place
		if d, ok := p.Again(epoch); !ok || d > longestPause {
			t.Fatalf("Again = %v, %t, want a moment", d, ok)
		}
	}
	a := r.Plan(lookup(t, c, "a"))
	if got := asked(&a, epoch, everybody); !slices.Equal(got, []string{"a2", "a3", "b2"}) {
		t.Errorf("asked %v, want the others", got)
	}
	running[0].Ended(epoch, nil)
	if _, ok := p.Next(epoch, everybody); !ok {
		t.Error("Next = false after a call has ended")
	}
	if got := r.Tallies()["one"]; got != (Tally{Running: 2}) {
		t.Errorf("Tallies = %+v, want two running", got)
	}
}

// TestOneRequest: however often it fails, one request alone does not make a target ill.
func TestOneRequest(t *testing.T) {
	t.Parallel()
	c, r := site(t, nil, nil)
	b := lookup(t, c, "b")
	p := r.Plan(b)
	for range tries {
		a, _ := p.Next(epoch, everybody)
		a.Ended(epoch, provider.Refused(500, nil, nil))
		p.Again(epoch)
	}
	if s := r.Of(b, epoch)[0]; s.State != Closed || s.ErrorRate != newest || r.Tallies()["two"].Failed != tries {
		t.Errorf("after one request: %+v, %+v", s, r.Tallies()["two"])
	}
}

// TestReload: what is known of a target stays with it; a new key starts anew.
func TestReload(t *testing.T) {
	t.Parallel()
	var keys []Key
	c, old := site(t, nil, func(p []Provider) { keys = p[0].Keys })
	p := old.Plan(lookup(t, c, "c"))
	for {
		a, ok := p.Next(epoch, everybody)
		if !ok {
			break
		}
		a.Ended(epoch, provider.Refused(401, nil, nil))
	}
	c, r := site(t, old, func(p []Provider) { p[0].Keys[0] = keys[0] })
	p = r.Plan(lookup(t, c, "c"))
	if got := asked(&p, epoch, everybody); !slices.Equal(got, []string{"c1…2222"}) {
		t.Errorf("after a reload %v is asked, want the new key alone", got)
	}
	if got := r.Tallies()["one"]; got.Failed != 2 {
		t.Errorf("Tallies = %+v, want what was counted before", got)
	}
	for _, s := range r.Of(lookup(t, c, "c"), epoch) {
		if (s.State == Open) != (s.Key == "…1111") {
			t.Errorf("after a reload: %+v", s)
		}
	}
	if all := r.Targets(epoch); len(all) != 7 {
		t.Errorf("Standings = %+v, want every target once", all)
	}
}

// Replies of a model that its vendor ends say so in two headers; others have neither.
func TestEndingHeaders(t *testing.T) {
	t.Parallel()
	ends := model("old", account.Free, func(m *catalog.Model) { m.Shutdown = time.Date(2026, 12, 11, 0, 0, 0, 0, time.UTC) })
	h := build(t, []catalog.Model{ends, model("new", account.Free, nil)})
	for _, m := range h.catalog.Models()[1:] {
		header := http.Header{}
		rt := h.routes.byModel[m]
		(&Attempt{Target: rt.targets[0], header: rt.header, ends: rt.ends}).SetHeader(header)
		sunset, deprecation := header.Get("Sunset"), header.Get("Deprecation")
		if want := m.ID == "old"; (sunset == "Fri, 11 Dec 2026 00:00:00 GMT") != want || strings.HasPrefix(deprecation, "@") != want || header.Get("X-Sluice-Model") != m.ID {
			t.Errorf("%s: %v", m.ID, header)
		}
	}
}

// A plan that is pinned has one target, and no stand-ins.
func TestPin(t *testing.T) {
	t.Parallel()
	c, r := site(t, nil, nil)
	for _, tt := range []struct {
		model, provider, upstream, key string
		want                           bool
	}{
		{"a", "one", "a1", "…2222", true},
		{"a", "two", "a2", "", true},
		{"a", "one", "a1", "…3333", false},
		{"a", "one", "c1", "…1111", false},
		{"b", "one", "a1", "…2222", false},
		{"lost", "absent", "lost", "", false},
	} {
		for range 10 {
			p := r.Plan(lookup(t, c, tt.model), lookup(t, c, "c"))
			if got := p.Pin(tt.provider, tt.upstream, tt.key, ""); got != tt.want {
				t.Fatalf("Pin(%q, %q, %q) of %s = %t, want %t", tt.provider, tt.upstream, tt.key, tt.model, got, tt.want)
			}
			if !tt.want {
				continue
			}
			a, ok := p.Next(time.Now(), func(*catalog.Model) bool { return true })
			if !ok || a.Provider != tt.provider || a.Upstream != tt.upstream || a.LastFour != tt.key {
				t.Fatalf("the pinned plan begins with %s %s %s, want %+v", a.Provider, a.Upstream, a.LastFour, tt)
			}
			a.Ended(time.Now(), nil)
			if a, ok := p.Next(time.Now(), func(*catalog.Model) bool { return true }); ok {
				t.Fatalf("the pinned plan goes on at %s %s", a.Provider, a.Upstream)
			}
		}
	}
}
