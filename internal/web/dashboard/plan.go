package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/web/webui"
)

// invoicesShown limits the list of invoices. 100 monthly invoices are more than eight years;
// the export has all of them.
const invoicesShown = 100

// planView is the data of the plan and billing page.
type planView struct {
	billing.View
	Plans    account.Plans
	Invoices []billing.Payment
	// Present is the plan that the page names as the customer's; see shownPlan.
	Present account.Plan
	// Sells reports whether paid plans are for sale.
	Sells bool
	// Test reports whether the processor is the test one, which moves no real money.
	Test    bool
	Message string
	// Details are what the customer wants on invoices; Typed: as they were typed.
	Details  billing.Details
	Typed    bool
	Problems problems
}

// planPage shows the page. With a payment in the query, the customer comes back from the payment
// page.
func (d *Dashboard) planPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if id := r.FormValue("payment"); id != "" {
		return d.paymentDone(w, r, v, id)
	}
	return d.showPlan(w, r, v, http.StatusOK, planView{})
}

// showPlan renders the page. The caller sets Message and Problems of the view; showPlan fills
// in the rest.
func (d *Dashboard) showPlan(w http.ResponseWriter, r *http.Request, v *visitor, status int, view planView) error {
	var err error
	if view.View, err = d.Billing.Show(r.Context(), v.ID); err != nil {
		return err
	}
	if view.Invoices, err = d.Billing.Invoices(r.Context(), v.ID, invoicesShown); err != nil {
		return err
	}
	if !view.Typed {
		if view.Details, err = d.Billing.Details(r.Context(), v.ID); err != nil {
			return err
		}
	}
	view.Present = d.shownPlan(view.Account.Plan)
	view.Plans, view.Sells, view.Test = d.Plans(), d.Billing.Sells(), d.Billing.Test()
	return d.ui.Render(w, r, status, planPage(d.frame(w, r, v, "Plan and billing"), view))
}

// planRefused renders the page again with the problem, and keeps the message that was typed.
func (d *Dashboard) planRefused(w http.ResponseWriter, r *http.Request, v *visitor, err error, fields ...string) error {
	view := planView{Message: r.FormValue("message")}
	return again(err, &view.Problems, func(status int) error {
		return d.showPlan(w, r, v, status, view)
	}, fields...)
}

// paymentDone handles the return from the payment page. It asks the processor for the
// payment's state, because the query could be forged and the webhook may arrive later.
func (d *Dashboard) paymentDone(w http.ResponseWriter, r *http.Request, v *visitor, id string) error {
	p, err := d.Billing.Settle(r.Context(), v.ID, id)
	if err != nil {
		return err
	}
	return d.afterPayment(w, r, v, p)
}

// afterPayment shows the outcome of a payment. A payment that is still open shows the page
// with its link.
func (d *Dashboard) afterPayment(w http.ResponseWriter, r *http.Request, v *visitor, p *billing.Payment) error {
	switch {
	case p.Status == billing.Paid && p.Kind == billing.ForUpgrade:
		return d.seeOther(w, r, home+"/plan", "upgraded")
	case p.Status == billing.Paid:
		return d.seeOther(w, r, home+"/plan", "subscribed")
	case p.Status == billing.Failed:
		return d.planRefused(w, r, v, fault.New(fault.PaymentRequired, "%s", p.Reason))
	}
	return d.showPlan(w, r, v, http.StatusOK, planView{})
}

// subscribe starts a subscription. A nil payment means that there was nothing to pay: the Free
// plan.
func (d *Dashboard) subscribe(w http.ResponseWriter, r *http.Request, v *visitor) error {
	plan, err := account.ParsePlan(r.FormValue("plan"))
	if err != nil {
		return d.planRefused(w, r, v, fault.New(fault.Invalid, "%v", err))
	}
	p, err := d.Billing.Subscribe(r.Context(), actor, v.ID, plan)
	if err != nil {
		return d.planRefused(w, r, v, err)
	}
	if p == nil {
		return d.seeOther(w, r, home+"/plan", "subscribed")
	}
	return d.pay(w, r, v, p)
}

// pay redirects the customer to the payment page if the payment is open and has one.
func (d *Dashboard) pay(w http.ResponseWriter, r *http.Request, v *visitor, p *billing.Payment) error {
	if p.Open() && p.URL != "" {
		http.Redirect(w, r, p.URL, http.StatusSeeOther)
		return nil
	}
	return d.afterPayment(w, r, v, p)
}

// upgradeView is the data of the confirmation page of an upgrade, with the exact amount to be
// charged.
type upgradeView struct {
	billing.Offer
	Now     account.Plan
	Method  billing.Method
	Test    bool
	Problem string
}

// showUpgrade asks the customer to confirm an upgrade.
func (d *Dashboard) showUpgrade(w http.ResponseWriter, r *http.Request, v *visitor) error {
	plan, err := account.ParsePlan(r.FormValue("plan"))
	if err != nil {
		return fault.New(fault.NotFound, "There is no such plan.")
	}
	return d.quote(w, r, v, http.StatusOK, plan, "")
}

// quote renders the confirmation page with a fresh offer.
func (d *Dashboard) quote(w http.ResponseWriter, r *http.Request, v *visitor, status int, plan account.Plan, problem string) error {
	// Quote refuses a plan that is not higher than the current one. The plan page then shows
	// the reason.
	offer, err := d.Billing.Quote(r.Context(), v.ID, plan)
	if err != nil {
		return d.planRefused(w, r, v, err)
	}
	shown, err := d.Billing.Show(r.Context(), v.ID)
	if err != nil {
		return err
	}
	view := upgradeView{Offer: offer, Now: d.shownPlan(v.Plan), Method: shown.Method, Test: d.Billing.Test(), Problem: problem}
	return d.ui.Render(w, r, status, upgradePage(d.frame(w, r, v, "Upgrade"), view))
}

// upgrade charges the offer that the customer confirmed. The form carries the amount and the
// time of the offer, so that Billing can refuse if the amount has changed since: nobody pays
// more than the page showed.
func (d *Dashboard) upgrade(w http.ResponseWriter, r *http.Request, v *visitor) error {
	plan, err := account.ParsePlan(r.FormValue("plan"))
	if err != nil {
		return fault.New(fault.NotFound, "There is no such plan.")
	}
	// The hidden fields come from our own page, so a value that cannot be parsed is not the
	// customer's mistake.
	cents, err1 := strconv.ParseInt(r.FormValue("cents"), 10, 64)
	at, err2 := strconv.ParseInt(r.FormValue("at"), 10, 64)
	if err1 != nil || err2 != nil {
		return fault.New(fault.Invalid, "This form is incomplete. Go back and try again.")
	}
	offer := billing.Offer{Plan: plan, AmountCents: cents, At: time.Unix(at, 0).UTC()}
	// The saved payment method is charged unless the customer wants to use another card.
	charge := d.Billing.Upgrade
	if r.FormValue("how") == "card" {
		charge = d.Billing.UpgradeInPerson
	}
	p, err := charge(r.Context(), actor, v.ID, offer)
	// The bank wants the customer to confirm the payment. That needs the payment page.
	if err == nil && p.Status == billing.Failed && p.Confirm {
		p, err = d.Billing.UpgradeInPerson(r.Context(), actor, v.ID, offer)
	}
	if err != nil {
		if fault.Is(err, fault.Internal) || fault.Is(err, fault.Unavailable) {
			return err
		}
		return d.quote(w, r, v, fault.From(err).Kind.Status(), plan, webui.Sentence(fault.From(err).Message))
	}
	if p.Status == billing.Failed {
		return d.quote(w, r, v, http.StatusPaymentRequired, plan, webui.Sentence(p.Reason))
	}
	return d.pay(w, r, v, p)
}

// planForm returns a form of one button, which changes the subscription.
func (d *Dashboard) planForm(flash string, change func(m *billing.Billing, ctx context.Context, actor, ref string) error) page {
	return func(w http.ResponseWriter, r *http.Request, v *visitor) error {
		if err := change(d.Billing, r.Context(), actor, v.ID); err != nil {
			return d.planRefused(w, r, v, err)
		}
		return d.seeOther(w, r, home+"/plan", flash)
	}
}

// payOverdue pays a renewal that failed, without waiting for the next retry.
func (d *Dashboard) payOverdue(w http.ResponseWriter, r *http.Request, v *visitor) error {
	p, err := d.Billing.PayOverdue(r.Context(), actor, v.ID)
	if err != nil {
		return d.planRefused(w, r, v, err)
	}
	return d.pay(w, r, v, p)
}

// changeMethod redirects to the processor's page for the payment method. Card data never
// reaches this server.
func (d *Dashboard) changeMethod(w http.ResponseWriter, r *http.Request, v *visitor) error {
	to, err := d.Billing.Portal(r.Context(), actor, v.ID)
	if err != nil {
		return d.planRefused(w, r, v, err)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// askDowngrade sends a request for a lower plan to support. Customers cannot downgrade by
// themselves.
func (d *Dashboard) askDowngrade(w http.ResponseWriter, r *http.Request, v *visitor) error {
	plan, err := account.ParsePlan(r.FormValue("plan"))
	if err != nil {
		return d.planRefused(w, r, v, fault.New(fault.Invalid, "%v", err).At("message"), "message")
	}
	// The conversation comes before the ledger: it may be refused, because there are too many.
	if err := d.Billing.MayRequestDowngrade(r.Context(), v.ID, plan, r.FormValue("message")); err != nil {
		return d.planRefused(w, r, v, err, "message")
	}
	m, err := d.downgradeTicket(r, v, plan, r.FormValue("message"))
	if err != nil {
		return d.planRefused(w, r, v, err)
	}
	if err := d.Billing.RequestDowngrade(r.Context(), actor, v.ID, plan, r.FormValue("message")); err != nil {
		return d.planRefused(w, r, v, err, "message")
	}
	return d.seeOther(w, r, home+"/messages/"+m.ID, "support-asked")
}

// planAction returns which button the card of plan p has: "present" (the current plan),
// "free", "subscribe", "upgrade", or "" for none. Downgrades have no button: they are a
// request to support.
func planAction(v planView, p account.Plan) string {
	present := v.Present
	switch {
	case p == present:
		return "present"
	case p == account.Free && present == account.None:
		return "free"
	// A lower plan, or Free for a subscriber.
	case p <= present:
		return ""
	// Nothing is for sale, or the account may not buy.
	case !v.Sells || v.Account.Suspended != nil:
		return ""
	// An account with a granted plan may subscribe to a higher one as well.
	case v.Status() == billing.NotSubscribed:
		return "subscribe"
	case v.Status() == billing.Active && p > present:
		return "upgrade"
	}
	return ""
}

// paymentText describes what a payment is for, as shown on invoices.
func paymentText(p *billing.Payment) string {
	switch p.Kind {
	case billing.ForUpgrade:
		return "Upgrade to " + planName(p.Plan)
	case billing.ForRenewal:
		return planName(p.Plan) + ", renewal"
	}
	return planName(p.Plan)
}

// restText says which part of the period the rest is, such as "19 of 30 days".
func restText(o billing.Offer) string {
	day := 24 * time.Hour
	rest, whole := (o.PeriodEnd.Sub(o.At)+day-1)/day, (o.PeriodEnd.Sub(o.PeriodStart)+day/2)/day
	return strconv.Itoa(int(rest)) + " of " + strconv.Itoa(int(whole)) + " days"
}

// upgradePath returns the address of the confirmation page for a plan.
func upgradePath(p account.Plan) string {
	return home + "/plan/upgrade?plan=" + url.QueryEscape(p.String())
}
