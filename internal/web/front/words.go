package front

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/operate/overview"
	"sluice/internal/web/webui"
)

// percent formats a share. It never rounds up to 100.
func percent(share float64) string {
	if share >= 1 {
		return "100%"
	}
	return strings.TrimSuffix(strconv.FormatFloat(math.Floor(share*10000)/100, 'f', 2, 64), ".00") + "%"
}

// PlanName returns the name of a plan as pages show it.
func PlanName(p account.Plan) string { return p.Title() }

// title returns a word with a capital letter.
func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// startPath returns where somebody signs up for a plan.
func startPath(p account.Plan) string {
	if p <= account.Free {
		return "/signup"
	}
	return "/signup?plan=" + p.String()
}

// LimitText formats a limit; large ones as 1.5M.
func LimitText(l account.Limit) string {
	if l == account.Unlimited {
		return "unlimited"
	}
	return webui.Short(int64(l))
}

// tone returns the colour of a health in a word.
func tone(health string) string {
	switch health {
	case "healthy":
		return "good"
	case "degraded":
		return "warn"
	}
	return "bad"
}

// counts formats how many requests a call counts as in the rate limit. milli is in thousandths.
func counts(milli int64) string {
	if milli == 1000 {
		return "1 request"
	}
	return webui.Thousandths(milli) + " requests"
}

// quantile formats a time that a share of calls did not exceed, or a dash.
func quantile(t overview.Times, share float64) string {
	if d := t.Quantile(share); d > 0 {
		return webui.Duration(d)
	}
	return "–"
}

// speed formats how fast replies were written, or a dash.
func speed(s *overview.Span) string {
	if v := s.Speed(); v > 0 {
		return webui.Number(int64(math.Round(v))) + " tokens/s"
	}
	return "–"
}

// uptime formats the uptime over days, or a dash.
func uptime(days []overview.Span) string {
	if share, known := overview.Uptime(days); known {
		return percent(share)
	}
	return "–"
}

// dayTone returns how a day is drawn: good, warn, bad, or none if nothing is known. A few failed calls are usual.
func dayTone(s *overview.Span) string {
	share, known := s.Uptime()
	switch {
	case !known:
		return "none"
	case share < 0.95:
		return "bad"
	case share < 0.995 || s.Looks > 0 && s.Degraded*10 > s.Looks:
		return "warn"
	}
	return "good"
}

// cell is one day of a strip.
type cell struct {
	class string
	title string
}

// strip lays out the days of a subject. The title of a day has lines; notes has more of them, by the place of the day.
func strip(days []overview.Span, now time.Time, notes map[int]string) []cell {
	if days == nil {
		days = make([]overview.Span, overview.KeptDays)
	}
	out := make([]cell, len(days))
	for i := range days {
		text := webui.Date(now.UTC().AddDate(0, 0, i+1-len(days)))
		if share, known := days[i].Uptime(); !known {
			text += "\nNo data"
		} else {
			text += "\nUptime: " + percent(share)
			if days[i].Failed > 0 {
				text += fmt.Sprintf("\nFailed calls: %s of %s", webui.Number(days[i].Failed), webui.Number(days[i].Calls))
			}
		}
		out[i] = cell{class: dayTone(&days[i]), title: text + notes[i]}
	}
	return out
}

// leastShown is how many days a strip shows at least.
const leastShown = 30

// shownDays returns how many days a strip shows: from the first of which something is known.
func shownDays(days []overview.Span) int {
	for i := range days {
		if _, known := days[i].Uptime(); known {
			return max(leastShown, len(days)-i)
		}
	}
	return leastShown
}

// lastOf returns the last n cells.
func lastOf(cells []cell, n int) []cell { return cells[max(0, len(cells)-n):] }

// The figures of small charts: the median times to the first token and of a whole reply, as numbers to draw and as text.
func firstToken(s *overview.Span) (int64, string) { return median(s.First) }
func wholeTime(s *overview.Span) (int64, string)  { return median(s.Took) }

func median(t overview.Times) (int64, string) {
	return t.Quantile(0.5).Microseconds(), quantile(t, 0.5)
}

// throughput returns the tokens a second, as a number to draw, in thousandths, and as text.
func throughput(s *overview.Span) (int64, string) { return int64(s.Speed() * 1000), speed(s) }

// sum adds up spans.
func sum(spans []overview.Span) *overview.Span {
	var s overview.Span
	for i := range spans {
		s.Merge(&spans[i])
	}
	return &s
}
