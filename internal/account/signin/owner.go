package signin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/mail"
	"sluice/internal/kit/fault"
)

// Owner is somebody at an open session of an account, and what they typed to prove that the account
// is theirs: a session alone may be a browser that was left open.
type Owner struct {
	Account  *account.Account // never nil
	Session  *Session         // never nil
	Visit    Visit
	Password string // empty: not typed
	Code     string // empty: not typed
	Passkey  string // what the browser said about a passkey in place of the code; empty: nothing
}

// proofLife is how long a proof holds in the session it was given in. A change made with it does not extend it.
const proofLife = 10 * time.Minute

// Demand is what counts as fresh proof at one session. The zero Demand asks for nothing.
type Demand struct {
	Password bool // the account's password
	Code     bool // a code of the second factor, or a passkey
	SignIn   bool // a new session: the account has no password, and this session is no longer fresh
}

// Demand returns what an owner must prove before a change to how they sign in. A session that holds a
// proof needs no other, and neither does one that the operator's link opened a moment ago: people who
// have lost their password and their phone get back in this way.
func (d *Service) Demand(login Login, s *Session) Demand {
	if !d.ProvedUntil(s).IsZero() {
		return Demand{}
	}
	isFresh := d.clock().Sub(s.CreatedAt) < fresh
	if isFresh && s.Via == EnterLink {
		return Demand{}
	}
	return Demand{Password: login.Password != "", Code: login.TwoSteps(), SignIn: login.Password == "" && !isFresh}
}

// ProvedUntil returns until when a session holds a proof; zero: it holds none.
func (d *Service) ProvedUntil(s *Session) time.Time {
	if until := s.OwnerAt.Add(proofLife); !s.OwnerAt.IsZero() && d.clock().Before(until) {
		return until
	}
	return time.Time{}
}

// Prove checks that whoever sits at a session is the owner of its account, if the rule of the step
// needs it and the session holds no proof. Every wrong proof counts against limits. A right one
// resets the limit of the session, holds in it for proofLife, and is written to the account's log.
func (d *Service) Prove(ctx context.Context, step Step, o Owner) error {
	if ruleOf(step).Needs&NeedsProof == 0 || !d.ProvedUntil(o.Session).IsZero() {
		return nil
	}
	here := keyOf("prove", o.Session.ID)
	if err := d.limits.try(ctx, Attempt{here, proofsHere}, Attempt{keyOf("proofs", o.Account.ID), proofsAnyhow}); err != nil {
		return err
	}
	// Read again: the session may be older than the password.
	login, err := d.store.FindLogin(ctx, o.Account.ID)
	if err != nil {
		return err
	}
	need := d.Demand(login, o.Session)
	if need.SignIn {
		return fault.New(fault.Forbidden, "Your account has no password, and you signed in more than %d minutes ago. Sign in again, then try once more.", int(fresh.Minutes()))
	}
	if need.Password {
		ok := false
		if err := d.limits.hashing(ctx, func() { ok = matches(o.Password, login.Password) }); err != nil {
			return err
		}
		if !ok {
			return fault.New(fault.Invalid, "The current password is wrong.").At("current")
		}
	}
	if need.Code && o.Passkey != "" {
		if _, err := d.usePasskey(ctx, o.Passkey, toProve, o.Session.ID, o.Account.ID); err != nil {
			return err
		}
	} else if need.Code {
		if err := d.checkCode(ctx, &person{o.Account, login}, o.Code, o.Visit); err != nil {
			return err
		}
	}
	// Only the limit of this session: a thief at another session must not profit from the owner's proof.
	d.limits.forget(ctx, here)
	return d.hold(ctx, o, need)
}

// hold keeps the proof that was just given in the session. A session that needed none has nothing to keep.
func (d *Service) hold(ctx context.Context, o Owner, given Demand) error {
	var by []string
	if given.Password {
		by = append(by, "password")
	}
	if given.Code && o.Passkey != "" {
		by = append(by, "passkey")
	} else if given.Code {
		by = append(by, "code")
	}
	if by == nil {
		return nil
	}
	if err := d.record(ctx, o.Account.ID, "session.prove", strings.Join(by, " and ")); err != nil {
		return err
	}
	now := d.clock()
	if err := d.store.HoldProof(ctx, o.Session.ID, now); err != nil {
		return err
	}
	o.Session.OwnerAt = now
	return nil
}

// ChangePassword replaces the password, or sets the first one. Every other session ends. The new
// password is checked before the proof, so that a typing mistake costs no attempt.
func (d *Service) ChangePassword(ctx context.Context, o Owner, password string) error {
	if err := checkPassword(password, o.Account.Email); err != nil {
		return err
	}
	if err := d.Prove(ctx, ChangePassword, o); err != nil {
		return err
	}
	var stored string
	if err := d.limits.hashing(ctx, func() { stored = hashPassword(password) }); err != nil {
		return err
	}
	if err := d.store.SetPassword(ctx, o.Account.ID, stored, o.Session.ID); err != nil {
		return err
	}
	d.tell(ChangePassword, o.Account.Email, o.Visit, "Your password was changed", "Your password was changed on your account page. All other browsers have been signed out.")
	return nil
}

// RequestEmail mails a link to a new address. Following it proves that the owner reads mail there,
// and makes it the address of the account; see ConfirmEmail. Until then nothing changes.
func (d *Service) RequestEmail(ctx context.Context, o Owner, email string) error {
	email, err := account.ParseEmail(email)
	if err != nil {
		return err
	}
	if err := o.Account.Held(account.ToSetEmail); err != nil {
		return err
	}
	if err := d.Prove(ctx, AskEmail, o); err != nil {
		return err
	}
	if err := d.limits.try(ctx, Attempt{keyOf("mails of", o.Account.ID), mailsByOwner}); err != nil {
		return err
	}
	other, err := d.personAt(ctx, email)
	if err != nil {
		return err
	}
	// As in SignUp, a link is stored even if nobody gets it, so that both cases take the same time.
	token, kept, err := d.link(ctx, Link{Purpose: Email, AccountID: o.Account.ID, Email: email}, emailLife, mailsAnHour)
	if err != nil || !kept {
		return err
	}
	if other != nil { // the page says the same as for a free address, so that nobody learns who has an account
		d.poster.Post(mail.Message{To: email, Subject: "You already have an account" + d.at(), Text: "Somebody tried to use your address for another account. Nothing has changed: the address remains yours.\n"})
		return nil
	}
	d.poster.Post(mail.Message{To: email, Subject: "Confirm the new address of " + d.ours(), Text: fmt.Sprintf(
		"To confirm this address for %s, open this link within an hour:\n\n%s\n\nIf you did not ask for this, ignore this e-mail.\n", d.ours(), d.url(Email, token))})
	return nil
}

// ConfirmEmail uses a link of RequestEmail and tells the old address. s is the session of the
// browser that followed the link; it may be nil. It stays open if it belongs to the account; every
// other session ends.
func (d *Service) ConfirmEmail(ctx context.Context, token string, s *Session) (*account.Account, error) {
	l, err := d.take(ctx, Email, token)
	if err != nil {
		return nil, err
	}
	before, err := d.accounts.Find(ctx, l.AccountID)
	if err != nil {
		return nil, err
	}
	if err := before.Held(account.ToSetEmail); err != nil {
		return nil, err
	}
	keep, visit := "", Visit{}
	if s != nil && s.AccountID == l.AccountID {
		keep, visit = s.ID, Visit{Remote: s.Remote, Agent: s.Agent}
	}
	// Access ends before the address changes, so that nothing survives. A link made in between is
	// bound to the old address and is refused; see holder.
	if err := d.end(ctx, ConfirmEmail, l.AccountID, keep); err != nil {
		return nil, err
	}
	after, err := d.accounts.SetEmail(ctx, actor, l.AccountID, l.Email)
	if err != nil {
		return nil, err
	}
	d.tell(ConfirmEmail, before.Email, visit, "Your address has changed", fmt.Sprintf("The address of your account is now %s.", l.Email))
	return after, nil
}
