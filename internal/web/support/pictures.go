package support

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/abuse"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/signal"
	"sluice/internal/web/webui"
)

// Pictures are SVG that the server draws, as the overview of the dashboard does: a page needs no script for them, and
// its policy forbids inline styles. Coordinates are text because they go into attributes.

// bar is one bar of a chart that is 300 units wide and 100 high.
type bar struct {
	x, y, width, height string
	none                bool
	title               string
}

// barsOf lays out values from left to right. titles has a text for each.
func barsOf(values []int64, titles []string) []bar {
	most := max(1, slices.Max(append([]int64{0}, values...)))
	out := make([]bar, len(values))
	step := 300.0 / float64(max(1, len(values)))
	for i, n := range values {
		// Nothing keeps a thin line, and little is clearly taller than that.
		height := 2.0
		if n > 0 {
			height = max(4, 100*float64(n)/float64(most))
		}
		out[i] = bar{
			x: fmt.Sprintf("%.2f", float64(i)*step+step*0.1), y: fmt.Sprintf("%.2f", 100-height),
			width: fmt.Sprintf("%.2f", step*0.8), height: fmt.Sprintf("%.2f", height), none: n == 0, title: titles[i],
		}
	}
	return out
}

// hourBars are the requests of the last 7 days by hour.
func hourBars(e *admin.Evidence, now time.Time) []bar {
	const hours = 7 * 24
	first := now.UTC().Truncate(time.Hour).Add(-(hours - 1) * time.Hour)
	values, titles := make([]int64, hours), make([]string, hours)
	for i := range titles {
		titles[i] = first.Add(time.Duration(i) * time.Hour).Format("Mon 2 Jan 15:00")
	}
	for _, h := range e.Hours {
		if i := int(h.At.Sub(first) / time.Hour); i >= 0 && i < hours {
			values[i] += h.Requests
		}
	}
	for i := range titles {
		titles[i] += ": " + webui.Number(values[i]) + " requests"
	}
	return barsOf(values, titles)
}

// clockBars are the requests of the last 7 days by the hour of the day. A person sleeps; a proxy for others does not.
func clockBars(e *admin.Evidence) []bar {
	values, titles := make([]int64, 24), make([]string, 24)
	for _, h := range e.Hours {
		values[h.At.UTC().Hour()] += h.Requests
	}
	for i := range titles {
		titles[i] = fmt.Sprintf("%02d:00 UTC: %s requests", i, webui.Number(values[i]))
	}
	return barsOf(values, titles)
}

// scoreLine returns the points of a line that is 300 units wide and 100 high, and the area below it.
func scoreLine(e *admin.Evidence) (line, area string) {
	if len(e.Score) == 0 {
		return "", ""
	}
	first, last := e.Score[0].At, e.Score[len(e.Score)-1].At
	span := max(last.Sub(first).Seconds(), 1)
	var b strings.Builder
	for _, p := range e.Score {
		fmt.Fprintf(&b, "%.2f,%d ", 300*p.At.Sub(first).Seconds()/span, 100-p.Score)
	}
	line = strings.TrimSpace(b.String())
	return line, "0,100 " + line + " 300,100"
}

// share is one row of a list that is divided by requests.
type share struct {
	name, requests, width string
	percent               string
}

// sharesOf lays out shares, the first of which is the largest.
func sharesOf(list []admin.Share) []share {
	var sum, most int64 = 0, 1
	for _, x := range list {
		sum += x.Requests
		most = max(most, x.Requests)
	}
	out := make([]share, 0, len(list))
	for _, x := range list {
		name := x.Name
		if name == "" {
			name = "all others"
		}
		out = append(out, share{
			name: name, requests: webui.Number(x.Requests), width: fmt.Sprintf("%.1f", 100*float64(x.Requests)/float64(most)),
			percent: fmt.Sprintf("%d%%", 100*x.Requests/max(1, sum)),
		})
	}
	return out
}

// networkShares divides calls by the network that they came from.
func networkShares(list []signal.Network) []share {
	shares := make([]admin.Share, 0, len(list))
	for _, n := range list {
		name := n.Prefix
		if n.Keys > 1 {
			name += fmt.Sprintf(", %d keys", n.Keys)
		}
		shares = append(shares, admin.Share{Name: name, Requests: int64(n.Calls)})
	}
	return sharesOf(shares)
}

// gapBars are the pauses between calls, from the shortest to the longest.
func gapBars(list []signal.Gap) []bar {
	values, titles := make([]int64, len(list)), make([]string, len(list))
	for i, g := range list {
		values[i], titles[i] = int64(g.Calls), fmt.Sprintf("up to %s: %s calls", g.UpTo, webui.Number(int64(g.Calls)))
	}
	return barsOf(values, titles)
}

// eventsShown is how many events of abuse control are beside the picture of the score.
const eventsShown = 6

// firstEvents returns the newest events.
func firstEvents(list []abuse.Event) []abuse.Event {
	return list[:min(len(list), eventsShown)]
}
