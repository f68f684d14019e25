// Package usage accounts for what calls consumed.
//
// Every call that reached an upstream ends in exactly one Settlement. What a caller may still use is
// not decided here; see admission.
package usage

import (
	"sync"
	"time"

	"sluice/internal/chat"
)

// End says how a call ended.
type End string

const (
	EndComplete End = "complete" // the caller got the whole reply
	EndHangUp   End = "hang_up"  // the caller left; what was produced counts
	EndCut      End = "cut"      // the reply failed after it had begun; what was produced counts
	EndFailed   End = "failed"   // nothing was produced
)

// Settlement is the record of one call.
type Settlement struct {
	ID        string // the request's id
	At        time.Time
	AccountID string
	KeyID     string
	Plan      string // held when the call was made

	ModelAsked string
	ModelUsed  string
	Provider   string
	Tier       string // of the model that answered

	Tokens       chat.Usage
	Counted      bool // by us: the upstream gave no figures
	RequestMilli int64
	UnitMilli    int64
	CostMicro    *int64 // micro-dollars; nil: the model has no price

	Status     int // what the caller saw; zero: nothing
	End        End
	Latency    time.Duration
	FirstToken time.Duration // zero: none came
}

// Recent keeps the newest settlements in memory.
type Recent struct {
	mu   sync.Mutex
	ring []Settlement
	next int
	all  int64
}

// NewRecent returns a Recent that keeps up to size settlements.
func NewRecent(size int) *Recent { return &Recent{ring: make([]Settlement, 0, size)} }

// Record adds a settlement, in place of the oldest where there is no more room.
func (r *Recent) Record(s Settlement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all++
	if len(r.ring) < cap(r.ring) {
		r.ring = append(r.ring, s)
		return
	}
	r.ring[r.next] = s
	r.next = (r.next + 1) % len(r.ring)
}

// Settlements returns those kept, oldest first, and how many there were in all.
func (r *Recent) Settlements() ([]Settlement, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Settlement, 0, len(r.ring))
	out = append(out, r.ring[r.next:]...)
	return append(out, r.ring[:r.next]...), r.all
}
