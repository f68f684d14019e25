package billing

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// Details is what a customer wants on invoices. Every field may be empty.
type Details struct {
	Name    string `json:"name,omitempty"`    // of a person or a company
	Address string `json:"address,omitempty"` // lines
	Country string `json:"country,omitempty"` // two letters, see Countries
	TaxID   string `json:"tax_id,omitempty"`
	Email   string `json:"email,omitempty"` // where copies of invoices go, beside the account's own address
}

// How long the fields may be, in characters, and how many lines an address may have: an invoice has room for so much.
const (
	maxDetail       = 120
	maxAddress      = 400
	maxAddressLines = 6
)

// DetailsStore keeps what customers want on invoices.
type DetailsStore interface {
	// BillingDetails returns the details of an account; zero: there are none.
	BillingDetails(ctx context.Context, accountID string) (Details, error)
	// SetBillingDetails replaces them.
	SetBillingDetails(ctx context.Context, accountID string, d Details) error
}

// Details returns what the customer wants on invoices.
func (m *Billing) Details(ctx context.Context, accountID string) (Details, error) {
	return m.store.BillingDetails(ctx, accountID)
}

// SetDetails replaces what the customer wants on invoices.
func (m *Billing) SetDetails(ctx context.Context, accountID string, d Details) error {
	d, err := d.check()
	if err != nil {
		return err
	}
	return m.store.SetBillingDetails(ctx, accountID, d)
}

// check returns the details in the form in which they are stored, or a fault for each field that is wrong.
func (d Details) check() (Details, error) {
	var wrong []error
	d.Name, d.TaxID, d.Email = strings.TrimSpace(d.Name), strings.TrimSpace(d.TaxID), strings.TrimSpace(d.Email)
	for field, text := range map[string]string{"name": d.Name, "tax_id": d.TaxID} {
		if utf8.RuneCountInString(text) > maxDetail || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			wrong = append(wrong, fault.New(fault.Invalid, "use at most %d characters, on one line", maxDetail).At(field))
		}
	}
	var lines []string
	for line := range strings.Lines(d.Address) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	d.Address = strings.Join(lines, "\n")
	if utf8.RuneCountInString(d.Address) > maxAddress || len(lines) > maxAddressLines {
		wrong = append(wrong, fault.New(fault.Invalid, "an address has at most %d lines and %d characters", maxAddressLines, maxAddress).At("address"))
	}
	if d.Country != "" && CountryName(d.Country) == "" {
		wrong = append(wrong, fault.New(fault.Invalid, "choose a country from the list").At("country"))
	}
	if d.Email != "" {
		email, err := account.ParseEmail(d.Email)
		if err != nil {
			wrong = append(wrong, err)
		}
		d.Email = email
	}
	return d, errors.Join(wrong...)
}

// Invoice returns the paid payment with an invoice number of the account, or fault.NotFound.
func (m *Billing) Invoice(ctx context.Context, accountID string, number int64) (*Payment, error) {
	list, err := m.Invoices(ctx, accountID, maxInvoices)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Invoice == number {
			return &list[i], nil
		}
	}
	return nil, fault.New(fault.NotFound, "There is no invoice with this number.")
}

// maxInvoices is more than an account ever has: one a month for many lifetimes.
const maxInvoices = 10_000
