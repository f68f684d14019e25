package price_test

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/price"
)

// read returns the entries of a list without its frame.
func read(t *testing.T, entries string) []*price.Entry {
	t.Helper()
	list, err := price.Read(strings.NewReader(`{"prices":[` + entries + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func on(day string) time.Time {
	t, err := price.ParseDay(day)
	if err != nil {
		panic(err)
	}
	return t
}

// TestFind: an entry of the operator counts while it is valid; before and after it the vendor's list does.
func TestFind(t *testing.T) {
	t.Parallel()
	b := price.NewBook(
		read(t, `{"vendor":"openai","model":"gpt","input":1,"output":2}`),
		read(t, `{"vendor":"openai","model":"gpt","input":3,"output":4,"from":"2026-02-01"}`),
		read(t, `{"model":"lab/gpt","input":5,"output":6,"from":"2026-03-01","until":"2026-04-01"}`),
	)
	for _, tt := range []struct {
		upstream, day string
		want          string // input
	}{
		{"gpt", "2026-01-01", "1"},
		{"gpt", "2026-02-01", "3"},
		{"gpt", "2026-03-31", "5"},
		{"gpt", "2026-04-01", "3"},
		{"gpt-2026-01-31", "2026-04-01", "3"},
		{"other", "2026-03-01", "5"},
		{"other", "2026-04-01", ""},
	} {
		got := ""
		if e := b.Find("lab/gpt", "openai", tt.upstream).At(on(tt.day).Unix()); e != nil {
			got = e.Rates[price.Input].String()
		}
		if got != tt.want {
			t.Errorf("input of %s on %s = %q, want %q", tt.upstream, tt.day, got, tt.want)
		}
	}
	if b.Find("lab/unknown", "", "gpt") != nil {
		t.Error("a provider that is no vendor has the list prices of one")
	}
}

// TestImportsInOrder: what is imported later counts, whenever its prices began.
func TestImportsInOrder(t *testing.T) {
	t.Parallel()
	var taken []price.Taken
	for _, e := range read(t, `{"model":"m","input":1,"from":"2026-05-01"},{"model":"m","input":2,"from":"2026-01-01"}`) {
		taken = append(taken, price.Taken{Entry: e})
	}
	b := price.NewBook(price.Lists(taken)...)
	if got := b.Find("m", "", "").At(on("2026-06-01").Unix()).Rates[price.Input]; got != 2_000_000_000 {
		t.Errorf("input after both = %s, want that of the later import, 2", got)
	}
}

// TestCaches: what the vendor's rule says, what the list says, and nothing for others.
func TestCaches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ vendor, upstream, input, want string }{
		{"anthropic", "claude-new", "3", "0.3 3.75 6 3.75"},   // Anthropic's rule
		{"anthropic", "claude-opus-5-5", "8", "0.4 10 16 10"}, // 0.2, 5, 8 and 5 to 4, as on the list
		{"bedrock", "eu.anthropic.claude-new", "3", "0.3 3.75 6 3.75"},
		{"bedrock", "amazon.nova-2-lite-v1:0", "3", "unknown unknown unknown unknown"},
		{"openai", "gpt-6-sol", "3", "unknown unknown unknown unknown"},
		{"anthropic", "claude-new", "0.000000001", "unknown unknown 0.000000002 unknown"}, // what is not exact is not known
	} {
		e := *read(t, `{"model":"m","input":`+tt.input+`,"output":1,"above":[{"tokens":9,"input":`+tt.input+`}]}`)[0]
		e.Caches(tt.vendor, tt.upstream)
		for _, r := range []price.Rates{e.Rates, e.Bands[0].Rates} {
			got := strings.Join([]string{r[price.CacheRead].String(), r[price.CacheWrite5m].String(), r[price.CacheWrite1h].String(), r[price.CacheWrite].String()}, " ")
			if got != tt.want {
				t.Errorf("caches of %s %s with input %s = %s, want %s", tt.vendor, tt.upstream, tt.input, got, tt.want)
			}
		}
	}
}

// TestHours: DeepSeek doubles its prices on weekdays from 01:00 to 04:00 and from 06:00 to 10:00 UTC.
func TestHours(t *testing.T) {
	t.Parallel()
	listed, _ := price.Listed()
	e := price.NewBook(listed).Find("", "deepseek", "deepseek-flash").At(on("2026-11-18").Unix())
	for at, want := range map[string]price.Nano{
		"2026-11-18T00:59:59Z": 150_000_000, // a Wednesday
		"2026-11-18T01:00:00Z": 300_000_000,
		"2026-11-18T04:00:00Z": 150_000_000,
		"2026-11-18T09:59:59Z": 300_000_000,
		"2026-11-21T09:00:00Z": 150_000_000, // a Saturday
	} {
		moment, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		cost, ok := e.Cost(&price.Counts{Tokens: [price.Buckets]int64{price.Input: 1_000_000}}, price.Terms{At: moment.Unix()})
		if !ok || cost != want {
			t.Errorf("a million tokens at %s cost %v, %t, want %v", at, cost, ok, want)
		}
	}
}

func TestMarkup(t *testing.T) {
	t.Parallel()
	m, err := price.NewMarkup(1_200_000, map[string]price.Factor{"premium": 1_100_000}, map[string]price.Factor{"acct_a": 900_000})
	if err != nil {
		t.Fatal(err)
	}
	e := read(t, `{"model":"m","input":3,"output":0.000000003,"above":[{"tokens":9,"input":6}],"calls":{"web_search":0.01},"tiers":{"batch":0.5}}`)[0]
	c := price.Counts{Tokens: [price.Buckets]int64{price.Input: 5}}
	for _, tt := range []struct {
		plan, account string
		want          price.Nano
	}{{"free", "acct_b", 18_000}, {"premium", "acct_b", 16_500}, {"premium", "acct_a", 13_500}} {
		cost, charge, ok := e.Charge(&c, price.Terms{}, m.Of(tt.plan, tt.account))
		if !ok || cost != 15_000 || charge != tt.want {
			t.Errorf("Charge of %s on %s = %d, %d, %t, want 15000, %d", tt.account, tt.plan, cost, charge, ok, tt.want)
		}
	}
	told := e.Times(m.All())
	if told.Text() != "input 3.6, output 0.000000004, web_search 0.012" || told.Conditions() != "above 9: input 7.2, output unknown, batch ×0.5" || told.Version() != e.Version() {
		t.Errorf("Times = %s; %s; %s", told.Text(), told.Conditions(), told.Version())
	}
	if e.Rates[price.Input] != 3_000_000_000 || e.Fees["web_search"] != 10_000_000 {
		t.Error("Times changes the entry")
	}
	var none *price.Markup
	if none.Of("free", "acct_a") != 1_000_000 || e.Times(none.All()) != e {
		t.Error("no markup changes prices")
	}
	if _, err := price.NewMarkup(0, map[string]price.Factor{"free": -1}, nil); err == nil {
		t.Error("NewMarkup takes a negative factor")
	}
}

// TestAging: prices of operators that end without others to follow; the list has its own care.
func TestAging(t *testing.T) {
	t.Parallel()
	now := on("2026-06-15")
	own := func(entries string) []*price.Entry {
		list := read(t, entries)
		for _, e := range list {
			e.Origin = price.FromPrices
		}
		return list
	}
	b := price.NewBook(
		read(t, `{"vendor":"v","model":"listed","input":1,"until":"2026-06-01"}`),
		own(`{"model":"ended","input":1,"until":"2026-06-01"},{"model":"ends","input":1,"until":"2026-07-15"},{"model":"later","input":1,"until":"2026-07-16"},
			{"model":"followed","input":1,"until":"2026-06-01"},{"model":"followed","input":2,"from":"2026-06-01"},{"model":"always","input":1}`),
	)
	var got []string
	for _, a := range b.Aging(now) {
		got = append(got, a.Entry.Model+" "+a.Kind(now))
	}
	if strings.Join(got, ", ") != "ended ended, ends ends" {
		t.Errorf("Aging = %q", got)
	}
	if price.Outdated("2026-03-17", now) == "" || price.Outdated("2026-03-18", now) != "" {
		t.Error("a list is old after another time than 90 days")
	}
}

func TestAgainst(t *testing.T) {
	t.Parallel()
	list := read(t, `{"model":"m","input":3,"output":15,"tiers":{"batch":0.5}},{"model":"m","input":2,"cache_read":0.2,"output":15,"tiers":{"batch":0.5,"flex":0.5}}`)
	old, e := list[0], list[1]
	for _, tt := range []struct{ got, want string }{
		{e.Against(old), "input 3 → 2, cache_read unknown → 0.2, tiers"},
		{e.Against(e), ""},
		{e.Against(nil), "new: input 2, cache_read 0.2, output 15"},
		{strings.Join(old.LacksTiers(e), " "), "flex"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
	if lacks := old.Lacks(e); len(lacks) != 1 || lacks[0] != price.CacheRead {
		t.Errorf("Lacks = %v", lacks)
	}
}
