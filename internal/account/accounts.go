package account

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/prompt/alias"
	"sluice/internal/prompt/chat"
)

// OwnerEmail is the address of the account that the first start creates. No mail can reach it.
const OwnerEmail = "owner@localhost"

// Store keeps accounts. Each method is one transaction.
type Store interface {
	// CreateAccount stores a new account with its master key. It returns fault.Conflict if the
	// address is taken.
	CreateAccount(ctx context.Context, a *Account, e Entry) error
	// ChangeAccount locks the account, calls change with it, and stores the result with the entry
	// that change returns. If the entry has no action or change returns an error, nothing is
	// stored.
	ChangeAccount(ctx context.Context, id string, change func(*Account) (Entry, error)) (*Account, error)
	// FindAccount returns an account by its id, its address or the id of one of its keys, or
	// fault.NotFound.
	FindAccount(ctx context.Context, ref string) (*Account, error)
	// Accounts returns up to limit accounts whose id is greater than after, in order of id.
	Accounts(ctx context.Context, after string, limit int) ([]*Account, error)
	// AuditLog returns up to limit entries of an account, newest first: those before the number before, or the
	// newest if it is 0.
	AuditLog(ctx context.Context, accountID string, before int64, limit int) ([]Entry, error)
	// AuditLogOf does the same for entries with some actions.
	AuditLogOf(ctx context.Context, accountID string, which Actions, before int64, limit int) ([]Entry, error)
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Brand is the prefix of keys, without its dash. Default "service".
	Brand string
	// OnChange is called with every new state of an account before the change returns to its
	// caller. It must not change the account and must be quick. Default: nothing is called.
	OnChange func(*Account)
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Accounts makes the changes that an account can go through. Its methods may be called from several
// goroutines. ref is an account's id, its address or the id of one of its keys; actor is who the
// audit log names.
type Accounts struct {
	store    Store
	brand    string
	onChange func(*Account)
	now      func() time.Time
	order    Order // of every change; see Under
}

// New returns Accounts over a store.
func New(store Store, opts *Options) *Accounts {
	if opts == nil {
		opts = &Options{}
	}
	a := &Accounts{store: store, brand: cmp.Or(opts.Brand, "service"), onChange: opts.OnChange, now: opts.Now}
	if a.onChange == nil { // so that callers need not check
		a.onChange = func(*Account) {}
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a
}

// Create opens an account and returns it with its master key, which is shown here and never again:
// the store keeps only a hash. A plan other than None is granted, without a charge.
func (as *Accounts) Create(ctx context.Context, actor, email string, plan Plan, staff bool) (*Account, string, error) {
	email, err := ParseEmail(email)
	if err != nil {
		return nil, "", err
	}
	now := as.clock()
	master, raw := newKey(as.brand, true, "", now)
	master.CreatedBy = actor
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

// Find returns an account by its id, its address or the id of one of its keys, or fault.NotFound.
func (as *Accounts) Find(ctx context.Context, ref string) (*Account, error) {
	if strings.Contains(ref, "@") {
		ref = strings.ToLower(strings.TrimSpace(ref))
	}
	return as.store.FindAccount(ctx, ref)
}

// List returns at most limit accounts whose id is greater than after, in order of id.
func (as *Accounts) List(ctx context.Context, after string, limit int) ([]*Account, error) {
	return as.store.Accounts(ctx, after, limit)
}

// History returns at most limit entries of the audit log about an account, newest first: those before the number
// before, or the newest if it is 0.
func (as *Accounts) History(ctx context.Context, ref string, before int64, limit int) ([]Entry, error) {
	a, err := as.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return as.store.AuditLog(ctx, a.ID, before, limit)
}

// Actions chooses entries of the audit log by their actions. A name that ends with % stands for all that begin with it.
type Actions struct {
	Of  []string // empty: all
	Not []string
}

// HistoryOf returns at most limit entries of the audit log of an account with some actions, newest first: those before the
// number before, or the newest if it is 0.
func (as *Accounts) HistoryOf(ctx context.Context, id string, which Actions, before int64, limit int) ([]Entry, error) {
	return as.store.AuditLogOf(ctx, id, which, before, limit)
}

// SetPlan grants a plan, without a charge. None takes the current plan away.
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

// SetLimits overrides limits of the account's plan. A field of o that is nil keeps the override
// there is.
func (as *Accounts) SetLimits(ctx context.Context, actor, ref string, o Overrides) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		was := &a.Overrides
		was.RequestsPerMinute = cmp.Or(o.RequestsPerMinute, was.RequestsPerMinute)
		was.Concurrent = cmp.Or(o.Concurrent, was.Concurrent)
		was.TokensPerMinute = cmp.Or(o.TokensPerMinute, was.TokensPerMinute)
		e.Action, e.Detail = "account.set_limits", o.String()
		return nil
	})
}

// ClearLimits removes all overrides, so that the limits of the plan hold again.
func (as *Accounts) ClearLimits(ctx context.Context, actor, ref string) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		a.Overrides = Overrides{}
		e.Action = "account.clear_limits"
		return nil
	})
}

// SetAliases replaces the account's own aliases. No names remove all.
func (as *Accounts) SetAliases(ctx context.Context, actor, ref string, names map[string]string) (*Account, error) {
	table, err := alias.New(names)
	if err == nil && len(names) > MaxAliases {
		err = fmt.Errorf("an account has at most %d aliases of its own; got %d", MaxAliases, len(names))
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "%v", err).At("aliases")
	}
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if a.Aliases.Equal(table) {
			return nil
		}
		a.Aliases = table
		e.Action, e.Detail = "account.set_aliases", excerpt.Of(aliasText(names), maxAliasText)
		return nil
	})
}

// Replies are choices about the replies to an account's calls. What is nil does not change.
type Replies struct {
	ShowCost  *bool // see Account
	Receipts  *bool
	AutoCache *chat.Switch
}

// SetReplies changes what the replies to an account's calls say, whether every call leaves a receipt, and whether what vendors
// are to keep of prompts is marked.
func (as *Accounts) SetReplies(ctx context.Context, actor, ref string, to Replies) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		for _, choice := range []struct {
			name string
			is   *bool
			want *bool
		}{{"show_cost", &a.ShowCost, to.ShowCost}, {"receipts", &a.Receipts, to.Receipts}} {
			if choice.want == nil || *choice.is == *choice.want {
				continue
			}
			if *choice.is = *choice.want; e.Detail != "" {
				e.Detail += ", "
			}
			e.Action = "account.set_replies"
			e.Detail += choice.name + " " + map[bool]string{false: "off", true: "on"}[*choice.want]
		}
		if to.AutoCache != nil && a.AutoCache != *to.AutoCache {
			if a.AutoCache = *to.AutoCache; e.Detail != "" {
				e.Detail += ", "
			}
			e.Action = "account.set_replies"
			e.Detail += "auto_cache " + a.AutoCache.String()
		}
		return nil
	})
}

// MaxAliases is how many aliases of its own an account may have.
const MaxAliases = 100

// maxAliasText bounds what the audit log keeps of a change of aliases, in bytes.
const maxAliasText = 1000

// aliasText returns aliases for the audit log.
func aliasText(names map[string]string) string {
	list := make([]string, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = append(list, name+"="+names[name])
	}
	return strings.Join(list, ", ")
}

// Suspend locks the account: its requests are answered 423 until Unsuspend. To end the subscription
// as well, use billing.Terminate. Suspending twice keeps the first reason.
func (as *Accounts) Suspend(ctx context.Context, actor, ref, reason string) (*Account, error) {
	return as.mark(ctx, actor, ref, "account.suspend", reason, func(a *Account) **Mark { return &a.Suspended })
}

// mark sets a mark of the account, and keeps the one that there is.
func (as *Accounts) mark(ctx context.Context, actor, ref, action, reason string, of func(*Account) **Mark) (*Account, error) {
	reason, err := parseReason(reason)
	if err != nil {
		return nil, err
	}
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if mark := of(a); *mark == nil {
			*mark = &Mark{At: e.At, Reason: reason}
			e.Action, e.Reason = action, reason
		}
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
	return as.mark(ctx, actor, ref, "keys.deactivate", reason, func(a *Account) **Mark { return &a.Deactivated })
}

// Restore takes Deactivate back: the account's keys work again.
func (as *Accounts) Restore(ctx context.Context, actor, ref string) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if a.Deactivated != nil {
			a.Deactivated = nil
			e.Action = "keys.restore"
		}
		return nil
	})
}

// CreateKey adds a sub-key and returns it with its raw text, which is shown here and never again. No other
// sub-key of the account may have the name. Limits may be nil. The calls of the key have the tags.
func (as *Accounts) CreateKey(ctx context.Context, actor, ref, name string, limits *KeyLimits, tags ...string) (*Key, string, error) {
	k, raw, _, err := as.CreateCappedKey(ctx, actor, ref, name, limits, nil, tags...)
	return k, raw, err
}

// CreateCappedKey is CreateKey that also makes a budget, and returns its id: no session of the key may cost more, in nano-dollars. A nil
// amount makes none. The key is never there without its budget.
func (as *Accounts) CreateCappedKey(ctx context.Context, actor, ref, name string, limits *KeyLimits, perSession *int64, tags ...string) (_ *Key, raw, budgetID string, err error) {
	if name, err = ParseKeyName(name); err != nil {
		return nil, "", "", err
	}
	key, raw := newKey(as.brand, false, name, as.clock())
	key.CreatedBy = actor
	if key.Limits, err = limits.check(); err != nil {
		return nil, "", "", err
	}
	if key.Tags, err = checkTags(tags); err != nil {
		return nil, "", "", err
	}
	if err := key.Limits.checkExpiry(nil, key.CreatedAt); err != nil {
		return nil, "", "", err
	}
	var limit Budget
	if perSession != nil {
		limit = sessionBudget(&key, *perSession)
	}
	_, err = as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if a.SubKeys() >= MaxSubKeys {
			return fault.New(fault.Conflict, "the account already has %d sub-keys, the most it may have; delete one first", MaxSubKeys)
		}
		if err := a.free(name, ""); err != nil {
			return err
		}
		a.Keys = append(a.Keys, key)
		e.Action, e.Detail = "key.create", keyDetail(&key)
		if perSession != nil {
			e.Detail += fmt.Sprintf("; each session has the budget %s %q", limit.ID, limit.Name)
			return a.addBudget(limit)
		}
		return nil
	})
	if err != nil {
		return nil, "", "", err
	}
	return &key, raw, limit.ID, nil
}

// keyDetail names a key in the audit log, with its limits and tags.
func keyDetail(k *Key) string {
	text := k.ID + " (" + k.Name + ")"
	if k.Limits != nil {
		text += ": " + excerpt.Of(k.Limits.String(), maxLimitText)
	}
	if len(k.Tags) > 0 {
		text += "; tags " + strings.Join(k.Tags, ", ")
	}
	return text
}

// maxLimitText bounds what the audit log keeps of the limits of a key, in bytes.
const maxLimitText = 1000

// free returns a fault if a sub-key other than the one with the id has the name. Names differ by more than the case
// of their letters, so that people can tell keys apart. Keys that had the same name before this was a rule keep it.
func (a *Account) free(name, id string) error {
	for i := range a.Keys {
		if k := &a.Keys[i]; !k.Master && k.ID != id && strings.EqualFold(k.Name, name) {
			return fault.New(fault.Conflict, "the account already has a key called %q; choose another name", k.Name).At("name")
		}
	}
	return nil
}

// RenameKey changes the display name of a sub-key.
func (as *Accounts) RenameKey(ctx context.Context, actor, keyID, name string) (*Key, error) {
	name, err := ParseKeyName(name)
	if err != nil {
		return nil, err
	}
	return as.changeSubKey(ctx, actor, keyID, func(a *Account, k *Key, e *Entry) error {
		if k.Name != name {
			if err := a.free(name, keyID); err != nil {
				return err
			}
			e.Action, e.Detail = "key.rename", keyID+" ("+k.Name+" to "+name+")"
			k.Name = name
		}
		return nil
	})
}

// LimitKey replaces the limits of a sub-key. Nil removes them.
func (as *Accounts) LimitKey(ctx context.Context, actor, keyID string, limits *KeyLimits) (*Key, error) {
	return as.SetKey(ctx, actor, keyID, limits, nil)
}

// SetKey is LimitKey that also replaces the tags of the key, unless tags is nil.
func (as *Accounts) SetKey(ctx context.Context, actor, keyID string, limits *KeyLimits, tags *[]string) (*Key, error) {
	now := as.clock()
	limits, err := limits.check()
	if err != nil {
		return nil, err
	}
	var set []string
	if tags != nil {
		if set, err = checkTags(*tags); err != nil {
			return nil, err
		}
	}
	return as.changeSubKey(ctx, actor, keyID, func(_ *Account, k *Key, e *Entry) error {
		if err := limits.checkExpiry(k.Limits, now); err != nil {
			return err
		}
		if k.Limits.Text() != limits.Text() {
			k.Limits = limits
			e.Action, e.Detail = "key.set_limits", keyDetail(k)
		}
		if tags != nil && !slices.Equal(k.Tags, set) {
			k.Tags = set
			e.Action, e.Detail = "key.set_limits", keyDetail(k)
		}
		return nil
	})
}

// DeleteKey revokes a sub-key for good. When it returns, the key is refused.
func (as *Accounts) DeleteKey(ctx context.Context, actor, keyID string) error {
	_, err := as.changeSubKey(ctx, actor, keyID, func(a *Account, k *Key, e *Entry) error {
		e.Action, e.Detail = "key.delete", keyID+" ("+k.Name+")"
		a.Keys = slices.DeleteFunc(a.Keys, func(k Key) bool { return k.ID == keyID })
		return nil
	})
	return err
}

// RegenerateMaster replaces the master key and returns the new one, which is shown here and never
// again. When it returns, the old key is refused.
func (as *Accounts) RegenerateMaster(ctx context.Context, actor, ref string) (string, error) {
	master, raw := newKey(as.brand, true, "", as.clock())
	master.CreatedBy = actor
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

// change runs apply inside a transaction of the store, under the lock of the account's row, and
// publishes the result. apply sets the action of the entry if it has changed anything.
func (as *Accounts) change(ctx context.Context, actor, ref string, apply func(*Account, *Entry) error) (*Account, error) {
	found, err := as.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	// The caller may hang up after the commit. The change must still be published, or a deleted key
	// would keep working on this node.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	changed, err := as.store.ChangeAccount(ctx, found.ID, func(a *Account) (Entry, error) {
		// a was read under the lock; found may be out of date by now.
		e := Entry{At: as.clock(), Actor: actor, AccountID: a.ID}
		if err := as.obey(a, &e); err != nil {
			return e, err
		}
		err := apply(a, &e)
		return e, err
	})
	if err != nil {
		as.refresh(ctx, found.ID) // harmless if nothing was stored
		return nil, err
	}
	as.onChange(changed)
	return changed, nil
}

// changeSubKey is change for one sub-key, k of a.Keys, and returns it as it is then. The master key is refused.
func (as *Accounts) changeSubKey(ctx context.Context, actor, keyID string, apply func(a *Account, k *Key, e *Entry) error) (*Key, error) {
	var changed Key
	_, err := as.change(ctx, actor, keyID, func(a *Account, e *Entry) error {
		k := a.Key(keyID)
		if k == nil {
			return fault.New(fault.NotFound, "there is no key %q", excerpt.Of(keyID, maxEcho))
		}
		if k.Master {
			return fault.New(fault.Invalid, "the master key cannot be renamed, limited or deleted; regenerate it instead")
		}
		err := apply(a, k, e)
		changed = *k
		return err
	})
	if err != nil {
		return nil, err
	}
	return &changed, nil
}

// refresh publishes what the store has after a change whose outcome is not known: the commit may
// have succeeded although its answer was lost with the connection.
func (as *Accounts) refresh(ctx context.Context, id string) {
	if a, err := as.store.FindAccount(ctx, id); err == nil {
		as.onChange(a)
	}
}

// clock returns the time to the millisecond, which is what the store keeps.
func (as *Accounts) clock() time.Time { return as.now().UTC().Truncate(time.Millisecond) }

// String returns the overrides as text for the audit log; empty if there are none.
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
