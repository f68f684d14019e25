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

// shared returns how many bytes of a holder's name are those of the holder before it. Most holders of a call are of one server,
// whose name and life are most of the text: every row and record of the journal has it once.
func shared(before, holder string) (n int) {
	for n < len(before) && n < len(holder) && before[n] == holder[n] {
		n++
	}
	return n
}

// base is that of the numbers in a text of charges: rows of the database are many, and nobody reads these numbers there.
const base = 36

// appendBudgets appends charges to a text of details, each as a word.
func appendBudgets(b []byte, charges []Charge) []byte {
	before := ""
	for i := range charges {
		c := &charges[i]
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(b, "budget="...)
		holder := holderText.Replace(c.Holder)
		same := shared(before, holder)
		for _, n := range [...]int64{c.Period, int64(c.Reserved), int64(c.Amount), c.After.Microseconds(), int64(same)} {
			b = append(strconv.AppendInt(b, n, base), ':')
		}
		b = append(append(b, holder[same:]...), ':')
		b = append(b, c.Count...) // a count has no spaces: sessions are plain words
		before = holder
	}
	return b
}

// addCharge appends a charge that appendBudgets has written.
func addCharge(list []Charge, text string) []Charge {
	parts := strings.SplitN(text, ":", 7)
	if len(parts) != 7 {
		return append(list, Charge{})
	}
	var n [5]int64
	for i := range n {
		n[i], _ = strconv.ParseInt(parts[i], base, 64) // a damaged number counts as 0
	}
	before := ""
	if len(list) > 0 {
		before = holderText.Replace(list[len(list)-1].Holder)
	}
	holder := before[:max(0, min(int(n[4]), len(before)))] + parts[5]
	if plain, err := url.PathUnescape(holder); err == nil {
		holder = plain
	}
	return append(list, Charge{Count: parts[6], Holder: holder, Period: n[0], Reserved: price.Nano(n[1]), Amount: price.Nano(n[2]), After: time.Duration(n[3]) * time.Microsecond})
}

// mostCharges is more than the budgets of an account.
const mostCharges = 1000

// appendCharges appends charges to a record of the journal: their number, and for each five numbers, what its holder does not share
// with the one before, and its count. The fifth number is how much it shares.
func appendCharges(b []byte, charges []Charge) []byte {
	b = binary.AppendUvarint(b, uint64(len(charges)))
	before := ""
	for i := range charges {
		c := &charges[i]
		same := shared(before, c.Holder)
		for _, n := range [...]int64{c.Period, int64(c.Reserved), int64(c.Amount), c.After.Microseconds(), int64(same)} {
			b = binary.AppendVarint(b, n)
		}
		b = appendText(appendText(b, c.Holder[same:], maxDetails), c.Count, maxDetails)
		before = c.Holder
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
	var room [64]byte
	holder := room[:0]
	for i := range charges {
		charges[i] = Charge{Period: r.number(), Reserved: price.Nano(r.number()), Amount: price.Nano(r.number()), After: time.Duration(r.number()) * time.Microsecond}
		same := r.number()
		if same < 0 || same > int64(len(holder)) {
			r.bad = true
			return nil
		}
		holder = append(holder[:same], r.bytes()...)
		charges[i].Holder, charges[i].Count = known.text(holder), known.text(r.bytes())
	}
	return charges
}
