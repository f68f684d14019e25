package dashboard

import (
	"net/http"

	"sluice/internal/catalog"
)

// playgroundView is what the playground starts with.
type playgroundView struct {
	Models []*catalog.Model // those of the visitor's plan
	Model  string
	Origin string
	Tools  bool // the plan includes them
}

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
