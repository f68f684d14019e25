package front

import (
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/upstream/catalog"
)

func TestWorkloadOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query string
		want  Workload
		given bool
	}{
		{"", Workload{}, false},
		{"calls=10000&in=2000&cached=500&out=300", Workload{Calls: 10_000, Input: 2000, Cached: 500, Output: 300}, true},
		{"calls=10%2C000&in=2+000&out=1e3", Workload{Calls: 10_000, Input: 2000, Output: 1000}, true},
		{"calls=5&in=10&cached=11", Workload{Calls: 5, Input: 10, Cached: 10}, true},
		{"calls=-5&in=NaN&out=x", Workload{}, false},
		{"calls=0&in=1", Workload{Input: 1}, false},
		{"calls=1e300&in=Inf&out=99999999999999999999", Workload{Calls: mostCalls, Input: mostTokens, Output: mostTokens}, true},
	} {
		form, err := url.ParseQuery(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		if got, given := workloadOf(form); got != tt.want || given != tt.given {
			t.Errorf("workloadOf(%s) = %+v, %t, want %+v, %t", tt.query, got, given, tt.want, tt.given)
		}
	}
}

// The calculator must say what calls are charged: it is compared with the price of a call by package price, and with sums
// worked out by hand.
func TestEstimate(t *testing.T) {
	t.Parallel()
	list, err := price.Read(strings.NewReader(`{"prices":[
		{"model":"banded","input":3,"cache_read":0.3,"output":15,"above":[{"tokens":200000,"input":6,"cache_read":0.6,"output":22.5}],"tiers":{"batch":0.5}},
		{"model":"uncached","input":0.4,"output":1.6},
		{"model":"vectors","input":0.02},
		{"model":"dear","input":1000000,"output":1000000}]}`))
	if err != nil {
		t.Fatal(err)
	}
	markup, err := price.NewMarkup(0, map[string]price.Factor{"premium": 1_500_000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	book := price.NewBook(list)
	now := time.Now()
	const dollar = 1_000_000_000
	for _, tt := range []struct {
		model  string
		kind   Kind
		reader *Reader
		load   Workload
		// In nano-dollars. A month of -1 is not known.
		call, month price.Nano
		fresh       bool
	}{
		// 1,500 × $3 + 500 × $0.30 + 300 × $15, all per million.
		{"banded", Chat, nil, Workload{1000, 2000, 500, 300, ""}, 9_150_000, 9_150_000_000, false},
		{"banded", Chat, nil, Workload{1000, 2000, 500, 300, "batch"}, 4_575_000, 4_575_000_000, false},
		{"banded", Chat, nil, Workload{1000, 2000, 500, 300, "gold"}, 0, -1, false},
		// One token more, and the whole call has the prices of long prompts.
		{"banded", Chat, nil, Workload{1, 200_000, 0, 0, ""}, 600_000_000, 600_000_000, false},
		{"banded", Chat, nil, Workload{1, 200_001, 0, 0, ""}, 1_200_006_000, 1_200_006_000, false},
		{"banded", Chat, &Reader{Plan: account.Premium}, Workload{1000, 2000, 500, 300, ""}, 13_725_000, 13_725_000_000, false},
		{"banded", Chat, &Reader{Plan: account.Basic}, Workload{1000, 2000, 500, 300, ""}, 9_150_000, 9_150_000_000, false},
		// Tokens of a cache have no price of their own.
		{"uncached", Chat, nil, Workload{10, 1000, 400, 0, ""}, 400_000, 4_000_000, true},
		{"vectors", Embedding, nil, Workload{7, 500, 100, 100, ""}, 10_000, 70_000, false},
		{"vectors", Chat, nil, Workload{7, 500, 0, 100, ""}, 0, -1, false},
		{"dear", Chat, nil, Workload{10, 1_000_000, 0, 0, ""}, 1_000_000 * dollar, 10_000_000 * dollar, false},
		{"dear", Chat, nil, Workload{mostCalls, mostTokens, 0, mostTokens, ""}, 0, -1, false},
		{"unpriced", Chat, nil, Workload{1, 1, 0, 1, ""}, 0, -1, false},
	} {
		m := newModel(&catalog.Model{ID: tt.model, Price: book.Find(tt.model, "", ""), Markup: markup}, tt.kind, tt.reader, now)
		got := m.Estimate(tt.load, now)
		if got.Known != (tt.month >= 0) || got.Known && (got.Call != tt.call || got.Month != tt.month || got.Fresh != tt.fresh) {
			t.Errorf("Estimate(%s, %+v) = %+v, want %d a call and %d a month, fresh %t", tt.model, tt.load, got, tt.call, tt.month, tt.fresh)
		}
		if !got.Known {
			continue
		}
		var paid price.Nano
		for _, l := range got.Lines {
			paid += price.Nano(math.Round(float64(l.Count) * float64(l.Rate) / 1e6 * float64(l.Factor) / 1e6))
		}
		if paid != got.Call {
			t.Errorf("the lines of %s, %+v, add up to %d, want %d", tt.model, tt.load, paid, got.Call)
		}
	}
}
