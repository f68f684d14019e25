package relay

import (
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Scanning by hand and decoding must tell the same of any usage object.
func FuzzScanUsage(f *testing.F) {
	for _, s := range []string{
		`{"prompt_tokens":57,"completion_tokens":143,"total_tokens":200,"prompt_tokens_details":{"cached_tokens":7,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":3}}`,
		`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`, `{ "completion_tokens" : 2 , "prompt_tokens" : null }`, `{}`, `null`, `[]`, `{"prompt_tokens":-1}`,
		`{"prompt_tokens":57,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":7,"cache_write_tokens":50}}`, `{"prompt_tokens":57,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":8,"cache_write_tokens":50}}`,
		`{"prompt_tokens":57,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":7,"audio_tokens":20,"image_tokens":5},"completion_tokens_details":{"audio_tokens":4,"image_tokens":1,"reasoning_tokens":2}}`,
		`{"prompt_tokens":57,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":50,"audio_tokens":20},"completion_tokens_details":{"audio_tokens":14}}`,
		`{"prompt_tokens":57,"completion_tokens":9,"prompt_cache_hit_tokens":50,"prompt_cache_miss_tokens":7}`, `{"prompt_tokens":57,"completion_tokens":9,"cached_tokens":50}`, `{"prompt_tokens":57,"completion_tokens":9,"num_cached_tokens":50}`,
		`{"prompt_tokens":57,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":0,"cache_creation_input_tokens":40,"cache_creation":{"ephemeral_5m_input_tokens":40}}}`,
		`{"prompt_tokens":1.5}`, `{"prompt_tokens":1e2}`, `{"prompt_tokens":"1"}`, `{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9}}`,
		`{"prompt_tokens":10,"completion_tokens":20,"total_tokens":45,"completion_tokens_details":{"reasoning_tokens":15}}`, `{"prompt_tokens":1,"completion_tokens":2,"total_tokens":"3"}`,
		`{"prompt_tokens":5,"prompt_tokens_details":null}`, `{"prompt_tokens":99999999999999999999}`, `{"prompt_tokens":01}`, `{"prompt_tokens":1}x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := scanUsage(raw)
		want, wantOK := provider.ReadUsage(raw)
		if ok != wantOK || got != want {
			t.Errorf("scanUsage(%s) = %+v, %t, want %+v, %t", raw, got, ok, want, wantOK)
		}
	})
}

// What an upstream wrote to its cache, and what was sound or pictures, is told where it tells it.
func TestAppendUsage(t *testing.T) {
	t.Parallel()
	u := chat.Usage{Prompt: 50, Cached: 7, CacheWrite5m: 20, CacheWrite: 5, Completion: 3}
	want := `{"prompt_tokens":57,"completion_tokens":3,"total_tokens":60,"prompt_tokens_details":{"cached_tokens":7,"cache_write_tokens":25},"completion_tokens_details":{"reasoning_tokens":0}}`
	if got := string(appendUsage(nil, u)); got != want {
		t.Errorf("appendUsage = %s, want %s", got, want)
	}
	u = chat.Usage{Prompt: 50, AudioIn: 20, ImageIn: 5, Completion: 9, AudioOut: 4, ImageOut: 1}
	want = `{"prompt_tokens":50,"completion_tokens":9,"total_tokens":59,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":20,"image_tokens":5},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":4,"image_tokens":1}}`
	if got := string(appendUsage(nil, u)); got != want {
		t.Errorf("appendUsage = %s, want %s", got, want)
	}
}

func BenchmarkScanUsage(b *testing.B) {
	raw := []byte(`{"prompt_tokens":57,"completion_tokens":143,"total_tokens":200,"prompt_tokens_details":{"cached_tokens":7,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":3,"audio_tokens":0}}`)
	want := chat.Usage{Prompt: 50, Cached: 7, Completion: 140, Reasoning: 3}
	for name, read := range map[string]func([]byte) (chat.Usage, bool){"scanned": scanUsage, "decoded": provider.ReadUsage} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if u, ok := read(raw); !ok || u != want {
					b.Fatal(u, ok)
				}
			}
		})
	}
}
