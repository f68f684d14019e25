package signin

import (
	"context"
	"fmt"

	"sluice/internal/account"
	"sluice/internal/fault"
	"sluice/internal/mail"
)

// Welcome is what a new account's owner gets: a session, and the master key's only showing.
type Welcome struct {
	Account   *account.Account
	MasterKey string
	Session   string
}

// SignUp mails a link that opens an account with the password. Where the address has one already, its
// owner is told so by mail, and nobody else.
func (d *Desk) SignUp(ctx context.Context, email, password string, v Visit) error {
	if !d.settings().Open {
		return fault.New(fault.PlanTooLow, "This service takes no new accounts. Ask its operator for an invitation.")
	}
	email = account.NormalEmail(email)
	if err := account.CheckEmail(email); err != nil {
		return err
	}
	if err := checkPassword(password, email); err != nil {
		return err
	}
	if err := d.limits.try(attempt{"mail " + email, mailsTo}, attempt{"mails " + place(v.Remote), mailsByHost}); err != nil {
		return err
	}
	var stored string
	d.limits.hashing(func() { stored = hashPassword(password) })
	acct, _, err := d.loginOf(ctx, email)
	if err != nil {
		return err
	}
	token, err := d.link(ctx, Link{Purpose: SignUp, Email: email, Password: stored}, mailLife)
	if err != nil {
		return err
	}
	if acct != nil { // the link that nobody gets takes as long as one that somebody does
		d.poster.Post(mail.Message{To: email, Subject: "You already have an account", Text: fmt.Sprintf(
			"Somebody tried to sign up with your address. You already have an account; sign in here:\n\n%s/signin\n\nIf you forgot your password, set a new one there. If it was not you, ignore this mail.\n", d.settings().Origin)})
		return nil
	}
	d.poster.Post(mail.Message{To: email, Subject: "Confirm your address", Text: fmt.Sprintf(
		"Welcome. To open your account, confirm your address with this link within a day:\n\n%s\n\nIf you did not sign up, ignore this mail.\n", d.url(SignUp, token))})
	return nil
}

// Confirm opens the account of a sign-up link.
func (d *Desk) Confirm(ctx context.Context, token string, v Visit) (*Welcome, error) {
	l, err := d.take(ctx, SignUp, token)
	if err != nil {
		return nil, err
	}
	return d.welcome(ctx, l.Email, l.Password, v)
}

// Accept opens the account of an invitation, with the password that its owner chose.
func (d *Desk) Accept(ctx context.Context, token, password string, v Visit) (*Welcome, error) {
	l, err := d.Peek(ctx, Invite, token)
	if err != nil {
		return nil, err
	}
	if err := checkPassword(password, l.Email); err != nil {
		return nil, err
	}
	if l, err = d.take(ctx, Invite, token); err != nil {
		return nil, err
	}
	var stored string
	d.limits.hashing(func() { stored = hashPassword(password) })
	return d.welcome(ctx, l.Email, stored, v)
}

func (d *Desk) welcome(ctx context.Context, email, password string, v Visit) (*Welcome, error) {
	acct, raw, err := d.accounts.Create(ctx, "sign-up", email, account.None, false)
	if fault.Is(err, fault.Conflict) {
		return nil, fault.New(fault.Conflict, "This address has an account by now. Sign in.")
	}
	if err != nil {
		return nil, err
	}
	if err := d.store.SetPassword(ctx, acct.ID, password, ""); err != nil {
		return nil, err
	}
	session, err := d.open(ctx, acct.ID, v)
	return &Welcome{Account: acct, MasterKey: raw, Session: session}, err
}
