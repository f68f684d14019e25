package openai_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/provider/providertest"
)

// TestVectors plays the embeddings door with an upstream of OpenAI's dialect, which answers in any order.
func TestVectors(t *testing.T) {
	t.Parallel()
	providertest.Embeddings(t, providertest.VectorDialect{
		Model: "vec-1", Counts: true, Refuse: writeError,
		Read: func(r *http.Request, body []byte) ([]string, int) {
			var w struct {
				Model      string
				Input      []string
				Dimensions int
			}
			if err := json.Unmarshal(body, &w); err != nil || r.URL.Path != "/v1/embeddings" || w.Model != "vec-1" || r.Header.Get("Authorization") != "Bearer "+providertest.Key {
				panic("a request that no upstream would understand: " + r.URL.Path + " " + string(body))
			}
			return w.Input, w.Dimensions
		},
		Write: func(_ http.Header, vectors [][]float32, tokens int) string {
			var data []any
			for i, v := range vectors {
				data = append(data, object{"object": "embedding", "index": i, "embedding": v})
			}
			slices.Reverse(data)
			return providertest.Encode(object{"object": "list", "data": data, "model": "vec-1", "usage": object{"prompt_tokens": tokens, "total_tokens": tokens}})
		},
		Open: func(t *testing.T, baseURL string) (provider.Adapter, func()) {
			t.Helper()
			a, err := openai.New(baseURL+"/v1", &openai.Options{APIKey: providertest.Key})
			if err != nil {
				t.Fatal(err)
			}
			return a, a.Close
		},
	})
}
