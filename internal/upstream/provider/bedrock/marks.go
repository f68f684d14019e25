package bedrock

import (
	"sluice/internal/upstream/caching"
	"sluice/internal/upstream/provider/claude"
)

// cachePoint is a block of its own that marks the end of what the vendor is to keep
// (docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CachePointBlock.html).
type cachePoint struct {
	Type string `json:"type"`          // default
	TTL  string `json:"ttl,omitempty"` // 5m, which is the default, or 1h
}

// mark sets marks where package caching wants them.
func (w *writer) mark() {
	marks := w.call.Marks
	if !w.claude || marks.None() {
		return
	}
	switch c := w.out.ToolConfig; {
	case marks.Head == caching.Not:
	case len(w.out.System) > 0:
		w.out.System, _ = w.Mark(w.out.System, claude.Lasting(marks.Head))
	case c != nil && len(c.Tools) > 0:
		c.Tools = append(c.Tools, tool{CachePoint: &cachePoint{"default", claude.Lasting(marks.Head).TTL}})
	}
	last, before := claude.UserTurns(w.out.Messages)
	w.markTurn(last, marks.Last)
	w.markTurn(before, marks.Before)
}

// markTurn marks the end of a turn; a negative index is none.
func (w *writer) markTurn(at int, ttl caching.TTL) {
	if at >= 0 && ttl != caching.Not {
		m := &w.out.Messages[at]
		m.Content, _ = w.Mark(m.Content, claude.Lasting(ttl))
	}
}
