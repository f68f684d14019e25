package dashboard

import (
	"net/http"

	"sluice/internal/kit/fault"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/front"
	"sluice/internal/web/webui"
)

const modelsPath = home + "/models"

// modelsPage shows the models, and which of them the visitor may call.
func (d *Dashboard) modelsPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	list := d.Models.List(r, modelsPath, v.reader())
	if webui.Swapping(r) {
		w.Header().Set("HX-Replace-Url", list.Address())
	}
	return d.ui.Render(w, r, http.StatusOK, modelsPage(d.modelsFrame(w, r, v, "Models"), list))
}

// modelPage shows one model.
func (d *Dashboard) modelPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	sheet, ok := d.Models.Sheet(r, r.PathValue("id"), d.ui.Settings().Origin, modelsPath, v.reader())
	if !ok {
		return fault.New(fault.NotFound, "There is no such model. It may have been removed.")
	}
	return d.ui.Render(w, r, http.StatusOK, modelPage(d.modelsFrame(w, r, v, sheet.Title()), sheet))
}

// comparePage shows models beside each other.
func (d *Dashboard) comparePage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	c := d.Models.Compare(r, modelsPath, v.reader())
	return d.ui.Render(w, r, http.StatusOK, comparePage(d.modelsFrame(w, r, v, c.Title()), c))
}

// modelsFrame returns the frame around a page about models.
func (d *Dashboard) modelsFrame(w http.ResponseWriter, r *http.Request, v *visitor, title string) webui.Page {
	p := d.frame(w, r, v, title)
	p.Path = modelsPath
	p.Styles, p.Scripts = []string{"front.css", "models.css"}, []string{"text.js"}
	return p
}

// reader is the visitor as pages about models see one.
func (v *visitor) reader() *front.Reader {
	return &front.Reader{Plan: v.Plan, ID: v.ID, May: v.includes}
}

// includes reports whether the visitor may call a model. Models that the operator has not
// released yet are for staff only.
func (v *visitor) includes(m *catalog.Model) bool {
	return v.Plan.Includes(m.Plan) && (!m.StaffOnly || v.Staff)
}
