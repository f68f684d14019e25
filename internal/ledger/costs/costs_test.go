package costs

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
)

var now = time.Date(2026, 11, 18, 12, 30, 0, 0, time.UTC)

func TestSelect(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                                      "2026-10-20T00:00:00Z 2026-11-19T00:00:00Z",
		"to=2026-11-01":                         "2026-10-02T00:00:00Z 2026-11-01T00:00:00Z",
		"day=2026-11-18":                        "2026-11-18T00:00:00Z 2026-11-19T00:00:00Z",
		"month=2026-12":                         "2026-12-01T00:00:00Z 2027-01-01T00:00:00Z",
		"from=2026-11-18T09:00:00%2B01:00":      "2026-11-18T08:00:00Z 2026-11-19T00:00:00Z",
		"from=2026-01-01&to=2026-12-31&key=k":   "2026-01-01T00:00:00Z 2026-12-31T00:00:00Z",
		"from=2026-01-01&to=2026-12-31&model=m": "31 days",
		"from=2026-01-01&to=2027-12-31":         "366 days",
		"from=2026-11-19":                       "to must be after from",
		"day=x":                                 "day must be a day",
		"month=2026-13":                         "month must be a month",
		"from=yesterday":                        "from must be a day",
		"key=":                                  "key must have 1 to 256 bytes",
		"model=" + strings.Repeat("m", 300):     "model must have 1 to 256 bytes",
		"outcome=refused":                       "Refused calls cost nothing",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		sel, err := Select("a", values, now)
		got := sel.From.Format(time.RFC3339) + " " + sel.To.Format(time.RFC3339)
		if err != nil {
			if got = err.Error(); !fault.Is(err, fault.Invalid) {
				t.Errorf("Select(%s) = %v, want an invalid parameter", query, err)
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("Select(%s) = %s, want %s", query, got, want)
		}
	}
}

// memory is a store with some calls.
type memory struct {
	Store

	calls []usage.Settlement
}

func (m *memory) CostRows(context.Context, usage.Selection) ([]usage.Row, error) {
	var r usage.Row
	for i := range m.calls {
		r.Add(&m.calls[i])
	}
	return []usage.Row{r}, nil
}

func (m *memory) Calls(context.Context, usage.CallQuery) (usage.CallPage, error) {
	return usage.CallPage{Calls: m.calls}, nil
}

func (m *memory) Corrections(context.Context, []usage.Settlement) (map[string][]usage.Correction, error) {
	return nil, nil
}

func (m *memory) SettlementsDropped(context.Context) (time.Time, error) { return time.Time{}, nil }

// book has prices by version.
type book map[string]*price.Entry

func (b book) Entry(_ context.Context, version string) (*price.Entry, error) { return b[version], nil }

// A formula adds up to the cost; for a customer with a markup, to what the customer is told, without the vendor's prices.
func TestFormula(t *testing.T) {
	t.Parallel()
	e, err := price.Sealed(price.Entry{Model: "m", Rates: price.Of(3_000_000_000, 15_000_000_001), Tiers: map[string]price.Factor{"priority": 2_000_000}, Fees: map[string]price.Nano{"web_search": 10_000_000}})
	if err != nil {
		t.Fatal(err)
	}
	call := usage.Settlement{
		ID: "1", At: now, ModelAsked: "auto", ModelUsed: "m", Provider: "lab", End: usage.EndCut, Tokens: chat.Usage{Prompt: 100, Completion: 7},
		Terms: usage.Terms{Tier: "priority", Estimated: true, Uses: []price.Use{{Name: "web_search", Milli: 2000}}},
	}
	call.Price(e, 1_200_000)
	forgotten := call
	forgotten.ID, forgotten.Terms.Version = "2", "forgotten"
	unpriced := usage.Settlement{ID: "3", At: now, ModelUsed: "other", End: usage.EndComplete, Tokens: chat.Usage{Prompt: 1}}
	c := New(&memory{calls: []usage.Settlement{call, forgotten, unpriced}}, book{e.Version(): e}, nil, nil)
	for _, tt := range []struct {
		staff bool
		want  string
	}{
		// 100 × 3 × 2 + 7 × 15.000000001 × 2 per million, and 2 × 0.01: 0.020810000000014, rounded to 0.020810000
		{true, `"cost_usd":0.02081,"margin_usd":0.004162,"unpriced":false,"price_version":"` + e.Version() + `","formula":[` +
			`{"name":"input","count":100,"per":1000000,"rate_usd":3,"factor":2,"amount_usd":0.0006,"source":"vendor"},` +
			`{"name":"output","count":7,"per":1000000,"rate_usd":15.000000001,"factor":2,"amount_usd":0.000210000000014,"source":"estimate"},` +
			`{"name":"web_search","count":2,"per":1,"rate_usd":0.01,"factor":1,"amount_usd":0.02,"source":"vendor"}],"rounding_usd":-0.000000000000014,"corrections":[]}`},
		// 18.0000000012 is rounded to 18.000000001
		{false, `"cost_usd":0.024972,"unpriced":false,"price_version":"` + e.Version() + `","formula":[` +
			`{"name":"input","count":100,"per":1000000,"rate_usd":3.6,"factor":2,"amount_usd":0.00072,"source":"vendor"},` +
			`{"name":"output","count":7,"per":1000000,"rate_usd":18.000000001,"factor":2,"amount_usd":0.000252000000014,"source":"estimate"},` +
			`{"name":"web_search","count":2,"per":1,"rate_usd":0.012,"factor":1,"amount_usd":0.024,"source":"vendor"}],"rounding_usd":-0.000000000000014,"corrections":[]}`},
	} {
		sel, err := Select("a", url.Values{}, now)
		if err != nil {
			t.Fatal(err)
		}
		x, err := c.Explain(t.Context(), sel, "", 10, tt.staff)
		if err != nil {
			t.Fatal(err)
		}
		out := x.Reply(tt.staff)
		raw, err := json.Marshal(out.Data[0])
		if err != nil || !strings.HasSuffix(string(raw), tt.want) {
			t.Errorf("the call for staff %v = %s, %v, want\n%s", tt.staff, raw, err, tt.want)
		}
		if d := &out.Data[1]; len(d.Formula) != 0 || d.Cost == nil || d.Version != "forgotten" {
			t.Errorf("a call whose prices are forgotten = %+v, want its cost without a formula", d)
		}
		if d := &out.Data[2]; d.Cost != nil || !d.Unpriced || len(d.Formula) != 0 {
			t.Errorf("a call without a price = %+v, want no cost", d)
		}
		if _, ok := out.Prices[e.Version()]; ok != tt.staff {
			t.Errorf("staff %v gets the prices: %v, want them for staff alone", tt.staff, ok)
		}
	}
	if _, err := c.Explain(t.Context(), usage.Selection{To: now}, "x", 10, true); !fault.Is(err, fault.Invalid) {
		t.Errorf("Explain from the cursor x = %v, want an invalid parameter", err)
	}
}

// A call is corrected once, keeps its markup, and is not corrected where nobody knows a price.
func TestReprice(t *testing.T) {
	t.Parallel()
	entry := func(input price.Rate) *price.Entry {
		e, err := price.Sealed(price.Entry{Model: "m", Rates: price.Of(input, 0)})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, tt := range []struct {
		name          string
		end           usage.End
		old, now      *price.Entry
		cost, margin  price.Nano
		fixed, priced bool
	}{
		{"the same", usage.EndComplete, entry(1000), entry(1000), 0, 0, false, false},
		{"dearer", usage.EndComplete, entry(1000), entry(3000), 2000, 1000, true, false},
		{"cheaper", usage.EndHangUp, entry(3000), entry(1000), -2000, -1000, true, false},
		{"no price before", usage.EndComplete, nil, entry(1000), 1000, 500, true, true},
		{"no price now", usage.EndComplete, entry(1000), nil, 0, 0, false, false},
		{"failed", usage.EndFailed, nil, entry(1000), 0, 0, false, false},
	} {
		s := usage.Settlement{ID: "1", At: now, End: tt.end, Tokens: chat.Usage{Prompt: 1_000_000}}
		s.Price(tt.old, 1_500_000)
		now := func(int) *price.Entry { return tt.now }
		fix := s.Reprice(now)
		if (fix != nil) != tt.fixed {
			t.Errorf("%s: Reprice = %+v, want a correction: %v", tt.name, fix, tt.fixed)
		}
		if fix == nil {
			continue
		}
		if fix.Cost != tt.cost || fix.Margin != tt.margin || fix.Priced != tt.priced || fix.Number != 1 || fix.New != tt.now.Version() {
			t.Errorf("%s: Reprice = %+v, want %d and %d", tt.name, fix, tt.cost, tt.margin)
		}
		s.Correct(usage.Corrected{Times: 1, Cost: fix.Cost, Margin: fix.Margin, Priced: fix.Priced}, fix.New)
		if again := s.Reprice(now); again != nil {
			t.Errorf("%s: the second Reprice = %+v, want none", tt.name, again)
		}
		if was := s.Settled(); tt.priced != (was == nil) {
			t.Errorf("%s: Settled = %v", tt.name, was)
		}
	}
}
