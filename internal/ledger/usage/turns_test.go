package usage

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
)

// banded has other prices above a thousand tokens, and another tier.
func banded(t *testing.T, input, output price.Rate) *price.Entry {
	t.Helper()
	e, err := price.Sealed(price.Entry{
		Model: "m", Rates: price.Of(input, output), Bands: []price.Band{{Above: 1000, Rates: price.Of(10*input, 10*output)}},
		Tiers: map[string]price.Factor{"priority": 2_000_000}, Fees: map[string]price.Nano{"web_search": 10_000_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Each turn is priced by its own prompt and its own entry, and rounded once. What is stored of them explains the cost.
func TestTurns(t *testing.T) {
	t.Parallel()
	one, other := banded(t, 1_500_000, 3_000_000), banded(t, 7_000_000, 9_000_000)
	s := Settlement{ID: "r", At: time.UnixMilli(1_794_960_000_000).UTC(), End: EndComplete, Status: 200}
	s.AddTurn(Turn{Tokens: chat.Usage{Prompt: 701, Cached: 2, Completion: 33, AudioIn: 3}})
	s.AddTurn(Turn{Tokens: chat.Usage{Prompt: 900, Completion: 10}, Tier: "priority", Model: "a|b,c d", Uses: []price.Use{{Name: "web_search", Milli: 2000}}})
	s.AddTurn(Turn{Tokens: chat.Usage{Prompt: 1001, Completion: 1, CacheWrite1h: 1}, Region: ""})
	entries := []*price.Entry{one, other, one}
	s.PriceTurns(func(i int) *price.Entry { return entries[i] }, 1_100_000)
	// 703 × 1.5 + 33 × 3 = 1,153.5, rounded to 1,154; (900 × 7 + 10 × 9) × 2 + two searches; (1,001 × 1.5 + 1 × 3) × 10 = 15,045.
	const want = 1154 + 12_780 + 20_000_000 + 15_045
	if s.Cost == nil || *s.Cost != want {
		t.Fatalf("PriceTurns = %v, want %d", s.Cost, int64(want))
	}
	if total := (chat.Usage{Prompt: 2602, Cached: 2, Completion: 44, AudioIn: 3, CacheWrite1h: 1}); s.Tokens != total || len(s.Terms.Uses) != 1 || s.Terms.Uses[0].Milli != 2000 {
		t.Errorf("the sums are %+v and %v, want %+v and two searches", s.Tokens, s.Terms.Uses, total)
	}
	var sum price.Nano
	for i, turn := range s.Turns() {
		counts := turn.Counts()
		cost, _ := entries[i].Cost(&counts, turn.Priced(s.At))
		if sum += cost; turn.Version != entries[i].Version() {
			t.Errorf("turn %d has the prices %q, want %q", i, turn.Version, entries[i].Version())
		}
	}
	if sum != *s.Cost {
		t.Errorf("the turns add up to %d, want %d", sum, *s.Cost)
	}
	got, err := parseRecord(appendRecord(nil, &s), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Terms.Turns[1].Model = "a_b_c_d" // no word of a stored turn has these
	if !reflect.DeepEqual(got, s) {
		t.Errorf("parseRecord = %+v, want %+v", got, s)
	}
}

// A turn without a price leaves the call without one.
func TestTurnWithoutPrice(t *testing.T) {
	t.Parallel()
	e := banded(t, 1_000_000, 2_000_000)
	s := Settlement{}
	s.AddTurn(Turn{Tokens: chat.Usage{Prompt: 10}})
	s.AddTurn(Turn{Tokens: chat.Usage{Prompt: 10}, Tier: "unheard"})
	s.Price(e, 0)
	if s.Cost != nil || s.Terms.Version != "" || s.Turns()[1].Version != "" {
		t.Errorf("Price = %v by %q, want none", s.Cost, s.Terms.Version)
	}
	s.Terms.Turns[1].Tier = "priority"
	if s.Price(e, 0); s.Cost == nil || *s.Cost != 30 {
		t.Errorf("Price = %v, want 30", s.Cost)
	}
}

// However much a vendor tells, a settlement fits a record of the journal.
func TestTurnsAreBounded(t *testing.T) {
	t.Parallel()
	s, long := Settlement{}, strings.Repeat("x", 1000)
	for range 3 * maxTurns {
		s.AddTurn(Turn{
			Tokens: chat.Usage{Prompt: 1 << 30, Cached: 1 << 30, Completion: 1 << 30, Reasoning: 1 << 30, ImageOut: 1 << 29},
			Tier:   long, Region: long, Model: long, Uses: []price.Use{{Name: "code_execution", Milli: 1 << 40}, {Name: "web_fetch", Milli: 1 << 40}, {Name: "web_search", Milli: 1 << 40}},
		})
	}
	if n := len(s.Terms.Turns); n != maxTurns {
		t.Errorf("%d turns are kept, want %d", n, maxTurns)
	}
	got, err := parseRecord(appendRecord(nil, &s), nil)
	if err != nil || len(got.Terms.Turns) != maxTurns || got.Tokens != s.Tokens || got.Terms.Turns[maxTurns-1].Tokens != s.Terms.Turns[maxTurns-1].Tokens {
		t.Errorf("%d turns are read, %v, want %d", len(got.Terms.Turns), err, maxTurns)
	}
	if n := len(s.Details()); n > maxDetails {
		t.Errorf("the details have %d bytes, want %d at most", n, maxDetails)
	}
}
