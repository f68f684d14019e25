package billing_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/account/billing"
)

// An invoice says what held when it was paid: who sold to whom, what for, and which tax is in it. The first tax that fits the
// customer counts.
func TestIssued(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-04-10T00:00:00Z")
	d.seller = billing.Seller{Name: "Example GmbH", Address: "Road 1", TaxID: "DE1", Taxes: []billing.Tax{
		{Country: "DE", Name: "USt", Rate: 19_000},
		{Country: "AT", WithTaxID: true, Name: "USt", Note: "Reverse charge."},
		{Country: "AT", Name: "USt", Rate: 20_000},
		{Country: "CH", Name: "MWST", Rate: 8_100},
	}}
	at := d.now
	p := d.subscribe(account.Basic, good)
	want := &billing.Issued{
		Seller: billing.Seller{Name: "Example GmbH", Address: "Road 1", TaxID: "DE1"}, Account: d.index.Email, Test: true,
		Lines: []billing.Line{{Text: "Basic plan", Start: at, End: at.AddDate(0, 1, 0), Cents: 1000}},
	}
	got, err := d.FindPayment(t.Context(), p.ID)
	if diff := cmp.Diff(want, got.Issued); err != nil || diff != "" {
		t.Errorf("the first invoice: %v, -want +got\n%s", err, diff)
	}

	// What customers and sellers are later does not change it.
	d.must(d.SetDetails(t.Context(), d.id, billing.Details{Name: "Ana", Country: "DE"}))
	if again, err := d.FindPayment(t.Context(), p.ID); err != nil || !cmp.Equal(want, again.Issued) {
		t.Errorf("the first invoice after the customer has moved = %+v, %v", again.Issued, err)
	}

	// An upgrade has a line for each plan.
	d.now = at.Add(15 * day)
	o, err := d.Quote(t.Context(), d.id, account.Premium)
	d.must(err)
	up, err := d.Upgrade(t.Context(), "customer", d.id, o)
	d.must(err)
	want = &billing.Issued{
		Seller: want.Seller, Customer: billing.Details{Name: "Ana", Country: "DE"}, Account: d.index.Email, Test: true,
		Lines: []billing.Line{
			{Text: "Premium plan, for the rest of the period", Start: d.now, End: at.AddDate(0, 1, 0), Cents: 1250},
			{Text: "Basic plan, paid before and not used", Start: d.now, End: at.AddDate(0, 1, 0), Cents: -500},
		},
		Tax: &billing.TaxShare{Name: "USt", Rate: 19_000, Cents: 120}, // 7.50 / 1.19 = 6.3025
	}
	if diff := cmp.Diff(want, up.Issued); diff != "" {
		t.Errorf("the invoice of the upgrade: -want +got\n%s", diff)
	}

	// A renewal of $25.00, of which a credit pays $5.00, in each country.
	for _, tt := range []struct {
		country, taxID string
		want           *billing.TaxShare
	}{
		{"AT", "ATU1", &billing.TaxShare{Name: "USt", Note: "Reverse charge."}},
		{"AT", "", &billing.TaxShare{Name: "USt", Rate: 20_000, Cents: 333}}, // 20.00 / 1.2 = 16.6667
		{"CH", "", &billing.TaxShare{Name: "MWST", Rate: 8_100, Cents: 150}}, // 20.00 / 1.081 = 18.5014
		{"US", "", nil},
	} {
		d.must(d.SetDetails(t.Context(), d.id, billing.Details{Country: tt.country, TaxID: tt.taxID}))
		d.must(d.Credit(t.Context(), "support", d.id, 500, "sorry"))
		d.pass(31*day, day)
		list, err := d.Invoices(t.Context(), d.id, 1)
		d.must(err)
		if list[0].AmountCents != 2000 || len(list[0].Issued.Lines) != 2 || list[0].Issued.Lines[0].Cents != 2500 || list[0].Issued.Lines[1].Cents != -500 {
			t.Fatalf("the renewal is %+v with the lines %+v", list[0], list[0].Issued.Lines)
		}
		if diff := cmp.Diff(tt.want, list[0].Issued.Tax); diff != "" {
			t.Errorf("the tax of a customer in %s: -want +got\n%s", tt.country, diff)
		}
	}
}

func TestCountries(t *testing.T) {
	t.Parallel()
	list := billing.Countries()
	if len(list) != 249 {
		t.Errorf("%d countries, want the 249 of ISO 3166-1", len(list))
	}
	seen := map[string]bool{}
	for _, c := range list {
		if len(c.Code) != 2 || c.Name == "" || seen[c.Code] || billing.CountryName(c.Code) != c.Name {
			t.Errorf("%+v is no country, or occurs twice; its name is %q", c, billing.CountryName(c.Code))
		}
		seen[c.Code] = true
	}
	for _, code := range []string{"", "X", "XX", "de", "\nA", "An"} {
		if name := billing.CountryName(code); name != "" {
			t.Errorf("CountryName(%q) = %q, want none", code, name)
		}
	}
}
