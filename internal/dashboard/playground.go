package dashboard

import (
	"net/http"

	"sluice/internal/catalog"
)

// playgroundView is the initial data of the playground. playground.js does the rest.
type playgroundView struct {
	// Models holds the models of the visitor's plan.
	Models []*catalog.Model
	Model  string
	Origin string
	// Tools reports whether the plan includes tool calling.
	Tools bool
}

// playgroundPage shows the page. The query may name a model to select.
func (d *Dashboard) playgroundPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := playgroundView{Model: r.FormValue("model"), Origin: d.ui.Settings().Origin, Tools: v.Plan.IncludesTools()}
	for _, m := range d.Catalog().Models() {
		if v.includes(m) {
			view.Models = append(view.Models, m)
		}
	}
	p := d.frame(w, r, v, "Playground")
	p.Scripts = []string{"playground.js"}
	return d.ui.Render(w, r, http.StatusOK, playgroundPage(p, view))
}
