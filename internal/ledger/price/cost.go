package price

import (
	"math/bits"
	"strconv"
	"strings"
)

// Cost returns what a call costs at its vendor. It returns false if a count has no price: that is not the same as free.
//
// Each count is multiplied with its rate; the sum is multiplied with the factor of tier, region and hour; fees are added; the
// result is rounded once, half up.
func (e *Entry) Cost(c *Counts, t Terms) (Nano, bool) {
	sum, ok := e.sum(c, t)
	return sum.rounded(), ok
}

// Charge returns what a call costs, and that times a markup, rounded half up. A markup of zero changes nothing.
func (e *Entry) Charge(c *Counts, t Terms, markup Factor) (cost, charge Nano, ok bool) {
	sum, ok := e.sum(c, t)
	cost = sum.rounded()
	if markup == 0 || markup == one {
		return cost, cost, ok
	}
	return cost, cost.times(markup), ok
}

// sum returns what a call costs, before it is rounded.
func (e *Entry) sum(c *Counts, t Terms) (sum wide, ok bool) {
	if e == nil {
		return sum, false
	}
	factor, ok := e.factor(t)
	if !ok {
		return sum, false
	}
	rates := e.rates(c.Prompt())
	// sum is in nano-dollars times 10^12: a rate is for a million, a factor is in millionths
	for b, n := range c.Tokens {
		if n <= 0 {
			continue
		}
		if rates[b] == Unknown {
			return sum, false
		}
		sum.add(uint64(n), uint64(rates[b]), uint64(factor))
	}
	for _, u := range c.Used {
		fee, ok := e.fee(u.Name)
		if !ok {
			return sum, false
		}
		sum.add(uint64(max(0, u.Milli)), uint64(fee), 1_000_000_000) // thousandths
	}
	return sum, true
}

// Most returns the most that a call with at most these counts can cost, whatever the region or the hour, at the list price or at
// one of the tiers, and however its prompt is split between fresh and cached tokens. It returns false if that has no bound.
func (e *Entry) Most(prompt, output int64, tiers []string) (Nano, bool) {
	return e.extreme(prompt, output, tiers, dearest)
}

// Least returns what a call with this prompt and at least this output costs in the best case: all of the prompt is read from a
// cache, at the cheapest of the tiers, the regions and the hours.
func (e *Entry) Least(prompt, output int64, tiers []string) (Nano, bool) {
	return e.extreme(prompt, output, tiers, cheapest)
}

// end is an end of a range of prices.
type end bool

const (
	cheapest end = false
	dearest  end = true
)

// further returns the number that is nearer to the end.
func further[T Rate | Factor | Nano](to end, a, b T) T {
	if to == dearest {
		return max(a, b)
	}
	return min(a, b)
}

// extreme returns what counts cost at one end of all that a call may meet.
func (e *Entry) extreme(prompt, output int64, tiers []string, to end) (found Nano, ok bool) {
	if e == nil {
		return 0, false
	}
	rates := e.rates(prompt)
	in, out := rates.extreme(true, to), rates.extreme(false, to)
	if in == Unknown && prompt > 0 || out == Unknown && output > 0 {
		return 0, false
	}
	for i, tier := range append([]string{""}, tiers...) {
		factor, ok := e.extremeFactor(tier, to)
		if !ok {
			return 0, false
		}
		var sum wide
		sum.add(uint64(max(0, prompt)), uint64(max(0, in)), uint64(factor))
		sum.add(uint64(max(0, output)), uint64(max(0, out)), uint64(factor))
		cost := sum.divided(0)
		if to == dearest {
			cost = sum.ceiled()
		}
		if i == 0 {
			found = cost
		}
		found = further(to, found, cost)
	}
	return found, true
}

// extreme returns the cheapest or the dearest known rate of the prompt's or the reply's buckets; Unknown if there is none.
func (r *Rates) extreme(prompt bool, to end) Rate {
	found := Unknown
	for b, rate := range r {
		switch {
		case Bucket(b).Prompted() != prompt || rate == Unknown:
		case found == Unknown:
			found = rate
		default:
			found = further(to, found, rate)
		}
	}
	return found
}

// extremeFactor returns the lowest or the highest factor of a tier over regions and hours.
func (e *Entry) extremeFactor(tier string, to end) (Factor, bool) {
	f, ok := named(e.Tiers, tier)
	if !ok {
		return 0, false
	}
	region, hour := one, one
	for _, r := range e.Regions {
		region = further(to, region, r)
	}
	for _, h := range e.Hours {
		hour = further(to, hour, h.Factor)
	}
	return f * region / one * hour / one, true
}

// Line is one product of a cost's formula.
type Line struct {
	Name   string // of the bucket, or of the use
	Count  int64  // tokens, or thousandths of a call or a second
	Rate   Nano   // for a million tokens, or for one call or second
	Factor Factor // of tier, region and hour; one for fees
}

// Lines returns the formula of a cost, the products in the order in which Cost adds them. It is empty if the call has no cost.
func (e *Entry) Lines(c *Counts, t Terms) []Line {
	if _, ok := e.Cost(c, t); !ok {
		return nil
	}
	factor, _ := e.factor(t)
	rates := e.rates(c.Prompt())
	var lines []Line
	for b, n := range c.Tokens {
		if n > 0 {
			lines = append(lines, Line{Bucket(b).String(), n, Nano(rates[b]), factor})
		}
	}
	for _, u := range c.Used {
		fee, _ := e.fee(u.Name)
		lines = append(lines, Line{u.Name, u.Milli, fee, one})
	}
	return lines
}

// Video returns the name of the use of a second of video.
func Video(width, height int) string {
	return video + strconv.Itoa(width) + "x" + strconv.Itoa(height)
}

// fee returns the price of one use. Most vendors price videos by their lines, whichever way they are turned: 720p is the price
// of 1280x720 and of 720x1280, unless these have one of their own.
func (e *Entry) fee(name string) (Nano, bool) {
	if fee, ok := e.Fees[name]; ok {
		return fee, true
	}
	size, ok := strings.CutPrefix(name, video)
	width, height, sized := strings.Cut(size, "x")
	w, err := strconv.Atoi(width)
	h, err2 := strconv.Atoi(height)
	if !ok || !sized || err != nil || err2 != nil {
		return 0, false
	}
	lines := strconv.Itoa(min(w, h)) + "p"
	if min(w, h) >= 2160 {
		lines = "4k"
	}
	fee, ok := e.Fees[video+lines]
	return fee, ok
}

// wide is a sum of products, in nano-dollars times 10^12.
type wide struct {
	hi, lo uint64
	over   bool
}

// perNano is how many units of a wide sum make a nano-dollar.
const perNano = 1_000_000_000_000

// add adds a*b*c.
func (w *wide) add(a, b, c uint64) {
	hi, lo := bits.Mul64(a, b)
	top, mid := bits.Mul64(hi, c)
	hi, lo = bits.Mul64(lo, c)
	hi, carry := bits.Add64(hi, mid, 0)
	w.over = w.over || top != 0 || carry != 0
	w.lo, carry = bits.Add64(w.lo, lo, 0)
	w.hi, carry = bits.Add64(w.hi, hi, carry)
	w.over = w.over || carry != 0
}

// rounded returns the sum in nano-dollars, rounded half up.
func (w wide) rounded() Nano { return w.divided(perNano / 2) }

// ceiled returns the sum in nano-dollars, rounded up.
func (w wide) ceiled() Nano { return w.divided(perNano - 1) }

func (w wide) divided(more uint64) Nano {
	lo, carry := bits.Add64(w.lo, more, 0)
	hi := w.hi + carry
	if w.over || hi >= perNano { // the quotient has more than 64 bits
		return Most
	}
	quotient, _ := bits.Div64(hi, lo, perNano)
	return Nano(min(quotient, uint64(Most)))
}
