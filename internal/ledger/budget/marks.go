package budget

import (
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
)

// Told is a mark of which somebody was told.
type Told struct {
	Percent int
	At      time.Time
}

// Level is how much of a count is spent when somebody looks at its marks.
type Level struct {
	Amount price.Nano // with what was added to it
	Spent  price.Nano
	// Part is when the newest part of a window that rolls began, and Before what the window had then. Part is zero for others.
	Part   time.Time
	Before price.Nano
}

// Marks returns the percentages of a budget at which people are told, in their order and each once.
func Marks(b *account.Budget) []int {
	marks := slices.Clone(b.Marks)
	if b.Marks == nil {
		marks = account.DefaultMarks()
	}
	slices.Sort(marks)
	return slices.Compact(marks)
}

// Reached returns the marks that people must be told of now, and those of which they were told and that hold no longer. A mark is
// told again only if less was spent in between: of a window that rolls, or because somebody has raised the amount. Marks that are
// told again are in both lists.
func Reached(marks []int, told []Told, l Level) (due []int, over []Told) {
	for _, m := range marks {
		at := slices.IndexFunc(told, func(t Told) bool { return t.Percent == m })
		switch {
		case !passes(l.Spent, m, l.Amount):
			if at >= 0 {
				over = append(over, told[at])
			}
		case at < 0:
			due = append(due, m)
		case told[at].At.Before(l.Part) && !passes(l.Before, m, l.Amount):
			due, over = append(due, m), append(over, told[at])
		}
	}
	return due, over
}

// passes reports whether so much is at least the percentage of an amount. Any spending passes all marks of nothing.
func passes(spent price.Nano, percent int, amount price.Nano) bool {
	// Amounts are bounded, so this cannot overflow; what is spent of a budget that only warns is not.
	return spent > 0 && spent >= (max(0, amount)*price.Nano(percent)+99)/100
}
