// Package telemetry is how Sluice tells its operator what it does: logs and metrics.
//
// A request has one Event, filled on its way and written once at its end. Neither logs nor metrics
// ever hold keys, prompts or answers, and the labels of a metric come from closed sets, so that no
// caller can make them grow.
package telemetry

import (
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes text for people or JSON for machines.
func NewLogger(w io.Writer, asJSON bool, level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
