package costs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// Order is what Reprice computes anew: the calls from From on and before To. An empty account or model means all.
type Order struct {
	AccountID string
	Model     string // that answered
	From, To  time.Time
	After     usage.Point // where an earlier run has ended; zero: from the beginning
	DryRun    bool        // nothing is stored
	Reason    string
	By        string
}

// Repriced is what a part of an order has changed.
type Repriced struct {
	Looked int          // calls
	Models []ModelPrice // by model, those with changes or without a price
	Next   *usage.Point // where to go on; nil: the order is done
}

// ModelPrice is what became of the calls of a model.
type ModelPrice struct {
	Model    string
	Changed  int // calls that cost something else now, Priced included
	Priced   int // calls that had no cost
	Unpriced int // calls that have no cost, and for which today's book has no prices
	// Cost and Margin are the sums of the differences.
	Cost, Margin price.Nano
}

const (
	// lookReprice is how many calls one Reprice looks at, and fixAtOnce how many of them in one transaction, which must not hold
	// up the calls that are being settled.
	lookReprice, fixAtOnce = 4000, 200
	// mostReason is the length of a reason at most, in bytes.
	mostReason = 200
)

// Reprice computes what calls cost by today's book at the time of each call, and stores the differences as corrections. Calls
// for which the book has no prices stay as they are. It looks at a few thousand calls and says where to go on. To repeat it, also
// after it was stopped anywhere, changes nothing twice.
func (c *Costs) Reprice(ctx context.Context, o Order) (Repriced, error) {
	if !o.To.After(o.From) {
		return Repriced{}, fault.New(fault.Invalid, "to must be after from; it is the first moment that is left out").At("to")
	}
	if len(o.Reason) > mostReason {
		return Repriced{}, fault.New(fault.Invalid, "the reason must have at most %d bytes", mostReason).At("reason")
	}
	dropped, err := c.store.SettlementsDropped(ctx)
	if err != nil {
		return Repriced{}, err
	}
	at := o.After
	if at.At.IsZero() {
		c.flush(ctx)
		at = usage.Point{At: o.From}
	}
	if at.At.Before(dropped) { // what is no longer kept cannot be computed
		at = usage.Point{At: dropped}
	}
	out, models := Repriced{}, map[string]*ModelPrice{}
	for out.Next = &at; out.Next != nil && out.Looked < lookReprice; {
		n, next, err := c.repriceSome(ctx, &o, *out.Next, models)
		if err != nil {
			return Repriced{}, err
		}
		out.Looked, out.Next = out.Looked+n, next
	}
	for _, m := range models {
		out.Models = append(out.Models, *m)
	}
	slices.SortFunc(out.Models, func(a, b ModelPrice) int { return strings.Compare(a.Model, b.Model) })
	return out, nil
}

// repriceSome does what one transaction can do of an order. It returns how many calls it has looked at, and where to go on.
func (c *Costs) repriceSome(ctx context.Context, o *Order, after usage.Point, models map[string]*ModelPrice) (int, *usage.Point, error) {
	for range 10 { // again if somebody else corrects the same calls
		calls, err := c.store.SettledAfter(ctx, o.AccountID, after, o.To, fixAtOnce)
		if err != nil {
			return 0, nil, err
		}
		fixes, found := c.fixes(o, calls)
		if len(fixes) > 0 && !o.DryRun {
			err = c.store.Correct(ctx, fixes)
		}
		if errors.Is(err, usage.ErrCorrected) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		for name, m := range found {
			if models[name] == nil {
				models[name] = &ModelPrice{Model: name}
			}
			models[name].add(m)
		}
		if len(calls) < fixAtOnce {
			return len(calls), nil, nil
		}
		last := &calls[len(calls)-1]
		return len(calls), &usage.Point{At: last.At, ID: last.ID}, nil
	}
	return 0, nil, usage.ErrCorrected
}

// fixes returns the corrections of calls, and what they are by model.
func (c *Costs) fixes(o *Order, calls []usage.Settlement) ([]usage.Fix, map[string]*ModelPrice) {
	var out []usage.Fix
	models := map[string]*ModelPrice{}
	now := time.Now().UTC().Truncate(time.Millisecond)
	for i := range calls {
		s := &calls[i]
		if o.Model != "" && s.ModelUsed != o.Model {
			continue
		}
		fix := s.Reprice(func(turn int) *price.Entry { return c.today(s, turn) })
		if fix == nil && !s.Unpriced() {
			continue
		}
		m := models[s.ModelUsed]
		if m == nil {
			m = &ModelPrice{}
			models[s.ModelUsed] = m
		}
		if fix == nil {
			m.Unpriced++
			continue
		}
		fix.Reason, fix.By, fix.MadeAt = o.Reason, o.By, now
		m.count(fix)
		out = append(out, usage.Fix{Call: s, Correction: *fix})
	}
	return out, models
}

// count adds a correction.
func (m *ModelPrice) count(fix *usage.Correction) {
	m.Changed++
	if fix.Priced {
		m.Priced++
	}
	m.Cost, m.Margin = m.Cost+fix.Cost, m.Margin+fix.Margin
}

// add adds what became of other calls of the model.
func (m *ModelPrice) add(o *ModelPrice) {
	m.Changed, m.Priced, m.Unpriced = m.Changed+o.Changed, m.Priced+o.Priced, m.Unpriced+o.Unpriced
	m.Cost, m.Margin = m.Cost+o.Cost, m.Margin+o.Margin
}
