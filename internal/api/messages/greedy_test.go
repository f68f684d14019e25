package messages_test

import (
	"runtime"
	"strings"
	"testing"

	"sluice/internal/api/messages"
	"sluice/internal/kit/fault"
)

// A body that is refused because it holds too much does not take many times its own size first.
func TestGreedyBodies(t *testing.T) { // not parallel: it measures what is allocated
	const size, most = 16 << 20, 80 << 20
	fill := func(start, middle, end string) []byte {
		n := (size - len(start) - len(end)) / len(middle)
		return []byte(start + strings.Repeat(middle, n) + end)
	}
	const head = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":`
	for name, body := range map[string][]byte{
		"messages": fill(head+`"a"}`, `,{"role":"user","content":"a"}`, "]}"),
		"blocks":   fill(head+`[{"type":"text","text":"a"}`, `,{"type":"text","text":"a"}`, "]}]}"),
		"calls":    fill(head+`"a"},{"role":"assistant","content":[{"type":"text","text":"a"}`, `,{"type":"tool_use","id":"a","name":"b","input":{}}`, "]}]}"),
		"results":  fill(head+`[{"type":"tool_result","tool_use_id":"a"}`, `,{"type":"tool_result","tool_use_id":"a"}`, "]}]}"),
		"images":   fill(head+`[{"type":"text","text":"a"}`, `,{"type":"image","source":{"type":"url","url":"https://a.b/c"}}`, "]}]}"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := messages.Parse(body)
		runtime.ReadMemStats(&after)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: Parse = %v, want a fault", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%s: Parse allocates %d bytes for a body of %d that it refuses with %q, want at most %d", name, used, len(body), err, most)
		}
	}
}
