package costs

import (
	"encoding/json"
	"math/big"
	"strings"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// Line is one product of the formula of a cost.
type Line struct {
	Turn   int    // from 1, if the call has several turns that are priced apart
	Name   string // of the bucket, or of the use
	Tokens bool   // Count is tokens, and Rate for a million; otherwise thousandths of a call or a second, and for one
	Count  int64
	Rate   price.Nano
	Factor price.Factor
	Source string // who counted: usage.ByVendor, usage.ByUs or usage.Estimate
	Amount Exact
}

// Exact is an amount of money before it is rounded.
type Exact struct{ n big.Int } // in 10^-21 dollars

// places is how many decimals an Exact has.
const places = 21

// exactNano returns an amount of nano-dollars.
func exactNano(n price.Nano) (x Exact) {
	x.n.Mul(big.NewInt(int64(n)), big.NewInt(1_000_000_000_000))
	return x
}

// amount returns the product of a line.
func (l *Line) amount() (x Exact) {
	x.n.Mul(big.NewInt(l.Count), big.NewInt(int64(l.Rate)))
	x.n.Mul(&x.n, big.NewInt(int64(l.Factor)))
	if !l.Tokens { // a count in thousandths, not a price in millionths
		x.n.Mul(&x.n, big.NewInt(1000))
	}
	return x
}

// Zero says whether the amount is zero.
func (x *Exact) Zero() bool { return x.n.Sign() == 0 }

// Number returns the amount in dollars, with all digits that it has.
func (x *Exact) Number() json.Number {
	digits, sign := new(big.Int).Abs(&x.n).String(), ""
	if x.n.Sign() < 0 {
		sign = "-"
	}
	if len(digits) <= places {
		digits = strings.Repeat("0", places+1-len(digits)) + digits
	}
	at := len(digits) - places
	return json.Number(sign + strings.TrimSuffix(digits[:at]+"."+strings.TrimRight(digits[at:], "0"), "."))
}

// unmarked is the factor that changes nothing.
const unmarked price.Factor = 1_000_000

// explained returns a call with the formula of its cost by the prices of its turns, of which some may be nil. A formula that does
// not give the cost is none.
func explained(s *usage.Settlement, entries []*price.Entry, staff bool) Call {
	c := Call{Settlement: *s}
	turns := s.Turns()
	var sum, marked price.Nano
	for i := range turns {
		counts := turns[i].Counts()
		cost, charge, ok := entries[i].Charge(&counts, turns[i].Priced(s.At), s.Terms.Markup)
		if !ok {
			return c
		}
		sum, marked = sum+cost, marked+charge
	}
	if s.Cost == nil || sum != *s.Cost {
		return c
	}
	c.Entries = entries
	total, markup := *s.Cost, price.Factor(0)
	if !staff {
		total, markup = *s.Charge(), s.Terms.Markup
		c.NotCharged = max(0, marked-total)
	}
	for i := range turns {
		more := lines(s, &turns[i], entries[i], markup)
		for k := range more {
			if len(turns) > 1 {
				more[k].Turn = i + 1
			}
		}
		c.Lines = append(c.Lines, more...)
	}
	c.Rounding = exactNano(total + c.NotCharged)
	for i := range c.Lines {
		c.Rounding.n.Sub(&c.Rounding.n, &c.Lines[i].Amount.n)
	}
	return c
}

// lines returns the products of the formula of a turn, with prices times a markup.
func lines(s *usage.Settlement, t *usage.Turn, e *price.Entry, markup price.Factor) []Line {
	counts := t.Counts()
	var buckets []price.Bucket // of the first lines
	for b, n := range counts.Tokens {
		if n > 0 {
			buckets = append(buckets, price.Bucket(b))
		}
	}
	var out []Line
	for i, l := range e.Lines(&counts, t.Priced(s.At)) {
		line := Line{Name: l.Name, Count: l.Count, Rate: marked(l.Rate, markup), Factor: l.Factor, Source: usage.ByVendor}
		if i < len(buckets) {
			line.Tokens, line.Source = true, s.Source(buckets[i])
		}
		line.Amount = line.amount()
		out = append(out, line)
	}
	return out
}

// marked returns a price times a markup, rounded half up. A markup of zero changes nothing.
func marked(n price.Nano, markup price.Factor) price.Nano {
	if markup == 0 || markup == unmarked {
		return n
	}
	x := new(big.Int).Mul(big.NewInt(int64(n)), big.NewInt(int64(markup)))
	x.Add(x, big.NewInt(int64(unmarked)/2))
	return price.Nano(x.Div(x, big.NewInt(int64(unmarked))).Int64())
}
