package storetest

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/ledger/costs"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
)

// world is a random history of prices and calls, and what they must cost.
type world struct {
	t      *testing.T
	random *rand.Rand
	nodes  []*alltest.Store
	books  []*usage.Books
	dirs   []string
	known  map[string]*price.Entry // every price that ever was, by version
	book   map[string]*price.Series
	calls  map[string]*usage.Settlement // as they must be, with what corrections have made of them
	ids    []string
	fixed  int // calls that were corrected
}

// Entry implements costs.Versions.
func (w *world) Entry(_ context.Context, version string) (*price.Entry, error) {
	return w.known[version], nil
}

// today returns the prices of a call. Some models have none.
func (w *world) today(s *usage.Settlement, turn int) *price.Entry {
	if turn%2 == 1 { // a step that the vendor asked another model for
		return w.book["model3"].At(s.At.Unix())
	}
	return w.book[s.ModelUsed].At(s.At.Unix())
}

// reprices makes another book: for each model two prices, of which the second begins at a random day.
func (w *world) reprices() {
	w.book = map[string]*price.Series{}
	for m := range 4 {
		name := fmt.Sprint("model", m)
		if w.random.IntN(4) == 0 {
			continue
		}
		var list []*price.Entry
		for i := range 2 {
			e := price.Entry{Model: name, Rates: price.Of(price.Rate(w.random.Int64N(9_999_999_999)), price.Rate(w.random.Int64N(99_999_999_999))), Tiers: map[string]price.Factor{"priority": 2_000_000, "batch": 333_333}}
			e.Rates[price.CacheRead], e.Rates[price.CacheWrite1h] = price.Rate(w.random.Int64N(1_234_567_891)), price.Rate(w.random.Int64N(19_999_999_999))
			e.Bands = []price.Band{{Above: 3000, Rates: price.Of(price.Rate(w.random.Int64N(9_999_999_999)), 77)}}
			e.Fees = map[string]price.Nano{"web_search": price.Nano(w.random.Int64N(10_000_007))}
			if i == 1 {
				e.From = usage.DayOf(base).Add(time.Duration(w.random.IntN(100)) * time.Hour)
			}
			sealed, err := price.Sealed(e)
			must(w.t, err)
			w.known[sealed.Version()] = sealed
			list = append(list, sealed)
		}
		w.book[name] = price.NewBook(list).Find(name, "", "")
	}
}

// settle makes a call of a random kind.
func (w *world) settle() usage.Settlement {
	r := w.random
	s := usage.Settlement{
		ID: fmt.Sprintf("%06d", len(w.ids)), At: usage.DayOf(base).Add(time.Duration(r.Int64N(int64(5 * 24 * time.Hour)))).Truncate(time.Millisecond), AccountID: fmt.Sprint("acct_", r.IntN(2)), KeyID: fmt.Sprint("key_", r.IntN(3)),
		Plan: "basic", Tier: "free", ModelAsked: "service/auto", ModelUsed: fmt.Sprint("model", r.IntN(4)), Provider: fmt.Sprint("p", r.IntN(2)), Trace: &usage.Trace{Session: fmt.Sprint("run", r.IntN(3))}, Status: 200, End: usage.EndComplete, RequestMilli: 1000, UnitMilli: 1000,
		Tokens: chat.Usage{Prompt: r.IntN(5000), Cached: r.IntN(9000) * r.IntN(2), Completion: r.IntN(900), Reasoning: r.IntN(50)}, Latency: time.Second, FirstToken: time.Millisecond, Counted: r.IntN(9) == 0,
	}
	s.Tokens.CacheWrite1h = r.IntN(1+s.Tokens.Prompt) * r.IntN(2)
	s.Terms.Tier = []string{"", "", "priority", "batch", "unheard of"}[r.IntN(5)]
	markup := []price.Factor{0, 0, 1_200_000, 777_777}[r.IntN(4)]
	switch r.IntN(6) {
	case 0:
		s.ModelAsked = s.ModelUsed
	case 1:
		s.Terms.Uses = []price.Use{{Name: "web_search", Milli: 1000 * r.Int64N(4)}}
	case 2:
		s.End, s.Status, s.Tokens = usage.EndFailed, 503, chat.Usage{}
	case 3:
		s.End, s.Terms.Estimated = usage.EndHangUp, true
	case 4:
		s.Tokens = chat.Usage{}
		for range 2 + r.IntN(3) {
			s.AddTurn(usage.Turn{Tokens: chat.Usage{Prompt: r.IntN(5000), Cached: r.IntN(5000), Completion: r.IntN(99)}, Tier: s.Terms.Tier, Uses: []price.Use{{Name: "web_search", Milli: 1000}}})
		}
	}
	if s.End != usage.EndFailed {
		s.PriceTurns(func(turn int) *price.Entry { return w.today(&s, turn) }, markup)
	}
	return s
}

// record lets random nodes record calls. Some calls come twice, and nodes are stopped and started in between.
func (w *world) record(n int) {
	for range n {
		s := w.settle()
		w.ids, w.calls[s.ID] = append(w.ids, s.ID), &s
		node := w.random.IntN(len(w.nodes))
		w.books[node].Record(s)
		switch w.random.IntN(20) {
		case 0: // another node has the same journal: one that was replayed
			other := w.nodes[1-node]
			must(w.t, other.RecordSettlements(w.t.Context(), []usage.Settlement{s}))
		case 1:
			must(w.t, w.books[node].Close())
			w.books[node] = usage.NewBooks(w.dirs[node], w.nodes[node], nil)
			must(w.t, w.books[node].Open())
		}
	}
	for _, b := range w.books {
		must(w.t, b.Flush(w.t.Context()))
	}
}

// reprice computes some calls anew on both nodes at once, and what they must cost.
func (w *world) reprice() {
	o := costs.Order{From: usage.DayOf(base).Add(time.Duration(w.random.IntN(60)) * time.Hour), Reason: "test", By: "cli:test"}
	o.To = o.From.Add(time.Duration(1+w.random.IntN(100)) * time.Hour)
	if w.random.IntN(2) == 0 {
		o.AccountID = "acct_1"
	}
	if w.random.IntN(2) == 0 {
		o.Model = "model1"
	}
	wants := w.wantRepriced(&o)
	w.fixed += wants
	var both sync.WaitGroup
	var changed [2]int
	for i, node := range w.nodes {
		both.Go(func() { changed[i] = w.repriced(node, o) })
	}
	both.Wait()
	if changed[0]+changed[1] != wants {
		w.t.Errorf("two nodes have corrected %d and %d calls, want %d together", changed[0], changed[1], wants)
	}
	if again := w.repriced(w.nodes[0], o); again != 0 {
		w.t.Errorf("the second run has corrected %d calls, want none", again)
	}
}

// wantRepriced changes what calls must cost, by a plain loop, and returns how many are changed.
func (w *world) wantRepriced(o *costs.Order) (n int) {
	for _, s := range w.calls {
		if s.At.Before(o.From) || !s.At.Before(o.To) || o.AccountID != "" && s.AccountID != o.AccountID || o.Model != "" && s.ModelUsed != o.Model || s.End == usage.EndFailed {
			continue
		}
		again := *s
		again.Terms.Turns = slices.Clone(s.Terms.Turns)
		if again.PriceTurns(func(turn int) *price.Entry { return w.today(s, turn) }, s.Terms.Markup); again.Cost == nil {
			continue
		}
		again.Cacheable = s.Cacheable // whether there was a cache is known since the call was settled
		if s.Cost == nil || *s.Cost != *again.Cost || s.Margin != again.Margin {
			*s = again
			n++
		}
	}
	return n
}

// repriced reprices on one node, part by part, and returns how many calls it has corrected.
func (w *world) repriced(node *alltest.Store, o costs.Order) (n int) {
	for {
		done, err := costs.New(node, w, w.today, nil).Reprice(w.t.Context(), o)
		if err != nil {
			w.t.Errorf("Reprice = %v", err)
			return n
		}
		for _, m := range done.Models {
			n += m.Changed
		}
		if done.Next == nil {
			return n
		}
		o.After = *done.Next
	}
}

// money is what calls add up to.
type money struct {
	requests, unpriced int64
	cost, margin       price.Nano
	read, written      int64
	usage.Caching
}

func moneyOf(s *usage.Sums) money {
	return money{s.Requests, s.Unpriced, s.Cost, s.Margin, s.Cached, s.Written, s.Caching}
}

func (m *money) add(s *usage.Settlement) {
	m.requests++
	m.read, m.written = m.read+int64(s.Tokens.Cached), m.written+int64(s.Tokens.CacheWritten())
	m.Merge(s.Caching)
	if s.Cost == nil {
		m.unpriced++
		return
	}
	m.cost, m.margin = m.cost+*s.Cost, m.margin+s.Margin
}

// check compares every way in which an account's costs are added up with a plain loop over its calls.
func (w *world) check(account string) {
	s, ctx, t := w.nodes[w.random.IntN(2)], w.t.Context(), w.t
	var want money
	for _, c := range w.calls {
		if c.AccountID == account {
			want.add(c)
		}
	}
	is := func(what string, got money, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s of %s = %+v, %v, want %+v", what, account, got, err, want)
		}
	}
	for _, q := range []usage.Query{{By: usage.ByDay}, {By: usage.ByModel}, {By: usage.ByKey, Hours: true}} { // the pages
		q.AccountID = account
		rows, err := s.UsageBy(ctx, q)
		is(fmt.Sprintf("UsageBy(%+v)", q), sumRows(rows), err)
	}
	rows, err := s.UsageByDay(ctx, account, time.Time{}) // the exports by day, and "sluice usage"
	is("UsageByDay", sumRows(rows), err)
	for _, step := range []time.Duration{time.Hour, 24 * time.Hour} { // the activity
		cells, err := s.Cells(ctx, usage.CellQuery{AccountID: account, Step: step})
		got := money{unpriced: want.unpriced} // it does not count calls without a cost that used nothing
		for i := range cells {
			got.requests, got.cost, got.margin = got.requests+cells[i].Calls, got.cost+cells[i].Cost, got.margin+cells[i].Margin
			got.read, got.written = got.read+cells[i].Cached, got.written+cells[i].Written
			got.Merge(cells[i].Caching)
		}
		is("Cells by "+step.String(), got, err)
	}
	var exported, replayed money // the export of calls; what if, and comparisons with exports of vendors
	calls, err := s.RecentSettlements(ctx, account, usage.Point{At: base.AddDate(1, 0, 0)}, 1<<20)
	for i := range calls {
		exported.add(&calls[i])
		w.same(&calls[i])
	}
	is("RecentSettlements", exported, err)
	month := usage.MonthOf(base)
	err = s.EachCall(ctx, usage.Span{AccountID: account, From: month, To: month.AddDate(0, 2, 0)}, func(r *usage.Settlement) error {
		replayed.add(r)
		w.same(r)
		return nil
	})
	replayed.Caching = want.Caching // it is computed anew from counts and prices
	w.sessions(s, account)
	is("EachCall", replayed, err)
	w.explained(s, usage.Selection{AccountID: account, From: month, To: month.AddDate(0, 2, 0)}, &want)
	// Any part of it adds up as well, from any hour, or any second, on.
	for _, step := range []time.Duration{time.Hour, time.Second} {
		for _, n := range []usage.Narrow{{}, {KeyID: "key_1"}, {Model: "service/auto"}, {Served: "model2"}, {Ends: []usage.End{usage.EndHangUp}}} {
			from := usage.DayOf(base).Add(time.Duration(w.random.IntN(100)) * time.Hour)
			w.explained(s, usage.Selection{AccountID: account, From: from, To: from.Add(time.Duration(1+w.random.Int64N(int64(50*time.Hour/step))) * step), Narrow: n}, nil)
		}
	}
}

// same checks that a call that was read has the cost that it must have, by the prices of its turns.
func (w *world) same(r *usage.Settlement) {
	w.t.Helper()
	if c := w.calls[r.ID]; r.ModelAsked != "" && c.Caching != r.Caching { // a replay does not read it
		w.t.Errorf("call %s has %+v of caches, want %+v", c.ID, r.Caching, c.Caching)
	}
	if c := w.calls[r.ID]; (c.Cost == nil) != (r.Cost == nil) || c.Cost != nil && *c.Cost != *r.Cost || !slices.EqualFunc(c.Turns(), r.Turns(), func(a, b usage.Turn) bool { return a.Version == b.Version }) {
		w.t.Errorf("call %s costs %v by %s, want %v by %s", c.ID, r.Cost, r.Terms.Version, c.Cost, c.Terms.Version)
	}
}

// sessions compares the sums of an account's sessions with a plain loop over its calls.
func (w *world) sessions(s *alltest.Store, account string) {
	want := map[string]*money{}
	for _, c := range w.calls {
		if c.AccountID != account {
			continue
		}
		if want[c.Session()] == nil {
			want[c.Session()] = &money{}
		}
		want[c.Session()].add(c)
		want[c.Session()].unpriced = 0 // sessions do not count calls without a cost that used nothing
	}
	for id, want := range want {
		sum, err := s.SessionSum(w.t.Context(), account, id)
		must(w.t, err)
		if got := (money{sum.Calls, 0, sum.Cost, sum.Margin, sum.Cached, sum.Written, sum.Caching}); got != *want {
			w.t.Errorf("session %s of %s = %+v, want %+v", id, account, got, *want)
		}
	}
}

// providers compares the sums over all accounts with a plain loop.
func (w *world) providers() {
	want := map[usage.ServedSlot]*money{}
	for _, c := range w.calls {
		slot := usage.ServedSlot{Start: usage.DayOf(c.At), Provider: c.Provider, Model: c.ModelUsed}
		if want[slot] == nil {
			want[slot] = &money{}
		}
		want[slot].add(c)
	}
	rows, err := w.nodes[0].ServedDays(w.t.Context(), usage.DayOf(base), usage.DayOf(base).AddDate(0, 1, 0))
	if err != nil || len(rows) != len(want) {
		w.t.Fatalf("ServedDays = %d rows, %v, want %d", len(rows), err, len(want))
	}
	for i := range rows {
		if got, want := moneyOf(&rows[i].Sums), want[rows[i].ServedSlot]; want == nil || got != *want {
			w.t.Errorf("ServedDays: %+v = %+v, want %+v", rows[i].ServedSlot, got, want)
		}
	}
}

func sumRows(rows []usage.Row) (m money) {
	for i := range rows {
		r := moneyOf(&rows[i].Sums)
		m.requests, m.unpriced, m.cost, m.margin = m.requests+r.requests, m.unpriced+r.unpriced, m.cost+r.cost, m.margin+r.margin
		m.read, m.written = m.read+r.read, m.written+r.written
		m.Merge(r.Caching)
	}
	return m
}

// explained checks that an explanation, its days, its models and its calls are the same sum, and that of the calls of the
// selection; and that the formula of each call adds up to its cost.
func (w *world) explained(s *alltest.Store, sel usage.Selection, want *money) {
	c, t, staff := costs.New(s, w, w.today, nil), w.t, w.random.IntN(2) == 0
	if want == nil {
		want = &money{}
		for _, call := range w.calls {
			if kind := usage.KindOf(call); call.AccountID == sel.AccountID && !call.At.Before(sel.From) && call.At.Before(sel.To) && sel.Wants(&kind) {
				want.add(call)
			}
		}
	}
	var listed money
	for next, first := "", true; first || next != ""; first = false {
		e, err := c.Explain(t.Context(), sel, next, 1+w.random.IntN(100), staff)
		if err != nil {
			t.Fatalf("Explain(%+v) = %v", sel, err)
		}
		for what, got := range map[string]money{"the total": moneyOf(&e.Total), "days": sumRows(e.Days), "models": sumRows(e.Models)} {
			if got != *want {
				t.Errorf("Explain(%+v): %s = %+v, want %+v", sel, what, got, *want)
			}
		}
		for i := range e.Calls {
			listed.add(&e.Calls[i].Settlement)
			w.formula(&e.Calls[i], staff)
		}
		next = e.Next
	}
	if listed != *want {
		t.Errorf("Explain(%+v): calls = %+v, want %+v", sel, listed, *want)
	}
}

// formula checks that the formula of a call, and its corrections, add up to its cost.
func (w *world) formula(c *costs.Call, staff bool) {
	if (c.Cost == nil) != (len(c.Entries) == 0) {
		w.t.Errorf("call %s has cost %v by %s and the entries %v", c.ID, c.Cost, c.Terms.Version, c.Entries)
	}
	if c.Cost == nil {
		return
	}
	want := *c.Cost
	if !staff {
		want = *c.Charge()
	}
	sum, _ := new(big.Rat).SetString(c.Rounding.Number().String())
	if limit := big.NewRat(int64(len(c.Turns())), 1_000_000_000); c.Terms.Markup == 0 && new(big.Rat).Abs(sum).Cmp(limit) >= 0 {
		w.t.Errorf("call %s is rounded by %s, want less than a nano-dollar", c.ID, sum.FloatString(12))
	}
	for i := range c.Lines {
		amount, _ := new(big.Rat).SetString(c.Lines[i].Amount.Number().String())
		sum.Add(sum, amount)
	}
	if sum.Cmp(big.NewRat(int64(want), 1_000_000_000)) != 0 {
		w.t.Errorf("the formula of call %s is %s, want %s", c.ID, sum.FloatString(21), want)
	}
	settled := price.Nano(0)
	if was := c.Settled(); was != nil {
		settled = *was
	}
	for i := range c.Corrections {
		settled += c.Corrections[i].Cost
	}
	if settled != *c.Cost || (c.Corrected != nil) != (len(c.Corrections) > 0) {
		w.t.Errorf("call %s was settled and corrected to %s, want %s", c.ID, settled, *c.Cost)
	}
}

// costsAgree is a property test: whatever calls are settled by whatever prices, on several nodes that are stopped and started,
// and however they are repriced, all ways to add their costs up have the same result, to the last nano-dollar.
func costsAgree(t *testing.T, open func() *alltest.Store) {
	rounds, size := 3, 60
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds, size = 12, 200 // each round adds up everything again, in several ways
	}
	w := &world{t: t, random: rand.New(rand.NewPCG(37, 4)), nodes: []*alltest.Store{open(), open()}, known: map[string]*price.Entry{}, calls: map[string]*usage.Settlement{}}
	for i := range w.nodes {
		w.dirs = append(w.dirs, t.TempDir())
		w.books = append(w.books, usage.NewBooks(w.dirs[i], w.nodes[i], nil))
		must(t, w.books[i].Open())
		defer func() { must(t, w.books[i].Close()) }()
	}
	for range rounds {
		w.reprices()
		w.record(size)
		w.reprices()
		w.reprice()
		for i := range 2 {
			w.check(fmt.Sprint("acct_", i))
		}
		w.providers()
		differences, _, err := w.nodes[0].AuditUsage(t.Context())
		if err != nil || len(differences) > 0 {
			t.Fatalf("AuditUsage = %+v, %v, want no difference", differences, err)
		}
	}
	if w.fixed == 0 {
		t.Error("no call was corrected, want some")
	}
	w.dropped()
}

// dropped checks that deleted calls stay in the totals.
func (w *world) dropped() {
	s, ctx := w.nodes[0], w.t.Context()
	sel := usage.Selection{AccountID: "acct_0", From: usage.DayOf(base), To: usage.DayOf(base).AddDate(0, 0, 5)}
	before, err := costs.New(s, w, w.today, nil).Explain(ctx, sel, "", 0, true)
	must(w.t, err)
	until := usage.DayOf(base).AddDate(0, 0, 2)
	for n := int64(1); n > 0; {
		n, err = s.DropSettlements(ctx, until, 1000)
		must(w.t, err)
	}
	after, err := costs.New(s, w, w.today, nil).Explain(ctx, sel, "", 200, true)
	if err != nil || after.Total != before.Total || !after.Since.Equal(until) {
		w.t.Errorf("after calls are deleted, the total since %s = %+v, %v, want %+v since %s", after.Since, after.Total, err, before.Total, until)
	}
	if differences, _, err := s.AuditUsage(ctx); err != nil || len(differences) > 0 {
		w.t.Errorf("AuditUsage = %+v, %v, want no difference", differences, err)
	}
	if left, err := sqlstore.Value[int64](s.Read(ctx), `SELECT COUNT(*) FROM price_corrections WHERE at < $1`, until); err != nil || left != 0 {
		w.t.Errorf("%d corrections of deleted calls are left, %v, want none", left, err)
	}
}
