package gemini_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/gemini"
	"sluice/internal/upstream/provider/providertest"
)

// TestVectors plays the embeddings door with an upstream of Gemini's dialect, which has no figures.
func TestVectors(t *testing.T) {
	t.Parallel()
	providertest.Embeddings(t, providertest.VectorDialect{
		Model: "gemini-embedding-001", Refuse: writeError,
		Read: func(r *http.Request, body []byte) (texts []string, dimensions int) {
			var w struct {
				Requests []struct {
					Model                string
					OutputDimensionality int
					Content              struct{ Parts []struct{ Text string } }
				}
			}
			if err := json.Unmarshal(body, &w); err != nil || r.URL.Path != "/v1beta/models/gemini-embedding-001:batchEmbedContents" || len(w.Requests) > 100 || r.Header.Get("X-Goog-Api-Key") != providertest.Key {
				panic("a request that no upstream would understand: " + r.URL.Path + " " + string(body))
			}
			for _, q := range w.Requests {
				texts, dimensions = append(texts, q.Content.Parts[0].Text), q.OutputDimensionality
			}
			return texts, dimensions
		},
		Write: func(_ http.Header, vectors [][]float32, _ int) string {
			var list []any
			for _, v := range vectors {
				list = append(list, object{"values": v})
			}
			return providertest.Encode(object{"embeddings": list})
		},
		Open: func(t *testing.T, baseURL string) (provider.Adapter, func()) {
			t.Helper()
			a, err := gemini.New(baseURL+"/v1beta", &gemini.Options{APIKey: providertest.Key})
			if err != nil {
				t.Fatal(err)
			}
			return a, a.Close
		},
	})
}
