package signin

import (
	"bytes"
	"context"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"image/png"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// The parameters of the second factor. Apps support nothing else reliably: 30 seconds, six digits,
// SHA-1 (RFC 6238).
const (
	totpPeriod = 30 * time.Second
	totpSkew   = 1 // steps of totpPeriod that the clock of a phone may be off, in either direction
	qrPixels   = 200
)

// FactorStore keeps second factors. Each method is one transaction.
type FactorStore interface {
	// SetTOTP replaces the secret. With on false the secret waits for its first code.
	SetTOTP(ctx context.Context, accountID, secret string, on bool) error
	// UseTOTP reports whether a code of the time step may still be used, and marks the step as
	// used. Of several callers at once only one gets true: a code that somebody watched being typed
	// is good for nothing.
	UseTOTP(ctx context.Context, accountID string, step int64) (bool, error)
}

// Enrolment is a second factor that waits for its first code: what the owner puts into an app.
type Enrolment struct {
	Secret string
	QR     string // a PNG picture as a data: address
}

// Enrol stores a new secret and returns it. The second factor is on only after Activate: somebody
// who could not scan the picture must not be locked out. issuer is the name that the app shows.
func (d *Service) Enrol(ctx context.Context, o Owner, issuer string) (*Enrolment, error) {
	a := o.Account
	if err := d.Prove(ctx, EnrolTOTP, o); err != nil {
		return nil, err
	}
	login, err := d.store.FindLogin(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	if login.TOTPOn {
		return nil, fault.New(fault.Conflict, "Two-step sign-in is already on. Turn it off first.")
	}
	e, err := enrolment(issuer, a.Email, nil)
	if err != nil {
		return nil, err
	}
	return e, d.store.SetTOTP(ctx, a.ID, e.Secret, false)
}

// Enrolling returns an enrolment again whose secret is given, so that a wrong code does not end it. It returns nil if
// another one has begun, or the second factor is on.
func (d *Service) Enrolling(ctx context.Context, a *account.Account, issuer, secret string) (*Enrolment, error) {
	login, err := d.store.FindLogin(ctx, a.ID)
	if err != nil || secret == "" || login.TOTPOn || login.TOTPSecret != secret {
		return nil, err
	}
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		return nil, fmt.Errorf("read a secret: %w", err)
	}
	return enrolment(issuer, a.Email, raw)
}

// enrolment returns what the owner puts into an app. A nil secret means a new one.
func enrolment(issuer, email string, secret []byte) (*Enrolment, error) {
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: email, Period: uint(totpPeriod / time.Second), Secret: secret})
	if err != nil {
		return nil, fmt.Errorf("make a secret: %w", err)
	}
	picture, err := key.Image(qrPixels, qrPixels)
	if err != nil {
		return nil, fmt.Errorf("draw a QR code: %w", err)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		return nil, fmt.Errorf("draw a QR code: %w", err)
	}
	return &Enrolment{Secret: key.Secret(), QR: "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())}, nil
}

// Activate turns the second factor on and returns its recovery codes. Its first code proves that the app has the
// secret. Other sessions were opened without a code, so they end.
func (d *Service) Activate(ctx context.Context, o Owner, code string) (recovery []string, err error) {
	login, err := d.store.FindLogin(ctx, o.Account.ID)
	if err != nil {
		return nil, err
	}
	if login.TOTPOn {
		return nil, fault.New(fault.Conflict, "Two-step sign-in is already on.")
	}
	if err := d.checkApp(ctx, &person{o.Account, login}, code, o.Visit, false); err != nil {
		return nil, err
	}
	// The codes are stored first: whoever has two steps has codes.
	if recovery, err = d.newRecovery(ctx, o.Account.ID); err != nil {
		return nil, err
	}
	if err := d.setTOTP(ctx, ActivateTOTP, o, login.TOTPSecret, true); err != nil {
		return nil, err
	}
	if err := d.store.ProveSession(ctx, o.Session.ID, d.clock()); err != nil {
		return nil, err
	}
	if err := d.record(ctx, o.Account.ID, "totp.on", ""); err != nil {
		return nil, err
	}
	d.tell(ActivateTOTP, o.Account.Email, o.Visit, "Two-step sign-in is on", "Signing in to your account now needs a code from your authenticator app.")
	return recovery, nil
}

// Confirm checks a code of the second factor in an open session, and records that the session has proved it. Pages
// that need a recent proof ask for it.
func (d *Service) Confirm(ctx context.Context, o Owner) error {
	login, err := d.store.FindLogin(ctx, o.Account.ID)
	if err != nil {
		return err
	}
	if !login.TOTPOn {
		return fault.New(fault.Forbidden, "Two-step sign-in is off. Turn it on first.")
	}
	if err := d.checkCode(ctx, &person{o.Account, login}, o.Code, o.Visit); err != nil {
		return err
	}
	return d.store.ProveSession(ctx, o.Session.ID, d.clock())
}

// ResetTOTP turns the second factor off and removes all passkeys without proof, signs the account out everywhere and tells its owner. Support
// does this for somebody who has lost their devices and has proved who they are in another way.
func (d *Service) ResetTOTP(ctx context.Context, a *account.Account) error {
	if err := d.end(ctx, RemoveTOTP, a.ID, ""); err != nil {
		return err
	}
	if _, err := d.store.DeletePasskeys(ctx, a.ID, nil); err != nil {
		return err
	}
	if err := d.store.SetTOTP(ctx, a.ID, "", false); err != nil {
		return err
	}
	d.tell(RemoveTOTP, a.Email, Visit{}, "Two-step sign-in is off", "Support has turned two-step sign-in off, removed your passkeys and signed you out everywhere. Sign in with your password, and turn it on again on your account page.")
	return nil
}

// RemoveTOTP turns the second factor off. It needs proof, as a rule with a code, because a thief at an
// open session would do this first.
func (d *Service) RemoveTOTP(ctx context.Context, o Owner) error {
	if err := d.Prove(ctx, RemoveTOTP, o); err != nil {
		return err
	}
	if err := d.setTOTP(ctx, RemoveTOTP, o, "", false); err != nil {
		return err
	}
	if err := d.record(ctx, o.Account.ID, "totp.off", ""); err != nil {
		return err
	}
	d.tell(RemoveTOTP, o.Account.Email, o.Visit, "Your authenticator app was turned off", "Signing in to your account no longer needs a code from your authenticator app.")
	return nil
}

// setTOTP ends what the step ends and then stores the second factor. In this order nothing survives
// the change if the second write fails.
func (d *Service) setTOTP(ctx context.Context, step Step, o Owner, secret string, on bool) error {
	if err := d.end(ctx, step, o.Account.ID, o.Session.ID); err != nil {
		return err
	}
	return d.store.SetTOTP(ctx, o.Account.ID, secret, on)
}

// maxCode is how long a code may be in bytes, with the spaces and dashes that people type.
const maxCode = 32

// checkCode checks a code of an account's app, or a recovery code in its place, and uses it up: each code is good once.
func (d *Service) checkCode(ctx context.Context, p *person, code string, v Visit) error {
	return d.checkApp(ctx, p, code, v, true)
}

// checkApp checks a code of an account's app. It tries the current time step and totpSkew on either side. An account
// without a secret has no right code. With recovery, a recovery code is right as well, and a secret that waits for its
// first code has no right one.
func (d *Service) checkApp(ctx context.Context, p *person, code string, v Visit, recovery bool) error {
	guesses := d.codeGuesses(ctx, p.ID, p.Email, v)
	if err := d.limits.try(ctx, guesses...); err != nil {
		return err
	}
	if len(code) > maxCode {
		code = "" // refused below, with the message for any wrong code
	}
	code = strings.ReplaceAll(strings.TrimSpace(code), " ", "")
	step := d.clock().Unix() / int64(totpPeriod/time.Second)
	for at := step - totpSkew; at <= step+totpSkew && p.TOTPSecret != "" && (p.TOTPOn || !recovery); at++ {
		ok, err := hotp.ValidateCustom(code, uint64(at), p.TOTPSecret, hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
		if err != nil || !ok {
			continue // hotp returns an error for a code of the wrong length
		}
		fresh, err := d.store.UseTOTP(ctx, p.ID, at)
		if err != nil {
			return err
		}
		if fresh {
			d.limits.forget(ctx, guesses[0].Key)
			return nil
		}
	}
	if recovery && p.TwoSteps() {
		ok, err := d.recovers(ctx, p.Account, code, v)
		if err != nil {
			return err
		}
		if ok {
			d.limits.forget(ctx, guesses[0].Key)
			return nil
		}
	}
	return fault.New(fault.Unauthenticated, "This code is wrong or was already used. Wait for the next one.").At("code")
}
