package caching_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/upstream/caching"
)

var classes = []string{"agent", "chat", "single", "batch"}

// bound returns the most that marks may lose of an account's calls: a stake, and the root of a stake times what the calls
// cost; see the documentation of package caching. Estimates that are off may make a stake a quarter larger.
func (o *outcome) bound() float64 {
	stake := o.most * 0.25 * 1.25
	return stake + math.Sqrt(stake*o.plain)
}

// TestHistories replays every history alone, as the first of an account, and all of a class as those of one account.
func TestHistories(t *testing.T) {
	t.Parallel()
	all := histories(t)
	for i := range models {
		m := &models[i]
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			sums, lost := map[string]*outcome{}, 0
			for _, c := range classes {
				sums[c] = &outcome{}
			}
			for j, h := range all {
				o := alone(t, m, h)
				sums[h.class].add(o)
				if h.class == "agent" && o.saved() < 0.6 {
					t.Errorf("history %d of an agent saves %.1f %%, want 60 or more", j, 100*o.saved())
				}
				if o.cost > o.plain {
					lost++
					t.Logf("history %d, a %s of %d calls, loses %.1f %% of $%.4f", j, h.class, len(h.calls), -100*o.saved(), o.plain)
				}
				if loss := o.cost - o.plain; loss > o.most*0.25 {
					t.Errorf("history %d loses %.5f, want no more than a stake of %.5f", j, loss, o.most*0.25)
				}
			}
			if lost > 1 {
				t.Errorf("%d histories cost more with marks, want one at most", lost)
			}
			for _, c := range classes {
				t.Logf("%s: each alone, marks save %.1f %%", c, 100*sums[c].saved())
				if sums[c].cost > sums[c].plain {
					t.Errorf("%s: marks cost %.4f, and none %.4f", c, sums[c].cost, sums[c].plain)
				}
			}
			testTogether(t, m, all, 1)
			testTogether(t, m, all, 3)
		})
	}
}

// testTogether replays the histories of each class, and all of them, as those of one account over so many nodes.
func testTogether(t *testing.T, m *model, all []history, nodes int) {
	t.Helper()
	for _, class := range append([]string{"all"}, classes...) {
		var some []history
		for _, h := range all {
			if class == "all" || h.class == class {
				some = append(some, h)
			}
		}
		var memories []*caching.Memory
		for range nodes {
			memories = append(memories, caching.NewMemory())
		}
		var sum outcome
		for _, o := range replay(t, &vendor{model: m}, memories, some, 20*time.Minute) {
			sum.add(o)
		}
		t.Logf("%s: over %d nodes, marks save %.1f %%", class, nodes, 100*sum.saved())
		if sum.cost > sum.plain && nodes == 1 {
			t.Errorf("%s: marks cost %.4f, and none %.4f", class, sum.cost, sum.plain)
		}
		if loss := sum.cost - sum.plain; loss > 0.01*sum.plain { // each node makes bets of its own
			t.Errorf("%s over %d nodes: marks lose %.4f of %.4f, want a hundredth at most", class, nodes, loss, sum.plain)
		}
		if class == "agent" && sum.saved() < 0.6 {
			t.Errorf("%s over %d nodes: marks save %.1f %%, want 60 or more", class, nodes, 100*sum.saved())
		}
	}
}

// TestBound replays histories that nobody would have on purpose, at a vendor that does what it says and at one that finds
// nothing again: what marks lose is bounded.
func TestBound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(39, 1))
	gaps := []time.Duration{time.Second, 4 * time.Minute, 5 * time.Minute, 6 * time.Minute, 50 * time.Minute, 2 * time.Hour}
	worst := 0.0
	for n := range 600 {
		h := history{class: []string{"agent", "chat", "batch"}[n%3], head: random.IntN(20_000), blocks: 1 + random.IntN(3)}
		likes := random.IntN(len(gaps))
		for range 1 + random.IntN(60) {
			gap := gaps[likes]
			if random.IntN(3) == 0 {
				gap = gaps[random.IntN(len(gaps))]
			}
			h.calls = append(h.calls, step{gap, random.IntN(1 << random.IntN(15)), random.IntN(2000), 1 + random.IntN(30), 1 + random.IntN(3)})
		}
		m := &models[n%len(models)]
		o := alone(t, m, h)
		worst = max(worst, (o.cost-o.plain)/o.bound())
		if loss := o.cost - o.plain; loss > o.bound() {
			t.Errorf("history %d loses %.5f of %.5f, want %.5f at most: %+v", n, loss, o.plain, o.bound(), h)
		}
		o = replay(t, &vendor{model: m, broken: true}, []*caching.Memory{caching.NewMemory()}, []history{h}, 0)[0]
		// What a bet has seemed to win is believed once more.
		if loss := o.cost - o.plain; loss > 2*o.bound() {
			t.Errorf("history %d at a vendor that finds nothing loses %.5f of %.5f, want %.5f at most", n, loss, o.plain, 2*o.bound())
		}
	}
	t.Logf("the worst history loses %.2f of the bound", worst)
}
