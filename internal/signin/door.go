package signin

import (
	"context"
	"fmt"

	"sluice/internal/account"
	"sluice/internal/fault"
	"sluice/internal/mail"
)

// actor is who the audit log names for what an account's owner does on the pages.
const actor = "owner"

// Entry is the outcome of an attempt to sign in: a session, or the need for a code first.
type Entry struct {
	Session string // the token of a new session
	Code    string // the token that the code must come with
}

// wrong is the one answer to a wrong address and to a wrong password.
func wrong() error {
	return fault.New(fault.Unauthenticated, "The address or the password is wrong.")
}

// SignIn checks a password. An account with a second factor gets no session yet; see Finish.
func (d *Desk) SignIn(ctx context.Context, email, password string, v Visit) (Entry, error) {
	email = account.NormalEmail(email)
	here := attempt{"guess " + email + " " + place(v.Remote), guessesHere}
	err := d.limits.try(here, attempt{"guess " + email, guessesAnyhow}, attempt{"host " + place(v.Remote), attemptsByHost})
	if err != nil {
		return Entry{}, err
	}
	acct, login, err := d.loginOf(ctx, email)
	if err != nil {
		return Entry{}, err
	}
	stored := login.Password
	if stored == "" {
		stored = d.decoy() // so that nobody can tell by the time
	}
	ok := false
	d.limits.hashing(func() { ok = matches(password, stored) })
	if acct == nil || login.Password == "" || !ok {
		return Entry{}, wrong()
	}
	d.limits.forget(here.key)
	if login.TOTPOn {
		token, err := d.link(ctx, Link{Purpose: Code, AccountID: acct.ID, Email: email}, codeLife)
		return Entry{Code: token}, err
	}
	token, err := d.open(ctx, acct.ID, v)
	return Entry{Session: token}, err
}

// loginOf finds the account of an address and its login; nil where there is none.
func (d *Desk) loginOf(ctx context.Context, email string) (*account.Account, Login, error) {
	acct, err := d.accounts.Find(ctx, email)
	if fault.Is(err, fault.NotFound) || err == nil && acct.Email != email {
		return nil, Login{}, nil
	}
	if err != nil {
		return nil, Login{}, err
	}
	login, err := d.store.FindLogin(ctx, acct.ID)
	return acct, login, err
}

// Finish is the second step of SignIn: a code of the account's app.
func (d *Desk) Finish(ctx context.Context, token, code string, v Visit) (string, error) {
	l, err := d.Peek(ctx, Code, token)
	if err != nil {
		return "", fault.New(fault.Unauthenticated, "This took too long. Sign in again.")
	}
	if err := d.checkCode(ctx, l.AccountID, code); err != nil {
		return "", err
	}
	if _, err := d.take(ctx, Code, token); err != nil {
		return "", err
	}
	return d.open(ctx, l.AccountID, v)
}

// SignInVerified lets in whom an identity provider vouches for. Where the address has no account one is
// opened, if anybody may sign up; its master key is then the second result.
func (d *Desk) SignInVerified(ctx context.Context, email string, v Visit) (session, masterKey string, err error) {
	email = account.NormalEmail(email)
	acct, _, err := d.loginOf(ctx, email)
	if err != nil {
		return "", "", err
	}
	if acct == nil {
		if !d.settings().Open {
			return "", "", fault.New(fault.PlanTooLow, "There is no account for %s, and this service takes no new ones. Ask its operator for an invitation.", email)
		}
		if acct, masterKey, err = d.accounts.Create(ctx, "identity provider", email, account.None, false); err != nil {
			return "", "", err
		}
	}
	session, err = d.open(ctx, acct.ID, v)
	return session, masterKey, err
}

// SignInLink makes a link that signs an account's owner in: the operator's way to let somebody in. For
// an address without an account it is an invitation, where the service takes new accounts at all.
func (d *Desk) SignInLink(ctx context.Context, email string) (string, error) {
	email = account.NormalEmail(email)
	acct, err := d.accounts.Find(ctx, email)
	switch {
	case err == nil:
		token, err := d.link(ctx, Link{Purpose: SignIn, AccountID: acct.ID, Email: acct.Email}, mailLife)
		return d.url(SignIn, token), err
	case !fault.Is(err, fault.NotFound):
		return "", err
	case d.settings().Closed:
		return "", fault.New(fault.NotFound, "there is no account %q, and signup is closed; create it with \"sluice account create --email %s\", or set signup: invite", email, email)
	}
	if err := account.CheckEmail(email); err != nil {
		return "", err
	}
	token, err := d.link(ctx, Link{Purpose: Invite, Email: email}, inviteLife)
	return d.url(Invite, token), err
}

// SignInByLink uses a link of SignInLink.
func (d *Desk) SignInByLink(ctx context.Context, token string, v Visit) (string, error) {
	l, err := d.take(ctx, SignIn, token)
	if err != nil {
		return "", err
	}
	return d.open(ctx, l.AccountID, v)
}

// RequestReset mails a link that sets a new password, if the address has an account.
func (d *Desk) RequestReset(ctx context.Context, email string, v Visit) error {
	email = account.NormalEmail(email)
	if err := d.limits.try(attempt{"mail " + email, mailsTo}, attempt{"mails " + place(v.Remote), mailsByHost}); err != nil {
		return err
	}
	acct, _, err := d.loginOf(ctx, email)
	if err != nil {
		return err
	}
	l := Link{Purpose: Reset, Email: email}
	if acct != nil {
		l.AccountID = acct.ID
	}
	token, err := d.link(ctx, l, resetLife)
	if err != nil || acct == nil { // the link that nobody gets takes as long as one that somebody does
		return err
	}
	d.poster.Post(mail.Message{To: email, Subject: "Set a new password", Text: fmt.Sprintf(
		"Somebody asked for a new password for your account. To set one, open this link within an hour:\n\n%s\n\nIf it was not you, ignore this mail: nothing changes.\n", d.url(Reset, token))})
	return nil
}

// ResetPassword sets the password by a link. Every session of the account ends.
func (d *Desk) ResetPassword(ctx context.Context, token, password string) error {
	l, err := d.Peek(ctx, Reset, token)
	if err != nil {
		return err
	}
	if err := checkPassword(password, l.Email); err != nil {
		return err
	}
	if l, err = d.take(ctx, Reset, token); err != nil {
		return err
	}
	return d.setPassword(ctx, l.AccountID, password, "")
}

func (d *Desk) setPassword(ctx context.Context, accountID, password, keepSession string) error {
	var stored string
	d.limits.hashing(func() { stored = hashPassword(password) })
	return d.store.SetPassword(ctx, accountID, stored, keepSession)
}
