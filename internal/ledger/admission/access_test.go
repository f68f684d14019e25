package admission

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
)

// clerk is an Accounts that counts.
type clerk struct {
	kept  []usage.Settlement
	ready error
}

func (c *clerk) Ready() error              { return c.ready }
func (c *clerk) Record(s usage.Settlement) { c.kept = append(c.kept, s) }

func demandOf(plan, tier account.Plan, tools bool) *Demand {
	return &Demand{
		Caller: auth.Caller{Account: &account.Account{ID: "a", Plan: plan}}, Limits: account.BuiltinPlans()[plan].Limits,
		Model: Model{ID: "m", Tier: tier, RequestMilli: 1000}, Tools: tools,
	}
}

// TestAccess is every plan against every tier, with tools and without.
func TestAccess(t *testing.T) {
	t.Parallel()
	const ok, pay, low = fault.Internal, fault.PaymentRequired, fault.PlanTooLow
	for _, tt := range []struct {
		plan, tier    account.Plan
		without, with fault.Kind // tools; Internal: it may
	}{
		{account.None, account.Free, ok, pay},
		{account.None, account.Basic, pay, pay},
		{account.None, account.Premium, pay, pay},
		{account.Free, account.Free, ok, low},
		{account.Free, account.Basic, low, low},
		{account.Free, account.Premium, low, low},
		{account.Basic, account.Free, ok, ok},
		{account.Basic, account.Basic, ok, ok},
		{account.Basic, account.Premium, low, low},
		{account.Premium, account.Free, ok, ok},
		{account.Premium, account.Basic, ok, ok},
		{account.Premium, account.Premium, ok, ok},
		{account.Scale, account.Free, ok, ok},
		{account.Scale, account.Basic, ok, ok},
		{account.Scale, account.Premium, ok, ok},
	} {
		for _, tools := range []bool{false, true} {
			want := tt.without
			if tools {
				want = tt.with
			}
			demand := demandOf(tt.plan, tt.tier, tools)
			headroom, err := New(NewMemory(nil), &clerk{}, nil).Access(demand)
			f, isFault := errors.AsType[*fault.Fault](err)
			switch {
			case want == ok && err != nil, want != ok && (!isFault || f.Kind != want):
				t.Errorf("Access(%s, %s, tools %t) = %v, want %v", tt.plan, tt.tier, tools, err, want)
			case want == ok:
			default:
				param := "model"
				if tt.plan.Includes(tt.tier) {
					param = "tools"
				}
				if f.Param != param || f.Retryable() || !strings.Contains(f.Message, "plan") {
					t.Errorf("Access(%s, %s, tools %t) = %q at %q, want it at %q", tt.plan, tt.tier, tools, f.Message, f.Param, param)
				}
				if headroom.Requests.Limit != demand.Limits.RequestsPerMinute || headroom.Requests.Used != 0 {
					t.Errorf("Access(%s, %s, tools %t): standing %+v, want nothing used", tt.plan, tt.tier, tools, headroom)
				}
			}
		}
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	books, ledger := &clerk{}, NewMemory(nil)
	gate := New(ledger, books, nil)
	demand := demandOf(account.Basic, account.Basic, false)
	lease, headroom, err := gate.Admit(demand)
	if err != nil || headroom.Requests.Used != 1000 || ledger.Running() != 1 {
		t.Fatalf("Admit = %v, %+v, %d running", err, headroom, ledger.Running())
	}
	lease.Settle(usage.Settlement{ID: "first", RequestMilli: 1000, End: usage.EndComplete})
	lease.Settle(usage.Settlement{ID: "second", End: usage.EndFailed})
	if len(books.kept) != 1 || books.kept[0].ID != "first" || ledger.Running() != 0 {
		t.Errorf("settled with %+v, %d running, want the first alone", books.kept, ledger.Running())
	}
	if used := ledger.Peek("a", demand.Limits).Requests.Used; used != 1000 {
		t.Errorf("%d thousandths used behind a complete call, want 1000", used)
	}
	lease, _, err = gate.Admit(demand)
	if err != nil {
		t.Fatal(err)
	}
	lease.Settle(usage.Settlement{End: usage.EndFailed})
	if used := ledger.Peek("a", demand.Limits).Requests.Used; used != 1000 {
		t.Errorf("%d thousandths used behind a failed call, want its own given back", used)
	}
}

func TestUnreadyAccounts(t *testing.T) {
	t.Parallel()
	ledger := NewMemory(nil)
	_, _, err := New(ledger, &clerk{ready: errors.New("disk full")}, nil).Admit(demandOf(account.Basic, account.Basic, false))
	if f := fault.From(err); f.Kind != fault.Unavailable || strings.Contains(f.Message, "disk") || f.RetryAfter == 0 || ledger.Running() != 0 {
		t.Errorf("Admit = %v, %d running, want 503 and none", err, ledger.Running())
	}
}

func TestStandingHeader(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	Headroom{Requests: Meter{Limit: account.Unlimited}, Tokens: Meter{Limit: account.Unlimited}}.SetHeader(h)
	if len(h) != 0 {
		t.Errorf("what is unlimited has headers %v", h)
	}
}

// A call that can never pass is told of a higher plan only if one would raise the limit.
func TestAdviceOfAHigherPlan(t *testing.T) {
	t.Parallel()
	two := account.Limit(2)
	for _, tt := range []struct {
		plan      account.Plan
		overrides account.Overrides
		want      bool
	}{
		{account.None, account.Overrides{}, true},
		{account.Premium, account.Overrides{Concurrent: &two}, true},
		{account.Scale, account.Overrides{}, false},
		{account.Basic, account.Overrides{RequestsPerMinute: &two}, false}, // support set it; every plan would have it
	} {
		demand := demandOf(tt.plan, account.Free, false)
		demand.Caller.Account.Overrides = tt.overrides
		demand.Limits = account.Limits{RequestsPerMinute: 2, TokensPerMinute: account.Unlimited, Concurrent: account.Unlimited}
		demand.Model.RequestMilli = 3000
		_, _, err := New(NewMemory(nil), &clerk{}, nil).Admit(demand)
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || !f.Final || strings.Contains(f.Message, "higher plan") != tt.want {
			t.Errorf("%s with %+v: %v, want advice to take a higher plan: %t", tt.plan, tt.overrides, err, tt.want)
		}
	}
}
