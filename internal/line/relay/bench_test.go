package relay

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"sluice/internal/upstream/provider"
)

// repeated is a stream that says the same over and over, then ends.
type repeated struct {
	event provider.Event
	last  provider.Event
	left  int
}

func (r *repeated) Next() (*provider.Event, error) {
	r.left--
	switch {
	case r.left > 0:
		return &r.event, nil
	case r.left == 0:
		return &r.last, nil
	}
	return nil, io.EOF
}

func (r *repeated) Ready() bool { return r.left%16 != 0 } // sixteen chunks arrive together
func (*repeated) Close() error  { return nil }

// discard is a caller who reads everything at once.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Flush()                      {}

const (
	benchChunk  = `{"id":"chatcmpl-abcdefghijklmnopqrstuvwxyz","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"abcdefgh"}`
	benchCall   = `{"id":"chatcmpl-a","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]},"logprobs":null,"finish_reason":null}],"usage":null}`
	benchFinish = `{"id":"chatcmpl-a","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`
	benchWhole  = `{"id":"chatcmpl-a","object":"chat.completion","created":1700000000,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":%q,"refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default"}`
)

var benchHead = Head{RequestID: "0123456789abcdef0123456789abcdef", Created: 1700000000, Model: "openai/gpt-4o"}

// benchStream relays one stream of b.N chunks, so that figures are those of a chunk.
func benchStream(b *testing.B, chunk string) {
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)))
	in := &repeated{event: provider.Event{Kind: provider.Chunk, Raw: []byte(chunk)}, last: provider.Event{Kind: provider.Chunk, Raw: []byte(benchFinish)}, left: b.N + 1}
	err := relayTo(context.Background(), &discard{http.Header{}}, in, benchHead, Options{Stream: true, N: 1}, func(*Outcome) {})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkStreamSpliced is the usual chunk: scanned and handed on.
func BenchmarkStreamSpliced(b *testing.B) { benchStream(b, benchChunk) }

// BenchmarkStreamScanned is a chunk that is not quite like the one before, so that it must be scanned.
func BenchmarkStreamScanned(b *testing.B) {
	in := &alternating{repeated{event: provider.Event{Kind: provider.Chunk, Raw: []byte(benchChunk)}, last: provider.Event{Kind: provider.Chunk, Raw: []byte(benchFinish)}, left: b.N + 1}}
	b.ReportAllocs()
	b.SetBytes(int64(len(benchChunk)))
	if err := relayTo(context.Background(), &discard{http.Header{}}, in, benchHead, Options{Stream: true, N: 1}, func(*Outcome) {}); err != nil {
		b.Fatal(err)
	}
}

// alternating changes a byte behind the choices with every chunk, as OpenAI's obfuscation does.
type alternating struct{ repeated }

func (a *alternating) Next() (*provider.Event, error) {
	a.event.Raw[len(a.event.Raw)-3] ^= 1
	return a.repeated.Next()
}

// BenchmarkStreamRewritten is a piece of a tool call: decoded and written anew.
func BenchmarkStreamRewritten(b *testing.B) { benchStream(b, benchCall) }

// BenchmarkCollect is a whole reply of 1 KB of text.
func BenchmarkCollect(b *testing.B) {
	text := make([]byte, 1024)
	for i := range text {
		text[i] = "abcde fgh"[i%9]
	}
	raw := fmt.Appendf(nil, benchWhole, text)
	w := &discard{http.Header{}}
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		in := &repeated{last: provider.Event{Kind: provider.Whole, Raw: raw}, left: 1}
		if err := relayTo(context.Background(), w, in, benchHead, Options{N: 1}, func(*Outcome) {}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestChunksCostNoMemory is not parallel: allocations of other tests would count. What is allocated
// must not grow with the number of chunks, be they alike or not.
func TestChunksCostNoMemory(t *testing.T) {
	if raced {
		t.Skip("buffers that return to a pool are dropped at random")
	}
	allocations := func(chunks int, alike bool, door Dialect) float64 {
		return testing.AllocsPerRun(5, func() {
			in := &alternating{repeated{event: provider.Event{Kind: provider.Chunk, Raw: []byte(benchChunk)}, last: provider.Event{Kind: provider.Chunk, Raw: []byte(benchFinish)}, left: chunks}}
			var stream provider.Stream = in
			if alike {
				stream = &in.repeated
			}
			if err := relayTo(context.Background(), &discard{http.Header{}}, stream, benchHead, Options{Stream: true, N: 1, Dialect: door}, func(*Outcome) {}); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, alike := range []bool{true, false} {
		for _, door := range []Dialect{nil, &quiet{}} {
			few, many := allocations(1000, alike, door), allocations(3000, alike, door)
			if many-few > 20 {
				t.Errorf("alike %t, dialect %T: 1000 chunks cost %v allocations, 3000 cost %v, want no more", alike, door, few, many)
			}
		}
	}
}
