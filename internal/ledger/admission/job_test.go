package admission

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// Jobs take requests of the minute, and neither slots nor tokens.
func TestAdmitJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := NewMemory(nil)
		gate := New(ledger, &clerk{ready: errors.New("disk full")}, nil) // a job is not settled through the journal
		demand := demandOf(account.Basic, account.Free, false)
		demand.Model.RequestMilli = 1500
		demand.Limits.Concurrent = 0
		for n := range 6 {
			_, headroom, err := gate.AdmitJob(demand)
			if err != nil || headroom.Requests.Used != int64(n+1)*1500 || headroom.Tokens.Used != 0 || headroom.Tokens.Limit != 500_000 || ledger.Running() != 0 {
				t.Fatalf("AdmitJob = %+v, %v, with %d running", headroom, err, ledger.Running())
			}
			time.Sleep(2 * time.Second)
		}
		_, headroom, err := gate.AdmitJob(demand)
		if f := fault.From(err); f.Kind != fault.RateLimited || f.RetryAfter == 0 || headroom.Requests.Used != 9000 {
			t.Errorf("AdmitJob beyond the limit = %+v, %v, want 429", headroom, err)
		}
		if now := gate.Headroom(demand); now.Requests.Used != 9000 {
			t.Errorf("what was refused used something: %+v", now)
		}
	})
}

// crowded is a ledger where another request of the account comes in between the steps of an admission.
type crowded struct {
	*Memory
	limits account.Limits
}

func (c *crowded) Free(accountID string, p Place, used Cost) {
	c.Memory.Free(accountID, p, used)
	c.Take(accountID, c.limits, Cost{RequestMilli: oneRequest})
}

// Jobs that are admitted at the same time are each told how many requests are left after them, and no number
// twice.
func TestAdmitJobsTogether(t *testing.T) {
	t.Parallel()
	demand := demandOf(account.Basic, account.Free, false)
	gate := New(&crowded{NewMemory(nil), demand.Limits}, &clerk{}, nil)
	_, headroom, err := gate.AdmitRequest(demand)
	if err != nil || headroom.Requests.Used != oneRequest {
		t.Errorf("AdmitRequest = %+v, %v, want %d used", headroom, err, oneRequest)
	}
}

// What was taken for a job that was not created comes back once, and as far as it still counts.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := New(NewMemory(nil), &clerk{}, nil)
		demand := demandOf(account.Basic, account.Free, false)
		demand.Model.RequestMilli = 1500
		want := func(used int64, when string) {
			t.Helper()
			if got := gate.Headroom(demand).Requests.Used; got != used {
				t.Errorf("%d are used %s, want %d", got, when, used)
			}
		}
		take := func() *Job {
			t.Helper()
			j, _, err := gate.AdmitJob(demand)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		first := take()
		time.Sleep(10 * time.Second)
		second := take()
		time.Sleep(10 * time.Second)
		second.GiveBack()
		want(1500, "after the second came back")
		second.GiveBack()
		want(1500, "after it came back again")
		time.Sleep(41 * time.Second) // the first has expired
		third := take()
		first.GiveBack()
		want(1500, "after what no longer counts came back")
		third.Repeated()
		want(1000, "for a repeat")
		third.GiveBack()
		want(0, "in the end")
	})
}

// A request that asks no model takes one request: no tokens, no slot, whatever the model costs.
func TestAdmitRequest(t *testing.T) {
	t.Parallel()
	ledger := NewMemory(nil)
	gate := New(ledger, &clerk{}, nil)
	demand := demandOf(account.Free, account.Free, false)
	demand.Model.RequestMilli = 99_000
	demand.Limits.Concurrent = 0
	for n := int64(1); n <= 2; n++ {
		if _, headroom, err := gate.AdmitRequest(demand); err != nil || headroom.Requests.Used != n*1000 || headroom.Tokens.Used != 0 || ledger.Running() != 0 {
			t.Errorf("AdmitRequest = %+v, %v with %d running, want %d requests used", headroom, err, ledger.Running(), n)
		}
	}
	if _, headroom, err := gate.AdmitRequest(demand); !fault.Is(err, fault.RateLimited) || headroom.Requests.Used != 2000 {
		t.Errorf("AdmitRequest beyond the limit = %+v, %v, want 429", headroom, err)
	}
}

// n choices reserve their tokens n times, and take their requests once.
func TestChoices(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n, prompt, output int
		want              Cost
	}{
		{0, 100, 50, Cost{1500, 150}},
		{1, 100, 50, Cost{1500, 150}},
		{4, 100, 50, Cost{1500, 600}},
		{128, 100, 0, Cost{1500, 128 * 1124}},
		{128, 100_000, 50, Cost{1500, 500_000}}, // the whole allowance, and no more
		{128, 1, 1 << 62, Cost{1500, 500_000}},
	} {
		demand := demandOf(account.Basic, account.Free, false)
		demand.Model.RequestMilli, demand.Choices, demand.PromptTokens, demand.MaxTokens = 1500, tt.n, tt.prompt, tt.output
		if got := demand.cost(); got != tt.want {
			t.Errorf("cost of n = %d with %d and %d tokens = %+v, want %+v", tt.n, tt.prompt, tt.output, got, tt.want)
		}
	}
}
