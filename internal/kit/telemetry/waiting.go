package telemetry

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// waiting is a sdk.SpanProcessor in front of the SDK's batches. It bounds the spans that wait for the collector, by
// their bytes too, and counts those it drops: the SDK's queue has room for all that it lets through, so that
// nothing is lost there without a trace. Before Run it keeps the spans itself.
type waiting struct {
	exporter *exporter
	spans    atomic.Int64 // that wait, and their bytes
	bytes    atomic.Int64

	mu      sync.Mutex // guards what follows
	early   []sdk.ReadOnlySpan
	batches sdk.SpanProcessor // nil before Run
	closed  bool              // after Run
}

// open passes the spans on from now on.
func (w *waiting) open(to sdk.SpanProcessor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches = to
	for _, s := range w.early {
		to.OnEnd(s)
	}
	w.early = nil
}

// close drops the spans that end from now on.
func (w *waiting) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// leave gives back the room of spans that are being sent.
func (w *waiting) leave(batch []sdk.ReadOnlySpan) {
	for _, s := range batch {
		w.spans.Add(-1)
		w.bytes.Add(-sizeOf(s))
	}
}

// OnStart implements sdk.SpanProcessor.
func (w *waiting) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor. A span for which there is no room is dropped: nobody waits.
func (w *waiting) OnEnd(s sdk.ReadOnlySpan) {
	size := sizeOf(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.spans.Load() >= mostSpans || w.bytes.Load()+size > mostSpanBytes {
		w.exporter.dropped.Add(1)
		return
	}
	w.spans.Add(1)
	w.bytes.Add(size)
	if w.batches == nil {
		w.early = append(w.early, s)
		return
	}
	w.batches.OnEnd(s)
}

// ForceFlush and Shutdown implement sdk.SpanProcessor. Run does what they would.
func (w *waiting) ForceFlush(context.Context) error { return nil }
func (w *waiting) Shutdown(context.Context) error   { return nil }

// sizeOf returns about how many bytes a span holds: a fixed part, and its texts.
func sizeOf(s sdk.ReadOnlySpan) int64 {
	n := int64(1 << 10)
	for _, a := range s.Attributes() {
		if a.Value.Type() == attribute.STRING {
			n += int64(len(a.Value.AsString()))
		}
	}
	return n
}
