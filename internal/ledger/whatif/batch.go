package whatif

import (
	"cmp"
	"slices"

	"sluice/internal/ledger/usage"
)

// batchTier is what price lists call the tier of batches.
const batchTier = "batch"

// block is how many calls the choice of batched ones is made among at once.
const block = 1024

// batch sends an exact share of each day's calls to the tier of batches. Calls wait in blocks; of each block those with the
// lowest hashes are chosen, as many as the share of the day so far still lacks. So the choice is the same each time, and no day
// has to be held in memory.
type batch struct {
	share   int64 // in millionths
	day     int64
	seen    int64 // calls of the day that have the price, those of the block included
	chosen  int64
	waiting []candidate
}

// candidate is a call that can be sent in a batch.
type candidate struct {
	hash         uint64
	id           string // for equal hashes
	row          rows
	real         amount
	would, batch amount
}

// add keeps a call until its block is full.
func (b *batch) add(r *Replay, s *usage.Settlement, c *call, row rows, real, would amount) {
	if day := usage.DayOf(s.At).Unix(); day != b.day {
		b.end(r)
		b.day, b.seen, b.chosen = day, 0, 0
	}
	batched := amount{}
	if c.batchable() {
		batched = c.cost(r)
	}
	if !batched.known {
		if s.Terms.Tier != batchTier {
			r.counts.Unbatched++
		}
		row.add(real, would, s.Unpriced())
		return
	}
	b.seen++
	b.waiting = append(b.waiting, candidate{hashOf(s.ID), s.ID, row, real, would, batched})
	if len(b.waiting) == block {
		b.end(r)
	}
}

// batchable moves a call to the tier of batches. It returns false if that has no price, or if the call was there.
func (c *call) batchable() bool {
	for i := range c.parts {
		p := &c.parts[i]
		if p.entry == nil || p.terms.Tier == batchTier {
			return false
		}
		if _, ok := p.entry.Tiers[batchTier]; !ok {
			return false
		}
		p.terms.Tier = batchTier
	}
	return true
}

// end chooses among the calls that wait, and adds them up.
func (b *batch) end(r *Replay) {
	slices.SortFunc(b.waiting, func(x, y candidate) int { return cmp.Or(cmp.Compare(x.hash, y.hash), cmp.Compare(x.id, y.id)) })
	quota := b.seen/millionths*b.share + b.seen%millionths*b.share/millionths - b.chosen
	for i := range b.waiting {
		w := &b.waiting[i]
		if int64(i) < quota {
			b.chosen++
			r.counts.Batched++
			w.would = w.batch
		}
		w.row.add(w.real, w.would, !w.real.known)
	}
	b.waiting = b.waiting[:0]
}

// millionths is the share of all calls.
const millionths = 1_000_000

// hashOf returns the FNV-1a hash of an id, which is the same in every process.
func hashOf(id string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return h
}
