package whatif

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
)

// The models of the tests, in dollars per million tokens: "deep" has caches of two lives and batches, "plain" has neither.
const book = `{"prices":[
	{"model":"deep","input":4,"cache_read":0.4,"cache_write_5m":5,"cache_write_1h":8,"output":20,"tiers":{"batch":0.5,"priority":2}},
	{"model":"plain","input":1,"output":3},
	{"vendor":"acme","model":"other","input":2,"cache_read":1,"cache_write":3,"output":8}]}`

// calls is a store in memory.
type calls struct {
	list    []usage.Settlement
	dropped time.Time
}

func (c *calls) EachCall(_ context.Context, span usage.Span, each func(*usage.Settlement) error) error {
	for i := range c.list {
		s := &c.list[i]
		if s.At.Before(span.From) || !s.At.Before(span.To) || span.AccountID != "" && s.AccountID != span.AccountID {
			continue
		}
		if err := each(s); err != nil {
			return err
		}
	}
	return nil
}

func (c *calls) SettlementsDropped(context.Context) (time.Time, error) { return c.dropped, nil }

var noon = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// entriesOf reads a list of prices.
func entriesOf(t testing.TB, text string) []*price.Entry {
	t.Helper()
	list, err := price.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// calculator returns one whose operator has the prices of a book.
func calculator(t testing.TB, text string, list ...usage.Settlement) *Calculator {
	b := price.NewBook(entriesOf(t, text))
	return &Calculator{Calls: &calls{list: list}, Prices: func() Prices {
		return Prices{
			Book: b, Own: func(p Place) *price.Series { return b.Find(p.Model, "", "") },
			Vendor: func(p Place) (string, string) { return p.Provider, p.Upstream },
			Model: func(id string) (*price.Series, bool) {
				s := b.Find(id, "", "")
				return s, s != nil || id == "free"
			},
		}
	}}
}

// settled returns a call, priced by the book.
func settled(t testing.TB, id, model string, at time.Time, tokens chat.Usage) usage.Settlement {
	s := usage.Settlement{ID: id, At: at, AccountID: "acct_a", KeyID: "key_a", Plan: "scale", ModelAsked: model, ModelUsed: model, Provider: "acme", Tokens: tokens, Status: 200, End: usage.EndComplete}
	s.Price(price.NewBook(entriesOf(t, book)).Find(model, "", "").At(at.Unix()), 0)
	return s
}

// within returns a question about the days around noon.
func within(q Question) Question {
	q.From, q.To = noon.AddDate(0, 0, -10), noon.AddDate(0, 0, 10)
	return q
}

func run(t *testing.T, c *Calculator, q Question) *Report {
	t.Helper()
	r, err := c.Run(t.Context(), within(q))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestScenarios has figures that were worked out by hand from the prices in book.
func TestScenarios(t *testing.T) {
	t.Parallel()
	fresh := chat.Usage{Prompt: 1000, Completion: 100}
	cached := chat.Usage{Prompt: 1000, CacheWrite5m: 400, Cached: 2000, Completion: 100} // 600 of the prompt are neither
	for _, test := range []struct {
		name             string
		tokens           chat.Usage
		tier             string
		q                Question
		cost, would      price.Nano
		unpriced, orphan int64
	}{
		// 1000*4 + 100*20 = 6000 a million; 1000*1 + 100*3 = 1300
		{name: "another model", tokens: fresh, q: Question{Models: []string{"deep=plain"}}, cost: 6_000_000, would: 1_300_000},
		{name: "a model that did not answer", tokens: fresh, q: Question{Models: []string{"plain=deep"}}, cost: 6_000_000, would: 6_000_000},
		// 600*4 + 400*5 + 2000*0.4 + 100*20 = 7200; at plain all 3000 of the prompt are fresh: 3000*1 + 100*3
		{name: "a model without caches", tokens: cached, q: Question{Models: []string{"deep=plain"}}, cost: 7_200_000, would: 3_300_000},
		// 600*2 + 400*3 + 2000*1 + 100*8: writes of five minutes cost what the vendor's only writes cost
		{name: "a vendor's model", tokens: cached, q: Question{Models: []string{"deep=acme/other"}}, cost: 7_200_000, would: 5_200_000},
		// the tier doubles 7200, and plain does not have it
		{name: "a model without the tier", tokens: cached, tier: "priority", q: Question{Models: []string{"deep=plain"}}, cost: 14_400_000, would: 3_300_000},
		// 3000*4 + 100*20
		{name: "no cache", tokens: cached, q: Question{TTL: "none"}, cost: 7_200_000, would: 14_000_000},
		// 600*4 + 400*8 + 2000*0.4 + 100*20
		{name: "an hour", tokens: cached, q: Question{TTL: "1h"}, cost: 7_200_000, would: 8_400_000},
		{name: "five minutes, as it was", tokens: cached, q: Question{TTL: "5m"}, cost: 7_200_000, would: 7_200_000},
		{name: "all in batches", tokens: cached, q: Question{Batched: "1"}, cost: 7_200_000, would: 3_600_000},
		{name: "in batches without a cache", tokens: cached, q: Question{Batched: "1", TTL: "none"}, cost: 7_200_000, would: 7_000_000},
		{name: "no batches", tokens: cached, q: Question{Batched: "0"}, cost: 7_200_000, would: 7_200_000},
		// 1000*6 + 100*30
		{name: "other prices", tokens: fresh, q: Question{List: `{"prices":[{"model":"deep","input":6,"output":30}]}`}, cost: 6_000_000, would: 9_000_000},
		{name: "prices of next year", tokens: fresh, q: Question{List: `{"prices":[{"model":"deep","from":"2027-01-01","input":6,"output":30}]}`}, cost: 6_000_000, would: 9_000_000},
		{name: "prices of others", tokens: fresh, q: Question{List: `{"prices":[{"model":"plain","input":6,"output":30}]}`}, cost: 6_000_000, would: 6_000_000},
		{name: "prices without caches", tokens: cached, q: Question{List: `{"prices":[{"model":"deep","input":6,"output":30}]}`}, cost: 7_200_000, orphan: 1},
		{name: "LiteLLM's prices", tokens: fresh, q: Question{List: `{"acme/deep-1":{"litellm_provider":"acme","input_cost_per_token":6e-06,"output_cost_per_token":3e-05}}`}, cost: 6_000_000, would: 9_000_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := settled(t, "a", "deep", noon, test.tokens)
			s.Terms.Tier = test.tier
			s.Price(price.NewBook(entriesOf(t, book)).Find("deep", "", "").At(noon.Unix()), 0)
			s.Trace = &usage.Trace{Attempts: []usage.Attempt{{Model: "deep", Provider: "acme", Upstream: "deep-1", Outcome: usage.Answered}}}
			got := run(t, calculator(t, book, s), test.q).Total
			want := Sums{Calls: 1, Cost: test.cost, Would: test.would, Unpriced: test.unpriced, WouldUnpriced: test.orphan}
			if test.orphan > 0 {
				want.OnlyCost = test.cost
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if d := got.Difference(); test.orphan == 0 && d != test.would-test.cost || test.orphan > 0 && d != 0 {
				t.Errorf("difference %d", d)
			}
		})
	}
}

// TestCacheLives replays two calls of a session, the second after a time.
func TestCacheLives(t *testing.T) {
	t.Parallel()
	// Tokens that are written to a cache are parts of the prompt, those that are read from it are not.
	short, long := chat.Usage{Prompt: 1000, CacheWrite5m: 1000}, chat.Usage{Prompt: 1000, CacheWrite1h: 1000}
	hit, miss := chat.Usage{Cached: 1000}, chat.Usage{Prompt: 1200, CacheWrite5m: 1200}
	for _, test := range []struct {
		name          string
		first, second chat.Usage
		gap           time.Duration
		session, next string
		ttl           string
		would         price.Nano // of both calls
		misses, hits  int64
		sessionless   int64
	}{
		// 1000 written for five minutes cost 5000, read 400
		{"a hit in time", short, hit, 4 * time.Minute, "s", "s", "5m", 5_000_000 + 400_000, 0, 0, 0},
		// written for an hour cost 8000; the second call finds nothing after five minutes, and writes 1000 again
		{"too late for five minutes", long, hit, 6 * time.Minute, "s", "s", "5m", 5_000_000 + 5_000_000, 1, 0, 0},
		{"of another session", long, hit, 6 * time.Minute, "s", "o", "5m", 5_000_000 + 400_000, 0, 0, 0},
		{"without a session", long, hit, 6 * time.Minute, "", "", "5m", 5_000_000 + 400_000, 0, 0, 2},
		// the second call wrote 1200; 1000 of them would have been there
		{"in time for an hour", short, miss, 6 * time.Minute, "s", "s", "1h", 8_000_000 + 400_000 + 1_600_000, 0, 1, 0},
		// a new prompt, since the old one was still there
		{"another prompt", short, miss, 4 * time.Minute, "s", "s", "1h", 8_000_000 + 9_600_000, 0, 0, 0},
		{"after an hour", short, miss, 61 * time.Minute, "s", "s", "1h", 8_000_000 + 9_600_000, 0, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, b := settled(t, "a", "deep", noon, test.first), settled(t, "b", "deep", noon.Add(test.gap), test.second)
			a.Trace, b.Trace = &usage.Trace{Session: test.session}, &usage.Trace{Session: test.next}
			r := run(t, calculator(t, book, a, b), Question{TTL: test.ttl})
			if r.Total.Would != test.would {
				t.Errorf("would cost %d, want %d", r.Total.Would, test.would)
			}
			if c := r.Counts; c.Misses != test.misses || c.Hits != test.hits || c.Sessionless != test.sessionless {
				t.Errorf("misses, hits, sessionless = %d, %d, %d", c.Misses, c.Hits, c.Sessionless)
			}
		})
	}
}

// TestBatchShare checks that exactly the share of each day's calls is batched, and always the same ones.
func TestBatchShare(t *testing.T) {
	t.Parallel()
	var list []usage.Settlement
	days := []int{10, 2500, 1024, 3} // calls of deep
	for day, n := range days {
		for i := range n {
			at := noon.AddDate(0, 0, day).Add(time.Duration(i) * time.Second)
			list = append(list, settled(t, fmt.Sprintf("d%d-%d", day, i), "deep", at, chat.Usage{Prompt: 1000}))
			if i%5 == 0 { // these have no price for batches, and are in no share
				list = append(list, settled(t, fmt.Sprintf("p%d-%d", day, i), "plain", at, chat.Usage{Prompt: 1000}))
			}
		}
	}
	r := run(t, calculator(t, book, list...), Question{Batched: "0.3"})
	for day, n := range days {
		want := -price.Nano(n*3/10) * 2_000_000 // each saves half of 4000
		if got := r.Days[day].Difference(); got != want {
			t.Errorf("day %d saves %d, want %d", day, got, want)
		}
	}
	if want := int64(3 + 750 + 307 + 0); r.Counts.Batched != want {
		t.Errorf("%d calls are batched, want %d", r.Counts.Batched, want)
	}
	if want := int64(2 + 500 + 205 + 1); r.Counts.Unbatched != want {
		t.Errorf("%d calls cannot be batched, want %d", r.Counts.Unbatched, want)
	}
	again := run(t, calculator(t, book, list...), Question{Batched: "0.3"})
	if fmt.Sprint(again) != fmt.Sprint(r) {
		t.Error("another run has another result")
	}
}

// TestUnpriced keeps calls without a cost on one side out of the difference.
func TestUnpriced(t *testing.T) {
	t.Parallel()
	none := settled(t, "a", "deep", noon, chat.Usage{Prompt: 1000})
	none.Cost, none.Terms.Version = nil, ""
	gone := settled(t, "b", "plain", noon, chat.Usage{Prompt: 1000, AudioOut: 1, Completion: 1})
	gone.Terms.Uses = []price.Use{{Name: "web_search", Milli: 1000}} // plain has no fee for it
	failed := settled(t, "c", "deep", noon, chat.Usage{Prompt: 1000})
	failed.Cost, failed.End = nil, usage.EndFailed // refused by the vendor, who charges nothing
	r := run(t, calculator(t, book, none, gone, failed), Question{List: `{"prices":[{"model":"deep","input":7,"output":7},{"model":"plain","input":2,"output":6}]}`})
	want := Sums{Calls: 3, Cost: 1_003_000, OnlyCost: 1_003_000, Would: 7_000_000, OnlyWould: 7_000_000, Unpriced: 1, WouldUnpriced: 1}
	if r.Total != want || r.Total.Difference() != 0 {
		t.Errorf("got %+v, want %+v", r.Total, want)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "1 request that had no price") || !strings.Contains(notes, "1 request without a price in this scenario") {
		t.Errorf("notes: %s", notes)
	}
}

// TestSamePrices is the property that a replay with the prices of the calls changes nothing, in any row.
func TestSamePrices(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		list := randomCalls(t, random, 300)
		var text bytes.Buffer
		if err := price.Write(&text, entriesOf(t, book)); err != nil {
			t.Fatal(err)
		}
		r := run(t, calculator(t, book, list...), Question{List: text.String()})
		var real price.Nano
		for i := range list {
			if list[i].Cost != nil {
				real += *list[i].Cost
			}
		}
		if r.Total.Cost != real || r.Total.Would != real {
			t.Fatalf("seed %d: cost %d, would %d, want %d", seed, r.Total.Cost, r.Total.Would, real)
		}
		for _, rows := range [][]Row{r.Accounts, r.Keys, r.Models, r.Days, r.Rows} {
			var sum Sums
			for i := range rows {
				if rows[i].Cost != rows[i].Would {
					t.Fatalf("seed %d: %+v", seed, rows[i])
				}
				sum.Cost += rows[i].Cost
				sum.Calls += rows[i].Calls
			}
			if sum.Cost != real || sum.Calls != int64(len(list)) {
				t.Fatalf("seed %d: the rows add up to %+v, want %d", seed, sum, real)
			}
		}
	}
}

// TestReplayIsPricing is the property that a replay with other prices costs what the calls cost if they are priced by them.
func TestReplayIsPricing(t *testing.T) {
	t.Parallel()
	const other = `{"prices":[{"model":"deep","input":3.3,"cache_read":0.07,"cache_write_5m":1,"cache_write_1h":2,"output":17,"above":[{"tokens":5000,"input":9,"cache_read":1,"cache_write_5m":2,"cache_write_1h":3,"output":30}],"tiers":{"batch":0.4,"priority":3}},{"model":"plain","input":0.9,"output":2}]}`
	b := price.NewBook(entriesOf(t, other))
	for seed := range uint64(50) {
		list := randomCalls(t, rand.New(rand.NewPCG(seed, 2)), 300)
		r := run(t, calculator(t, book, list...), Question{List: other})
		var want price.Nano
		var unpriced int64
		for i := range list {
			s := list[i]
			s.Price(b.Find(s.ModelUsed, "", "").At(s.At.Unix()), 0)
			if s.Cost == nil {
				unpriced++
				continue
			}
			want += *s.Cost
		}
		if r.Total.Would != want || r.Total.WouldUnpriced != unpriced {
			t.Fatalf("seed %d: would cost %d (%d without), want %d (%d)", seed, r.Total.Would, r.Total.WouldUnpriced, want, unpriced)
		}
	}
}

// randomCalls returns priced calls of many kinds, in the order of their time.
func randomCalls(t testing.TB, random *rand.Rand, n int) []usage.Settlement {
	entries := price.NewBook(entriesOf(t, book))
	at := noon.AddDate(0, 0, -5)
	list := make([]usage.Settlement, n)
	for i := range list {
		at = at.Add(time.Duration(random.Int64N(int64(30 * time.Minute))))
		tokens := chat.Usage{Prompt: 3000 + random.IntN(3000), Completion: random.IntN(500), Reasoning: random.IntN(200), Cached: random.IntN(2) * random.IntN(5000)}
		model := []string{"deep", "plain"}[random.IntN(2)]
		if model == "deep" {
			tokens.CacheWrite5m, tokens.CacheWrite1h = random.IntN(1000), random.IntN(1000)
		} else {
			tokens.Cached = 0
		}
		s := usage.Settlement{
			ID: fmt.Sprint(i), At: at, AccountID: fmt.Sprint("acct_", random.IntN(3)), KeyID: fmt.Sprint("key_", random.IntN(4)),
			ModelUsed: model, Provider: "acme", Tokens: tokens, End: usage.EndComplete, Trace: &usage.Trace{Session: fmt.Sprint(random.IntN(5))},
		}
		if model == "deep" {
			s.Terms.Tier = []string{"", "batch", "priority", "standard"}[random.IntN(4)]
		}
		s.Price(entries.Find(model, "", "").At(at.Unix()), 0)
		list[i] = s
	}
	return list
}

// TestCustomersSeeCharges adds the margin where a customer asks.
func TestCustomersSeeCharges(t *testing.T) {
	t.Parallel()
	s := settled(t, "a", "deep", noon, chat.Usage{Prompt: 1000, Completion: 100})
	s.Price(price.NewBook(entriesOf(t, book)).Find("deep", "", "").At(noon.Unix()), 1_200_000)
	c := calculator(t, book, s)
	prices := c.Prices
	c.Prices = func() Prices {
		p := prices()
		p.Markup = func(accountID, plan string) price.Factor {
			if accountID != "acct_a" || plan != "scale" {
				t.Errorf("markup of %s %s", accountID, plan)
			}
			return 1_200_000
		}
		return p
	}
	q := Question{Models: []string{"deep=plain"}}
	if got := run(t, c, q).Total; got.Cost != 6_000_000 || got.Would != 1_300_000 {
		t.Errorf("staff sees %+v", got)
	}
	q.Told = true
	if got := run(t, c, q).Total; got.Cost != 7_200_000 || got.Would != 1_560_000 {
		t.Errorf("the customer sees %+v", got)
	}
}

// TestRestated uses the prices of today where those of a call are not known any more.
func TestRestated(t *testing.T) {
	t.Parallel()
	s := settled(t, "a", "deep", noon, chat.Usage{Prompt: 3000, Cached: 1000})
	s.Terms.Version = "0123456789ab"
	r := run(t, calculator(t, book, s), Question{TTL: "none"})
	if r.Counts.Restated != 1 || r.Total.Would != 16_000_000 {
		t.Errorf("got %+v %+v", r.Counts, r.Total)
	}
}

// TestPast uses the prices that a call was settled with, though others are in force.
func TestPast(t *testing.T) {
	t.Parallel()
	s := settled(t, "a", "deep", noon, chat.Usage{Prompt: 3000, Cached: 1000})
	c := calculator(t, `{"prices":[{"model":"deep","input":9,"cache_read":9,"output":9}]}`, s, s)
	had := &past{entries: entriesOf(t, book)}
	c.Versions = had
	r := run(t, c, Question{TTL: "none"})
	if r.Counts.Restated != 0 || r.Total.Would != 2*16_000_000 || had.asked != 1 {
		t.Errorf("got %+v %+v, asked %d times", r.Counts, r.Total, had.asked)
	}
	had.err = errors.New("the database is down")
	if _, err := c.Run(t.Context(), within(Question{TTL: "none"})); !errors.Is(err, had.err) {
		t.Errorf("Run = %v, want %v", err, had.err)
	}
}

// past has the entries of a list, or fails.
type past struct {
	entries []*price.Entry
	err     error
	asked   int
}

func (p *past) Entry(_ context.Context, version string) (*price.Entry, error) {
	p.asked++
	for _, e := range p.entries {
		if e.Version() == version && p.err == nil {
			return e, nil
		}
	}
	return nil, p.err
}

// TestBounds adds up what has no room in a table, and stops where it is told to.
func TestBounds(t *testing.T) {
	t.Parallel()
	var list []usage.Settlement
	s := settled(t, "a", "deep", noon, chat.Usage{Prompt: 1000})
	for i := range mostRows + 5 {
		s.KeyID, s.At = fmt.Sprint("key_", i), noon.Add(time.Duration(i)*time.Second)
		list = append(list, s)
	}
	c := calculator(t, book, list...)
	r := run(t, c, Question{Models: []string{"deep=plain"}})
	if n := len(r.Keys); n != mostRows+1 || r.Keys[n-1].Key != Others || r.Keys[n-1].Calls != 5 || r.Keys[n-1].Would != 5_000_000 {
		t.Errorf("%d keys, the last %+v", n, r.Keys[n-1])
	}
	r = run(t, c, Question{Models: []string{"deep=plain"}, Most: 7})
	if r.Total.Calls != 7 || !r.Until.Equal(list[6].At) {
		t.Errorf("%d calls until %s", r.Total.Calls, r.Until)
	}
}

// TestQuestions says what is wrong with a question.
func TestQuestions(t *testing.T) {
	t.Parallel()
	c := calculator(t, book)
	for _, test := range []struct {
		q     Question
		param string
	}{
		{Question{}, ""},
		{Question{TTL: "2h"}, "cache_ttl"},
		{Question{Batched: "1.1"}, "batch_share"},
		{Question{Batched: "0.1234567"}, "batch_share"},
		{Question{Batched: "-1"}, "batch_share"},
		{Question{Models: []string{"deep"}}, "models"},
		{Question{Models: []string{"deep=plain", "deep=deep"}}, "models"},
		{Question{Models: []string{"deep=nothing"}}, "models"},
		{Question{Models: []string{"deep=free"}}, "models"},
		{Question{List: "[]"}, "prices"},
		{Question{List: `{"a":1}`}, "prices"},
		{Question{Models: make([]string, maxModels+1)}, "models"},
	} {
		_, err := c.Run(t.Context(), within(test.q))
		if f := fault.From(err); f.Kind != fault.Invalid || f.Param != test.param {
			t.Errorf("%+v: %v at %q, want one at %q", test.q, err, f.Param, test.param)
		}
	}
	if _, err := c.Run(t.Context(), Question{TTL: "none"}); fault.From(err).Param != "to" {
		t.Errorf("an empty time: %v", err)
	}
}

// TestTurns prices the parts of a call apart, each by the length of its own prompt.
func TestTurns(t *testing.T) {
	t.Parallel()
	const banded = `{"prices":[{"model":"deep","input":10,"output":10,"above":[{"tokens":1500,"input":20,"output":20}]}]}`
	s := usage.Settlement{ID: "a", At: noon, AccountID: "acct_a", ModelUsed: "deep", Provider: "acme", End: usage.EndComplete}
	s.AddTurn(usage.Turn{Tokens: chat.Usage{Prompt: 1000}})
	s.AddTurn(usage.Turn{Tokens: chat.Usage{Prompt: 1000, Completion: 100}})
	s.Price(price.NewBook(entriesOf(t, book)).Find("deep", "", "").At(noon.Unix()), 0)
	got := run(t, calculator(t, book, s), Question{List: banded}).Total
	if got.Cost != 10_000_000 || got.Would != 21_000_000 { // neither turn is longer than 1500
		t.Errorf("got %+v, want 21000000 for the two turns", got)
	}
	if got := run(t, calculator(t, book, s), Question{List: book}).Total; got.Would != got.Cost {
		t.Errorf("the same prices: %+v", got)
	}
}
