package telemetry

import (
	"context"
	"log/slog"
	"time"

	"sluice/internal/excerpt"
)

// Event collects what is known about one request. Each step of the chain fills in its own
// fields, and the event is logged once at the end. One goroutine uses it at a time.
type Event struct {
	RequestID string
	Start     time.Time
	// Remote is the client's address, as told by a trusted proxy if one is configured.
	Remote string
	Method string
	Path   string
	// Route is the pattern of the route, or "" if none matched.
	Route string

	AccountID string
	KeyID     string
	// Model is the requested model, if it exists.
	Model string

	Status int
	Bytes  int64
	// Fault is the type of the error object, if one was sent.
	Fault string
	// Err is the cause of the fault. It is logged but never sent.
	Err error
}

// requestMessage is the log message of every event. The log handler recognises requests by it.
const requestMessage = "request"

// Log writes the event. Status 5xx is logged as an error, everything else as info: a refused
// request is routine.
func (e *Event) Log(ctx context.Context, log *slog.Logger, took time.Duration) {
	level := slog.LevelInfo
	if e.Status >= 500 {
		level = slog.LevelError
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 14)
	attrs = append(attrs,
		slog.String("request_id", e.RequestID), slog.String("method", e.Method), slog.String("path", excerpt.Of(e.Path, 200)),
		slog.Int("status", e.Status), slog.Float64("took_ms", float64(took.Microseconds())/1000), slog.Int64("bytes", e.Bytes),
		slog.String("remote", e.Remote))
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("account", e.AccountID)
	add("key", e.KeyID)
	add("model", e.Model)
	add("fault", e.Fault)
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	log.LogAttrs(ctx, level, requestMessage, attrs...)
}
