package dashboard

import (
	"net/http"
	"slices"
	"strings"

	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/web/webui"
)

// Payment processors send customers to these pages: PlanPath is where one sends them back to, and CheckoutPath and
// CardPath are the forms of the built-in test processor.
const (
	PlanPath     = home + "/plan"
	CheckoutPath = PlanPath + "/pay"
	CardPath     = PlanPath + "/card"
)

// checkoutView is the data of the test checkout.
type checkoutView struct {
	// Payment is nil if a card is saved and nothing is paid.
	Payment *billing.Payment
	// Confirm reports whether the bank asks the customer to confirm.
	Confirm bool
	Cards   []billing.TestCard
	Problem string
}

// checkout shows the test processor's form for a payment.
func (d *Dashboard) checkout(w http.ResponseWriter, r *http.Request, v *visitor) error {
	err := d.showCheckout(w, r, v, http.StatusOK, r.FormValue("payment"), "")
	// An address from the history, without its payment or with one that is gone: the plan page has what can be paid.
	if fault.Is(err, fault.NotFound) {
		return d.seeOther(w, r, home+"/plan", "")
	}
	return err
}

// showCheckout renders the form of an open payment. A payment that is no longer open shows its
// outcome instead.
func (d *Dashboard) showCheckout(w http.ResponseWriter, r *http.Request, v *visitor, status int, id, problem string) error {
	p, confirm, err := d.Billing.TestPayment(r.Context(), v.ID, id)
	if err != nil {
		return err
	}
	if !p.Open() {
		return d.afterPayment(w, r, v, p)
	}
	view := checkoutView{Payment: p, Confirm: confirm, Cards: d.Billing.TestCards(), Problem: problem}
	return d.ui.Render(w, r, status, checkoutPage(d.ui.Page(w, r, "Test checkout"), view))
}

// payTest handles both steps of the test checkout: choosing a card, and confirming for a card
// whose bank asks.
func (d *Dashboard) payTest(w http.ResponseWriter, r *http.Request, v *visitor) error {
	id := r.FormValue("payment")
	var p *billing.Payment
	var confirm bool
	var err error
	// The second step: the customer answers the bank's question.
	if answer := r.FormValue("confirm"); answer != "" {
		p, err = d.Billing.ConfirmTest(r.Context(), v.ID, id, answer == "yes")
	} else {
		p, confirm, err = d.Billing.PayTest(r.Context(), v.ID, id, r.FormValue("card"))
	}
	if err != nil {
		_, text, rest := webui.Complaint(err)
		if rest != nil {
			return rest
		}
		return d.showCheckout(w, r, v, fault.From(err).Kind.Status(), id, text)
	}
	// Still open: the card was declined, or it needs confirmation.
	if p.Open() {
		problem := webui.Sentence(p.Reason)
		if problem == "" && !confirm {
			problem = "The card was declined. Try another one."
		}
		status := http.StatusOK
		if !confirm {
			status = http.StatusPaymentRequired
		}
		return d.showCheckout(w, r, v, status, id, problem)
	}
	return d.afterPayment(w, r, v, p)
}

// testCard shows the form for another test card.
func (d *Dashboard) testCard(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return d.ui.Render(w, r, http.StatusOK, checkoutPage(d.ui.Page(w, r, "Test card"), checkoutView{Cards: d.Billing.TestCards()}))
}

// saveTestCard saves the chosen test card as the payment method.
func (d *Dashboard) saveTestCard(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if _, err := d.Billing.SetTestCard(r.Context(), v.ID, r.FormValue("card")); err != nil {
		_, text, rest := webui.Complaint(err)
		if rest != nil {
			return rest
		}
		view := checkoutView{Cards: d.Billing.TestCards(), Problem: text}
		return d.ui.Render(w, r, fault.From(err).Kind.Status(), checkoutPage(d.ui.Page(w, r, "Test card"), view))
	}
	return d.seeOther(w, r, home+"/plan", "card-changed")
}

// spaced writes a card number in groups of four.
func spaced(number string) string {
	var groups []string
	for part := range slices.Chunk([]byte(number), 4) {
		groups = append(groups, string(part))
	}
	return strings.Join(groups, " ")
}

// formPath returns where the checkout form is sent: a payment, or only a new card.
func formPath(v checkoutView) string {
	if v.Payment == nil {
		return CardPath
	}
	return CheckoutPath
}
