// Package testpay is the built-in payment processor. It moves no money: it is for trying out the
// service and for tests.
//
// It behaves like a real processor on another machine. It keeps customers and charges of its own in
// a store that survives restarts, and knows a payment by the id it was begun with. The number of a
// card decides what the card does. The pages where a card is typed in belong to the dashboard.
package testpay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
)

// Store keeps the processor's objects.
type Store interface {
	// ChangeTestObject locks an object and stores what change returns. body is nil if there is no
	// such object yet. If change returns an error, nothing is stored.
	ChangeTestObject(ctx context.Context, id string, change func(body []byte) ([]byte, error)) error
}

// card is how a card behaves.
type card struct {
	number string
	does   string

	declines        bool // always
	declinesRenewal bool // when the customer is not there
	confirms        bool // the customer must confirm each payment
}

// cards are all cards that exist. Any other number is declined. Stripe's test mode uses the same
// numbers, so whoever moves to Stripe can keep theirs.
var cards = [...]card{
	{number: "4242424242424242", does: "accepts every payment"},
	{number: "4000000000000002", does: "declines every payment", declines: true},
	{number: "4000000000000341", does: "accepts the first payment and declines renewals", declinesRenewal: true},
	{number: "4000002500003155", does: "asks for confirmation", confirms: true},
}

const (
	expiry = "12/99" // of every card

	errDeclined    = "The card was declined."
	errUnconfirmed = "The payment was not confirmed."
	errMustConfirm = "The card asks for your confirmation."
	errNoCard      = "There is no saved card."
)

// Processor implements billing.TestProcessor.
type Processor struct {
	store             Store
	checkout, cardURL string
}

// New returns a processor over a store. Customers pay at checkout, where the id of the payment is the
// parameter "payment", and save another card at cardURL.
func New(store Store, checkout, cardURL string) *Processor {
	return &Processor{store: store, checkout: checkout, cardURL: cardURL}
}

// customer is what is stored of a customer.
type customer struct {
	Card string `json:"card"` // its number
}

// confirming is the state of a charge that waits for the customer's confirmation. Billing sees it
// as Pending.
const confirming = billing.PaymentStatus("confirming")

// charge is what is stored of a payment.
type charge struct {
	Customer      string                `json:"customer"`
	AmountCents   int64                 `json:"amount_cents"`
	Status        billing.PaymentStatus `json:"status"`
	Reason        string                `json:"reason,omitempty"`
	Confirm       bool                  `json:"confirm,omitempty"`
	Card          string                `json:"card,omitempty"`
	RefundedCents int64                 `json:"refunded_cents,omitempty"`
}

// open reports whether the charge can still be paid.
func (c *charge) open() bool { return c.Status == billing.Pending || c.Status == confirming }

// Name implements billing.Processor.
func (*Processor) Name() string { return "testpay" }

// Begin implements billing.Processor.
func (p *Processor) Begin(ctx context.Context, who billing.Customer, pay billing.Payment) (billing.Outcome, error) {
	var saved customer
	if err := p.change(ctx, customerID(who.AccountID), &saved, func(bool) error { return nil }); err != nil {
		return billing.Outcome{}, err
	}
	var c charge
	err := p.change(ctx, chargeID(pay.ID), &c, func(known bool) error {
		if known {
			return nil
		}
		c = charge{Customer: customerID(who.AccountID), AmountCents: pay.AmountCents, Status: billing.Pending}
		if !pay.Present {
			c.take(saved.Card, pay.Kind == billing.ForRenewal)
		}
		return nil
	})
	return p.outcomeOf(pay.ID, &c), err
}

// take charges a saved card, without the customer.
func (c *charge) take(number string, renewal bool) {
	card, known := cardOf(number)
	c.Card, c.Status = number, billing.Failed
	switch {
	case number == "":
		c.Reason = errNoCard
	case !known || card.declines || card.declinesRenewal && renewal:
		c.Reason = errDeclined
	case card.confirms && !renewal: // renewals were agreed to with the first payment
		c.Reason, c.Confirm = errMustConfirm, true
	default:
		c.Status = billing.Paid
	}
}

// Outcome implements billing.Processor.
func (p *Processor) Outcome(ctx context.Context, pay billing.Payment) (billing.Outcome, error) {
	return p.onCharge(ctx, pay.ID, func(*charge) {})
}

// Cancel implements billing.Processor.
func (p *Processor) Cancel(ctx context.Context, pay billing.Payment) (billing.Outcome, error) {
	return p.onCharge(ctx, pay.ID, func(c *charge) {
		if c.open() {
			c.Status = billing.Failed
		}
	})
}

// Refund implements billing.Processor.
func (p *Processor) Refund(ctx context.Context, pay billing.Payment) (billing.Outcome, error) {
	return p.onCharge(ctx, pay.ID, func(c *charge) {
		if c.Status == billing.Paid {
			c.RefundedCents = max(c.RefundedCents, min(pay.RefundToCents, c.AmountCents))
		}
	})
}

// Portal implements billing.Processor.
func (p *Processor) Portal(_ context.Context, who billing.Customer) (page, ref string, err error) {
	return p.cardURL, customerID(who.AccountID), nil
}

// Method implements billing.Processor.
func (p *Processor) Method(ctx context.Context, who billing.Customer) (billing.Method, error) {
	var saved customer
	err := p.change(ctx, customerID(who.AccountID), &saved, func(bool) error { return nil })
	return methodOf(saved.Card), err
}

// TestCards implements billing.TestProcessor.
func (*Processor) TestCards() []billing.TestCard {
	list := make([]billing.TestCard, 0, len(cards))
	for _, c := range cards {
		list = append(list, billing.TestCard{Number: c.number, Does: c.does})
	}
	return list
}

// Pay implements billing.TestProcessor. A card that is good is saved for renewals.
func (p *Processor) Pay(ctx context.Context, paymentID, number string) (confirm bool, err error) {
	card, known := cardOf(strings.ReplaceAll(number, " ", ""))
	var owner string
	_, err = p.onCharge(ctx, paymentID, func(c *charge) {
		switch {
		case !c.open():
			return
		case !known || card.declines:
			c.Status, c.Reason = billing.Pending, errDeclined // another one can be tried
			return
		case card.confirms:
			c.Status, confirm = confirming, true
		default:
			c.Status = billing.Paid
		}
		c.Card, c.Reason, owner = card.number, "", c.Customer
	})
	if err == nil && owner != "" {
		err = p.save(ctx, owner, card.number)
	}
	return confirm, err
}

// Confirm implements billing.TestProcessor.
func (p *Processor) Confirm(ctx context.Context, paymentID string, yes bool) error {
	_, err := p.onCharge(ctx, paymentID, func(c *charge) {
		switch {
		case c.Status != confirming:
		case yes:
			c.Status = billing.Paid
		default:
			c.Status, c.Reason = billing.Pending, errUnconfirmed
		}
	})
	return err
}

// Confirming implements billing.TestProcessor.
func (p *Processor) Confirming(ctx context.Context, paymentID string) (waits bool, err error) {
	_, err = p.onCharge(ctx, paymentID, func(c *charge) { waits = c.Status == confirming })
	return waits, err
}

// SetCard implements billing.TestProcessor.
func (p *Processor) SetCard(ctx context.Context, accountID, number string) error {
	card, known := cardOf(strings.ReplaceAll(number, " ", ""))
	if !known || card.declines {
		return fault.New(fault.Invalid, errDeclined).At("number")
	}
	return p.save(ctx, customerID(accountID), card.number)
}

// save makes a card the one that a customer's renewals are charged to.
func (p *Processor) save(ctx context.Context, customerID, number string) error {
	var saved customer
	return p.change(ctx, customerID, &saved, func(bool) error {
		saved.Card = number
		return nil
	})
}

// onCharge runs work on the charge of a payment, stores it, and returns its outcome.
func (p *Processor) onCharge(ctx context.Context, paymentID string, work func(*charge)) (billing.Outcome, error) {
	var c charge
	err := p.change(ctx, chargeID(paymentID), &c, func(known bool) error {
		if !known {
			return fault.New(fault.NotFound, "there is no such test payment")
		}
		work(&c)
		return nil
	})
	return p.outcomeOf(paymentID, &c), err
}

// outcomeOf returns a charge in billing's terms.
func (p *Processor) outcomeOf(paymentID string, c *charge) billing.Outcome {
	o := billing.Outcome{
		Status: c.Status, Ref: chargeID(paymentID), Reason: c.Reason, Confirm: c.Confirm,
		Customer: c.Customer, RefundedCents: c.RefundedCents,
	}
	switch {
	case c.open():
		o.Status, o.URL = billing.Pending, p.checkout+"?payment="+url.QueryEscape(paymentID)
	case c.Status == billing.Paid:
		o.Method = methodOf(c.Card)
	}
	return o
}

// change runs one transaction on an object, which is stored as JSON. It decodes the object into the
// pointer object before it calls work; known reports whether the object was there.
func (p *Processor) change(ctx context.Context, id string, object any, work func(known bool) error) error {
	return p.store.ChangeTestObject(ctx, id, func(body []byte) ([]byte, error) {
		if body != nil {
			if err := json.Unmarshal(body, object); err != nil {
				return nil, fmt.Errorf("read test object %s: %w", id, err)
			}
		}
		if err := work(body != nil); err != nil {
			return nil, err
		}
		return json.Marshal(object)
	})
}

func chargeID(paymentID string) string { return "testch_" + paymentID }

func customerID(accountID string) string { return "testcus_" + accountID }

// cardOf returns the card with a number, and whether there is one.
func cardOf(number string) (card, bool) {
	for _, c := range cards {
		if c.number == number {
			return c, true
		}
	}
	return card{}, false
}

// methodOf returns a card as billing shows it; the zero Method if there is no such card.
func methodOf(number string) billing.Method {
	c, known := cardOf(number)
	if !known {
		return billing.Method{}
	}
	return billing.Method{Brand: "visa", LastFour: c.number[len(c.number)-4:], Expires: expiry}
}
