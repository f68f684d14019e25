package webui

import (
	"encoding/json"
	"testing"

	"sluice/internal/ledger/costs"
)

// A sum without any price is not shown as nothing.
func TestSumCost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sums costs.SumsReply
		want string
	}{
		{costs.SumsReply{Requests: 2, Cost: "0"}, "$0.00"},
		{costs.SumsReply{Requests: 2, Cost: "0", Unpriced: 1}, "no price"},
		{costs.SumsReply{Requests: 2, Cost: "0.000000001", Unpriced: 1}, "$0.000000001"},
	} {
		if got := sumCost(&test.sums); got != test.want {
			t.Errorf("sumCost(%+v) = %s, want %s", test.sums, got, test.want)
		}
	}
}

// Models stand by cost, which is a number and not a text.
func TestModelsByCost(t *testing.T) {
	t.Parallel()
	row := func(model, cost string) costs.RowReply {
		return costs.RowReply{Model: model, SumsReply: costs.SumsReply{Cost: json.Number(cost)}}
	}
	c := &Costs{Reply: &costs.Reply{Models: []costs.RowReply{row("a", "9.5"), row("b", "10.25"), row("c", "0"), row("d", "0.044")}}}
	order := ""
	for _, r := range c.byCost() {
		order += r.Model
	}
	if order != "badc" || c.Models[0].Model != "a" {
		t.Errorf("byCost() = %s, and the reply begins with %s, want badc and a", order, c.Models[0].Model)
	}
}
