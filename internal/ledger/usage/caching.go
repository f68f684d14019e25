package usage

import (
	"sluice/internal/ledger/price"
)

// Caching is what prompt caches gave a call, or a number of calls.
type Caching struct {
	// Cacheable are the tokens of prompts that a cache could have held: all of them if the model has a cache, else none. What was
	// read from caches, of these, is the hit rate.
	Cacheable int64 `json:"cacheable_tokens"`
	// Saved is what the operator would have paid without caches, beyond the cost: the same tokens and terms, with all that was read
	// from caches and written to them as plain input. It is negative where writing cost more than reading has saved.
	Saved price.Nano `json:"saved_nano"`
	// SavedMargin is what the customer is told beyond Saved.
	SavedMargin price.Nano `json:"saved_margin_nano"`
}

// Merge adds what other calls got.
func (c *Caching) Merge(o Caching) {
	c.Cacheable += o.Cacheable
	c.Saved += o.Saved
	c.SavedMargin += o.SavedMargin
}

// SavedCharge returns what the customer is told that caches saved.
func (c *Caching) SavedCharge() price.Nano { return c.Saved + c.SavedMargin }

// Hits is what prompts consist of, of a number of calls.
type Hits struct{ Read, Cacheable int64 }

// Rate returns the share of the tokens that could have been read from a cache that were; false if there are none.
func (h Hits) Rate() (share float64, known bool) {
	if h.Cacheable <= 0 {
		return 0, false
	}
	return min(1, float64(h.Read)/float64(h.Cacheable)), true
}

// Hits returns what the hit rate follows from.
func (s *Sums) Hits() Hits { return Hits{s.Cached, s.Cacheable} }

// Hits returns what the hit rate follows from.
func (t *Tally) Hits() Hits { return Hits{t.Cached, t.Cacheable} }

// Hits returns what the hit rate follows from.
func (s *Settlement) Hits() Hits { return Hits{int64(s.Tokens.Cached), s.Cacheable} }

// cached notes whether the model has a cache: its vendor prices one, or has said that it used one.
func (s *Settlement) cached(e *price.Entry) {
	if e.Cached() || s.Tokens.Cached > 0 || s.Tokens.CacheWritten() > 0 {
		s.Cacheable = int64(s.Tokens.PromptTotal())
	}
}

// saved returns what counts would have cost without caches, beyond what they did cost: for the operator, and in what the customer is
// told. It is zero if that has no price.
func saved(e *price.Entry, c *price.Counts, t price.Terms, markup price.Factor, cost, charge price.Nano) (saved, margin price.Nano) {
	plain, changed := c.Uncached()
	if !changed {
		return 0, 0
	}
	plainCost, plainCharge, ok := e.Charge(&plain, t, markup)
	if !ok {
		return 0, 0
	}
	return plainCost - cost, plainCharge - charge - (plainCost - cost)
}
