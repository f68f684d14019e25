package calls_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

// BenchmarkRecordSettlements measures the cost of moving one settlement into the database: of one account, and of a
// thousand, whose sums are rows of their own.
func BenchmarkRecordSettlements(b *testing.B) {
	for _, accounts := range []int{1, 1000} {
		name := fmt.Sprintf("accounts=%d", accounts)
		b.Run("sqlite/"+name, func(b *testing.B) { recordSettlements(b, alltest.In(b, "sqlite", b.TempDir()), accounts) })
		b.Run("postgres/"+name, func(b *testing.B) {
			recordSettlements(b, alltest.In(b, pgtest.Own(b, "fsync=on").URL(), b.TempDir()), accounts)
		})
	}
}

// recordSettlements stores batches as large as the committer's, with calls like those of bench/load.
func recordSettlements(b *testing.B, s *alltest.Store, accounts int) {
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
