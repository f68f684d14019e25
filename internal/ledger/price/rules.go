package price

import (
	"math/big"
	"strings"
)

// Anthropic's rule for caches, in hundredths of the price of fresh input. It is the rule of all its models whose prices are not on
// the list: those of the list may deviate.
var claudeCaches = map[Bucket]Rate{CacheRead: 10, CacheWrite5m: 125, CacheWrite1h: 200, CacheWrite: 125}

// FollowsCaches says whether a vendor derives the prices of a model's caches from the price of fresh input.
func FollowsCaches(vendor, upstream string) bool {
	return vendor == "anthropic" || vendor == "bedrock" && strings.Contains(upstream, "anthropic.claude")
}

// Caches fills in the prices of caches that the entry leaves out, where the vendor of the model derives them from the price of fresh
// input. Where the list has the model, they are to that price as they are on the list; prices that would not be exact stay unknown.
// It must be called before Sealed.
func (e *Entry) Caches(vendor, upstream string) {
	if !FollowsCaches(vendor, upstream) {
		return
	}
	ratio := func(b Bucket) (of, by Rate) { return claudeCaches[b], 100 }
	if listed := listBook().listed(vendor, upstream); listed != nil {
		on := &listed.entries[0].Rates
		ratio = func(b Bucket) (of, by Rate) { return on[b], on[Input] }
	}
	fill := func(r *Rates) {
		for b := range claudeCaches {
			if of, by := ratio(b); r[b] == Unknown && r[Input] != Unknown && of != Unknown && by > 0 {
				r[b] = exactly(r[Input], of, by)
			}
		}
	}
	fill(&e.Rates)
	for i := range e.Bands {
		fill(&e.Bands[i].Rates)
	}
}

// exactly returns a rate times of, divided by by, or Unknown if that is no whole number of nano-dollars.
func exactly(rate, of, by Rate) Rate {
	n := new(big.Int).Mul(big.NewInt(int64(rate)), big.NewInt(int64(of)))
	n, rest := n.QuoRem(n, big.NewInt(int64(by)), new(big.Int))
	if rest.Sign() != 0 || n.Cmp(big.NewInt(int64(maxRate))) > 0 {
		return Unknown
	}
	return Rate(n.Int64())
}
