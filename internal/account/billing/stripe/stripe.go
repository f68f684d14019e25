// Package stripe lets Stripe move the money: Checkout for customers who are present, charges of the
// saved payment method for those who are not, and the customer portal to change it.
//
// It stores nothing. A payment carries our id in its metadata and in its idempotency key, and every
// question is answered from Stripe's current state; webhooks only say when to ask. Package billing
// decides when something is due.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	stripe "github.com/stripe/stripe-go/v86"

	"sluice/internal/account/billing"
)

// LeastCents is the smallest amount in dollars that Stripe charges. Package billing waives what is
// less.
const LeastCents = 50

// FormTargets returns where forms on pages lead to by redirects. Browsers refuse to follow them unless the policy of the
// page names these origins.
func FormTargets() []string {
	return []string{"https://checkout.stripe.com", "https://billing.stripe.com", "https://invoice.stripe.com"}
}

// paymentKey and accountKey name our ids in Stripe's metadata. Objects of earlier payments carry them,
// so the names must never change.
const (
	paymentKey = "sluice_payment"
	accountKey = "sluice_account"
)

// timeout bounds one request to Stripe. It is below billing's own, so that Stripe's error is the one
// that is reported.
const timeout = 30 * time.Second

// Options are the choices of New; the zero value is the default.
type Options struct {
	// URL is the address of Stripe's API. Default https://api.stripe.com. Tests point it at a fake.
	URL string
}

// Processor implements billing.Processor. It has no state of its own, so any number of nodes may use
// the same Stripe account. Its methods may be called from several goroutines.
//
// The Ref of a payment is the id of a Checkout Session (cs_…) while the customer may still pay on its
// page, and of a PaymentIntent (pi_…) once there is one that decides the payment.
type Processor struct {
	api       *stripe.Client
	returnURL func() string // where Stripe's pages send customers back to
	secret    string        // the key that Stripe signs webhooks with
}

// New returns a processor for the Stripe account of a secret key. Stripe signs that account's webhooks
// with webhookSecret. Customers come back to the address that returnURL returns then, with the
// id of the payment as the parameter "payment". opts may be nil.
func New(secretKey, webhookSecret string, returnURL func() string, opts *Options) *Processor {
	if opts == nil {
		opts = &Options{}
	}
	cfg := &stripe.BackendConfig{
		HTTPClient:      &http.Client{Timeout: timeout},
		LeveledLogger:   &stripe.LeveledLogger{Level: stripe.LevelNull}, // what matters is in the errors
		EnableTelemetry: stripe.Bool(false),
		// Package billing retries with the same idempotency key. It knows when a retry makes sense, and
		// it must learn of every failure.
		MaxNetworkRetries: stripe.Int64(0),
	}
	if opts.URL != "" {
		cfg.URL = stripe.String(opts.URL)
	}
	backends := stripe.NewBackendsWithConfig(cfg)
	return &Processor{api: stripe.NewClient(secretKey, stripe.WithBackends(backends)), returnURL: returnURL, secret: webhookSecret}
}

// Name implements billing.Processor.
func (*Processor) Name() string { return "stripe" }

// Begin implements billing.Processor. Every request that it makes has an idempotency key made of our
// ids, so repeating it makes neither a second customer nor a second charge. The Outcome carries the
// customer's id even when the payment fails, so that the next payment uses the same customer.
func (p *Processor) Begin(ctx context.Context, c billing.Customer, pay billing.Payment) (billing.Outcome, error) {
	customer, err := p.customer(ctx, c)
	if err != nil {
		return billing.Outcome{}, err
	}
	var o billing.Outcome
	if pay.Present {
		o, err = p.openCheckout(ctx, customer, pay)
	} else {
		o, err = p.charge(ctx, customer, pay)
	}
	o.Customer = customer
	return o, err
}

// customer returns Stripe's id of the customer, and creates the customer if there is none. Two nodes
// that create it at the same time send the same idempotency key and get the same customer.
func (p *Processor) customer(ctx context.Context, c billing.Customer) (string, error) {
	if c.Ref != "" {
		return c.Ref, nil
	}
	params := &stripe.CustomerCreateParams{Email: stripe.String(c.Email), Metadata: map[string]string{accountKey: c.AccountID}}
	params.SetIdempotencyKey("customer-" + c.AccountID)
	made, err := p.api.V1Customers.Create(ctx, params)
	if err != nil {
		return "", reduced(err)
	}
	return made.ID, nil
}

// openCheckout opens a page where the customer pays and agrees that the card is saved for renewals
// (off_session). The session and its PaymentIntent both carry our id, since either may be the first
// that an event names. The customer comes back to the same address whether they paid or gave up: the
// page asks for the outcome and does not trust the redirect.
func (p *Processor) openCheckout(ctx context.Context, customer string, pay billing.Payment) (billing.Outcome, error) {
	back := p.returnURL() + "?payment=" + pay.ID
	ours := map[string]string{paymentKey: pay.ID}
	params := &stripe.CheckoutSessionCreateParams{
		Mode: stripe.String(string(stripe.CheckoutSessionModePayment)), Customer: stripe.String(customer),
		PaymentMethodTypes: stripe.StringSlice([]string{"card"}), // some other methods report their outcome days later
		SuccessURL:         stripe.String(back), CancelURL: stripe.String(back), Metadata: ours,
		PaymentIntentData: &stripe.CheckoutSessionCreatePaymentIntentDataParams{
			Metadata: ours, Description: stripe.String(description(pay)), SetupFutureUsage: stripe.String("off_session"),
		},
		LineItems: []*stripe.CheckoutSessionCreateLineItemParams{{
			Quantity: stripe.Int64(1),
			PriceData: &stripe.CheckoutSessionCreateLineItemPriceDataParams{
				Currency: stripe.String(string(stripe.CurrencyUSD)), UnitAmount: stripe.Int64(pay.AmountCents),
				ProductData: &stripe.CheckoutSessionCreateLineItemPriceDataProductDataParams{Name: stripe.String(description(pay))},
			},
		}},
	}
	params.SetIdempotencyKey(pay.ID)
	s, err := p.api.V1CheckoutSessions.Create(ctx, params)
	if err != nil {
		return refusal(err)
	}
	return billing.Outcome{Status: billing.Pending, Ref: s.ID, URL: s.URL}, nil
}

// charge charges the saved payment method. Stripe forgets idempotency keys after a day, so charge
// first looks for a PaymentIntent that an earlier call has made; otherwise a retry after an outage
// could charge twice.
func (p *Processor) charge(ctx context.Context, customer string, pay billing.Payment) (billing.Outcome, error) {
	list := &stripe.PaymentIntentListParams{
		Customer: stripe.String(customer),
		// The hour allows for clocks that differ: ours made CreatedAt, Stripe's made the intent.
		CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: pay.CreatedAt.Add(-time.Hour).Unix()},
	}
	for pi, err := range p.api.V1PaymentIntents.List(ctx, list).All(ctx) {
		if err != nil {
			return billing.Outcome{}, reduced(err)
		}
		if pi.Metadata[paymentKey] == pay.ID {
			return p.intentOutcome(ctx, pi.ID, pay)
		}
	}
	method, err := p.defaultMethod(ctx, customer)
	if err != nil {
		return billing.Outcome{}, err
	}
	// A customer who removed the card in Stripe's portal. It is an outcome, not an error: billing tells
	// them.
	if method == nil {
		return billing.Outcome{Status: billing.Failed, Reason: "There is no saved payment method."}, nil
	}
	params := &stripe.PaymentIntentCreateParams{
		Amount: stripe.Int64(pay.AmountCents), Currency: stripe.String(string(stripe.CurrencyUSD)),
		Customer: stripe.String(customer), PaymentMethod: stripe.String(method.ID), PaymentMethodTypes: stripe.StringSlice([]string{"card"}),
		OffSession: stripe.Bool(true), Confirm: stripe.Bool(true),
		Description: stripe.String(description(pay)), Metadata: map[string]string{paymentKey: pay.ID},
	}
	params.SetIdempotencyKey(pay.ID)
	pi, err := p.api.V1PaymentIntents.Create(ctx, params)
	if err != nil {
		return refusal(err)
	}
	return p.intentOutcome(ctx, pi.ID, pay)
}

// Outcome implements billing.Processor. It always asks Stripe and never relies on what an event said.
// An open payment that Stripe does not know has failed; a payment that has ended keeps its state, and
// a missing object is an error.
func (p *Processor) Outcome(ctx context.Context, pay billing.Payment) (billing.Outcome, error) {
	ref, err := p.page(ctx, pay)
	if err != nil {
		return billing.Outcome{}, err
	}
	if !isPage(ref) {
		return p.intentOutcome(ctx, ref, pay)
	}
	s, err := p.api.V1CheckoutSessions.Retrieve(ctx, ref, nil)
	if pay.Open() && isMissing(err) {
		return billing.Outcome{Status: billing.Failed, Reason: errUnknown}, nil
	}
	if err != nil {
		return billing.Outcome{}, reduced(err)
	}
	if s.Metadata[paymentKey] != pay.ID {
		return billing.Outcome{}, fmt.Errorf("checkout %s does not belong to payment %s", ref, pay.ID)
	}
	switch {
	case s.Status == stripe.CheckoutSessionStatusExpired:
		return billing.Outcome{Status: billing.Failed, Ref: s.ID}, nil
	case s.PaymentStatus == stripe.CheckoutSessionPaymentStatusPaid && s.PaymentIntent != nil:
		return p.intentOutcome(ctx, s.PaymentIntent.ID, pay)
	}
	return billing.Outcome{Status: billing.Pending, Ref: s.ID, URL: s.URL}, nil
}

// page returns the id of the Checkout Session of a payment that a customer makes on a page, and the
// payment's own Ref otherwise. If the answer that opened the page was lost, the Ref is that of the
// first event: the PaymentIntent of one attempt. Such an intent says nothing about further
// attempts, and Stripe refuses to cancel it; only its session can be asked and closed.
func (p *Processor) page(ctx context.Context, pay billing.Payment) (string, error) {
	if isPage(pay.Ref) || !pay.Present || !pay.Open() {
		return pay.Ref, nil
	}
	list := &stripe.CheckoutSessionListParams{PaymentIntent: stripe.String(pay.Ref)}
	for s, err := range p.api.V1CheckoutSessions.List(ctx, list).All(ctx) {
		if err != nil {
			return "", reduced(err)
		}
		return s.ID, nil // an intent has one session
	}
	return pay.Ref, nil
}

// isPage reports whether ref is the id of a Checkout Session.
func isPage(ref string) bool { return strings.HasPrefix(ref, "cs_") }

// errUnknown is the reason of a payment that Stripe does not know, because it was begun with
// another Stripe account. If that account is configured again and the payment turns out to be paid,
// billing refunds it.
const errUnknown = "The payment processor does not know this payment."

// isMissing reports whether Stripe has no such object.
func isMissing(err error) bool {
	e, ok := errors.AsType[*stripe.Error](err)
	return ok && e.HTTPStatusCode == http.StatusNotFound
}

// intentOutcome returns the outcome of a payment from its PaymentIntent. If it has just been paid on a
// page, its card becomes the one for renewals.
//
// It refuses an intent whose metadata name another payment: a wrong Ref must not mark a payment as
// paid that somebody else made.
func (p *Processor) intentOutcome(ctx context.Context, id string, pay billing.Payment) (billing.Outcome, error) {
	params := &stripe.PaymentIntentRetrieveParams{}
	params.AddExpand("payment_method")
	params.AddExpand("latest_charge")
	pi, err := p.api.V1PaymentIntents.Retrieve(ctx, id, params)
	if pay.Open() && isMissing(err) {
		return billing.Outcome{Status: billing.Failed, Reason: errUnknown}, nil
	}
	if err != nil {
		return billing.Outcome{}, reduced(err)
	}
	if pi.Metadata[paymentKey] != pay.ID {
		return billing.Outcome{}, fmt.Errorf("payment intent %s does not belong to payment %s", id, pay.ID)
	}
	o := billing.Outcome{Status: billing.Pending, Ref: pi.ID}
	switch pi.Status {
	case stripe.PaymentIntentStatusSucceeded:
		o.Status, o.Method = billing.Paid, describe(pi.PaymentMethod)
		if c := pi.LatestCharge; c != nil {
			o.RefundedCents = c.AmountRefunded
			if c.Disputed {
				if err := p.addDisputes(ctx, pi.ID, &o); err != nil {
					return billing.Outcome{}, err
				}
			}
		}
		if pay.Open() && pay.Present {
			if err := p.makeDefault(ctx, pi); err != nil {
				return billing.Outcome{}, err
			}
		}
	// A canceled intent can never be paid, so this is final.
	case stripe.PaymentIntentStatusCanceled:
		o.Status = billing.Failed
	case stripe.PaymentIntentStatusRequiresPaymentMethod, stripe.PaymentIntentStatusRequiresAction, stripe.PaymentIntentStatusRequiresConfirmation:
		if !pay.Present { // on a page the customer can try again
			o.Status, o.Reason = billing.Failed, "The payment was declined."
			if e := pi.LastPaymentError; e != nil {
				o.Reason, o.Confirm = e.Msg, e.Code == stripe.ErrorCodeAuthenticationRequired
			}
		}
	}
	return o, nil
}

// addDisputes adds the disputes of a PaymentIntent to o. Stripe takes the money when a dispute is
// opened and returns it when the dispute is won. Inquiries (warning_…) and prevented disputes move
// no money.
//
// DisputeSteps only grows: an open dispute counts one step, a closed one two. Billing can therefore
// tell an older report from a newer one.
func (p *Processor) addDisputes(ctx context.Context, intent string, o *billing.Outcome) error {
	list := &stripe.DisputeListParams{PaymentIntent: stripe.String(intent)}
	for d, err := range p.api.V1Disputes.List(ctx, list).All(ctx) {
		if err != nil {
			return reduced(err)
		}
		switch d.Status {
		case stripe.DisputeStatusNeedsResponse, stripe.DisputeStatusUnderReview:
			o.DisputeSteps++
			o.DisputedCents += d.Amount
		case stripe.DisputeStatusLost:
			o.DisputeSteps += 2
			o.DisputedCents += d.Amount
		case stripe.DisputeStatusWon:
			o.DisputeSteps += 2
		}
	}
	return nil
}

// makeDefault sets the payment method that renewals are charged to. It may be repeated. An intent
// without a customer or a method is left alone.
func (p *Processor) makeDefault(ctx context.Context, pi *stripe.PaymentIntent) error {
	if pi.Customer == nil || pi.PaymentMethod == nil {
		return nil
	}
	_, err := p.api.V1Customers.Update(ctx, pi.Customer.ID, &stripe.CustomerUpdateParams{
		InvoiceSettings: &stripe.CustomerUpdateInvoiceSettingsParams{DefaultPaymentMethod: stripe.String(pi.PaymentMethod.ID)},
	})
	return reduced(err)
}

// Cancel implements billing.Processor. Canceling and paying may race, so it reports what Stripe says
// afterwards and not that the cancellation worked.
func (p *Processor) Cancel(ctx context.Context, pay billing.Payment) (billing.Outcome, error) {
	ref, err := p.page(ctx, pay)
	if err != nil {
		return billing.Outcome{}, err
	}
	pay.Ref = ref
	if isPage(ref) {
		_, err = p.api.V1CheckoutSessions.Expire(ctx, ref, nil)
	} else {
		_, err = p.api.V1PaymentIntents.Cancel(ctx, ref, nil)
	}
	if e, ok := errors.AsType[*stripe.Error](err); err != nil && !(ok && e.Type == stripe.ErrorTypeInvalidRequest) {
		return billing.Outcome{}, reduced(err)
	}
	return p.Outcome(ctx, pay) // Stripe calls the request invalid when the payment has ended already
}

// Refund implements billing.Processor. It compares what was refunded so far with the total that is
// wanted, so a retry refunds nothing twice. The idempotency key contains the total for the same reason:
// two nodes that refund at once make one refund.
func (p *Processor) Refund(ctx context.Context, pay billing.Payment) (billing.Outcome, error) {
	o, err := p.intentOutcome(ctx, pay.Ref, pay)
	missing := pay.RefundToCents - o.RefundedCents
	if err != nil || missing <= 0 || o.DisputedCents > 0 { // Stripe refuses to refund what is disputed
		return o, err
	}
	params := &stripe.RefundCreateParams{PaymentIntent: stripe.String(pay.Ref), Amount: stripe.Int64(missing), Metadata: map[string]string{paymentKey: pay.ID}}
	params.SetIdempotencyKey(fmt.Sprintf("%s-refund-%d", pay.ID, pay.RefundToCents))
	if _, err := p.api.V1Refunds.Create(ctx, params); err != nil {
		return billing.Outcome{}, reduced(err)
	}
	return p.intentOutcome(ctx, pay.Ref, pay)
}

// Portal implements billing.Processor. The page only lets the customer replace the payment method:
// plans are changed on our own pages.
func (p *Processor) Portal(ctx context.Context, c billing.Customer) (page, ref string, err error) {
	customer, err := p.customer(ctx, c)
	if err != nil {
		return "", "", err
	}
	s, err := p.api.V1BillingPortalSessions.Create(ctx, &stripe.BillingPortalSessionCreateParams{
		Customer: stripe.String(customer), ReturnURL: stripe.String(p.returnURL()),
		FlowData: &stripe.BillingPortalSessionCreateFlowDataParams{Type: stripe.String(string(stripe.BillingPortalSessionFlowTypePaymentMethodUpdate))},
	})
	if err != nil {
		return "", "", reduced(err)
	}
	return s.URL, customer, nil
}

// Method implements billing.Processor.
func (p *Processor) Method(ctx context.Context, c billing.Customer) (billing.Method, error) {
	method, err := p.defaultMethod(ctx, c.Ref)
	return describe(method), err
}

// defaultMethod returns the payment method that renewals are charged to, or nil if the customer has
// none or was deleted in Stripe's dashboard.
func (p *Processor) defaultMethod(ctx context.Context, customer string) (*stripe.PaymentMethod, error) {
	params := &stripe.CustomerRetrieveParams{}
	params.AddExpand("invoice_settings.default_payment_method")
	c, err := p.api.V1Customers.Retrieve(ctx, customer, params)
	if err != nil {
		return nil, reduced(err)
	}
	if c.Deleted || c.InvoiceSettings == nil {
		return nil, nil
	}
	return c.InvoiceSettings.DefaultPaymentMethod, nil
}

// describe returns a payment method as billing shows it; the zero Method if m is nil or not a card.
// Expires is month and year, such as 04/29.
func describe(m *stripe.PaymentMethod) billing.Method {
	if m == nil || m.Card == nil {
		return billing.Method{}
	}
	return billing.Method{Brand: string(m.Card.Brand), LastFour: m.Card.Last4, Expires: fmt.Sprintf("%02d/%02d", m.Card.ExpMonth, m.Card.ExpYear%100)}
}

// description returns what the customer reads on Stripe's pages and receipts, such as "Basic plan,
// 2027-03-01 to 2027-04-01".
func description(pay billing.Payment) string {
	name := pay.Plan.String()
	return fmt.Sprintf("%s plan, %s to %s", strings.ToUpper(name[:1])+name[1:], pay.PeriodStart.Format(time.DateOnly), pay.PeriodEnd.Format(time.DateOnly))
}

// refusal separates a payment that Stripe refused, which is an outcome, from an error that leaves
// the outcome unknown. Billing retries the latter with the same id; an error that is taken for a
// refusal would end a payment that may have been charged.
func refusal(err error) (billing.Outcome, error) {
	e, ok := errors.AsType[*stripe.Error](err)
	if !ok {
		return billing.Outcome{}, err
	}
	o := billing.Outcome{Status: billing.Failed, Reason: "The payment could not be made with the saved payment method."}
	switch e.Type {
	case stripe.ErrorTypeCard:
		o.Reason, o.Confirm = e.Msg, e.Code == stripe.ErrorCodeAuthenticationRequired
		if e.PaymentIntent != nil {
			o.Ref = e.PaymentIntent.ID
		}
		return o, nil
	case stripe.ErrorTypeInvalidRequest:
		if e.HTTPStatusCode == http.StatusBadRequest || e.HTTPStatusCode == http.StatusNotFound {
			return o, nil
		}
	}
	return billing.Outcome{}, reduced(err)
}

// reduced returns Stripe's error without what it repeats of the request, so that nothing about a
// customer is logged.
func reduced(err error) error {
	if e, ok := errors.AsType[*stripe.Error](err); ok {
		return fmt.Errorf("stripe: %d %s %s %s (request %s)", e.HTTPStatusCode, e.Type, e.Code, e.Msg, e.RequestID)
	}
	return err
}
