package dashboard

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/session"
	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// tagRanges are how many days of tags can be shown, and tagRangeTexts their names.
var (
	tagRanges     = []int{7, 30}
	tagRangeTexts = map[int]string{7: "7 days", 30: "30 days"}
)

// tagsView is what the calls with each tag add up to.
type tagsView struct {
	Range int // in days, today included
	Tags  []session.TagDay
}

// tags reads the spending by tag that a page shows.
func (d *Dashboard) tags(ctx context.Context, r *http.Request, v *visitor) (*tagsView, error) {
	view := &tagsView{Range: tagRanges[len(tagRanges)-1]}
	if days, err := strconv.Atoi(r.FormValue("tags")); err == nil && slices.Contains(tagRanges, days) {
		view.Range = days
	}
	days, err := d.Sessions.Tags(ctx, v.ID, usage.DayOf(time.Now()).AddDate(0, 0, 1-view.Range))
	if err != nil {
		return nil, err
	}
	view.Tags = session.ByCost(days)
	return view, nil
}

// at returns the address of the page with another number of days.
func (v *tagsView) at(c *webui.Costs, days int) string {
	return c.At("tags", strconv.Itoa(days)) + "#tags"
}

// width returns how long the bar of a tag is, in a drawing that is 100 wide. If nothing has a price, it shows calls.
func (v *tagsView) width(t *session.TagDay) string {
	of := func(t *session.TagDay) int64 { return int64(t.Cost + t.Margin) }
	most := of(&v.Tags[0])
	if most <= 0 {
		of = func(t *session.TagDay) int64 { return t.Calls }
		for i := range v.Tags {
			most = max(most, v.Tags[i].Calls)
		}
	}
	part := float64(max(0, of(t))) * 100 / float64(max(1, most))
	if part > 0 {
		part = max(part, 1) // what is there can be seen
	}
	return strconv.FormatFloat(part, 'f', 1, 64)
}

// tagName returns a tag in words.
func tagName(tag string) string {
	if tag == session.OtherTag {
		return "all other tags"
	}
	return tag
}

// sumsCost returns what calls have cost.
func sumsCost(s *session.Sums) string {
	charge := s.Charge()
	if charge == nil {
		return "no price"
	}
	return usd(*charge, s.Unpriced)
}

// usd returns an amount, and how many calls are not in it.
func usd(amount price.Nano, unpriced int64) string {
	text := webui.Total(amount)
	if unpriced > 0 {
		text += " and " + webui.Number(unpriced) + " with no price"
	}
	return text
}
