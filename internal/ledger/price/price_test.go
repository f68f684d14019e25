package price_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/price"
)

// entry decodes an entry as operators write it.
func entry(t *testing.T, text string) *price.Entry {
	t.Helper()
	e := &price.Entry{}
	if err := json.Unmarshal([]byte(text), e); err != nil {
		t.Fatal(err)
	}
	return e
}

func at(text string) int64 {
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return when.Unix()
}

type tokens = map[price.Bucket]int64

func counts(of tokens, used ...price.Use) *price.Counts {
	c := &price.Counts{Used: used}
	for b, n := range of {
		c.Tokens[b] = n
	}
	return c
}

// The figures of each case are worked out by hand; the comment has the formula.
func TestCost(t *testing.T) {
	t.Parallel()
	sol := `{"model":"m","input":2,"cache_read":0.2,"cache_write":2.5,"output":10,"above":[{"tokens":272000,"input":4,"cache_read":0.4,"cache_write":5,"output":15}],
		"tiers":{"batch":0.5,"priority":2},"regions":{"eu":1.1},"calls":{"web_search":0.01},"seconds":{"720p":0.4}}`
	deep := `{"model":"m","input":0.14,"output":0.56,"hours":[{"days":"mon-fri","from":"09:00","to":"12:00","zone":"+08:00","times":2}]}`
	for _, tt := range []struct {
		name, entry string
		counts      *price.Counts
		terms       price.Terms
		want        string // empty: unpriced
	}{
		{"nothing", sol, counts(nil), price.Terms{}, "0.00"},
		{"1000 in, 500 out: 1000*2/1e6 + 500*10/1e6", sol, counts(tokens{price.Input: 1000, price.Output: 500}), price.Terms{}, "0.007"},
		{"thoughts cost what the reply costs: 7*10/1e6", sol, counts(tokens{price.Reasoning: 7}), price.Terms{}, "0.00007"},
		{"caches: 10*2 + 1000*0.2 + 100*2.5", sol, counts(tokens{price.Input: 10, price.CacheRead: 1000, price.CacheWrite: 100}), price.Terms{}, "0.00047"},
		{"a write for an hour has no price here", sol, counts(tokens{price.CacheWrite1h: 1}), price.Terms{}, ""},
		{"the last token of the band below: 272000*2", sol, counts(tokens{price.Input: 272000}), price.Terms{}, "0.544"},
		{"the first above, with reads: 1*4 + 272000*0.4 + 1*15", sol, counts(tokens{price.Input: 1, price.CacheRead: 272000, price.Output: 1}), price.Terms{}, "0.108819"},
		{"half for a batch, fees in full: 1000*2/2 + 3*0.01", sol, counts(tokens{price.Input: 1000}, price.Use{Name: "web_search", Milli: 3000}), price.Terms{Tier: "batch"}, "0.031"},
		{"tier and region: 1000*2*2*1.1", sol, counts(tokens{price.Input: 1000}), price.Terms{Tier: "priority", Region: "eu"}, "0.0044"},
		{"the list price has several names", sol, counts(tokens{price.Input: 1000}), price.Terms{Tier: "default"}, "0.002"},
		{"a tier without a price", sol, counts(tokens{price.Input: 1}), price.Terms{Tier: "ultrafast"}, ""},
		{"a region without a price", sol, counts(tokens{price.Input: 1}), price.Terms{Region: "mars"}, ""},
		{"a tool without a price", sol, counts(nil, price.Use{Name: "shell", Milli: 1000}), price.Terms{}, ""},
		{"video: 8.5*0.4", sol, counts(nil, price.Use{Name: "video_720p", Milli: 8500}), price.Terms{}, "3.40"},
		{"one token is 2000 nano-dollars", sol, counts(tokens{price.Input: 1}), price.Terms{}, "0.000002"},
		{"half a nano-dollar is rounded up, once: 1*0.0005 + 2*0.0005", `{"model":"m","input":0.0005,"output":0.0005}`, counts(tokens{price.Input: 1, price.Output: 2}), price.Terms{}, "0.000000002"},
		{"less than half is rounded down: 1*0.0004", `{"model":"m","input":0.0004,"output":1}`, counts(tokens{price.Input: 1}), price.Terms{}, "0.00"},
		{"Wednesday 10:00 in Beijing is peak: 1e6*0.14*2", deep, counts(tokens{price.Input: 1e6}), price.Terms{At: at("2026-11-18T02:00:00Z")}, "0.28"},
		{"12:00 is not", deep, counts(tokens{price.Input: 1e6}), price.Terms{At: at("2026-11-18T04:00:00Z")}, "0.14"},
		{"Saturday is not", deep, counts(tokens{price.Input: 1e6}), price.Terms{At: at("2026-11-21T02:00:00Z")}, "0.14"},
		{"more than an amount can hold", `{"model":"m","input":1000000,"output":1}`, counts(tokens{price.Input: 1 << 62}), price.Terms{}, price.Most.String()},
	} {
		e := entry(t, tt.entry)
		got, ok := e.Cost(tt.counts, tt.terms)
		if text := got.String(); ok != (tt.want != "") || ok && text != tt.want {
			t.Errorf("%s: %s, %v, want %q", tt.name, text, ok, tt.want)
		}
	}
	if _, ok := (*price.Entry)(nil).Cost(counts(nil), price.Terms{}); ok {
		t.Error("a model without an entry has a cost")
	}
}

// The products of Lines add up to Cost, for any counts and prices: compared with exact fractions.
func TestLinesAddUp(t *testing.T) {
	t.Parallel()
	const seed = 1
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		e := &price.Entry{Model: "m", Fees: map[string]price.Nano{"a": price.Nano(rnd.Int64N(1e9)), "b": 1}, Tiers: map[string]price.Factor{"x": price.Factor(1 + rnd.Int64N(5e6))}}
		for b := range e.Rates {
			e.Rates[b] = price.Rate(rnd.Int64N(1 << (1 + rnd.Uint64N(40))))
		}
		c := &price.Counts{}
		for b := range c.Tokens {
			c.Tokens[b] = rnd.Int64N(1 << (1 + rnd.Uint64N(32)))
		}
		c.Use("b", rnd.Int64N(1e6))
		c.Use("a", rnd.Int64N(1e6))
		c.Use("b", 1)
		terms := price.Terms{Tier: []string{"", "x"}[rnd.IntN(2)]}
		got, ok := e.Cost(c, terms)
		if !ok {
			t.Fatal("no cost")
		}
		sum := new(big.Rat)
		for _, l := range e.Lines(c, terms) {
			per := int64(1e6)
			if l.Name == "a" || l.Name == "b" {
				per = 1e3
			}
			product := big.NewRat(l.Count, per)
			product.Mul(product, big.NewRat(int64(l.Rate), 1)).Mul(product, big.NewRat(int64(l.Factor), 1e6))
			sum.Add(sum, product)
		}
		sum.Add(sum, big.NewRat(1, 2))
		want := new(big.Int).Quo(sum.Num(), sum.Denom())
		if want.Cmp(big.NewInt(int64(price.Most))) > 0 {
			want.SetInt64(int64(price.Most))
		}
		if want.Int64() != int64(got) {
			t.Fatalf("seed %d: %d, and its lines add up to %s", seed, got, sum.FloatString(3))
		}
		if prompt, output := c.Prompt(), c.Tokens[price.Output]+c.Tokens[price.Reasoning]+c.Tokens[price.AudioOut]+c.Tokens[price.ImageOut]; true {
			c.Used = nil
			got, _ = e.Cost(c, terms)
			if most, ok := e.Most(prompt, output, []string{"x"}); !ok || got > most {
				t.Fatalf("seed %d: a call costs %d, the most is said to be %d", seed, got, most)
			}
			if least, ok := e.Least(prompt, output, []string{"x"}); !ok || got < least {
				t.Fatalf("seed %d: a call costs %d, the least is said to be %d", seed, got, least)
			}
		}
	}
}

func TestMoney(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0": "0.00", "1": "1.00", "0.5": "0.50", "12.50": "12.50", "0.000000001": "0.000000001", "7.5e-08": "0.000000075", "1e2": "100.00", "1000000": "1000000.00", "0.10000000000": "0.10",
	} {
		if n, err := price.Parse(text); err != nil || n.String() != want {
			t.Errorf("%s is %s, %v, want %s", text, n, err, want)
		}
	}
	for _, text := range []string{"", ".", "-1", "+1", "1e", "1e99", "0x1", "1,5", "1000000.000000001", "0.0000000001", "9999999999999999999999", "NaN", "1.2.3", "1 "} {
		if n, err := price.Parse(text); err == nil {
			t.Errorf("%q is %s, want an error", text, n)
		}
	}
	if got := price.Nano(-1_500_000_000).String(); got != "-1.50" {
		t.Errorf("got %s", got)
	}
	for nano, want := range map[price.Nano]string{0: "$0.00", 2_611_666_800: "$2.61", 2_615_000_000: "$2.62", 9_999_999: "$0.009999999", 10_000_000: "$0.01", -32_000_000_000: "-$32.00"} {
		if got := price.Dollars(nano); got != want {
			t.Errorf("%d nano-dollars are %s for people, want %s", nano, got, want)
		}
	}
}

// What is written is read again, and has the same version; where it was read is no part of it.
func TestEntryIsWritten(t *testing.T) {
	t.Parallel()
	text := `{"vendor":"lab","model":"m","from":"2026-01-01","until":"2027-01-01","input":3,"cache_read":0.3,"cache_write_5m":3.75,"cache_write_1h":6,"output":15,` +
		`"above":[{"tokens":200000,"input":6,"output":22.5}],"tiers":{"batch":0.5,"priority":2},"hours":[{"days":"fri-mon","from":"09:00","to":"24:00","zone":"-03:30","times":2}],` +
		`"calls":{"web_search":0.01},"seconds":{"720p":0.4},"source":"https://example.com","read":"2026-11-18"}`
	e := entry(t, text)
	raw, err := json.Marshal(e)
	if err != nil || string(raw) != text {
		t.Errorf("written as %s, %v", raw, err)
	}
	again := entry(t, strings.Replace(string(raw), "example.com", "example.org", 1))
	if again.Version() != e.Version() || len(e.Version()) != 12 {
		t.Errorf("versions %q and %q", e.Version(), again.Version())
	}
	if other := entry(t, strings.Replace(string(raw), `"output":15`, `"output":15.000000001`, 1)); other.Version() == e.Version() {
		t.Error("other prices have the same version")
	}
	var b bytes.Buffer
	if err := price.Write(&b, []*price.Entry{e, again}); err != nil {
		t.Fatal(err)
	}
	if list, err := price.Read(&b); err != nil || len(list) != 2 || list[1].Version() != e.Version() {
		t.Errorf("read %d entries, %v", len(list), err)
	}
}

func TestBadEntries(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"input":1}`:                                                   "model",
		`{"model":"m","inputs":1}`:                                      "unknown field",
		`{"model":"m","input":-1}`:                                      "input must be",
		`{"model":"m","input":0.0000000001}`:                            "input must be",
		`{"model":"m","from":"soon"}`:                                   "is no day",
		`{"model":"m","from":"2026-02-01","until":"2026-02-01"}`:        "until must be after from",
		`{"model":"m","above":[{"tokens":5},{"tokens":5}]}`:             "bands must rise",
		`{"model":"m","tiers":{"x":0}}`:                                 "factor",
		`{"model":"m","tiers":{"x":1.000001},"regions":{"y":1.000001}}`: "six decimals",
		`{"model":"m","calls":{"x":-1}}`:                                "price of",
		`{"model":"m","hours":[{"days":"x","from":"09:00","to":"10:00","zone":"+00:00","times":1}]}`:   "hours are written as",
		`{"model":"m","hours":[{"days":"mon","from":"11:00","to":"10:00","zone":"+00:00","times":1}]}`: "must end after",
	} {
		if err := json.Unmarshal([]byte(text), &price.Entry{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

func TestBook(t *testing.T) {
	t.Parallel()
	parse := func(texts ...string) (list []*price.Entry) {
		for _, text := range texts {
			list = append(list, entry(t, text))
		}
		return list
	}
	b := price.NewBook(
		parse(`{"vendor":"v","model":"m","input":1}`, `{"vendor":"v","model":"m","from":"2027-01-01","input":2}`, `{"vendor":"v","model":"old","until":"2026-01-01","input":3}`),
		parse(`{"vendor":"v","model":"m","from":"2026-06-01","until":"2026-07-01","input":4}`, `{"model":"lab/own","input":5}`),
	)
	for _, tt := range []struct {
		id, upstream, at string
		want             price.Rate // -1: none
	}{
		{"x", "m", "2026-01-01T00:00:00Z", 1},
		{"x", "m", "2026-06-01T00:00:00Z", 4},
		{"x", "m", "2026-06-30T23:59:59Z", 4},
		{"x", "m", "2026-07-01T00:00:00Z", 1},
		{"x", "m", "2027-01-01T00:00:00Z", 2},
		{"x", "m-2026-03-05", "2027-01-01T00:00:00Z", 2},
		{"x", "models/m", "2027-01-01T00:00:00Z", 2},
		{"x", "old", "2026-01-01T00:00:00Z", -1},
		{"x", "other", "2026-01-01T00:00:00Z", -1},
		{"lab/own", "m", "2026-01-01T00:00:00Z", 5},
	} {
		e := b.Find(tt.id, "v", tt.upstream).At(at(tt.at))
		if e == nil && tt.want >= 0 || e != nil && e.Rates[price.Input] != tt.want*1e9 {
			t.Errorf("%s %s at %s: %+v, want %d", tt.id, tt.upstream, tt.at, e, tt.want)
		}
	}
}

// Every entry of the list has a source and a date, no two say different prices for a moment, and each is written the way
// it would be written.
func TestListed(t *testing.T) {
	t.Parallel()
	list, reviewed := price.Listed()
	if _, err := time.Parse(time.DateOnly, reviewed); err != nil || len(list) < 50 {
		t.Errorf("%d entries, reviewed %q", len(list), reviewed)
	}
	for i, e := range list {
		if !strings.HasPrefix(e.Source, "https://") || e.Read == "" {
			t.Errorf("%s %s has no source or date", e.Vendor, e.Model)
		}
		for _, o := range list[:i] {
			if e.Vendor == o.Vendor && e.Model == o.Model && (e.Until.IsZero() || o.From.Before(e.Until)) && (o.Until.IsZero() || e.From.Before(o.Until)) {
				t.Errorf("%s %s has two prices at a time", e.Vendor, e.Model)
			}
		}
	}
}

func BenchmarkCost(b *testing.B) {
	list, _ := price.Listed()
	e := price.NewBook(list).Find("", "anthropic", "claude-haiku-5-5").At(at("2026-11-18T00:00:00Z"))
	c := counts(tokens{price.Input: 100, price.CacheRead: 90_000, price.CacheWrite5m: 2000, price.Output: 500})
	for b.Loop() {
		if _, ok := e.Cost(c, price.Terms{At: 1, Tier: "standard"}); !ok {
			b.Fatal("no cost")
		}
	}
}

// A second of video has the price of its size, or of its lines.
func TestVideo(t *testing.T) {
	t.Parallel()
	e, err := price.Sealed(price.Entry{Model: "v", Rates: price.Of(price.Unknown, price.Unknown), Fees: map[string]price.Nano{"video_720p": 400, "video_1280x720": 500, "video_4k": 900, "web_search": 7}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]price.Nano{
		price.Video(1280, 720): 500, price.Video(720, 1280): 400, price.Video(3840, 2160): 900, price.Video(1920, 1080): -1, "video_720p": 400, "video_x": -1, "web_search": 7, "1280x720": -1,
	} {
		cost, ok := e.Cost(&price.Counts{Used: []price.Use{{Name: name, Milli: 1000}}}, price.Terms{})
		if !ok {
			cost = -1
		}
		if cost != want {
			t.Errorf("Cost of %s = %d, want %d", name, cost, want)
		}
	}
}
