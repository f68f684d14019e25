package usage

import (
	"strings"
	"testing"
)

// TestMarksOfTrace keeps what was marked for a cache, within its bound, apart from the reason for the model.
func TestMarksOfTrace(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("r", 400)
	for _, tt := range []struct{ reason, cache, wantReason, wantCache string }{
		{"code; the best of 3", "", "code; the best of 3", ""},
		{"", "cached for 5m: 2 turns", "", "cached for 5m: 2 turns"},
		{"code", "not cached: first call", "code", "not cached: first call"},
		{long, long, long[:maxTraceReason], long[:maxTraceCache]},
	} {
		got, err := ParseTrace(AppendTrace(nil, &Trace{Reason: tt.reason, Cache: tt.cache}))
		if err != nil || got.Reason != tt.wantReason || got.Cache != tt.wantCache {
			t.Errorf("a trace with the reason %.20q and the marks %.20q is read as %+v, %v", tt.reason, tt.cache, got, err)
		}
	}
}
