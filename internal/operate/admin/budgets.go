package admin

import (
	"context"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/runaway"
)

// BudgetOrder is the argument of budget.set. Without an id it makes a budget; with one it changes what is given of the budget, but
// never its scope.
type BudgetOrder struct {
	Actor string `json:"actor"`
	Ref   string `json:"ref"`
	ID    string `json:"id,omitempty"`

	Name     *string              `json:"name,omitempty"`
	Amount   *string              `json:"amount,omitempty"` // dollars
	Window   *account.Window      `json:"window,omitempty"`
	Timezone *string              `json:"timezone,omitempty"`
	Scope    *account.BudgetScope `json:"scope,omitempty"`
	Hard     *bool                `json:"hard,omitempty"`
	Marks    []int                `json:"marks,omitzero"`
	// Reason and Version are those of Target.
	Reason  string `json:"reason,omitempty"`
	Version int64  `json:"version,omitempty"`
}

// BudgetRef is the argument of budget.delete.
type BudgetRef struct {
	Actor string `json:"actor"`
	Ref   string `json:"ref"`
	ID    string `json:"id"`
	// Reason and Version are those of Target.
	Reason  string `json:"reason,omitempty"`
	Version int64  `json:"version,omitempty"`
}

// DeletedBudget is the result of budget.delete.
type DeletedBudget struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

// budgetList returns the budgets of an account, which are few; it takes the cursor of every list.
func (b *Backend) budgetList(ctx context.Context, in AccountPage) (List[budget.Record], error) {
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return List[budget.Record]{}, err
	}
	all, err := b.Budgets.List(ctx, a)
	return part(all, in.Cursor, func(r budget.Record) string { return r.ID }), err
}

// budgetSet makes or changes a budget.
func (b *Backend) budgetSet(ctx context.Context, in BudgetOrder) (budget.Record, error) {
	if err := needReason(ctx, in.Reason); err != nil {
		return budget.Record{}, err
	}
	c := budget.Change{Name: in.Name, Window: in.Window, Timezone: in.Timezone, Scope: in.Scope, Hard: in.Hard, Marks: in.Marks}
	if in.Amount != nil {
		amount, err := budget.ParseAmount(*in.Amount)
		if err != nil {
			return budget.Record{}, err
		}
		c.Amount = amount
	}
	order := account.Order{Reason: in.Reason, Version: in.Version}
	if in.ID == "" {
		return b.Budgets.Create(ctx, order, in.Actor, in.Ref, c)
	}
	return b.Budgets.Change(ctx, order, in.Actor, in.Ref, in.ID, c)
}

// budgetDelete deletes a budget.
func (b *Backend) budgetDelete(ctx context.Context, in BudgetRef) (DeletedBudget, error) {
	if err := needReason(ctx, in.Reason); err != nil {
		return DeletedBudget{}, err
	}
	err := b.Budgets.Delete(ctx, account.Order{Reason: in.Reason, Version: in.Version}, in.Actor, in.Ref, in.ID)
	return DeletedBudget{in.ID, err == nil}, err
}

// WatchOrder is the argument of budget.watch. What is nil does not change; if nothing is given, the reply says how it is.
type WatchOrder struct {
	Actor string `json:"actor"`
	Ref   string `json:"ref"`

	OnRunaway *account.OnRunaway `json:"on_runaway,omitempty"`
	Factor    *int               `json:"factor,omitempty"`
	// Reason and Version are those of Target.
	Reason  string `json:"reason,omitempty"`
	Version int64  `json:"version,omitempty"`
}

// KeyToResume is the argument of budget.resume.
type KeyToResume struct {
	Actor string `json:"actor"`
	Ref   string `json:"ref"`
	Key   string `json:"key"` // its id
	// Reason and Version are those of Target.
	Reason  string `json:"reason,omitempty"`
	Version int64  `json:"version,omitempty"`
}

// budgetWatch changes what is done about programs of an account that run away.
func (b *Backend) budgetWatch(ctx context.Context, in WatchOrder) (runaway.Record, error) {
	if in.OnRunaway != nil || in.Factor != nil {
		if err := needReason(ctx, in.Reason); err != nil {
			return runaway.Record{}, err
		}
	}
	return watchOf(b.Accounts.Under(account.Order{Reason: in.Reason, Version: in.Version}).SetRunaway(ctx, in.Actor, in.Ref, in.OnRunaway, in.Factor))
}

// budgetResume lets the calls of a paused key pass again.
func (b *Backend) budgetResume(ctx context.Context, in KeyToResume) (runaway.Record, error) {
	if err := needReason(ctx, in.Reason); err != nil {
		return runaway.Record{}, err
	}
	return watchOf(b.Accounts.Under(account.Order{Reason: in.Reason, Version: in.Version}).ResumeKey(ctx, in.Actor, in.Ref, in.Key))
}

// watchOf returns the record of an account that was changed.
func watchOf(a *account.Account, err error) (runaway.Record, error) {
	if err != nil {
		return runaway.Record{}, err
	}
	return runaway.RecordOf(a), nil
}
