package calls_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/operate/finder"
	"sluice/internal/operate/signal"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/store/sqlstore/calls"
	"sluice/internal/testkit/pgtest"
)

// searched is how long a search may take over the accounts and settlements of a soak.
const searched = 50 * time.Millisecond

// What support searches is found by an index, and by one query for each kind of term. In a soak, over 100,000 accounts
// and 5,000,000 settlements, each search takes at most 50 ms.
func TestSearchUsesAnIndex(t *testing.T) {
	t.Parallel()
	accounts, settled, soak := 5000, 50_000, os.Getenv("SLUICE_SOAK") != ""
	if soak {
		accounts, settled = 100_000, soakSettlements
	}
	for name, open := range map[string]func(t *testing.T) *alltest.Store{
		"SQLite":     func(t *testing.T) *alltest.Store { return alltest.In(t, "sqlite", t.TempDir()) },
		"PostgreSQL": func(t *testing.T) *alltest.Store { return alltest.In(t, pgtest.URL(t), "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			if err := calls.FillAccounts(t.Context(), s.Kernel(), accounts); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			fillWays(t, s, settled, accounts, now)
			plans, err := calls.SearchPlans(t.Context(), s.Kernel())
			if err != nil {
				t.Fatal(err)
			}
			for query, plan := range plans {
				// Only the few rows that an index has found are scanned.
				for line := range strings.SplitSeq(strings.TrimSpace(plan), "\n") {
					line = strings.TrimLeft(line, " ->")
					whole := strings.HasPrefix(line, "Seq Scan") || strings.HasPrefix(line, "SCAN ") && !strings.HasPrefix(line, "SCAN k") && !strings.HasPrefix(line, "SCAN r")
					if whole && !strings.Contains(line, "CONSTANT ROW") {
						t.Errorf("%s is answered by\n%s", query, plan)
					}
				}
				if !strings.Contains(strings.ToLower(plan), "index") {
					t.Errorf("%s is answered without an index:\n%s", query, plan)
				}
			}
			search(t, s, settled, now, soak)
		})
	}
}

// fillWays adds settlements with a way, those of one account for each tenth one.
func fillWays(t *testing.T, s *alltest.Store, rows, accounts int, now time.Time) {
	t.Helper()
	const like = "the one that is copied"
	err := s.RecordSettlements(t.Context(), []usage.Settlement{{
		ID: like, At: now.Add(-32 * 24 * time.Hour).Truncate(time.Millisecond), AccountID: "acct_000001", KeyID: "key",
		Plan: "scale", Tier: "free", ModelAsked: "m", ModelUsed: "m", Provider: "p", RequestMilli: 1000, UnitMilli: 1000, Status: 200, End: usage.EndComplete, Latency: time.Second,
		Trace: &usage.Trace{Address: "192.0.2.1", Attempts: []usage.Attempt{{Model: "m", Provider: "p", Upstream: "u", Outcome: usage.Answered, End: time.Second}}},
	}})
	if err == nil {
		err = calls.FillSettlements(t.Context(), s.Kernel(), like, rows, accounts, now)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// search looks for one of each, and in a soak measures how long that takes.
func search(t *testing.T, s *alltest.Store, settled int, now time.Time, soak bool) {
	t.Helper()
	f := finder.New(s, nil)
	for _, tt := range []struct {
		term  string
		found int // at least
	}{
		{"user-004711@example.com", 1},
		{"user-", finder.MaxMatches},
		{"user-0042", finder.MaxMatches},
		{"acct_004711", 1},
		{"key_004711", 1},
		{"0042", 1},
		{calls.RequestID(settled/2, settled, now), 1},
		{"chatcmpl-" + calls.RequestID(settled-1, settled, now), 1},
		{"proxy-4700", 1},
		{"r000042-1", 1},
		{"nobody@example.com", 0},
		{calls.RequestID(settled, settled, now), 0},
	} {
		var found []finder.Match
		var err error
		took := quickest(soak, func() { found, _, err = f.Search(t.Context(), tt.term, "", 0) })
		if err != nil || len(found) < tt.found || tt.found == 0 && len(found) > 0 {
			t.Errorf("Search(%q) = %d matches, %v, want at least %d", tt.term, len(found), err, tt.found)
		}
		if soak {
			t.Logf("Search(%q) found %d in %s", tt.term, len(found), took)
			if took > searched {
				t.Errorf("Search(%q) took %s, want at most %s", tt.term, took, searched)
			}
		}
	}
	var way finder.Found
	var err error
	took := quickest(soak, func() { way, err = f.Request(t.Context(), calls.RequestID(settled/2, settled, now)) })
	if err != nil || len(way.Settled) != 1 || way.Settled[0].Trace == nil || soak && took > searched {
		t.Errorf("Request = %+v, %v after %s, want one settlement with its way", way, err, took)
	}
	var list []signal.Call
	took = quickest(soak, func() {
		list, err = s.CallsSince(t.Context(), "acct_000042", time.Now().Add(-24*time.Hour), signal.MaxCalls)
	})
	if err != nil || len(list) == 0 || soak && took > searched {
		t.Errorf("CallsSince = %d calls, %v after %s", len(list), err, took)
	}
}

// quickest does something and returns how long it took. In a soak it does it several times and returns the shortest
// time, because the machine may be busy with something else.
func quickest(soak bool, do func()) time.Duration {
	tries := 1
	if soak {
		tries = 5
	}
	best := time.Hour
	for range tries {
		began := time.Now()
		do()
		best = min(best, time.Since(began))
	}
	return best
}
