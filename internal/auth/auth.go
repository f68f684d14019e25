// Package auth tells who is calling from the headers of a request alone.
//
// It answers from an Index in memory that every change of an account reaches before the change is
// confirmed. An unknown key costs no database call, and a database that is down locks nobody out.
// What the caller may then do is not decided here; see admission.
package auth

import (
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/fault"
)

// Caller is who a request comes from, as the account stood when the request arrived.
type Caller struct {
	Account *account.Account
	KeyID   string
}

// Authenticator checks the Authorization header.
type Authenticator struct {
	index *Index
	brand string
}

// New returns an Authenticator for keys of the brand.
func New(index *Index, brand string) *Authenticator {
	return &Authenticator{index: index, brand: brand}
}

// Authenticate finds the caller behind the values of the Authorization header. The faults are those
// of docs/api.md#authentication, in their order: 401, 401 key_deactivated, 423.
func (a *Authenticator) Authenticate(header []string) (Caller, error) {
	raw, err := a.rawKey(header)
	if err != nil {
		return Caller{}, err
	}
	acct, keyID := a.index.find(account.HashKey(raw), time.Now())
	if acct == nil {
		return Caller{}, fault.New(fault.Unauthenticated, "This API key is not known. It may have been deleted or regenerated; use one that your account still has.")
	}
	if err := Admit(acct); err != nil {
		return Caller{}, err
	}
	return Caller{Account: acct, KeyID: keyID}, nil
}

// Admit refuses an account whose keys are off, or that is suspended.
func Admit(acct *account.Account) error {
	if acct.Deactivated != nil {
		return fault.New(fault.KeyDeactivated, "This API key has been deactivated by abuse control. Contact support to have it restored.")
	}
	if acct.Suspended != nil {
		return fault.New(fault.Suspended, "This account is suspended. Contact support.")
	}
	return nil
}

// rawKey takes the key out of the header and refuses what cannot be one.
func (a *Authenticator) rawKey(header []string) (string, error) {
	if len(header) == 0 {
		return "", fault.New(fault.Unauthenticated, "No API key was given. Send it as the header \"Authorization: Bearer %s-…\".", a.brand)
	}
	scheme, raw, _ := strings.Cut(header[0], " ")
	raw = strings.Trim(raw, " ")
	if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") || raw == "" {
		return "", fault.New(fault.Unauthenticated, "The Authorization header must have the form \"Bearer %s-…\".", a.brand)
	}
	if len(raw) <= len(a.brand) || raw[:len(a.brand)] != a.brand || raw[len(a.brand)] != '-' {
		return "", fault.New(fault.Unauthenticated, "This is not a key of this service: keys begin with \"%s-\".", a.brand)
	}
	if !account.Wellformed(a.brand, raw) {
		return "", fault.New(fault.Unauthenticated, "This API key is mistyped or incomplete. Copy it again, whole.")
	}
	return raw, nil
}
