package dashboard

import (
	"testing"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/catalog"
)

// The comparison names the best and the cheapest model that the visitor may call and that has a price.
func TestCompare(t *testing.T) {
	t.Parallel()
	made := func(id string, plan account.Plan, dollars int64, quality uint8) catalog.Model {
		m := catalog.Model{ID: id, Plan: plan, ContextLength: 1000, MaxOutput: 100, Provider: "p", Upstream: id}
		if dollars > 0 {
			m.Price = price.Flat(price.Rate(dollars)*1_000_000_000, price.Rate(dollars)*4_000_000_000)
		}
		for t := range m.Quality {
			m.Quality[t] = quality
		}
		return m
	}
	// The large model costs more for long prompts. No call has one, only all of them together.
	large, err := price.Sealed(price.Entry{Model: "large", Rates: price.Of(5_000_000_000, 20_000_000_000), Bands: []price.Band{{Above: 400, Rates: price.Of(50_000_000_000, 200_000_000_000)}}})
	if err != nil {
		t.Fatal(err)
	}
	dear := made("large", account.Basic, 5, 90)
	dear.Price = price.NewBook([]*price.Entry{large}).Find("large", "", "")
	list, err := catalog.New([]catalog.Model{
		catalog.Router("service"), made("small", account.Free, 1, 50), dear, made("largest", account.Premium, 9, 99), made("unpriced", account.Free, 0, 95),
	})
	if err != nil {
		t.Fatal(err)
	}
	v := routingView{Total: usage.Routed{Calls: 3, Priced: 3, Prompt: 1000, Completion: 500, Cost: 7_000_000}}
	v.compare(list, &visitor{Account: &account.Account{Plan: account.Basic}})
	if v.Best != "large" || v.BestCost != 15_000_000 || v.Cheapest != "small" || v.CheapestCost != 3_000_000 {
		t.Errorf("compare = %s at %d and %s at %d, want large at 15000000 and small at 3000000", v.Best, v.BestCost, v.Cheapest, v.CheapestCost)
	}
	if got := difference(v.BestCost, v.Total.Cost); got != "$0.008 more" {
		t.Errorf("difference(15000, 7000) = %q, want $0.008 more", got)
	}
	if got := difference(v.CheapestCost, v.Total.Cost); got != "$0.004 less" {
		t.Errorf("difference(3000, 7000) = %q, want $0.004 less", got)
	}
}
