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

func (d *Dashboard) models(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := modelsView{Search: strings.TrimSpace(r.FormValue("q")), Plan: r.FormValue("plan"), Tools: r.FormValue("tools") != ""}
	view.Context, _ = strconv.Atoi(r.FormValue("context")) // anything else filters nothing
	all := d.Catalog().Models()
	view.All = len(all)
	for _, m := range all {
		if !view.wants(m) {
			continue
		}
		item := modelView{Model: m, Included: v.Plan.Includes(m.Plan)}
		if d.Health != nil {
			item.Health = d.Health(m.ID)
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
