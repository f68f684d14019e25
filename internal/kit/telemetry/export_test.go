package telemetry

import (
	"io"
	"log/slog"
	"net/http"
)

// NewLogger returns a logger that writes at once, and waits for w. Lines of successful requests are
// buffered for a moment and written together. flush writes them now.
func NewLogger(w io.Writer, asJSON bool, level slog.Leveler) (log *slog.Logger, flush func()) {
	held := &holder{to: w}
	return slog.New(&handler{format(held, asJSON, level), held, slog.DiscardHandler, asJSON}), held.flush
}

// SetMostModels replaces mostModels.
func (m *Metrics) SetMostModels(n int) { m.calls.models.most = n }

// SetTransport replaces the connection to the collector.
func (t *Tracer) SetTransport(to http.RoundTripper) { t.exporter.client.Transport = to }
