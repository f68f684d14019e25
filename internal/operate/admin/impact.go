package admin

import (
	"cmp"
	"context"
	"slices"

	"sluice/internal/operate/overview"
	"sluice/internal/operate/steering"
	"sluice/internal/upstream/catalog"
)

// Impact is what a drain takes away, by the calls of the last three hours.
type Impact struct {
	Target steering.Target
	// Targets is how many targets of this server are drained that were not before.
	Targets int
	// Calls is how many calls went there, All how many there were.
	Calls, All int64
	Models     []ModelImpact
}

// ModelImpact is what a drain means for one model.
type ModelImpact struct {
	Model      string
	Calls, All int64    // those of its calls that went to what is drained, and all of them
	Left       []string // where its calls go from then on: targets that can be called
	Fallbacks  []string // models that answer if nothing is left
}

// upstreamImpact says what a drain would take away, before anybody orders it.
func (b *Backend) upstreamImpact(ctx context.Context, in UpstreamTarget) (Impact, error) {
	if b.Reports == nil {
		return Impact{}, noServer()
	}
	targets := b.Reports.Upstreams(ctx)
	out := Impact{Target: in.target()}
	covered := make([]bool, len(targets))
	for i := range targets {
		t := &targets[i]
		n := callsOf(t)
		out.All += n
		if covered[i] = out.Target.Covers(t.Provider, t.Upstream, t.Key, t.Replica); covered[i] {
			out.Calls += n
			if !t.Drained {
				out.Targets++
			}
		}
	}
	if !slices.Contains(covered, true) {
		return Impact{}, noTarget(in)
	}
	for _, m := range b.Catalog().Models() {
		places := m.Places()
		impact, concerned := ModelImpact{Model: m.ID, Fallbacks: m.Fallbacks}, false
		for i := range targets {
			t := &targets[i]
			if !slices.ContainsFunc(places, func(p catalog.Target) bool { return p.Provider == t.Provider && p.Upstream == t.Upstream }) {
				continue
			}
			n := callsOf(t)
			impact.All += n
			switch {
			case covered[i]:
				concerned = true
				impact.Calls += n
			case t.Healthy():
				impact.Left = append(impact.Left, steering.Target{Provider: t.Provider, Upstream: t.Upstream, Key: t.Key, Replica: t.Replica}.String())
			}
		}
		if concerned {
			out.Models = append(out.Models, impact)
		}
	}
	slices.SortStableFunc(out.Models, func(x, y ModelImpact) int { return cmp.Compare(y.Calls, x.Calls) })
	return out, nil
}

// callsOf returns how many calls a target had in the last three hours.
func callsOf(u *overview.Upstream) (n int64) {
	for i := range u.Series {
		n += u.Series[i].Answered + u.Series[i].Failed
	}
	return n
}
