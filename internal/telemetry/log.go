// Package telemetry is how Sluice tells its operator what it does: logs and metrics.
//
// A request has one Event, filled on its way and written once at its end. Neither logs nor metrics
// ever hold keys, prompts or answers, and the labels of a metric come from closed sets, so that no
// caller can make them grow.
package telemetry

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	holdFor  = 200 * time.Millisecond
	holdMost = 32 << 10
)

// NewLogger returns a logger that writes text for people or JSON for machines. The lines of requests
// that went well may wait a moment and are written together; flush writes them now.
func NewLogger(w io.Writer, asJSON bool, level slog.Leveler) (log *slog.Logger, flush func()) {
	opts := &slog.HandlerOptions{Level: level}
	held := &holder{to: w}
	h := slog.Handler(slog.NewTextHandler(held, opts))
	if asJSON {
		h = slog.NewJSONHandler(held, opts)
	}
	return slog.New(&handler{h, held}), held.flush
}

// handler lets nothing wait but the lines of requests: a write for each would cost as much as making
// the line.
type handler struct {
	slog.Handler
	held *holder
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level > slog.LevelInfo || r.Message != requestMessage {
		h.held.flush()
	}
	return err
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs), h.held}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.held}
}

// holder collects lines.
type holder struct {
	mu    sync.Mutex
	to    io.Writer
	lines []byte
	timer *time.Timer // nil as long as nothing was held
}

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

func (h *holder) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writeLocked()
}

// writeLocked writes what is held. The caller holds mu.
func (h *holder) writeLocked() {
	if len(h.lines) > 0 {
		_, _ = h.to.Write(h.lines) // a log that cannot be written has nobody to tell
		h.lines = h.lines[:0]
	}
}
