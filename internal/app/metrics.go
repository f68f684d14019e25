package app

import (
	"context"
	"math"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
)

// openTraces makes the tracer if the configuration names a collector. It sends nothing before Run.
func (a *App) openTraces(_ context.Context, cfg *config.Config) error {
	if cfg.Traces.Endpoint == "" {
		return nil
	}
	headers, _ := cfg.Traces.HeaderMap() // config.Load has checked them
	var told time.Time                   // only the exporter's goroutine uses it
	a.tracer = telemetry.NewTracer(telemetry.TraceOptions{
		Endpoint: cfg.Traces.Endpoint, Headers: headers, Version: buildinfo.Version, Instance: a.nodeName(), Sampling: sampling(&cfg.Traces),
		Failed: func(err error, spans int) {
			if time.Since(told) >= time.Minute {
				told = time.Now()
				a.log.Warn("traces could not be sent; sluice_trace_spans_total counts what is lost", "spans", spans, "error", err.Error())
			}
		},
	})
	return nil
}

// sampling returns what a reload may change about traces.
func sampling(t *config.Traces) telemetry.Sampling {
	return telemetry.Sampling{Share: float64(t.Sample) / 1000, Follow: t.Follow == "all", Content: t.Capture == "content"}
}

// called returns what the metrics count of a settlement.
func called(s *usage.Settlement) telemetry.Call {
	operation := telemetry.OperationChat
	switch s.Door {
	case usage.DoorEmbeddings:
		operation = telemetry.OperationEmbeddings
	case usage.DoorVideos:
		operation = telemetry.OperationVideo
	}
	c := telemetry.Call{
		Model: s.ModelUsed, Provider: s.Provider, Operation: operation, Door: s.Entrance(), Outcome: string(s.End), Took: s.Latency, FirstToken: s.FirstToken,
		Input: s.Tokens.Prompt, Output: s.Tokens.CompletionTotal(),
	}
	if s.CostMicro != nil {
		c.CostMicro = *s.CostMicro
	}
	return c
}

// addMetrics adds the metrics that are not plain gauges.
func (a *App) addMetrics() {
	m := a.metrics
	m.Counters("sluice_rate_limited_total", "Requests that a limit of their account or key refused with 429, by the limit.", "limit", map[string]func() int64{
		"requests":   func() int64 { return a.gate.Refused(admission.Requests) },
		"tokens":     func() int64 { return a.gate.Refused(admission.Tokens) },
		"concurrent": func() int64 { return a.gate.Refused(admission.Slots) },
		"units":      func() int64 { return a.gate.Refused(admission.Units) },
	})
	m.Counter("sluice_refused_calls_dropped_total", "Refused calls that were not counted for their account, because too many waited for the database.", func() float64 {
		return float64(a.refusals.Dropped())
	})
	m.Counter("sluice_streams_resumed_total", "Streams that a later connection has continued.", func() float64 { return float64(a.streams.Resumed()) })
	m.Gauge("sluice_streams_waiting", "Streams that go on although their caller has left, because it may come back.", func() float64 { return float64(a.streams.Waiting()) })
	m.Gauge("sluice_streams_kept_bytes", "Bytes of events that are kept for callers who come back.", func() float64 { return float64(a.streams.Held()) })
	m.Gauge("sluice_config_hash", "A number that changes with the configuration in force: the same on nodes that have the same.", func() float64 {
		return float64(a.settings.Load().Config.Hash())
	})
	// What the database does not say in time is not a number, and not 0.
	m.Gauge("sluice_videos_waiting", "Video jobs of all nodes that wait for a worker.", func() float64 {
		n, _, err := a.videos.Queue(time.Now())
		return known(float64(n), err)
	})
	m.Gauge("sluice_videos_oldest_seconds", "How long the oldest of these jobs has waited.", func() float64 {
		_, age, err := a.videos.Queue(time.Now())
		return known(age.Seconds(), err)
	})
	m.Databases(a.facts.store.Pools())
	if t := a.tracer; t != nil {
		m.Counters("sluice_trace_spans_total", "Spans by what became of them: sent to the collector, or dropped because it did not take them in time.", "outcome", map[string]func() int64{
			"sent":    func() int64 { sent, _, _ := t.Counts(); return sent },
			"dropped": func() int64 { _, dropped, _ := t.Counts(); return dropped },
		})
		m.Gauge("sluice_trace_spans_waiting", "Spans that wait to be sent.", func() float64 { _, _, waiting := t.Counts(); return float64(waiting) })
	}
}

// known returns a value that was read without an error, and else NaN.
func known(v float64, err error) float64 {
	if err != nil {
		return math.NaN()
	}
	return v
}
