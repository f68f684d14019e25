package notice

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/mail"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/runaway"
)

const (
	// planPage is where customers pay and choose a plan.
	planPage = "/dashboard/plan"
	// budgetsPage is where they see their budgets, and resume keys.
	budgetsPage = "/dashboard/budgets"
	// suspensionPatience is how long a change of an account waits for its notice to be stored.
	suspensionPatience = 10 * time.Second
)

// Letters tells the owners of accounts what happened to their account: suspensions, abuse events, failed payments, spent budgets, programs that run away.
type Letters struct {
	notices *Notices
	find    func(id string) *account.Account
	log     *slog.Logger
}

// NewLetters returns Letters that go to the board. find returns the current state of an account, or
// nil if there is no such account.
func NewLetters(notices *Notices, find func(id string) *account.Account, log *slog.Logger) *Letters {
	return &Letters{notices: notices, find: find, log: log}
}

// send sends a notice. It only logs an error: what the notice is about has already happened, and must
// not be undone because the database is down.
func (l *Letters) send(ctx context.Context, accountID string, kind Kind, title, body string) {
	acct := l.find(accountID)
	if acct == nil {
		return
	}
	if err := l.notices.Tell(ctx, accountID, acct.Email, kind, title, body); err != nil {
		l.log.Error("a notice could not be stored", "account", accountID, "title", title, "error", err.Error())
	}
}

// Changed tells an account's owner that it is suspended, or that it or its keys are restored. was and is are the
// states before and after a change. If was is nil, nobody can tell what changed, and Changed does
// nothing.
func (l *Letters) Changed(was, is *account.Account) {
	ctx, cancel := context.WithTimeout(context.Background(), suspensionPatience)
	defer cancel()
	switch {
	case was == nil:
	case was.Suspended == nil && is.Suspended != nil:
		l.send(ctx, is.ID, Suspended, "Your account is suspended",
			"Requests are refused from now on. Reason: "+is.Suspended.Reason+". Your keys and your history are kept. Contact support if you think this is a mistake.")
	case was.Suspended != nil && is.Suspended == nil:
		l.send(ctx, is.ID, Restored, "Your account is restored", "Support has lifted the suspension. Your keys work as before.")
	case was.Deactivated != nil && is.Deactivated == nil:
		l.send(ctx, is.ID, Restored, "Your keys work again", "Support has restored your keys. This month's usage starts again from zero.")
	}
}

// Support tells an account's owner what staff has done.
func (l *Letters) Support(ctx context.Context, accountID, title, body string) {
	l.send(ctx, accountID, Support, title, body)
}

// Abuse tells an account's owner about an event of abuse control. Reviews are for support alone.
func (l *Letters) Abuse(ctx context.Context, e *abuse.Event) {
	allows := "the " + e.Plan.Title() + " plan allows"
	if e.Plan == account.None {
		allows = "is allowed without a plan"
	}
	where := fmt.Sprintf("You have used %d%% of what %s for %s-tier models this month.", e.Score, allows, e.Tier)
	switch e.Kind {
	case abuse.Warning:
		l.send(ctx, e.AccountID, Warning, fmt.Sprintf("%d%% of your monthly allowance is used", e.Score),
			where+" At 100% your keys are switched off until support restores them. Your allowance resets on the 1st of the month. A higher plan includes more.")
	case abuse.Inquiry:
		l.send(ctx, e.AccountID, Inquiry, "A question about your usage",
			where+" Please tell us briefly what you use the service for, so that support can help before your keys are switched off at 100%.")
	case abuse.Deactivated:
		l.send(ctx, e.AccountID, Deactivated, "Your keys are switched off",
			where+" Requests with your keys are refused until support restores them. Please contact support and say what you use the service for.")
	}
}

// Budget tells an account's owner how much of a budget is spent.
func (l *Letters) Budget(ctx context.Context, p *budget.Passed) {
	text := fmt.Sprintf("%s of %s is spent.", price.Dollars(p.Spent), price.Dollars(p.Amount))
	switch {
	case p.Hard && p.Percent >= 100:
		text += " Calls that count against this budget are refused"
	case p.Hard:
		text += " A call that may cost more than what is left is refused"
	default:
		text += " This budget only warns you, so calls continue"
	}
	switch {
	case p.Hard && !p.Until.IsZero():
		text += " until it starts again on " + p.Until.UTC().Format("2 Jan 2006 15:04 UTC") + ", or until you raise it."
	case p.Hard && p.Window.Rolls():
		text += " until earlier calls leave its window, or until you raise it."
	case p.Hard:
		text += " until you raise it."
	default:
		text += "."
	}
	l.send(ctx, p.AccountID, Budget, p.Title(), text)
}

// Runaway tells an account's owner of a program that seems to run away.
func (l *Letters) Runaway(ctx context.Context, a *runaway.Alarm) {
	page := l.notices.origin() + budgetsPage
	text := a.Seen + " Calls continue. If this is a loop, stop the program or delete the key. To have such keys paused, see " + page
	if a.Paused {
		text = a.Seen + " Calls with the key are refused, at no cost, until you resume it at " + page
	}
	l.send(ctx, a.AccountID, Budget, a.Title(), text)
}

// Entry tells a customer what became of a payment. Whoever keeps the books for them, as details says, gets a copy of
// what was paid or returned.
func (l *Letters) Entry(ctx context.Context, acct *account.Account, e billing.Entry, details func(ctx context.Context, accountID string) (billing.Details, error)) {
	l.Payment(ctx, acct, e)
	if e.What != billing.Charged && e.What != billing.Refunded {
		return
	}
	if d, err := details(ctx, acct.ID); err == nil && d.Email != "" {
		l.receipt(d.Email, acct, e)
	}
}

// receipt tells the address that keeps the books of an account about a payment or a refund.
func (l *Letters) receipt(to string, acct *account.Account, e billing.Entry) {
	subject, what, cents := "Receipt", "was paid", e.AmountCents
	if cents < 0 {
		subject, what, cents = "Refund", "was refunded", -cents
	}
	l.notices.poster.Post(mail.Message{To: to, Subject: fmt.Sprintf("%s for %s: %s", subject, acct.Email, billing.Dollars(cents)), Text: fmt.Sprintf(
		"%s %s for the %s plan of the account %s. The invoice is at %s\n\nYou are receiving this e-mail because the owner of the account entered this address for billing.\n",
		billing.Dollars(cents), what, e.Plan.Title(), acct.Email, l.notices.origin()+planPage)})
}

// Payment tells a customer that a renewal failed and will be retried, or that their plan has ended: after the last
// retry, or because a payment is disputed. Support finds disputes in the log and the ledger.
func (l *Letters) Payment(ctx context.Context, acct *account.Account, e billing.Entry) {
	page := l.notices.origin() + planPage
	switch e.What {
	case billing.RenewalFailed:
		l.send(ctx, acct.ID, Payment, "Your payment failed", fmt.Sprintf(
			"The renewal of your %s plan could not be charged: %s We will try again within a few days, and your plan stays active until then. Pay now, or change your payment method, at %s",
			e.Plan.Title(), e.Detail, page))
	case billing.Disputed:
		l.log.Warn("a payment is disputed", "account", acct.ID, "payment", e.PaymentID, "cents", -e.AmountCents)
	case billing.Revoked:
		l.send(ctx, acct.ID, Payment, fmt.Sprintf("Your %s plan has ended", e.Plan.Title()),
			"Your bank has reversed the payment for it. Your keys and your history are kept, and free-tier models remain usable. If you did not ask your bank for this, contact support. Subscribe again at "+page)
	case billing.Lapsed:
		l.send(ctx, acct.ID, Payment, fmt.Sprintf("Your %s plan has ended", e.Plan.Title()),
			"The renewal could not be charged: "+e.Detail+" Your keys and your history are kept, and free-tier models remain usable. Subscribe again at "+page)
	}
}
