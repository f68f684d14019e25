package routing

import (
	"maps"
	"slices"
	"time"

	"sluice/internal/kit/telemetry"
	"sluice/internal/upstream/catalog"
)

// Describe returns the health of a model in one word: healthy if all of its targets are, degraded if some are,
// down if none is, vanished if no provider lists it any more. It returns "" if the health is not known: for the router,
// and if r is nil.
func (r *Routes) Describe(m *catalog.Model, now time.Time) string {
	switch {
	case r == nil || m.Router:
		return ""
	case m.Vanished:
		return "vanished"
	}
	targets := r.Of(m, now)
	out := 0
	for i := range targets {
		if !targets[i].Healthy() {
			out++
		}
	}
	switch out {
	case len(targets): // a model without targets is down, too
		return "down"
	case 0:
		return "healthy"
	}
	return "degraded"
}

// Gauges returns what the metrics show of each provider.
func (r *Routes) Gauges(now time.Time) []telemetry.Upstream {
	tallies := r.Tallies()
	all := make([]telemetry.Upstream, 0, len(tallies))
	at := make(map[string]int, len(tallies)) // in all, by the name of the provider
	for _, name := range slices.Sorted(maps.Keys(tallies)) {
		t := tallies[name]
		u := telemetry.Upstream{Provider: name, Running: t.Running, Answered: t.Answered, Failed: t.Failed, States: map[string]int{}}
		for state := Closed; state <= HalfOpen; state++ {
			u.States[state.String()] = 0 // a series that comes and goes is hard to watch
		}
		at[name] = len(all)
		all = append(all, u)
	}
	for _, target := range r.Targets(now) {
		i, ok := at[target.Provider]
		if !ok {
			continue
		}
		u := &all[i]
		u.States[target.State.String()]++
		u.ErrorRate = max(u.ErrorRate, target.ErrorRate)
		u.FirstContent = max(u.FirstContent, target.Latency.Seconds())
		if target.Replica != "" {
			addReplica(u, &target)
		}
	}
	return all
}

// addReplica adds a target to the figures of its replica. The same replica has a target for each key and model.
func addReplica(u *telemetry.Upstream, t *TargetHealth) {
	i := slices.IndexFunc(u.Replicas, func(r telemetry.Replica) bool { return r.Name == t.Replica })
	if i < 0 {
		i = len(u.Replicas)
		u.Replicas = append(u.Replicas, telemetry.Replica{Name: t.Replica})
	}
	r := &u.Replicas[i]
	r.Answered, r.Failed, r.Running = r.Answered+t.Answered, r.Failed+t.Failed, r.Running+t.Running
	if f := t.Server; f != nil {
		r.Reports, r.Serving, r.Waiting, r.CacheUse = true, float64(f.Running), float64(f.Waiting), -1
		if f.CacheUse != nil {
			r.CacheUse = *f.CacheUse
		}
	}
}
