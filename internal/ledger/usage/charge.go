package usage

import (
	"encoding/binary"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/internal/ledger/price"
)

// Charge is what a call takes from one budget; see package budget.
type Charge struct {
	// Count names what is counted: the id of the budget, and for a budget of each session a slash and the session.
	Count    string
	Period   int64      // the start of the period, in milliseconds since 1970; 0 for windows without one
	Holder   string     // who was granted what the call reserved
	Reserved price.Nano // 0 for a budget that only warns
	Amount   price.Nano // of the budget when the call was admitted; 0 for a budget that only warns
	// After is when it was reserved, from the start of the call.
	After time.Duration
}

// Spent returns what the call takes from a budget: what its owner is told that it costs. A call whose cost turned out to be unknown
// takes all that it had reserved. One that failed takes nothing, whatever was counted of its prompt: vendors charge nothing for it.
func (s *Settlement) Spent(c *Charge) price.Nano {
	switch charge := s.Charge(); {
	case charge != nil:
		return *charge
	case s.Unpriced() && s.End != EndFailed:
		return c.Reserved
	}
	return 0
}

// Bound makes the customer pay no more than an amount for the call. What the vendor charges beyond that, the operator pays.
func (s *Settlement) Bound(most price.Nano) {
	if s.Cost != nil && *s.Cost+s.Margin > most {
		s.Margin = most - *s.Cost
	}
}

// bounded keeps what the call costs, by whatever prices, within what it had reserved of hard budgets.
func (s *Settlement) bounded() {
	for i := range s.Terms.Budgets {
		if c := &s.Terms.Budgets[i]; c.Holder != "" {
			s.Bound(c.Reserved)
		}
	}
}

// holderText escapes what would end the name of a holder in a text. Nothing is cut off: it must be found again by its whole name.
var holderText = strings.NewReplacer("%", "%25", ":", "%3A", " ", "%20")

// appendText appends the charge as a word.
func (c *Charge) appendText(b []byte) []byte {
	for _, n := range [...]int64{c.Period, int64(c.Reserved), int64(c.Amount), c.After.Microseconds()} {
		b = append(strconv.AppendInt(b, n, 10), ':')
	}
	b = append(append(b, holderText.Replace(c.Holder)...), ':')
	return append(b, c.Count...) // a count has no spaces: sessions are plain words
}

// parseCharge returns the charge that appendText has written.
func parseCharge(text string) (c Charge) {
	parts := strings.SplitN(text, ":", 6)
	if len(parts) != 6 {
		return c
	}
	var n [4]int64
	for i := range n {
		n[i], _ = strconv.ParseInt(parts[i], 10, 64) // a damaged number counts as 0
	}
	holder, err := url.PathUnescape(parts[4])
	if err != nil {
		holder = parts[4]
	}
	return Charge{Count: parts[5], Holder: holder, Period: n[0], Reserved: price.Nano(n[1]), Amount: price.Nano(n[2]), After: time.Duration(n[3]) * time.Microsecond}
}

// mostCharges is more than the budgets of an account.
const mostCharges = 1000

// appendCharges appends charges to a record of the journal: their number, and for each five numbers, its holder and its count. The
// fifth number has what a later version needs; it is 0.
func appendCharges(b []byte, charges []Charge) []byte {
	b = binary.AppendUvarint(b, uint64(len(charges)))
	for i := range charges {
		c := &charges[i]
		for _, n := range [...]int64{c.Period, int64(c.Reserved), int64(c.Amount), c.After.Microseconds(), 0} {
			b = binary.AppendVarint(b, n)
		}
		b = appendText(appendText(b, c.Holder, maxDetails), c.Count, maxDetails)
	}
	return b
}

// readCharges reads what appendCharges has written.
func readCharges(r *reader, known texts) []Charge {
	n, used := binary.Uvarint(r.raw)
	if used <= 0 || n > mostCharges {
		r.bad = true
		return nil
	}
	r.raw = r.raw[used:]
	charges := make([]Charge, n)
	for i := range charges {
		charges[i] = Charge{Period: r.number(), Reserved: price.Nano(r.number()), Amount: price.Nano(r.number()), After: time.Duration(r.number()) * time.Microsecond}
		r.number()
		charges[i].Holder, charges[i].Count = known.text(r.bytes()), known.text(r.bytes())
	}
	return charges
}
