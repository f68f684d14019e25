package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/fault"
)

// OwnerEmail is the address of the account that the first start creates.
const OwnerEmail = "owner@localhost"

// Store keeps accounts. Each method is one transaction.
type Store interface {
	// CreateAccount stores a new account with its master key; fault.Conflict if the address is taken.
	CreateAccount(ctx context.Context, a *Account, e Entry) error
	// ChangeAccount locks the account, lets change work on it, and stores what became of it with the
	// entry that change returns. An entry without an action means that nothing changed.
	ChangeAccount(ctx context.Context, id string, change func(*Account) (Entry, error)) (*Account, error)
	// FindAccount looks an account up by its id, its address or the id of one of its live keys.
	FindAccount(ctx context.Context, ref string) (*Account, error)
	// Accounts returns up to limit accounts whose id is greater than after, in order of id.
	Accounts(ctx context.Context, after string, limit int) ([]*Account, error)
	// AuditLog returns up to limit entries of an account, newest first.
	AuditLog(ctx context.Context, accountID string, limit int) ([]Entry, error)
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Brand is the prefix of keys, without its dash. Default "service".
	Brand string
	// OnChange is told every new state of an account before the change returns to its caller.
	OnChange func(*Account)
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Accounts makes the changes an account can go through.
type Accounts struct {
	store    Store
	brand    string
	onChange func(*Account)
	now      func() time.Time
}

// New returns Accounts over a store.
func New(store Store, opts *Options) *Accounts {
	if opts == nil {
		opts = &Options{}
	}
	a := &Accounts{store: store, brand: opts.Brand, onChange: opts.OnChange, now: opts.Now}
	if a.brand == "" {
		a.brand = "service"
	}
	if a.onChange == nil {
		a.onChange = func(*Account) {}
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a
}

// Create opens an account. Its master key is returned here and never again.
// A plan other than none is granted.
func (as *Accounts) Create(ctx context.Context, actor, email string, plan Plan, staff bool) (*Account, string, error) {
	email, err := ParseEmail(email)
	if err != nil {
		return nil, "", err
	}
	now := as.clock()
	master, raw := newKey(as.brand, true, "", now)
	a := &Account{
		ID: "acct_" + randomText(20), Email: email, Plan: plan, Granted: plan != None, Staff: staff,
		CreatedAt: now, Version: 1, Keys: []Key{master},
	}
	e := Entry{At: now, Actor: actor, Action: "account.create", AccountID: a.ID, Detail: fmt.Sprintf("plan %s, staff %t", plan, staff)}
	if err := as.store.CreateAccount(ctx, a, e); err != nil {
		return nil, "", err
	}
	as.onChange(a)
	return a, raw, nil
}

// Find looks an account up by its id, its address or the id of one of its keys.
func (as *Accounts) Find(ctx context.Context, ref string) (*Account, error) {
	if strings.Contains(ref, "@") {
		ref = strings.ToLower(strings.TrimSpace(ref))
	}
	return as.store.FindAccount(ctx, ref)
}

// List returns up to limit accounts whose id comes after the given one.
func (as *Accounts) List(ctx context.Context, after string, limit int) ([]*Account, error) {
	return as.store.Accounts(ctx, after, limit)
}

// History is the account's part of the audit log, newest first.
func (as *Accounts) History(ctx context.Context, ref string, limit int) ([]Entry, error) {
	a, err := as.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return as.store.AuditLog(ctx, a.ID, limit)
}

// SetPlan grants a plan; None takes the present one away.
func (as *Accounts) SetPlan(ctx context.Context, actor, ref string, plan Plan) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if a.Plan == plan && a.Granted == (plan != None) {
			return nil
		}
		e.Action, e.Detail = "account.set_plan", fmt.Sprintf("%s to %s", a.Plan, plan)
		a.Plan, a.Granted = plan, plan != None
		return nil
	})
}

// SetLimits replaces the account's overrides of its plan's limits.
func (as *Accounts) SetLimits(ctx context.Context, actor, ref string, o Overrides) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if o.RequestsPerMinute != nil {
			a.Overrides.RequestsPerMinute = o.RequestsPerMinute
		}
		if o.Concurrent != nil {
			a.Overrides.Concurrent = o.Concurrent
		}
		if o.TokensPerMinute != nil {
			a.Overrides.TokensPerMinute = o.TokensPerMinute
		}
		e.Action, e.Detail = "account.set_limits", o.String()
		return nil
	})
}

// ClearLimits gives the account its plan's limits back.
func (as *Accounts) ClearLimits(ctx context.Context, actor, ref string) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		a.Overrides = Overrides{}
		e.Action = "account.clear_limits"
		return nil
	})
}

// Suspend locks the account: its requests are answered 423 until Unsuspend. Termination, which also ends
// the subscription, is billing.Terminate.
func (as *Accounts) Suspend(ctx context.Context, actor, ref, reason string) (*Account, error) {
	reason, err := parseReason(reason)
	if err != nil {
		return nil, err
	}
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if a.Suspended != nil {
			return nil
		}
		a.Suspended = &Mark{At: e.At, Reason: reason}
		e.Action, e.Reason = "account.suspend", reason
		return nil
	})
}

// Unsuspend unlocks the account. One that was terminated or closed stays locked (docs/api.md#account-states).
func (as *Accounts) Unsuspend(ctx context.Context, actor, ref string) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		switch {
		case a.Suspended == nil:
			return nil
		case a.Suspended.Final:
			return fault.New(fault.Conflict, "the account was ended for good on %s (%s) and cannot be reopened; a new account is the only way back",
				a.Suspended.At.Format(time.DateOnly), a.Suspended.Reason)
		}
		a.Suspended = nil
		e.Action = "account.unsuspend"
		return nil
	})
}

// Deactivate switches every key of the account off, those made later too (docs/api.md#abuse-control).
func (as *Accounts) Deactivate(ctx context.Context, actor, ref, reason string) (*Account, error) {
	reason, err := parseReason(reason)
	if err != nil {
		return nil, err
	}
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if a.Deactivated != nil {
			return nil
		}
		a.Deactivated = &Mark{At: e.At, Reason: reason}
		e.Action, e.Reason = "keys.deactivate", reason
		return nil
	})
}

// Restore switches the account's keys on again: support's answer to Deactivate.
func (as *Accounts) Restore(ctx context.Context, actor, ref string) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if a.Deactivated != nil {
			a.Deactivated = nil
			e.Action = "keys.restore"
		}
		return nil
	})
}

// CreateKey adds a sub-key. Its raw text is returned here and never again.
func (as *Accounts) CreateKey(ctx context.Context, actor, ref, name string) (*Key, string, error) {
	name, err := parseName(name)
	if err != nil {
		return nil, "", err
	}
	key, raw := newKey(as.brand, false, name, as.clock())
	_, err = as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if a.SubKeys() >= MaxSubKeys {
			return fault.New(fault.Conflict, "the account already has %d sub-keys, the most it may have; delete one first", MaxSubKeys)
		}
		a.Keys = append(a.Keys, key)
		e.Action, e.Detail = "key.create", key.ID
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return &key, raw, nil
}

// RenameKey changes the display name of a sub-key.
func (as *Accounts) RenameKey(ctx context.Context, actor, keyID, name string) (*Key, error) {
	name, err := parseName(name)
	if err != nil {
		return nil, err
	}
	var renamed Key
	_, err = as.changeSubKey(ctx, actor, keyID, func(a *Account, i int, e *Entry) {
		if a.Keys[i].Name != name {
			e.Action, e.Detail = "key.rename", keyID
			a.Keys[i].Name = name
		}
		renamed = a.Keys[i]
	})
	if err != nil {
		return nil, err
	}
	return &renamed, nil
}

// DeleteKey revokes a sub-key for good.
func (as *Accounts) DeleteKey(ctx context.Context, actor, keyID string) error {
	_, err := as.changeSubKey(ctx, actor, keyID, func(a *Account, i int, e *Entry) {
		e.Action, e.Detail = "key.delete", keyID
		a.Keys = slices.Delete(a.Keys, i, i+1)
	})
	return err
}

// RegenerateMaster replaces the master key; the old one is refused from now on.
func (as *Accounts) RegenerateMaster(ctx context.Context, actor, ref string) (string, error) {
	master, raw := newKey(as.brand, true, "", as.clock())
	_, err := as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		a.Keys = slices.DeleteFunc(a.Keys, func(k Key) bool { return k.Master })
		a.Keys = slices.Insert(a.Keys, 0, master)
		e.Action, e.Detail = "key.regenerate_master", master.ID
		return nil
	})
	if err != nil {
		return "", err
	}
	return raw, nil
}

// change runs one transition inside the store's transaction and publishes its outcome.
func (as *Accounts) change(ctx context.Context, actor, ref string, apply func(*Account, *Entry) error) (*Account, error) {
	found, err := as.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	// A caller who goes away must not leave the outcome unpublished.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	changed, err := as.store.ChangeAccount(ctx, found.ID, func(a *Account) (Entry, error) {
		e := Entry{At: as.clock(), Actor: actor, AccountID: a.ID}
		err := apply(a, &e)
		return e, err
	})
	if err != nil {
		as.refresh(ctx, found.ID)
		return nil, err
	}
	as.onChange(changed)
	return changed, nil
}

// changeSubKey is change for one sub-key, found by its id.
func (as *Accounts) changeSubKey(ctx context.Context, actor, keyID string, apply func(a *Account, i int, e *Entry)) (*Account, error) {
	return as.change(ctx, actor, keyID, func(a *Account, e *Entry) error {
		i, k := a.key(keyID)
		if k == nil {
			return fault.New(fault.NotFound, "there is no key %q", clip(keyID))
		}
		if k.Master {
			return fault.New(fault.Invalid, "the master key cannot be renamed or deleted; regenerate it instead")
		}
		apply(a, i, e)
		return nil
	})
}

// refresh publishes what the store holds after a change whose outcome is unknown, such as a commit
// whose answer was lost with the connection.
func (as *Accounts) refresh(ctx context.Context, id string) {
	if a, err := as.store.FindAccount(ctx, id); err == nil {
		as.onChange(a)
	}
}

// clock reads the time to the millisecond, as it is stored.
func (as *Accounts) clock() time.Time { return as.now().UTC().Truncate(time.Millisecond) }

// String lists the overrides for the audit log.
func (o Overrides) String() string {
	var parts []string
	add := func(name string, l *Limit) {
		if l == nil {
			return
		}
		if *l == Unlimited {
			parts = append(parts, name+" unlimited")
			return
		}
		parts = append(parts, fmt.Sprintf("%s %d", name, *l))
	}
	add("requests per minute", o.RequestsPerMinute)
	add("concurrent", o.Concurrent)
	add("tokens per minute", o.TokensPerMinute)
	return strings.Join(parts, ", ")
}
