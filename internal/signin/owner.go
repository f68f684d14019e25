package signin

import (
	"context"
	"fmt"

	"sluice/internal/account"
	"sluice/internal/fault"
	"sluice/internal/mail"
)

// Prove makes sure that whoever sits at an open session knows its password. An account that has none,
// because its owner came by a link or an identity provider, has nothing to ask for.
func (d *Desk) Prove(ctx context.Context, accountID, password string) error {
	key := "prove " + accountID
	if err := d.limits.try(attempt{key, guessesHere}); err != nil {
		return err
	}
	login, err := d.store.FindLogin(ctx, accountID)
	if err != nil {
		return err
	}
	ok := login.Password == ""
	if !ok {
		d.limits.hashing(func() { ok = matches(password, login.Password) })
	}
	if !ok {
		return fault.New(fault.Invalid, "The present password is wrong.").At("current")
	}
	d.limits.forget(key)
	return nil
}

// ChangePassword replaces the password and ends every session but the given one.
func (d *Desk) ChangePassword(ctx context.Context, a *account.Account, sessionID, current, password string) error {
	if err := checkPassword(password, a.Email); err != nil {
		return err
	}
	if err := d.Prove(ctx, a.ID, current); err != nil {
		return err
	}
	return d.setPassword(ctx, a.ID, password, sessionID)
}

// RequestEmail mails a link to a new address; following it makes the address the account's.
func (d *Desk) RequestEmail(ctx context.Context, a *account.Account, current, email string) error {
	email = account.NormalEmail(email)
	if err := account.CheckEmail(email); err != nil {
		return err
	}
	if err := d.Prove(ctx, a.ID, current); err != nil {
		return err
	}
	if err := d.limits.try(attempt{"mail " + email, mailsTo}, attempt{"mails " + a.ID, mailsByHost}); err != nil {
		return err
	}
	other, _, err := d.loginOf(ctx, email)
	if err != nil {
		return err
	}
	if other != nil { // the same words as for a free address: who has an account is nobody's business
		d.poster.Post(mail.Message{To: email, Subject: "You already have an account", Text: "Somebody wanted to give your address to another account. Yours keeps it; nothing has changed.\n"})
		return nil
	}
	token, err := d.link(ctx, Link{Purpose: Email, AccountID: a.ID, Email: email}, mailLife)
	if err != nil {
		return err
	}
	d.poster.Post(mail.Message{To: email, Subject: "Confirm your new address", Text: fmt.Sprintf(
		"To make this the address of your account, open this link within a day:\n\n%s\n\nIf you did not ask for it, ignore this mail.\n", d.url(Email, token))})
	return nil
}

// ConfirmEmail follows a link of RequestEmail and tells the old address.
func (d *Desk) ConfirmEmail(ctx context.Context, token string) (*account.Account, error) {
	l, err := d.take(ctx, Email, token)
	if err != nil {
		return nil, err
	}
	before, err := d.accounts.Find(ctx, l.AccountID)
	if err != nil {
		return nil, err
	}
	after, err := d.accounts.SetEmail(ctx, actor, l.AccountID, l.Email)
	if err != nil {
		return nil, err
	}
	d.poster.Post(mail.Message{To: before.Email, Subject: "Your address has changed", Text: fmt.Sprintf(
		"Your account now has the address %s. If that was not you, contact support at once.\n", l.Email)})
	return after, nil
}
