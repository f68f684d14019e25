package telemetry

import "net/http"

// SetMostModels replaces mostModels.
func (m *Metrics) SetMostModels(n int) { m.calls.models.most = n }

// SetTransport replaces the connection to the collector.
func (t *Tracer) SetTransport(to http.RoundTripper) { t.exporter.client.Transport = to }
