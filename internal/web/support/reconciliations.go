package support

import (
	"net/http"
	"slices"

	"sluice/internal/ledger/reconcile"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// findingsShown is how many differences the page of a comparison has. The JSON of the admin API has all that are kept.
const findingsShown = 200

// reportView is the data of the page of a comparison.
type reportView struct {
	*reconcile.Report
	Class    reconcile.Class // whose differences are shown; empty: all but rounding
	Findings []reconcile.Finding
	More     int // differences of the class that are not shown
}

// reconciliationsPage lists the last comparisons with vendors' exports.
func (c *Console) reconciliationsPage(w http.ResponseWriter, r *http.Request, m *member) error {
	list, err := run(c, r, m, c.ops.ReconcileList, admin.Cursor{})
	if err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, reconciliationsPage(c.frame(w, r, m, "Vendor invoices"), list.Data))
}

// reconciliationPage shows one comparison.
func (c *Console) reconciliationPage(w http.ResponseWriter, r *http.Request, m *member) error {
	report, err := run(c, r, m, c.ops.ReconcileShow, admin.ReportQuery{ID: r.PathValue("id")})
	if err != nil {
		return err
	}
	v := reportView{Report: &report, Class: reconcile.Class(r.URL.Query().Get("class"))}
	if !slices.Contains(reconcile.Classes(), v.Class) {
		v.Class = ""
	}
	for i := range report.Findings {
		f := &report.Findings[i]
		if v.Class == "" && f.Class == reconcile.Rounding || v.Class != "" && f.Class != v.Class {
			continue
		}
		if len(v.Findings) == findingsShown {
			v.More++
			continue
		}
		v.Findings = append(v.Findings, *f)
	}
	return c.ui.Render(w, r, http.StatusOK, reconciliationPage(c.frame(w, r, m, "Vendor invoices"), v))
}

// classTone returns the colour of a class.
func classTone(c reconcile.Class) string {
	switch c {
	case reconcile.Rounding:
		return "good"
	case reconcile.StalePrice, reconcile.UnknownTier:
		return "warn"
	}
	return "bad"
}

// className returns a class in words.
func className(c reconcile.Class) string {
	switch c {
	case reconcile.MissingHere:
		return "missing here"
	case reconcile.MissingThere:
		return "missing there"
	case reconcile.StalePrice:
		return "stale price"
	case reconcile.UnknownTier:
		return "unknown tier"
	case reconcile.TokensDiffer:
		return "tokens differ"
	}
	return string(c)
}

// count writes a count that may not be known.
func count(n *int64) string {
	if n == nil {
		return "–"
	}
	return webui.Number(*n)
}

// dollars writes an amount that may not be known.
func dollars(m *reconcile.Money) string {
	if m == nil {
		return "–"
	}
	return webui.Dollars(*m)
}
