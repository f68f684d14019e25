package embeddings_test

import (
	"runtime"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/embeddings"
)

// Large bodies. Nobody pays for one that is refused, so reading it takes little
// beside the body itself (docs/security.md#memory).
func TestGreedyBodies(t *testing.T) { // not parallel: it measures what is allocated
	const size, most = 6 << 20, 5 << 20
	fill := func(start, middle, end string) []byte {
		n := (size - len(start) - len(end)) / len(middle)
		return []byte(start + strings.Repeat(middle, n) + end)
	}
	for name, body := range map[string][]byte{
		"tokens":                     fill(`{"model":"m","input":[1`, ",1", "]}"),
		"lists of tokens":            fill(`{"model":"m","input":[[1]`, ",[1]", "]}"),
		"long lists of tokens":       fill(`{"model":"m","input":[[1]`, ",[1"+strings.Repeat(",1", 20_000)+"]", "]}"),
		"texts":                      fill(`{"model":"m","input":["a"`, `,"a"`, "]}"),
		"one text":                   fill(`{"model":"m","input":"`, "a", `"}`),
		"long texts":                 fill(`{"model":"m","input":["a"`, `,"`+strings.Repeat("a", 1<<20)+`"`, "]}"),
		"objects":                    fill(`{"model":"m","input":[{}`, ",{}", "]}"),
		"a long model":               fill(`{"input":"a","model":"`, "a", `"}`),
		"an unknown field":           fill(`{"input":"","model":"m","x":[1`, ",1", "]}"),
		"many tokens, then no token": fill(`{"model":"m","input":[1`, ",1", ",-1]}"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := embeddings.Parse(body)
		runtime.ReadMemStats(&after)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: Parse = %v, want a fault", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%s: Parse allocates %d bytes for a body of %d that it refuses with %q, want at most %d", name, used, len(body), err, most)
		}
	}
}
