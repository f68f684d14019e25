package admission

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/fault"
)

// Jobs take requests of the minute, and neither slots nor tokens.
func TestAdmitJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := NewMemory(nil)
		gate := New(ledger, &clerk{ready: errors.New("disk full")}) // a job is not settled through the journal
		ask := askOf(account.Basic, account.Free, false)
		ask.Model.RequestMilli = 1500
		ask.Limits.Concurrent = 0
		for n := range 6 {
			standing, err := gate.AdmitJob(ask)
			if err != nil || standing.Requests.Used != int64(n+1)*1500 || standing.Tokens.Used != 0 || standing.Tokens.Limit != 500_000 || ledger.Running() != 0 {
				t.Fatalf("AdmitJob = %+v, %v, with %d running", standing, err, ledger.Running())
			}
			time.Sleep(2 * time.Second)
		}
		standing, err := gate.AdmitJob(ask)
		if f := fault.From(err); f.Kind != fault.RateLimited || f.RetryAfter == 0 || standing.Requests.Used != 9000 {
			t.Errorf("AdmitJob beyond the limit = %+v, %v, want 429", standing, err)
		}
		if now := gate.Standing(ask); now.Requests.Used != 9000 {
			t.Errorf("what was refused used something: %+v", now)
		}
	})
}

func TestGiveBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := New(NewMemory(nil), &clerk{})
		ask := askOf(account.Basic, account.Free, false)
		used := func() int64 { return gate.Standing(ask).Requests.Used }
		take := func() time.Time {
			t.Helper()
			now := time.Now()
			if _, err := gate.AdmitJob(ask); err != nil {
				t.Fatal(err)
			}
			return now
		}
		gate.GiveBack("nobody", time.Now(), 1000)
		first := take()
		time.Sleep(10 * time.Second)
		second := take()
		time.Sleep(10 * time.Second)
		gate.GiveBack("a", second, 1000)
		if used() != 1000 {
			t.Errorf("%d are used, want the first alone", used())
		}
		gate.GiveBack("a", second, 1000) // what is back already cannot come back again
		if used() != 1000 {
			t.Errorf("%d are used behind a second return, want 1000", used())
		}
		time.Sleep(41 * time.Second) // the first has run out by itself
		third := take()
		gate.GiveBack("a", first, 1000)
		if used() != 1000 {
			t.Errorf("%d are used behind the return of what no longer counts, want the third", used())
		}
		gate.GiveBack("a", third, 1000)
		if used() != 0 {
			t.Errorf("%d are used, want nothing", used())
		}
	})
}
