package app

import (
	"context"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/billing/stripe"
	"sluice/internal/account/billing/testpay"
	"sluice/internal/app/config"
	"sluice/internal/web/dashboard"
)

// openBilling opens billing. Letters tell customers what becomes of their payments.
func (a *App) openBilling(_ context.Context, cfg *config.Config) error {
	a.billing, a.stripe = newBilling(cfg, a.facts, a.Origin, billing.Options{
		Plans: a.plans, Seller: a.seller, OnEntry: func(ctx context.Context, acct *account.Account, e billing.Entry) {
			a.letters.Entry(ctx, acct, e, a.billing.Details)
		}, Log: a.log,
		Withdrawn: func() bool { return cfg.WithdrawsTestCard(a.settings.Load().Config, a.local.Holds()) },
	})
	return nil
}

// newBilling returns billing with the configured payment processor. Offline commands use it, too.
// The second result is nil unless the processor is Stripe.
func newBilling(cfg *config.Config, f *facts, origin func() string, opts billing.Options) (*billing.Billing, *stripe.Processor) {
	// Billing changes plans in transactions of its own, so it publishes accounts as package account
	// does.
	opts.OnChange = f.changed
	// As if only this machine sent requests: Withdrawn takes the test card away when that ends.
	switch cfg.PaymentProcessor(true) {
	case "testpay":
		opts.Processor = testpay.New(f.stores.payments, dashboard.CheckoutPath, dashboard.CardPath)
	case "stripe":
		p := stripe.New(cfg.Billing.SecretKey.Reveal(), cfg.Billing.WebhookSecret.Reveal(), func() string { return origin() + dashboard.PlanPath }, &stripe.Options{URL: cfg.Billing.APIURL})
		opts.Processor, opts.LeastCents = p, stripe.LeastCents
		return billing.New(f.stores.payments, &opts), p
	}
	return billing.New(f.stores.payments, &opts), nil
}
