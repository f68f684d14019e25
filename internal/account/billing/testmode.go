package billing

import (
	"context"

	"sluice/internal/kit/fault"
)

// TestCard is a card of a processor that moves no money.
type TestCard struct {
	Number string
	Does   string // what happens when it is used
}

// TestProcessor is a processor that moves no money. Its forms are pages of ours, and the clocks of
// its accounts can be moved; see Advance.
type TestProcessor interface {
	Processor
	// TestCards returns the cards that there are.
	TestCards() []TestCard
	// Pay pays an open payment with a card, and reports whether the customer must Confirm first.
	Pay(ctx context.Context, paymentID, number string) (confirm bool, err error)
	// Confirm accepts or refuses a payment that waits for it.
	Confirm(ctx context.Context, paymentID string, yes bool) error
	// Confirming reports whether a payment waits for Confirm.
	Confirming(ctx context.Context, paymentID string) (bool, error)
	// SetCard saves another card. It returns fault.Invalid if the card is declined.
	SetCard(ctx context.Context, accountID, number string) error
}

// Test reports whether no real money moves. Pages say so.
func (m *Billing) Test() bool { return m.tester() != nil }

// tester returns the test processor in use; nil outside test mode.
func (m *Billing) tester() TestProcessor {
	t, _ := m.inUse().(TestProcessor)
	return t
}

// TestCards returns the cards that the form of the test checkout offers; nil outside test mode.
func (m *Billing) TestCards() []TestCard {
	if t := m.tester(); t != nil {
		return t.TestCards()
	}
	return nil
}

// TestPayment returns the account's payment that the test checkout is about. confirm reports
// whether it waits for ConfirmTest rather than for PayTest.
func (m *Billing) TestPayment(ctx context.Context, accountID, paymentID string) (p *Payment, confirm bool, err error) {
	t, p, err := m.findTestPayment(ctx, accountID, paymentID)
	if err != nil || !p.Open() {
		return p, false, err
	}
	confirm, err = t.Confirming(ctx, paymentID)
	return p, confirm, err
}

// PayTest is the form of the test checkout: it pays the account's payment with a card, and returns
// it as it then is. It is pending where the card was declined, so that another can be tried, and
// where the customer must confirm.
func (m *Billing) PayTest(ctx context.Context, accountID, paymentID, number string) (p *Payment, confirm bool, err error) {
	t, _, err := m.findTestPayment(ctx, accountID, paymentID)
	if err != nil {
		return nil, false, err
	}
	if confirm, err = t.Pay(ctx, paymentID, number); err != nil {
		return nil, false, err
	}
	p, err = m.Settle(ctx, accountID, paymentID)
	return p, confirm, err
}

// ConfirmTest is the second form, for a card that asks for confirmation.
func (m *Billing) ConfirmTest(ctx context.Context, accountID, paymentID string, yes bool) (*Payment, error) {
	t, _, err := m.findTestPayment(ctx, accountID, paymentID)
	if err != nil {
		return nil, err
	}
	if err := t.Confirm(ctx, paymentID, yes); err != nil {
		return nil, err
	}
	return m.Settle(ctx, accountID, paymentID)
}

// SetTestCard handles the form of the page that Portal leads to in test mode.
func (m *Billing) SetTestCard(ctx context.Context, accountID, number string) (Method, error) {
	t := m.tester()
	if t == nil {
		return Method{}, errNotTest()
	}
	if err := t.SetCard(ctx, accountID, number); err != nil {
		return Method{}, err
	}
	return m.RefreshMethod(ctx, accountID)
}

// findTestPayment returns the test processor and a payment of the account. Outside test mode it
// returns fault.NotFound.
func (m *Billing) findTestPayment(ctx context.Context, accountID, paymentID string) (TestProcessor, *Payment, error) {
	t := m.tester()
	if t == nil {
		return nil, nil, errNotTest()
	}
	p, err := m.payment(ctx, accountID, paymentID)
	return t, p, err
}

func errNotTest() error {
	return fault.New(fault.NotFound, "This is for test mode only.")
}
