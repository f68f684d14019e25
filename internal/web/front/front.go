// Package front serves the pages for everybody: what the service is, its models, plans, status and
// documentation.
//
// They show nothing of an account, so they need no session, and are compressed. What they say of
// models is made here, too, for the customer's pages to show with what an account may call; see
// package dashboard. Figures of models come from sums by day, never from a scan of calls.
package front

import (
	"context"
	"net/http"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/steering"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/webui"
)

//go:generate go run github.com/a-h/templ/cmd/templ@v0.3.977 generate -include-version=false

// Record is what models and upstreams did.
type Record interface {
	// History returns what each subject did on each of the last days, today last.
	History(ctx context.Context) map[overview.Subject][]overview.Span
	// Lately returns what a model, or all if it is empty, did in the last hours, in parts of equal length, the latest last.
	Lately(ctx context.Context, model string, parts int) []overview.Span
}

// Sources holds what the pages read. All fields are required.
type Sources struct {
	// SignedIn reports whether the visitor has a session.
	SignedIn func(w http.ResponseWriter, r *http.Request) (bool, error)
	// Joinable reports whether anybody may sign up.
	Joinable func() bool
	Plans    func() account.Plans
	Models   *ModelInfo
	// Sample returns the model of the examples: one that needs no plan, if there is one.
	Sample func() string
	// Docs searches the documentation.
	Docs func(query string) webui.Findings
	// Incidents and Subscribers are what staff tells people of outages, and who gets mail about it.
	Incidents   *incident.Bulletin
	Subscribers *incident.Subscribers
	// Closed returns the times of maintenance at which models are refused, now and planned.
	Closed func() []steering.Order
}

// Front serves the pages. It has no state of its own.
type Front struct {
	Sources
	ui  *webui.UI
	now func() time.Time
}

// New returns a Front.
func New(ui *webui.UI, sources Sources) *Front {
	return &Front{Sources: sources, ui: ui, now: time.Now}
}

// Patterns returns the mux patterns of all paths that belong to the pages.
func Patterns() []string {
	return []string{"/{$}", "/models", "/models/compare", "/models/{id...}", "/pricing", "/status", "/status.json", "/status.atom", "/status/{page...}", findPath, "/theme.css", "/logo", "/favicon.ico"}
}

// Handler returns the handler of all Patterns.
func (f *Front) Handler() http.Handler {
	mux := http.NewServeMux()
	f.route(mux.Handle)
	// Other methods.
	mux.Handle("/", f.ui.Handle(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Allow", "GET, HEAD")
		return fault.New(fault.MethodNotAllowed, "This page is read-only.")
	}))
	return f.ui.Protect(mux)
}

// Routes returns the patterns of all routes, for a test that tries each of them.
func Routes() (list []string) {
	new(Front).route(func(pattern string, _ http.Handler) { list = append(list, pattern) })
	return list
}

// route calls handle with every route.
func (f *Front) route(handle func(pattern string, h http.Handler)) {
	open := func(pattern string, h webui.Handler) { handle("GET "+pattern, f.ui.Handle(h)) }
	open("/{$}", f.home)
	open("/models", f.models)
	open("/models/compare", f.compare)
	open("/models/{id...}", f.model)
	open("/pricing", f.pricing)
	open("/status", f.status)
	open(findPath, f.find)
	open("/status/history", f.statusHistory)
	open("/status/incidents/{id}", f.incident)
	open("/status.json", f.statusJSON)
	open("/status.atom", f.statusFeed)
	for path, page := range map[string]webui.Handler{"/status/subscribe": f.subscribe, "/status/confirm": f.confirm} {
		open(path, page)
		handle("POST "+path, f.ui.Handle(page))
	}
	open("/status/unsubscribe", f.unsubscribe)
	handle("POST /status/unsubscribe", f.ui.HandleUnread(f.unsubscribe))
	open("/status/{page...}", func(http.ResponseWriter, *http.Request) error {
		return fault.New(fault.NotFound, "There is no page at this address.")
	})
	for _, path := range []string{"/theme.css", "/logo", "/favicon.ico"} {
		handle("GET "+path, http.HandlerFunc(f.ui.ServeSite))
	}
}

// Frame returns the frame around a page for everybody.
func (f *Front) Frame(w http.ResponseWriter, r *http.Request, title string) (webui.Page, webui.Opening, error) {
	p := f.ui.Page(w, r, title)
	p.Home = "/"
	p.Styles, p.Scripts = []string{"front.css", "models.css"}, []string{"text.js"}
	s := f.ui.Settings()
	o := webui.Opening{Joinable: f.Joinable(), Footer: s.Site.Footer, Support: s.Support}
	var err error
	if o.SignedIn, err = f.SignedIn(w, r); o.SignedIn {
		p.Find, p.FindHint = webui.CustomerFind, "Search pages, keys, models, requests and docs"
	} else {
		p.Find, p.FindHint = findPath, webui.PublicHint
	}
	return p, o, err
}

// share returns what is shown of a page where its address is sent.
func (f *Front) share(summary, path string) webui.Share {
	return webui.Share{Summary: summary, URL: f.ui.Settings().Origin + path}
}

// homeView is the data of the first page.
type homeView struct {
	Headline, Intro string
	Snippets        []Snippet
	Sample          string
	Models          []Model // a few of them
	Figures         []figure
	Count           int
	Plans           account.Plans
	// Verdict says in a sentence how the service is now, and Tone how bad that is.
	Verdict, Tone string
	// Free reports whether the example needs no plan.
	Free bool
	// Since says of which time the speed of the models is known; see lastDays.
	Since string
}

// featured is how many models the first page shows.
const featured = 6

// home serves GET /. Someone who is signed in is sent to the dashboard.
func (f *Front) home(w http.ResponseWriter, r *http.Request) error {
	p, o, err := f.Frame(w, r, "")
	if err != nil {
		return err
	}
	if o.SignedIn {
		http.Redirect(w, r, webui.CustomerHome, http.StatusSeeOther)
		return nil
	}
	s := f.ui.Settings()
	v := homeView{Headline: s.Site.Headline, Intro: s.Site.Intro, Plans: f.Plans(), Sample: f.Sample()}
	if v.Headline == "" {
		v.Headline = "One API for every model"
	}
	if v.Intro == "" {
		v.Intro = "Chat, tools, embeddings and video from many providers, behind one key. It speaks the formats of OpenAI and Anthropic, so the client you already have works: change the base URL."
	}
	p.Title = v.Headline
	p.Share = f.share(v.Intro, "/")
	v.Snippets = Snippets(s.Origin, v.Sample)
	all := f.Models.All(r.Context(), nil)
	v.Count, v.Models, v.Figures, v.Since = len(all), favourites(all), headlines(all), lastDays(all)
	now := f.statusNow(r)
	v.Verdict, v.Tone = now.Verdict, now.Tone
	if m := find(all, v.Sample); m != nil {
		v.Free = m.Plan == account.Free
	}
	return f.ui.RenderPublic(w, r, http.StatusOK, homePage(p, o, v))
}

// kinds says in words what the models do.
func kinds(all []Model) string {
	count := map[Kind]int{}
	for i := range all {
		count[all[i].Kind]++
	}
	var parts []string
	for _, k := range []Kind{Chat, Embedding, Video} {
		if count[k] > 0 {
			parts = append(parts, webui.Number(int64(count[k]))+" "+string(k))
		}
	}
	return joined(parts)
}

// favourites returns the models of the first page: the router, and then those of different kinds and owners.
func favourites(all []Model) (few []Model) {
	seen := map[string]bool{}
	for _, again := range []bool{false, true} {
		for i := range all {
			m := &all[i]
			key := string(m.Kind) + m.OwnedBy
			if len(few) < featured && seen[key] == again && !seen[m.ID] {
				seen[key], seen[m.ID] = true, true
				few = append(few, *m)
			}
		}
	}
	return few
}

// headlines returns the figures of the first page. Speed and uptime are those of the models that are no sandbox, if there are
// any; what is not known is left out.
func headlines(all []Model) []figure {
	providers := map[string]bool{}
	for i := range all {
		for _, t := range all[i].Places() {
			if t.Provider != catalog.SandboxProvider {
				providers[t.Provider] = true
			}
		}
	}
	sum, days := together(all)
	list := []figure{{"Models", webui.Number(int64(len(all))), kinds(all)}}
	if len(providers) > 1 {
		list = append(list, figure{"Providers", webui.Number(int64(len(providers))), "behind one key"})
	}
	if share, known := overview.Uptime(days); known {
		list = append(list, figure{"Uptime", percent(share), "of all models, " + daysKnown(days)})
	}
	if d := sum.First.Quantile(0.5); d > 0 {
		list = append(list, figure{"First token", webui.Duration(d), "median, " + daysKnown(days)})
	}
	if v := sum.Speed(); v > 0 {
		list = append(list, figure{"Throughput", speed(&sum), "on average, " + daysKnown(days)})
	}
	return list
}

// together returns what models did in all and on each day: those that are no sandbox, if there are any.
func together(all []Model) (sum overview.Span, days []overview.Span) {
	days = make([]overview.Span, overview.KeptDays)
	sandbox := !slices.ContainsFunc(all, func(m Model) bool { return m.Kind != Video && !m.Router && !m.Sandbox })
	for i := range all {
		m := &all[i]
		if m.Sandbox != sandbox {
			continue
		}
		sum.Merge(&m.Total)
		for d := range min(len(days), len(m.Days)) {
			days[d].Merge(&m.Days[d])
		}
	}
	return sum, days
}

// lastDays says of which time the speed of models is known, as the figures of the first page do: such as the last 36 days.
func lastDays(all []Model) string {
	_, days := together(all)
	if n := daysKnown(days); n != "today" {
		return "the last " + n
	}
	return "today"
}

// Sold returns the plans in the order of the pages, the cheapest first.
func Sold() []account.Plan {
	return []account.Plan{account.Free, account.Basic, account.Premium, account.Scale}
}

// included returns how many models a plan includes.
func included(p account.Plan, all []Model) int {
	n := 0
	for i := range all {
		if p.Includes(all[i].Plan) {
			n++
		}
	}
	return n
}

// models serves GET /models.
func (f *Front) models(w http.ResponseWriter, r *http.Request) error {
	p, o, err := f.Frame(w, r, "Models")
	if err != nil {
		return err
	}
	list := f.Models.List(r, "/models", nil)
	if webui.Swapping(r) {
		w.Header().Set("HX-Replace-Url", list.Address())
	}
	p.Share = f.share("All models of this service, with prices, context, speed and uptime.", "/models")
	return f.ui.RenderPublic(w, r, http.StatusOK, modelsPage(p, o, list))
}

// compare serves GET /models/compare.
func (f *Front) compare(w http.ResponseWriter, r *http.Request) error {
	p, o, err := f.Frame(w, r, "")
	if err != nil {
		return err
	}
	v := f.Models.Compare(r, "/models", nil)
	p.Title, p.Path = v.Title(), "/models"
	p.Share = f.share("Prices, limits, speed and features beside each other.", v.Address())
	return f.ui.RenderPublic(w, r, http.StatusOK, comparePage(p, o, v))
}

// model serves GET /models/{id}.
func (f *Front) model(w http.ResponseWriter, r *http.Request) error {
	p, o, err := f.Frame(w, r, "")
	if err != nil {
		return err
	}
	s, ok := f.Models.Sheet(r, r.PathValue("id"), f.ui.Settings().Origin, "/models", nil)
	if !ok {
		return fault.New(fault.NotFound, "There is no such model. It may have been removed.")
	}
	p.Title, p.Path = s.Title(), "/models"
	p.Share = f.share(s.Summary(), s.Address())
	return f.ui.RenderPublic(w, r, http.StatusOK, modelPage(p, o, s))
}

// allowed reports whether everybody may know of a model. What is not released yet is for staff.
func allowed(m *catalog.Model) bool { return !m.StaffOnly }
