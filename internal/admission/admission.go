// Package admission decides whether a request may start, and holds its place until it ends.
//
// Admit returns a Lease. Whoever holds a Lease calls Settle; the first call counts. Counting what was
// consumed is not done here; see package usage.
package admission

import (
	"sync/atomic"

	"sluice/internal/account"
	"sluice/internal/auth"
	"sluice/internal/catalog"
	"sluice/internal/fault"
	"sluice/internal/usage"
)

// Gate admits calls.
type Gate struct {
	settle func(usage.Settlement)
}

// New returns a gate whose leases are settled with the given function.
func New(settle func(usage.Settlement)) *Gate { return &Gate{settle: settle} }

// Ask is what a call wants, as far as admission is concerned.
type Ask struct {
	Caller auth.Caller
	Model  *catalog.Model // the one asked for
	Tools  bool
}

// Lease is an admitted call's place.
type Lease struct {
	gate    *Gate
	settled atomic.Bool
}

// Admit lets the call start, or says which rule forbids it: 402 without an active plan, 403 where the
// plan is too low (spec: Plan and model access).
func (g *Gate) Admit(a Ask) (*Lease, error) {
	if err := Access(a.Caller.Account.Plan, a.Model, a.Tools); err != nil {
		return nil, err
	}
	return &Lease{gate: g}, nil
}

// Access checks a plan against a model and against tools.
func Access(plan account.Plan, m *catalog.Model, tools bool) error {
	if !plan.Includes(m.Plan) {
		if plan == account.None {
			return fault.New(fault.PaymentRequired, "The model %q needs the %s plan and this account has no active plan. Subscribe to %s or higher, or use a free model.", m.ID, title(m.Plan), title(m.Plan)).At("model")
		}
		return fault.New(fault.PlanTooLow, "The model %q needs the %s plan; this account has %s. Upgrade, or use a model of a lower tier.", m.ID, title(m.Plan), title(plan)).At("model")
	}
	if tools && !plan.IncludesTools() {
		if plan == account.None {
			return fault.New(fault.PaymentRequired, "Tool calling needs the Basic plan or higher and this account has no active plan. Subscribe to Basic or higher, or leave tools out.").At("tools")
		}
		return fault.New(fault.PlanTooLow, "Tool calling needs the Basic plan or higher; this account has %s. Upgrade, or leave tools out.", title(plan)).At("tools")
	}
	return nil
}

// Settle ends the lease with what the call came to. Calls after the first do nothing.
func (l *Lease) Settle(s usage.Settlement) {
	if l.settled.Swap(true) {
		return
	}
	l.gate.settle(s)
}

// title is a plan's name as people write it.
func title(p account.Plan) string {
	name := p.String()
	return string(name[0]-'a'+'A') + name[1:]
}
