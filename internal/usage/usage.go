// Package usage accounts for what calls consumed.
//
// Every call that reached an upstream ends in exactly one Settlement. What a caller may still use is
// not decided here; see admission.
package usage

import (
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

	MCPCalls  int // of remote tools, on the way to the reply
	MCPFailed int // of those, without a result or with one that is an error

	Status     int // what the caller saw; zero: nothing
	End        End
	Latency    time.Duration
	FirstToken time.Duration // zero: none came
}
