package routing

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/upstream/provider"
)

// A target that is drained gets no further attempt, not even of a request that has begun with older routes and has
// tried it before.
func TestDrain(t *testing.T) {
	t.Parallel()
	var drained atomic.Pointer[[]string] // upstreams
	drain := func(upstreams ...string) { drained.Store(&upstreams) }
	drain()
	isDrained := func(_, upstream, _, _ string) bool { return slices.Contains(*drained.Load(), upstream) }
	c, r := site(t, nil, nil)
	for _, rt := range r.byModel { // as New does with Options.Drained
		for _, t := range rt.targets {
			t.drained = isDrained
		}
	}
	for _, t := range r.targets {
		t.drained = isDrained
	}
	now := time.Now()
	a, b := lookup(t, c, "a"), lookup(t, c, "b")

	// A request for b begins and fails once at its only target.
	p := r.Plan(b)
	at, ok := p.Next(now, everybody)
	if !ok || at.Upstream != "b2" {
		t.Fatalf("Next = %v, %t, want b2", at.Target, ok)
	}
	at.Ended(now, provider.Unreachable(nil))
	drain("b2")
	if wait, ok := p.Again(now); ok {
		t.Errorf("Again = %s, want nothing to wait for", wait)
	}
	if at, ok := p.Next(now, everybody); ok {
		t.Errorf("Next = %s after it was drained", at.Upstream)
	}
	// Others of the model take over, then its fallbacks.
	drain("a1", "b2")
	p = r.Plan(a)
	if got, want := asked(&p, now, everybody), []string{"a2", "a3", "c1…1111", "c1…2222"}; len(got) != len(want) || !slices.Equal(got[:2], want[:2]) {
		t.Errorf("a request with a1 and b2 drained asks %v, want %v", got, want)
	}
	if _, o := r.condition(b, now); o != outOfOrder {
		t.Errorf("condition of a drained model = %v, want out of order", o)
	}
	if got := r.Describe(a, now) + " " + r.Describe(b, now); got != "degraded down" {
		t.Errorf("Describe = %s, want degraded down", got)
	}
	for _, s := range r.Targets(now) {
		if s.Drained != slices.Contains(*drained.Load(), s.Upstream) {
			t.Errorf("Standing of %s: drained %t", s.Upstream, s.Drained)
		}
		if s.Running != 0 {
			t.Errorf("Standing of %s: %d calls are running after all have ended", s.Upstream, s.Running)
		}
	}
	drain()
	p = r.Plan(b)
	at, ok = p.Next(now, everybody)
	if !ok {
		t.Fatal("a target that is enabled again is not asked")
	}
	at.Answered(now.Add(time.Second))
	if s := r.Of(b, now)[0]; s.Running != 1 || s.Answered != 1 || s.Failed != 1 || s.Waited != time.Second {
		t.Errorf("Standing = %+v, want one call running that was answered after a second, and one failure", s)
	}
	at.Ended(now, nil)
}
