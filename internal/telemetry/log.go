// Package telemetry tells the operator what Sluice does: logs and metrics.
//
// A request has one Event, filled in on its way and written once at its end. Logs and metrics
// never contain keys, prompts or replies. The labels of a metric come from closed sets, so
// that no caller can make them grow.
package telemetry

import (
	"context"
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

// NewLogger returns a logger that writes text for people or JSON for programs. Lines of
// successful requests are buffered for a moment and written together. flush writes them now;
// call it before the process exits.
func NewLogger(w io.Writer, asJSON bool, level slog.Leveler) (log *slog.Logger, flush func()) {
	opts := &slog.HandlerOptions{Level: level}
	held := &holder{to: w}
	h := slog.Handler(slog.NewTextHandler(held, opts))
	if asJSON {
		h = slog.NewJSONHandler(held, opts)
	}
	return slog.New(&handler{h, held}), held.flush
}

// handler flushes the buffer after every line that is not about a successful request. Only
// request lines wait, because a write for each would cost as much as formatting it.
type handler struct {
	slog.Handler
	held *holder
}

// Handle formats the record into the buffer, and flushes it unless the record is about a
// successful request.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level > slog.LevelInfo || r.Message != requestMessage {
		h.held.flush()
	}
	return err
}

// WithAttrs and WithGroup keep the same buffer, so that lines stay in order.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs), h.held}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.held}
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

// Write appends a line to the buffer. The first line starts the timer that flushes it.
func (h *holder) Write(line []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lines) == 0 {
		if h.timer == nil {
			h.timer = time.AfterFunc(holdFor, h.flush)
		} else {
			h.timer.Reset(holdFor)
		}
	}
	h.lines = append(h.lines, line...)
	if len(h.lines) >= holdMost {
		h.writeLocked()
	}
	return len(line), nil
}

// flush writes the buffer now. The timer and NewLogger's flush call it.
func (h *holder) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writeLocked()
}

// writeLocked writes the buffer. The caller holds mu.
func (h *holder) writeLocked() {
	if len(h.lines) > 0 {
		_, _ = h.to.Write(h.lines) // there is nowhere to report that the log cannot be written
		h.lines = h.lines[:0]
	}
}
