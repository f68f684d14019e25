package budget

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
)

// Desk reads and changes the budgets of accounts for programs and operators.
type Desk struct {
	Accounts *account.Accounts
	// Ledger knows how budgets stand. If nil, nobody does, and records have no figures.
	Ledger *Ledger
	// Flush stores what calls have cost that have just ended, if that can be done quickly. May be nil.
	Flush func(ctx context.Context)
}

// Record is a budget as the API, the admin API and the command line show it. Amounts are dollars.
type Record struct {
	ID       string              `json:"id"`
	Object   string              `json:"object"` // "budget"
	Name     string              `json:"name"`
	Amount   string              `json:"amount"`
	Window   account.Window      `json:"window"`
	Timezone string              `json:"timezone"`
	Scope    account.BudgetScope `json:"scope"`
	Hard     bool                `json:"hard"`
	Marks    []int               `json:"marks"`
	// Spent, Reserved and Left are nil for a budget of each session, since every session has its own.
	Spent    *string `json:"spent"`
	Reserved *string `json:"reserved"`
	Left     *string `json:"left"`
	// ResetsAt is nil if the window rolls or never ends.
	ResetsAt  *time.Time `json:"resets_at"`
	CreatedAt time.Time  `json:"created_at"`
}

// Percent returns how much of the amount is spent, rounded down, and whether that is known.
func (r *Record) Percent() (percent int64, known bool) {
	if r.Spent == nil {
		return 0, false
	}
	spent, err1 := price.Parse(*r.Spent)
	amount, err2 := price.Parse(r.Amount)
	if err1 != nil || err2 != nil || amount == 0 {
		return 100, err1 == nil && err2 == nil // of nothing, everything is spent
	}
	return int64(spent) * 100 / int64(amount), true
}

// Change is what is given of a budget that is made or changed. What is nil stays as it is.
type Change struct {
	Name     *string
	Amount   *price.Nano
	Window   *account.Window
	Timezone *string
	Scope    *account.BudgetScope // of a new budget only
	Hard     *bool
	Marks    []int // empty: nobody is told
}

// apply changes a budget.
func (c *Change) apply(b *account.Budget) {
	set(&b.Name, c.Name)
	set(&b.Window, c.Window)
	set(&b.Timezone, c.Timezone)
	set(&b.Hard, c.Hard)
	if c.Amount != nil {
		b.Amount = int64(*c.Amount)
	}
	if c.Marks != nil {
		b.Marks = slices.Compact(slices.Sorted(slices.Values(c.Marks)))
		if b.Marks == nil {
			b.Marks = []int{}
		}
	}
}

func set[T any](to, given *T) {
	if given != nil {
		*to = *given
	}
}

// List returns the budgets of an account, the oldest first, and how they stand.
func (d *Desk) List(ctx context.Context, a *account.Account) ([]Record, error) {
	budgets := make([]*account.Budget, len(a.Budgets))
	for i := range a.Budgets {
		budgets[i] = &a.Budgets[i]
	}
	return d.records(ctx, a, budgets)
}

// One returns a budget of an account.
func (d *Desk) One(ctx context.Context, a *account.Account, id string) (Record, error) {
	b := a.Budget(id)
	if b == nil {
		return Record{}, account.NoBudget()
	}
	list, err := d.records(ctx, a, []*account.Budget{b})
	if err != nil {
		return Record{}, err
	}
	return list[0], nil
}

// Create adds a budget to an account.
func (d *Desk) Create(ctx context.Context, order account.Order, actor, ref string, c Change) (Record, error) {
	if c.Amount == nil {
		return Record{}, fault.New(fault.Invalid, "amount is required: %s", AmountRule).At("amount")
	}
	b := account.Budget{ID: account.NewBudgetID(), Hard: true, CreatedAt: time.Now().UTC().Truncate(time.Millisecond)}
	c.apply(&b)
	if c.Scope != nil {
		b.Scope = *c.Scope
	}
	if _, err := d.Accounts.Under(order).SetBudget(ctx, actor, ref, b); err != nil {
		return Record{}, err
	}
	// Nothing was spent of a new budget. So a database that fails now does not hide that there is one.
	r := recordOf(&b)
	if d.Ledger != nil && b.Scope.Session == "" {
		r.stand(Status{Left: price.Nano(b.Amount)})
	}
	return r, nil
}

// Change changes a budget of an account.
func (d *Desk) Change(ctx context.Context, order account.Order, actor, ref, id string, c Change) (Record, error) {
	if c.Scope != nil {
		return Record{}, fault.New(fault.Invalid, "The scope of a budget does not change. Make another budget, and delete this one.").At("scope")
	}
	a, err := d.Accounts.Under(order).ChangeBudget(ctx, actor, ref, id, c.apply)
	if err != nil {
		return Record{}, err
	}
	return d.One(ctx, a, id)
}

// Delete removes a budget of an account.
func (d *Desk) Delete(ctx context.Context, order account.Order, actor, ref, id string) error {
	_, err := d.Accounts.Under(order).DeleteBudget(ctx, actor, ref, id)
	return err
}

// AmountRule says how amounts are written.
const AmountRule = `a string of dollars from "0" to "1000000" with at most nine decimals, such as "12.50".`

// ParseAmount reads an amount in dollars. The error is a fault.
func ParseAmount(text string) (*price.Nano, error) {
	n, err := price.Parse(text)
	if err != nil || n > account.MaxBudget {
		return nil, fault.New(fault.Invalid, "amount must be %s", AmountRule).At("amount")
	}
	return &n, nil
}

// records returns budgets of an account and how they stand.
func (d *Desk) records(ctx context.Context, a *account.Account, budgets []*account.Budget) ([]Record, error) {
	list := make([]Record, len(budgets))
	var dues []Due
	var at []int // their places in the list
	for i, b := range budgets {
		list[i] = recordOf(b)
		if b.Scope.Session == "" {
			dues, at = append(dues, Due{Budget: b}), append(at, i)
		}
	}
	if d.Ledger == nil || len(dues) == 0 {
		return list, nil
	}
	if d.Flush != nil {
		d.Flush(ctx)
	}
	all, err := d.Ledger.Statuses(ctx, a, dues)
	if err != nil {
		return nil, err
	}
	for i, s := range all {
		list[at[i]].stand(s)
	}
	return list, nil
}

// recordOf returns what is known of a budget without its figures.
func recordOf(b *account.Budget) Record {
	r := Record{
		ID: b.ID, Object: "budget", Name: b.Name, Amount: price.Nano(b.Amount).String(), Window: b.Window, Timezone: cmp.Or(b.Timezone, "UTC"),
		Scope: b.Scope, Hard: b.Hard, Marks: b.Marks, CreatedAt: b.CreatedAt,
	}
	if r.Marks == nil {
		r.Marks = account.DefaultMarks()
	}
	if _, until := b.Period(time.Now()); !until.IsZero() {
		until = until.UTC()
		r.ResetsAt = &until
	}
	return r
}

// stand fills in the figures.
func (r *Record) stand(s Status) {
	spent, reserved, left := s.Spent.String(), s.Reserved.String(), s.Left.String()
	r.Spent, r.Reserved, r.Left = &spent, &reserved, &left
}
