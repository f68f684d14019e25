package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/reconcile"
	"sluice/internal/store/sqlstore/alltest"
)

// reconciliations checks that reports come back as they were, and that the oldest ones are forgotten.
func reconciliations(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	tokens, cost := int64(7), reconcile.Money(-1_500_000_001)
	var want reconcile.Report
	for i := range 53 {
		want = reconcile.Report{
			ID: fmt.Sprintf("rec_%02d", i), At: base.Add(time.Duration(i) * time.Second), Vendor: reconcile.OpenAI, Providers: []string{"openai"}, Files: []string{"a.csv"}, From: "2026-01-01", To: "2026-01-31",
			Sums: []reconcile.Sum{{Class: reconcile.StalePrice, Findings: 1, Amount: cost}}, Proposals: []reconcile.Proposal{}, Others: []reconcile.Other{}, Notes: []string{},
			Findings: []reconcile.Finding{{Class: reconcile.StalePrice, Day: "2026-01-02", Model: "gpt-6-sol", Amount: cost, Figures: []reconcile.Figure{{Bucket: "input", Ours: &tokens, TheirCost: &cost}}}},
		}
		must(t, s.AddReconciliation(ctx, &want))
	}
	list, err := open().Reconciliations(ctx)
	if err != nil || len(list) != 50 || list[0].ID != "rec_52" || list[49].ID != "rec_03" || len(list[0].Findings) != 0 || list[0].Sums[0] != want.Sums[0] {
		t.Errorf("Reconciliations: %v, %d reports", err, len(list))
	}
	got, err := s.Reconciliation(ctx, "rec_52")
	if diff := cmp.Diff(&want, got); err != nil || diff != "" {
		t.Errorf("Reconciliation: %v, -want +got\n%s", err, diff)
	}
	if gone, err := s.Reconciliation(ctx, "rec_00"); gone != nil || err != nil {
		t.Errorf("Reconciliation of a report that is forgotten: %v, %v", gone, err)
	}
}
