package usage

import (
	"strings"
	"testing"
)

// TestReasons keeps the reasons for the model and for the marks of a prompt apart, within the bound of both.
func TestReasons(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("r", 400)
	for _, tt := range []struct{ reason, cache, wantReason, wantCache string }{
		{"code; the best of 3", "", "code; the best of 3", ""},
		{"", "cached for 5m: 2 turns", "", "cached for 5m: 2 turns"},
		{"code", "not cached: first call", "code", "not cached: first call"},
		{long, "cached for 1h", long[:maxTraceReason-len("\ncached for 1h")], "cached for 1h"},
		{long, long, long[:maxTraceReason-1-maxTraceCache], long[:maxTraceCache]},
	} {
		got, err := ParseTrace(AppendTrace(nil, &Trace{Reason: tt.reason, Cache: tt.cache}))
		if err != nil || got.Reason != tt.wantReason || got.Cache != tt.wantCache {
			t.Errorf("a trace with the reasons %.20q and %.20q is read as %+v, %v", tt.reason, tt.cache, got, err)
		}
	}
}
