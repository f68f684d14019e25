package billing

import (
	"time"

	"sluice/internal/account"
)

// Seller is who sells the plans, as invoices name them. Each field may be empty; Address may have several lines.
type Seller struct {
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	TaxID   string `json:"tax_id,omitempty"`
	Taxes   []Tax  `json:"-"` // of the first that fits a customer, invoices show the tax
}

// Tax is a tax that prices include for some customers.
type Tax struct {
	Country   string // two letters; empty: any, and customers who have named none
	WithTaxID bool   // only customers who have a tax id
	Name      string // such as VAT
	Rate      int64  // in thousandths of a percent
	Note      string // a sentence for the invoice; may be empty
}

// fits reports whether the tax is for a customer.
func (t *Tax) fits(d Details) bool {
	return (t.Country == "" || t.Country == d.Country) && (!t.WithTaxID || d.TaxID != "")
}

// Issued is what an invoice says. It is written down when the payment is made and never changes: not when the customer
// or the operator moves, and not when a rate changes.
type Issued struct {
	Seller   Seller    `json:"seller"`
	Customer Details   `json:"customer"`
	Account  string    `json:"account"` // the address of the account
	Lines    []Line    `json:"lines"`   // with the tax; they add up to what was charged
	Tax      *TaxShare `json:"tax,omitempty"`
	Test     bool      `json:"test,omitempty"` // no real money moved
}

// Line is one line of an invoice.
type Line struct {
	Text  string    `json:"text"`
	Start time.Time `json:"start,omitzero"` // of the time that it is for; zero: none
	End   time.Time `json:"end,omitzero"`
	Cents int64     `json:"cents"`
}

// TaxShare is the tax in the amount of an invoice.
type TaxShare struct {
	Name  string `json:"name"`
	Rate  int64  `json:"rate"` // in thousandths of a percent
	Cents int64  `json:"cents"`
	Note  string `json:"note,omitempty"`
}

// share returns the tax in an amount, or nil if no tax fits the customer. It is rounded once, half up, so that net and tax
// add up to the amount.
func (s *Seller) share(d Details, cents int64) *TaxShare {
	for i := range s.Taxes {
		if t := &s.Taxes[i]; t.fits(d) {
			whole := 100_000 + t.Rate
			return &TaxShare{Name: t.Name, Rate: t.Rate, Cents: (2*cents*t.Rate + whole) / (2 * whole), Note: t.Note}
		}
	}
	return nil
}

// issue returns what the invoice of Payment says. was is the subscription before the payment was booked.
func (b *Record) issue(was *Subscription) *Issued {
	seller := b.seller
	seller.Taxes = nil // what an invoice says is the one that fits
	return &Issued{
		Seller: seller, Customer: b.Details, Account: b.Account.Email, Test: b.test,
		Lines: b.Payment.lines(was), Tax: b.seller.share(b.Details, b.Payment.AmountCents),
	}
}

// Old returns what the invoice of a payment says that was made before that was written down, as far as it is still known.
func (p *Payment) Old(s Seller, d Details, email string, test bool) *Issued {
	return &Issued{Seller: s, Customer: d, Account: email, Lines: p.lines(&Subscription{}), Test: test}
}

// lines returns what a payment was for, line by line. was is the subscription before.
func (p *Payment) lines(was *Subscription) []Line {
	plan := planTitle(p.Plan)
	if p.Kind == ForUpgrade {
		if was.Plan == account.None || !was.PeriodEnd.Equal(p.PeriodEnd) {
			return []Line{{"Upgrade to the " + plan + " plan, for the rest of the period", p.PeriodStart, p.PeriodEnd, p.AmountCents}}
		}
		unused := prorated(was.PriceCents, p.PeriodStart, was.PeriodStart, was.PeriodEnd)
		return []Line{
			{plan + " plan, for the rest of the period", p.PeriodStart, p.PeriodEnd, p.AmountCents + unused},
			{planTitle(was.Plan) + " plan, paid before and not used", p.PeriodStart, p.PeriodEnd, -unused},
		}
	}
	list := []Line{{plan + " plan", p.PeriodStart, p.PeriodEnd, p.AmountCents + p.CreditCents}}
	if p.CreditCents > 0 {
		list = append(list, Line{Text: "Credit", Cents: -p.CreditCents})
	}
	return list
}

// planTitle returns the name of a plan as people read it.
func planTitle(p account.Plan) string {
	name := p.String()
	return string(name[0]-'a'+'A') + name[1:]
}
