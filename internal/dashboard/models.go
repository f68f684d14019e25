package dashboard

import (
	"net/http"
	"strconv"
	"strings"

	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/webui"
)

// modelsView is what the catalog's page shows.
type modelsView struct {
	Search  string
	Plan    string
	Tools   bool
	Context int
	Models  []modelView
	All     int
}

type modelView struct {
	*catalog.Model
	Health   string
	Included bool // in the visitor's plan
}

func (d *Dashboard) modelsPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := modelsView{Search: strings.TrimSpace(r.FormValue("q")), Plan: r.FormValue("plan"), Tools: r.FormValue("tools") != ""}
	view.Context, _ = strconv.Atoi(r.FormValue("context")) // anything else filters nothing
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

// wants reports whether a model passes the filters.
func (v *modelsView) wants(m *catalog.Model) bool {
	for word := range strings.FieldsSeq(strings.ToLower(v.Search)) {
		if !strings.Contains(strings.ToLower(m.ID+" "+m.Description+" "+m.OwnedBy), word) {
			return false
		}
	}
	return (v.Plan == "" || m.Plan.String() == v.Plan) && (!v.Tools || m.ToolCalling) && m.ContextLength >= v.Context
}

// includes reports whether a visitor may call a model. Those that the operator has not opened yet are staff's.
func (v *visitor) includes(m *catalog.Model) bool {
	return v.Plan.Includes(m.Plan) && (!m.StaffOnly || v.Staff)
}

// healthTone is how a model's health looks.
func healthTone(health string) string {
	switch health {
	case "well":
		return "good"
	case "partly out of order":
		return "warn"
	}
	return "bad"
}

// price writes what a million tokens cost.
func price(p *catalog.Pricing) string {
	if p == nil || p.Input == nil || p.Output == nil {
		return ""
	}
	return webui.Dollars(*p.Input) + " in, " + webui.Dollars(*p.Output) + " out per million tokens"
}

// multiplier writes how many requests of the minute one call takes.
func multiplier(milli int64) string {
	if milli == 1000 {
		return "1 request"
	}
	return webui.Thousandths(milli) + " requests"
}

var tiers = []account.Plan{account.Free, account.Basic, account.Premium}

var contexts = []int{32_000, 128_000, 200_000, 400_000}
