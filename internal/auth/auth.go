// Package auth finds out who sent a request, from its Authorization header alone.
//
// An Authenticator looks keys up in an Index in memory. Every change of an account reaches the Index
// before the change is confirmed to whoever made it, and changes of other nodes follow within about
// half a second. So an unknown key costs no database call, and a database that is down locks nobody
// out. What the caller may then do is not decided here; see admission.
package auth

import (
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/fault"
)

// Caller is who sent a request. Account is its state when the request arrived: it is never nil, is
// shared by all requests, and must not be changed. A request keeps it until it ends, even if the
// account changes meanwhile.
type Caller struct {
	Account *account.Account
	KeyID   string
}

// Authenticator checks the Authorization header of requests. It may be used by several goroutines.
type Authenticator struct {
	index *Index
	brand string
}

// New returns an Authenticator for keys that begin with the brand and a dash.
func New(index *Index, brand string) *Authenticator {
	return &Authenticator{index: index, brand: brand}
}

// Authenticate returns the caller whose key is in the Authorization header. header holds all values
// of it. The faults are those of docs/api.md#authentication, in this order: 401 for a key that is
// missing, malformed or unknown, 401 key_deactivated, 423.
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

// Admit returns a fault if an account's keys are deactivated or it is suspended. Deactivation is
// checked first, so an account that is both gets 401. Requests whose caller is known without a key,
// such as those of the pages, are checked by Admit alone.
func Admit(acct *account.Account) error {
	if acct.Deactivated != nil {
		return fault.New(fault.KeyDeactivated, "This API key has been deactivated by abuse control. Contact support to have it restored.")
	}
	if acct.Suspended != nil {
		return fault.New(fault.Suspended, "This account is suspended. Contact support.")
	}
	return nil
}

// rawKey returns the key in the header. It refuses what cannot be a key without looking it up, and
// says what is wrong with it. The messages never repeat the key.
func (a *Authenticator) rawKey(header []string) (string, error) {
	if len(header) == 0 {
		return "", fault.New(fault.Unauthenticated, "No API key was given. Send it as the header \"Authorization: Bearer %s-…\".", a.brand)
	}
	scheme, raw, _ := strings.Cut(header[0], " ")
	raw = strings.Trim(raw, " ")
	if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") || raw == "" { // of two headers, nobody can tell which one counts
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
