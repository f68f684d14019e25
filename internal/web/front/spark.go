package front

import (
	"fmt"
	"strings"

	"sluice/internal/operate/overview"
)

const (
	// sparkDays is how many days a small chart shows.
	sparkDays = 30
	// sparkHeight is that of its drawing, which has four units for each day.
	sparkHeight = 24.0
)

// spark returns the line of a small chart of the last days as the path of an SVG, or "" if fewer than two days are known. The
// line has gaps where nothing is known. Its scale does not make much of small differences: it covers at least half of the
// highest value.
func spark(days []overview.Span, value func(*overview.Span) (int64, string)) string {
	days = days[max(0, len(days)-sparkDays):]
	values := make([]int64, len(days))
	low, high, known := int64(0), int64(0), 0
	for i := range days {
		v, _ := value(&days[i])
		values[i] = v
		if v <= 0 {
			continue
		}
		if known == 0 || v < low {
			low = v
		}
		high = max(high, v)
		known++
	}
	if known < 2 {
		return ""
	}
	low = min(low, high/2)
	var b strings.Builder
	drawn := false
	for i, v := range values {
		if v <= 0 {
			drawn = false
			continue
		}
		command := "M"
		if drawn {
			command = "L"
		}
		fmt.Fprintf(&b, "%s%d %.0f", command, i*4+2, 2+(sparkHeight-4)*(1-float64(v-low)/float64(high-low)))
		if !drawn {
			b.WriteString("h.1") // a point, if nothing follows
		}
		drawn = true
	}
	return b.String()
}
