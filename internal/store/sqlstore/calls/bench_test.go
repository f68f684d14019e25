package calls_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

// BenchmarkRecordSettlements measures the cost of moving one settlement into the database: of one account, of a thousand,
// whose sums are rows of their own, and of calls that have little in common.
func BenchmarkRecordSettlements(b *testing.B) {
	for _, bench := range []struct {
		name     string
		accounts int
		vary     func(r *usage.Settlement, n int)
	}{
		{"accounts=1", 1, func(*usage.Settlement, int) {}},
		{"accounts=1000", 1000, func(*usage.Settlement, int) {}},
		{"varied", 20, vary},
	} {
		b.Run("sqlite/"+bench.name, func(b *testing.B) {
			recordSettlements(b, alltest.In(b, "sqlite", b.TempDir()), bench.accounts, bench.vary)
		})
		b.Run("postgres/"+bench.name, func(b *testing.B) {
			recordSettlements(b, alltest.In(b, pgtest.Own(b, "fsync=on").URL(), b.TempDir()), bench.accounts, bench.vary)
		})
	}
}

// vary makes a call one of a busy installation: several models with prices, caches, streams, and calls that fail.
func vary(r *usage.Settlement, n int) {
	r.ModelAsked = fmt.Sprintf("model-%d", n%5)
	r.ModelUsed, r.Provider, r.Plan = r.ModelAsked, fmt.Sprintf("provider-%d", n%3), []string{"free", "basic", "scale"}[n%3]
	r.Tokens = chat.Usage{Prompt: 57 + n%911, Cached: 64 * (n % 13), Completion: 143 + n%307, Reasoning: n % 101}
	cost := price.Nano(1_000_003 * int64(n%4001))
	r.Cost, r.Margin, r.UnitMilli, r.Cacheable, r.Saved = &cost, cost/10, 1000*int64(1+n%3), int64(64*(n%13)), cost/20
	r.Terms.Version = fmt.Sprintf("v%d", n%5)
	r.Latency, r.FirstToken = time.Duration(n%3001)*time.Millisecond, time.Duration(n%301)*time.Millisecond
	if n%100 == 99 {
		r.Status, r.End = 502, usage.EndCut
	}
}

// recordSettlements stores batches as large as the committer's, with calls like those of bench/load, which vary changes.
func recordSettlements(b *testing.B, s *alltest.Store, accounts int, vary func(r *usage.Settlement, n int)) {
	const size = 2000
	now, n := time.Now(), 0
	batch := make([]usage.Settlement, size)
	b.ReportAllocs()
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		for i := range batch {
			n++
			at := now.Add(time.Duration(n) * 100 * time.Microsecond)
			// As httpapi makes them: the second, and bits in no order.
			id := fmt.Sprintf("%08x%024x", at.Unix(), rand.Uint64())
			batch[i] = usage.Settlement{
				ID: id, At: at, AccountID: fmt.Sprintf("acct_%020d", n%accounts), KeyID: fmt.Sprintf("key_%020d", n%accounts),
				Plan: "scale", Tier: "free", ModelAsked: "bench-model", ModelUsed: "bench-model", Provider: "upstream",
				Tokens: chat.Usage{Prompt: 57, Completion: 143}, RequestMilli: 1000, UnitMilli: 1000, Status: 200, End: usage.EndComplete, Latency: time.Millisecond,
				Trace: &usage.Trace{Address: "192.0.2.1", Attempts: []usage.Attempt{{Model: "bench-model", Provider: "upstream", Upstream: "fake", Outcome: usage.Answered, End: time.Millisecond}}},
			}
			vary(&batch[i], n)
		}
		began := usedCPU()
		b.StartTimer()
		if err := s.RecordSettlements(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		cpu += usedCPU() - began
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size), "µs/settlement")
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N*size), "cpu-µs/settlement")
}
