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

// invoiceFile serves an invoice as a PDF file. It says what was written down when it was paid. Of an older one that is not
// known, so it has the customer's details of now.
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
	if p.Issued == nil {
		details, err := d.Billing.Details(r.Context(), v.ID)
		if err != nil {
			return err
		}
		p.Issued = p.Old(d.ui.Settings().Site.Seller, details, v.Email, d.Billing.Test())
	}
	// The root is that of the last month that was over when it was paid, so it does not change any more.
	root, err := d.Receipts.Root(r.Context(), v.ID, receipt.MonthOf(usage.MonthOf(p.PaidAt).AddDate(0, -1, 0)), p.PaidAt)
	if err != nil {
		return err
	}
	file := invoice(p, d.ui.Settings(), root)
	w.Header().Set("Content-Type", "application/pdf")
	w.Header().Set("Content-Disposition", `attachment; filename="invoice-`+invoiceNumber(number)+`.pdf"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(file)))
	_, _ = w.Write(file) // an error means that the browser left
	return nil
}

// The measures of an invoice, in points.
const (
	invoiceLeft   = 56
	invoiceRight  = pdf.Width - 56
	invoiceMiddle = 312 // where the second column begins
	invoiceGrey   = pdf.Grey(0.42)
)

// invoice returns an invoice as a file: who it is from and to, what was paid for, the tax in it, what was returned since,
// and the root of the receipts of the month before, if there are any. now are the settings of the service, for its name
// and how to reach it.
func invoice(p *billing.Payment, now webui.Settings, root receipt.Month) []byte {
	page, said := &pdf.Page{}, p.Issued
	seller := cmp.Or(said.Seller.Name, now.Site.Name, now.Brand)
	page.Fill(0, 0, pdf.Width, 8, 0.1)
	page.Text(invoiceLeft, 72, 24, true, "Invoice")
	for i, line := range pdf.Wrap(seller, 13, true, 260) {
		page.Right(invoiceRight, 68+float64(i)*16, 13, true, line)
	}

	y := 104.0
	for _, fact := range [][2]string{
		{"Invoice number", invoiceNumber(p.Invoice)}, {"Issued and paid on", webui.Date(p.PaidAt)}, {"Payment", p.ID},
	} {
		page.Ink(invoiceGrey)
		page.Text(invoiceLeft, y, 9, false, fact[0])
		page.Ink(0)
		page.Text(invoiceLeft+104, y, 9, false, fact[1])
		y += 14
	}

	from := parties(page, invoiceLeft, y+24, "From", seller, said.Seller.Address, taxLine(said.Seller.TaxID))
	to := parties(page, invoiceMiddle, y+24, "Billed to", said.Customer.Name, said.Customer.Address, billing.CountryName(said.Customer.Country), taxLine(said.Customer.TaxID), said.Account)
	y = max(from, to)

	y += 30
	page.Text(invoiceLeft, y, 16, true, webui.Cents(p.AmountCents)+" USD paid on "+p.PaidAt.UTC().Format("2 January 2006"))
	y += 34
	page.Ink(invoiceGrey)
	page.Text(invoiceLeft, y, 9, false, "Description")
	page.Right(invoiceRight, y, 9, false, "Amount")
	page.Ink(0)
	page.Rule(invoiceLeft, invoiceRight, y+7)
	y += 26
	for _, line := range said.Lines {
		page.Text(invoiceLeft, y, 10, false, line.Text)
		page.Right(invoiceRight, y, 10, false, signed(line.Cents))
		if !line.Start.IsZero() {
			page.Ink(invoiceGrey)
			page.Text(invoiceLeft, y+13, 9, false, webui.Date(line.Start)+" – "+webui.Date(line.End))
			page.Ink(0)
			y += 13
		}
		page.Rule(invoiceLeft, invoiceRight, y+9)
		y += 26
	}
	y = totals(page, y, p)
	if said.Tax != nil && said.Tax.Note != "" {
		for _, line := range pdf.Wrap(said.Tax.Note, 9, false, invoiceRight-invoiceLeft) {
			page.Text(invoiceLeft, y, 9, false, line)
			y += 13
		}
		y += 10
	}
	if said.Test {
		page.Fill(invoiceLeft, y, invoiceRight-invoiceLeft, 26, 0.94)
		page.Text(invoiceLeft+10, y+17, 10, true, "Test mode: no money was charged.")
	}
	page.Ink(invoiceGrey)
	if root.Receipts > 0 {
		page.Text(invoiceLeft, 772, 8, false, fmt.Sprintf("Root of the %d receipts of calls in %s (SHA-256):", root.Receipts, root.Month))
		page.Text(invoiceLeft, 784, 8, false, root.Root)
	}
	page.Text(invoiceLeft, 806, 8, false, "All amounts are in US dollars.")
	page.Right(invoiceRight, 806, 8, false, strings.Trim(now.Support.Email+" · "+now.Origin, " ·"))
	return page.Bytes("Invoice " + invoiceNumber(p.Invoice))
}

// parties writes one side of an invoice: a name and what follows it. It returns where it ends.
func parties(page *pdf.Page, x, y float64, title, name string, rest ...string) float64 {
	const wide = invoiceMiddle - invoiceLeft - 24
	page.Ink(invoiceGrey)
	page.Text(x, y, 9, false, title)
	page.Ink(0)
	y += 16
	for _, line := range pdf.Wrap(name, 10, true, wide) {
		page.Text(x, y, 10, true, line)
		y += 14
	}
	for _, text := range rest {
		for paragraph := range strings.Lines(text) {
			for _, line := range pdf.Wrap(paragraph, 10, false, wide) {
				page.Text(x, y, 10, false, line)
				y += 14
			}
		}
	}
	return y
}

// totals writes the sums of an invoice, and returns where they end.
func totals(page *pdf.Page, y float64, p *billing.Payment) float64 {
	row := func(name, amount string, bold bool) {
		page.Text(invoiceMiddle, y, 10, bold, name)
		page.Right(invoiceRight-10, y, 10, bold, amount)
		y += 18
	}
	if t := p.Issued.Tax; t != nil {
		net := p.AmountCents - t.Cents
		row("Net", webui.Cents(net), false)
		row(t.Name+" "+percent(t.Rate)+" on "+webui.Cents(net), webui.Cents(t.Cents), false)
	}
	page.Fill(invoiceMiddle-10, y-13, invoiceRight-invoiceMiddle+10, 22, 0.94)
	row("Total paid", webui.Cents(p.AmountCents)+" USD", true)
	if p.RefundedCents > 0 {
		y += 6
		row("Refunded since", signed(-p.RefundedCents), false)
	}
	return y + 16
}

// taxLine names a tax id; "" if there is none.
func taxLine(id string) string {
	if id == "" {
		return ""
	}
	return "Tax ID: " + id
}

// signed writes an amount that may be negative.
func signed(cents int64) string {
	if cents < 0 {
		return "−" + webui.Cents(-cents)
	}
	return webui.Cents(cents)
}

// percent writes thousandths of a percent, such as 8.1%.
func percent(rate int64) string { return webui.Thousandths(rate) + "%" }
