package signin

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

const (
	// recoveryCodes is how many codes there are at a time.
	recoveryCodes = 10
	// recoveryChars is the length of a code without its dashes: 80 random bits, so that a plain hash is enough.
	recoveryChars = 16
)

// RecoveryStore keeps recovery codes. Each method is one transaction.
type RecoveryStore interface {
	// SetRecoveryCodes replaces the codes of an account.
	SetRecoveryCodes(ctx context.Context, accountID string, codes []Hash) error
	// UseRecoveryCode uses a code up and returns how many are left. It reports false if the account has no such code
	// that is still good. Of several callers at once only one gets true.
	UseRecoveryCode(ctx context.Context, accountID string, code Hash) (left int, ok bool, err error)
	// RecoveryCodesLeft returns how many codes of an account are still good.
	RecoveryCodesLeft(ctx context.Context, accountID string) (int, error)
}

// RecoveryCodes makes new recovery codes and returns them, for the owner to keep. Those before stop working.
func (d *Service) RecoveryCodes(ctx context.Context, o Owner) ([]string, error) {
	if err := d.Prove(ctx, MakeRecovery, o); err != nil {
		return nil, err
	}
	login, err := d.store.FindLogin(ctx, o.Account.ID)
	if err != nil {
		return nil, err
	}
	if !login.TwoSteps() {
		return nil, fault.New(fault.Conflict, "Recovery codes are for two-step sign-in. Turn it on first.")
	}
	codes, err := d.newRecovery(ctx, o.Account.ID)
	if err != nil {
		return nil, err
	}
	d.tell(MakeRecovery, o.Account.Email, o.Visit, "You have new recovery codes", "New recovery codes for two-step sign-in were created. The previous ones no longer work.")
	return codes, nil
}

// RecoveryCodesLeft returns how many recovery codes of an account are still good.
func (d *Service) RecoveryCodesLeft(ctx context.Context, accountID string) (int, error) {
	return d.store.RecoveryCodesLeft(ctx, accountID)
}

// newRecovery replaces the codes of an account.
func (d *Service) newRecovery(ctx context.Context, accountID string) ([]string, error) {
	codes, hashes := make([]string, recoveryCodes), make([]Hash, recoveryCodes)
	for i := range codes {
		text := strings.ToLower(rand.Text()[:recoveryChars])
		hashes[i] = recoveryHash(accountID, text)
		codes[i] = text[:4] + "-" + text[4:8] + "-" + text[8:12] + "-" + text[12:]
	}
	return codes, d.store.SetRecoveryCodes(ctx, accountID, hashes)
}

// recoveryHash returns the hash that a code is found by. It depends on the account, so that nobody can try a code at all
// accounts of a stolen database at once.
func recoveryHash(accountID, text string) Hash { return hash("recovery " + accountID + " " + text) }

// recovers uses a recovery code up, if text is one, and tells the owner.
func (d *Service) recovers(ctx context.Context, a *account.Account, text string, v Visit) (bool, error) {
	text = strings.ToLower(strings.ReplaceAll(text, "-", ""))
	if len(text) != recoveryChars {
		return false, nil
	}
	left, ok, err := d.store.UseRecoveryCode(ctx, a.ID, recoveryHash(a.ID, text))
	if err != nil || !ok {
		return false, err
	}
	d.tell(MakeRecovery, a.Email, v, "A recovery code was used", fmt.Sprintf("Somebody used a recovery code in place of your authenticator app or your passkey; %d are left. Create new ones on your account page before they run out.", left))
	return true, nil
}
