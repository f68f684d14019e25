package dashboard

import (
	"context"
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"sluice/internal/kit/fault"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/webui"
)

// findPath is the search over everything that the visitor may see.
const findPath = webui.CustomerFind

// places are pages and dialogs that the search finds beside those of the navigation.
var places = []webui.Link{
	{Path: keysPath + "?new", Text: "Create a key", Icon: "keys", Group: "Keys", Words: "new sub-key"},
	{Path: cachesPath, Text: "Caches", Icon: "usage", Group: "Usage", Words: "hit rate savings prompt cache"},
	{Path: costsPath, Text: "Costs", Icon: "usage", Group: "Usage", Words: "list price what it consists of"},
	{Path: home + "/activity/routing", Text: "Routing", Icon: "usage", Group: "Usage", Words: "auto router"},
	{Path: home + "/activity/whatif", Text: "What if", Icon: "usage", Group: "Usage", Words: "scenario other models prices"},
	{Path: home + "/account/log", Text: "Account log", Icon: "account", Group: "Account", Words: "audit security history"},
	{Path: home + "/messages/new", Text: "Contact support", Icon: "messages", Group: "Messages", Words: "write help"},
	{Path: "/docs", Text: "API reference", Icon: "docs", Group: "Documentation", Words: "docs endpoints fields"},
	{Path: "/docs/guide", Text: "Guide", Icon: "docs", Group: "Documentation", Words: "docs help"},
	{Path: "/status", Text: "Status", Icon: "usage", Words: "incidents uptime"},
}

// find searches pages, keys, models, requests and the documentation.
func (d *Dashboard) find(w http.ResponseWriter, r *http.Request, v *visitor) error {
	query := webui.FindQuery(r)
	links := v.links()
	if query != "" {
		links = append(links, places...)
	}
	all := []webui.Findings{webui.FindPages(query, links)}
	if query != "" {
		calls, err := d.findRequest(r.Context(), v, query)
		if err != nil {
			return err
		}
		known := func(m *catalog.Model) bool { return !m.StaffOnly || v.Staff }
		all = append(all, calls, v.findKeys(query), d.Models.Find(query, home+"/models", known), d.Docs(query))
	}
	return d.ui.RenderFound(w, r, all, func(content templ.Component) (templ.Component, error) {
		return webui.InFrame(d.frame(w, r, v, "Search"), content), nil
	})
}

// findKeys returns the visitor's keys that a query names: by their name, their id or their last characters.
func (v *visitor) findKeys(query string) webui.Findings {
	found := webui.Findings{Title: "Keys"}
	for i := range v.Keys {
		k := &v.Keys[i]
		if webui.Matches(query, k.Name, k.ID, k.LastFour, "key") {
			found.List = append(found.List, webui.Finding{Path: home + "/activity?range=30d&key=" + k.ID, Text: k.Name, Note: "…" + k.LastFour, Icon: "keys"})
		}
	}
	return found.Best(query)
}

// shortestID is how long a request id is at least.
const shortestID = 8

// findRequest returns the visitor's request with the id that a query is.
func (d *Dashboard) findRequest(ctx context.Context, v *visitor, query string) (webui.Findings, error) {
	found := webui.Findings{Title: "Requests"}
	if len(query) < shortestID || strings.ContainsAny(query, " /") {
		return found, nil
	}
	e, err := d.Activity.Request(ctx, v.ID, query)
	if fault.Is(err, fault.NotFound) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	note := webui.DateTime(e.At())
	found.List = append(found.List, webui.Finding{Path: home + "/activity/requests/" + e.ID(), Text: query, Note: note, Icon: "requests"})
	return found, nil
}
