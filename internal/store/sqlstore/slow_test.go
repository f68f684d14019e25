package sqlstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/wiretest"
)

// A database whose replies are so late that no batch is stored in the usual time gets the settlements all the same.
func TestSlowDatabase(t *testing.T) {
	t.Parallel()
	w, url := wiretest.To(t, pgtest.URL(t))
	s, err := alltest.Open(t.Context(), url, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// A transaction has more than three replies, and four times as much time has room for those and a new connection. Its
	// first reply is later than a connection may take at first.
	w.Delay(500 * time.Millisecond)
	sqlstore.Hasten(s.Kernel(), 1500*time.Millisecond, 400*time.Millisecond)
	if err := s.RecordSettlements(t.Context(), settlements(3)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("RecordSettlements = %v, want it too late", err)
	}
	began := time.Now()
	for err = errors.New("not tried"); err != nil; {
		if time.Since(began) > enough {
			t.Fatalf("the settlements are not stored: %v", err)
		}
		err = s.RecordSettlements(t.Context(), settlements(3))
	}
}
