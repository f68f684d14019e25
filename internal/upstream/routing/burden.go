package routing

import (
	"math"
	"sync"
	"time"
)

// The bound on load: affinity must not make one target do the work of all.
const (
	// mostPlaced is how many of the conversations that were placed lately a target may have, as a multiple of its share, before
	// new ones go past it. So it has at most one more than that.
	mostPlaced = 1.15
	// mostRunning is the same for the load, in running calls; see Target.pressure, before calls of its conversations go elsewhere too. By chance alone a target
	// with n calls often has √n more, and each call that leaves costs the cache of its conversation, so that much is allowed
	// as well.
	mostRunning    = 1.25
	alwaysRunning  = 2
	placedHalfLife = 10 * time.Minute
)

// busy reports whether the target has more than its share of the load of all targets of a model.
func (t *Target) busy(total, share float64) bool {
	fair := share * total
	return t.pressure() > mostRunning*fair+math.Sqrt(fair)+alwaysRunning
}

// burden is what the targets of a model have to carry that can be called.
type burden struct {
	weight  float64 // the sum of theirs
	running float64
	placed  float64 // negative: a conversation that must move goes where all nodes would send it
}

// burden returns the burden of the targets that are not out.
func (rt *route) burden(out []bool, s *seat, now time.Time) burden {
	b := burden{weight: rt.weightOf(out), running: s.running}
	if s.last != 0 {
		b.placed = -1
		return b
	}
	for i, t := range rt.targets {
		if !out[i] {
			b.placed += t.placed.lately(now)
		}
	}
	return b
}

// busy reports whether the target has more than its share of the load.
func (b *burden) busy(t *Target) bool { return t.busy(b.running, t.weight/b.weight) }

// over reports whether the target has more than its share of the conversations that were placed lately.
func (b *burden) over(t *Target, now time.Time) bool {
	return b.placed >= 0 && t.placed.lately(now) > mostPlaced*t.weight/b.weight*(b.placed+1)
}

// weightOf returns the sum of the weights of the targets that are not out.
func (rt *route) weightOf(out []bool) (sum float64) {
	for i, t := range rt.targets {
		if !out[i] {
			sum += t.weight
		}
	}
	return sum
}

// running returns the load of all targets.
func (rt *route) running() (sum float64) {
	for _, t := range rt.targets {
		sum += t.pressure()
	}
	return sum
}

// placed counts the conversations that this node has placed at a target for a model; older ones count less. It outlives
// reloads.
type placed struct {
	mu sync.Mutex // guards all fields
	n  float64    // at the time at
	at time.Time
}

// lately returns the count.
func (p *placed) lately(now time.Time) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decayed(now)
}

func (p *placed) decayed(now time.Time) float64 {
	if p.n == 0 {
		return 0
	}
	return p.n * math.Exp2(-max(0, now.Sub(p.at).Seconds())/placedHalfLife.Seconds())
}

// add counts one more.
func (p *placed) add(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.at = p.decayed(now)+1, now
}
