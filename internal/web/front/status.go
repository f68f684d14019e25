package front

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/internal/operate/overview"
)

// statusView is the data of the status page.
type statusView struct {
	Models []Model
	// Upstreams are the providers by the names that the configuration gives them.
	Upstreams []upstream
	// Verdict says in a sentence how the service is now, and Tone how bad that is.
	Verdict, Tone string
	Now           time.Time
}

// upstream is a provider and its last 90 days.
type upstream struct {
	Name string
	Days []overview.Span
}

// status serves GET /status.
func (f *Front) status(w http.ResponseWriter, r *http.Request) error {
	p, o, err := f.Frame(w, r, "Status")
	if err != nil {
		return err
	}
	v := statusView{Now: f.now()}
	down, degraded := 0, 0
	for _, m := range f.Models.All(r.Context(), nil) {
		if m.Router {
			continue // it has no health of its own
		}
		v.Models = append(v.Models, m)
		switch m.Health {
		case "healthy", "":
		case "degraded":
			degraded++
		default:
			down++
		}
	}
	v.Verdict, v.Tone = verdict(len(v.Models), down, degraded)
	for subject, days := range f.Models.Record.History(r.Context()) {
		if subject.Kind == overview.UpstreamKind {
			v.Upstreams = append(v.Upstreams, upstream{subject.Name, days})
		}
	}
	slices.SortFunc(v.Upstreams, func(a, b upstream) int { return strings.Compare(a.Name, b.Name) })
	return f.ui.RenderPublic(w, r, http.StatusOK, statusPage(p, o, v))
}

// verdict says how the service is.
func verdict(models, down, degraded int) (text, tone string) {
	switch {
	case down > 0 && down == models:
		return "No model can be called at the moment", "bad"
	case down == 1:
		return "One model cannot be called at the moment", "warn"
	case down > 1:
		return "Some models cannot be called at the moment", "warn"
	case degraded > 0:
		return "All models can be called; some have fewer upstreams than usual", "warn"
	}
	return "All systems operational", "good"
}
