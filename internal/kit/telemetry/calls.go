package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
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

// complete is the outcome of a call whose caller got all of the reply.
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
	CostNano      int64 // billionths of a dollar
	Unpriced      bool  // it used something whose price is not known
	// CacheRead and CacheWritten are tokens of the prompt, and Cacheable those that a cache could have held.
	CacheRead, CacheWritten, Cacheable int64
	SavedNano                          int64 // what caches have saved, in billionths of a dollar; below zero: lost
	Tags                               []string
}

// Buckets that the GenAI conventions recommend, except that the durations go up to 10 minutes.
var (
	durationBuckets   = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 600}
	firstTokenBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30}
	tokenBuckets      = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304}
)

// calls holds the metrics of models. A call finds its series with one lookup in a map: resolving labels
// costs several times more, and happens once for each model and provider.
type calls struct {
	total      *prometheus.CounterVec
	cost       *prometheus.CounterVec
	unpriced   *prometheus.CounterVec
	caches     *prometheus.CounterVec
	saved      *prometheus.CounterVec
	lost       *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	firstToken *prometheus.HistogramVec
	tokens     *prometheus.HistogramVec

	models *cache[modelKey, *modelSeries]
	doors  *cache[string, prometheus.Counter]
}

// modelKey identifies the series of a model at a provider.
type modelKey struct{ model, provider, operation string }

// modelSeries holds the resolved series of one modelKey.
type modelSeries struct {
	key           modelKey
	total         map[string]prometheus.Counter // by outcome
	complete      prometheus.Observer           // the duration of complete calls
	firstToken    prometheus.Observer
	input, output prometheus.Observer
	cost          prometheus.Counter
	unpriced      prometheus.Counter
	// Of caches: tokens, and dollars.
	read, written, cacheable, saved, lost prometheus.Counter
}

// newCalls registers the metrics of models. The names with gen_ai are those of the OpenTelemetry
// conventions.
func newCalls(to promauto.Factory) *calls {
	const operation, provider, model = "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"
	c := &calls{
		total: to.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_calls_total",
			Help: "Admitted calls that have ended, by the model that answered, its provider and the outcome. A stream that broke off is cut, not complete.",
		}, []string{"model", "provider", "outcome"}),
		cost: to.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_cost_usd_total", Help: "What calls have cost by the prices of the catalog, in dollars.",
		}, []string{"model", "provider"}),
		unpriced: to.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_unpriced_calls_total", Help: "Calls that used something whose price is not known. They are in no cost.",
		}, []string{"model", "provider"}),
		caches: to.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_cache_tokens_total", Help: "Tokens of prompts: read from caches, written to caches, and cacheable, which are all those of models with a cache.",
		}, []string{"model", "provider", "kind"}),
		saved: to.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_cache_saved_usd_total", Help: "What calls would have cost without caches, beyond their cost, in dollars; of calls for which that is more.",
		}, []string{"model", "provider"}),
		lost: to.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_cache_lost_usd_total", Help: "What calls have cost beyond their cost without caches, in dollars: writing to a cache may cost more than a plain token.",
		}, []string{"model", "provider"}),
		duration: to.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gen_ai_client_operation_duration_seconds",
			Help:    "Time from the arrival of a call to its end. The error type is empty for complete calls, or else the outcome.",
			Buckets: durationBuckets,
		}, []string{operation, provider, model, "error_type"}),
		firstToken: to.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gen_ai_server_time_to_first_token_seconds", Help: "Time from the arrival of a call to its first content.", Buckets: firstTokenBuckets,
		}, []string{operation, provider, model}),
		tokens: to.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gen_ai_client_token_usage", Help: "Tokens of a call, by type: input or output. Output includes reasoning.", Buckets: tokenBuckets,
		}, []string{operation, provider, model, "gen_ai_token_type"}),
	}
	c.models = newCache(mostModels, modelKey{"other", "other", "other"}, c.resolve)
	doors := to.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_door_calls_total", Help: "Admitted calls that have ended, by the door that they came in by.",
	}, []string{"door"})
	c.doors = newCache(mostDoors, "other", func(door string) prometheus.Counter { return doors.WithLabelValues(door) })
	return c
}

// Called counts a call that has ended.
func (m *Metrics) Called(c Call) {
	if !m.off {
		m.calls.called(&c)
		m.tags.called(&c)
	}
}

// called is Called for metrics that are switched on. Failed calls resolve their labels each time:
// they are rare.
func (m *calls) called(c *Call) {
	m.doors.of(c.Door).Inc()
	s := m.models.of(modelKey{c.Model, c.Provider, c.Operation})
	if n, ok := s.total[c.Outcome]; ok {
		n.Inc()
	} else {
		m.total.WithLabelValues(s.key.model, s.key.provider, c.Outcome).Inc()
	}
	if c.Outcome == complete {
		s.complete.Observe(c.Took.Seconds())
	} else {
		m.duration.WithLabelValues(s.key.operation, s.key.provider, s.key.model, c.Outcome).Observe(c.Took.Seconds())
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
	if c.CostNano > 0 {
		s.cost.Add(float64(c.CostNano) / 1e9)
	}
	if c.Unpriced {
		s.unpriced.Inc()
	}
	if c.Cacheable > 0 {
		s.read.Add(float64(c.CacheRead))
		s.written.Add(float64(c.CacheWritten))
		s.cacheable.Add(float64(c.Cacheable))
		s.saved.Add(float64(max(0, c.SavedNano)) / 1e9)
		s.lost.Add(float64(max(0, -c.SavedNano)) / 1e9)
	}
}

// resolve makes the series of a model, for its first call.
func (m *calls) resolve(k modelKey) *modelSeries {
	k.model, k.provider = valid(k.model), valid(k.provider) // other text is no label
	s := &modelSeries{
		key: k, total: map[string]prometheus.Counter{},
		complete:   m.duration.WithLabelValues(k.operation, k.provider, k.model, ""),
		firstToken: m.firstToken.WithLabelValues(k.operation, k.provider, k.model),
		input:      m.tokens.WithLabelValues(k.operation, k.provider, k.model, "input"),
		output:     m.tokens.WithLabelValues(k.operation, k.provider, k.model, "output"),
		cost:       m.cost.WithLabelValues(k.model, k.provider),
		unpriced:   m.unpriced.WithLabelValues(k.model, k.provider),
		read:       m.caches.WithLabelValues(k.model, k.provider, "read"),
		written:    m.caches.WithLabelValues(k.model, k.provider, "written"),
		cacheable:  m.caches.WithLabelValues(k.model, k.provider, "cacheable"),
		saved:      m.saved.WithLabelValues(k.model, k.provider),
		lost:       m.lost.WithLabelValues(k.model, k.provider),
	}
	for _, o := range outcomes {
		s.total[o] = m.total.WithLabelValues(k.model, k.provider, o)
	}
	return s
}

// cache maps labels to resolved series, up to most of them. Further labels share the series of rest. Reading
// takes no lock: the map is replaced as a whole when an entry is added, which ends when all are known.
type cache[K comparable, V any] struct {
	most int
	rest K
	make func(K) V

	now atomic.Pointer[map[K]V]
	mu  sync.Mutex // held while an entry is added
}

// newCache returns an empty cache.
func newCache[K comparable, V any](most int, rest K, make func(K) V) *cache[K, V] {
	c := &cache[K, V]{most: most, rest: rest, make: make}
	c.now.Store(&map[K]V{})
	return c
}

// of returns the entry of k, or that of rest if there is no room for k.
func (c *cache[K, V]) of(k K) V {
	if v, ok := c.find(k); ok {
		return v
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.find(k); ok {
		return v // another goroutine was faster
	}
	next := maps.Clone(*c.now.Load())
	if len(next) >= c.most {
		k = c.rest
	}
	next[k] = c.make(k)
	c.now.Store(&next)
	return next[k]
}

// find looks k up without a lock. In a full cache it finds the series of rest for every key that
// is not there.
func (c *cache[K, V]) find(k K) (v V, ok bool) {
	m := *c.now.Load()
	if v, ok = m[k]; !ok && len(m) >= c.most {
		v, ok = m[c.rest]
	}
	return v, ok
}
