package routing

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"sluice/internal/prompt/allowance"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// Provider describes a provider to New.
type Provider struct {
	Name string
	// Keys has one adapter for each key. Calls are spread over them.
	Keys []Key
	// MaxConcurrent is the number of calls that may run at the same time, over all keys; 0: no bound.
	MaxConcurrent int
	// Allow has the names of what the operator allows callers to choose; see package allowance.
	Allow []string
	// FirstContent is how long a reply may take to begin; 0: the default of package inference.
	FirstContent time.Duration
	// SelfHosted says that it is a server of the operator's own, which keeps prompts in a cache for nothing.
	SelfHosted bool
}

// Key is one key of a provider.
type Key struct {
	Adapter  provider.Adapter
	LastFour string // of the key; empty where there is none
	// Replica is the host and port of the server, where the provider has several; empty otherwise.
	Replica string
}

// Target is one way to call a model: a key of a provider, and the provider's name for the model. Only
// health and load change after New.
type Target struct {
	Provider string
	Upstream string // the model's name at the provider
	LastFour string // of the key, for people; empty if the provider needs none
	Replica  string // host and port of the server, where the provider has several; empty otherwise
	Adapter  provider.Adapter
	// Allow is what callers may choose here, by the provider or by the model; nil: nothing.
	Allow *allowance.Set
	// FirstContent is how long a reply may take to begin; 0: the default of package inference.
	FirstContent time.Duration

	weight float64 // share of the calls, or of the conversations; 0: a spare
	health *Health // shared with other models at the same place
	placed *placed // of the model's conversations
	name   uint64  // a hash of what people call it, the same on all nodes and after a reload
	id     uint32  // a shorter one; never 0

	selfHosted bool
	load       *load   // shared by all targets of the provider
	server     *server // shared by all targets at the same replica
	log        *slog.Logger
	header     []string // the value of x-sluice-provider, made once
	// drained reports whether the operator wants no new calls here; see Options.
	drained Drained
}

// load counts the calls of all targets of a provider. It outlives reloads.
type load struct {
	most             atomic.Int64 // calls that may run at the same time; 0: no bound
	running          atomic.Int64
	answered, failed atomic.Int64 // since the start of the process
	usual            atomic.Int64 // tokens of a call, a moving average; 0 before the first
}

// Tally counts the calls at a provider: those that are running, and since the start of the process those
// that brought content and those that failed. A call may be in both.
type Tally struct{ Running, Answered, Failed int64 }

// TargetHealth is the health of a target, as the operator sees it.
type TargetHealth struct {
	Provider  string        `json:"provider"`
	Upstream  string        `json:"upstream"`
	Key       string        `json:"key,omitempty"`     // its last four
	Replica   string        `json:"replica,omitempty"` // host and port of the server, where the provider has several
	State     State         `json:"state"`
	ErrorRate float64       `json:"error_rate"`
	Latency   time.Duration `json:"latency_ns"` // to the first content, a moving average
	Drained   bool          `json:"drained,omitempty"`
	// Down is what people are told: by what calls and connection attempts came to lately, the target does not work.
	Down bool `json:"down,omitempty"`
	// Running are the calls under way. The others are sums since the start of the process: calls that brought content,
	// those that failed, and how long the former took to begin.
	Running  int64         `json:"running"`
	Answered int64         `json:"answered"`
	Failed   int64         `json:"failed"`
	Waited   time.Duration `json:"waited_ns"`
	// Server is what the replica says of itself; nil if it says nothing, or nothing lately.
	Server *Figures `json:"server,omitempty"`
}

// Callable reports whether a new call may go to the target now. It changes within seconds while a target fails.
func (s *TargetHealth) Callable() bool { return s.State != Open && !s.Drained }

// Healthy reports whether the target serves calls, as people are told: on the status page, in the catalog, in the
// console and in alerts (docs/providers/routing.md#down).
func (s *TargetHealth) Healthy() bool { return !s.Down && !s.Drained }

// isDrained reports whether the operator wants no new calls here. It is asked before each attempt, so that a request
// that has already begun does not come here either.
func (t *Target) isDrained() bool {
	return t.drained != nil && t.drained(t.Provider, t.Upstream, t.LastFour, t.Replica)
}

// begin takes a place at the target. It reports false if the target is drained, if the provider is full, or if the
// breaker does not let the call through.
func (t *Target) begin(now time.Time, n need) (permit, bool) {
	if t.isDrained() {
		return permit{}, false
	}
	// The place is taken before the check: two calls that check first could both get the last one.
	if n, most := t.load.running.Add(1), t.load.most.Load(); most > 0 && n > most {
		t.load.running.Add(-1)
		return permit{}, false
	}
	p, ok := t.health.begin(now, n)
	if !ok {
		t.load.running.Add(-1)
	}
	return p, ok
}

// hindrance returns why the target does not let a call in; present: it may.
func (t *Target) hindrance() absence {
	if t.isDrained() {
		return drainedNow
	}
	if why := t.health.hindrance(); why != present {
		return why
	}
	if most := t.load.most.Load(); most > 0 && t.load.running.Load() >= most {
		return noPlace
	}
	return present
}

// TargetHealth returns the health of the target.
func (t *Target) Health(now time.Time) TargetHealth {
	s := TargetHealth{Provider: t.Provider, Upstream: t.Upstream, Key: t.LastFour, Replica: t.Replica, Drained: t.isDrained(), Server: t.server.figures.Load()}
	t.health.look(now, &s)
	return s
}

// Attempt is one call of a target that is running. Ended must be called exactly once, or the provider's
// count of running calls never goes down.
type Attempt struct {
	*Target
	Model  *catalog.Model // the model of the target, which may be a stand-in
	header []string       // the value of x-sluice-model
	ends   *ending        // the headers of a model that ends; nil if it does not
	start  time.Time
	permit permit
	tokens int64 // that it counts at the server
	repeat bool  // the same request has failed at this target before

	conversation uint64 // that stays with targets of the model; 0: none does
	follows      bool   // the request contains an earlier answer
	strays       bool   // the target is not the conversation's favourite
}

// Answered records that the first content came, which closes an open breaker.
func (a *Attempt) Answered(now time.Time) {
	a.load.answered.Add(1)
	if a.health.answered(&a.permit, now, now.Sub(a.start)) {
		a.log.Info("an upstream is healthy again", "provider", a.Provider, "upstream", a.Upstream, a.at())
	}
}

// Ended records how the call ended. The error is io.EOF for a complete reply; nil means that the end says
// nothing about the target, for example because the caller hung up. Now may be zero unless the call failed.
func (a *Attempt) Ended(now time.Time, err error) {
	a.load.running.Add(-1)
	a.server.end(a.tokens)
	how, after := judge(err)
	if how >= unreached {
		a.load.failed.Add(1)
	}
	if (how == bad || how == unreached) && a.repeat {
		how = neither // the request may be the cause: one request alone must not open a breaker
	}
	if a.health.end(a.permit, how, now, after) {
		a.log.Warn("an upstream is paused for a while", "provider", a.Provider, "upstream", a.Upstream, a.at(), "error", err.Error())
	}
}

// judge returns what an error means for the health of its target, and how long the upstream asked us to
// wait. Errors caused by the caller or by us mean nothing.
func judge(err error) (outcome, time.Duration) {
	switch {
	case provider.Counts(err):
	case errors.Is(err, io.EOF):
		return good, 0
	default:
		return neither, 0
	}
	r, ok := errors.AsType[*provider.Refusal](err)
	if !ok { // cut off, too late, or not even reached
		if provider.WasUnreachable(err) {
			return unreached, 0
		}
		return bad, 0
	}
	switch {
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusPaymentRequired:
		return denied, r.After
	case r.After > 0: // a 429 without a time may be over in a moment, so it counts as an ordinary failure
		return refused, r.After
	}
	return bad, 0
}
