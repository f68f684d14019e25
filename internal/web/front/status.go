package front

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/internal/operate/incident"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/steering"
	"sluice/internal/web/webui"
)

// pastDays is how long the status page shows incidents that have ended. Older ones are in the history.
const pastDays = 14

// state is how something is now: in a word, and how bad that is.
type state struct{ Word, Tone string }

// The states, from the best to the worst.
var (
	operational = state{"Operational", "good"}
	closed      = state{"Maintenance", "info"}
	degraded    = state{"Degraded", "warn"}
	down        = state{"Down", "bad"}
)

// worse returns the worse of two states.
func worse(a, b state) state {
	order := []string{"good", "info", "warn", "bad"}
	if slices.Index(order, b.Tone) > slices.Index(order, a.Tone) {
		return b
	}
	return a
}

// stateOf returns the state for the health of a model or a place in a word.
func stateOf(health string) state {
	switch health {
	case "healthy", "":
		return operational
	case "degraded":
		return degraded
	}
	return down
}

// part is a line of the status page: a component, a model or a provider, with its last 90 days.
type part struct {
	Name  string
	State state
	Days  []overview.Span // nil: not measured
	Total overview.Span
	// Notes are the incidents of a day, by the place of the day in Days: more lines of its title.
	Notes map[int]string
	// Places are the providers of a model, and Path is its page.
	Places []Place
	Path   string
}

// statusView is the data of the status page.
type statusView struct {
	// Verdict says in a sentence how the service is now, and Tone how bad that is.
	Verdict, Tone string
	Now           time.Time
	// Open, Planned and Past are incidents: those that last, planned work that has not begun, and those that ended lately.
	Open, Planned, Past []incident.Incident
	current             []incident.Incident
	// Closed are the times of maintenance at which models are refused, now and planned.
	Closed     []steering.Order
	Components []part
	Models     []part
	// Upstreams are the providers by the names that the configuration gives them.
	Upstreams []part
	// Times is a chart of response times, or nil if nobody has called lately.
	Times *webui.Chart
}

// status serves GET /status.
func (f *Front) status(w http.ResponseWriter, r *http.Request) error {
	p, o, err := f.statusFrame(w, r, "Status")
	if err != nil {
		return err
	}
	v := f.statusNow(r)
	v.Times = responseTimes(f.Models.Record.Lately(r.Context(), "", parts), v.Now)
	// The page lists what it would announce.
	p.Announcements = slices.DeleteFunc(slices.Clone(p.Announcements), func(b webui.Banner) bool { return strings.HasPrefix(b.Path, "/status/") })
	return f.ui.RenderPublic(w, r, http.StatusOK, statusPage(p, o, v))
}

// statusFrame is the frame of the pages below /status.
func (f *Front) statusFrame(w http.ResponseWriter, r *http.Request, title string) (webui.Page, webui.Opening, error) {
	p, o, err := f.Frame(w, r, title)
	p.Path = "/status"
	p.Styles = append(p.Styles, "status.css")
	return p, o, err
}

// statusNow returns how the service is.
func (f *Front) statusNow(r *http.Request) statusView {
	v := statusView{Now: f.now(), Closed: f.Closed(), current: f.Incidents.Current()}
	for _, i := range v.current {
		switch {
		case i.Running(v.Now):
			v.Open = append(v.Open, i)
		case !i.Over(v.Now):
			v.Planned = append(v.Planned, i)
		case v.Now.Sub(i.Until) < pastDays*24*time.Hour:
			v.Past = append(v.Past, i)
		}
	}
	slices.SortFunc(v.Planned, func(a, b incident.Incident) int { return a.From.Compare(b.From) })
	all := f.Models.All(r.Context(), nil)
	history := f.Models.Record.History(r.Context())
	v.Components = v.components(all)
	for i := range all {
		if m := &all[i]; !m.Router && m.Kind != Video { // the router has no health of its own
			one := part{Name: m.ID, Days: m.Days, Total: m.Total, Path: At("/models", m.ID), State: v.model(m)}
			one.Notes = v.notes(func(i *incident.Incident) bool { return slices.Contains(i.Models, m.ID) })
			one.Places = placesOf(m.Model, f.Models.Targets(m.Model))
			v.Models = append(v.Models, one)
		}
	}
	for subject, days := range history {
		if subject.Kind == overview.UpstreamKind {
			v.Upstreams = append(v.Upstreams, part{Name: subject.Name, Days: days, Total: *sum(days)})
		}
	}
	slices.SortFunc(v.Upstreams, func(a, b part) int { return cmp.Compare(a.Name, b.Name) })
	v.Verdict, v.Tone = v.verdict()
	return v
}

// window is a time of maintenance: one of both is set.
type window struct {
	Planned *incident.Incident // announced by staff
	Closed  *steering.Order    // models are refused
}

// from returns when the time begins.
func (m window) from() time.Time {
	if m.Planned != nil {
		return m.Planned.From
	}
	return m.Closed.From
}

// maintenance returns the times of maintenance, the first to begin first.
func (v *statusView) maintenance() []window {
	list := make([]window, 0, len(v.Planned)+len(v.Closed))
	for n := range v.Planned {
		list = append(list, window{Planned: &v.Planned[n]})
	}
	for n := range v.Closed {
		list = append(list, window{Closed: &v.Closed[n]})
	}
	slices.SortStableFunc(list, func(a, b window) int { return a.from().Compare(b.from()) })
	return list
}

// shown returns how many days all strips show, so that they are comparable.
func (v *statusView) shown() int {
	n := leastShown
	for _, list := range [][]part{v.Components, v.Models, v.Upstreams} {
		for i := range list {
			n = max(n, shownDays(list[i].Days))
		}
	}
	return n
}

// model returns the state of a model: the worst of what calls and connections tell, what staff has written, and what
// staff has closed.
func (v *statusView) model(m *Model) state {
	s := stateOf(m.Health)
	for i := range v.Closed {
		if o := &v.Closed[i]; o.Holds(v.Now) && (len(o.Models) == 0 || slices.Contains(o.Models, m.ID)) {
			s = worse(s, closed)
		}
	}
	return worse(s, v.written(func(i *incident.Incident) bool { return slices.Contains(i.Models, m.ID) }))
}

// written returns the state that follows from the incidents that last and are about something.
func (v *statusView) written(about func(*incident.Incident) bool) state {
	s := operational
	for n := range v.Open {
		i := &v.Open[n]
		switch {
		case !about(i):
		case i.Kind == incident.Maintenance:
			s = worse(s, closed)
		case i.Severity == incident.Critical:
			s = worse(s, down)
		default:
			s = worse(s, degraded)
		}
	}
	return s
}

// notes returns what the days of something say of incidents about it.
func (v *statusView) notes(about func(*incident.Incident) bool) map[int]string {
	notes := map[int]string{}
	const day = 24 * time.Hour
	today := v.Now.UTC().Truncate(day)
	for n := range v.current {
		i := &v.current[n]
		if !about(i) || i.From.After(v.Now) {
			continue
		}
		until := v.Now
		if i.Over(v.Now) {
			until = i.Until
		}
		for at := i.From.UTC().Truncate(day); !at.After(until); at = at.Add(day) {
			if place := overview.KeptDays - 1 - int(today.Sub(at)/day); place >= 0 {
				notes[place] += "\n" + i.Title
			}
		}
	}
	return notes
}

// components returns the parts of the service beside the models. The API is all models together; nobody measures the
// dashboard, whose state is what staff has written.
func (v *statusView) components(all []Model) []part {
	var list []part
	for _, c := range incident.Components() {
		about := func(i *incident.Incident) bool { return slices.Contains(i.Components, c) }
		one := part{Name: c.Words(), State: v.written(about), Notes: v.notes(about)}
		models, out := 0, 0
		for i := range all {
			m := &all[i]
			if m.Router || c == incident.Dashboard || (m.Kind == Video) != (c == incident.Videos) {
				continue
			}
			models++
			if stateOf(m.Health) == down {
				out++
			}
			if m.Days != nil && one.Days == nil {
				one.Days = make([]overview.Span, overview.KeptDays)
			}
			for d := range m.Days {
				one.Days[d].Merge(&m.Days[d])
			}
			one.Total.Merge(&m.Total)
			if c == incident.Videos {
				one.Path, one.State = At("/models", m.ID), worse(one.State, v.model(m))
			}
		}
		switch {
		case c != incident.API || out == 0:
		case out == models:
			one.State = down
		default: // as the sentence above says
			one.State = worse(one.State, degraded)
		}
		list = append(list, one)
	}
	return list
}

// verdict says how the service is, by what is measured and by what staff has written.
func (v *statusView) verdict() (text, tone string) {
	out, fewer := 0, 0
	for i := range v.Models {
		switch v.Models[i].State {
		case down:
			out++
		case degraded:
			fewer++
		}
	}
	worst := operational
	for i := range v.Open {
		worst = worse(worst, state{"", v.Open[i].Tone(v.Now)})
	}
	text, tone = verdict(len(v.Models)+1, out, fewer) // and the model of videos
	switch {
	case out > 0:
		return text, worse(worst, state{"", tone}).Tone
	case worst.Tone == "warn" || worst.Tone == "bad":
		return "We are working on an incident", worst.Tone
	case tone == "good" && (worst.Tone == "info" || slices.ContainsFunc(v.Closed, func(o steering.Order) bool { return o.Holds(v.Now) })):
		return "Maintenance is in progress", "info"
	}
	return text, tone
}

// verdict says how the service is by its models.
func verdict(models, out, fewer int) (text, tone string) {
	switch {
	case out > 0 && out == models:
		return "No model can be called at the moment", "bad"
	case out == 1:
		return "One model cannot be called at the moment", "warn"
	case out > 1:
		return "Some models cannot be called at the moment", "warn"
	case fewer > 0:
		return "All models work. Some have fewer providers than usual", "warn"
	}
	return "All systems operational", "good"
}

// responseTimes returns a chart of the times to the first token in the last hours, or nil if there were no calls.
func responseTimes(lately []overview.Span, now time.Time) *webui.Chart {
	c := &webui.Chart{
		Label: "Time to the first token of all models in the last 3 hours: the median, and the 95th percentile", Lines: true,
		Format: webui.Millis, Axis: webui.Millis,
		Series: []webui.ChartSeries{{Name: "Median", Class: "c0"}, {Name: "95th percentile", Class: "c3"}},
	}
	const length = overview.Kept / parts * time.Minute
	first := now.UTC().Truncate(time.Minute).Add(-(overview.Kept - 1) * time.Minute)
	total := sum(lately)
	if total.First.Quantile(0.5) == 0 {
		return nil
	}
	for i, share := range []float64{0.5, 0.95} {
		c.Series[i].Total = quantile(total.First, share)
		for n := range lately {
			value := int64(webui.NoValue)
			if d := lately[n].First.Quantile(share); d > 0 {
				value = max(1, d.Milliseconds())
			}
			c.Series[i].Values = append(c.Series[i].Values, value)
		}
	}
	for n := range lately {
		c.Steps = append(c.Steps, webui.ChartStep{At: first.Add(time.Duration(n) * length), Length: length})
	}
	return c
}

// summary says of a strip in words what it shows: the uptime, and the worst days.
func (p *part) summary() string {
	text := "Uptime of " + p.Name + " in the last 90 days: " + uptime(p.Days)
	bad := 0
	for i := range p.Days {
		if tone := dayTone(&p.Days[i]); tone == "bad" || tone == "warn" {
			bad++
		}
	}
	switch bad {
	case 0:
		return text
	case 1:
		return text + ", with problems on one day"
	}
	return text + fmt.Sprintf(", with problems on %d days", bad)
}

// times says how fast a model answers, or "".
func (p *part) times() string {
	if p.Total.First.Quantile(0.5) == 0 {
		return ""
	}
	return fmt.Sprintf("First token %s, whole reply %s: medians of 90 days.", quantile(p.Total.First, 0.5), quantile(p.Total.Took, 0.5))
}

// closedModels names the models that maintenance closes.
func closedModels(o steering.Order, now time.Time) string {
	models, are := "All models", " are"
	if len(o.Models) > 0 {
		models = joined(o.Models)
	}
	if len(o.Models) == 1 {
		are = " is"
	}
	if !o.Holds(now) {
		are = " will be"
	}
	return models + are + " unavailable"
}
