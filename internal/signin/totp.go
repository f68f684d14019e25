package signin

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image/png"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"sluice/internal/account"
	"sluice/internal/fault"
)

const (
	totpPeriod = 30 * time.Second
	totpSkew   = 1 // steps that a clock may be off
	qrPixels   = 200
)

// Enrolment is a second factor on its way: what to put into an app.
type Enrolment struct {
	Secret string
	QR     string // a PNG picture as a data: address
}

// Enrol makes a new secret. It counts only after Activate.
func (d *Desk) Enrol(ctx context.Context, a *account.Account, issuer string) (*Enrolment, error) {
	login, err := d.store.FindLogin(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	if login.TOTPOn {
		return nil, fault.New(fault.Conflict, "Two-step sign-in is on already. Turn it off first.")
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: a.Email, Period: uint(totpPeriod / time.Second)})
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
	if err := d.store.SetTOTP(ctx, a.ID, key.Secret(), false); err != nil {
		return nil, err
	}
	return &Enrolment{Secret: key.Secret(), QR: "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())}, nil
}

// Activate turns the second factor on: its first code proves that the app has the secret.
func (d *Desk) Activate(ctx context.Context, a *account.Account, code string) error {
	if err := d.checkCode(ctx, a.ID, code); err != nil {
		return err
	}
	login, err := d.store.FindLogin(ctx, a.ID)
	if err != nil {
		return err
	}
	return d.store.SetTOTP(ctx, a.ID, login.TOTPSecret, true)
}

// RemoveTOTP turns the second factor off.
func (d *Desk) RemoveTOTP(ctx context.Context, a *account.Account, current string) error {
	if err := d.Prove(ctx, a.ID, current); err != nil {
		return err
	}
	return d.store.SetTOTP(ctx, a.ID, "", false)
}

// checkCode takes a code of an account's app. Each is good once.
func (d *Desk) checkCode(ctx context.Context, accountID, code string) error {
	key := "code " + accountID
	if err := d.limits.try(attempt{key, guessesHere}); err != nil {
		return err
	}
	login, err := d.store.FindLogin(ctx, accountID)
	if err != nil {
		return err
	}
	code = strings.ReplaceAll(strings.TrimSpace(code), " ", "")
	step := d.clock().Unix() / int64(totpPeriod/time.Second)
	for at := step - totpSkew; at <= step+totpSkew && login.TOTPSecret != ""; at++ {
		ok, err := hotp.ValidateCustom(code, uint64(at), login.TOTPSecret, hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
		if err != nil || !ok {
			continue // a code of the wrong length is an error there
		}
		fresh, err := d.store.UseTOTP(ctx, accountID, at)
		if err != nil {
			return err
		}
		if fresh {
			d.limits.forget(key)
			return nil
		}
	}
	return fault.New(fault.Unauthenticated, "This code is wrong or was used already. Wait for the next one.").At("code")
}
