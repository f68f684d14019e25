// Package budget keeps what calls cost within the budgets of their accounts.
//
// Before a call starts, Reserve takes the most that it can cost from every hard budget that it counts against, or from none.
// When it has ended, Settle puts what it did cost in place of that. So what is spent and reserved is never more than the amount.
//
// The amount of a budget is in the database. A server gets a part of it for itself, a grant, and reserves from its grant in memory;
// it asks the database again only when the grant is used up. What is spent and what all servers were granted is never more than
// the amount, because a grant is made in one transaction. A server that is alone is granted all there is. A settlement moves what
// was spent out of the grant in the transaction that stores it, once, however often the journal is replayed. See
// docs/decisions/0038-budgets-are-granted.md.
package budget

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// Store has the budgets that servers share. Amounts of a window that rolls are counted in parts of it; see PeriodOf.
type Store interface {
	// Grant gives a holder as much as it needs, and up to its share if there is more, or nothing. What a holder has is always
	// told as a whole, so that an answer that was lost does no harm. What a holder has spent beyond its grant makes no other
	// grant larger: it counts as spent, and nothing of the grant is left.
	Grant(ctx context.Context, a Ask) (Figures, error)
	// Keep notes what holders have and hold, some of which they may have given back. A grant that was taken back stays so: then the
	// others are noted all the same, and the error is a *TakenBack.
	Keep(ctx context.Context, grants []Grant) error
	// Forget takes back what holders have whose names begin with prefix and not with except.
	Forget(ctx context.Context, prefix, except string) error
	// Figures returns how counts stand, in the order of the asks, of which it reads Key, Holder, Since and Amount.
	Figures(ctx context.Context, asks []Ask) ([]Figures, error)
	// Hand moves amounts from holders to others of the same keys, which outlive them: videos, as JobPrefix and their ids. It moves all
	// of them or none. What from have is told as a whole, without the amounts. The others have and hold theirs, unless they were
	// handed something before.
	Hand(ctx context.Context, from, to []Grant) error
	// Drop takes back all that a holder has and has not spent, in every count.
	Drop(ctx context.Context, holder string) error
}

// Key names a count in a period.
type Key struct {
	Count  string // see usage.Charge
	Period int64
}

// Grant is what a holder may spend of a count.
type Grant struct {
	Key
	Holder   string
	Granted  price.Nano // all that it was ever given and has not given back
	Reserved price.Nano // what its calls hold
}

// TakenBack are grants that holders believe they have, and of which the store knows nothing: others may have them.
type TakenBack struct{ Grants []Grant }

func (t *TakenBack) Error() string {
	return fmt.Sprintf("%d grants of budgets are no longer known, the first one for %s", len(t.Grants), t.Grants[0].Count)
}

// Ask is a question for more.
type Ask struct {
	Grant
	AccountID string
	// Since is the first period that counts: earlier than Period only for a window that rolls.
	Since       int64
	Amount      price.Nano // of the budget, without what was added to it
	Need, Share price.Nano
}

// Figures is how a count stands.
type Figures struct {
	Amount   price.Nano // with what was added to it
	Spent    price.Nano // as far as the database knows
	Reserved price.Nano // what the calls of others hold
	Others   price.Nano // what others were granted and have not spent
	Granted  price.Nano // what the holder has now
	// Committed is what the holder has spent as far as the database knows.
	Committed price.Nano
	Free      price.Nano // what nobody was granted
}

// The parts of windows that roll. A part counts as long as any of it is in the window.
const (
	part24 = 5 * time.Minute
	part30 = time.Hour
)

// PeriodOf returns the period of a budget that a time is in, and the first period that counts. For a window that rolls, the period
// is the length of its parts, as a negative number: where the spent money belongs is known when it is spent.
func PeriodOf(b *account.Budget, now time.Time) (period, since int64) {
	switch b.Window {
	case account.Rolling24:
		return -part24.Milliseconds(), now.Add(-b.Window.Span()-part24).UnixMilli() + 1
	case account.Rolling30:
		return -part30.Milliseconds(), now.Add(-b.Window.Span()-part30).UnixMilli() + 1
	case account.Total:
		return 0, 0
	default:
		from, _ := b.Period(now)
		return from.UnixMilli(), from.UnixMilli()
	}
}

// SpentIn returns the period in which the cost of a call belongs that has ended at a time.
func SpentIn(period int64, ended time.Time) int64 {
	if period >= 0 {
		return period
	}
	at := ended.UnixMilli()
	return at - at%-period
}

// Due is a budget that a call counts against.
type Due struct {
	*account.Budget
	Session string // that the budget is for; empty unless each session has the amount
}

// Count returns the name of what is counted.
func (d Due) Count() string {
	if d.Session != "" {
		return d.ID + "/" + d.Session
	}
	return d.ID
}

// Of returns the budgets that a call of an account counts against.
func Of(a *account.Account, keyID string, tags []string, session string) []Due {
	dues := make([]Due, 0, len(a.Budgets))
	for i := range a.Budgets {
		b := &a.Budgets[i]
		switch s := b.Scope; {
		case s.Session != "":
			if session != "" && (s.Key == "" || s.Key == keyID) {
				dues = append(dues, Due{Budget: b, Session: session})
			}
		case s.Account, s.Key != "" && s.Key == keyID, s.Tag != "" && contains(tags, s.Tag):
			dues = append(dues, Due{Budget: b})
		}
	}
	return dues
}

func contains(tags []string, tag string) bool {
	for _, t := range tags {
		if t == tag {
			return true
		}
	}
	return false
}

// Hard reports whether one of the budgets is hard.
func Hard(dues []Due) bool {
	for _, d := range dues {
		if d.Budget.Hard {
			return true
		}
	}
	return false
}

// Status is how a budget stands, for people and programs.
type Status struct {
	Due
	Amount, Spent, Reserved, Left price.Nano
	ResetsAt                      time.Time // zero: waiting does not help at a known time
}

// Obstacle is the budget that keeps a call from starting.
type Obstacle struct {
	Status
	Needed price.Nano
	// Wait is how long it takes until the call may fit; 0: waiting does not help, or nobody knows.
	Wait time.Duration
}

// Hold is what a call has reserved. Whoever gets one ends it with Settle or Cancel; only the first of these calls counts.
type Hold struct {
	purse  *purse
	places []place
	need   price.Nano
	at     time.Time
	ended  bool // guarded by the purse
}

// place is the part of a hold in one budget.
type place struct {
	due    Due
	key    Key
	count  *count // nil: the budget only warns
	amount price.Nano
}

// Reserved returns how much the call has reserved of each hard budget.
func (h *Hold) Reserved() price.Nano { return h.need }

// Charges returns what the settlement of the call says of its budgets.
func (h *Hold) Charges(start time.Time) []usage.Charge {
	if h == nil {
		return nil
	}
	charges := make([]usage.Charge, len(h.places))
	for i := range h.places {
		p := &h.places[i]
		charges[i] = usage.Charge{Count: p.key.Count, Period: p.key.Period}
		if p.count != nil {
			charges[i].Holder, charges[i].Reserved, charges[i].Amount, charges[i].After = p.count.holder, h.need, p.amount, max(0, h.at.Sub(start))
		}
	}
	return charges
}

// Settle ends the hold with what the call has cost. The settlement must have been recorded: from then on others may reserve the rest.
func (h *Hold) Settle(spent price.Nano) { h.end(spent) }

// Cancel ends the hold of a call that has cost nothing and leaves no settlement.
func (h *Hold) Cancel() { h.end(0) }

func (h *Hold) end(spent price.Nano) {
	if h == nil {
		return
	}
	h.purse.mu.Lock()
	defer h.purse.mu.Unlock()
	if h.ended {
		return
	}
	h.ended = true
	for i := range h.places {
		if p := &h.places[i]; p.count != nil {
			p.count.open -= h.need
			p.count.used += spent
			p.count.changed = true
		}
	}
}
