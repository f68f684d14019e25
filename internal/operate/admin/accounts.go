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
	// By is what the accounts are ordered by: "created", which is also the default, "email", "plan", or "requests" or "cost" of the last
	// 30 days. Reverse turns the order round: the newest account and the highest figure are first, and "a" in that of "email".
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

// usedOrders are the orders of the list that need what every account has used.
var usedOrders = map[string]func(s *usage.Sums) int64{
	"requests": func(s *usage.Sums) int64 { return s.Requests },
	"cost":     func(s *usage.Sums) int64 { return int64(s.Cost) },
}

// accountOrders are the other orders. An account comes before another one if its texts do.
var accountOrders = map[string]func(a, b *account.Account) int{
	"created": func(a, b *account.Account) int { return b.CreatedAt.Compare(a.CreatedAt) },
	"email":   func(a, b *account.Account) int { return strings.Compare(a.Email, b.Email) },
	"plan": func(a, b *account.Account) int {
		return cmp.Or(cmp.Compare(a.Plan, b.Plan), strings.Compare(a.Email, b.Email))
	},
}

// accountBrowse returns a page of all accounts in an order. It looks at each account in memory and keeps those of the page.
func (b *Backend) accountBrowse(ctx context.Context, in AccountQuery) (Accounts, error) {
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
	order, err := b.accountOrder(ctx, cmp.Or(in.By, "created"))
	if err != nil {
		return Accounts{}, err
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

// accountOrder returns an order of the list. One by figures adds up the usage of all accounts.
func (b *Backend) accountOrder(ctx context.Context, by string) (func(x, y *account.Account) int, error) {
	if order := accountOrders[by]; order != nil {
		return order, nil
	}
	figure := usedOrders[by]
	if figure == nil {
		return nil, fault.New(fault.Invalid, "accounts have no order %q", by).At("by")
	}
	all := 0
	b.Everyone(func(*account.Account) { all++ })
	if all > mostSummed {
		return nil, fault.New(fault.Invalid, "there are more than %d accounts, too many to order by what they have used; choose another order", mostSummed).At("by")
	}
	sums, err := b.Evidence.UsageOf(ctx, listedFrom())
	return func(x, y *account.Account) int {
		of, than := sums[x.ID], sums[y.ID]
		return cmp.Compare(figure(&than), figure(&of))
	}, err
}

// mostSummed is how many accounts the list adds up the usage of: 50,000 accounts have up to 1,500,000 rows in 30 days.
const mostSummed = 50_000

// listedFrom returns the first day of the usage in the list.
func listedFrom() time.Time { return usage.DayOf(time.Now()).AddDate(0, 0, 1-listedDays) }

// addUsage adds what the accounts of a page have used.
func (b *Backend) addUsage(ctx context.Context, out *Accounts) error {
	out.Usage = map[string]UsageSums{}
	if len(out.Data) == 0 {
		return nil
	}
	ids := views(out.Data, func(a *Account) string { return a.ID })
	sums, err := b.Evidence.UsageOf(ctx, listedFrom(), ids...)
	if err != nil {
		return err
	}
	for id, s := range sums {
		out.Usage[id] = viewSums(s)
	}
	return nil
}
