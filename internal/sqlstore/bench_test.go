package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/chat"
	"sluice/internal/pgtest"
	"sluice/internal/sqlstore"
	"sluice/internal/usage"
)

// BenchmarkRecordSettlements measures the cost of moving one settlement into the database.
func BenchmarkRecordSettlements(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { recordSettlements(b, open(b, "sqlite", b.TempDir())) })
	b.Run("postgres", func(b *testing.B) { recordSettlements(b, open(b, pgtest.Own(b, "fsync=on").URL(), b.TempDir())) })
}

func recordSettlements(b *testing.B, s *sqlstore.Store) {
	const size = 500
	now, n := time.Now(), 0
	b.ReportAllocs()
	for b.Loop() {
		batch := make([]usage.Settlement, size)
		for i := range batch {
			n++
			batch[i] = usage.Settlement{
				ID: fmt.Sprintf("%032x", n), At: now, AccountID: "acct_1", KeyID: "key_1", Plan: "scale", Tier: "free", ModelAsked: "m", ModelUsed: "m", Provider: "p",
				Tokens: chat.Usage{Prompt: 57, Completion: 143}, RequestMilli: 1000, UnitMilli: 1000, Status: 200, End: usage.EndComplete, Latency: time.Millisecond,
			}
		}
		if err := s.RecordSettlements(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size), "µs/settlement")
}
