package telemetry_test

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"sluice/internal/kit/telemetry"
)

// BenchmarkEventLog is the cost of one request's line. It is on the way of every request.
func BenchmarkEventLog(b *testing.B) {
	log, flush := telemetry.NewLogger(io.Discard, true, slog.LevelInfo)
	defer flush()
	benchmarkEvents(b, log)
}

func benchmarkEvents(b *testing.B, log *slog.Logger) {
	e := &telemetry.Event{
		RequestID: "0123456789abcdef0123456789abcdef", Method: "POST", Path: "/v1/chat/completions", Route: "/v1/chat/completions",
		Status: 200, Bytes: 1234, Remote: "192.0.2.1", AccountID: "acct_0123456789abcdef", KeyID: "key_0123456789abcdef", Model: "sandbox/small",
	}
	b.ReportAllocs()
	for b.Loop() {
		e.Log(b.Context(), log, 1500*time.Microsecond)
	}
}
