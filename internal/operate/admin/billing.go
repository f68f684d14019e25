package admin

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
)

// Billing is the state of an account's billing. Amounts are in cents. Period and due date are
// nil without a subscription.
type Billing struct {
	ID          string         `json:"id"`
	Email       string         `json:"email"`
	Plan        string         `json:"plan"`
	Granted     bool           `json:"granted"`
	Status      billing.Status `json:"status"`
	PriceCents  int64          `json:"price_cents,omitempty"`
	NextPlan    string         `json:"next_plan,omitempty"`
	PeriodStart *time.Time     `json:"period_start,omitempty"`
	PeriodEnd   *time.Time     `json:"period_end,omitempty"`
	CancelAtEnd bool           `json:"cancel_at_end,omitempty"`
	Failed      int            `json:"failed_tries,omitempty"`
	Due         *time.Time     `json:"due,omitempty"`
	Method      string         `json:"payment_method,omitempty"`
	// Stopped is not nil if nothing is charged until staff has looked at the account.
	Stopped *billing.Stopped `json:"stopped,omitempty"`
	// Now is the account's clock, which test mode can move.
	Now     time.Time `json:"now"`
	Balance int64     `json:"charged_cents"`
	// CreditCents is what the next renewals are lowered by.
	CreditCents int64           `json:"credit_cents,omitempty"`
	Ledger      []billing.Entry `json:"ledger"`
	Invoices    []BillingRecord `json:"invoices"`
}

// BillingRecord is a paid invoice.
type BillingRecord struct {
	Invoice     int64        `json:"invoice"`
	Payment     string       `json:"payment"`
	Kind        billing.Kind `json:"kind"`
	Plan        string       `json:"plan"`
	Cents       int64        `json:"cents"`
	Refunded    int64        `json:"refunded_cents"`
	PaidAt      time.Time    `json:"paid_at"`
	PeriodStart time.Time    `json:"period_start"`
	PeriodEnd   time.Time    `json:"period_end"`
}

// Move is the argument of billing.advance.
type Move struct {
	Actor string    `json:"actor"`
	Ref   string    `json:"ref"`
	To    time.Time `json:"to"`
}

// RefundOrder is the argument of billing.refund.
type RefundOrder struct {
	Actor   string `json:"actor"`
	Payment string `json:"payment"`
	Cents   int64  `json:"cents"`
	// Reason and Version are those of Target.
	Reason  string `json:"reason,omitempty"`
	Version int64  `json:"version,omitempty"`
}

// mostEntries limits the ledger and the invoices in one reply.
const mostEntries = 10_000

func (b *Backend) billingShow(ctx context.Context, in Target) (Billing, error) {
	v, err := b.Billing.Show(ctx, in.Ref)
	return b.billingView(ctx, v, err)
}

// billingAdvance moves an account's clock, in test mode only.
func (b *Backend) billingAdvance(ctx context.Context, in Move) (Billing, error) {
	v, err := b.Billing.Advance(ctx, in.Actor, in.Ref, in.To)
	return b.billingView(ctx, v, err)
}

// billingDowngrade sets the plan for the next period.
func (b *Backend) billingDowngrade(ctx context.Context, in Target) (Billing, error) {
	plan, err := parsePlan(in.Plan)
	if err != nil {
		return Billing{}, err
	}
	a, err := b.order(ctx, in, "billing.downgrade", plan.String())
	if err != nil {
		return Billing{}, err
	}
	if err := b.Billing.Downgrade(ctx, in.Actor, a.ID, plan); err != nil {
		return Billing{}, err
	}
	out, err := b.billingShow(ctx, Target{Ref: a.ID})
	if err == nil && out.PeriodEnd != nil {
		b.tell(ctx, a.ID, fmt.Sprintf("Your plan changes to %s", plan.Title()), "Support has changed your plan to %s, starting on %s. Until then you keep the %s plan.", plan.Title(), out.PeriodEnd.Format("2 January 2006"), a.Plan.Title())
	}
	return out, err
}

// billingRefund refunds a payment. The payment names the account.
func (b *Backend) billingRefund(ctx context.Context, in RefundOrder) (Billing, error) {
	p, err := b.Billing.FindPayment(ctx, in.Payment)
	if err != nil {
		return Billing{}, err
	}
	order := Target{Actor: in.Actor, Ref: p.AccountID, Reason: in.Reason, Version: in.Version}
	if _, err := b.order(ctx, order, "billing.refund", p.ID+", "+billing.Dollars(in.Cents)); err != nil {
		return Billing{}, err
	}
	if p, err = b.Billing.Refund(ctx, in.Actor, in.Payment, in.Cents); err != nil {
		return Billing{}, err
	}
	b.tell(ctx, p.AccountID, "A payment was refunded", "Support has refunded %s of your payment of %s. The money will be returned to your payment method within a few days.", billing.Dollars(in.Cents), billing.Dollars(p.AmountCents))
	return b.billingShow(ctx, Target{Ref: p.AccountID})
}

// billingStops lists the accounts whose billing is stopped.
func (b *Backend) billingStops(ctx context.Context, in Cursor) (List[billing.Stopped], error) {
	all, err := b.Billing.Stops(ctx)
	return part(all, in, func(s billing.Stopped) string { return s.AccountID }), err
}

// billingRelease lets payments of an account be made again.
func (b *Backend) billingRelease(ctx context.Context, in Target) (Billing, error) {
	if _, err := b.order(ctx, in, "billing.release", ""); err != nil {
		return Billing{}, err
	}
	if _, err := b.Billing.Release(ctx, in.Actor, in.Ref); err != nil {
		return Billing{}, err
	}
	return b.billingShow(ctx, in)
}

// accountTerminate ends the subscription and suspends the account permanently.
func (b *Backend) accountTerminate(ctx context.Context, in Target) (Account, error) {
	// Terminating has a reason of its own, so only what the socket does not ask for is noted beside it.
	if callerOf(ctx) != nil || in.Version != 0 {
		if _, err := b.order(ctx, in, "account.terminate_ordered", ""); err != nil {
			return Account{}, err
		}
	}
	return b.viewOf(b.Billing.Terminate(ctx, in.Actor, in.Ref, in.Reason))
}

// billingView converts an account's billing and adds its ledger and invoices.
func (b *Backend) billingView(ctx context.Context, v billing.View, err error) (Billing, error) {
	if err != nil {
		return Billing{}, err
	}
	return b.billingWith(ctx, v, mostEntries)
}

// billingWith converts an account's billing and adds at most limit entries of its ledger, and as many invoices.
func (b *Backend) billingWith(ctx context.Context, v billing.View, limit int) (Billing, error) {
	out := Billing{
		ID: v.Account.ID, Email: v.Account.Email, Plan: v.Account.Plan.String(), Granted: v.Account.Granted, Status: v.Status(),
		Method: v.Method.String(), Now: v.Now, CreditCents: v.CreditCents,
	}
	if v.Status() != billing.NotSubscribed {
		out.PriceCents, out.PeriodStart, out.PeriodEnd, out.Due = v.PriceCents, &v.PeriodStart, &v.PeriodEnd, &v.Due
		out.CancelAtEnd, out.Failed = v.CancelAtEnd, v.Failed
		if v.NextPlan != account.None {
			out.NextPlan = v.NextPlan.String()
		}
	}
	if v.Stop != nil {
		out.Stopped = &billing.Stopped{AccountID: v.Account.ID, Email: v.Account.Email, Stop: *v.Stop}
	}
	entries, err := b.Billing.Ledger(ctx, v.Account.ID, limit)
	if err != nil {
		return Billing{}, err
	}
	out.Ledger = some(entries)
	if out.Balance, err = b.Billing.Charged(ctx, v.Account.ID); err != nil {
		return Billing{}, err
	}
	invoices, err := b.Billing.Invoices(ctx, v.Account.ID, limit)
	out.Invoices = views(invoices, recordView)
	return out, err
}

// recordView converts a paid payment.
func recordView(p *billing.Payment) BillingRecord {
	return BillingRecord{p.Invoice, p.ID, p.Kind, p.Plan.String(), p.AmountCents, p.RefundedCents, p.PaidAt, p.PeriodStart, p.PeriodEnd}
}
