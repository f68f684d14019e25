package abuse

import (
	"context"
	"math"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/usage"
)

// Totals are the units that nodes have counted together.
type Totals interface {
	// Read returns the totals of an account that are not zero, and reports whether the account is known at all.
	Read(ctx context.Context, accountID string, month time.Time) (totals []Reading, known bool, err error)
	// Raise tells what the store knows about accounts.
	Raise(ctx context.Context, k Known) error
}

// Counter counts units over all nodes. Nodes add to it without waiting for it, unless an addition may be
// the one that reaches the budget; see Near. What becomes of an addition is told to the Listener.
//
// Control calls a Counter without holding its lock; a Counter may hold locks while it tells the Listener.
type Counter interface {
	Totals
	// Listen sets who is told. Call it once, before anything else.
	Listen(l Listener)
	// Exact reports whether the counter works at the moment. If not, additions are missed, and counted
	// later.
	Exact() bool
	// Add adds the units of a settlement to a total. When it returns, the Listener has been told about every
	// addition that may have reached the budget.
	Add(t Total, s *usage.Settlement, budget account.Limit)
	// Unproven returns settlements of accounts that were added before this node knew that the counter has
	// the account. The store may have counted them or not.
	Unproven(accounts []string) []usage.Settlement
	// Back tells that the clock of this node was set back to an earlier month. Without it, additions to a month that
	// is over are left to the store.
	Back(month time.Time)
}

// Listener is told what became of additions. Its methods must be quick and must not call the Counter.
type Listener interface {
	// Counted tells the change of a total by this node.
	Counted(t Total, c Change)
	// Missed tells units that could not be counted in time. They are counted later.
	Missed(t Total, unitMilli int64)
	// Unknown asks for a Raise of an account that the counter does not know. With flush, the store must
	// first get the settlements that wait on this node.
	Unknown(accountID string, flush bool)
	// Marked tells that the keys of an account are marked as switched off since a time. The mark may be out
	// of date.
	Marked(accountID string, since time.Time)
}

// Total names one of the totals that nodes share.
type Total struct {
	AccountID  string
	Plan, Tier account.Plan
	Month      time.Time // its start, UTC
}

// Change is what an addition did to a total. Amounts are thousandths of a unit, without what was forgiven.
type Change struct {
	Before, After int64
	// Total is the newest known value. It is not After if a later change was told earlier.
	Total int64
	// LastDay is what was added in the last 24 hours. Review: this was the first addition for 24 hours with
	// which that came to 25 points.
	LastDay int64
	Review  bool
	// Unsure: an earlier change of this total by this node may have happened without being told.
	Unsure bool
}

// Reading is a total as it was read.
type Reading struct {
	Plan, Tier account.Plan
	Units      int64 // thousandths, without what was forgiven
	LastDay    int64
}

// Known is what the store knows about some accounts in a month.
type Known struct {
	Month    time.Time
	Accounts []string
	Counts   []Count
	// Introduce: the accounts are such that the counter asks for, see Listener.Unknown. Hours are the units of
	// their last day. Stored has the ids of unproven settlements that were looked up after Counts was read, and
	// whether they were there.
	Introduce bool
	Hours     []Hour
	Stored    map[string]bool
	// Budget returns the budget of a plan.
	Budget func(account.Plan) account.Limit
	// Unmark: the keys of the accounts are on again.
	Unmark bool
}

// Hour is the units of one hour.
type Hour struct {
	Count
	Hour int64 // hours since 1970
}

// mostNodes is the number of nodes over which Near is exact.
const mostNodes = 64

// Near reports whether an addition must be counted before its call ends, because it may reach the budget.
// Total is a value that the true total did not exceed when the call was admitted, except by what is on its
// way; pending is what this node has added since and has not been told about, this addition included.
//
// Why this is enough for calls that follow each other, on whatever nodes: if no node waits, each has less
// than a 64th of what was left of the budget on its way. So with up to 64 nodes all that is on its way is less
// than what is left, and the call that reaches the budget is one that waits. What is added meanwhile by
// calls at the same time is covered by a margin of a tenth of the budget for each second since the total was
// learned; if that is not enough, the budget is found to be reached when the reply comes, milliseconds later.
func Near(total, pending int64, budget account.Limit, age time.Duration) bool {
	if budget == account.Unlimited {
		return false
	}
	full := FullAt(budget)
	tenths := 1 + min(9, max(0, age)/time.Second)
	margin := max(full/10*int64(tenths), min(pending, math.MaxInt64/mostNodes)*mostNodes)
	return plus(plus(total, pending), margin) >= full
}

// FullAt returns the thousandths of a unit at which a budget is used up, and -1 if it never is.
func FullAt(budget account.Limit) int64 {
	switch budget {
	case account.Unlimited:
		return -1
	case 0:
		return 1
	}
	return int64(min(budget, account.MostLimit)) * 1000
}

// SteepAt returns the thousandths of a unit within 24 hours that are a steep climb, and -1 if none are.
func SteepAt(budget account.Limit) int64 {
	if full := FullAt(budget); full < 1000 {
		return full
	}
	return int64(min(budget, account.MostLimit)) * 10 * steepClimb
}
