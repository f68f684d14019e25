package budget_test

import (
	"slices"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
)

func TestMarks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want []int }{
		{nil, []int{50, 80, 100}},
		{[]int{}, []int{}},
		{[]int{90, 10, 90}, []int{10, 90}},
	} {
		b := &account.Budget{Marks: slices.Clone(tt.in)}
		if got := budget.Marks(b); !slices.Equal(got, tt.want) || !slices.Equal(b.Marks, tt.in) {
			t.Errorf("Marks(%v) = %v, want %v; the budget has %v after it", tt.in, got, tt.want, b.Marks)
		}
	}
}

// What Title writes of a session, SessionOf finds again.
func TestTitle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, session, want string }{
		{"team", "", `80% of the budget "team" is spent`},
		{"team", "s1", `Session s1 has used 80% of the budget "team"`},
		{`the "large" one of the budget `, "run 2", `Session run 2 has used 80% of the budget "the \"large\" one of the budget "`},
	} {
		p := budget.Passed{Due: budget.Due{Budget: &account.Budget{Name: tt.name}, Session: tt.session}, Percent: 80}
		got := p.Title()
		session, name, ok := budget.SessionOf(got)
		if got != tt.want || session != tt.session || ok != (tt.session != "") || ok && name != tt.name {
			t.Errorf("Title = %q, want %q; SessionOf = %q, %q, %t", got, tt.want, session, name, ok)
		}
	}
	for _, title := range []string{"", "Session ", "Session s1 has used nothing", "Your account is suspended"} {
		if session, _, ok := budget.SessionOf(title); ok {
			t.Errorf("SessionOf(%q) = %q, want none", title, session)
		}
	}
}

func TestReached(t *testing.T) {
	t.Parallel()
	base := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	told := func(percents ...int) (all []budget.Told) {
		for _, p := range percents {
			all = append(all, budget.Told{Percent: p, At: base})
		}
		return all
	}
	of := func(spent, amount price.Nano) budget.Level { return budget.Level{Amount: amount, Spent: spent} }
	rolling := func(spent, before price.Nano, part time.Time) budget.Level {
		return budget.Level{Amount: 100, Spent: spent, Before: before, Part: part}
	}
	for _, tt := range []struct {
		name      string
		told      []budget.Told
		level     budget.Level
		due, over []int
	}{
		{name: "nothing spent", level: of(0, 100)},
		{name: "less than the first", level: of(49, 100)},
		{name: "the first, exactly", level: of(50, 100), due: []int{50}},
		{name: "a part of a nano less", level: of(50, 101)},
		{name: "rounded up", level: of(51, 101), due: []int{50}},
		{name: "all at once", level: of(100, 100), due: []int{50, 80, 100}},
		{name: "far beyond", level: of(1<<62, account.MaxBudget), due: []int{50, 80, 100}},
		{name: "the largest amount", level: of(account.MaxBudget, 2*account.MaxBudget), due: []int{50}},
		{name: "told", told: told(50), level: of(79, 100)},
		{name: "the next one", told: told(50), level: of(80, 100), due: []int{80}},
		{name: "all told", told: told(50, 80, 100), level: of(300, 100)},
		{name: "the amount was raised", told: told(50, 80, 100), level: of(100, 200), over: []int{80, 100}},
		{name: "nothing may be spent", level: of(1, 0), due: []int{50, 80, 100}},
		{name: "nothing may be spent, and nothing is", level: of(0, 0)},
		{name: "a mark that the budget no longer has", told: told(10), level: of(5, 100)},
		{name: "rolling: told, and never less since", told: told(50), level: rolling(60, 55, base.Add(time.Minute)), over: nil},
		{name: "rolling: less before the newest part", told: told(50), level: rolling(60, 40, base.Add(time.Minute)), due: []int{50}, over: []int{50}},
		{name: "rolling: told in the newest part", told: told(50), level: rolling(60, 40, base.Add(-time.Minute))},
		{name: "rolling: less now", told: told(50, 80), level: rolling(60, 60, base.Add(-time.Minute)), over: []int{80}},
		{name: "rolling: one of two", told: told(50, 80), level: rolling(90, 60, base.Add(time.Minute)), due: []int{80}, over: []int{80}},
	} {
		due, over := budget.Reached(account.DefaultMarks(), tt.told, tt.level)
		var gone []int
		for _, o := range over {
			gone = append(gone, o.Percent)
		}
		if !slices.Equal(due, tt.due) || !slices.Equal(gone, tt.over) {
			t.Errorf("%s: Reached = %v, %v, want %v, %v", tt.name, due, gone, tt.due, tt.over)
		}
	}
}
