package usage

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/ledger/price"
)

// Terms are, beside the tokens, what the cost of a call follows from. With the prices of Version they explain it at any time.
type Terms struct {
	Version   string       // of the prices, see price.Entry; empty: the call has no cost, or is of an earlier version
	Tier      string       // the vendor's service tier; empty: its list price
	Region    string       // where the vendor served the call, if that has a price of its own
	Model     string       // the vendor's name of the model that answered, if it is not the one that was asked for
	Estimated bool         // the reply was cut, so the tokens that the vendor produced of it are estimated
	Markup    price.Factor // what the operator multiplies the cost with for the customer; zero: nothing
	Uses      []price.Use
	// Turns are the parts of the call that are priced apart; nil: it is priced as a whole. The tokens and uses of the
	// settlement are their sums.
	Turns []Turn
	// Budgets are what the call takes from budgets, and Tags what its owner has marked it with.
	Budgets []Charge
	Tags    []string
}

// Priced returns the terms of the price.
func (s *Settlement) Priced() price.Terms {
	return price.Terms{At: s.At.Unix(), Tier: s.Terms.Tier, Region: s.Terms.Region}
}

// Counts returns what the call consumed.
func (s *Settlement) Counts() price.Counts {
	c := price.CountsOf(s.Tokens)
	c.Used = s.Terms.Uses
	return c
}

// Price computes what the call costs by the prices of an entry, which may be nil, and sets the cost and the version of the prices.
// markup is what the operator multiplies the cost with for customers; zero: they are told the cost.
func (s *Settlement) Price(e *price.Entry, markup price.Factor) {
	if len(s.Terms.Turns) > 0 {
		s.PriceTurns(func(int) *price.Entry { return e }, markup)
		return
	}
	s.Terms.Markup = markup.Kept()
	counts := s.Counts()
	cost, charge, ok := e.Charge(&counts, s.Priced(), markup)
	if !ok {
		s.unpriced()
		return
	}
	s.Cost, s.Margin, s.Terms.Version = &cost, charge-cost, e.Version()
}

// Charge returns what the customer is told that the call costs; nil if that is not known.
func (s *Settlement) Charge() *price.Nano {
	if s.Cost == nil {
		return nil
	}
	charge := *s.Cost + s.Margin
	return &charge
}

// Charge returns what the customer is told.
func (s *Sums) Charge() price.Nano { return s.Cost + s.Margin }

// Charge returns what the customer is told.
func (t *Tally) Charge() price.Nano { return t.Cost + t.Margin }

// Unpriced says whether the call used something whose price is not known. One that failed before anything was used has nothing
// to price.
func (s *Settlement) Unpriced() bool {
	return s.Cost == nil && (s.End == EndComplete || s.Tokens.Total() > 0)
}

// The sources of a count.
const (
	ByVendor = "vendor"   // reported by the upstream
	ByUs     = "ours"     // counted by us, since the upstream reported nothing
	Estimate = "estimate" // of a reply that was cut: what reached us, and never more than the call allowed
)

// Source returns who counted the tokens of a bucket.
func (s *Settlement) Source(b price.Bucket) string {
	switch {
	case s.Terms.Estimated && !b.Prompted():
		return Estimate
	case s.Counted:
		return ByUs
	default:
		return ByVendor
	}
}

// maxTerms bounds the texts of terms, in bytes. Vendors name tiers and models; nobody needs more.
const maxTerms = 128

// rest are the parts of the tokens that few calls have.
func (s *Settlement) rest() [4]*int {
	t := &s.Tokens
	return [...]*int{&t.AudioIn, &t.ImageIn, &t.AudioOut, &t.ImageOut}
}

// restNames are their names in a stored text.
var restNames = [...]string{
	price.AudioIn.String(), price.ImageIn.String(), price.AudioOut.String(), price.ImageOut.String(),
}

// Details returns what few settlements have, as a text for a column: names and values, such as "tier=priority audio_input=12
// use:web_search=2000". It is empty for most.
func (s *Settlement) Details() string {
	if len(s.Terms.Budgets) == 0 {
		return s.details()
	}
	// Every call of an account with budgets has these, so they cost little.
	var room [512]byte
	return string(appendBudgets(append(room[:0], s.details()...), s.Terms.Budgets))
}

// details returns the details without the budgets, which the journal has in a form of their own.
func (s *Settlement) details() string {
	var b strings.Builder
	put := func(name, value string) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(value)
	}
	for _, t := range [...]struct{ name, value string }{{"tier", s.Terms.Tier}, {"region", s.Terms.Region}, {"served", s.Terms.Model}} {
		if t.value != "" {
			put(t.name, word(t.value))
		}
	}
	if s.Terms.Estimated {
		put("estimated", "1")
	}
	if s.Terms.Markup != 0 {
		put("markup", strconv.FormatInt(int64(s.Terms.Markup), 10))
	}
	for i, n := range s.rest() {
		if *n != 0 {
			put(restNames[i], strconv.Itoa(*n))
		}
	}
	for _, u := range s.Terms.Uses {
		put("use:"+word(u.Name), strconv.FormatInt(u.Milli, 10))
	}
	for i := range s.Terms.Turns {
		put("turn", s.Terms.Turns[i].text())
	}
	for _, tag := range s.Terms.Tags {
		put("tag", tag) // it has no spaces
	}
	return b.String()
}

// SetDetails sets what Details has written. Names that it does not know are of a later version; they are left out. Only a plain space
// ends a field: with any other, a caller's tag could pass for a field of its own.
func (s *Settlement) SetDetails(text string) {
	for field := range strings.SplitSeq(text, " ") {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch use, isUse := strings.CutPrefix(name, "use:"); {
		case isUse && err == nil:
			s.Terms.Uses = append(s.Terms.Uses, price.Use{Name: use, Milli: n})
		case name == "turn":
			s.Terms.Turns = append(s.Terms.Turns, parseTurn(value))
		case name == "budget":
			s.Terms.Budgets = addCharge(s.Terms.Budgets, value)
		case name == "tag":
			s.Terms.Tags = append(s.Terms.Tags, value)
		case name == "tier":
			s.Terms.Tier = value
		case name == "region":
			s.Terms.Region = value
		case name == "served":
			s.Terms.Model = value
		case name == "estimated":
			s.Terms.Estimated = value == "1"
		case name == "markup":
			s.Terms.Markup = price.Factor(n)
		case err == nil:
			for i, to := range s.rest() {
				if name == restNames[i] {
					*to = int(n)
				}
			}
		}
	}
}

// word returns a vendor's word as a part of a text of words: without spaces, and not long.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '=' || r == 0x7f {
			return '_'
		}
		return r
	}, s[:min(len(s), maxTerms)])
}

// perMicro is how many nano-dollars a micro-dollar has. Costs are stored in micro-dollars, with the rest beside them: that is
// how versions before 0.4 store them, which know of no rest.
const perMicro = 1000

// SplitCost returns a cost in whole micro-dollars, and the nano-dollars beyond them.
func SplitCost(n price.Nano) (micro, rest int64) { return int64(n) / perMicro, int64(n) % perMicro }

// JoinCost returns the cost of which SplitCost has returned the parts, or the sum of many such costs.
func JoinCost(micro, rest int64) price.Nano { return price.Nano(micro*perMicro + rest) }

// What of the terms is in a record, in this order.
const (
	termsPrice   = 1 << 0 // the version of the prices, and the nano-dollars beyond the micro-dollars of the cost
	termsMargin  = 1 << 1
	termsWrites  = 1 << 2 // the tokens written to a cache for an unknown time
	termsDetails = 1 << 3
	termsReceipt = 1 << 4 // the statement of the receipt
	termsBudgets = 1 << 5 // what the call takes from budgets
	termsServed  = 1 << 6 // the rest of the trace: its affinity, and the keys of its attempts
)

// termBits returns what of the terms there is to write.
func (s *Settlement) termBits() (bits uint64) {
	if s.Terms.Version != "" || s.Cost != nil && *s.Cost%perMicro != 0 {
		bits |= termsPrice
	}
	if s.Margin != 0 {
		bits |= termsMargin
	}
	if s.Tokens.CacheWrite != 0 {
		bits |= termsWrites
	}
	t := &s.Terms
	rare := t.Tier != "" || t.Region != "" || t.Model != "" || t.Estimated || t.Markup != 0 || len(t.Uses) > 0 || len(t.Turns) > 0 || len(t.Tags) > 0
	for _, n := range s.rest() {
		rare = rare || *n != 0
	}
	if rare {
		bits |= termsDetails
	}
	if s.Receipt != nil {
		bits |= termsReceipt
	}
	if len(t.Budgets) > 0 {
		bits |= termsBudgets
	}
	if s.Trace.isServed() {
		bits |= termsServed
	}
	return bits
}

// appendTerms appends the terms to a record.
func (s *Settlement) appendTerms(b []byte, bits uint64) []byte {
	if bits&termsPrice != 0 {
		rest := int64(0)
		if s.Cost != nil {
			_, rest = SplitCost(*s.Cost)
		}
		b = binary.AppendVarint(appendText(b, s.Terms.Version, maxTerms), rest)
	}
	if bits&termsMargin != 0 {
		b = binary.AppendVarint(b, int64(s.Margin))
	}
	if bits&termsWrites != 0 {
		b = binary.AppendVarint(b, int64(s.Tokens.CacheWrite))
	}
	if bits&termsDetails != 0 {
		b = appendText(b, s.details(), maxDetails)
	}
	if bits&termsReceipt != 0 {
		b = append(binary.AppendUvarint(b, uint64(len(s.Receipt.Statement))), s.Receipt.Statement...)
	}
	if bits&termsBudgets != 0 {
		b = appendCharges(b, s.Terms.Budgets)
	}
	if bits&termsServed != 0 {
		b = appendServed(b, s.Trace)
	}
	return b
}

// maxDetails is more than details can have: texts, counts, as many uses as a book has fees, the turns of a conversation, and the
// budgets of an account.
const maxDetails = 48 << 10

// readTerms reads what appendTerms has written. What a later version adds follows it.
func (s *Settlement) readTerms(r *reader, known texts) {
	bits, used := binary.Uvarint(r.raw)
	if used <= 0 {
		r.bad = true
		return
	}
	r.raw = r.raw[used:]
	if bits&termsPrice != 0 {
		s.Terms.Version = known.text(r.bytes())
		if rest := r.number(); s.Cost != nil {
			*s.Cost += price.Nano(rest)
		}
	}
	if bits&termsMargin != 0 {
		s.Margin = price.Nano(r.number())
	}
	if bits&termsWrites != 0 {
		s.Tokens.CacheWrite = int(r.number())
	}
	if bits&termsDetails != 0 {
		s.SetDetails(string(r.bytes()))
	}
	if bits&termsReceipt != 0 {
		s.Receipt = &Receipt{Statement: slices.Clone(r.bytes())}
	}
	if bits&termsBudgets != 0 {
		s.Terms.Budgets = readCharges(r, known)
	}
	if bits&termsServed != 0 && s.Trace != nil {
		s.Trace.readServed(r, known)
	}
}
