package routing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/seal"
	"sluice/internal/prompt/chat"
	"sluice/internal/testkit/vendortest"
	"sluice/internal/upstream/catalog"
)

// fleet is three nodes on one database, which call three providers with two keys each, and the caches of these.
type fleet struct {
	*testing.T
	nodes   [3]*router
	cache   vendortest.PromptCache // of the targets
	ideal   vendortest.PromptCache // of one target that gets every call
	began   time.Time
	failing func(t *Target, since time.Duration) bool

	mu       sync.Mutex
	calls    map[string]int // by target
	possible int            // calls whose conversation is in a cache up to their last turn
	hits     int            // those that found all of it
	last     map[string]string
	said     map[string]int // by the value of the header
	wrong    []string       // headers that are not true
}

type router struct {
	*Router
	routes *Routes
	model  *catalog.Model
}

func newFleet(t *testing.T, affinity catalog.Affinity) *fleet {
	d := &table{models: map[ConversationID]string{}}
	key := seal.NewKey()
	f := &fleet{T: t, began: time.Now(), calls: map[string]int{}, last: map[string]string{}, said: map[string]int{}}
	f.cache.TTL, f.ideal.TTL = 5*time.Minute, 5*time.Minute
	for i := range f.nodes {
		m, routes := threeTimesTwo(t, affinity, nil)
		f.nodes[i] = &router{NewRouter(&RouterOptions{Shared: d, Key: key, Log: slog.New(slog.DiscardHandler)}), routes, m}
	}
	return f
}

// threeTimesTwo returns a model at three providers with two keys each.
func threeTimesTwo(t testing.TB, affinity catalog.Affinity, old *Routes) (*catalog.Model, *Routes) {
	t.Helper()
	m := catalog.Model{ID: "m", Plan: account.Free, Provider: "a", Affinity: affinity}
	var providers []Provider
	for _, name := range []string{"a", "b", "c"} {
		m.Targets = append(m.Targets, catalog.Target{Provider: name, Upstream: "m", Weight: 1})
		providers = append(providers, Provider{Name: name, Keys: []Key{{Adapter: &nobody{name}, LastFour: "…1111"}, {Adapter: &nobody{name + "2"}, LastFour: "…2222"}}})
	}
	c, err := catalog.New([]catalog.Model{m})
	if err != nil {
		t.Fatal(err)
	}
	named, _ := c.Lookup("m")
	return named, New(c, providers, &Options{Old: old, Log: quiet})
}

// conversation is one of an agent: a turn after the other, each at any node.
func (f *fleet) conversation(name string, turns int, r *rand.Rand) {
	prompt := []string{"system", "task of " + name}
	for n := range turns {
		pause := time.Duration(2+r.IntN(58)) * time.Second
		if r.IntN(25) == 0 { // people go for lunch
			pause = 6 * time.Minute
		}
		if n > 0 {
			prompt = append(prompt, fmt.Sprintf("answer %d", n), fmt.Sprintf("question %d", n))
			time.Sleep(pause) // the bubble's clock
		}
		f.call(f.nodes[r.IntN(len(f.nodes))], name, prompt, time.Duration(500+r.IntN(4000))*time.Millisecond)
	}
}

// call makes a call as package inference does.
func (f *fleet) call(node *router, name string, prompt []string, takes time.Duration) {
	p := node.routes.Plan(node.model)
	node.Stay(&p, "acct_1", "", requestOf(f.T, prompt))
	for {
		a, ok := p.Next(time.Now(), everybody)
		if !ok {
			if wait, ok := p.Again(time.Now()); ok {
				time.Sleep(wait) // the bubble's clock
				continue
			}
			f.Errorf("%s: no target", name)
			return
		}
		time.Sleep(takes / 4) // the bubble's clock
		if f.failing != nil && f.failing(a.Target, time.Since(f.began)) {
			a.Ended(time.Now(), errors.New("no answer"))
			continue
		}
		a.Answered(time.Now())
		header := p.Stayed(&a, time.Now())
		f.count(name, prompt, a.Provider+a.LastFour, header)
		time.Sleep(takes - takes/4) // the bubble's clock
		a.Ended(time.Now(), io.EOF)
		return
	}
}

func (f *fleet) count(name string, prompt []string, target string, header []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, _ := f.cache.Read(target, prompt, time.Now())
	all, _ := f.ideal.Read("", prompt, time.Now())
	if f.calls[target]++; len(prompt) > 2 && all == len(prompt)-2 {
		f.possible++
		if found == all {
			f.hits++
		}
	}
	if header != nil {
		f.said[header[0]]++
		if last := f.last[name]; (header[0] == "kept") != (last == target) || (header[0] == "new") != (last == "") {
			f.wrong = append(f.wrong, fmt.Sprintf("%s: %q at %s after %s", name, header[0], target, last))
		}
	}
	f.last[name] = target
}

func (f *fleet) share() float64 { return float64(f.hits) / float64(f.possible) }

// busiest returns the calls of the busiest target, as a multiple of the mean.
func (f *fleet) busiest() float64 {
	most, sum := 0, 0
	for _, n := range f.calls {
		most, sum = max(most, n), sum+n
	}
	return float64(most) * 6 / float64(sum)
}

func requestOf(t testing.TB, prompt []string) *chat.Request {
	messages := make([]string, len(prompt))
	for i, text := range prompt {
		role := "user"
		switch {
		case i == 0:
			role = "system"
		case i%2 == 0:
			role = "assistant"
		}
		messages[i] = fmt.Sprintf(`{"role":%q,"content":%q}`, role, text)
	}
	return parseMessages(t, strings.Join(messages, ","), "")
}

// run plays 200 conversations of 20 turns, which begin within ten minutes.
func run(t *testing.T, seed uint64, affinity catalog.Affinity, failing func(*Target, time.Duration) bool) (f *fleet) {
	synctest.Test(t, func(t *testing.T) {
		f = newFleet(t, affinity)
		f.failing = failing
		ctx, stop := context.WithCancel(t.Context())
		var background, all sync.WaitGroup
		for _, n := range f.nodes {
			background.Go(func() { n.Run(ctx) })
		}
		for i := range 200 {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				time.Sleep(time.Duration(r.IntN(600_000)) * time.Millisecond)
				f.conversation(fmt.Sprintf("%d of %d", i, seed), 20, r)
			})
		}
		all.Wait()
		stop()
		background.Wait()
	})
	t.Logf("seed %d, affinity %s: %.4f of %d possible hits, the busiest target has %.3f of the mean; %v, %d not true", seed, affinity, f.share(), f.possible, f.busiest(), f.said, len(f.wrong))
	return f
}

// Conversations find the caches of vendors warm on every node, also while a target fails, and no target has much more to
// do than the others.
func TestWarmth(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, rand.Uint64()} {
		off := run(t, seed, catalog.AffinityOff, nil)
		if off.share() < 0.1 || off.share() > 0.25 || len(off.said) != 0 {
			t.Errorf("seed %d: without affinity %.3f of the possible hits and the headers %v, want about a sixth and none", seed, off.share(), off.said)
		}
		on := run(t, seed, catalog.AffinityPrefix, nil)
		if on.share() < 0.97 || on.busiest() > 1.25 || on.said["new"] != 200 {
			t.Errorf("seed %d: %.3f of the possible hits, the busiest target has %.3f of the mean, %v; want at least 0.97, at most 1.25, and 200 new", seed, on.share(), on.busiest(), on.said)
		}
		if len(on.wrong) > 40 { // one in a hundred: what another node has not been told yet
			t.Errorf("seed %d: %d headers are not true, such as %q", seed, len(on.wrong), on.wrong[:5])
		}
		ill := run(t, seed, catalog.AffinityPrefix, func(t *Target, since time.Duration) bool {
			return t.Provider == "b" && t.LastFour == "…1111" && since > 10*time.Minute && since < 11*time.Minute
		})
		if ill.share() < 0.9 || ill.said["moved (unhealthy)"]+ill.said["moved (failed)"] == 0 {
			t.Errorf("seed %d: with a target that fails for a minute %.3f of the possible hits, %v; want at least 0.9, and some that moved", seed, ill.share(), ill.said)
		}
	}
}
