package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/metrics"
)

// mostModels is the number of pairs of a model and a provider that have series of their own. Both come
// from the catalog, which callers cannot change; the bound is for catalogs that providers list. Calls of
// further pairs are counted together as "other".
const mostModels = 1000

// mostDoors is the number of doors that have a series of their own, well above what there is.
const mostDoors = 16

// Operations of models, as the GenAI conventions name them.
const (
	OperationChat       = "chat"
	OperationEmbeddings = "embeddings"
	OperationVideo      = "generate_content"
)

// Outcomes are the labels of how a call can end. Every model has a counter for each from its first call
// on, because a rate needs a zero to begin with.
var outcomes = []string{complete, "cut", "hang_up", "failed"}

const complete = "complete"

// Call is what became of a call of a model that was admitted.
type Call struct {
	// Model and Provider must come from the catalog: they become labels.
	Model, Provider string
	Operation       string // OperationChat, OperationEmbeddings or OperationVideo
	// Door is where the call came in; a closed set, since it becomes a label.
	Door string
	// Outcome must come from a closed set, too. "complete" is the only one that is not an error.
	Outcome string
	Took    time.Duration
	// FirstToken is the time to the first content; 0: there was none.
	FirstToken    time.Duration
	Input, Output int   // tokens
	CostMicro     int64 // millionths of a dollar
}

// Buckets that the GenAI conventions recommend, except that the durations go on to 10 minutes.
var (
	durationBuckets   = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 600}
	firstTokenBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30}
	tokenBuckets      = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304}
)

// calls holds the metrics of models. A call finds its series with one lookup in a map: resolving labels
// costs several times more, and happens once for each model and provider.
type calls struct {
	total      metrics.Counters
	doors      metrics.Counters
	cost       metrics.Counters
	duration   metrics.Histograms
	firstToken metrics.Histograms
	tokens     metrics.Histograms

	series cache[modelKey, *modelSeries]
	byDoor cache[string, *metrics.Count]
}

// modelKey identifies the series of a model at a provider.
type modelKey struct{ model, provider, operation string }

// modelSeries holds the resolved series of one modelKey.
type modelSeries struct {
	key           modelKey
	total         map[string]*metrics.Count // by outcome
	complete      *metrics.Distribution     // the duration of complete calls
	firstToken    *metrics.Distribution
	input, output *metrics.Distribution
	cost          *metrics.Count
}

func newCalls(r *metrics.Registry) *calls {
	const operation, provider, model = "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"
	c := &calls{
		total: r.Counters("sluice_calls_total",
			"Admitted calls that have ended, by the model that answered, its provider and the outcome. A stream that broke off is cut, not complete.",
			"model", "provider", "outcome"),
		doors: r.Counters("sluice_door_calls_total", "Admitted calls that have ended, by the door that they came in by.", "door"),
		cost:  r.Counters("sluice_cost_usd_total", "What calls have cost by the prices of the catalog, in dollars.", "model", "provider"),
		duration: r.Histograms("gen_ai_client_operation_duration_seconds",
			"Time from the arrival of a call to its end. The error type is empty for complete calls, or else the outcome.", durationBuckets,
			operation, provider, model, "error_type"),
		firstToken: r.Histograms("gen_ai_server_time_to_first_token_seconds", "Time from the arrival of a call to its first content.", firstTokenBuckets,
			operation, provider, model),
		tokens: r.Histograms("gen_ai_client_token_usage", "Tokens of a call, by type: input or output. Output includes reasoning.", tokenBuckets,
			operation, provider, model, "gen_ai_token_type"),
	}
	c.series.most, c.series.rest = mostModels, modelKey{"other", "other", "other"}
	c.byDoor.most, c.byDoor.rest = mostDoors, "other"
	return c
}

// Called counts a call that has ended.
func (m *Metrics) Called(c Call) {
	if !m.off {
		m.calls.called(&c)
	}
}

func (m *calls) called(c *Call) {
	door, ok := m.byDoor.find(c.Door)
	if !ok {
		door = m.byDoor.add(c.Door, func(name string) *metrics.Count { return m.doors.With(name) })
	}
	door.Inc()
	s := m.of(modelKey{c.Model, c.Provider, c.Operation})
	if n, ok := s.total[c.Outcome]; ok {
		n.Inc()
	} else {
		m.total.With(s.key.model, s.key.provider, c.Outcome).Inc()
	}
	if c.Outcome == complete {
		s.complete.Observe(c.Took.Seconds())
	} else {
		m.duration.With(s.key.operation, s.key.provider, s.key.model, c.Outcome).Observe(c.Took.Seconds())
	}
	if c.FirstToken > 0 {
		s.firstToken.Observe(c.FirstToken.Seconds())
	}
	if c.Input > 0 {
		s.input.Observe(float64(c.Input))
	}
	if c.Output > 0 {
		s.output.Observe(float64(c.Output))
	}
	if c.CostMicro > 0 {
		s.cost.Add(float64(c.CostMicro) / 1e6)
	}
}

// of returns the series of a model, and makes them for its first call.
func (m *calls) of(k modelKey) *modelSeries {
	if s, ok := m.series.find(k); ok {
		return s
	}
	return m.series.add(k, func(k modelKey) *modelSeries {
		s := &modelSeries{
			key: k, total: map[string]*metrics.Count{},
			complete:   m.duration.With(k.operation, k.provider, k.model, ""),
			firstToken: m.firstToken.With(k.operation, k.provider, k.model),
			input:      m.tokens.With(k.operation, k.provider, k.model, "input"),
			output:     m.tokens.With(k.operation, k.provider, k.model, "output"),
			cost:       m.cost.With(k.model, k.provider),
		}
		for _, o := range outcomes {
			s.total[o] = m.total.With(k.model, k.provider, o)
		}
		return s
	})
}

// cache maps labels to resolved series, up to most of them. Further labels share the series of rest. Reading
// takes no lock: the map is replaced as a whole when an entry is added, which ends when all are known.
type cache[K comparable, V any] struct {
	most int
	rest K

	now atomic.Pointer[map[K]V] // nil: empty
	mu  sync.Mutex              // held while an entry is added
}

// find returns the entry of k, or that of rest if there is no room for k.
func (c *cache[K, V]) find(k K) (v V, ok bool) {
	m := c.now.Load()
	if m == nil {
		return v, false
	}
	if v, ok = (*m)[k]; !ok && len(*m) >= c.most {
		v, ok = (*m)[c.rest]
	}
	return v, ok
}

// add returns the entry of k, which find did not find. It makes one, or that of rest if there is no room.
func (c *cache[K, V]) add(k K, make func(K) V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.find(k); ok {
		return v // another goroutine was faster
	}
	next := map[K]V{}
	if m := c.now.Load(); m != nil {
		maps.Copy(next, *m)
	}
	if len(next) >= c.most {
		k = c.rest
	}
	next[k] = make(k)
	c.now.Store(&next)
	return next[k]
}
