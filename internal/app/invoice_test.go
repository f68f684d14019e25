package app_test

import (
	"regexp"
	"strings"
	"testing"
)

// Whoever pays gets an invoice as a file, with what they want on it. Another account's is not found. The address for billing
// is told of the payment.
func TestInvoices(t *testing.T) {
	t.Parallel()
	n := newSite(t, "site: {seller: Example Ltd, seller_address: \"1 High Street\\nLondon\", seller_tax_id: GB123, taxes: [{country: DE, name: VAT, percent: 19, note: Included by law.}]}\n").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	ana.wants(ana.post("/dashboard/account/details", "name", "Ana", "country", "Nowhere", "email", "nobody"), "two mistakes", 400, "Choose a country from the list.")
	ana.wants(ana.post("/dashboard/account/details", "name", "Ana", "country", "Nowhere", "email", "nobody"), "two mistakes", 400, "not an e-mail address")
	ana.leads(ana.post("/dashboard/account/details", "name", "Ana & Söhne (GmbH)", "address", "Road 1\n12345 Town", "country", "DE", "tax_id", "DE123456789", "email", "books@example.com"), "details", "DE123456789")
	buy := func(path string, fields ...string) {
		t.Helper()
		r := ana.post(path, fields...)
		if r.status != 303 {
			t.Fatalf("POST %s = %d %s, want a redirect", path, r.status, r.body)
		}
		page := ana.get(r.header.Get("Location"))
		if payment := regexp.MustCompile(`name="payment" value="([^"]+)"`).FindStringSubmatch(page.body); payment != nil {
			ana.wants(ana.post("/dashboard/plan/pay", "payment", payment[1], "card", "4242424242424242"), "the payment", 303, "/dashboard/plan")
		}
	}
	buy("/dashboard/plan/subscribe", "plan", "basic")
	page := ana.wants(ana.get("/dashboard/plan"), "GET /dashboard/plan", 200, "Your plan")
	file := regexp.MustCompile(`/dashboard/plan/invoices/\d+\.pdf`).FindString(page.body)
	if file == "" {
		t.Fatalf("the page has no invoice: %s", page.body)
	}
	r := ana.wants(ana.get(file), "GET "+file, 200, "%PDF-1.4")
	for _, text := range []string{`Ana & S` + "\xf6" + `hne \(GmbH\)`, "12345 Town", "Example Ltd", "1 High Street", "London", "Tax ID: GB123", "Tax ID: DE123456789", "ana@example.com", "Germany", "Basic plan", "$10.00 USD", "VAT 19% on $8.40", "$1.60", "Included by law.", "Test mode"} {
		if !strings.Contains(r.body, text) {
			t.Errorf("the invoice has no %q", text)
		}
	}
	if r.header.Get("Content-Type") != "application/pdf" || !strings.Contains(r.header.Get("Content-Disposition"), "invoice-") {
		t.Errorf("the invoice's headers = %v", r.header)
	}
	// What was issued does not change when the customer or the seller does.
	ana.leads(ana.post("/dashboard/account/details", "name", "Somebody else"), "other details", "Somebody else")
	if again := ana.get(file); again.body != r.body {
		t.Error("the invoice has changed with the customer's details")
	}
	if export := ana.get("/dashboard/account.json").body; !strings.Contains(export, `"name": "Somebody else"`) || !strings.Contains(export, `"tax_id": "GB123"`) {
		t.Error("the export has no billing details, or does not have what the invoice says")
	}
	bob.wants(bob.get(file), "another's invoice", 404, "no invoice")
	bob.wants(bob.get("/dashboard/plan/invoices/x.pdf"), "no number", 404, "no such invoice")
	eventually(t, "a mail to the address for billing", func() bool {
		return strings.Contains(n.log.String(), `"to":"books@example.com","subject":"Receipt for ana@example.com: $`)
	})
	// Line by line: what the new plan costs for the rest, less what was paid of the old one.
	upgrade := ana.wants(ana.get("/dashboard/plan/upgrade?plan=premium"), "the upgrade", 200, "already paid for that time").body
	amounts := regexp.MustCompile(`\$(\d+)\.(\d\d)</td>`).FindAllStringSubmatch(upgrade, -1)
	if len(amounts) != 2 || !strings.Contains(upgrade, "per month") {
		t.Errorf("the upgrade shows %q", amounts)
	}
}
