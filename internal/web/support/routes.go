package support

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

//go:generate go run github.com/a-h/templ/cmd/templ@v0.3.977 generate -include-version=false

// home is the path of the console. All of its pages are below it.
const home = webui.StaffHome

// Patterns returns the mux patterns of all paths that belong to the console. The API's mux sends them to Handler.
func Patterns() []string { return []string{home, home + "/{page...}"} }

// page is a handler for requests of a member of staff, who is never nil.
type page = func(w http.ResponseWriter, r *http.Request, m *member) error

// route is one page or form of the console. Only members reach it.
type route struct {
	pattern string // for net/http.ServeMux
	page    page
}

// first returns a page as it is before any form of it was sent: with an empty view.
func first[View any](show func(w http.ResponseWriter, r *http.Request, m *member, status int, view View) error) page {
	return func(w http.ResponseWriter, r *http.Request, m *member) error {
		var view View
		return show(w, r, m, http.StatusOK, view)
	}
}

// routes returns all pages and forms. The first link of links is what home leads to.
func (c *Console) routes() []route {
	return []route{
		{"GET " + home, c.homePage},
		{"GET " + findPath, c.find},
		{"GET " + home + "/queue", c.queuePage},
		{"GET " + home + "/queue/{id}", first(c.showTicket)},
		{"POST " + home + "/queue/{id}/{step}", c.stepTicket},
		{"GET " + home + "/overview", c.overviewPage},
		{"GET " + home + "/overview/live", c.overviewLive},
		{"GET " + home + "/upstreams", first(c.showUpstreams)},
		{"POST " + home + "/upstreams/drain", c.drainUpstream},
		{"POST " + home + "/upstreams/enable", c.enableUpstream},
		{"POST " + home + "/models/move", c.moveModel},
		{"POST " + home + "/models/move-back", c.moveModelBack},
		{"GET " + incidentsPath, first(c.showIncidents)},
		{"POST " + incidentsPath, c.openIncident},
		{"GET " + incidentsPath + "/{id}", first(c.showIncident)},
		{"POST " + incidentsPath + "/{id}", c.editIncident},
		{"POST " + incidentsPath + "/{id}/updates", c.updateIncident},
		{"POST " + incidentsPath + "/{id}/delete", c.deleteIncident},
		{"GET " + home + "/announcements", first(c.showAnnouncements)},
		{"POST " + home + "/announcements", c.postAnnouncement},
		{"POST " + home + "/announcements/{id}/end", c.endOrder(admin.Ops().AnnouncementEnd)},
		{"POST " + home + "/maintenance", c.startMaintenance},
		{"POST " + home + "/maintenance/{id}/end", c.endOrder(admin.Ops().MaintenanceEnd)},
		{"GET " + home + "/accounts", c.accountsPage},
		{"GET " + home + "/accounts/{id}", first(c.showAccount)},
		{"GET " + home + "/accounts/{id}/log", c.logPage},
		{"GET " + home + "/accounts/{id}/costs", c.costsPage},
		{"POST " + home + "/accounts/{id}/actions/{action}", c.act},
		{"GET " + home + "/requests", c.requestsPage},
		{"GET " + home + "/reconciliations", c.reconciliationsPage},
		{"GET " + home + "/reconciliations/{id}", c.reconciliationPage},
		{"GET " + serversPath, c.serversPage},
		{"GET " + home + "/caches", c.cachesPage},
		{"GET " + home + "/whatif", c.whatIfPage},
		{"GET " + home + "/alerts", first(c.showAlerts)},
		{"POST " + home + "/alerts/test", c.testAlerts},
		{"POST " + home + "/alerts/{id}/replay", c.replayAlert},
		{"GET " + home + "/tokens", c.tokensPage},
		{"POST " + home + "/tokens", c.createToken},
		{"POST " + home + "/tokens/{id}/delete", c.deleteToken},
	}
}

// links returns the navigation, in its order.
func (c *Console) links() []webui.Link {
	const customers, service, money = "Customers", "Service", "Costs"
	return []webui.Link{
		{Path: home + "/overview", Text: "Overview", Icon: "usage", Words: "load health calls per minute"},
		{Path: home + "/queue", Text: "Queue", Icon: "messages", Group: customers, Words: "tickets messages answer"},
		{Path: home + "/accounts", Text: "Accounts", Icon: "account", Group: customers, Words: "customers plan refund suspend"},
		{Path: home + "/requests", Text: "Requests", Icon: "requests", Group: customers, Words: "find refused trace"},
		{Path: home + "/upstreams", Text: "Upstreams", Icon: "models", Group: service, Words: "providers drain models health"},
		{Path: incidentsPath, Text: "Incidents", Icon: "incidents", Group: service, Words: "outage status page maintenance updates"},
		{Path: home + "/announcements", Text: "Announcements", Icon: "announcements", Group: service, Words: "maintenance close models banner"},
		{Path: serversPath, Text: "Servers", Icon: "servers", Group: service, Words: "nodes cluster version ready configuration"},
		{Path: home + "/alerts", Text: "Alerts", Icon: "webhooks", Group: service, Words: "notifications deliveries"},
		{Path: home + "/tokens", Text: "Tokens", Icon: "tokens", Group: service, Words: "staff admin api"},
		{Path: home + "/reconciliations", Text: "Vendor invoices", Icon: "invoices", Group: money, Words: "reconciliation vendor bills"},
		{Path: home + "/caches", Text: "Caches", Icon: "usage", Group: money, Words: "hit rate savings"},
		{Path: home + "/whatif", Text: "What if", Icon: "whatif", Group: money, Words: "scenario price replay"},
		{Path: webui.CustomerHome, Text: "Dashboard", Icon: "overview"},
	}
}

// Handler returns the handler of all Patterns. Every route goes through webui.Protect, which refuses forms of other
// sites, and through staff, which refuses everybody who is not a member.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range c.routes() {
		mux.Handle(rt.pattern, c.ui.Handle(c.staff(rt.page)))
	}
	// The address of a form leads to its page: a browser that loads it again must not end at an error.
	for _, rt := range c.routes() {
		if path, ok := strings.CutPrefix(rt.pattern, "POST "); ok && !c.shows(path) {
			mux.Handle("GET "+path, c.ui.Handle(c.staff(func(w http.ResponseWriter, r *http.Request, _ *member) error {
				return c.seeOther(w, r, pageOf(r.URL.Path), "")
			})))
		}
	}
	// The code of the second factor is asked of a member who has not typed one for a while.
	mux.Handle("POST "+confirmPath, c.ui.Handle(c.confirm))
	mux.Handle("/", c.ui.Handle(c.staff(func(http.ResponseWriter, *http.Request, *member) error { return nothingHere() })))
	return c.ui.Protect(mux)
}

// shows reports whether the path has a page of its own.
func (c *Console) shows(path string) bool {
	return slices.ContainsFunc(c.routes(), func(rt route) bool { return rt.pattern == "GET "+path })
}

// pageOf returns the path of the page that a form belongs to: /support/accounts/x of /support/accounts/x/actions/refund.
func pageOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, home+"/"), "/")
	switch noun := parts[0]; noun {
	case "models":
		return home + "/upstreams"
	case "maintenance":
		return home + "/announcements"
	case "queue", "accounts", "incidents":
		return home + "/" + noun + "/" + url.PathEscape(parts[1])
	default:
		return home + "/" + noun
	}
}

// Routes returns the patterns of all routes, for a test that tries each of them.
func (c *Console) Routes() []string {
	list := []string{"POST " + confirmPath}
	for _, rt := range c.routes() {
		list = append(list, rt.pattern)
	}
	return list
}

// nothingHere is what everybody is told about a page that is not there for them.
func nothingHere() error { return fault.New(fault.NotFound, "There is no such page.") }
