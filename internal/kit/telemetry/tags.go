package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// mostTags is how many tags have series of their own. Callers choose the values of tags, so calls with further ones are counted
// together as "other".
const mostTags = 200

// tags holds what calls with tags have cost, for those tags that the operator lists.
type tags struct {
	listed []string // names, and names with values such as team=search
	series *cache[string, tagSeries]
}

// tagSeries holds the series of one tag.
type tagSeries struct{ calls, cost prometheus.Counter }

// newTags registers the metrics of tags.
func newTags(to promauto.Factory) *tags {
	calls := to.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_tag_calls_total", Help: "Admitted calls that have ended, by those of their tags that are listed in metrics_tags.",
	}, []string{"tag"})
	cost := to.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_tag_cost_usd_total", Help: "What calls have cost by the prices of the catalog, in dollars, by those of their tags that are listed in metrics_tags.",
	}, []string{"tag"})
	return &tags{series: newCache(mostTags, "other", func(tag string) tagSeries {
		tag = valid(tag)
		return tagSeries{calls.WithLabelValues(tag), cost.WithLabelValues(tag)}
	})}
}

// Tags says which tags are counted: those with these names, such as team, and these with their values, such as team=search. It is
// called before the first call, if at all. Tags with their values have series at once, so that no caller takes their place.
func (m *Metrics) Tags(listed []string) {
	m.tags.listed = listed
	for _, tag := range listed {
		if strings.Contains(tag, "=") {
			m.tags.series.of(tag)
		}
	}
}

// called counts a call that has ended for its tags.
func (t *tags) called(c *Call) {
	if len(t.listed) == 0 {
		return
	}
	for _, tag := range c.Tags {
		if name, _, _ := strings.Cut(tag, "="); !slices.Contains(t.listed, name) && !slices.Contains(t.listed, tag) {
			continue
		}
		s := t.series.of(tag)
		s.calls.Inc()
		if c.CostNano > 0 {
			s.cost.Add(float64(c.CostNano) / 1e9)
		}
	}
}
