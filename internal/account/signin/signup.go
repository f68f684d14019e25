package signin

import (
	"context"
	"fmt"
	"net/url"

	"sluice/internal/account"
	"sluice/internal/account/mail"
	"sluice/internal/kit/fault"
)

// Welcome is what the owner of a new account gets: a session, and the master key, which is never
// shown again.
type Welcome struct {
	Entry
	Account   *account.Account
	MasterKey string
}

// SignUp mails a link that opens an account. The password is chosen on the page behind the link, so
// only somebody who reads the mail of the address can choose it. If the address has an account
// already, the mail says so, and nobody but its reader learns that. The links in both mails lead on to the plan that the
// visitor has chosen; plan is its name, or empty.
func (d *Service) SignUp(ctx context.Context, email, plan string, v Visit) error {
	if err := d.mayJoin(); err != nil {
		return err
	}
	email, p, recent, err := d.addressee(ctx, email, v)
	if err != nil {
		return err
	}
	// If there is an account, the link is stored as well but sent to nobody: this takes the same
	// time, and the mail counts among those of the hour.
	token, kept, err := d.link(ctx, Link{Purpose: SignUp, Email: email}, signUpLife, recent)
	if err != nil || !kept {
		return err
	}
	if p != nil {
		d.poster.Post(mail.Message{To: email, Subject: "You already have an account" + d.at(), Text: fmt.Sprintf(
			"Somebody tried to sign up with your address, but you already have an account. Sign in here:\n\n%s/signin%s\n\nIf you forgot your password, you can reset it there. If it was not you, ignore this e-mail.\n", d.settings().Origin, toPlan(plan))})
		return nil
	}
	d.poster.Post(mail.Message{To: email, Subject: "Activate " + d.ours(), Text: fmt.Sprintf(
		"Welcome. To activate %s, open this link within 24 hours and set a password:\n\n%s\n\nIf you did not sign up, ignore this e-mail.\n", d.ours(), d.url(SignUp, token)+withPlan(plan))})
	return nil
}

// withPlan returns what carries a plan in the address of a link.
func withPlan(plan string) string {
	if plan == "" {
		return ""
	}
	return "&plan=" + url.QueryEscape(plan)
}

// toPlan returns what makes the sign-in lead to the page with the plans.
func toPlan(plan string) string {
	if plan == "" {
		return ""
	}
	return "?next=" + url.QueryEscape("/dashboard/plan")
}

// mayJoin returns a fault unless anybody may sign up.
func (d *Service) mayJoin() error {
	if d.settings().Open {
		return nil
	}
	return fault.New(fault.Forbidden, "This service does not accept new accounts. Ask its operator for an invitation.")
}

// Join uses a sign-up link or an invitation: it opens the account with the password that the holder
// chose, and signs them in. A sign-up link is refused if sign-up was closed since; an invitation is
// not. The account exists before its password does. If storing the password fails, the owner can still
// set one through a reset.
func (d *Service) Join(ctx context.Context, purpose Purpose, token, password string, v Visit) (*Welcome, error) {
	step := AcceptInvite
	if purpose == SignUp {
		if err := d.mayJoin(); err != nil {
			return nil, err
		}
		step = OpenAccount
	}
	l, stored, err := d.choose(ctx, purpose, token, password)
	if err != nil {
		return nil, err
	}
	acct, raw, err := d.accounts.Create(ctx, "sign-up", l.Email, account.None, false)
	if fault.Is(err, fault.Conflict) {
		return nil, fault.New(fault.Conflict, "This address already has an account. Sign in.")
	}
	if err != nil {
		return nil, err
	}
	if err := d.store.SetPassword(ctx, acct.ID, stored, ""); err != nil {
		return nil, err
	}
	entry, err := d.letIn(ctx, step, &person{Account: acct}, v)
	return &Welcome{Entry: entry, Account: acct, MasterKey: raw}, err
}
