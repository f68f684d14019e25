package usage

// spreadSize is the number of classes of a Spread.
const spreadSize = 12

// spreadEnds are the longest durations of the classes of a Spread, in milliseconds; the last class has no end. The
// migration that created the table of activity has the same numbers.
var spreadEnds = [spreadSize - 1]int64{50, 100, 200, 350, 600, 1000, 1700, 3000, 5000, 10_000, 30_000}

// spreadMost is where the last class ends if a percentile falls into it, in milliseconds.
const spreadMost = 120_000

// Spread counts durations by their length, in a few classes. Percentiles of any number of calls can be told from it,
// and spreads of several spans of time can be added up.
type Spread [spreadSize]int64

// Add counts a duration, in milliseconds.
func (s *Spread) Add(ms int64) {
	for i, end := range spreadEnds {
		if ms <= end {
			s[i]++
			return
		}
	}
	s[spreadSize-1]++
}

// Merge adds another spread.
func (s *Spread) Merge(o *Spread) {
	for i := range s {
		s[i] += o[i]
	}
}

// Calls returns how many durations were counted.
func (s *Spread) Calls() (n int64) {
	for _, c := range s {
		n += c
	}
	return n
}

// Percentile returns the duration that p of 100 calls do not exceed, in milliseconds, as if the calls of a class were
// spread evenly. It returns false if there are none.
func (s *Spread) Percentile(p int64) (ms int64, ok bool) {
	all := s.Calls()
	if all == 0 {
		return 0, false
	}
	rank := (all*p + 99) / 100 // from 1
	from := int64(0)
	for i, n := range s {
		end := int64(spreadMost)
		if i < len(spreadEnds) {
			end = spreadEnds[i]
		}
		if rank <= n {
			return from + (end-from)*rank/n, true
		}
		rank -= n
		from = end
	}
	return from, true // not reached: the ranks of all calls are within the classes
}

// SpreadColumns is how many integers a Spread takes in the database.
const SpreadColumns = spreadSize / 2

// halfBits is the width of one count of two in an integer. A slot would need two thousand million calls to exceed it.
const halfBits = 32

// Packed returns the counts, two in each integer. Packed spreads can be added up like numbers.
func (s *Spread) Packed() (out [SpreadColumns]int64) {
	for i := range out {
		out[i] = s[2*i] | s[2*i+1]<<halfBits
	}
	return out
}

// Unpack sets the counts from what Packed returned.
func (s *Spread) Unpack(in [SpreadColumns]int64) {
	for i, v := range in {
		s[2*i], s[2*i+1] = v&(1<<halfBits-1), v>>halfBits
	}
}
