package support

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

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

// classMeaning says what differences of a class are.
func classMeaning(c reconcile.Class) string {
	return map[reconcile.Class]string{
		reconcile.MissingHere: "The vendor charges for something that was not settled here.", reconcile.MissingThere: "Something was settled here that the vendor does not charge for.",
		reconcile.Duplicate: "Something is there several times.", reconcile.TokensDiffer: "Some counts are higher here, others at the vendor.",
		reconcile.UnknownTier: "The counts agree, but the service tier or the region has no price here, or is another one.", reconcile.StalePrice: "The counts agree, but the price here is not the one that was charged.",
		reconcile.Rounding: "The counts agree, and the amounts do up to their last digit.",
	}[c]
}

// vendorName returns a vendor as it writes its name.
func vendorName(v reconcile.Vendor) string {
	return cmp.Or(map[reconcile.Vendor]string{
		reconcile.OpenAI: "OpenAI", reconcile.Anthropic: "Anthropic", reconcile.AWS: "AWS", reconcile.OpenRouter: "OpenRouter",
	}[v], string(v))
}

// bucketName returns a bucket of tokens in words.
func bucketName(name string) string {
	return cmp.Or(strings.ReplaceAll(name, "_", " "), "all")
}

// overcharged writes what a vendor charges beyond what was settled; a dash is nothing.
func overcharged(m reconcile.Money) string {
	if m == 0 {
		return "–"
	}
	return webui.Total(m)
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
	return webui.Total(*m)
}
