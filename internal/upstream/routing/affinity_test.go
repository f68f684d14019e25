package routing

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/seal"
	"sluice/internal/ledger/price"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// bound is an adapter whose models are bound to keys.
type bound struct{ nobody }

func (*bound) BindsToKey(upstream string) bool { return upstream == "bound" }

func TestAffinityOf(t *testing.T) {
	t.Parallel()
	read := func(input, cached price.Rate) *price.Series {
		e := price.Entry{Model: "m", Rates: price.Of(input, 10)}
		e.Rates[price.CacheRead] = cached
		sealed, err := price.Sealed(e)
		if err != nil {
			t.Fatal(err)
		}
		return price.NewBook([]*price.Entry{sealed}).Find("m", "", "m")
	}
	for name, tt := range map[string]struct {
		said    catalog.Affinity
		price   *price.Series
		own     bool
		adapter provider.Adapter
		single  bool
		want    catalog.Affinity
	}{
		"nothing is known":            {want: catalog.AffinityOff},
		"cached tokens cost less":     {price: read(10, 1), want: catalog.AffinityPrefix},
		"they cost as much":           {price: read(10, 10), want: catalog.AffinityOff},
		"their price is not known":    {price: read(10, price.Unknown), want: catalog.AffinityOff},
		"a server of one's own":       {own: true, want: catalog.AffinityPrefix},
		"the operator says off":       {said: catalog.AffinityOff, price: read(10, 1), own: true, want: catalog.AffinityOff},
		"the operator says session":   {said: catalog.AffinitySession, want: catalog.AffinitySession},
		"the operator says prefix":    {said: catalog.AffinityPrefix, want: catalog.AffinityPrefix},
		"bound to a key":              {said: catalog.AffinityOff, adapter: &bound{}, want: catalog.AffinityPrefix},
		"one target":                  {own: true, price: read(10, 1), single: true, want: catalog.AffinityOff},
		"one target, as configured":   {said: catalog.AffinitySession, single: true, want: catalog.AffinitySession},
		"bound to a key, of one only": {adapter: &bound{}, single: true, want: catalog.AffinityOff},
	} {
		upstream := "m"
		if tt.adapter == nil {
			tt.adapter = &nobody{}
		} else {
			upstream = "bound"
		}
		m := catalog.Model{ID: "m", Plan: account.Free, Provider: "one", Upstream: upstream, Affinity: tt.said, Price: tt.price}
		keys := []Key{{Adapter: tt.adapter, LastFour: "…1111"}, {Adapter: &nobody{"two"}, LastFour: "…2222"}}
		if tt.single {
			keys = keys[:1]
		}
		c, err := catalog.New([]catalog.Model{m})
		if err != nil {
			t.Fatal(err)
		}
		r := New(c, []Provider{{Name: "one", Keys: keys, SelfHosted: tt.own}}, &Options{Log: quiet})
		if got := r.byModel[lookup(t, c, "m")].affinity; got != tt.want {
			t.Errorf("%s: the affinity is %s, want %s", name, got, tt.want)
		}
	}
}

// spreadOut returns a model with two targets of a weight of 3 and 1, the first with two keys, and a spare.
func spreadOut(t *testing.T, old *Routes, affinity catalog.Affinity, change func([]catalog.Target) []catalog.Target) (*catalog.Model, *Routes, []Provider) {
	t.Helper()
	targets := []catalog.Target{{Provider: "one", Upstream: "m", Weight: 3}, {Provider: "two", Upstream: "m", Weight: 1}, {Provider: "spare", Upstream: "m"}}
	if change != nil {
		targets = change(targets)
	}
	c, err := catalog.New([]catalog.Model{{ID: "m", Plan: account.Free, Provider: "one", Affinity: affinity, Targets: targets}})
	if err != nil {
		t.Fatal(err)
	}
	providers := []Provider{
		{Name: "one", Keys: []Key{{Adapter: &nobody{"1"}, LastFour: "…1111"}, {Adapter: &nobody{"2"}, LastFour: "…2222"}}},
		{Name: "two", Keys: []Key{{Adapter: &nobody{"3"}}}},
		{Name: "spare", Keys: []Key{{Adapter: &nobody{"4"}}}},
	}
	return lookup(t, c, "m"), New(c, providers, &Options{Old: old, Log: quiet}), providers
}

// asks makes a call of a conversation in its nth turn, and returns who has answered it, and what the header says.
func asks(t *testing.T, r *Router, routes *Routes, m *catalog.Model, now time.Time, session, name string, n int) (target, header string) {
	t.Helper()
	p := routes.Plan(m)
	r.Stay(&p, "acct_1", session, parseMessages(t, turn(name, n), ""))
	a, ok := p.Next(now, everybody)
	if !ok {
		t.Fatalf("%s: no target", name)
	}
	a.Answered(now)
	said := p.Stayed(&a, now)
	a.Ended(now, io.EOF)
	return a.Provider + a.LastFour, strings.Join(said, "|")
}

// All nodes try the targets of a conversation in the same order. Conversations are spread by weight, and only those of a
// target that goes are somewhere else then.
func TestFavourites(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	m, here, _ := spreadOut(t, nil, catalog.AffinityPrefix, nil)
	other, there, _ := spreadOut(t, nil, catalog.AffinityPrefix, nil)
	without, less, _ := spreadOut(t, nil, catalog.AffinityPrefix, func(all []catalog.Target) []catalog.Target { return slices.Delete(all, 1, 2) })
	count := map[string]int{}
	const conversations = 1000
	for i := range conversations {
		// A follow-up goes to its favourite, whatever was placed before. Each on a node that has seen nothing.
		order := func(r *Routes, m *catalog.Model) []string {
			p := r.Plan(m)
			NewRouter(&RouterOptions{Key: key}).Stay(&p, "acct_1", "", parseMessages(t, turn(fmt.Sprint("Conversation ", i), 1+i%3), ""))
			return asked(&p, epoch, nil)
		}
		first := order(here, m)
		if again := order(there, other); len(first) != 4 || !slices.Equal(first, again) {
			t.Fatalf("conversation %d is tried at %v, on another node at %v", i, first, again)
		}
		gone := slices.Index(first, "m") // the second provider; the spare, which is last, has no key either
		if fewer := order(less, without); !slices.Equal(fewer, slices.Delete(slices.Clone(first), gone, gone+1)) {
			t.Fatalf("conversation %d is tried at %v, without a target at %v", i, first, fewer)
		}
		count[first[0]]++
	}
	for name, share := range map[string]float64{"m…1111": 0.375, "m…2222": 0.375, "m": 0.25} {
		if got := float64(count[name]) / conversations; got < share-0.06 || got > share+0.06 {
			t.Errorf("%s has %.3f of the conversations, want about %.3f", name, got, share)
		}
	}
}

// New conversations keep the weights much closer than chance would.
func TestPlaced(t *testing.T) {
	t.Parallel()
	m, routes, _ := spreadOut(t, nil, catalog.AffinityPrefix, nil)
	r := NewRouter(nil)
	count := map[string]int{}
	const conversations = 400
	for i := range conversations {
		name := fmt.Sprint("Conversation ", i)
		target, header := asks(t, r, routes, m, epoch, "", name, 0)
		if header != "new" {
			t.Fatalf("the first call of %s is %q", name, header)
		}
		count[target]++
		if again, header := asks(t, r, routes, m, epoch, "", name, 1); again != target || header != "kept" {
			t.Fatalf("%s was at %s, and is at %s: %q", name, target, again, header)
		}
	}
	for name, share := range map[string]float64{"one…1111": 0.375, "one…2222": 0.375, "two": 0.25} {
		if most := mostPlaced*share*conversations + 1; float64(count[name]) > most {
			t.Errorf("%s has %d conversations, want at most %.0f", name, count[name], most)
		}
	}
	if n := count["spare"]; n != 0 {
		t.Errorf("the spare has %d conversations, want none", n)
	}
	// A reload knows what was placed.
	for _, target := range spreadAgain(t, routes) {
		if was := float64(count[target.Provider+target.LastFour]); target.placed.lately(epoch) != was {
			t.Errorf("after a reload %s%s has %v conversations, want %v", target.Provider, target.LastFour, target.placed.lately(epoch), was)
		}
		if half := target.placed.lately(epoch.Add(placedHalfLife)); half != target.placed.lately(epoch)/2 {
			t.Errorf("after a half-life %v conversations count, want half of %v", half, target.placed.lately(epoch))
		}
	}
}

func spreadAgain(t *testing.T, old *Routes) []*Target {
	m, routes, _ := spreadOut(t, old, catalog.AffinityPrefix, nil)
	return routes.byModel[m].targets
}

// Sessions are conversations, whatever they begin with. With session alone, other calls are drawn.
func TestSessionAffinity(t *testing.T) {
	t.Parallel()
	for _, affinity := range []catalog.Affinity{catalog.AffinitySession, catalog.AffinityPrefix} {
		m, routes, _ := spreadOut(t, nil, affinity, nil)
		r := NewRouter(nil)
		targets := map[string]bool{}
		for i := range 50 {
			target, header := asks(t, r, routes, m, epoch, "run-1", fmt.Sprint("Task ", i), 0)
			targets[target] = true
			if want := map[bool]string{true: "new", false: "kept"}[i == 0]; header != want {
				t.Errorf("%s: call %d of a session is %q, want %q", affinity, i, header, want)
			}
		}
		if len(targets) != 1 {
			t.Errorf("%s: a session is at %v, want one target", affinity, targets)
		}
		// One beginning, no session: with prefix a conversation, with session none.
		targets = map[string]bool{}
		headers := map[string]bool{}
		for i := range 60 {
			target, header := asks(t, r, routes, m, epoch, "", "Hello", i%3)
			targets[target], headers[header] = true, true
		}
		if one := len(targets) == 1; one != (affinity == catalog.AffinityPrefix) || headers[""] == one {
			t.Errorf("%s: calls without a session are at %v and have the headers %v", affinity, targets, headers)
		}
	}
}

// A conversation moves when its target cannot take a call, says why, and stays where it went.
func TestMoves(t *testing.T) {
	t.Parallel()
	begin := func(t *Target, n int, now time.Time) (ends []func(error)) {
		for range n {
			p, ok := t.begin(now, wanted)
			if !ok {
				panic("not let in")
			}
			a := Attempt{Target: t, permit: p}
			ends = append(ends, func(err error) { a.Ended(now, err) })
		}
		return ends
	}
	for name, tt := range map[string]struct {
		hinder func(home *Target, now time.Time) (mend func())
		later  time.Duration
		want   string
	}{
		"nothing": {want: "kept"},
		"ill": {func(home *Target, now time.Time) func() {
			for _, end := range begin(home, 3, now) {
				end(provider.Cut(io.ErrUnexpectedEOF))
			}
			return func() { home.health.open = false }
		}, 0, "moved (unhealthy)"},
		"out of quota": {func(home *Target, now time.Time) func() {
			begin(home, 1, now)[0](provider.Refused(429, http.Header{"Retry-After": {"60"}}, nil))
			return func() { home.health.open = false }
		}, 0, "moved (quota)"},
		"full": {func(home *Target, now time.Time) func() {
			home.load.most.Store(1)
			ends := begin(home, 1, now)
			return func() { ends[0](nil); home.load.most.Store(0) }
		}, 0, "moved (full)"},
		"busy": {func(home *Target, now time.Time) func() {
			ends := begin(home, 12, now)
			return func() {
				for _, end := range ends {
					end(nil)
				}
			}
		}, 0, "moved (busy)"},
		"drained": {func(home *Target, _ time.Time) func() {
			home.drained = func(string, string, string, string) bool { return true }
			return func() { home.drained = nil }
		}, 0, "moved (drained)"},
		"idle": {nil, 2 * time.Hour, "kept"}, // the favourite is still the same
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, routes, _ := spreadOut(t, nil, catalog.AffinityPrefix, nil)
			r, now := NewRouter(nil), epoch
			first, _ := asks(t, r, routes, m, now, "", "Hello", 0)
			mend := func() {}
			for _, target := range routes.byModel[m].targets {
				if target.Provider+target.LastFour == first && tt.hinder != nil {
					mend = tt.hinder(target, now)
				}
			}
			now = now.Add(tt.later)
			second, header := asks(t, r, routes, m, now, "", "Hello", 1)
			if header != tt.want || (second == first) != (tt.want == "kept") {
				t.Errorf("after %s the call is %q at %s, want %q", first, header, second, tt.want)
			}
			mend()
			if third, header := asks(t, r, routes, m, now, "", "Hello", 2); third != second || header != "kept" {
				t.Errorf("after %s the call is %q at %s, want it to stay", second, header, third)
			}
		})
	}
}

// A failed attempt goes to the second of the order, and a call that waits and comes back is where it was.
func TestMovesWithinACall(t *testing.T) {
	t.Parallel()
	m, routes, _ := spreadOut(t, nil, catalog.AffinityPrefix, nil)
	r := NewRouter(nil)
	home, _ := asks(t, r, routes, m, epoch, "", "Hello", 0)
	try := func(n int, fail bool) (target, header string) {
		p := routes.Plan(m)
		r.Stay(&p, "acct_1", "", parseMessages(t, turn("Hello", n), ""))
		for range n {
			a, _ := p.Next(epoch, everybody)
			target = a.Provider + a.LastFour
			if fail {
				a.Ended(epoch, errors.New("no answer"))
				fail = false
				continue
			}
			a.Answered(epoch)
			header = p.Stayed(&a, epoch)[0]
			a.Ended(epoch, io.EOF)
			return target, header
		}
		return target, header
	}
	moved, header := try(2, true)
	if moved == home || header != "moved (failed)" {
		t.Errorf("after a failure at %s the call is at %s: %q, want it moved (failed)", home, moved, header)
	}
	if target, header := try(3, false); target != moved || header != "kept" {
		t.Errorf("then the call is at %s: %q, want it kept at %s", target, header, moved)
	}
}

// A reload keeps conversations where they are, unless their target is gone or no more than a spare.
func TestReloadKeepsConversations(t *testing.T) {
	t.Parallel()
	m, routes, _ := spreadOut(t, nil, catalog.AffinityPrefix, nil)
	r := NewRouter(nil)
	at := map[string]string{}
	for i := range 60 {
		name := fmt.Sprint("Conversation ", i)
		at[name], _ = asks(t, r, routes, m, epoch, "", name, 0)
	}
	count := map[string]int{}
	for step, change := range []func([]catalog.Target) []catalog.Target{
		func(all []catalog.Target) []catalog.Target {
			all[1].Weight = 40 // the favourite of nearly all
			return all
		},
		func(all []catalog.Target) []catalog.Target { return all[:1] },
		func(all []catalog.Target) []catalog.Target {
			all[0].Weight = 0
			return all
		},
	} {
		m, routes, _ = spreadOut(t, routes, catalog.AffinityPrefix, change)
		for name, was := range at {
			target, header := asks(t, r, routes, m, epoch, "", name, 1+step)
			want := "kept"
			switch {
			case step == 1 && was == "two":
				want = "moved (gone)"
			case step == 2:
				want = "moved (spare)"
			}
			if header != want || (target == was) != (want == "kept") {
				t.Errorf("reload %d: %s went from %s to %s: %q, want %q", step, name, was, target, header, want)
			}
			count[header]++
			at[name] = target
		}
	}
	if count["kept"] == 0 || count["moved (gone)"] == 0 {
		t.Errorf("the headers are %v, want both kept and moved (gone)", count)
	}
}

// Stand-ins keep conversations, too, if the model itself has one target.
func TestStandInsStay(t *testing.T) {
	t.Parallel()
	one, standIn := model("one", account.Free, nil), model("other", account.Free, nil)
	one.Fallbacks, standIn.Affinity = []string{"other"}, catalog.AffinityPrefix
	standIn.Provider, standIn.Targets = "a", []catalog.Target{{Provider: "a", Upstream: "m", Weight: 1}, {Provider: "b", Upstream: "m", Weight: 1}, {Provider: "c", Upstream: "m", Weight: 1}}
	c, err := catalog.New([]catalog.Model{one, standIn})
	if err != nil {
		t.Fatal(err)
	}
	providers := []Provider{{Name: one.Provider, Keys: []Key{{Adapter: &nobody{"one"}}}}}
	for _, name := range []string{"a", "b", "c"} {
		providers = append(providers, Provider{Name: name, Keys: []Key{{Adapter: &nobody{name}}}})
	}
	routes, r := New(c, providers, &Options{Log: quiet, Drained: func(provider, _, _, _ string) bool { return provider == one.Provider }}), NewRouter(nil)
	targets := map[string]bool{}
	for n := range 20 {
		target, header := asks(t, r, routes, lookup(t, c, "one"), epoch, "", "Hello", n)
		targets[target] = true
		if header != "" {
			t.Errorf("a model with one target has the header %q", header)
		}
	}
	if len(targets) != 1 {
		t.Errorf("the conversation was at %v, want one of the stand-in's targets", targets)
	}
}

// A conversation whose thinking belongs to a key is not moved for the sake of the load: another node that has not heard of it
// would ask the wrong key.
func TestBoundToKeyOnTwoNodes(t *testing.T) {
	t.Parallel()
	c, err := catalog.New([]catalog.Model{{ID: "m", Plan: account.Free, Provider: "one", Upstream: "bound"}})
	if err != nil {
		t.Fatal(err)
	}
	keys := []Key{{Adapter: &bound{nobody{"1"}}, LastFour: "…1111"}, {Adapter: &bound{nobody{"2"}}, LastFour: "…2222"}}
	key := seal.NewKey()
	var routers [2]*Router
	var routes [2]*Routes
	for i := range routers {
		routers[i] = NewRouter(&RouterOptions{Key: key})
		routes[i] = New(c, []Provider{{Name: "one", Keys: keys}}, &Options{Log: quiet})
	}
	m, now := lookup(t, c, "m"), time.Unix(1_800_000_000, 0)
	for i := range 100 {
		name := fmt.Sprint("talk ", i)
		first, _ := asks(t, routers[0], routes[0], m, now, "", name, 0)
		if second, said := asks(t, routers[1], routes[1], m, now, "", name, 1); second != first || said != "kept" {
			t.Fatalf("%s: the other node asks %s (%s), want %s (kept)", name, second, said, first)
		}
	}
}
