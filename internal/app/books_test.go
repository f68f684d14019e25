package app_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/app"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
)

// A start takes over what the last minute used, as far as the clock lets it. Whatever the clock did
// meanwhile, nobody is held up by it for more than a minute, and the ledger itself does not read it.
func TestRestoreWindows(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ago  []time.Duration // when calls of one request and 100 tokens began
		ends usage.End
		used int64           // at the start
		free []time.Duration // behind the start: when what they used comes back
	}{
		"the last minute":             {ago: []time.Duration{50 * time.Second, 10 * time.Second}, used: 2, free: []time.Duration{10 * time.Second, 50 * time.Second}},
		"out of order":                {ago: []time.Duration{10 * time.Second, 50 * time.Second, 30 * time.Second}, used: 3, free: []time.Duration{10 * time.Second, 30 * time.Second, 50 * time.Second}},
		"older":                       {ago: []time.Duration{time.Minute, 61 * time.Second, 2 * time.Hour}},
		"failed":                      {ago: []time.Duration{time.Second}, ends: usage.EndFailed},
		"refused":                     {ago: []time.Duration{20 * time.Second}, ends: usage.EndFailed, used: 1, free: []time.Duration{40 * time.Second}},
		"hung up":                     {ago: []time.Duration{20 * time.Second}, ends: usage.EndHangUp, used: 1, free: []time.Duration{40 * time.Second}},
		"the clock was set back 1 h":  {ago: []time.Duration{-time.Hour, -time.Hour + 30*time.Second}},
		"the clock was set back 1 s":  {ago: []time.Duration{-time.Second, 30 * time.Second}, used: 1, free: []time.Duration{30 * time.Second}},
		"the clock was set ahead 1 h": {ago: []time.Duration{time.Hour, time.Hour + 30*time.Second}},
		"at this very moment":         {ago: []time.Duration{0}, used: 1, free: []time.Duration{time.Minute}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j, err := usage.OpenJournal(t.TempDir(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer j.Close()
				for i, ago := range tt.ago {
					s := usage.Settlement{ID: fmt.Sprint(i), At: time.Now().Add(-ago), AccountID: "a", Tokens: chat.Usage{Prompt: 60, Completion: 40}, RequestMilli: 1000, End: usage.EndComplete}
					if tt.ends != "" {
						s.End = tt.ends
					}
					if tt.used == 0 && s.End == usage.EndFailed { // the upstream's failure costs nothing
						s.RequestMilli, s.Tokens = 0, chat.Usage{}
					}
					if err := j.Append(&s); err != nil {
						t.Fatal(err)
					}
				}
				ledger := admission.NewMemory(nil)
				if err := app.RestoreWindows(j, ledger); err != nil {
					t.Fatalf("restoreWindows = %v", err)
				}
				began := time.Now()
				used := func() int64 {
					headroom := ledger.Peek("a", account.Limits{RequestsPerMinute: 10, TokensPerMinute: 1000, Concurrent: account.Unlimited})
					if headroom.Requests.Used*100 != headroom.Tokens.Used*1000 {
						t.Errorf("%+v, want 100 tokens for each request", headroom)
					}
					return headroom.Requests.Used / 1000
				}
				if used() != tt.used {
					t.Errorf("%d requests are used at the start, want %d", used(), tt.used)
				}
				for i, after := range tt.free {
					left := tt.used - int64(i)
					time.Sleep(time.Until(began.Add(after)))
					if used() != left {
						t.Errorf("%d requests are used after %v, want %d", used(), after, left)
					}
					time.Sleep(time.Millisecond) // an entry counts from the end of its millisecond
					if used() != left-1 {
						t.Errorf("%d requests are used after %v and a millisecond, want %d", used(), after, left-1)
					}
				}
				time.Sleep(time.Until(began.Add(time.Minute + time.Millisecond)))
				if used() != 0 {
					t.Errorf("%d requests are used a minute later, want none", used())
				}
			})
		})
	}
}

// A restart gives nobody a fresh minute.
func TestWindowsSurvive(t *testing.T) {
	t.Parallel()
	const body = `{"model":"sandbox/small","messages":[{"role":"user","content":"What is 1 + 1?"}]}`
	s := newSite(t, "")
	first := s.start(t)
	made := must[admin.CreatedAccount](first, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"})
	began := time.Now()
	for range 9 {
		if r := first.request("POST", "/v1/chat/completions", made.MasterKey, body); r.status != 200 {
			t.Fatalf("a call = %d %s, want 200", r.status, r.body)
		}
	}
	first.stop()
	second := s.start(t)
	var passed int
	for range 4 {
		r := second.request("POST", "/v1/chat/completions", made.MasterKey, body)
		switch {
		case r.status == 200:
			passed++
		case r.status != 429 || !strings.Contains(r.body, "The limit is 10 requests a minute; 10 are used"):
			t.Errorf("a call beyond the limit = %d %s, want 429", r.status, r.body)
		}
	}
	if took := time.Since(began); passed != 1 && took < time.Minute {
		t.Errorf("%d calls passed after the restart, %v after the first one, want the one that was left", passed, took)
	}
}

// Records of single calls go when they are old enough; the sums stay, and an audit compares what is
// kept, also when the operator changes his mind.
func TestKeepDays(t *testing.T) {
	t.Parallel()
	s := newSite(t, "usage: {keep_days: 30}\n")
	first := s.start(t)
	owner := must[admin.Account](first, "account.show", admin.Target{Ref: account.OwnerEmail})
	first.stop()

	var batch []usage.Settlement
	today := usage.DayOf(time.Now())
	add := func(n, daysAgo int) {
		for i := range n {
			batch = append(batch, usage.Settlement{
				ID: fmt.Sprint("request-", daysAgo, "-", i), At: today.AddDate(0, 0, -daysAgo), AccountID: owner.ID, KeyID: owner.Keys[0].ID, Plan: "scale", Tier: "free", ModelUsed: "m",
				Tokens: chat.Usage{Prompt: 3, Completion: 4}, RequestMilli: 1000, UnitMilli: 1000, Status: 200, End: usage.EndComplete, Latency: time.Second,
			})
		}
	}
	add(2500, 100) // more than are deleted at once
	add(10, 31)
	add(20, 30)
	add(5, 1)
	store, err := alltest.Open(t.Context(), "sqlite", s.data())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.RecordSettlements(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	// One is in the journal, where a server that was switched off for long left it.
	j, err := usage.OpenJournal(filepath.Join(s.data(), "journal"), nil)
	if err != nil {
		t.Fatal(err)
	}
	late := batch[0]
	late.ID = "late"
	if err := errors.Join(j.Append(&late), j.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}

	n := s.start(t)
	kept := func() (n int) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(s.data(), sqlstore.File)+"?mode=ro&_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.QueryRow("SELECT COUNT(*) FROM settlements").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventually(t, "the end of old records", func() bool { return kept() == 25 })
	for _, keep := range []string{"30", "365", "0", "5", "90"} {
		s.write(t, "usage: {keep_days: "+keep+"}\n")
		if err := n.Reload(); err != nil {
			t.Fatal(err)
		}
		sums := must[admin.Usage](n, "usage", admin.UsageQuery{Ref: owner.ID, Days: 3660, By: "day"})
		if sums.Totals.Requests != 2536 || sums.Totals.PromptTokens != 3*2536 || len(sums.Rows) != 4 {
			t.Errorf("keep_days %s: usage = %+v, want all of 2536 requests on 4 days", keep, sums)
		}
		if audit := must[admin.Audit](n, "audit", admin.Empty{}); len(audit.Differences) != 0 || audit.Compared != 2 {
			t.Errorf("keep_days %s: audit = %+v, want no difference in the 2 days that are kept", keep, audit)
		}
	}
	n.stop()
}

// A call that is still under way when the time to finish is over is cut, and settled all the same.
func TestStopSettles(t *testing.T) {
	t.Parallel()
	u := newWatchful(t)
	s := newSite(t, lab(u.url, "lab/one")+"shutdown_grace: 50ms\n")
	n := s.start(t)
	key := n.OwnerKey()
	var calling sync.WaitGroup
	begun := make(chan struct{}, 5) // each caller has the first word
	for range 5 {
		calling.Go(func() {
			defer func() { begun <- struct{}{} }() // where the call fails, too
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.scheme+n.Addr()+chatPath,
				strings.NewReader(`{"model":"lab/one","messages":[{"role":"user","content":"1 pause 3"}],"stream":true}`))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+key)
			resp, err := n.client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			begun <- struct{}{}
			if rest, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || !strings.Contains(string(rest), `"type":"service_unavailable"`) {
				t.Errorf("the call = %d %s, %v, want it cut by an error event", resp.StatusCode, rest, err)
			}
		})
	}
	for range 5 {
		<-begun
	}
	n.stop()
	calling.Wait()
	again := s.start(t)
	sums := must[admin.Usage](again, "usage", admin.UsageQuery{Ref: account.OwnerEmail, Days: 2})
	if sums.Totals.Requests != 5 || sums.Totals.Failed != 5 || sums.Totals.CompletionTokens == 0 {
		t.Errorf("usage after the stop = %+v, want the 5 calls with what they had produced", sums.Totals)
	}
}
