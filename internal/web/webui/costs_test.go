package webui

import (
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
		{costs.SumsReply{Requests: 2, Cost: "0", Unpriced: 1}, "unpriced"},
		{costs.SumsReply{Requests: 2, Cost: "0.000000001", Unpriced: 1}, "$0.000000001"},
	} {
		if got := sumCost(&test.sums); got != test.want {
			t.Errorf("sumCost(%+v) = %s, want %s", test.sums, got, test.want)
		}
	}
}
