package dashboard

import (
	"net/http"
	"strconv"
	"strings"

	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/webui"
)

// modelsView is the data of the models page: the filters and the models that pass them.
type modelsView struct {
	Search  string
	Plan    string
	Tools   bool
	Context int
	Models  []modelView
	All     int
}

// modelView is one model in the list. Health is "" if unknown.
type modelView struct {
	*catalog.Model
	Health string
	// Included reports whether the visitor may call the model.
	Included bool
}

// modelsPage shows the catalog. When htmx asks, only the list is rendered.
func (d *Dashboard) modelsPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := modelsView{Search: strings.TrimSpace(r.FormValue("q")), Plan: r.FormValue("plan"), Tools: r.FormValue("tools") != ""}
	// Anything that is not a number does not filter.
	view.Context, _ = strconv.Atoi(r.FormValue("context"))
	all := d.Catalog().Models()
	view.All = len(all)
	for _, m := range all {
		if !view.wants(m) {
			continue
		}
		item := modelView{Model: m, Included: v.includes(m)}
		if d.Health != nil {
			item.Health = d.Health(m)
		}
		view.Models = append(view.Models, item)
	}
	if webui.Swapping(r) {
		return d.ui.Render(w, r, http.StatusOK, modelList(view))
	}
	return d.ui.Render(w, r, http.StatusOK, modelsPage(d.frame(w, r, v, "Models"), view))
}

// wants reports whether a model passes the filters. Every word of the search must occur in its
// id, description or owner.
func (v *modelsView) wants(m *catalog.Model) bool {
	for word := range strings.FieldsSeq(strings.ToLower(v.Search)) {
		if !strings.Contains(strings.ToLower(m.ID+" "+m.Description+" "+m.OwnedBy), word) {
			return false
		}
	}
	return (v.Plan == "" || m.Plan.String() == v.Plan) && (!v.Tools || m.ToolCalling) && m.ContextLength >= v.Context
}

// includes reports whether the visitor may call a model. Models that the operator has not
// released yet are for staff only.
func (v *visitor) includes(m *catalog.Model) bool {
	return v.Plan.Includes(m.Plan) && (!m.StaffOnly || v.Staff)
}

// healthTone returns the colour of a health text.
func healthTone(health string) string {
	switch health {
	case "healthy":
		return "good"
	case "degraded":
		return "warn"
	}
	return "bad"
}

// price formats the price of a million tokens, or returns "" if the model has none. Pricing is
// in millionths of a dollar.
func price(p *catalog.Pricing) string {
	if p == nil || p.Input == nil || p.Output == nil {
		return ""
	}
	return webui.Dollars(*p.Input) + " input, " + webui.Dollars(*p.Output) + " output per million tokens"
}

// multiplier formats how many requests a call counts as in the rate limit. milli is in
// thousandths.
func multiplier(milli int64) string {
	if milli == 1000 {
		return "1 request"
	}
	return webui.Thousandths(milli) + " requests"
}

// tiers are the plans to filter by. Scale has no models of its own.
var tiers = []account.Plan{account.Free, account.Basic, account.Premium}

// contexts are the context lengths to filter by, in tokens.
var contexts = []int{32_000, 128_000, 200_000, 400_000}
