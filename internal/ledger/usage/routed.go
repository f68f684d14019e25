package usage

import "sluice/internal/ledger/price"

// Routed is what one model answered of the calls that were left to the router.
type Routed struct {
	Model string
	Calls int64
	// Unpriced are the calls that consumed something whose cost is not known.
	Unpriced int64
	// What the calls with a known cost consumed, and what the customer was told that they cost.
	Priced, Prompt, Cached, Completion int64
	Cost                               price.Nano
}
