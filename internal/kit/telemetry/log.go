// Package telemetry tells the operator what Sluice does: logs and metrics.
//
// A request has one Event, filled in on its way and written once at its end. Logs and metrics
// never contain keys, prompts or replies. The labels of a metric come from closed sets, so
// that no caller can make them grow.
package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// Lines of successful requests are held for at most holdFor, or until holdMost bytes have
	// accumulated.
	holdFor  = 200 * time.Millisecond
	holdMost = 32 << 10
)

// closePatience is how long the end of the process waits for a slow reader of its log.
const closePatience = 2 * time.Second

// Log is the log of a server. Whatever becomes of its reader, logging never waits; see Outlet.
type Log struct {
	*slog.Logger
	held   *holder
	out    *Outlet
	recent *recent
}

// OpenLog returns a log that writes to w: text for people or JSON for programs. Close ends it.
func OpenLog(w io.Writer, asJSON bool, level slog.Leveler) *Log {
	note := func(lines int64) []byte {
		var line bytes.Buffer
		slog.New(format(&line, asJSON, nil)).Warn("log lines were dropped: their reader was too slow, or could not be written to", "lines", lines)
		return line.Bytes()
	}
	l := &Log{out: NewOutlet(w, note), recent: &recent{}}
	l.held = &holder{to: l.out}
	l.Logger = slog.New(&handler{format(l.held, asJSON, level), l.held, format(l.recent, true, slog.LevelWarn), asJSON})
	return l
}

// Dropped returns how many lines nobody could read, and when the last of them was. A nil Log has
// none.
func (l *Log) Dropped() (lines int64, last time.Time) {
	if l == nil {
		return 0, time.Time{}
	}
	return l.out.Dropped()
}

// DroppedNote describes dropped lines for /readyz, or returns "" if there are none.
func (l *Log) DroppedNote() string {
	lines, last := l.Dropped()
	if lines == 0 {
		return ""
	}
	return fmt.Sprintf("%d log lines were dropped since the start, the last %s ago", lines, time.Since(last).Round(time.Second))
}

// Problems returns the last warnings and errors as lines of JSON, the oldest first. A nil Log has
// none.
func (l *Log) Problems() []string {
	if l == nil {
		return nil
	}
	return l.recent.lines()
}

// Close writes what is waiting. It gives up on a reader that takes more than two seconds.
func (l *Log) Close() {
	l.held.flush()
	l.out.Close(closePatience)
}

// format returns the handler that makes lines.
func format(w io.Writer, asJSON bool, level slog.Leveler) slog.Handler {
	opts := &slog.HandlerOptions{Level: level}
	if asJSON {
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// handler flushes the buffer after every line that is not about a successful request. Only
// request lines wait, because a write for each would cost as much as formatting it.
type handler struct {
	slog.Handler
	held *holder
	// problems gets warnings and errors a second time.
	problems slog.Handler
	// direct says that lines are JSON and have nothing in common, so that Event.Log may write them itself.
	direct bool
}

// Handle formats the record into the buffer, and flushes it unless the record is about a
// successful request.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		_ = h.problems.Handle(ctx, r) // it writes to memory
	}
	if r.Level > slog.LevelInfo || r.Message != requestMessage {
		h.held.flush()
	}
	return err
}

// WithAttrs and WithGroup keep the same buffer, so that lines stay in order.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{Handler: h.Handler.WithAttrs(attrs), held: h.held, problems: h.problems.WithAttrs(attrs)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{Handler: h.Handler.WithGroup(name), held: h.held, problems: h.problems.WithGroup(name)}
}

// holder buffers lines. It is an io.Writer for the slog handlers.
type holder struct {
	// mu guards the fields below and orders the writes.
	mu    sync.Mutex
	to    io.Writer
	lines []byte
	// timer flushes the buffer. It is nil until the first line.
	timer *time.Timer
}

// Write appends a line to the buffer.
func (h *holder) Write(line []byte) (int, error) {
	h.add(func(lines []byte) []byte { return append(lines, line...) })
	return len(line), nil
}

// add lets line append a line to the buffer. The first line starts the timer that flushes it.
func (h *holder) add(line func([]byte) []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	empty := len(h.lines) == 0
	h.lines = line(h.lines)
	switch {
	case len(h.lines) >= holdMost:
		h.writeLocked()
	case !empty || len(h.lines) == 0:
	case h.timer == nil:
		h.timer = time.AfterFunc(holdFor, h.flush)
	default:
		h.timer.Reset(holdFor)
	}
}

// flush writes the buffer now.
func (h *holder) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writeLocked()
}

// writeLocked writes the buffer. The caller holds mu.
func (h *holder) writeLocked() {
	if len(h.lines) > 0 {
		_, _ = h.to.Write(h.lines) // there is nowhere to report an error; an Outlet counts what is lost
		h.lines = h.lines[:0]
	}
}

// AddMetrics adds the metrics of the log, which may be nil.
func (l *Log) AddMetrics(m *Metrics) {
	m.Counter("sluice_log_lines_dropped_total", "Log lines that were dropped because their reader was too slow or gone.", func() int64 {
		lines, _ := l.Dropped()
		return lines
	})
}
