package provider

import (
	"strings"

	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
)

// Bill is what a reply is billed by beside its tokens, in the vendor's own words. What the vendor did not say is empty.
type Bill struct {
	Tier   string // the service tier
	Region string // where the reply was produced
	Model  string // the model that answered, if it is not the one that was called; see Served
	// Uses are what the vendor charges for beside tokens, sorted by name.
	Uses []price.Use
	// Calls is how many calls of tools the vendor has run so far, whether or not it charges for them.
	Calls int
	// Parts is what the steps of the reply consumed, if it took more than one: each is priced by its own prompt. Their sum is
	// the usage of the reply.
	Parts []Part
}

// Part is what one step of a reply consumed.
type Part struct {
	Model string // that it was a step of, if it is not the one that was called
	Usage chat.Usage
}

// Billed is implemented by streams whose vendor charges for more than tokens, or says at which prices.
type Billed interface {
	// Bill returns what is known so far.
	Bill() Bill
}

// BillOf returns the bill of a stream, which may be nil.
func BillOf(s Stream) Bill {
	if b, ok := s.(Billed); ok {
		return b.Bill()
	}
	return Bill{}
}

// Used returns uses of things that are counted one by one, sorted by name. Those that were not used are left out.
func Used(counts map[string]int) []price.Use {
	var c price.Counts
	for name, n := range counts {
		c.Use(name, int64(ClampTokens(n))*1000)
	}
	return c.Used
}

// Served returns the name of the model that answered if it is another one than the model that was called. Vendors answer an
// alias with the name that stands for it, which is longer: that is the same model.
func Served(called, served string) string {
	called, served = strings.TrimPrefix(called, "models/"), strings.TrimPrefix(served, "models/")
	if served == "" || strings.HasPrefix(served, called) || strings.HasPrefix(called, served) || strings.HasSuffix(called, "-latest") {
		return ""
	}
	return served[:min(len(served), maxServed)]
}

// maxServed bounds the name of a model that a vendor tells, in bytes.
const maxServed = 128
