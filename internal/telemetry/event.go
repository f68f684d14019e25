package telemetry

import (
	"context"
	"log/slog"
	"time"

	"sluice/internal/excerpt"
)

// Event is what is known of one request in the end. Each step fills its own fields.
type Event struct {
	RequestID string
	Start     time.Time
	Remote    string // the client's address, from a trusted proxy where one is configured
	Method    string
	Path      string
	Route     string // the pattern of the route; empty where none matched

	AccountID string
	KeyID     string
	Model     string // as asked for, once it is known to exist

	Status int
	Bytes  int64
	Fault  string // the type of the error object, where one was sent
	Err    error  // the cause behind it, for the log alone
}

// requestMessage is the message of every event.
const requestMessage = "request"

// Log writes the event. Faults of our own are errors, the rest is routine.
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
