package support

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/reconcile"
	"sluice/internal/web/webui"
)

// The page of a comparison shows classes, days, models, amounts and the proposed price, and nothing of an export as markup.
func TestReconciliationPage(t *testing.T) {
	t.Parallel()
	ours, theirs, amount := int64(1000), int64(1234), reconcile.Money(2_500_000)
	found := reconcile.Finding{
		Class: reconcile.MissingHere, Day: "2026-07-01", Model: "<b>gpt-6-sol", Tier: "priority", Amount: amount, Note: "a note",
		Figures: []reconcile.Figure{{Bucket: "input", Ours: &ours, Theirs: &theirs, TheirCost: &amount}},
	}
	report := reconcile.Report{
		ID: "rec_1", At: time.Date(2026, 8, 2, 9, 0, 0, 0, time.UTC), Actor: "staff:kim@example.com", Vendor: reconcile.OpenAI, From: "2026-07-01", To: "2026-07-31", Compared: 62, Matched: 61, Sums: []reconcile.Sum{{Class: reconcile.MissingHere, Findings: 1, Amount: amount}},
		Proposals: []reconcile.Proposal{{Model: "lab/large", Upstream: "gpt-6-sol", Why: "input 2.40 instead of 2.00", Days: 31, YAML: "prices:\n  - model: lab/large\n"}},
		Others:    []reconcile.Other{{Name: "vector stores", Rows: 3, Cost: 1}},
	}
	var b strings.Builder
	if err := reconciliationPage(webui.Page{}, reportView{Report: &report, Findings: []reconcile.Finding{found}}).Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"OpenAI, 1 Jul 2026 to 31 Jul 2026", "61 of 62 daily totals of models agree", "missing here", "&lt;b&gt;gpt-6-sol", "priority", "1,000", "1,234", "$0.0025", "a note", "2 Aug 2026", "by kim@example.com",
		"Proposed price of lab/large", "Input 2.40 instead of 2.00. It explains what was charged on 31 days", "The vendor charges for something that was not settled here.", "- model: lab/large", "vector stores", `href="/support/reconciliations/rec_1?class=missing_here"`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	b.Reset()
	if err := reconciliationsPage(webui.Page{}, []reconcile.Report{report}).Render(t.Context(), &b); err != nil || !strings.Contains(b.String(), `href="/support/reconciliations/rec_1"`) {
		t.Errorf("the list lacks the report: %v", err)
	}
}
