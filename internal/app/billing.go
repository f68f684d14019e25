package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"sluice/internal/account"
	"sluice/internal/billing"
	"sluice/internal/billing/stripe"
	"sluice/internal/billing/testpay"
	"sluice/internal/config"
	"sluice/internal/datadir"
	"sluice/internal/notice"
)

// Where customers pay with test cards, and where they come back to from elsewhere.
const (
	planPage     = "/dashboard/plan"
	testCheckout = planPage + "/pay"
	testCard     = planPage + "/card"
)

// openBilling sells the plans, and tells customers what becomes of their payments.
func (a *App) openBilling(cfg *config.Config) {
	a.billing, a.stripe = newBilling(cfg, a.facts, a.Origin(), billing.Options{
		Plans: func() account.Plans { return a.settings.Load().plans }, OnEntry: a.tellPayment, Log: a.log,
		// The test card is withdrawn when a request from elsewhere arrives, or public_url is set by a reload.
		Withdrawn: func() bool {
			return cfg.Billing.Processor == "" && a.settings.Load().config.PaymentProcessor(a.local.Holds()) != "testpay"
		},
	})
}

// newBilling makes billing with the configured processor. The second result is nil unless that is
// Stripe.
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

// offlineBilling is billing for a command, where no server runs.
func offlineBilling(cfg *config.Config, f *facts, plans account.Plans) *billing.Billing {
	b, _ := newBilling(cfg, f, cfg.Origin(), billing.Options{
		Plans: func() account.Plans { return plans }, Log: slog.New(slog.DiscardHandler),
		Withdrawn: func() bool { return cfg.Billing.Processor == "" && datadir.Proxied(f.dir.Path()) != "" },
	})
	return b
}

// addWebhook puts the processor's route beside the pages.
func (a *App) addWebhook(pages map[string]http.Handler) map[string]http.Handler {
	if a.stripe != nil {
		pages[stripe.WebhookPath] = a.stripe.Webhook(a.billing.Receive, a.log)
	}
	return pages
}

// tellPayment tells a customer of a renewal that failed and is retried, and of a plan that has ended:
// after the last retry, or because a payment is disputed. Support finds disputes in the log and the ledger.
func (a *App) tellPayment(ctx context.Context, acct *account.Account, e billing.Entry) {
	switch e.What {
	case billing.RenewalFailed:
		a.tell(ctx, acct.ID, notice.Payment, "Your payment failed", fmt.Sprintf(
			"The renewal of your %s plan could not be charged: %s It is tried again within a few days, and your plan stays active until then. Pay now, or change your payment method, at %s",
			e.Plan, e.Detail, a.Origin()+planPage))
	case billing.Disputed:
		a.log.Warn("a payment is disputed", "account", acct.ID, "payment", e.PaymentID, "cents", -e.AmountCents)
	case billing.Revoked:
		a.tell(ctx, acct.ID, notice.Payment, fmt.Sprintf("Your %s plan has ended", e.Plan),
			"Your bank has taken back a payment for it. Your keys and your history are kept, and free-tier models remain usable. If you did not ask your bank for this, contact support. Subscribe again at "+a.Origin()+planPage)
	case billing.Lapsed:
		a.tell(ctx, acct.ID, notice.Payment, fmt.Sprintf("Your %s plan has ended", e.Plan),
			"The renewal could not be charged: "+e.Detail+" Your keys and your history are kept, and free-tier models remain usable. Subscribe again at "+a.Origin()+planPage)
	}
}
