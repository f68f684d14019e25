package account

import (
	"context"
	"fmt"

	"sluice/internal/kit/fault"
)

// Order is why staff changes an account, and which state of it they looked at.
type Order struct {
	Reason string // for the audit log; empty: none was given
	// Version is the version that the change was decided on. If the account has another one by now, the
	// change is refused. 0: any.
	Version int64
}

// Under returns Accounts whose changes are made under an order: each is refused with fault.Conflict if the
// account is no longer at the order's version, and has the order's reason in the audit log unless it has
// one of its own. The version is checked under the lock of the account's row, so of two orders on the same
// version one is refused.
func (as *Accounts) Under(o Order) *Accounts {
	ordered := *as
	ordered.order = o
	return &ordered
}

// obey checks the order against an account that was read under its lock, and completes the entry.
func (as *Accounts) obey(a *Account, e *Entry) error {
	// The store has raised the version already.
	if v := as.order.Version; v != 0 && a.Version-1 != v {
		return fault.New(fault.Conflict, "the account was changed after you looked at it (it is at version %d, you saw version %d); look at what changed, then decide again", a.Version-1, v).At("version")
	}
	e.Reason = as.order.Reason
	return nil
}

// maxRecord is how long an action and a detail in the audit log may be, in bytes.
const maxRecord = 4000

// Record writes an entry to the audit log of an account, about something that is not part of the account
// itself. The version rises as with any other change, so that whoever looked at the account before learns of it.
func (as *Accounts) Record(ctx context.Context, actor, ref, action, detail string) (*Account, error) {
	if action == "" || len(action) > 100 || len(detail) > maxRecord {
		return nil, fault.New(fault.Invalid, "a note of 1 to %d bytes is required", maxRecord).At("note")
	}
	return as.change(ctx, actor, ref, func(_ *Account, e *Entry) error {
		e.Action, e.Detail = action, detail
		return nil
	})
}

// SetStaff makes the account's owner a member of staff, or no longer one.
func (as *Accounts) SetStaff(ctx context.Context, actor, ref string, staff bool) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if a.Staff == staff {
			return nil
		}
		a.Staff = staff
		e.Action, e.Detail = "account.set_staff", fmt.Sprintf("staff %t", staff)
		return nil
	})
}
