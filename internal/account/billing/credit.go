package billing

import (
	"context"

	"sluice/internal/kit/fault"
)

// maxCredit bounds what an account can be credited with, in cents: more is a typing mistake.
const maxCredit = 1_000_000

// Credit adds cents to what the next renewals are lowered by. A negative amount takes back what is not used yet. Only
// support calls it.
func (m *Billing) Credit(ctx context.Context, actor, ref string, cents int64, why string) error {
	_, err := m.change(ctx, actor, ref, "", func(b *Record) error {
		if after := b.CreditCents + cents; cents == 0 || after < 0 || after > maxCredit {
			return fault.New(fault.Invalid, "the account has a credit of %s; it can be changed to an amount between $0.00 and %s", Dollars(b.CreditCents), Dollars(maxCredit)).At("cents")
		}
		b.CreditCents += cents
		b.note(Credited, b.Account.Plan, "%s, %s in all: %s", Dollars(cents), Dollars(b.CreditCents), why).PaymentID = ""
		return nil
	})
	return err
}

// FindPayment returns a payment by its id, or fault.NotFound.
func (m *Billing) FindPayment(ctx context.Context, id string) (*Payment, error) {
	return m.store.Payment(ctx, id)
}

// useCredit returns how much of a price the credit pays. What is left to charge is nothing, or at least the amount that
// the processor can charge.
func (b *Record) useCredit(price, least int64) int64 {
	use := min(b.CreditCents, price)
	if rest := price - use; rest > 0 && rest < least {
		use = max(0, price-least)
	}
	return use
}

// returnCredit gives the credit of Payment back, because the payment has not led to anything.
func (b *Record) returnCredit() {
	if p := b.Payment; p.CreditCents > 0 {
		b.CreditCents += p.CreditCents
		p.CreditCents = 0
	}
}
