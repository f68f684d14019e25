package sqlstore_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/wiretest"
)

// batchOf returns settlements of one account, with ids that begin with the name.
func batchOf(name string, n int) (list []usage.Settlement) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range n {
		list = append(list, usage.Settlement{ID: fmt.Sprintf("%s-%d", name, i), AccountID: "acct_cut", KeyID: "key", ModelUsed: "m", At: at, End: "complete", UnitMilli: 1000, RequestMilli: 1000})
	}
	return list
}

// insist records settlements as the committer does: again, until the database has them.
func insist(t *testing.T, s *alltest.Store, batch []usage.Settlement) (failures int) {
	t.Helper()
	for began := time.Now(); ; failures++ {
		err := s.RecordSettlements(t.Context(), batch)
		if err == nil {
			return failures
		}
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("RecordSettlements = %v, want success or a failure that is worth a retry", err)
			return failures
		}
		if time.Since(began) > enough {
			t.Errorf("RecordSettlements = %v after %d attempts", err, failures)
			return failures
		}
	}
}

// wantOnce checks that the sums have as many calls as were made, and agree with the settlements.
func wantOnce(t *testing.T, s *alltest.Store, calls int64) {
	t.Helper()
	differences, _, err := s.AuditUsage(t.Context())
	if err != nil || len(differences) != 0 {
		t.Errorf("AuditUsage = %+v, %v, want no difference", differences, err)
	}
	days, err := s.UsageByDay(t.Context(), "acct_cut", time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	total := int64(0)
	for i := range days {
		total += days[i].Requests
	}
	if err != nil || total != calls {
		t.Errorf("%d calls are in the books, %v, want %d", total, err, calls)
	}
}

// places returns where a transaction of so many bytes is cut: at 25 places in it, in a soak at 2,000, and at
// each of the last bytes, which are COMMIT and its reply.
func places(of int64) (list []int64) {
	const end = 24
	parts := int64(25)
	if os.Getenv("SLUICE_SOAK") != "" {
		parts = 2000
	}
	step := max(1, of/parts)
	for at := int64(0); at < of; at++ {
		if at%step == 0 || at >= of-end {
			list = append(list, at)
		}
	}
	return list
}

// A connection that breaks at any byte of the transaction that stores settlements, in either direction, costs an
// attempt and no settlement. That includes a COMMIT whose reply is lost: then nobody but the database knows what
// became of it, and the next attempt must find out.
func TestSettlementsCutAnywhere(t *testing.T) {
	t.Parallel()
	w, url := wiretest.To(t, pgtest.URL(t))
	s := open(t, url, "")
	const size = 3
	calls := int64(0)
	record := func(name string) int {
		t.Helper()
		calls += size
		return insist(t, s, batchOf(name, size))
	}
	record("first")
	beforeUp, beforeDown := w.Passed()
	record("second")
	afterUp, afterDown := w.Passed()
	unknown, cuts := 0, 0
	for _, direction := range []struct {
		name    string
		of      int64
		breakAt func(int64)
	}{{"request", afterUp - beforeUp, w.BreakAfterRequest}, {"reply", afterDown - beforeDown, w.BreakAfterReply}} {
		for _, at := range places(direction.of) {
			name := fmt.Sprintf("%s-%d", direction.name, at)
			record("warm-" + name) // the connection that breaks has been used before
			direction.breakAt(at)
			cuts++
			batch := batchOf(name, size)
			calls += size
			if err := s.RecordSettlements(t.Context(), batch); err != nil {
				have, err := s.HasSettlements(t.Context(), batch)
				for range 10 { // connections that were idle have broken, too
					if err == nil {
						break
					}
					have, err = s.HasSettlements(t.Context(), batch)
				}
				if err != nil || len(have) != 0 && len(have) != size {
					t.Errorf("%s: %d of %d settlements are stored, %v", name, len(have), size, err)
				}
				if len(have) > 0 {
					unknown++
				}
			}
			insist(t, s, batch)
		}
		direction.breakAt(-1)
	}
	wantOnce(t, s, calls)
	if unknown == 0 {
		t.Error("no cut came after a COMMIT and before its reply")
	}
	t.Logf("soak: connection to PostgreSQL cut at %d places of a transaction of %d and %d bytes; %d had been committed", cuts, afterUp-beforeUp, afterDown-beforeDown, unknown)
}

// administrator returns a connection of its own to the database of a URL.
func administrator(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func mustExec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Transactions that lose against others are worth a retry, and then count once.
func TestSerializationFailures(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	admin := administrator(t, url)
	mustExec(t, admin, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$`)
	nodes := []*alltest.Store{open(t, url, ""), open(t, url, ""), open(t, url, "")}
	rounds := 20
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds = 300
	}
	var failures atomic.Int64
	var all sync.WaitGroup
	for i, s := range nodes {
		all.Go(func() {
			for n := range rounds {
				failures.Add(int64(insist(t, s, batchOf(fmt.Sprintf("node-%d-%d", i, n), 5))))
			}
		})
	}
	all.Wait()
	wantOnce(t, nodes[0], int64(len(nodes)*rounds*5))
	if failures.Load() == 0 {
		t.Error("no transaction lost against another")
	}
	t.Logf("soak: %d serialization failures in %d transactions, each settlement once", failures.Load(), len(nodes)*rounds)
}

// A deadlock with another transaction ends one of the two. Settlements are in the books once, whoever loses.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, url, "")
	insist(t, s, batchOf("before", 1))
	other, observer := administrator(t, url), administrator(t, url)
	mustExec(t, other, `SET deadlock_timeout = '5s'`) // so that the Store finds it first and loses
	mustExec(t, other, `BEGIN`)
	mustExec(t, other, `SELECT 1 FROM usage_days FOR UPDATE`)
	stored := make(chan int)
	go func() { stored <- insist(t, s, batchOf("during", 1)) }()
	for waits := 0; waits == 0; {
		if err := observer.QueryRow(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	_, err := other.Exec(t.Context(), `SELECT 1 FROM usage_hours FOR UPDATE`)
	if err != nil && !strings.Contains(err.Error(), "deadlock") {
		t.Fatal(err)
	}
	mustExec(t, other, `ROLLBACK`)
	t.Logf("soak: deadlock on PostgreSQL: %d attempts failed", <-stored)
	wantOnce(t, s, 2)
}
