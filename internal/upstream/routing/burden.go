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
	// mostRunning is the same for running calls, before calls of its conversations go elsewhere too. By chance alone a target
	// with n calls often has √n more, and each call that leaves costs the cache of its conversation, so that much is allowed
	// as well.
	mostRunning    = 1.25
	alwaysRunning  = 2
	placedHalfLife = 10 * time.Minute
)

// busy reports whether the target has more than its share of the calls that run at all targets of a model. This is the
// place that knows how loaded a target is.
func (t *Target) busy(total int64, share float64) bool {
	fair := share * float64(total)
	return float64(t.health.running.Load()) > mostRunning*fair+math.Sqrt(fair)+alwaysRunning
}

// burden is what the targets of a model have to carry that can be called.
type burden struct {
	weight  float64 // the sum of theirs
	running int64
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

// over reports whether a conversation goes past the target because that has more than its share already.
func (b *burden) over(t *Target, now time.Time) bool {
	share := t.weight / b.weight
	if t.busy(b.running, share) {
		return true
	}
	return b.placed >= 0 && t.placed.lately(now) > mostPlaced*share*(b.placed+1)
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

// running returns how many calls run at the targets.
func (rt *route) running() (sum int64) {
	for _, t := range rt.targets {
		sum += t.health.running.Load()
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
