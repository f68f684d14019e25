package dashboard

import (
	"strings"
	"testing"

	"sluice/internal/account/billing"
	"sluice/internal/ledger/receipt"
	"sluice/internal/web/webui"
)

// An invoice has the root of the receipts of the month before, if there are any.
func TestInvoiceHasTheRoot(t *testing.T) {
	t.Parallel()
	root := strings.Repeat("5d", 32)
	for _, receipts := range []int64{0, 3} {
		file := string(invoice(&billing.Payment{Invoice: 1, Issued: &billing.Issued{}}, webui.Settings{}, receipt.Month{Month: "2026-10", Root: root, Receipts: receipts}))
		has := strings.Contains(file, root) && strings.Contains(file, "Root of the 3 receipts of calls in 2026-10")
		if has != (receipts > 0) {
			t.Errorf("an invoice with %d receipts has their root: %t", receipts, has)
		}
	}
}
