package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"testing"
	"time"
)

// A line that the event writes itself is the one that slog would write.
func TestLogDirect(t *testing.T) {
	t.Parallel()
	full := Event{
		RequestID: "req_1", CallID: "req_1", Method: "POST", Path: "/v1/chat/completions", Status: 200, Bytes: 1234, Remote: "192.0.2.1",
		AccountID: "acct_1", KeyID: "key_1", Model: "lab/one",
	}
	with := func(change func(*Event)) Event { e := full; change(&e); return e }
	for name, test := range map[string]struct {
		event  Event
		direct bool
	}{
		"usual": {full, true},
		"empty": {Event{}, true},
		"all fields": {with(func(e *Event) {
			e.CallID, e.TraceID, e.Final, e.Fault, e.Status = "c", "t", 499, "rate_limit_error", 429
		}), true},
		"negative":       {with(func(e *Event) { e.Status, e.Bytes = -1, -2 }), true},
		"odd characters": {with(func(e *Event) { e.Path = "/v1/~a<b>&c" }), true},
		"quotes":         {with(func(e *Event) { e.Path = `/v1/"a\b` }), false},
		"controls":       {with(func(e *Event) { e.Remote = "a\nb\x00" }), false},
		"no UTF-8":       {with(func(e *Event) { e.Model = "\xff" }), false},
		"umlauts":        {with(func(e *Event) { e.Model = "größe" }), false},
		"long path":      {with(func(e *Event) { e.Path = "/" + fmt.Sprint(make([]int, 300)) }), false},
		"an error":       {with(func(e *Event) { e.Err = errors.New("broken") }), false},
	} {
		for _, took := range []time.Duration{0, time.Microsecond, 1500 * time.Microsecond, time.Hour + 7*time.Microsecond, -time.Millisecond} {
			write := func(direct bool) (line string, done bool) {
				var out bytes.Buffer
				log, flush := NewLogger(&out, true, slog.LevelInfo)
				log.Handler().(*handler).direct = direct
				done = test.event.logDirect(log, took)
				if !done {
					test.event.Log(context.Background(), log, took)
				}
				flush()
				return regexp.MustCompile(`"time":"[^"]*"`).ReplaceAllString(out.String(), `"time":"now"`), done
			}
			want, _ := write(false)
			got, direct := write(true)
			if got != want || direct != test.direct {
				t.Errorf("%s after %v: direct %t, want %t:\n%swant\n%s", name, took, direct, test.direct, got, want)
			}
		}
	}
	// A logger with attributes of its own writes them.
	log, _ := NewLogger(io.Discard, true, slog.LevelInfo)
	if full.logDirect(log.With("a", 1), 0) || full.logDirect(log.WithGroup("g"), 0) {
		t.Error("a line was written without what its logger adds")
	}
	if text, _ := NewLogger(io.Discard, false, slog.LevelInfo); full.logDirect(text, 0) {
		t.Error("a log of text got a line of JSON")
	}
}
