package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
)

// newSettlement returns settlement n. Every second one has a cost, so that sums must tell a cost of zero
// from one that is not known.
func newSettlement(n int, at time.Time, key, model string) usage.Settlement {
	s := usage.Settlement{
		ID: fmt.Sprintf("request-%05d", n), At: at, AccountID: "acct_1", KeyID: key, Plan: "basic", Tier: "free",
		ModelAsked: model, ModelUsed: model, Provider: "lab", Tokens: chat.Usage{Prompt: 10, Cached: 5, Completion: 7, Reasoning: 3, CacheWrite5m: 4, CacheWrite1h: 2},
		RequestMilli: 1500, UnitMilli: 2000, Status: 200, End: usage.EndComplete, Latency: 100 * time.Millisecond, FirstToken: 10 * time.Millisecond,
		MCPCalls: n, MCPFailed: n / 2,
	}
	if n%3 == 0 {
		s.Door = usage.DoorEmbeddings
	}
	if n%2 == 0 {
		cost := price.Nano(42_007)
		s.Cost, s.Margin = &cost, 3
		s.Terms = usage.Terms{Version: "abc123", Tier: "priority", Region: "us", Model: "another", Estimated: true, Uses: []price.Use{{Name: "web_search", Milli: 2000}}}
		s.Tokens.CacheWrite, s.Tokens.AudioIn, s.Tokens.ImageIn, s.Tokens.AudioOut, s.Tokens.ImageOut = 1, 1, 1, 2, 3
	}
	return s
}

// record stores settlements.
func record(t testing.TB, s *alltest.Store, batch ...usage.Settlement) {
	t.Helper()
	if err := s.RecordSettlements(t.Context(), batch); err != nil {
		t.Fatalf("RecordSettlements = %v", err)
	}
}

// agree checks that rows and sums match, over the given number of account days, as "sluice audit" does.
func agree(t testing.TB, s *alltest.Store, days int) {
	t.Helper()
	differences, compared, err := s.AuditUsage(t.Context())
	if err != nil || len(differences) != 0 || compared != days {
		t.Errorf("AuditUsage = %+v, %d, %v, want no difference in %d account days", differences, compared, err, days)
	}
}

// settlements checks the sums by day, key and model, and which settlements are known.
func settlements(t *testing.T, open func() *alltest.Store) {
	s := open()
	day := usage.DayOf(base)
	record(t, s,
		newSettlement(1, day.Add(time.Hour), "key_a", "m1"),
		newSettlement(2, day.Add(time.Hour), "key_a", "m1"),
		newSettlement(3, day.Add(2*time.Hour), "key_a", "m1"),
		newSettlement(4, day.Add(23*time.Hour+59*time.Minute), "key_b", "m1"),
		newSettlement(5, day.Add(24*time.Hour), "key_a", "m2"),
	)
	got, err := s.UsageByDay(t.Context(), "acct_1", day)
	if err != nil {
		t.Fatal(err)
	}
	// The sums of n settlements, of which priced have a cost. Prompt includes Cached here, as on the wire.
	sums := func(n, priced int64) usage.Sums {
		return usage.Sums{
			Requests: n, Prompt: 15 * n, Cached: 5 * n, Completion: 10 * n, Reasoning: 3 * n, RequestMilli: 1500 * n, UnitMilli: 2000 * n,
			Cost: price.Nano(42_007 * priced), Margin: price.Nano(3 * priced), Written: 6*n + priced, Unpriced: n - priced, LatencyMS: 100 * n, FirstMS: 10 * n, First: n,
		}
	}
	want := []usage.Row{
		{Slot: usage.Slot{AccountID: "acct_1", KeyID: "key_a", Model: "m1", Start: day}, Sums: sums(3, 1)},
		{Slot: usage.Slot{AccountID: "acct_1", KeyID: "key_b", Model: "m1", Start: day}, Sums: sums(1, 1)},
		{Slot: usage.Slot{AccountID: "acct_1", KeyID: "key_a", Model: "m2", Start: day.Add(24 * time.Hour)}, Sums: sums(1, 0)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("UsageByDay: -want +got\n%s", diff)
	}
	if got, err := s.UsageByDay(t.Context(), "acct_1", day.Add(24*time.Hour)); err != nil || len(got) != 1 {
		t.Errorf("UsageByDay from the second day = %d rows, %v, want 1", len(got), err)
	}
	if got, err := s.UsageByDay(t.Context(), "acct_2", day); err != nil || len(got) != 0 {
		t.Errorf("UsageByDay of another account = %d rows, %v, want none", len(got), err)
	}
	// A settlement is known by its id and its time: number 2 is there, but at another time.
	have, err := s.HasSettlements(t.Context(), []usage.Settlement{
		newSettlement(1, day.Add(time.Hour), "", ""), newSettlement(5, day.Add(24*time.Hour), "", ""), newSettlement(6, day, "", ""), newSettlement(2, day, "", ""),
	})
	if err != nil || !cmp.Equal(have, map[string]bool{"request-00001": true, "request-00005": true}) {
		t.Errorf("HasSettlements = %v, %v, want 1 and 5", have, err)
	}
	agree(t, s, 2)
}

// settledOnce checks that a settlement counts once, however often and from wherever it is recorded.
// After a crash a node records its journal again, without knowing what has arrived.
func settledOnce(t *testing.T, open func() *alltest.Store) {
	s := open()
	var batch []usage.Settlement
	for n := range 250 {
		batch = append(batch, newSettlement(n, base.Add(time.Duration(n)*time.Minute), fmt.Sprint("key_", n%3), fmt.Sprint("m", n%2)))
	}
	record(t, s, batch[:150]...)
	// Repeated alone, twice in one batch, and by several writers whose batches overlap, old and new.
	record(t, s, batch[100:150]...)
	record(t, s, append(batch[:10:10], batch[:10]...)...)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { record(t, s, batch[i*30:i*30+100]...) })
	}
	wg.Wait()
	var total usage.Sums
	rows, err := s.UsageByDay(t.Context(), "acct_1", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		total.Merge(r.Sums)
	}
	if total.Requests != 250 {
		t.Errorf("%d requests are counted, want 250", total.Requests)
	}
	agree(t, s, 1)
}

// auditUsage checks that an audit that runs while calls are settled reports no false difference.
func auditUsage(t *testing.T, open func() *alltest.Store) {
	s := open()
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := range 60 {
			record(t, s, newSettlement(2*n, base.AddDate(0, 0, n%3), "key_a", "m1"), newSettlement(2*n+1, base, "key_b", "m2"))
		}
	})
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	for audits := 0; ; audits++ {
		if differences, _, err := s.AuditUsage(t.Context()); err != nil || len(differences) != 0 {
			t.Errorf("AuditUsage while calls are settled = %+v, %v, want no difference", differences, err)
			break
		}
		select {
		case <-done:
			agree(t, s, 3)
			// A test in which the audit never overlapped with writing would prove nothing.
			if audits == 0 {
				t.Error("no audit ran beside the settling, want some")
			}
			return
		default:
		}
	}
	<-done
}

// dropSettlements checks that old settlements are deleted in batches and that their sums stay. A day of
// which some settlements were deleted must not be a difference to the audit.
func dropSettlements(t *testing.T, open func() *alltest.Store) {
	s := open()
	for n := range 10 {
		record(t, s, newSettlement(n, base.Add(time.Duration(n)*time.Hour), "key_a", "m1"))
	}
	record(t, s, newSettlement(10, base.AddDate(0, 0, 1), "key_a", "m1"))
	agree(t, s, 2)
	if at, err := s.SettlementsDropped(t.Context()); err != nil || !at.IsZero() {
		t.Errorf("SettlementsDropped = %v, %v before anything was, want zero", at, err)
	}
	for _, want := range []int64{3, 2, 0} { // five are older, three at a time
		if n, err := s.DropSettlements(t.Context(), base.Add(5*time.Hour), 3); err != nil || n != want {
			t.Errorf("DropSettlements = %d, %v, want %d", n, err, want)
		}
		agree(t, s, 1) // a partly deleted day cannot be compared; the next one can
	}
	// The time up to which settlements are dropped never moves back.
	if n, err := s.DropSettlements(t.Context(), base.Add(time.Hour), 3); err != nil || n != 0 {
		t.Errorf("DropSettlements of an earlier time = %d, %v, want 0", n, err)
	}
	if at, err := s.SettlementsDropped(t.Context()); err != nil || !at.Equal(base.Add(5*time.Hour)) {
		t.Errorf("SettlementsDropped = %v, %v, want the latest time, %v", at, err, base.Add(5*time.Hour))
	}
	rows, err := s.UsageByDay(t.Context(), "acct_1", time.Time{})
	var total usage.Sums
	for _, r := range rows {
		total.Merge(r.Sums)
	}
	if err != nil || total.Requests != 11 {
		t.Errorf("the sums have %d requests, %v, want all 11", total.Requests, err)
	}
}

// eachCall reads the calls of a span in order, with their corrections: over pages, and over calls of one moment that a page ends
// between.
func eachCall(t *testing.T, open func() *alltest.Store) {
	s := open()
	day := usage.DayOf(base)
	const n = 4100 // more than two pages
	var batch []usage.Settlement
	for i := range n {
		r := newSettlement(i, day.Add(time.Duration(i/10)*time.Millisecond), "key_a", "m1")
		r.AccountID, r.Counted = fmt.Sprintf("acct_%d", i%3), i%5 == 0
		if i%4 == 0 {
			r.Trace = &usage.Trace{Session: fmt.Sprint("s", i), Attempts: []usage.Attempt{{Model: "m1", Provider: "lab", Upstream: "up", Outcome: usage.Answered}}}
		}
		batch = append(batch, r)
	}
	record(t, s, batch...)
	correctSome(t, s, batch)
	for _, test := range []struct {
		span usage.Span
		want func(i int) bool
	}{
		{usage.Span{From: day, To: day.Add(time.Hour)}, func(int) bool { return true }},
		{usage.Span{AccountID: "acct_1", From: day, To: day.Add(time.Hour)}, func(i int) bool { return i%3 == 1 }},
		{usage.Span{From: day.Add(10 * time.Millisecond), To: day.Add(20 * time.Millisecond)}, func(i int) bool { return i >= 100 && i < 200 }},
		{usage.Span{AccountID: "acct_9", From: day, To: day.Add(time.Hour)}, func(int) bool { return false }},
	} {
		var want, got []usage.Settlement
		for i := range batch {
			if test.want(i) {
				r := batch[i]
				// What a cost does not follow from is not read.
				r.Door, r.Tier, r.ModelAsked, r.RequestMilli, r.UnitMilli, r.MCPCalls, r.MCPFailed, r.Status, r.Latency, r.FirstToken = "", "", "", 0, 0, 0, 0, 0, 0, 0
				want = append(want, r)
			}
		}
		err := s.EachCall(t.Context(), test.span, func(r *usage.Settlement) error {
			got = append(got, *r)
			return nil
		})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("EachCall(%+v) = %d calls, %v, want %d: -want +got\n%.2000s", test.span, len(got), err, len(want), diff)
		}
	}
	stop, seen := errors.New("stop"), 0
	err := s.EachCall(t.Context(), usage.Span{From: day, To: day.Add(time.Hour)}, func(*usage.Settlement) error {
		if seen++; seen == 2500 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || seen != 2500 {
		t.Errorf("EachCall = %v after %d calls, want it to end at the error", err, seen)
	}
}

// eachCharged reads the calls that count against budgets, over pages, as they were settled.
func eachCharged(t *testing.T, open func() *alltest.Store) {
	s := open()
	var batch, want []usage.Settlement
	for i := range 9000 { // every second one is more than two pages
		settlement := func() usage.Settlement {
			r := newSettlement(i, base.Add(time.Duration(i/10)*time.Millisecond), "key_a", "m1")
			if i%2 == 0 {
				r.Terms.Budgets = []usage.Charge{{Count: "bud_1", Period: -300_000, Holder: "node/a/1/1", Reserved: 7, Amount: 9, After: time.Millisecond}, {Count: "bud_2/s"}}
			}
			return r
		}
		if batch = append(batch, settlement()); i%2 == 0 {
			want = append(want, settlement())
		}
	}
	record(t, s, batch...)
	correctSome(t, s, batch) // which changes no budget
	var got []usage.Settlement
	err := s.EachCharged(t.Context(), func(r *usage.Settlement) error {
		got = append(got, *r)
		return nil
	})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("EachCharged = %d calls, %v, want %d: -want +got\n%.2000s", len(got), err, len(want), diff)
	}
}

// correctSome corrects every 99th call once, and every 990th once more. It changes the calls as readers see them.
func correctSome(t *testing.T, s *alltest.Store, batch []usage.Settlement) {
	t.Helper()
	for number, every := range []int{99, 990} {
		var fixes []usage.Fix
		for i := 0; i < len(batch); i += every {
			c := usage.Correction{Number: number + 1, Cost: 1001, Margin: -1, Priced: batch[i].Cost == nil && number == 0, New: fmt.Sprint("v", number), By: "t", MadeAt: base}
			fixes = append(fixes, usage.Fix{Call: &batch[i], Correction: c})
		}
		must(t, s.Correct(t.Context(), fixes))
	}
	for i := 0; i < len(batch); i += 99 {
		c := usage.Corrected{Times: 1, Cost: 1001, Margin: -1, Priced: batch[i].Cost == nil}
		version := "v0"
		if i%990 == 0 {
			c.Times, c.Cost, c.Margin, version = 2, 2002, -2, "v1"
		}
		batch[i].Correct(c, version)
	}
}
