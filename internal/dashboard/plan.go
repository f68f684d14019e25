package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/internal/account"
	"sluice/internal/billing"
	"sluice/internal/fault"
)

const invoicesShown = 100

// planView is what the page of plan and billing shows.
type planView struct {
	billing.View
	Plans    account.Plans
	Invoices []billing.Payment
	Sells    bool // paid plans are for sale
	Test     bool // no real money moves
	Message  string
	Problems problems
}

func (d *Dashboard) planPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if id := r.FormValue("payment"); id != "" {
		return d.paymentDone(w, r, v, id)
	}
	return d.showPlan(w, r, v, http.StatusOK, planView{})
}

func (d *Dashboard) showPlan(w http.ResponseWriter, r *http.Request, v *visitor, status int, view planView) error {
	var err error
	if view.View, err = d.Billing.Show(r.Context(), v.ID); err != nil {
		return err
	}
	if view.Invoices, err = d.Billing.Invoices(r.Context(), v.ID, invoicesShown); err != nil {
		return err
	}
	view.Plans, view.Sells, view.Test = d.Plans(), d.Billing.Sells(), d.Billing.Test()
	return d.ui.Render(w, r, status, planPage(d.frame(w, r, v, "Plan and billing"), view))
}

// planRefused shows the page again with what is wrong.
func (d *Dashboard) planRefused(w http.ResponseWriter, r *http.Request, v *visitor, err error, fields ...string) error {
	view := planView{Message: r.FormValue("message")}
	var status int
	if view.Problems, status, err = refused(err, fields...); err != nil {
		return err
	}
	return d.showPlan(w, r, v, status, view)
}

// paymentDone is where a customer comes back to from paying.
func (d *Dashboard) paymentDone(w http.ResponseWriter, r *http.Request, v *visitor, id string) error {
	p, err := d.Billing.Settle(r.Context(), v.ID, id)
	if err != nil {
		return err
	}
	return d.afterPayment(w, r, v, p)
}

// afterPayment leads on from a payment as it now is.
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

// pay sends a customer to where an open payment is paid.
func (d *Dashboard) pay(w http.ResponseWriter, r *http.Request, v *visitor, p *billing.Payment) error {
	if p.Open() && p.URL != "" {
		http.Redirect(w, r, p.URL, http.StatusSeeOther)
		return nil
	}
	return d.afterPayment(w, r, v, p)
}

// upgradeView is the question before an upgrade: exactly what is charged.
type upgradeView struct {
	billing.Offer
	Now     account.Plan
	Method  billing.Method
	Test    bool
	Problem string
}

func (d *Dashboard) showUpgrade(w http.ResponseWriter, r *http.Request, v *visitor) error {
	plan, err := account.ParsePlan(r.FormValue("plan"))
	if err != nil {
		return fault.New(fault.NotFound, "There is no such plan.")
	}
	return d.quote(w, r, v, http.StatusOK, plan, "")
}

func (d *Dashboard) quote(w http.ResponseWriter, r *http.Request, v *visitor, status int, plan account.Plan, problem string) error {
	offer, err := d.Billing.Quote(r.Context(), v.ID, plan)
	if err != nil {
		return d.planRefused(w, r, v, err)
	}
	shown, err := d.Billing.Show(r.Context(), v.ID)
	if err != nil {
		return err
	}
	view := upgradeView{Offer: offer, Now: v.Plan, Method: shown.Method, Test: d.Billing.Test(), Problem: problem}
	return d.ui.Render(w, r, status, upgradePage(d.frame(w, r, v, "Upgrade"), view))
}

func (d *Dashboard) upgrade(w http.ResponseWriter, r *http.Request, v *visitor) error {
	plan, err := account.ParsePlan(r.FormValue("plan"))
	if err != nil {
		return fault.New(fault.NotFound, "There is no such plan.")
	}
	cents, err1 := strconv.ParseInt(r.FormValue("cents"), 10, 64)
	at, err2 := strconv.ParseInt(r.FormValue("at"), 10, 64)
	if err1 != nil || err2 != nil {
		return fault.New(fault.Invalid, "This form is not complete. Go back and try again.")
	}
	offer := billing.Offer{Plan: plan, AmountCents: cents, At: time.Unix(at, 0).UTC()}
	charge := d.Billing.Upgrade
	if r.FormValue("how") == "card" {
		charge = d.Billing.UpgradeInPerson
	}
	p, err := charge(r.Context(), actor, v.ID, offer)
	if err == nil && p.Status == billing.Failed && p.Confirm {
		p, err = d.Billing.UpgradeInPerson(r.Context(), actor, v.ID, offer)
	}
	if err != nil {
		if fault.Is(err, fault.Internal) || fault.Is(err, fault.Unavailable) {
			return err
		}
		return d.quote(w, r, v, fault.From(err).Kind.Status(), plan, sentence(fault.From(err).Message))
	}
	if p.Status == billing.Failed {
		return d.quote(w, r, v, http.StatusPaymentRequired, plan, sentence(p.Reason))
	}
	return d.pay(w, r, v, p)
}

func (d *Dashboard) cancelPlan(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Billing.CancelAtPeriodEnd(r.Context(), actor, v.ID); err != nil {
		return d.planRefused(w, r, v, err)
	}
	return d.seeOther(w, r, home+"/plan", "cancelled")
}

func (d *Dashboard) resumePlan(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Billing.Resume(r.Context(), actor, v.ID); err != nil {
		return d.planRefused(w, r, v, err)
	}
	return d.seeOther(w, r, home+"/plan", "resumed")
}

func (d *Dashboard) payOverdue(w http.ResponseWriter, r *http.Request, v *visitor) error {
	p, err := d.Billing.PayOverdue(r.Context(), actor, v.ID)
	if err != nil {
		return d.planRefused(w, r, v, err)
	}
	return d.pay(w, r, v, p)
}

func (d *Dashboard) changeMethod(w http.ResponseWriter, r *http.Request, v *visitor) error {
	to, err := d.Billing.Portal(r.Context(), actor, v.ID)
	if err != nil {
		return d.planRefused(w, r, v, err)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

func (d *Dashboard) askDowngrade(w http.ResponseWriter, r *http.Request, v *visitor) error {
	plan, err := account.ParsePlan(r.FormValue("plan"))
	if err != nil {
		return d.planRefused(w, r, v, fault.New(fault.Invalid, "%v", err).At("message"), "message")
	}
	if err := d.Billing.RequestDowngrade(r.Context(), actor, v.ID, plan, r.FormValue("message")); err != nil {
		return d.planRefused(w, r, v, err, "message")
	}
	return d.seeOther(w, r, home+"/plan", "support-asked")
}

// sold are the plans side by side, the lowest first.
var sold = []account.Plan{account.Free, account.Basic, account.Premium, account.Scale}

// tierText says which models a plan includes.
func tierText(p account.Plan) string {
	switch p {
	case account.Free:
		return "free"
	case account.Basic:
		return "free, basic"
	}
	return "all"
}

// planAction is what a visitor can do about a plan.
func planAction(v planView, p account.Plan) string {
	present := v.Account.Plan
	switch {
	case p == present:
		return "present"
	case p == account.Free && present == account.None:
		return "free"
	case p <= account.Free || p < present && present != account.None:
		return ""
	case !v.Sells || v.Account.Suspended != nil:
		return ""
	case v.Status() == billing.NotSubscribed:
		return "subscribe"
	case v.Status() == billing.Active && p > present:
		return "upgrade"
	}
	return ""
}

// paymentText says what an invoice is for.
func paymentText(p *billing.Payment) string {
	switch p.Kind {
	case billing.ForUpgrade:
		return "Upgrade to " + planName(p.Plan)
	case billing.ForRenewal:
		return planName(p.Plan) + ", renewal"
	}
	return planName(p.Plan)
}

func upgradePath(p account.Plan) string {
	return home + "/plan/upgrade?plan=" + url.QueryEscape(p.String())
}
