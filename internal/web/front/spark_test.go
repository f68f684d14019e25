package front

import (
	"testing"

	"sluice/internal/operate/overview"
)

func TestSpark(t *testing.T) {
	t.Parallel()
	of := func(speeds ...int64) (days []overview.Span) {
		for _, v := range speeds {
			s := overview.Span{}
			if v > 0 {
				s = overview.Span{Tokens: v, WroteMS: 1000}
			}
			days = append(days, s)
		}
		return days
	}
	for _, tt := range []struct {
		days []overview.Span
		want string
	}{
		{nil, ""},
		{of(0, 0, 5), ""},
		{of(10, 20, 15), "M2 22h.1L6 2L10 12"},
		{of(10, 0, 20), "M2 22h.1M10 2h.1"},
		// 19 and 20 are nearly the same, and look it.
		{of(19, 20), "M2 4h.1L6 2"},
	} {
		if got := spark(tt.days, throughput); got != tt.want {
			t.Errorf("spark(%v) = %q, want %q", tt.days, got, tt.want)
		}
	}
	if long := of(make([]int64, 60)...); spark(append(long, of(1, 2)...), throughput) != "M114 22h.1L118 2" {
		t.Errorf("spark of 62 days = %q, want the last 30", spark(append(long, of(1, 2)...), throughput))
	}
}
