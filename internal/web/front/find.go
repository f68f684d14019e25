package front

import (
	"net/http"

	"github.com/a-h/templ"

	"sluice/internal/upstream/catalog"
	"sluice/internal/web/webui"
)

// findPath is where everybody searches over pages, models and the documentation.
const findPath = webui.PublicFind

// find serves GET /find.
func (f *Front) find(w http.ResponseWriter, r *http.Request) error {
	query := webui.FindQuery(r)
	all := []webui.Findings{webui.FindPages(query, webui.PublicLinks())}
	if query != "" {
		all = append(all, f.Models.Find(query, "/models", allowed), f.Docs(query))
	}
	return f.ui.RenderFound(w, r, all, func(content templ.Component) (templ.Component, error) {
		p, o, err := f.Frame(w, r, "Search")
		return webui.InOpen(p, o, content), err
	})
}

// Find returns the models that a query names, of those that the reader may know of. Their pages are below base.
func (s *ModelInfo) Find(query, base string, known func(*catalog.Model) bool) webui.Findings {
	found := webui.Findings{Title: "Models"}
	for _, m := range s.Catalog().Models() {
		if known(m) && webui.Matches(query, m.ID, m.OwnedBy) {
			found.List = append(found.List, webui.Finding{Path: base + "/" + m.ID, Text: m.ID, Note: m.OwnedBy, Icon: "models"})
		}
	}
	return found.Best(query)
}
