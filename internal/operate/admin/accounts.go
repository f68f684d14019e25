package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
)

// AccountQuery asks the console's list of accounts for a page.
type AccountQuery struct {
	// Plan and Status leave out all others, unless they are empty.
	Plan, Status string
	// By is what the accounts are ordered by: "created", which is also the default, "email" or "plan". Reverse turns the order
	// round: the newest account is first in that of "created", and "a" in that of "email".
	By      string
	Reverse bool
	Cursor
}

// Accounts is a page of the list. Count is how many accounts there are with this plan and status.
type Accounts struct {
	List[Account]
	Count int
	// Usage is what those of the page have used in the last 30 days, by their ids. Accounts that have used nothing are not in it.
	Usage map[string]UsageSums
}

// listedDays is how many days of usage the list has, today included.
const listedDays = 30

// AccountStatuses returns the statuses that an account can have.
func AccountStatuses() []string { return []string{"active", "deactivated", "suspended", "terminated"} }

// accountOrders are the orders of the list. An account comes before another one if its texts do.
var accountOrders = map[string]func(a, b *account.Account) int{
	"created": func(a, b *account.Account) int { return b.CreatedAt.Compare(a.CreatedAt) },
	"email":   func(a, b *account.Account) int { return strings.Compare(a.Email, b.Email) },
	"plan": func(a, b *account.Account) int {
		return cmp.Or(cmp.Compare(a.Plan, b.Plan), strings.Compare(a.Email, b.Email))
	},
}

// accountBrowse returns a page of all accounts in an order. It looks at each account in memory and keeps those of the page.
func (b *Backend) accountBrowse(ctx context.Context, in AccountQuery) (Accounts, error) {
	order := accountOrders[cmp.Or(in.By, "created")]
	if order == nil {
		return Accounts{}, fault.New(fault.Invalid, "accounts have no order %q", in.By).At("by")
	}
	if in.Status != "" && !slices.Contains(AccountStatuses(), in.Status) {
		return Accounts{}, fault.New(fault.Invalid, "accounts have no status %q", in.Status).At("status")
	}
	plan, err := parsePlan(in.Plan)
	if err != nil {
		return Accounts{}, err
	}
	if b.Everyone == nil {
		return Accounts{}, noServer()
	}
	compare := func(x, y *account.Account) int {
		by := order(x, y)
		if in.Reverse {
			by = -by
		}
		return cmp.Or(by, strings.Compare(x.ID, y.ID))
	}
	var last *account.Account // of the page before
	if in.After != "" {
		if last, err = b.Accounts.Find(ctx, in.After); err != nil {
			return Accounts{}, err
		}
	}
	limit, out := in.limit(), Accounts{}
	var page []*account.Account
	b.Everyone(func(a *account.Account) {
		if in.Plan != "" && a.Plan != plan || in.Status != "" && accountStatus(a) != in.Status {
			return
		}
		out.Count++
		if last != nil && compare(a, last) <= 0 {
			return
		}
		// One more than the page has says that there is another one.
		if at, _ := slices.BinarySearchFunc(page, a, compare); at <= limit {
			page = slices.Insert(page, at, a)
			page = page[:min(len(page), limit+1)]
		}
	})
	if len(page) > limit {
		page = page[:limit]
		out.Next = page[limit-1].ID
	}
	out.Data = views(page, func(a **account.Account) Account { return b.view(*a) })
	err = b.addUsage(ctx, &out)
	return out, err
}

// addUsage adds what the accounts of a page have used.
func (b *Backend) addUsage(ctx context.Context, out *Accounts) error {
	ids := views(out.Data, func(a *Account) string { return a.ID })
	sums, err := b.Evidence.UsageOf(ctx, usage.DayOf(time.Now()).AddDate(0, 0, 1-listedDays), ids...)
	if err != nil {
		return err
	}
	out.Usage = map[string]UsageSums{}
	for id, s := range sums {
		out.Usage[id] = viewSums(s)
	}
	return nil
}
