package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pdf"
	"sluice/internal/ledger/receipt"
	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// invoicePath returns the address of an invoice as a file.
func invoicePath(number int64) string {
	return home + "/plan/invoices/" + invoiceNumber(number) + ".pdf"
}

// invoiceNumber returns the number as invoices show it.
func invoiceNumber(number int64) string { return fmt.Sprintf("%06d", number) }

// invoiceFile serves an invoice as a PDF file. The customer's details are those of now: whoever fills them in later gets
// them on earlier invoices, too.
func (d *Dashboard) invoiceFile(w http.ResponseWriter, r *http.Request, v *visitor) error {
	text, ok := strings.CutSuffix(r.PathValue("file"), ".pdf")
	number, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || number <= 0 {
		return fault.New(fault.NotFound, "There is no such invoice.")
	}
	p, err := d.Billing.Invoice(r.Context(), v.ID, number)
	if err != nil {
		return err
	}
	details, err := d.Billing.Details(r.Context(), v.ID)
	if err != nil {
		return err
	}
	// The root is that of the last month that was over when it was paid, so it does not change any more.
	root, err := d.Receipts.Root(r.Context(), v.ID, receipt.MonthOf(usage.MonthOf(p.PaidAt).AddDate(0, -1, 0)), p.PaidAt)
	if err != nil {
		return err
	}
	file := invoice(p, details, v.Email, d.ui.Settings(), root, d.Billing.Test())
	w.Header().Set("Content-Type", "application/pdf")
	w.Header().Set("Content-Disposition", `attachment; filename="invoice-`+invoiceNumber(number)+`.pdf"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(file)))
	_, _ = w.Write(file) // an error means that the browser left
	return nil
}

// invoice returns an invoice as a file: who it is from and to, what was paid for, from what, and what was returned, and
// the root of the receipts of the month before, if there are any.
func invoice(p *billing.Payment, to billing.Details, email string, from webui.Settings, root receipt.Month, test bool) []byte {
	const left, right, middle = 56, pdf.Width - 56, 320
	page := &pdf.Page{}
	page.Text(left, 76, 22, true, "Invoice")
	seller := from.Site.Seller
	page.Right(right, 76, 12, true, cmp.Or(seller.Name, from.Site.Name, from.Brand))
	y := 94.0
	sender := strings.Split(seller.Address, "\n")
	if seller.TaxID != "" {
		sender = append(sender, "Tax ID: "+seller.TaxID)
	}
	for _, line := range append(sender, from.Origin, from.Support.Email) {
		if line != "" {
			page.Right(right, y, 9, false, line)
			y += 13
		}
	}

	// A long address of the seller moves what follows down.
	head := max(132, y+12)
	page.Text(left, head, 9, true, "Billed to")
	y = head + 15
	lines := append([]string{to.Name}, strings.Split(to.Address, "\n")...)
	if to.TaxID != "" {
		lines = append(lines, "Tax ID: "+to.TaxID)
	}
	for _, line := range append(lines, email) {
		if line != "" {
			page.Text(left, y, 10, false, line)
			y += 14
		}
	}
	facts := head + 15
	for _, fact := range [][2]string{
		{"Invoice number", invoiceNumber(p.Invoice)}, {"Paid on", webui.Date(p.PaidAt)}, {"Payment", p.ID},
	} {
		page.Text(middle, facts, 10, true, fact[0])
		page.Right(right, facts, 10, false, fact[1])
		facts += 14
	}

	y = max(y, facts) + 30
	page.Text(left, y, 9, true, "Description")
	page.Right(right, y, 9, true, "Amount")
	page.Rule(left, right, y+6)
	y += 24
	row := func(text, amount string) {
		page.Text(left, y, 10, false, text)
		page.Right(right, y, 10, false, amount)
		y += 16
	}
	row(paymentText(p)+" plan, "+webui.Date(p.PeriodStart)+" – "+webui.Date(p.PeriodEnd), webui.Cents(p.AmountCents+p.CreditCents))
	if p.Kind == billing.ForUpgrade {
		page.Text(left, y, 9, false, "The difference to the plan before, for the rest of the billing period.")
		y += 16
	}
	if p.CreditCents > 0 {
		row("Paid from your credit", "-"+webui.Cents(p.CreditCents))
	}
	page.Rule(left, right, y)
	y += 18
	page.Text(left, y, 11, true, "Total, paid")
	page.Right(right, y, 11, true, webui.Cents(p.AmountCents)+" USD")
	if p.RefundedCents > 0 {
		y += 20
		row("Refunded since", "-"+webui.Cents(p.RefundedCents))
	}
	if root.Receipts > 0 {
		y += 34
		page.Text(left, y, 9, false, fmt.Sprintf("Root of the %d receipts of calls in %s (SHA-256):", root.Receipts, root.Month))
		page.Text(left, y+13, 9, false, root.Root)
	}
	if test {
		page.Text(left, y+40, 10, true, "Test mode: no money was charged.")
	}
	return page.Bytes("Invoice " + invoiceNumber(p.Invoice))
}

// saveDetails stores what the customer wants on invoices.
func (d *Dashboard) saveDetails(w http.ResponseWriter, r *http.Request, v *visitor) error {
	details := billing.Details{Name: r.FormValue("name"), Address: r.FormValue("address"), TaxID: r.FormValue("tax_id"), Email: r.FormValue("email")}
	if err := d.Billing.SetDetails(r.Context(), v.ID, details); err != nil {
		view := planView{Details: details, Typed: true}
		return again(err, &view.Problems, func(status int) error {
			return d.showPlan(w, r, v, status, view)
		}, "name", "address", "tax_id", "email")
	}
	return d.seeOther(w, r, home+"/plan#details-title", "details-saved")
}
