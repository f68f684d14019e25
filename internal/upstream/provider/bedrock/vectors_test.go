package bedrock_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/bedrock"
	"sluice/internal/upstream/provider/providertest"
)

// TestVectors plays the embeddings door with the two dialects of embeddings on Bedrock: Titan takes one text, Cohere some.
func TestVectors(t *testing.T) {
	t.Parallel()
	read := func(model string, out any) func(*http.Request, []byte) {
		return func(r *http.Request, body []byte) {
			if err := json.Unmarshal(body, out); err != nil || r.URL.Path != "/model/"+model+"/invoke" || !strings.Contains(r.Header.Get("Authorization"), providertest.Key) {
				panic("a request that no upstream would understand: " + r.URL.Path + " " + string(body))
			}
		}
	}
	open := func(t *testing.T, baseURL string) (provider.Adapter, func()) {
		t.Helper()
		a, err := bedrock.New("us-east-1", bedrock.Keys{AccessKeyID: providertest.Key, SecretAccessKey: "secret"}, &bedrock.Options{BaseURL: baseURL})
		if err != nil {
			t.Fatal(err)
		}
		return a, a.Close
	}
	const titan, cohere = "amazon.titan-embed-text-v2:0", "cohere.embed-multilingual-v3"
	t.Run("titan", func(t *testing.T) {
		t.Parallel()
		providertest.Embeddings(t, providertest.VectorDialect{
			Model: titan, Counts: true, Refuse: writeError, Open: open,
			Read: func(r *http.Request, body []byte) ([]string, int) {
				var w struct {
					InputText  string
					Dimensions int
				}
				read(titan, &w)(r, body)
				return []string{w.InputText}, w.Dimensions
			},
			Write: func(_ http.Header, vectors [][]float32, tokens int) string {
				return providertest.Encode(object{"embedding": vectors[0], "inputTextTokenCount": tokens})
			},
		})
	})
	t.Run("cohere", func(t *testing.T) {
		t.Parallel()
		providertest.Embeddings(t, providertest.VectorDialect{
			Model: cohere, Counts: true, Refuse: writeError, Open: open,
			Read: func(r *http.Request, body []byte) ([]string, int) {
				var w struct {
					Texts      []string
					Dimensions int `json:"output_dimension"`
				}
				if read(cohere, &w)(r, body); len(w.Texts) > 96 {
					panic("more texts than the model takes")
				}
				return w.Texts, w.Dimensions
			},
			Write: func(header http.Header, vectors [][]float32, tokens int) string {
				header.Set("X-Amzn-Bedrock-Input-Token-Count", strconv.Itoa(tokens))
				return providertest.Encode(object{"id": "x", "embeddings": object{"float": vectors}})
			},
		})
	})
}
