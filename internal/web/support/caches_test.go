package support

import (
	"slices"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// The hit rate of a day is that of all its calls, and a day without any is a gap.
func TestHitChart(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	row := func(day int, model string, read, all int64) usage.ServedRow {
		r := usage.ServedRow{Sums: usage.Sums{Requests: 1, Cached: read}}
		r.Cacheable = all
		r.Start, r.Provider, r.Model = from.AddDate(0, 0, day), "p", model
		return r
	}
	c := hitChart([]usage.ServedRow{row(0, "a", 50, 100), row(0, "b", 100, 100), row(2, "a", 0, 100)}, from, webui.CacheRow{})
	if got, want := c.Series[0].Values[:4], []int64{75, webui.NoValue, 0, webui.NoValue}; !slices.Equal(got, want) || len(c.Steps) != cacheDays {
		t.Errorf("hitChart = %v and %d steps, want %v and %d", got, len(c.Steps), want, cacheDays)
	}
}
