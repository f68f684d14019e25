package front

import (
	"slices"
	"testing"

	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

// Several keys at one provider are one place, whose health is that of all of them.
func TestPlaces(t *testing.T) {
	t.Parallel()
	m := &catalog.Model{ID: "m", Targets: []catalog.Target{{Provider: "a", Upstream: "m", Weight: 1}, {Provider: "b", Upstream: "m", Weight: 2}, {Provider: "c", Upstream: "m"}}}
	got := placesOf(m, []routing.TargetHealth{
		{Provider: "a", Upstream: "m", State: routing.Closed},
		{Provider: "a", Upstream: "m", State: routing.Closed},
		{Provider: "b", Upstream: "m", State: routing.Closed},
		{Provider: "b", Upstream: "m", State: routing.Open, Down: true},
		{Provider: "c", Upstream: "m", State: routing.Open, Down: true},
		{Provider: "c", Upstream: "another", State: routing.Closed},
	})
	want := []Place{{Provider: "a", Health: "healthy", Share: 33}, {Provider: "b", Health: "degraded", Share: 67}, {Provider: "c", Health: "down"}}
	if !slices.Equal(got, want) {
		t.Errorf("placesOf = %+v, want %+v", got, want)
	}
}
