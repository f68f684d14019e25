package app

import (
	"context"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/telemetry"
)

// openTraces makes the tracer if the configuration names a collector. It sends nothing before Run.
func (a *App) openTraces(_ context.Context, cfg *config.Config) error {
	if cfg.Traces.Endpoint == "" {
		return nil
	}
	headers, _ := cfg.Traces.HeaderMap() // config.Load has checked them
	a.tracer = telemetry.NewTracer(telemetry.TraceOptions{
		Endpoint: cfg.Traces.Endpoint, Headers: headers, Version: buildinfo.Version(), Instance: a.nodeName(), Sampling: a.settings.Load().Sampling(),
		Failed: telemetry.LogLost(a.log),
	})
	return nil
}

// addMetrics adds the metrics that are read when somebody asks for them. It runs after everything that they read is
// there.
func (a *App) addMetrics(_ context.Context, cfg *config.Config) error {
	m := a.metrics
	m.Tags(cfg.MetricsTags)
	parts := []interface{ AddMetrics(m *telemetry.Metrics) }{
		a.books, a.facts.dir, a.gate, a.refusals, a.streams, a.videos, a.alerts.courier, a.opts.Output, a.tracer,
	}
	if a.follower != nil {
		parts = append(parts, a.follower)
	}
	if a.redis != nil {
		parts = append(parts, a.redis)
	}
	for _, p := range parts {
		p.AddMetrics(m)
	}
	telemetry.Gauge(m, "sluice_accounts", "Accounts known to this process.", a.facts.index.Accounts)
	telemetry.Gauge(m, "sluice_calls_running", "Model calls under way now.", a.ledger.Running)
	telemetry.Gauge(m, "sluice_billing_stopped", "Accounts whose billing is stopped until staff has looked at them.", a.billing.StopCount)
	telemetry.Gauge(m, "sluice_streams_open", "Streamed replies under way now.", a.line.Streams)
	telemetry.Gauge(m, "sluice_request_bodies_bytes", "Bytes of request bodies held now.", a.api.BodiesInFlight)
	telemetry.Gauge(m, "sluice_certificate_expires_timestamp_seconds", "When the certificate in tls.cert expires, as Unix time; 0 without one.", a.certificateEnds)
	telemetry.Gauge(m, "sluice_config_waiting", "Changed settings that wait for a restart.", func() int { return len(a.onDisk.Waiting()) })
	telemetry.Gauge(m, "sluice_config_hash", "A number that changes with the configuration in force: the same on nodes that have the same.", func() float64 {
		return float64(a.settings.Load().Config.Hash())
	})
	a.addHealth(m)
	m.Databases(a.facts.store.Pools())
	m.Upstreams(func() []telemetry.Upstream { return a.settings.Load().Routes.Gauges(time.Now()) })
	return nil
}

// addHealth adds the metrics of what the board knows. Reading them looks at nothing.
func (a *App) addHealth(m *telemetry.Metrics) {
	telemetry.Gauge(m, "sluice_ready", "1 if /readyz says that new work may be sent here.", func() int64 {
		_, ready := a.health.Results()
		return telemetry.Bit(ready)
	})
	telemetry.Gauge(m, "sluice_database_writable", "1 if the database stores what it is given, as far as is known; 0 while it is read-only, full or does not answer.", func() int64 {
		return telemetry.Bit(a.facts.store.Writable())
	})
	for name, help := range map[string]string{
		"database": "Seconds since the database answered; 0 while it does.",
		"redis":    "Seconds since limits were counted in Redis; 0 while they are, and without Redis.",
		"mail":     "Seconds since mail could be delivered; 0 while it can.",
		"storage":  "Seconds since files could be stored; 0 while they can.",
		"scores":   "Seconds since the units of other nodes were read.",
	} {
		telemetry.Gauge(m, "sluice_"+name+"_age_seconds", help, func() int64 { return int64(a.health.Age(name).Seconds()) })
	}
}
