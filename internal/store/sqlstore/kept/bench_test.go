package kept_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"sluice/internal/api/responses"
	"sluice/internal/store/sqlstore/alltest"
)

// BenchmarkMoveResponses tells what a response costs that is moved from its journal to SQLite, with 32 accounts.
func BenchmarkMoveResponses(b *testing.B) {
	s, err := alltest.Open(b.Context(), "sqlite", b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	batch := make([]*responses.Record, 1000)
	for i := range batch {
		batch[i] = &responses.Record{AccountID: fmt.Sprintf("acct_%024d", i%32), Previous: []byte{}, Sealed: make([]byte, 1500), ExpiresAt: time.Now().Add(time.Hour)}
		rand.Read(batch[i].Sealed)
	}
	moved := 0
	for b.Loop() {
		for _, r := range batch {
			r.ID = make([]byte, 32)
			rand.Read(r.ID)
		}
		moved += len(batch)
		if err := s.MoveResponses(b.Context(), batch, responses.MaxAccount(), []responses.Mark{{Journal: "j", Number: uint64(moved)}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(moved), "ns/response")
}
