package moving

import (
	"math"
	"strconv"
	"strings"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
)

// Budget is a budget to make for an account or a key.
type Budget struct {
	Amount price.Nano     `json:"amount_nano"`
	Window account.Window `json:"window"`
	Hard   bool           `json:"hard"`
}

// String says what the budget allows.
func (b Budget) String() string {
	text := "$" + b.Amount.String() + map[account.Window]string{account.Daily: " a day", account.Weekly: " a week", account.Monthly: " a month", account.Total: " in all"}[b.Window]
	if !b.Hard {
		text += " (warns)"
	}
	return text
}

// liteLLMBudgets returns the budgets of a key, a team or a user, whose columns pick finds.
func liteLLMBudgets(pick func(key string) *value) (all []Budget) {
	duration, spend := pick("budget_duration"), pick("spend")
	for _, column := range []struct {
		name string
		hard bool
	}{{"max_budget", true}, {"soft_budget", false}} {
		dollars, ok := pick(column.name).number()
		if !ok || dollars < 0 {
			continue
		}
		window, share, ok := windowOf(duration.String())
		if !ok {
			continue // the report says so
		}
		if spent, ok := spend.number(); ok && window == account.Total {
			dollars = math.Max(0, dollars-spent)
			spend.changed("what is spent is taken from the budget that is for ever")
		}
		b := Budget{Window: window, Hard: column.hard, Amount: nano(dollars * share)}
		pick(column.name).changed("a budget of " + b.String() + "; what was spent in this window does not count")
		duration.changed("the window of the budget")
		all = append(all, b)
	}
	return all
}

// nano returns an amount of dollars, no larger than a budget can have.
func nano(dollars float64) price.Nano {
	return price.Nano(math.Min(math.Floor(dollars*1e9), account.MaxBudget))
}

// windowOf returns the window for a duration such as 30d or 1mo, and which share of an amount for the duration belongs in it: the
// longest window that is not longer, so that nobody can spend more here. A duration of less than a day becomes a day with the whole
// amount. No duration is for ever.
func windowOf(duration string) (window account.Window, share float64, ok bool) {
	if duration == "" {
		return account.Total, 1, true
	}
	days := durationDays(duration)
	switch {
	case days == 0:
		return "", 0, false
	case days >= 30:
		return account.Monthly, 30 / days, true
	case days >= 7:
		return account.Weekly, 7 / days, true
	case days >= 1:
		return account.Daily, 1 / days, true
	}
	return account.Daily, 1, true
}

// durationDays returns how many days a duration such as 30d or 1mo has, or 0 if it is none.
func durationDays(text string) float64 {
	for _, unit := range []struct {
		name string
		days float64
	}{{"mo", 30}, {"s", 1.0 / 86400}, {"m", 1.0 / 1440}, {"h", 1.0 / 24}, {"d", 1}, {"w", 7}} {
		if head, ok := strings.CutSuffix(text, unit.name); ok {
			n, err := strconv.ParseFloat(head, 64)
			if err == nil && n > 0 && n < 1e6 {
				return n * unit.days
			}
		}
	}
	return 0
}

// quotaPerDollar is how much quota a dollar is in new-api and one-api, unless somebody has changed their setting.
const quotaPerDollar = 500_000

// quota returns what is left of a prepaid quota as a budget; nil if there is none.
func quota(left *value) []Budget {
	n, ok := left.number()
	if !ok {
		return nil
	}
	b := Budget{Amount: nano(math.Max(0, n) / quotaPerDollar), Window: account.Total, Hard: true}
	left.changed("a budget of " + b.String() + ", if 500,000 of quota are a dollar there")
	return []Budget{b}
}
