package signin

import (
	"context"
	"fmt"

	"sluice/internal/account"
	"sluice/internal/account/mail"
	"sluice/internal/kit/fault"
)

// actor is the name in the audit log for what an account's owner does on the pages.
const actor = "owner"

// wrong returns the same fault for a wrong address and a wrong password, so that nobody learns who has
// an account.
func wrong() error {
	return fault.New(fault.Unauthenticated, "The address or the password is wrong.")
}

// SignIn checks a password and opens a session. For an account with a second factor it returns a
// token for Finish instead. An account without a password is refused like one with a wrong password.
func (d *Service) SignIn(ctx context.Context, email, password string, v Visit) (Entry, error) {
	email, err := account.ParseEmail(email)
	if err != nil {
		return Entry{}, err
	}
	guesses := d.guesses(ctx, email, v)
	if err := d.limits.try(ctx, guesses...); err != nil {
		f := fault.From(err)
		f.Message += " Or have a link mailed to you: use “Forgot your password?”."
		return Entry{}, f
	}
	p, err := d.personAt(ctx, email)
	if err != nil {
		return Entry{}, err
	}
	stored := d.decoy() // a hash is always compared, so that the time does not tell whether there is an account
	if p != nil && p.Password != "" {
		stored = p.Password
	}
	// Hashing is the expensive part, so it comes after the limits and takes a turn; see hashing.
	ok := false
	if err := d.limits.hashing(ctx, func() { ok = matches(password, stored) }); err != nil {
		return Entry{}, err
	}
	if p == nil || p.Password == "" || !ok {
		return Entry{}, wrong()
	}
	// The owner who mistyped a few times starts again with all attempts.
	d.limits.forget(ctx, guesses[0].Key)
	return d.letIn(ctx, EnterPassword, p, v)
}

// personAt returns who has an address, or nil if nobody does. Find also accepts ids; a ref that is
// not the address itself does not count.
func (d *Service) personAt(ctx context.Context, email string) (*person, error) {
	p, err := d.person(ctx, email)
	if fault.Is(err, fault.NotFound) || err == nil && p.Email != email {
		return nil, nil
	}
	return p, err
}

// addressee checks the address that a visitor typed into a form that mails a link. It returns the
// address in the form that accounts are stored with, who has it, nil if nobody does, and what mayMail
// returns.
func (d *Service) addressee(ctx context.Context, typed string, v Visit) (email string, p *person, recent int, err error) {
	if email, err = account.ParseEmail(typed); err != nil {
		return "", nil, 0, err
	}
	if recent, err = d.mayMail(ctx, email, v); err != nil {
		return "", nil, 0, err
	}
	p, err = d.personAt(ctx, email)
	return email, p, recent, err
}

// Finish is the second step of signing in: it checks a code of the account's app and opens the
// session. token is the one that SignIn returned. A wrong code does not use it up.
func (d *Service) Finish(ctx context.Context, token, code string, v Visit) (Entry, error) {
	return d.finish(ctx, token, v, func(p *person) error { return d.checkCode(ctx, p, code, v) })
}

// FinishPasskey is Finish with a passkey instead of a code.
func (d *Service) FinishPasskey(ctx context.Context, token, reply string, v Visit) (Entry, error) {
	return d.finish(ctx, token, v, func(p *person) error {
		guesses := d.codeGuesses(ctx, p.ID, p.Email, v)
		if err := d.limits.try(ctx, guesses...); err != nil {
			return err
		}
		if _, err := d.usePasskey(ctx, reply, toFinish, token, p.ID); err != nil {
			return err
		}
		d.limits.forget(ctx, guesses[0].Key)
		return nil
	})
}

// finish takes the second step of signing in; check checks what was brought for it.
func (d *Service) finish(ctx context.Context, token string, v Visit, check func(p *person) error) (Entry, error) {
	tooLate := func() error { return fault.New(fault.Unauthenticated, "Your sign-in timed out. Sign in again.") }
	l, err := d.Peek(ctx, Code, token)
	if err != nil {
		return Entry{}, tooLate()
	}
	p, err := d.holder(ctx, l)
	if err != nil {
		return Entry{}, err
	}
	// The code is checked before the token is used up, so that a typing mistake does not cost the first step.
	if err := check(p); err != nil {
		return Entry{}, err
	}
	if _, err := d.take(ctx, Code, token); err != nil {
		return Entry{}, tooLate()
	}
	return d.open(ctx, EnterCode, p, v)
}

// SignInVerified signs in the owner of an address that an identity provider has verified. An
// account with a second factor needs a code as well. If the address has no account and anybody may
// sign up, one is opened; masterKey is then its key, otherwise empty.
func (d *Service) SignInVerified(ctx context.Context, email string, v Visit) (entry Entry, masterKey string, err error) {
	email, err = account.ParseEmail(email)
	if err != nil {
		return Entry{}, "", err
	}
	p, err := d.personAt(ctx, email)
	if err != nil {
		return Entry{}, "", err
	}
	if p == nil {
		if !d.settings().Open {
			return Entry{}, "", fault.New(fault.Forbidden, "There is no account for %s, and this service does not accept new ones. Ask its operator for an invitation.", email)
		}
		// A new account has no second factor, so the zero Login is right.
		p = &person{}
		if p.Account, masterKey, err = d.accounts.Create(ctx, "identity provider", email, account.None, false); err != nil {
			return Entry{}, "", err
		}
	}
	entry, err = d.letIn(ctx, EnterProvider, p, v)
	return entry, masterKey, err
}

// SignInLink returns a link that signs an account's owner in. The operator passes it on to somebody
// who has lost every other way in. For an address without an account the link is an invitation,
// unless sign-up is closed.
func (d *Service) SignInLink(ctx context.Context, ref string) (string, error) {
	acct, err := d.accounts.Find(ctx, ref)
	switch {
	case err == nil:
		token, _, err := d.link(ctx, Link{Purpose: SignIn, AccountID: acct.ID, Email: acct.Email}, signInLife, 0)
		return d.url(SignIn, token), err
	case !fault.Is(err, fault.NotFound):
		return "", err
	}
	email, err := account.ParseEmail(ref)
	if err != nil {
		return "", err
	}
	if d.settings().Closed {
		return "", fault.New(fault.NotFound, "there is no account %q, and signup is closed; create it with \"sluice account create --email %s\", or set signup: invite", email, email)
	}
	token, _, err := d.link(ctx, Link{Purpose: Invite, Email: email}, inviteLife, 0)
	return d.url(Invite, token), err
}

// SignInByLink uses a link of SignInLink. It asks for no code: the operator has checked who it is.
func (d *Service) SignInByLink(ctx context.Context, token string, v Visit) (Entry, error) {
	l, err := d.take(ctx, SignIn, token)
	if err != nil {
		return Entry{}, err
	}
	p, err := d.holder(ctx, l)
	if err != nil {
		return Entry{}, err
	}
	return d.letIn(ctx, EnterLink, p, v)
}

// RequestReset mails a link that sets a new password, if the address has an account. The caller
// cannot tell whether it has.
func (d *Service) RequestReset(ctx context.Context, email string, v Visit) error {
	email, p, recent, err := d.addressee(ctx, email, v)
	if err != nil {
		return err
	}
	l, life := Link{Purpose: Reset, Email: email}, resetLife
	if p == nil {
		life = 0 // it expires at once: nothing is kept, and it takes as long
	} else {
		l.AccountID = p.ID
	}
	token, kept, err := d.link(ctx, l, life, recent)
	if err != nil || !kept {
		return err
	}
	d.poster.Post(mail.Message{To: email, Subject: "Reset the password of " + d.ours(), Text: fmt.Sprintf(
		"Somebody asked to reset the password of %s. To set a new one, open this link within an hour:\n\n%s\n\nIf it was not you, ignore this e-mail. Your password stays the same.\n", d.ours(), d.url(Reset, token))})
	return nil
}

// ResetPassword sets the password with a link and signs its holder in. Everything else that gave
// access ends: every session and every link, such as one that a thief asked for to change the
// address.
func (d *Service) ResetPassword(ctx context.Context, token, password string, v Visit) (Entry, error) {
	l, stored, err := d.choose(ctx, Reset, token, password)
	if err != nil {
		return Entry{}, err
	}
	p, err := d.holder(ctx, l)
	if err != nil {
		return Entry{}, err
	}
	if err := d.store.SetPassword(ctx, p.ID, stored, ""); err != nil {
		return Entry{}, err
	}
	d.limits.forget(ctx, keyOf("guess", p.Email), keyOf("code", p.ID), keyOf("codes", p.ID))
	d.tell(ResetPassword, p.Email, v, "Your password was changed", "A new password was set with a link that was mailed to you. You have been signed out everywhere else.")
	return d.letIn(ctx, ResetPassword, p, v)
}

// choose checks and hashes the password that the holder of a link chose, and then uses the link. In
// this order the link stays good if the password is refused.
func (d *Service) choose(ctx context.Context, purpose Purpose, token, password string) (l *Link, stored string, err error) {
	if l, err = d.Peek(ctx, purpose, token); err != nil {
		return nil, "", err
	}
	if err := checkPassword(password, l.Email); err != nil {
		return nil, "", err
	}
	if err := d.limits.hashing(ctx, func() { stored = hashPassword(password) }); err != nil {
		return nil, "", err
	}
	l, err = d.take(ctx, purpose, token)
	return l, stored, err
}

// ours names the account in mail, with the service that it is at: people have accounts at many.
func (d *Service) ours() string {
	if brand := d.settings().Brand; brand != "" {
		return "your " + brand + " account"
	}
	return "your account"
}

// at says at which service something is, at the end of a sentence.
func (d *Service) at() string {
	if brand := d.settings().Brand; brand != "" {
		return " at " + brand
	}
	return ""
}

// tell mails an account's owner what has changed, when and in which browser, if the rule of the step says so. email is the
// address before the change: if a thief has changed the address, the owner must still get the mail. The zero Visit is none.
func (d *Service) tell(step Step, email string, v Visit, subject, text string) {
	if d.poster == nil { // a command without a server
		return
	}
	if ruleOf(step).Gives&GivesNotice != 0 {
		set := d.settings()
		if set.Brand != "" {
			subject = "[" + set.Brand + "] " + subject
		}
		text += "\n\nWhen: " + d.clock().Format("2 Jan 2006 15:04 UTC")
		if v.Agent != "" {
			text += "\nBrowser: " + Browser(v.Agent)
		}
		text += "\n\nIf that was not you, contact support at once"
		if s := set.Support; s != "" {
			text += ": " + s
		} else {
			text += "."
		}
		d.poster.Post(mail.Message{To: email, Subject: subject, Text: text + "\n"})
	}
}
