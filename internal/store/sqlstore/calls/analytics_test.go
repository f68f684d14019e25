package calls_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/store/sqlstore/calls"
	"sluice/internal/testkit/pgtest"
)

// fill stores the calls of 31 days: nearly all of one account, with 6 keys and 8 models, and some
// of many others.
func fill(t testing.TB, s *alltest.Store, rows int, now time.Time) (accountID string) {
	t.Helper()
	const size = 2000
	batch := make([]usage.Settlement, 0, size)
	for i := range rows {
		r := usage.Settlement{
			ID: fmt.Sprintf("%032x", i), At: now.Add(-time.Duration(i) * 31 * 24 * time.Hour / time.Duration(rows)).Truncate(time.Millisecond), AccountID: "acct_busy", KeyID: fmt.Sprint("key_", i%6),
			Plan: "scale", Tier: "free", ModelAsked: "m", ModelUsed: fmt.Sprint("model-", i/6%8), Provider: "p", Tokens: chat.Usage{Prompt: 57, Completion: 143},
			RequestMilli: 1000, UnitMilli: 1000, Status: 200, End: usage.EndComplete, Latency: time.Second, FirstToken: time.Millisecond,
		}
		if i%10 == 0 {
			r.AccountID = fmt.Sprint("acct_", i/10%500)
		}
		if batch = append(batch, r); len(batch) == size || i == rows-1 {
			if err := s.RecordSettlements(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	return "acct_busy"
}

// rowsFor returns how many usage rows a test uses.
func rowsFor(t testing.TB) int {
	if os.Getenv("SLUICE_SOAK") != "" {
		return soakRows
	}
	return 50_000
}

// The queries of the pages are answered from an index, however many rows there are.
func TestPagesUseAnIndex(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) *alltest.Store{
		"SQLite":     func(t *testing.T) *alltest.Store { return alltest.In(t, "sqlite", t.TempDir()) },
		"PostgreSQL": func(t *testing.T) *alltest.Store { return alltest.In(t, pgtest.URL(t), "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			fill(t, s, rowsFor(t), time.Now())
			plans, err := calls.PagePlans(t.Context(), s.Kernel())
			if err != nil {
				t.Fatal(err)
			}
			for query, plan := range plans {
				plan := strings.ReplaceAll(plan, "SCAN newest", "") // the few rows that an index has found
				whole := strings.Contains(plan, "SCAN ") || strings.Contains(plan, "Seq Scan")
				if whole || !strings.Contains(strings.ToLower(plan), "index") {
					t.Errorf("%s is answered by\n%s", query, plan)
				}
			}
		})
	}
}
