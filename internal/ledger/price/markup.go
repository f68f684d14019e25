package price

import "errors"

// Markup is what an operator multiplies costs with for customers: all of them, those of a plan, or one account. The narrowest
// factor counts. It is immutable; a nil Markup changes nothing.
type Markup struct {
	all             Factor
	plans, accounts map[string]Factor
}

var errMarkup = errors.New("a markup is above 0 and at most 100, with at most six decimals")

// NewMarkup returns a markup. An all of zero is one. The maps must not be changed afterwards.
func NewMarkup(all Factor, plans, accounts map[string]Factor) (*Markup, error) {
	if all == 0 {
		all = one
	}
	if all < 0 || all > maxFactor {
		return nil, errMarkup
	}
	for _, table := range []map[string]Factor{plans, accounts} {
		for _, f := range table {
			if f <= 0 || f > maxFactor {
				return nil, errMarkup
			}
		}
	}
	if all == one && len(plans) == 0 && len(accounts) == 0 {
		return nil, nil
	}
	return &Markup{all, plans, accounts}, nil
}

// Of returns the factor of an account on a plan.
func (m *Markup) Of(plan, account string) Factor {
	if m == nil {
		return one
	}
	if f, ok := m.accounts[account]; ok {
		return f
	}
	if f, ok := m.plans[plan]; ok {
		return f
	}
	return m.all
}

// All returns the factor of everybody, which public prices have.
func (m *Markup) All() Factor {
	if m == nil {
		return one
	}
	return m.all
}

// Times returns the entry as customers with a markup are told its prices: each price times the factor, rounded half up to the
// nano-dollar. It keeps the version of the entry: what customers are charged is the cost by that entry, times the factor. e may
// be nil.
func (e *Entry) Times(f Factor) *Entry {
	if e == nil || f == one || f == 0 {
		return e
	}
	told := *e
	told.Rates.times(f)
	told.Bands = make([]Band, len(e.Bands))
	for i, b := range e.Bands {
		b.Rates.times(f)
		told.Bands[i] = b
	}
	told.Fees = make(map[string]Nano, len(e.Fees))
	for name, fee := range e.Fees {
		told.Fees[name] = fee.times(f)
	}
	return &told
}

func (r *Rates) times(f Factor) {
	for b, rate := range r {
		if rate != Unknown {
			r[b] = Rate(Nano(rate).times(f))
		}
	}
}

// Kept returns the factor as settlements keep it: zero if it changes nothing, as for nearly all of them.
func (f Factor) Kept() Factor {
	if f == one {
		return 0
	}
	return f
}

// Told returns what customers are told in place of a cost. A markup of zero changes nothing.
func (n Nano) Told(markup Factor) Nano {
	if markup == 0 {
		return n
	}
	return n.times(markup)
}

func (n Nano) times(f Factor) Nano {
	var sum wide
	sum.add(uint64(n), uint64(f), perNano/uint64(one))
	return sum.rounded()
}
