package support

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/signal"
	"sluice/internal/web/webui"
)

// Pictures are SVG that the server draws, as the overview of the dashboard does: a page needs no script for them, and
// its policy forbids inline styles.

// hourBars are the requests of the last 7 days by hour.
func hourBars(e *admin.Evidence, now time.Time) []webui.Bar {
	const hours = 7 * 24
	first := now.UTC().Truncate(time.Hour).Add(-(hours - 1) * time.Hour)
	bars := make([]webui.Bar, hours)
	for _, h := range e.Hours {
		if i := int(h.At.Sub(first) / time.Hour); i >= 0 && i < hours {
			bars[i].Value += h.Requests
		}
	}
	for i := range bars {
		at := first.Add(time.Duration(i) * time.Hour)
		bars[i].Name, bars[i].Short, bars[i].Text = at.Format("Mon ")+webui.DayMonth(at)+at.Format(" 15:00 UTC"), at.Format("Mon 2"), webui.Number(bars[i].Value)+" requests"
	}
	return bars
}

// clockBars are the requests of the last 7 days by the hour of the day. A person sleeps; a proxy for others does not.
func clockBars(e *admin.Evidence) []webui.Bar {
	bars := make([]webui.Bar, 24)
	for _, h := range e.Hours {
		bars[h.At.UTC().Hour()].Value += h.Requests
	}
	for i := range bars {
		bars[i].Name, bars[i].Short, bars[i].Text = fmt.Sprintf("%02d:00 UTC", i), fmt.Sprintf("%02d:00", i), webui.Number(bars[i].Value)+" requests"
	}
	return bars
}

// scoreLine returns the points of a line that is 300 units wide and 100 high, the area below it, and the path of a dot where it is now.
func scoreLine(e *admin.Evidence) (line, area, now string) {
	if len(e.Score) == 0 {
		return "", "", ""
	}
	first, last := e.Score[0].At, e.Score[len(e.Score)-1].At
	span := max(last.Sub(first).Seconds(), 1)
	var b strings.Builder
	for _, p := range e.Score {
		fmt.Fprintf(&b, "%.2f,%d ", 300*p.At.Sub(first).Seconds()/span, 100-p.Score)
	}
	line = strings.TrimSpace(b.String())
	return line, "0,100 " + line + " 300,100", fmt.Sprintf("M300 %dh.01", 100-e.Score[len(e.Score)-1].Score)
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
		out = append(out, share{
			name: cmp.Or(x.Name, "all others"), requests: webui.Number(x.Requests), width: fmt.Sprintf("%.1f", 100*float64(x.Requests)/float64(most)),
			percent: percent(x.Requests, sum),
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
func gapBars(list []signal.Gap) []webui.Bar {
	bars := make([]webui.Bar, len(list))
	for i, g := range list {
		bars[i] = webui.Bar{Value: int64(g.Calls), Name: "up to " + webui.Duration(g.UpTo), Short: webui.Duration(g.UpTo), Text: webui.Number(int64(g.Calls)) + " calls"}
	}
	return bars
}
