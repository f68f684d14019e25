package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/abuse"
	"sluice/internal/operate/ticket"
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
	Test bool
	// Details are what the customer wants on invoices.
	Details billing.Details
	// Tiers are how much of this month's allowance is used.
	Tiers []abuse.TierScore
	// Asked is the request for a lower plan that support has not decided on, or nil.
	Asked *ticket.Ticket
	// Dialog names the dialog that is open: "cancel", "lower", "subscribe", or "" for none. Lowered is the plan of "lower".
	Dialog  string
	Lowered account.Plan
	// Chosen is the plan that was chosen on another page, or None.
	Chosen account.Plan
	// Message is the one to support as it was typed.
	Message  string
	Problems problems
}

// planPage shows the page. With a payment in the query, the customer comes back from the payment
// page.
func (d *Dashboard) planPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if id := r.FormValue("payment"); id != "" {
		return d.paymentDone(w, r, v, id)
	}
	var view planView
	q := r.URL.Query()
	lower, err := account.ParsePlan(q.Get("lower"))
	chosen, wrong := account.ParsePlan(q.Get("plan"))
	switch {
	case q.Has("cancel"):
		view.Dialog = "cancel"
	case err == nil:
		view.Dialog, view.Lowered = "lower", lower
	case wrong == nil:
		view.Chosen = chosen
	}
	return d.showPlan(w, r, v, http.StatusOK, view)
}

// showPlan renders the page. The caller sets Dialog, Lowered, Message and Problems of the view;
// showPlan fills in the rest. A dialog about what is not possible is not shown.
func (d *Dashboard) showPlan(w http.ResponseWriter, r *http.Request, v *visitor, status int, view planView) error {
	var err error
	if view.View, err = d.Billing.Show(r.Context(), v.ID); err != nil {
		return err
	}
	if view.Invoices, err = d.Billing.Invoices(r.Context(), v.ID, invoicesShown); err != nil {
		return err
	}
	if view.Details, err = d.Billing.Details(r.Context(), v.ID); err != nil {
		return err
	}
	if view.Asked, err = d.askedDowngrade(r.Context(), v); err != nil {
		return err
	}
	if view.Dialog == "lower" && !view.Lower(view.Lowered) || view.Dialog == "cancel" && (view.Status() == billing.NotSubscribed || view.CancelAtEnd) {
		view.Dialog = ""
	}
	view.Present = d.shownPlan(view.Account.Plan)
	view.Tiers, _ = d.Abuse.Scores(v.ID, v.Plan)
	view.Plans, view.Sells, view.Test = d.Plans(), d.Billing.Sells(), d.Billing.Test()
	if view.choose() {
		return d.seeOther(w, r, upgradePath(view.Chosen), "")
	}
	p := d.frame(w, r, v, "Plan and billing")
	p.Styles = []string{accountStyle}
	return d.ui.Render(w, r, status, planPage(p, view))
}

// choose opens the dialog of the plan that was chosen on another page. It reports whether that is an upgrade, which has a
// page of its own.
func (v *planView) choose() bool {
	if v.Chosen == account.None {
		return false
	}
	switch planAction(*v, v.Chosen) {
	case "upgrade":
		return true
	case "downgrade":
		v.Dialog, v.Lowered = "lower", v.Chosen
	case "cancel":
		v.Dialog = "cancel"
	case "subscribe", "free":
		v.Dialog = "subscribe"
	}
	return false
}

// whyNot says why the plan that was chosen on another page cannot be had, or "" if a dialog offers it.
func (v *planView) whyNot() string {
	if v.Chosen == account.None || v.Dialog != "" {
		return ""
	}
	name, present := planName(v.Chosen), planName(v.Present)
	switch {
	case v.Chosen == v.Present:
		return "You have " + name + " already."
	case v.Asked != nil && v.Chosen < v.Present:
		return "You have asked for another plan. Support has not decided yet."
	case v.NextPlan != account.None || v.CancelAtEnd:
		return present + " is about to change. To choose " + name + ", keep " + present + " first."
	case v.Chosen < v.Present:
		return "You have " + present + ", which includes all of " + name + "."
	case v.Account.Suspended != nil:
		return name + " cannot be chosen while your account is suspended."
	case v.Status() == billing.PastDue:
		return "To choose " + name + ", pay the renewal that failed first."
	}
	return name + " is not for sale here. Ask support for it."
}

// planRefused renders the page again with the problem.
func (d *Dashboard) planRefused(w http.ResponseWriter, r *http.Request, v *visitor, err error) error {
	var view planView
	return again(err, &view.Problems, func(status int) error {
		return d.showPlan(w, r, v, status, view)
	})
}

// lowerRefused shows the dialog that asks for a lower plan again, with the problem and the message that was typed.
func (d *Dashboard) lowerRefused(w http.ResponseWriter, r *http.Request, v *visitor, plan account.Plan, err error, fields ...string) error {
	view := planView{Dialog: "lower", Lowered: plan, Message: r.FormValue("message")}
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
	Details billing.Details
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
	// In an old tab, say. The page of plans offers what there is in place of an upgrade.
	if plan <= d.shownPlan(v.Plan) {
		return d.seeOther(w, r, PlanPath+"?plan="+url.QueryEscape(plan.String()), "")
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
	details, err := d.Billing.Details(r.Context(), v.ID)
	if err != nil {
		return err
	}
	view := upgradeView{Offer: offer, Details: details, Now: d.shownPlan(v.Plan), Method: shown.Method, Test: d.Billing.Test(), Problem: problem}
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
		return d.planRefused(w, r, v, fault.New(fault.Invalid, "%v", err))
	}
	// The conversation comes before the ledger: it may be refused, because there are too many.
	if err := d.Billing.MayRequestDowngrade(r.Context(), v.ID, plan, r.FormValue("message")); err != nil {
		return d.lowerRefused(w, r, v, plan, err, "message")
	}
	if _, err := d.downgradeTicket(r, v, plan, r.FormValue("message")); err != nil {
		return d.lowerRefused(w, r, v, plan, err)
	}
	if err := d.Billing.RequestDowngrade(r.Context(), actor, v.ID, plan, r.FormValue("message")); err != nil {
		return d.lowerRefused(w, r, v, plan, err, "message")
	}
	return d.seeOther(w, r, PlanPath, "downgrade-asked")
}

// askedDowngrade returns the request for a lower plan that support has not decided on, or nil.
func (d *Dashboard) askedDowngrade(ctx context.Context, v *visitor) (*ticket.Ticket, error) {
	list, err := d.Tickets.Threads(ctx, v.ID, messagesShown)
	for i := range list {
		if t := &list[i]; t.Kind == ticket.Downgrade && t.State != ticket.Closed {
			return t, err
		}
	}
	return nil, err
}

// withdrawDowngrade takes a request for a lower plan back, before support has decided.
func (d *Dashboard) withdrawDowngrade(w http.ResponseWriter, r *http.Request, v *visitor) error {
	asked, err := d.askedDowngrade(r.Context(), v)
	if err != nil {
		return err
	}
	if asked == nil {
		return d.seeOther(w, r, PlanPath, "")
	}
	if _, err := d.Tickets.Resolve(r.Context(), v.ID, asked.ID); err != nil {
		return err
	}
	return d.seeOther(w, r, PlanPath, "downgrade-withdrawn")
}

// planAction returns which button the card of plan p has: "present" (the current plan),
// "free", "subscribe", "upgrade", "downgrade" (a request to support), or "" for none.
func planAction(v planView, p account.Plan) string {
	present := v.Present
	switch {
	case p == present:
		return "present"
	case p == account.Free && present == account.None:
		return "free"
	case v.Lower(p) && v.Asked == nil && v.NextPlan == account.None && !v.CancelAtEnd:
		return "downgrade"
	case p == account.Free && (v.Status() == billing.Active || v.Status() == billing.PastDue) && !v.CancelAtEnd:
		return "cancel"
	// A lower plan that has been asked for, or Free for somebody who has it anyway.
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

// methodText names a payment method as the first words of a line.
func methodText(m billing.Method) string {
	text := m.String()
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
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

// cancelTitle asks whether the plan should be cancelled.
func cancelTitle(v planView) string {
	if v.Status() == billing.PastDue {
		return "Cancel " + planName(v.Plan) + " now?"
	}
	return "Cancel " + planName(v.Plan) + " on " + webui.Date(v.PeriodEnd) + "?"
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
