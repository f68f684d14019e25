package overview

import (
	"maps"
	"time"

	"sluice/internal/ledger/usage"
)

// mostModels is how many models have figures of their own.
const mostModels = 500

// Span is what a model or an upstream did in a time: a minute, a day, or any sum of them.
type Span struct {
	// Calls that ended, and those of them that failed through no fault of their caller.
	Calls  int64 `json:"calls,omitempty"`
	Failed int64 `json:"failed,omitempty"`
	// Tokens of replies, and how long the models wrote at them.
	Tokens  int64 `json:"tokens,omitempty"`
	WroteMS int64 `json:"wrote_ms,omitempty"`
	// How long calls took to their end, and to their first token.
	Took  Times `json:"took,omitempty"`
	First Times `json:"first,omitempty"`
	// How often somebody looked whether the model can be called, at most once a minute on each node, and how often some or
	// all of its targets could not.
	Looks    int64 `json:"looks,omitempty"`
	Degraded int64 `json:"degraded,omitempty"`
	Down     int64 `json:"down,omitempty"`
}

// Settled counts a call.
func (s *Span) Settled(c *usage.Settlement) {
	s.Calls++
	if (c.End == usage.EndFailed || c.End == usage.EndCut) && (c.Status < 400 || c.Status >= 500) {
		s.Failed++
	}
	s.Took.add(c.Latency)
	if c.FirstToken <= 0 {
		return
	}
	s.First.add(c.FirstToken)
	if wrote := (c.Latency - c.FirstToken).Milliseconds(); wrote > 0 {
		s.Tokens += int64(c.Tokens.CompletionTotal())
		s.WroteMS += wrote
	}
}

// looked counts a look at the health of a model, as routing describes it.
func (s *Span) looked(health string) {
	s.Looks++
	switch health {
	case "healthy", "":
	case "degraded":
		s.Degraded++
	default:
		s.Down++
	}
}

// Merge adds another span to s.
func (s *Span) Merge(o *Span) {
	s.Calls += o.Calls
	s.Failed += o.Failed
	s.Tokens += o.Tokens
	s.WroteMS += o.WroteMS
	s.Took.merge(o.Took)
	s.First.merge(o.First)
	s.Looks += o.Looks
	s.Degraded += o.Degraded
	s.Down += o.Down
}

// Uptime returns the share of the time in which the model could be called and calls did not fail, from 0 to 1, and
// whether anything is known.
func (s *Span) Uptime() (share float64, known bool) {
	if s.Looks == 0 && s.Calls == 0 {
		return 0, false
	}
	share = 1
	if s.Looks > 0 {
		share -= float64(s.Down) / float64(s.Looks)
	}
	if s.Calls > 0 {
		share = min(share, 1-float64(s.Failed)/float64(s.Calls))
	}
	return share, true
}

// Uptime returns the share over times that follow each other, such as days: the mean of each, weighted by how often somebody
// looked. So a failed call counts for the time around it, and not for months in which few calls were made.
func Uptime(spans []Span) (share float64, known bool) {
	var sum, weights float64
	for i := range spans {
		if one, ok := spans[i].Uptime(); ok {
			weight := float64(max(spans[i].Looks, 1))
			sum, weights = sum+one*weight, weights+weight
		}
	}
	if weights == 0 {
		return 0, false
	}
	return sum / weights, true
}

// Speed returns how many tokens of a reply were written in a second, or 0 if that is not known.
func (s *Span) Speed() float64 {
	if s.WroteMS == 0 {
		return 0
	}
	return float64(s.Tokens) * 1000 / float64(s.WroteMS)
}

// cloneSpans returns a copy that shares nothing with the original.
func cloneSpans(spans map[string]Span) map[string]Span {
	c := maps.Clone(spans)
	for name, s := range c {
		s.Took, s.First = append(Times(nil), s.Took...), append(Times(nil), s.First...)
		c[name] = s
	}
	return c
}

// Subject is what spans are about.
type Subject struct {
	Kind string // ModelKind or UpstreamKind
	Name string
}

// The kinds of subjects.
const (
	ModelKind    = "model"
	UpstreamKind = "upstream"
)

// HealthDay is what a subject did on a day (UTC), which is counted since 1970.
type HealthDay struct {
	Subject
	Day  int64
	Span Span
}

// dayOf returns the number of a day.
func dayOf(at time.Time) int64 { return at.Unix() / 86400 }

// lookedAt counts a look at the health of models, and of upstreams: one is down if all of its targets are. It
// reports whether something is not healthy.
func (m *Minute) lookedAt(g *Gauges) (bad bool) {
	for _, model := range g.Models[:min(len(g.Models), mostModels)] {
		span := m.Models[model.ID]
		span.looked(model.Health)
		bad = bad || model.Health != "healthy"
		put(&m.Models, model.ID, span)
	}
	open, all := map[string]int{}, map[string]int{}
	for i := range g.Targets[:min(len(g.Targets), mostTargets)] {
		t := &g.Targets[i]
		all[t.Provider]++
		if t.Down {
			open[t.Provider]++
		}
	}
	for provider, n := range all {
		health := "healthy"
		switch open[provider] {
		case 0:
		case n:
			health = "down"
		default:
			health = "degraded"
		}
		span := m.Upstreams[provider]
		span.looked(health)
		bad = bad || health != "healthy"
		put(&m.Upstreams, provider, span)
	}
	return bad
}
