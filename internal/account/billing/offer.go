package billing

import (
	"context"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// offerLasts is how long a customer who was shown an amount is charged exactly that amount,
// although the period gets shorter meanwhile.
const offerLasts = 15 * time.Minute

// Offer is the exact cost of a change to a paid plan, if the customer confirms it within offerLasts.
type Offer struct {
	Plan        account.Plan
	PriceCents  int64     // a month, from the next period on
	AmountCents int64     // now
	At          time.Time // when the offer was made, to the second: the current plan is paid up to here
	PeriodEnd   time.Time // what AmountCents pays for ends here
	// First says that this is a new subscription, with a period of its own, and not an upgrade.
	First bool

	// For people: of an upgrade, what the amount is made of. RestCents pays the new plan for the rest of the period,
	// UnusedCents is what was paid of the current one for that time, and their difference is the amount, unless it is
	// waived. They are not part of what is confirmed.
	From                   account.Plan
	FromCents              int64 // a month
	PeriodStart            time.Time
	RestCents, UnusedCents int64
	Waived                 bool
}

// Quote returns what the plan would cost the account now: the whole price if there is no
// subscription, otherwise the prorated difference for the rest of the period.
func (m *Billing) Quote(ctx context.Context, ref string, plan account.Plan) (Offer, error) {
	b, err := m.read(ctx, ref)
	if err != nil {
		return Offer{}, err
	}
	return b.quote(plan, m.plans(), b.now, m.least)
}

// quote returns the offer as it was at a time. An amount below least cents, which the processor
// cannot charge, is waived.
func (b *Record) quote(plan account.Plan, plans account.Plans, at time.Time, least int64) (Offer, error) {
	if plan <= account.Free {
		return Offer{}, fault.New(fault.Invalid, "%s is not a paid plan", plan).At("plan")
	}
	o := Offer{Plan: plan, PriceCents: plans[plan].PriceCents, At: at}
	if b.Plan == account.None {
		if b.Account.Plan >= plan {
			return Offer{}, fault.New(fault.Conflict, "the account has the %s plan already; to downgrade, choose a lower plan on the Plan page", b.Account.Plan.Title())
		}
		o.First, o.AmountCents, o.PeriodEnd = true, o.PriceCents, boundary(at, 1)
		return o, nil
	}
	switch {
	case plan <= b.Plan:
		return Offer{}, fault.New(fault.Conflict, "the account is on the %s plan; to downgrade, choose a lower plan on the Plan page", b.Plan.Title())
	case b.Status() == PastDue:
		return Offer{}, fault.New(fault.Conflict, "the last renewal is unpaid; pay it first")
	case at.Before(b.PeriodStart) || !at.Before(b.PeriodEnd):
		return Offer{}, fault.New(fault.Conflict, "the period is being renewed; try again in a minute")
	}
	o.PeriodEnd = b.PeriodEnd
	if more := o.PriceCents - b.PriceCents; more > 0 {
		o.AmountCents = prorated(more, at, b.PeriodStart, b.PeriodEnd)
	}
	// Rounded once, so that the lines add up to what is charged.
	o.From, o.FromCents, o.PeriodStart = b.Plan, b.PriceCents, b.PeriodStart
	o.UnusedCents = prorated(b.PriceCents, at, b.PeriodStart, b.PeriodEnd)
	o.RestCents = o.UnusedCents + o.AmountCents
	if o.AmountCents < least {
		o.Waived, o.AmountCents = o.AmountCents > 0, 0
	}
	return o, nil
}

// holds checks that an offer which a customer confirms was made a moment ago. It computes the offer
// again, so nothing that the browser sent back is trusted.
func (b *Record) holds(o Offer, plans account.Plans, least int64) error {
	again, err := b.quote(o.Plan, plans, o.At.UTC(), least)
	if err != nil {
		return err
	}
	if age := b.now.Sub(o.At); age < 0 || age > offerLasts || again.AmountCents != o.AmountCents {
		return fault.New(fault.Conflict, "the amount has changed since it was shown; look at the new one and confirm again")
	}
	return nil
}
