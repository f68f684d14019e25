package usage_test

import (
	"math/rand/v2"
	"testing"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	var none usage.Spread
	if ms, ok := none.Percentile(50); ok {
		t.Errorf("Percentile of nothing = %d, want none", ms)
	}
	for _, tt := range []struct {
		calls []int64
		p     int64
		want  int64
	}{
		{[]int64{30}, 50, 50},
		{[]int64{30}, 95, 50},
		{[]int64{800, 800}, 50, 800}, // half of a class from 600 to 1000
		{[]int64{10, 20, 30, 40, 900}, 50, 37},
		{[]int64{10, 20, 30, 40, 900}, 95, 1000},
		{[]int64{1_000_000}, 50, 120_000},
	} {
		var s usage.Spread
		for _, ms := range tt.calls {
			s.Add(ms)
		}
		if got, ok := s.Percentile(tt.p); !ok || got != tt.want {
			t.Errorf("Percentile(%d) of %v = %d, %t, want %d", tt.p, tt.calls, got, ok, tt.want)
		}
	}
}

// Packed spreads can be added up like numbers, as the database does.
func TestSpreadPacked(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var want usage.Spread
	var sum [usage.SpreadColumns]int64
	for range 50 {
		var one usage.Spread
		for range 100 {
			one.Add(random.Int64N(50_000))
		}
		want.Merge(&one)
		for i, v := range one.Packed() {
			sum[i] += v
		}
	}
	var got usage.Spread
	if got.Unpack(sum); got != want || got.Calls() != 5000 {
		t.Errorf("Unpack(sums) = %v, want %v", got, want)
	}
}

// A call that failed before anything was used has nothing to price; one that used something of a model without a price is
// missing from the cost.
func TestUnpriced(t *testing.T) {
	t.Parallel()
	cost := price.Nano(7)
	var tally usage.Tally
	for _, s := range []usage.Settlement{
		{End: usage.EndComplete, Cost: &cost},
		{End: usage.EndComplete},
		{End: usage.EndCut, Tokens: chat.Usage{Prompt: 3}},
		{End: usage.EndFailed},
		{End: usage.EndFailed, Status: 503},
	} {
		tally.Add(&s)
	}
	if tally.Unpriced != 2 || tally.Calls != 5 {
		t.Errorf("%d of %d calls are without a price, want 2 of 5", tally.Unpriced, tally.Calls)
	}
}
