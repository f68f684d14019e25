package app

import (
	"context"

	"sluice/internal/account"
	"sluice/internal/billing"
	"sluice/internal/billing/stripe"
	"sluice/internal/billing/testpay"
	"sluice/internal/config"
)

// The pages where customers pay with test cards, and to which they return from another processor.
const (
	planPage     = "/dashboard/plan"
	testCheckout = planPage + "/pay"
	testCard     = planPage + "/card"
)

// openBilling opens what sells the plans. Customers are told what becomes of their payments.
func (a *App) openBilling(_ context.Context, cfg *config.Config) error {
	a.billing, a.stripe = newBilling(cfg, a.facts, a.Origin(), billing.Options{
		Plans: func() account.Plans { return a.settings.Load().Plans }, OnEntry: a.letters.Payment, Log: a.log,
		// The test card is withdrawn when a request from elsewhere arrives, or public_url is set by a reload.
		Withdrawn: func() bool {
			return cfg.Billing.Processor == "" && a.settings.Load().Config.PaymentProcessor(a.local.Holds()) != "testpay"
		},
	})
	return nil
}

// newBilling makes billing with the configured processor. The second result is nil unless that is Stripe.
func newBilling(cfg *config.Config, f *facts, origin string, opts billing.Options) (*billing.Billing, *stripe.Processor) {
	opts.OnChange = f.changed
	switch cfg.PaymentProcessor(true) {
	case "testpay":
		opts.Processor = testpay.New(f.store, testCheckout, testCard)
	case "stripe":
		p := stripe.New(cfg.Billing.SecretKey.Reveal(), cfg.Billing.WebhookSecret.Reveal(), origin+planPage, &stripe.Options{URL: cfg.Billing.APIURL})
		opts.Processor, opts.LeastCents = p, stripe.LeastCents
		return billing.New(f.store, &opts), p
	}
	return billing.New(f.store, &opts), nil
}
