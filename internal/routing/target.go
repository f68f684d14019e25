package routing

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"sluice/internal/catalog"
	"sluice/internal/fault"
	"sluice/internal/provider"
)

// Provider is who serves targets.
type Provider struct {
	Name string
	// Keys are its adapters, one for each key; calls are spread over them.
	Keys []Key
	// MaxConcurrent bounds its calls under way; 0: nothing does.
	MaxConcurrent int
	// FirstContent is how long a reply may take to begin; 0: the default.
	FirstContent time.Duration
}

// Key is one key of a provider.
type Key struct {
	Adapter  provider.Adapter
	LastFour string // of the key; empty where there is none
}

// Target is one way to ask for a model: a key of a provider, and the model's name over there.
type Target struct {
	Provider string
	Upstream string
	LastFour string // of the key
	Adapter  provider.Adapter
	// FirstContent is how long a reply may take to begin; 0: the default.
	FirstContent time.Duration

	weight float64
	health *Health
	load   *load
	log    *slog.Logger
	header []string // x-sluice-provider
}

// load is what all targets of a provider have in common. It outlives reloads.
type load struct {
	most             atomic.Int64 // calls at once; 0: no bound
	running          atomic.Int64
	answered, failed atomic.Int64
}

// Tally is the calls at a provider: those under way, and since the start those that brought content
// and those that failed.
type Tally struct{ Running, Answered, Failed int64 }

// Standing is what is told of a target.
type Standing struct {
	Provider  string        `json:"provider"`
	Upstream  string        `json:"upstream"`
	Key       string        `json:"key,omitempty"` // its last four
	State     State         `json:"state"`
	ErrorRate float64       `json:"error_rate"`
	Latency   time.Duration `json:"latency_ns"` // to the first content, a moving average
}

// begin takes a place at the target, if it is well, or needed, and not full.
func (t *Target) begin(now time.Time, n need) (permit, bool) {
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

// Standing is what is known of the target.
func (t *Target) Standing(now time.Time) Standing {
	s := Standing{Provider: t.Provider, Upstream: t.Upstream, Key: t.LastFour}
	t.health.look(now, &s)
	return s
}

// Attempt is one call of a target, under way. It is ended once.
type Attempt struct {
	*Target
	Model  *catalog.Model
	header []string // x-sluice-model
	start  time.Time
	permit permit
	repeat bool // the same request has failed here before
}

// Answered notes that the first content came.
func (a *Attempt) Answered(now time.Time) {
	a.load.answered.Add(1)
	if a.health.answered(&a.permit, now.Sub(a.start)) {
		a.log.Info("an upstream is well again", "provider", a.Provider, "upstream", a.Upstream)
	}
}

// Ended notes how the call ended: io.EOF for a whole reply. A nil error says nothing of the target.
func (a *Attempt) Ended(now time.Time, err error) {
	a.load.running.Add(-1)
	how, after := judge(err)
	if how >= bad {
		a.load.failed.Add(1)
	}
	if how == bad && a.repeat {
		how = neither // it may be the request: one alone does not make a target ill
	}
	if a.health.end(a.permit, how, now, after) {
		a.log.Warn("an upstream is left alone for a while", "provider", a.Provider, "upstream", a.Upstream, "error", err.Error())
	}
}

// judge says what an error means to the target that gave it. What the caller is to blame for, or we,
// means nothing.
func judge(err error) (outcome, time.Duration) {
	switch {
	case fault.Is(err, fault.Unavailable) && !errors.Is(err, provider.ErrWanted):
	case errors.Is(err, io.EOF):
		return good, 0
	default:
		return neither, 0
	}
	r, ok := errors.AsType[*provider.Refusal](err)
	if !ok {
		return bad, 0
	}
	switch {
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusPaymentRequired:
		return denied, r.After
	case r.After > 0: // a 429 that does not say how long may be over the next moment
		return refused, r.After
	}
	return bad, 0
}
