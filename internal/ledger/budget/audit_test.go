package budget_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// charged is a call for the tests of the audit: times are milliseconds from the start of the day.
type charged struct {
	from, to                int64
	reserved, spent, amount price.Nano
	node                    string
	soft                    bool
	period                  int64
}

var day = time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)

// sweep returns what an audit finds in calls.
func sweep(calls []charged) []budget.Overspend {
	var w budget.Sweep
	all := make([]usage.Settlement, len(calls))
	for i, c := range calls {
		charge := usage.Charge{Count: "bud_1", Period: c.period, Reserved: c.reserved, Amount: c.amount, Holder: "node/" + c.node + "/1/1", After: time.Millisecond}
		if c.soft {
			charge.Holder, charge.Reserved, charge.Amount = "", 0, 0
		}
		all[i] = usage.Settlement{
			ID: fmt.Sprint("req_", i), At: day.Add(time.Duration(c.from-1) * time.Millisecond), Latency: time.Duration(c.to-c.from+1) * time.Millisecond,
			Cost: &c.spent, Terms: usage.Terms{Budgets: []usage.Charge{charge}},
		}
	}
	slices.SortStableFunc(all, func(a, b usage.Settlement) int { return a.At.Compare(b.At) })
	for i := range all {
		w.Add(&all[i])
	}
	return w.End()
}

func TestSweep(t *testing.T) {
	t.Parallel()
	const hour = 3_600_000
	r24, r30 := int64(-300_000), int64(-hour)
	for _, test := range []struct {
		name  string
		calls []charged
		over  price.Nano // 0: nothing is found
		at    int64
		names []string
	}{
		{"all of it at once", []charged{{from: 0, to: 100, reserved: 60, spent: 60, amount: 100}, {from: 50, to: 90, reserved: 40, amount: 100}}, 0, 0, nil},
		{"one too many", []charged{{from: 10, to: 100, reserved: 60, amount: 100}, {from: 50, to: 90, reserved: 41, amount: 100}}, 1, 50, []string{"req_0", "req_1"}},
		{"what is given back", []charged{{from: 10, to: 50, reserved: 60, spent: 20, amount: 100}, {from: 50, to: 90, reserved: 80, amount: 100}}, 0, 0, nil},
		{"more than that", []charged{{from: 10, to: 50, reserved: 60, spent: 20, amount: 100}, {from: 60, to: 90, reserved: 83, amount: 100}}, 3, 60, []string{"req_1"}},
		{"before it is given back", []charged{{from: 10, to: 50, reserved: 60, spent: 20, amount: 100}, {from: 40, to: 90, reserved: 80, amount: 100}}, 40, 40, []string{"req_0", "req_1"}},
		{"clocks that differ", []charged{{from: 10, to: 1050, reserved: 60, spent: 20, amount: 100, node: "a"}, {from: 40, to: 2090, reserved: 80, amount: 100, node: "b"}}, 0, 0, nil},
		{"clocks that differ by too much", []charged{{from: 10, to: 3050, reserved: 60, spent: 20, amount: 100, node: "a"}, {from: 40, to: 3090, reserved: 80, amount: 100, node: "b"}}, 40, 40, []string{"req_0", "req_1"}},
		{"the worst of several", []charged{
			{from: 10, to: 900, reserved: 60, amount: 100}, {from: 50, to: 900, reserved: 41, amount: 100}, {from: 60, to: 900, reserved: 7, amount: 100},
		}, 8, 60, []string{"req_0", "req_1", "req_2"}},
		{"an amount that was lowered", []charged{{from: 10, to: 90_000, reserved: 60, amount: 100}, {from: 50_000, to: 90_000, reserved: 1, amount: 50}}, 11, 50_000, []string{"req_0", "req_1"}},
		{"an amount that was raised, which a server has not heard of", []charged{
			{from: 10, to: 90_000, reserved: 60, amount: 100, node: "a"}, {from: 1000, to: 90_000, reserved: 1, amount: 50, node: "b"},
		}, 0, 0, nil},
		{"a call that costs more than it has reserved", []charged{{from: 10, to: 90, reserved: 60, spent: 101, amount: 100}}, 1, 90, []string{"req_0"}},
		{"spent while the budget only warned", []charged{{from: 10, to: 90, spent: 500, soft: true}, {from: 20, to: 90, reserved: 100, amount: 100}}, 0, 0, nil},
		{"after the budget only warned", []charged{{from: 10, to: 90, spent: 99, soft: true}, {from: hour, to: hour + 1, reserved: 2, amount: 100}}, 1, hour, []string{"req_1"}},
		{"within 24 hours", []charged{{from: 10, to: hour, reserved: 60, spent: 60, amount: 100, period: r24}, {from: 25*hour - 1000, to: 26 * hour, reserved: 41, amount: 100, period: r24}}, 1, 25*hour - 1000, []string{"req_1"}},
		{"after 24 hours", []charged{{from: 10, to: hour, reserved: 60, spent: 60, amount: 100, period: r24}, {from: 25 * hour, to: 26 * hour, reserved: 100, amount: 100, period: r24}}, 0, 0, nil},
		{"within 30 days", []charged{{from: 10, to: hour, reserved: 60, spent: 60, amount: 100, period: r30}, {from: 720 * hour, to: 721 * hour, reserved: 41, amount: 100, period: r30}}, 1, 720 * hour, []string{"req_1"}},
		{"after 30 days", []charged{{from: 10, to: hour, reserved: 60, spent: 60, amount: 100, period: r30}, {from: 721 * hour, to: 722 * hour, reserved: 100, amount: 100, period: r30}}, 0, 0, nil},
		{"two periods", []charged{{from: 10, to: 100, reserved: 60, amount: 100, period: 1}, {from: 10, to: 100, reserved: 60, amount: 100, period: 2}}, 0, 0, nil},
	} {
		found := sweep(test.calls)
		if test.over == 0 {
			if len(found) > 0 {
				t.Errorf("%s: found %+v, want nothing", test.name, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Over() != test.over || !found[0].At.Equal(day.Add(time.Duration(test.at)*time.Millisecond)) {
			t.Errorf("%s: found %+v, want %d too much after %d ms", test.name, found, test.over, test.at)
			continue
		}
		slices.Sort(found[0].Requests)
		if diff := cmp.Diff(test.names, found[0].Requests); diff != "" {
			t.Errorf("%s: requests -want +got\n%s", test.name, diff)
		}
	}
}
