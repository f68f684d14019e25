package calls_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

// Whatever is lost or changed, an audit reports the account, the day and the sums concerned.
func TestAuditFinds(t *testing.T) {
	t.Parallel()
	engines := map[string]func(t *testing.T) *alltest.Store{
		"SQLite":     func(t *testing.T) *alltest.Store { return alltest.In(t, "sqlite", t.TempDir()) },
		"PostgreSQL": func(t *testing.T) *alltest.Store { return alltest.In(t, pgtest.URL(t), "") },
	}
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	next := day.AddDate(0, 0, 1)
	for engine, fresh := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := fresh(t)
			var batch []usage.Settlement
			for n := range 6 {
				batch = append(batch, usage.Settlement{
					ID: fmt.Sprint("request-", n), At: day.Add(time.Duration(n) * 8 * time.Hour), AccountID: fmt.Sprint("acct_", n%2), KeyID: "k", ModelUsed: "m", Provider: "p",
					Tokens: chat.Usage{Prompt: 3, Completion: 4}, RequestMilli: 1000, UnitMilli: 1000, Status: 200, End: usage.EndComplete, Latency: time.Second, FirstToken: 100 * time.Millisecond,
				})
			}
			batch[5].FirstToken = 0 // of acct_1, on the next day
			if err := s.RecordSettlements(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				statement string
				want      []string
			}{
				{"UPDATE settlements SET id = id", nil},
				{"UPDATE settlements SET latency_ms = 1001 WHERE id = 'request-0'", []string{"usage_days acct_0 " + day.Format(time.DateOnly), "usage_hours acct_0 " + day.Format(time.DateOnly), "provider_days p  " + day.Format(time.DateOnly)}},
				{"UPDATE settlements SET latency_ms = 1000 WHERE id = 'request-0'", nil},
				// What caches have saved is compared, too. What they could have held is not known of calls of older versions.
				{"UPDATE usage_days SET saved_nano = 1 WHERE account_id = 'acct_0' AND start = " + fmt.Sprint(next.UnixMilli()), []string{"usage_days acct_0 " + next.Format(time.DateOnly)}},
				{"UPDATE usage_days SET saved_nano = 0, cacheable = 3 WHERE account_id = 'acct_0' AND start = " + fmt.Sprint(next.UnixMilli()), []string{"usage_days acct_0 " + next.Format(time.DateOnly)}},
				{"UPDATE settlements SET cacheable = NULL WHERE account_id = 'acct_0' AND at >= " + fmt.Sprint(next.UnixMilli()), []string{"provider_days p  " + next.Format(time.DateOnly)}},
				{"UPDATE provider_days SET requests = requests - 1, prompt = prompt - 3, completion = completion - 4, request_milli = request_milli - 1000, unit_milli = unit_milli - 1000, unpriced = unpriced - 1, latency_ms = latency_ms - 1000, first_token_ms = first_token_ms - 100, first_tokens = first_tokens - 1 WHERE start = " + fmt.Sprint(next.UnixMilli()), nil},
				// Older versions added up the latency of calls without a first token, too.
				{"UPDATE usage_days SET latency_ms = latency_ms + 1000 WHERE account_id = 'acct_1' AND start = " + fmt.Sprint(next.UnixMilli()), nil},
				{"UPDATE usage_days SET latency_ms = latency_ms + 1 WHERE account_id = 'acct_1' AND start = " + fmt.Sprint(next.UnixMilli()), []string{"usage_days acct_1 " + next.Format(time.DateOnly)}},
				{"UPDATE usage_days SET latency_ms = latency_ms - 1001 WHERE account_id = 'acct_1' AND start = " + fmt.Sprint(next.UnixMilli()), nil},
				{"UPDATE usage_hours SET prompt = prompt + 1 WHERE account_id = 'acct_1' AND start = " + fmt.Sprint(next.Add(16*time.Hour).UnixMilli()), []string{"usage_hours acct_1 " + next.Format(time.DateOnly)}},
				{"UPDATE usage_hours SET prompt = prompt - 1 WHERE account_id = 'acct_1' AND start = " + fmt.Sprint(next.Add(16*time.Hour).UnixMilli()), nil},
				{"DELETE FROM usage_days WHERE account_id = 'acct_0' AND start = " + fmt.Sprint(next.UnixMilli()), []string{"usage_days acct_0 " + next.Format(time.DateOnly)}},
				{"DELETE FROM settlements", []string{
					"usage_days acct_0 " + day.Format(time.DateOnly), "usage_days acct_1 " + day.Format(time.DateOnly), "usage_days acct_1 " + next.Format(time.DateOnly),
					"usage_hours acct_0 " + day.Format(time.DateOnly), "usage_hours acct_0 " + next.Format(time.DateOnly), "usage_hours acct_1 " + day.Format(time.DateOnly), "usage_hours acct_1 " + next.Format(time.DateOnly),
					"provider_days p  " + day.Format(time.DateOnly), "provider_days p  " + next.Format(time.DateOnly),
				}},
			} {
				if err := s.Exec(t.Context(), step.statement); err != nil {
					t.Fatalf("%s: %v", step.statement, err)
				}
				differences, _, err := s.AuditUsage(t.Context())
				var got []string
				for _, d := range differences {
					got = append(got, d.What+" "+d.AccountID+" "+d.Day.Format(time.DateOnly))
				}
				if diff := cmp.Diff(step.want, got); err != nil || diff != "" {
					t.Errorf("AuditUsage after %s: %v, -want +got\n%s", step.statement, err, diff)
				}
			}
		})
	}
}
