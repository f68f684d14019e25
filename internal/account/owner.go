package account

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/kit/fault"
)

// CreateOwner opens the operator's own account on an empty database and returns its master key. The key is empty if
// the account exists: another node that started on the same database was quicker.
func (as *Accounts) CreateOwner(ctx context.Context) (raw string, err error) {
	_, raw, err = as.Create(ctx, "first start", OwnerEmail, Scale, true)
	if fault.Is(err, fault.Conflict) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("create the owner account: %w", err)
	}
	return raw, nil
}

// Held returns a Conflict if something stands against the account: whoever could close it, or free its address, would
// open another one without that (docs/api.md#account-states). do says what the owner wants to do.
func (a *Account) Held(do string) error {
	switch {
	case a.Suspended != nil && a.Suspended.Reason == closedReason: // closing is being repeated
	case a.Suspended != nil:
		return fault.New(fault.Conflict, "Your account is suspended, so you cannot %s. Contact support.", do)
	case a.Deactivated != nil:
		return fault.New(fault.Conflict, "Your keys are switched off, so you cannot %s. Contact support.", do)
	}
	return nil
}

// What an owner cannot do while something stands against the account.
const (
	ToClose    = "close it"
	ToSetEmail = "change its address"
)

// SetEmail changes the account's address. The caller has made sure that the owner reads mail there.
func (as *Accounts) SetEmail(ctx context.Context, actor, ref, email string) (*Account, error) {
	email, err := ParseEmail(email)
	if err != nil {
		return nil, err
	}
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if err := a.Held(ToSetEmail); err != nil {
			return err
		}
		if a.Email != email {
			a.Email = email
			e.Action = "account.set_email"
		}
		return nil
	})
}

// closedReason is the reason of the suspension of a closed account.
const closedReason = "closed by its owner"

// Close closes an account for its owner. The account is suspended for good and loses its plan and
// its sub-keys. It gets a new master key that nobody has seen, so the old one is refused, and an
// address under .invalid, so its owner can sign up again with the old one. Its history stays.
func (as *Accounts) Close(ctx context.Context, actor, ref string) (*Account, error) {
	master, _ := newKey(as.brand, true, "", as.clock())
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if err := a.Held(ToClose); err != nil {
			return err
		}
		a.Email = strings.ToLower(a.ID) + "@closed.invalid"
		a.Plan, a.Granted = None, false
		a.Suspended = &Mark{At: e.At, Reason: closedReason, Final: true}
		a.Keys = append(slices.DeleteFunc(a.Keys, func(Key) bool { return true }), master)
		e.Action, e.Reason = "account.close", closedReason
		return nil
	})
}
