package support

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
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
	Now       time.Time
	// Impact is what the drain would take away that the member thinks of, and Moving the model that may move. Their forms are
	// dialogs of the page; nil and "": there is none.
	Impact *admin.Impact
	Moving string
	again
}

// showUpstreams renders the page, with the dialog that its address asks for. The caller sets the form.
func (c *Console) showUpstreams(w http.ResponseWriter, r *http.Request, m *member, status int, view upstreamsView) error {
	view.Moves, view.Now = map[string]steering.Order{}, time.Now()
	var upstreams admin.List[overview.Upstream]
	var drains, moves admin.List[steering.Order]
	var models admin.List[admin.ModelState]
	var history admin.List[account.Entry]
	reads := []func(context.Context) error{
		read(c, m, c.ops.UpstreamSeries, admin.Cursor{}, &upstreams),
		read(c, m, c.ops.UpstreamDrains, admin.Cursor{}, &drains),
		read(c, m, c.ops.ModelsMoves, admin.Cursor{}, &moves),
		read(c, m, c.ops.ModelsStanding, admin.Cursor{}, &models),
		read(c, m, c.ops.SteeringHistory, admin.Cursor{Limit: 20}, &history),
	}
	switch {
	case r.FormValue("drain") != "" || view.Form == "drain":
		view.Impact = &admin.Impact{}
		in := upstreamTarget(r)
		in.Provider = cmp.Or(r.FormValue("drain"), in.Provider)
		reads = append(reads, read(c, m, c.ops.UpstreamImpact, in, view.Impact))
	case r.FormValue("move") != "" || view.Form == "move":
		view.Moving = cmp.Or(r.FormValue("move"), r.FormValue("model"))
	}
	if err := together(r.Context(), reads...); err != nil {
		return err
	}
	view.Upstreams, view.Drains, view.Models, view.History = upstreams.Data, drains.Data, models.Data, history.Data
	for _, o := range moves.Data {
		view.Moves[o.Model] = o
	}
	return c.ui.Render(w, r, status, upstreamsPage(c.frame(w, r, m, "Upstreams"), view))
}

// give gives an order and returns to the page. What the form got wrong is shown there.
func give[In any](c *Console, w http.ResponseWriter, r *http.Request, m *member, form string, op admin.Op[In, steering.Order], in In) error {
	_, err := run(c, r, m, op, in)
	return c.given(w, r, m, form, err)
}

// given shows the page after a form: with the flash, or with what was wrong.
func (c *Console) given(w http.ResponseWriter, r *http.Request, m *member, form string, err error) error {
	if err == nil {
		return c.seeOther(w, r, home+"/upstreams", "ordered")
	}
	view := upstreamsView{again: again{Form: form, Typed: r.PostForm}}
	var status int
	if view.Problems, status, err = webui.Refused(err, "reason", "until", "from"); err != nil {
		return err
	}
	if status == http.StatusNotFound { // there is no such target or model, and no dialog about it
		view.Form = ""
	}
	return c.showUpstreams(w, r, m, status, view)
}

// drainUpstream keeps new calls away from a target.
func (c *Console) drainUpstream(w http.ResponseWriter, r *http.Request, m *member) error {
	in := upstreamTarget(r)
	var err error
	if in.Until, err = whenOf(r, "until"); err != nil {
		return c.given(w, r, m, "drain", err)
	}
	return give(c, w, r, m, "drain", c.ops.UpstreamDrain, in)
}

// enableUpstream lets calls go to a target again.
func (c *Console) enableUpstream(w http.ResponseWriter, r *http.Request, m *member) error {
	return give(c, w, r, m, "", c.ops.UpstreamEnable, upstreamTarget(r))
}

// upstreamTarget reads the target of a form.
func upstreamTarget(r *http.Request) admin.UpstreamTarget {
	return admin.UpstreamTarget{Provider: r.FormValue("provider"), Upstream: r.FormValue("upstream"), Key: r.FormValue("key"), Replica: r.FormValue("replica"), Reason: r.FormValue("reason")}
}

// moveModel moves a model to another tier.
func (c *Console) moveModel(w http.ResponseWriter, r *http.Request, m *member) error {
	in := admin.ModelMove{Model: r.FormValue("model"), Plan: r.FormValue("plan"), Reason: r.FormValue("reason")}
	var err error
	if in.From, err = whenOf(r, "from"); err != nil {
		return c.given(w, r, m, "move", err)
	}
	return give(c, w, r, m, "move", c.ops.ModelsMove, in)
}

// moveModelBack gives a model its configured tier again.
func (c *Console) moveModelBack(w http.ResponseWriter, r *http.Request, m *member) error {
	return give(c, w, r, m, "", c.ops.ModelsMoveBack, admin.ModelMove{Model: r.FormValue("model"), Reason: r.FormValue("reason")})
}

// serverText says what a replica says of itself; empty if it says nothing.
func serverText(f *routing.Figures) string {
	if f == nil {
		return ""
	}
	text := fmt.Sprintf("%s running, %s waiting", webui.Number(f.Running), webui.Number(f.Waiting))
	if f.CacheUse != nil {
		text += fmt.Sprintf(", cache %.0f%% in use", 100**f.CacheUse)
	}
	if f.HitRate != nil {
		text += fmt.Sprintf(", hit rate %.0f%%", 100**f.HitRate)
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
	if i := slices.IndexFunc(v.Drains, func(o steering.Order) bool { return o.Target == targetOf(t) }); i >= 0 {
		return &v.Drains[i]
	}
	return nil
}

// providerGroup is a provider with its targets.
type providerGroup struct {
	Name    string
	Targets []*overview.Upstream
	Running int64
	Sum     overview.Target // of the last three hours
	Drain   *steering.Order // of the whole provider; nil: none
}

// groups returns the targets by provider, in the order of the list, and how many calls there were.
func (v *upstreamsView) groups() (list []*providerGroup, all int64) {
	for i := range v.Upstreams {
		u := &v.Upstreams[i]
		at := slices.IndexFunc(list, func(g *providerGroup) bool { return g.Name == u.Provider })
		if at < 0 {
			at, list = len(list), append(list, &providerGroup{Name: u.Provider})
		}
		g := list[at]
		sum := threeHours(u)
		g.Targets, g.Running = append(g.Targets, u), g.Running+u.Running
		g.Sum.Answered += sum.Answered
		g.Sum.Failed += sum.Failed
		g.Sum.WaitedMS += sum.WaitedMS
		all += sum.Answered + sum.Failed
	}
	for i := range v.Drains {
		for _, g := range list {
			if v.Drains[i].Target == (steering.Target{Provider: g.Name}) {
				g.Drain = &v.Drains[i]
			}
		}
	}
	return list, all
}

// state returns how many targets of a provider serve calls, as everybody is told, and the tone of that.
func (g *providerGroup) state() (text, tone string) {
	down, drained := 0, 0
	for _, u := range g.Targets {
		switch {
		case u.Drained:
			drained++
		case !u.Healthy():
			down++
		}
	}
	switch all := len(g.Targets); {
	case down+drained == 0:
		return "healthy", "good"
	case drained == all:
		return "drained", "warn"
	case down+drained == all:
		return "down", "bad"
	default:
		return fmt.Sprintf("%d of %d healthy", all-down-drained, all), "warn"
	}
}

// drainPath returns the address of the dialog that drains a target.
func drainPath(t steering.Target) string {
	q := url.Values{"drain": {t.Provider}}
	for name, value := range map[string]string{"upstream": t.Upstream, "key": t.Key, "replica": t.Replica} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return home + "/upstreams?" + q.Encode()
}

// targetOf returns what is drained if exactly this target is.
func targetOf(t *routing.TargetHealth) steering.Target {
	return steering.Target{Provider: t.Provider, Upstream: t.Upstream, Key: strings.TrimPrefix(t.Key, "…"), Replica: t.Replica}
}

// impactText says what share of all calls a drain concerns.
func impactText(i *admin.Impact) string {
	if i.All == 0 {
		return "There were no calls in the last three hours."
	}
	return fmt.Sprintf("It handled %s of the %s calls in the last three hours (%s).", webui.Number(i.Calls), webui.Number(i.All), percent(i.Calls, i.All))
}

// drainText says exactly what a drain does.
func drainText(i *admin.Impact) string {
	if i.Target.Upstream == "" && i.Target.Key == "" && i.Target.Replica == "" {
		return "No new calls go to " + i.Target.Provider + " (" + webui.Plural(i.Targets, "target") + ", " + webui.Plural(len(i.Models), "model") + ")."
	}
	return "No new calls go to " + webui.Plural(i.Targets, "target") + " of " + i.Target.Provider + " (" + webui.Plural(len(i.Models), "model") + ")."
}

// leftText says where the calls of a model go while something is drained, and whether that is bad.
func leftText(m *admin.ModelImpact) (text string, bad bool) {
	switch {
	case len(m.Left) > 0:
		return strings.Join(m.Left, ", "), false
	case len(m.Fallbacks) > 0:
		return "its fallbacks: " + strings.Join(m.Fallbacks, ", "), false
	}
	return "nothing: calls are refused with 503", true
}

// percent formats a share.
func percent(part, all int64) string {
	if all == 0 {
		return "–"
	}
	return strconv.FormatInt((200*part+all)/(2*all), 10) + "%"
}

// fewCalls are too few to draw: bars of them say nothing that their number does not.
const fewCalls = 20

// spark returns the calls of a target over the last three hours.
func spark(u *overview.Upstream) *webui.Chart {
	return &webui.Chart{
		Steps: make([]webui.ChartStep, len(u.Series)),
		Series: []webui.ChartSeries{
			{Class: "main", Values: column(u.Series, func(t *overview.Target) int64 { return t.Answered })},
			{Class: "bad", Values: column(u.Series, func(t *overview.Target) int64 { return t.Failed })},
		},
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

// movePath returns the address of the dialog that moves a model.
func movePath(model string) string {
	return home + "/upstreams?" + url.Values{"move": {model}}.Encode()
}
