package dashboard

import (
	"net/http"

	"sluice/internal/kit/fault"
	"sluice/internal/upstream/catalog"
)

// modelsPage shows the models, and which of them the visitor may call.
func (d *Dashboard) modelsPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	list := d.Models.List(r, v.includes)
	list.Path = home + "/models"
	p := d.frame(w, r, v, "Models")
	p.Styles = []string{"models.css"}
	return d.ui.Render(w, r, http.StatusOK, modelsPage(p, list))
}

// modelPage shows one model.
func (d *Dashboard) modelPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	sheet, ok := d.Models.Sheet(r.Context(), r.PathValue("id"), d.ui.Settings().Origin, v.includes)
	if !ok {
		return fault.New(fault.NotFound, "There is no such model. It may have been removed.")
	}
	sheet.Base = home + "/models"
	p := d.frame(w, r, v, sheet.ID)
	p.Styles, p.Scripts = []string{"front.css", "models.css"}, []string{"text.js"}
	return d.ui.Render(w, r, http.StatusOK, modelPage(p, sheet))
}

// includes reports whether the visitor may call a model. Models that the operator has not
// released yet are for staff only.
func (v *visitor) includes(m *catalog.Model) bool {
	return v.Plan.Includes(m.Plan) && (!m.StaffOnly || v.Staff)
}
