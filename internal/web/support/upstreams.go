package support

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/steering"
	"sluice/internal/upstream/routing"
	"sluice/internal/web/webui"
)

// upstreamsView is the data of the page with upstreams and models.
type upstreamsView struct {
	Upstreams []overview.Upstream
	Drains    []steering.Order
	Models    []admin.ModelState
	Moves     map[string]steering.Order // by model
	History   []account.Entry
	Problem   string
	Now       time.Time
}

// showUpstreams renders the page. problem is what was wrong with a form of it; empty if nothing.
func (c *Console) showUpstreams(w http.ResponseWriter, r *http.Request, m *member, status int, problem string) error {
	view := upstreamsView{Problem: problem, Moves: map[string]steering.Order{}, Now: time.Now()}
	var upstreams admin.List[overview.Upstream]
	var drains, moves admin.List[steering.Order]
	var models admin.List[admin.ModelState]
	var history admin.List[account.Entry]
	err := together(r.Context(),
		read(c, m, c.ops.UpstreamSeries, admin.Cursor{}, &upstreams),
		read(c, m, c.ops.UpstreamDrains, admin.Cursor{}, &drains),
		read(c, m, c.ops.ModelsMoves, admin.Cursor{}, &moves),
		read(c, m, c.ops.ModelsStanding, admin.Cursor{}, &models),
		read(c, m, c.ops.SteeringHistory, admin.Cursor{Limit: 20}, &history),
	)
	if err != nil {
		return err
	}
	view.Upstreams, view.Drains, view.Models, view.History = upstreams.Data, drains.Data, models.Data, history.Data
	for _, o := range moves.Data {
		view.Moves[o.Model] = o
	}
	return c.ui.Render(w, r, status, upstreamsPage(c.frame(w, r, m, "Upstreams and models"), view))
}

// give gives an order and returns to the page. What the form got wrong is shown there.
func give[In any](c *Console, w http.ResponseWriter, r *http.Request, m *member, op admin.Op[In, steering.Order], in In) error {
	_, err := run(c, r, m, op, in)
	if err == nil {
		return c.seeOther(w, r, home+"/upstreams", "ordered")
	}
	problems, status, rest := webui.Refused(err)
	if rest != nil {
		return rest
	}
	return c.showUpstreams(w, r, m, status, problems[""])
}

// drainUpstream keeps new calls away from a target.
func (c *Console) drainUpstream(w http.ResponseWriter, r *http.Request, m *member) error {
	in := upstreamTarget(r)
	lasts, err := minutesOf(r, "for")
	if err != nil {
		return c.showUpstreams(w, r, m, http.StatusBadRequest, fault.From(err).Message)
	}
	if lasts > 0 {
		in.Until = time.Now().Add(lasts)
	}
	return give(c, w, r, m, c.ops.UpstreamDrain, in)
}

// enableUpstream lets calls go to a target again.
func (c *Console) enableUpstream(w http.ResponseWriter, r *http.Request, m *member) error {
	return give(c, w, r, m, c.ops.UpstreamEnable, upstreamTarget(r))
}

// upstreamTarget reads the target of a form.
func upstreamTarget(r *http.Request) admin.UpstreamTarget {
	return admin.UpstreamTarget{Provider: r.FormValue("provider"), Upstream: r.FormValue("upstream"), Key: r.FormValue("key"), Replica: r.FormValue("replica"), Reason: r.FormValue("reason")}
}

// moveModel moves a model to another tier.
func (c *Console) moveModel(w http.ResponseWriter, r *http.Request, m *member) error {
	in := admin.ModelMove{Model: r.FormValue("model"), Plan: r.FormValue("plan"), Reason: r.FormValue("reason")}
	days, err := numberOf(r, "days", 366)
	if err != nil {
		return c.showUpstreams(w, r, m, http.StatusBadRequest, fault.From(err).Message)
	}
	if days > 0 {
		in.From = time.Now().AddDate(0, 0, days)
	}
	return give(c, w, r, m, c.ops.ModelsMove, in)
}

// moveModelBack gives a model its configured tier again.
func (c *Console) moveModelBack(w http.ResponseWriter, r *http.Request, m *member) error {
	return give(c, w, r, m, c.ops.ModelsMoveBack, admin.ModelMove{Model: r.FormValue("model"), Reason: r.FormValue("reason")})
}

// numberOf reads a whole number of a form, from 0 to most. Empty is 0.
func numberOf(r *http.Request, name string, most int) (int, error) {
	text := strings.TrimSpace(r.FormValue(name))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, fault.New(fault.Invalid, "Enter a whole number from 0 to %d.", most).At(name)
	}
	return n, nil
}

// minutesOf reads a number of minutes of a form.
func minutesOf(r *http.Request, name string) (time.Duration, error) {
	n, err := numberOf(r, name, 366*24*60)
	return time.Duration(n) * time.Minute, err
}

// serverText says what a replica says of itself; empty if it says nothing.
func serverText(f *routing.Figures) string {
	if f == nil {
		return ""
	}
	text := fmt.Sprintf("%s running, %s waiting", webui.Number(f.Running), webui.Number(f.Waiting))
	if f.CacheUse != nil {
		text += fmt.Sprintf(", cache %.0f %% in use", 100**f.CacheUse)
	}
	if f.HitRate != nil {
		text += fmt.Sprintf(", hit rate %.0f %%", 100**f.HitRate)
	}
	return text
}

// placeOf names a target in a sentence.
func placeOf(t *routing.TargetHealth) string {
	name := t.Provider + "/" + t.Upstream
	if t.Replica != "" {
		name += " at " + t.Replica
	}
	return name
}

// drainOf returns the order that drains exactly this target, or nil.
func (v *upstreamsView) drainOf(t *routing.TargetHealth) *steering.Order {
	for i := range v.Drains {
		if v.Drains[i].Target == (steering.Target{Provider: t.Provider, Upstream: t.Upstream, Key: strings.TrimPrefix(t.Key, "…"), Replica: t.Replica}) {
			return &v.Drains[i]
		}
	}
	return nil
}

// wider returns the drains that are not about exactly one of the targets.
func (v *upstreamsView) wider() (list []steering.Order) {
	for _, o := range v.Drains {
		exact := false
		for i := range v.Upstreams {
			if d := v.drainOf(&v.Upstreams[i].TargetHealth); d != nil && d.ID == o.ID {
				exact = true
			}
		}
		if !exact {
			list = append(list, o)
		}
	}
	return list
}

// calls returns the chart of a target's calls, and latency the one of its times to the first content.
func callsChart(u *overview.Upstream) chart {
	return chart{
		Title: "Calls in the last three hours", Format: webui.Number, Small: true,
		Series: []series{
			{"answered", "main", column(u.Series, func(t *overview.Target) int64 { return t.Answered })},
			{"failed", "bad", column(u.Series, func(t *overview.Target) int64 { return t.Failed })},
		},
	}
}

func latencyChart(u *overview.Upstream) chart {
	return chart{
		Title: "Time to the first content in the last three hours", Format: webui.Millis, Small: true,
		Series: []series{{"mean", "soft", column(u.Series, meanWait)}},
	}
}

// meanWait returns how long the calls of a part took to begin, in milliseconds.
func meanWait(t *overview.Target) int64 {
	if t.Answered == 0 {
		return 0
	}
	return t.WaitedMS / t.Answered
}

// threeHours adds up the series of a target.
func threeHours(u *overview.Upstream) (sum overview.Target) {
	for _, t := range u.Series {
		sum.Answered += t.Answered
		sum.Failed += t.Failed
		sum.WaitedMS += t.WaitedMS
	}
	return sum
}
